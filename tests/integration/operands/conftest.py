# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

# The plays of the lab's tests, and the programs of all integration tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

from operand_plays import OperandLab


@pytest.fixture(scope="session")
def programs(request) -> Path:
    """The folder of the control plane's programs, found as by all integration tests."""
    return request.config.pluginmanager.get_plugin(str(Path(__file__).parents[1] / "conftest.py")).binaries()


@pytest.fixture(scope="module")
def make_lab(programs):
    """A function that gives a new OperandLab with an empty HOME."""
    made: list[OperandLab] = []

    def make() -> OperandLab:
        made.append(OperandLab(Path(tempfile.mkdtemp(prefix="gpuwl-test-")).resolve(), programs))
        return made[-1]

    yield make
    for lab in made:
        lab.destroy()
