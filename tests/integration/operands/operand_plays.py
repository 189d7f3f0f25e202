# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab of operands as a user runs it, with a HOME and a folder for temporary files of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lab_plays import Lab, Played, run_playbook

FAKES = Path(__file__).parents[1] / "control_plane" / "fake_programs.py"


class OperandLab(Lab):
    """One HOME, with a blank in its path, and what the playbook makes in it."""

    def __init__(self, folder: Path, programs: Path):
        super().__init__(folder, programs)
        self.home, self.temporary = folder / "home of mine", folder / "tmp"
        for made in (self.home, self.temporary):
            made.mkdir()
        self.root = self.home / "gpuwl-operands"

    def play(self, *arguments: str, environment: dict | None = None, **variables) -> Played:
        """Run the playbook, whatever comes of it."""
        own = {"control_plane_source": "path", "control_plane_path": str(self.programs)}
        settings = {"HOME": str(self.home), "TMPDIR": str(self.temporary), **(environment or {})}
        return run_playbook(
            "operands.yml", *arguments, variables={**own, **self.declared, **variables}, folder=self.folder, **settings
        )

    def contents(self) -> dict[str, bytes]:
        """Every record as it is."""
        return {path.name: path.read_bytes() for path in self.files()}

    def left(self) -> list[str]:
        """All that is below HOME and the folder for temporary files but the records, and Ansible's own folder."""
        records = self.root / "out"
        return sorted(
            str(path.relative_to(self.folder))
            for place in (self.home, self.temporary)
            for path in place.rglob("*")
            if path not in (self.root, records) and records not in path.parents and ".ansible" not in path.parts
        )

    def kubectl_of_the_message(self, played: Played) -> dict:
        """What the command in the closing message gives, as JSON."""
        (command,) = [line.strip() for line in played.output.splitlines() if line.strip().startswith("kubectl ")]
        done = subprocess.run(
            [str(self.programs / "kubectl"), *shlex.split(command)[1:], "-o", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"{command}: {done.stderr}")
        return json.loads(done.stdout)

    def stand_in_for_kind(self) -> dict[str, str]:
        """A docker and a kind whose clusters are KWOK's; returns the environment that finds them."""
        path, fakes = self.folder / "bin", self.folder / "fakes"
        for made in (path, fakes):
            made.mkdir()
        for name in ("docker", "kind"):
            command = shlex.join([sys.executable, str(FAKES), str(fakes), str(self.programs), name])
            (path / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (path / name).chmod(0o755)
        return {"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin"}
