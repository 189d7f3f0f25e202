# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from control_plane_lab import CHECKOUT, PLAYBOOK, new_lab


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the seven programs, as the playbook names it."""
    if os.environ.get("GPUWL_BIN"):
        return Path(os.environ["GPUWL_BIN"]).resolve()
    done = subprocess.run(
        [str(PLAYBOOK), "playbooks/programs.yml"],
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    found = re.search(r"programs of the control plane\s+are\s+in\s+(/.*)", done.stdout)
    assert found, done.stdout + done.stderr
    return Path(found[1].strip())


@pytest.fixture
def lab(programs):
    made = new_lab(programs)
    yield made
    made.destroy()


@pytest.fixture(scope="session")
def running(programs):
    """A lab that runs, for all tests but those of kind; each leaves it running, but the last of test_teardown.py."""
    made = new_lab(programs)
    try:
        made.start().succeeded()
        yield made
    finally:
        made.destroy()


@pytest.fixture
def own_process():
    """Starts processes that have nothing to do with a lab, and must survive it."""
    started: list[subprocess.Popen] = []

    def start(*command: str, name: str | None = None) -> subprocess.Popen:
        started.append(subprocess.Popen([name or command[0], *command[1:]], executable=shutil.which(command[0])))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
