# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook audit.yml as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from lab_plays import Played, run_playbook


class Audits:
    """Runs with one root, one HOME and one folder for temporary files, whose names have a blank."""

    def __init__(self, cluster, folder: Path):
        self.folder, self.home, self.temporary = folder, folder / "a home", folder / "a tmp"
        for made in (self.home, self.temporary):
            made.mkdir()
        self.root = self.home / "gpuwl-audit"
        self.environment = {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "KUBECONFIG": str(cluster.kubeconfig),
        }

    def run(self, *arguments: str, environment: dict | None = None, **variables) -> Played:
        """Run the playbook, whatever comes of it. It never leaves a temporary folder, and never ends in a traceback."""
        own = {**self.environment, **(environment or {})}
        played = run_playbook("audit.yml", *arguments, variables=variables, folder=self.folder, **own)
        assert not list(self.temporary.glob("gpuwl-audit-*")), "a dump was left behind"
        assert "Traceback" not in played.output, played.output
        return played

    def text(self) -> str:
        return (self.root / "out" / "audit.txt").read_text("utf-8")

    def report(self) -> dict:
        return json.loads((self.root / "out" / "audit.json").read_text("utf-8"))

    def junit(self) -> ElementTree.Element:
        return ElementTree.parse(self.root / "out" / "audit-junit.xml").getroot()

    def found(self) -> set[tuple[str, str]]:
        """(rule, name) of all findings."""
        return {(one["rule"], one["subject"]["name"]) for one in self.report()["findings"]}

    def times(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (self.root / "out").iterdir()}
