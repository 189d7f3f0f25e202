# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_lines import json_object
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_report import (
    ask_for,
    not_judged,
    operator_json,
    operator_text,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    NOTHING_BESIDE,
    PASSTHROUGH,
    SANDBOX_ON,
    VGPU,
    findings,
    node,
    operator,
    outcome,
    policy,
    resource_slice,
)
from hypothesis import given
from hypothesis import strategies as st

WRONG = [
    node(PASSTHROUGH, {"gpu": str(4 + number % 2)}, name=f"gpu-{number:03d}", deployed=CONTAINER)
    for number in range(1, 201)
]


def text(nodes, beside=SANDBOX_ON, colour=False, **settings):
    return list(operator_text(outcome(nodes, beside, **settings), colour))


def blocks(lines):
    """The lines of each fault."""
    found = "\n".join(lines).split("\n\n")
    return [block.split("\n") for block in found[:-1]]


def test_many_nodes_with_one_fault_are_one_block():
    (block,) = blocks(text(WRONG))
    assert block[0] == "ERROR wrong-resource  200 nodes: gpu-[001:200]"
    assert "  found  status.capacity['nvidia.com/gpu'] = 4 (100), 5 (100)" in block
    assert [line for line in block if line.startswith("  do ")] == [
        "  do     kubectl label node gpu-{001..200} nvidia.com/gpu.workload.config=container --overwrite"
    ]


def test_many_values_are_counted():
    nodes = [node(PASSTHROUGH, {"gpu": str(number)}, name=f"n{number}") for number in range(1, 8)]
    (block,) = blocks(text(nodes))
    assert "  found  status.allocatable['nvidia.com/gpu'] = 1 (1), 2 (1), 3 (1), 4 (1), 3 more values" in block


def test_a_block_for_each_fault_the_gravest_first():
    nodes = [
        node(PASSTHROUGH, {"TU104GL_Tesla_T4": "1"}, name="info"),
        node(CONTAINER, {"gpu": "7"}, {"gpu": "8"}, name="warning"),
        *WRONG[:2],
        node(CONTAINER, {}, name="nothing"),
        node(name="healthy"),
    ]
    lines = text(nodes)
    assert [block[0] for block in blocks(lines)] == [
        "ERROR no-resource  1 node: nothing",
        "ERROR wrong-resource  2 nodes: gpu-[001:002]",
        "WARNING unhealthy-device  1 node: warning",
        "INFO unknown-resource  1 node: info",
    ]
    assert "6 nodes judged by the profile operator: 3 errors, 1 warning, 1 info" in lines


def test_a_healthy_cluster_is_a_line_and_what_it_rests_on():
    lines = text([node(), node(VGPU, name="gpu-2")], (*SANDBOX_ON, resource_slice("other", "x")))
    assert lines == [
        "2 nodes judged by the profile operator: 0 errors, 0 warnings, 0 info",
        *[line for line in lines if line.startswith("Read: ")],
    ]
    assert len(lines) == 3
    assert text([], SANDBOX_ON)[0] == "0 nodes judged by the profile operator: 0 errors, 0 warnings, 0 info"


def test_no_message_holds_a_number_of_its_node():
    """So that nodes of different sizes stay together."""
    for first, second in (
        (
            node(CONTAINER, {"gpu": "3"}, labels={"gpu.count": "8"}),
            node(CONTAINER, {"gpu": "5"}, labels={"gpu.count": "6"}),
        ),
        (node(CONTAINER, {"gpu": "3"}, {"gpu": "8"}), node(CONTAINER, {"gpu": "5"}, {"gpu": "6"})),
        (node(CONTAINER, {"gpu": "0"}, {"gpu": "8"}), node(CONTAINER, {"gpu": "0"}, {"gpu": "6"})),
        (node(CONTAINER, {"gpu": "3", "2571": "1"}), node(CONTAINER, {"gpu": "5", "2571": "4"})),
        (
            node(VGPU, {"NVIDIA_A10-4Q": "7"}, labels={"vgpu.config": "A10-4Q"}),
            node(VGPU, {"NVIDIA_A10-4Q": "5"}, labels={"vgpu.config": "A10-4Q"}),
        ),
        (
            node(CONTAINER, {"mig-1g.5gb": "7"}, labels={"mig.strategy": "mixed", "mig-1g.5gb.count": "14"}),
            node(CONTAINER, {"mig-1g.5gb": "14"}, labels={"mig.strategy": "mixed", "mig-1g.5gb.count": "7"}),
        ),
    ):
        (block,) = blocks(text([first, {**second, "metadata": {**second["metadata"], "name": "gpu-2"}}]))
        assert "2 nodes: gpu-[1:2]" in block[0]


def test_colour_is_asked_for():
    coloured = text(WRONG, colour=True)
    assert coloured[0].startswith("\x1b[31mERROR\x1b[0m wrong-resource")
    plain = [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in coloured]
    assert plain == text(WRONG)


def test_what_was_silenced_is_counted_and_told():
    ignore = {"gpuwl.sandbox/ignore.wrong-resource": "RMA 4711"}
    nodes = [
        *WRONG[:3],
        node(PASSTHROUGH, {"gpu": "4"}, name="mine", annotations=ignore),
        node(CONTAINER, {}, name="none"),
    ]
    lines = text(nodes, ignores=frozenset([("wrong-resource", "gpu-001"), ("no-resource", "")]))
    assert "Silenced: 3 findings" in lines
    assert '  wrong-resource on mine by annotation: "RMA 4711"' in lines
    assert "  wrong-resource on gpu-001 by --ignore" in lines
    assert "  no-resource on none by --ignore" in lines
    assert "5 nodes judged by the profile operator: 2 errors, 0 warnings, 0 info" in lines
    found = outcome([nodes[3]])
    assert found.exit_code() == 0 and len(list(found.silenced())) == 1


@pytest.mark.parametrize(
    "beside, kinds, ask",
    [
        (
            NOTHING_BESIDE,
            ["ClusterPolicy", "Deployment", "ResourceSlice"],
            "nodes,clusterpolicies.nvidia.com,deployments.apps,daemonsets.apps",
        ),
        ((policy(),), ["Deployment", "ResourceSlice"], "nodes,deployments.apps,daemonsets.apps"),
        ((operator(),), ["ClusterPolicy", "ResourceSlice"], "nodes,clusterpolicies.nvidia.com"),
        (SANDBOX_ON, ["ResourceSlice"], ""),
        ((*SANDBOX_ON, resource_slice("other")), [], ""),
    ],
)
def test_what_is_not_judged_is_said_with_what_to_ask_for(beside, kinds, ask):
    found = outcome(node(), beside)
    missing = not_judged(found)
    assert [one["kind"] for one in missing] == kinds
    for one in missing:
        assert one["rules"] and set(one["rules"]) <= RULE_PAGES.keys() and one["why"]
    assert ask_for(found) == (f"kubectl get {ask} --all-namespaces -o yaml > dump.yaml" if ask else "")
    lines = list(operator_text(found))
    assert len([line for line in lines if line.startswith("Not judged: ")]) == len(kinds)
    assert lines[-1].startswith("Ask for: kubectl get ") == bool(ask)


@pytest.mark.parametrize("nodes", [WRONG, WRONG[:1], [node()], []])
@pytest.mark.parametrize("ignores", [frozenset(), frozenset([("wrong-resource", "gpu-001")])])
def test_json_is_that_of_the_same_data(nodes, ignores):
    found = outcome(nodes, ignores=ignores)
    document = "\n".join(operator_json(found))
    data = json.loads(document)
    assert document == json.dumps(data, indent=2)
    assert list(data) == [
        "profile",
        "checked",
        "findings",
        "silenced",
        "read",
        "assumed",
        "not_judged",
        "ask_for",
        "left_out",
        "errors",
    ]
    assert data["findings"] == findings(nodes, ignores=ignores)
    assert data["silenced"] == list(found.silenced())
    assert (data["profile"], data["checked"], data["errors"]) == ("operator", len(nodes), [])
    for one in data["findings"]:
        assert list(one) == ["evidence", "message", "node", "remedy", "rule", "severity", "source", "subject"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(), values, max_size=4), st.dictionaries(st.text(), st.lists(values, max_size=3), max_size=2)
)
def test_json_in_pieces_is_json(plain, lists):
    members = {**plain, **{key: iter(items) for key, items in lists.items()}}
    document = "\n".join(json_object(members))
    whole = {**plain, **lists}
    assert json.loads(document) == whole
    if whole:
        sorted_within = json.loads(json.dumps(whole))
        expected = json.dumps(
            {key: json.loads(json.dumps(value, sort_keys=True)) for key, value in sorted_within.items()}, indent=2
        )
        assert document == expected


@pytest.mark.parametrize(
    "nodes, fail_on, code",
    [
        ([node()], "info", 0),
        (WRONG[:1], "error", 1),
        ([node(CONTAINER, {"gpu": "7"}, {"gpu": "8"})], "error", 0),
        ([node(CONTAINER, {"gpu": "7"}, {"gpu": "8"})], "warning", 1),
        ([node(PASSTHROUGH, {"TU104GL_Tesla_T4": "1"})], "warning", 0),
        ([node(PASSTHROUGH, {"TU104GL_Tesla_T4": "1"})], "info", 1),
    ],
)
def test_the_exit_code(nodes, fail_on, code):
    assert outcome(nodes).exit_code(fail_on) == code
    assert outcome(nodes).exit_code(fail_on, require_nodes=True) == code
    assert outcome([]).exit_code(fail_on, require_nodes=True) == 3


def test_a_version_that_is_not_known_is_told():
    for version, known in (("26.70", False), ("24.9", False), ("26.7.3", True), ("v26.3.0", True)):
        (line,) = [
            line for line in text(node(), (policy(), operator("v" + version.lstrip("v")))) if "Read: operator" in line
        ]
        assert ("the nearest known" in line) is not known


def test_what_was_recognised_is_not_called_unjudged():
    dra = outcome(node(None, {}, labels={"gpu.deploy.dra-driver": "true"}))
    assert "ResourceSlice" not in [missing["kind"] for missing in not_judged(dra)]
    assert "ResourceSlice" in [missing["kind"] for missing in not_judged(outcome(node()))]
