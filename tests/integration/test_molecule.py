# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The molecule scenario `default`, as `molecule test` runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCENARIO_ROOT = ROOT / ".cache" / "molecule" / "default"


def test_the_default_scenario_passes_and_leaves_nothing() -> None:
    # molecule calls ansible by name, and warns about a molecule folder at the top level unless told where to look.
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "MOLECULE_GLOB": "molecule/*/molecule.yml", "NO_COLOR": "1"}
    done = subprocess.run(
        [programs / "molecule", "test", "--scenario-name", "default"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    # molecule also calls a play successful in which nothing ran, so look for what verify did.
    verify = done.stdout[done.stdout.index("[default > verify] Executing") :]
    assert re.search(r"localhost +: ok=[6-9] +changed=0 +unreachable=0 +failed=0", verify), verify
    assert not SCENARIO_ROOT.exists()
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and str(SCENARIO_ROOT) in _command(pid)]


def _command(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text(errors="replace")
    except OSError:
        return ""
