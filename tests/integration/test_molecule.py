# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The molecule scenarios, as `molecule test` runs them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def passes(scenario: str) -> None:
    """Run a scenario, which must end well; nothing of it is left."""
    # molecule calls ansible by name, and warns about a molecule folder at the top level unless told where to look.
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MOLECULE_GLOB": "molecule/*/molecule.yml",
        "NO_COLOR": "1",
    }
    root = ROOT / ".cache" / "molecule" / scenario
    try:
        done = subprocess.run(
            [programs / "molecule", "test", "--scenario-name", scenario],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # kind may have to fetch its node image.
            timeout=1800,
            check=False,
        )
    except BaseException:
        clean_up(root, environment)
        raise
    assert done.returncode == 0, done.stdout[-5000:]
    # molecule also calls a play successful in which nothing ran, so look for what verify did.
    verify = done.stdout[done.stdout.index(f"[{scenario} > verify] Executing") :]
    assert re.search(r"localhost +: ok=[6-9] +changed=0 +unreachable=0 +failed=0", verify), verify
    assert not root.exists()
    assert not processes_of(root)


def processes_of(root: Path) -> list[int]:
    """What has the scenario's folder in its command line or, as the plays of molecule have, in its environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            told = Path("/proc", pid, "cmdline").read_bytes() + Path("/proc", pid, "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(root) in told and int(pid) != os.getpid():
            found.append(int(pid))
    return found


def clean_up(root: Path, environment: dict[str, str]) -> None:
    """End what a scenario that was interrupted has left, and remove it."""
    end = time.monotonic() + 60
    while (left := processes_of(root)) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    if root.name == "kind":
        # Only if it is the scenario's own.
        command = [Path(sys.executable).parent / "molecule", "destroy", "--scenario-name", "kind"]
        subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    shutil.rmtree(root, ignore_errors=True)


def why_no_kind() -> str | None:
    """Why kind cannot make a cluster on this machine, None where it can."""
    if not shutil.which("docker"):
        return "there is no program docker on PATH"
    try:
        done = subprocess.run(["docker", "version"], capture_output=True, text=True, timeout=15, check=False)
    except subprocess.TimeoutExpired:
        return "docker version does not end"
    if done.returncode:
        return f"the docker daemon does not answer: {' '.join(done.stderr.split())}"
    return None if shutil.which("kind") else "there is no program kind on PATH, though docker answers"


def test_the_default_scenario_passes_and_leaves_nothing() -> None:
    passes("default")


def test_the_kind_scenario_passes_and_leaves_nothing() -> None:
    why = why_no_kind()
    if why:
        pytest.skip(f"the molecule scenario kind was left out, because {why}")
    passes("kind")
    assert (
        "gpuwl-molecule"
        not in subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, check=True).stdout.split()
    )
