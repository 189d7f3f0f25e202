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


@dataclass
class KindLab(Lab):
    """A lab on kind, and what becomes of the docker and kind that it finds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.variables = {"control_plane_provider": "kind"}
        self.fakes = self.base / "fakes"
        self.users_own = self.base / "home" / "kubeconfig"
        self.users_own.write_text("the user's own\n")
        for folder in (self.fakes, self.bin, self.base / "tools"):
            folder.mkdir()
        # Everything else that PATH has, so that a docker or kind of this machine's own is not found.
        for folder in map(Path, os.environ["PATH"].split(":")):
            for program in folder.glob("*") if folder.is_dir() else ():
                link = self.base / "tools" / program.name
                if program.name not in ("docker", "kind") and not os.path.lexists(link):
                    link.symlink_to(program)
        for name in ("docker", "kind"):
            command = shlex.join([sys.executable, str(FAKES), str(self.fakes), str(self.programs), name])
            (self.bin / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (self.bin / name).chmod(0o755)

    @property
    def bin(self) -> Path:
        return self.base / "bin"

    def environment(self, **more: str) -> dict[str, str]:
        # The user works with other clusters, whose kubeconfig kind and kubectl take when they are given none.
        return super().environment(
            **{"PATH": f"{self.bin}:{self.base / 'tools'}", "KUBECONFIG": str(self.users_own), **more}
        )

    def play(self, *arguments: str, **variables: object) -> Run:
        run = super().play(*arguments, **variables)
        assert self.users_own.read_text() == "the user's own\n"
        return run

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

    def stop_containers(self) -> None:
        (self.cluster() / "stopped").touch()
        self.kill(*self.pids())
