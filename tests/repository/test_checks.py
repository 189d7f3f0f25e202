# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of the checks does not call something passed that has not run."""

from __future__ import annotations

import os
import subprocess
import sys

import definitions
import pytest
import results
from workplace import NEWEST, OLDEST, ROOT, Failed

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.unit.plugins.test_a" name="test_one"/>
<testcase classname="tests.unit.plugins.test_a.TestClass" name="test_two"><failure message="no"/></testcase>
<testcase classname="tests.unit.plugins.test_b" name="test_three"><skipped message="no docker"/></testcase>
<testcase classname="tests.unit.plugins.test_c" name=": node_labels : test_four"/>
</testsuite></testsuites>"""


@pytest.fixture
def junit(tmp_path):
    (tmp_path / "junit.xml").write_text(JUNIT)
    return tmp_path / "junit.xml"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "tests" / "run_checks.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_junit_files_are_counted(junit):
    counted = results.count([junit])
    assert (counted.passed, counted.failed, counted.skipped) == (2, 1, ["test_three: no docker"])
    assert counted.modules == {"tests.unit.plugins.test_a", "tests.unit.plugins.test_c"}
    assert results.count([junit], ": node_labels : ").passed == 1


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"tests/unit/plugins/test_b.py"}, "no test ran of tests/unit/plugins/test_b.py"),
        ({"tests/unit/other/test_a.py"}, "no test ran of tests/unit/other/test_a.py"),
        (set(), "no test ran"),
        ({"tests/unit/plugins/test_a.py"}, "1 tests failed"),
    ],
)
def test_what_did_not_run_or_failed_is_a_failure(junit, wanted, problem):
    with pytest.raises(Failed, match=problem):
        definitions.tested(definitions.Run("units"), [junit], wanted)


@pytest.mark.parametrize(
    "name", ["tests/test_new.py", "tests/integration/test_new.py", "tests/integration/new/test_new.py"]
)
def test_a_test_file_that_no_check_runs_is_refused(monkeypatch, name):
    there = definitions.files
    monkeypatch.setattr(
        definitions, "files", lambda *patterns: [*there(*patterns), *([name] if "tests" in patterns else [])]
    )
    with pytest.raises(Failed, match=f"no check runs {name}"):
        definitions.all_tests_have_a_check()


def test_all_test_files_of_today_have_a_check():
    definitions.all_tests_have_a_check()


def test_a_wrong_name_is_refused():
    done = run("nosuch")
    assert done.returncode == 2 and "nosuch: no such check or group" in done.stdout


def test_both_cores_are_checked():
    names = {check.name for check in definitions.CHECKS}
    for environment in (NEWEST, OLDEST):
        assert {f"{name}-{environment.name}" for name in ("units", "sanity", "targets")} <= names
