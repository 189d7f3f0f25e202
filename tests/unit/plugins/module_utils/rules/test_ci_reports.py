# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from xml.etree import ElementTree

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.ci_reports import github_lines, junit_xml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Outcome
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    PASSTHROUGH,
    SANDBOX_ON,
    VGPU,
    gpu_cluster,
    node,
    outcome,
    policy,
)
from hypothesis import given
from hypothesis import strategies as st

NODES = [
    node(name="healthy"),
    node(CONTAINER, {"gpu": "7"}, {"gpu": "8"}, name="warned"),
    node(PASSTHROUGH, {"TU104GL_Tesla_T4": "1"}, name="informed"),
    node(PASSTHROUGH, {"gpu": "8"}, deployed=CONTAINER, name="twice"),
    *[node(VGPU, {}, name=f"gpu-{number}") for number in range(1, 4)],
]
HOSTILE = [
    '"><x y="',
    "a&b",
    "]]>",
    "\x1b[31m",
    "\x00",
    "\ud800",
    "\ufffe",
    "a\nb",
    "::error::x",
    "%0A",
    "é\u202e",
    "a,b:c",
]


def junit(found, suite="dump.yaml", **more):
    (testsuite,) = ElementTree.fromstring("\n".join(junit_xml(found, suite, **more)).encode())
    return testsuite


def counts(testsuite):
    return [int(testsuite.get(key)) for key in ("tests", "failures", "errors")]


def really(testsuite):
    cases = list(testsuite)
    return [
        len(cases),
        sum(case.find("failure") is not None for case in cases),
        sum(case.find("error") is not None for case in cases),
    ]


@pytest.mark.parametrize("fail_on, failures", [("error", 4), ("warning", 5), ("info", 6)])
def test_a_test_case_for_each_node(fail_on, failures):
    testsuite = junit(outcome(NODES), fail_on=fail_on)
    assert counts(testsuite) == really(testsuite) == [7, failures, 0]
    cases = {case.get("name"): case for case in testsuite}
    assert set(cases) == {one["metadata"]["name"] for one in NODES}
    assert list(cases["healthy"]) == []
    assert [failure.get("type") for failure in cases["twice"].iter("failure")][:1] == ["wrong-resource"]
    (failure,) = cases["gpu-2"].iter("failure")
    assert "offers no GPU" in failure.get("message") and failure.text
    informed = cases["informed"]
    assert (informed.find("system-out") is None) == (fail_on == "info")


def test_what_is_not_about_a_node_and_what_could_not_be_read():
    testsuite = junit(outcome(NODES[:1], (*SANDBOX_ON, gpu_cluster(), policy(name="other", state=""))))
    assert counts(testsuite) == really(testsuite) == [3, 1, 0]
    assert {case.get("name") for case in testsuite} == {"healthy", "GPUCluster gpu-cluster", "ClusterPolicy other"}
    unread = Outcome("operator", [], ["dump.yaml: it is empty", "b: <&>\x1b"], 0, {}, [], [])
    testsuite = junit(unread)
    assert counts(testsuite) == really(testsuite) == [2, 0, 2]
    assert testsuite[0].find("error").get("message") == "dump.yaml: it is empty"


def test_a_silenced_finding_fails_nothing():
    testsuite = junit(outcome(NODES, ignores=frozenset([("no-resource", "")])))
    assert counts(testsuite) == really(testsuite) == [7, 1, 0]
    assert not list(github_lines(outcome(NODES[4:], ignores=frozenset([("no-resource", "")]))))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name):
    found = outcome([node(PASSTHROUGH, {"gpu": "8", name: "1"}, name=name), node(CONTAINER, {}, name=name + "2")])
    testsuite = junit(found, suite=name)
    assert counts(testsuite) == really(testsuite) == [2, 2, 0]
    for line in github_lines(found):
        assert line.isprintable()
        command, _colons, rest = line[2:].partition("::")
        assert command.split(" ")[0] in ("error", "warning", "notice")
        assert "\n" not in rest


@given(st.text().filter(str.strip), st.text(), st.sampled_from(SEVERITIES))
def test_any_text_gives_xml(name, suite, fail_on):
    found = outcome(node(name, {name: "1", "gpu": "x" + name}, name=name))
    testsuite = junit(found._replace(errors=[suite]), suite, fail_on=fail_on)
    assert counts(testsuite) == really(testsuite)


def test_github_has_a_line_for_each_fault():
    lines = list(github_lines(outcome(NODES)))
    assert [line.split("::")[1] for line in lines] == [
        "error title=no-resource",
        "error title=wrong-resource",
        "warning title=unhealthy-device",
        "notice title=unknown-resource",
    ]
    assert lines[0].split("::")[2].startswith("gpu-[1:3]: ")
    many = [node(PASSTHROUGH, {"gpu": str(number % 2 + 1)}, name=f"n{number:03d}") for number in range(200)]
    (line,) = github_lines(outcome(many))
    assert "n[000:199]" in line


def test_github_escapes_what_it_would_read():
    unread = Outcome("operator", [], ["100% of\r\n::error::it"], 0, {}, [], [])
    (line,) = github_lines(unread)
    assert line == "::error title=unreadable::100%25 of\\r\\n::error::it"
    group = outcome(NODES[4:5]).groups[0]
    named = group._replace(subjects=[("gpu-1", "a,b:c%.yaml")])
    (line,) = github_lines(Outcome("operator", [], [], 1, {}, [named], []))
    assert line.startswith("::error file=a%2Cb%3Ac%25.yaml,title=no-resource::gpu-1: ")
