# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the README and the guide on dumps show of the checker is what it prints."""

import importlib.util
import json
import pathlib
import re
import textwrap

import pytest
from test_plugin_docs import FUNCTIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]

_found = importlib.util.spec_from_file_location("make_guide_runs", ROOT / "tests" / "make_guide_runs.py")
make_guide_runs = importlib.util.module_from_spec(_found)
_found.loader.exec_module(make_guide_runs)

SESSIONS = [
    pytest.param(textwrap.dedent(text[one.start : one.end]), one.commands, id=f"{path.name}-{one.commands[0]}")
    for path in make_guide_runs.TEXTS
    for text in [path.read_text(encoding="utf-8")]
    for one in make_guide_runs.sessions(path, text)
]
COMMANDS = [command for session in SESSIONS for command in session.values[1]]


@pytest.mark.parametrize(("shown", "commands"), SESSIONS)
def test_a_session_shows_what_the_checker_prints(shown, commands):
    assert shown == make_guide_runs.run(commands), "run `make guide-runs`"


def test_no_call_of_the_checker_is_passed_over():
    for path in make_guide_runs.TEXTS:
        text = path.read_text(encoding="utf-8")
        shown = len(re.findall(r"^ *\$ .*check-config\.sh", text, re.MULTILINE))
        seen = [command for one in make_guide_runs.sessions(path, text) for command in one.commands]
        assert shown == sum("check-config.sh" in command for command in seen) > 0, path.name


def test_every_example_is_shown():
    for path in make_guide_runs.EXAMPLES.iterdir():
        assert [command for command in COMMANDS if path.name in command], path.name


def test_there_is_a_run_on_a_dump_of_each_kind():
    commands = "\n".join(COMMANDS)
    for words in (
        r"\.json",
        r"cluster\.dump",  # YAML of several documents, by content and not by name
        r"must-gather$",
        r"\.tar\.gz",
        r"\.txt",
        r"\| sh check-config\.sh .*-$",
        "--format json",
    ):
        assert re.search(words, commands, re.MULTILINE), words


def test_json_in_the_guide_is_json():
    parts = [part for session in SESSIONS for part in re.split(r"^\$ ", session.values[0], flags=re.MULTILINE)]
    shown = [part.partition("\n")[2] for part in parts if "--format json" in part.partition("\n")[0]]
    assert shown
    for text in shown:
        assert json.loads(text)["checked"]


@pytest.mark.parametrize("form", ["junit", "github"])
def test_reports_for_other_programs_are_shown_as_they_are(form, monkeypatch):
    monkeypatch.chdir(make_guide_runs.EXAMPLES)
    judged = FUNCTIONS["check_reports"]("described.txt", "operator", fail_on="warning", formats=[form])
    guide = make_guide_runs.TEXTS[-1].read_text(encoding="utf-8")
    assert textwrap.indent(judged[0]["outputs"][form], "   ") in guide
