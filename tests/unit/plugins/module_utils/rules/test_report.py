# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import finding
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import json_text, lab_text, one_line


def found(name, message="m"):
    return finding("Node", name, "no-resource", message, "Do.", {}, node=name)


def test_lines_ascend_by_name_and_repeat_with_the_node():
    findings = [found("b", "1"), found("a", "2"), found("b", "3"), found("B"), found("a-10"), found("a-9")]
    assert lab_text(findings, 6).splitlines() == [
        "MISMATCH=B m",
        "MISMATCH=a 2",
        "MISMATCH=a-10 m",
        "MISMATCH=a-9 m",
        "MISMATCH=b 1",
        "MISMATCH=b 3",
    ]


def test_all_well():
    assert lab_text([], 0) == "OK=0"
    assert lab_text([], 12) == "OK=12"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain 节点 é", "plain 节点 é"),
        ("a\nOK=3", r"a\nOK=3"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\ud800", r"\ud800"),
        ("a\u2028b", r"a\u2028b"),
        ("a\u202eb", r"a\u202eb"),
        ("\r\t\0", r"\r\t\x00"),
        ("\x85\x9b", r"\x85\x9b"),
    ],
)
def test_nothing_steers_the_terminal(text, shown):
    assert one_line(text) == shown
    assert lab_text([found(text.replace(" ", ""), text)], 1).count("\n") == 0


def test_a_name_is_one_word():
    assert lab_text([found("a b")], 1) == r"MISMATCH=a\x20b m"


def test_json():
    assert json.loads(json_text([found("b"), found("a")], 2)) == {"checked": 2, "findings": [found("a"), found("b")]}


def test_severities_are_fixed():
    with pytest.raises(ValueError, match="fatal"):
        finding("Node", "n", "r", "m", "Do.", {}, severity="fatal")
