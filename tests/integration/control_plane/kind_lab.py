# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labs of the tests' own whose provider is kind, with the docker and kind of fake_programs.py on PATH."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from control_plane_lab import Lab, Run

FAKES = Path(__file__).with_name("fake_programs.py")


class StandIns:
    """A docker and a kind, and what becomes of them."""

    def lay(self, base: Path, programs: Path) -> None:
        self.bin, self.fakes = base / "bin", base / "fakes"
        for folder in (self.fakes, self.bin):
            folder.mkdir(parents=True)
        for name in ("docker", "kind"):
            command = shlex.join([sys.executable, str(FAKES), str(self.fakes), str(programs), name])
            (self.bin / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (self.bin / name).chmod(0o755)

    def want(self, name: str, text: str = "") -> None:
        """Have the programs do something else than usual, see fake_programs.py."""
        (self.fakes / name).write_text(text)

    def want_no_more(self, name: str) -> None:
        (self.fakes / name).unlink()

    def calls(self, *beginning: str) -> list[list[str]]:
        """The command lines so far that begin like this."""
        file = self.fakes / "calls"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if line[: len(beginning)] == list(beginning)]

    def cluster(self, name: str = "gpuwl") -> Path:
        """Where a cluster of kind's lies; the folder is there as long as its containers are."""
        return self.fakes / "clusters" / name

    def leave_containers(self, name: str = "gpuwl", count: int = 4) -> None:
        """Have containers of a cluster that never got an API server."""
        self.cluster(name).mkdir(parents=True)
        (self.cluster(name) / "nodes").write_text(str(count))


class Case(StandIns):
    """One of several that a lab's play meets, with programs and a root of its own."""

    def __init__(self, lab: KindLab, name: str) -> None:
        self.lay(lab.base / "cases" / name, lab.programs)
        self.control_plane = lab.base / "cases" / name / "lab" / "control-plane"
        self.variables = {"control_plane_root": str(self.control_plane), "control_plane_nodes": ["lab-node-0"]}
        # The programs are looked for by the play itself, whose PATH stays as it is.
        link = f"ln -sfn {shlex.quote(str(self.bin))} {shlex.quote(str(lab.current))}"
        self.switch = {"debug": {"msg": f"{{{{ lookup('ansible.builtin.pipe', {json.dumps(link)}) }}}}"}}


@dataclass
class KindLab(Lab, StandIns):
    """A lab on kind, with the docker and kind that it finds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.variables = {"control_plane_provider": "kind"}
        self.lay(self.base, self.programs)
        self.users_own = self.base / "home" / "kubeconfig"
        self.users_own.write_text("the user's own\n")
        (self.base / "tools").mkdir()
        # Everything else that PATH has, so that a docker or kind of this machine's own is not found.
        for folder in map(Path, os.environ["PATH"].split(":")):
            for program in folder.glob("*") if folder.is_dir() else ():
                link = self.base / "tools" / program.name
                if program.name not in ("docker", "kind") and not os.path.lexists(link):
                    link.symlink_to(program)

    @property
    def current(self) -> Path:
        """What PATH has for a play of several cases: a link to the programs of the one that is met."""
        return self.base / "current"

    def met(self, cases: dict[str, Case], *arguments: str, tasks_from: str = "main") -> Run:
        """One play of all cases."""
        variables = {name: case.variables for name, case in cases.items()}
        before = {name: case.switch for name, case in cases.items()}
        path = {"PATH": f"{self.current}:{self.base / 'tools'}"}
        return self.cases(variables, tasks_from, environment=path, arguments=arguments, before=before)

    def environment(self, **more: str) -> dict[str, str]:
        # The user works with other clusters, whose kubeconfig kind and kubectl take when they are given none.
        return super().environment(
            **{"PATH": f"{self.bin}:{self.base / 'tools'}", "KUBECONFIG": str(self.users_own), **more}
        )

    def play(self, *arguments: str, **variables: object) -> Run:
        run = super().play(*arguments, **variables)
        assert self.users_own.read_text() == "the user's own\n"
        return run

    def stop_containers(self) -> None:
        (self.cluster() / "stopped").touch()
        self.kill(*self.pids())
