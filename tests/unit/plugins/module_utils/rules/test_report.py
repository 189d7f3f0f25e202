# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import Draft, finding
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_lines import json_object
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.lab_report import lab_json, lab_text
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Group, Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from hypothesis import given
from hypothesis import strategies as st


def group(name, message="m", silenced=""):
    return Group(Draft("no-resource", "error", message, "Do.", ()), "Node", [(name, "f")], silenced)


def outcome(checked, *groups, errors=()):
    return Outcome("lab", [], list(errors), checked, {}, list(groups), [])


def text(*arguments):
    return "\n".join(lab_text(outcome(*arguments)))


def found(name, message="m"):
    return finding("Node", name, "no-resource", message, "Do.", {}, node=name, source="f")


def test_a_line_per_bad_node():
    assert text(6, group("B"), group("a", "2"), group("b", "1"), group("b", "3")).splitlines() == [
        "MISMATCH=B m",
        "MISMATCH=a 2",
        "MISMATCH=b 1",
        "MISMATCH=b 3",
    ]


def test_all_well():
    assert text(0) == "OK=0"
    assert text(12) == "OK=12"
    assert text(1, group("a", silenced="--ignore")) == "OK=1"


def test_what_was_not_read_whole_is_not_well():
    assert list(lab_text(outcome(3, errors=["f: it is empty"]))) == []


@pytest.mark.parametrize(
    "given_text, shown",
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
def test_nothing_steers_the_terminal(given_text, shown):
    assert one_line(given_text) == shown
    assert text(1, group(given_text.replace(" ", ""), given_text)).count("\n") == 0


def test_a_name_is_one_word():
    assert text(1, group("a b")) == r"MISMATCH=a\x20b m"


def test_json():
    assert json.loads("\n".join(lab_json(outcome(2, group("a"), group("b"))))) == {
        "checked": 2,
        "findings": [found("a"), found("b")],
    }
    told = json.loads("\n".join(lab_json(outcome(2, group("a", silenced="--ignore"), errors=["f: it is empty"]))))
    assert told == {
        "checked": 2,
        "findings": [],
        "silenced": [{**found("a"), "by": "--ignore"}],
        "errors": ["f: it is empty"],
    }


@given(
    st.dictionaries(
        st.text(max_size=3), st.lists(st.dictionaries(st.text(max_size=3), st.text() | st.integers())), max_size=3
    )
)
def test_json_in_pieces_is_what_json_dumps_writes(members):
    pieces = json_object({key: iter(items) for key, items in members.items()})
    assert json.loads("\n".join(pieces)) == members
    whole = json_object(members)
    assert json.loads("\n".join(whole)) == members


def test_severities_are_fixed():
    with pytest.raises(ValueError, match="fatal"):
        finding("Node", "n", "r", "m", "Do.", {}, severity="fatal")
