# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public workflow runs all groups of checks, by make targets that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_the_workflow_runs_every_group_of_checks():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    job = workflow["jobs"]["tests"]
    assert {"run": "make ${{ matrix.target }}"} in job["steps"]
    command = [sys.executable, str(ROOT / "tests" / "run_checks.py"), "--list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    groups = {line.split()[0] for line in listed.splitlines()}
    assert groups == set(job["strategy"]["matrix"]["target"])
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert groups <= targets
