# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What junit files say. A suite passes only by what stands there: exit codes of 0 have been seen with no test run."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Counted:
    """How many tests passed and failed, why others were left out, and which modules ran."""

    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)


def count(paths: Iterable[Path], about: str = "") -> Counted:
    """Count the test cases in junit files, those with this text in their names."""
    counted = Counted()
    for path in paths:
        for case in ET.parse(path).iter("testcase"):
            if about not in (case.get("name") or ""):
                continue
            skipped = case.find("skipped")
            if skipped is not None:
                counted.skipped.append(f"{case.get('name')}: {skipped.get('message')}")
                continue
            counted.modules.add(_module(case.get("classname") or ""))
            if case.find("failure") is None and case.find("error") is None:
                counted.passed += 1
            else:
                counted.failed += 1
    return counted


def _module(classname: str) -> str:
    """The dotted name of the test file, without a class behind it."""
    parts = classname.split(".")
    while parts and not parts[-1].startswith("test_"):
        parts.pop()
    return ".".join(parts)
