# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stages of the operand lab as data: what they become, and what is wrong with them."""

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.filter.operand_lab import FilterModule

stages, outdated, table = (
    FilterModule().filters()[name] for name in ("operand_stages", "outdated_stage_files", "operand_stage_table")
)

DEPLOY = "nvidia.com/gpu.deploy."
DAEMONSETS = [
    {"name": "driver", "selector": {DEPLOY + "driver": "true"}},
    {"name": "everywhere", "selector": {"gpu": "yes"}, "tolerations": [{"operator": "Exists"}]},
]
NODES = [{"name": "n-0", "labels": {"gpu": "yes"}}]
TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}


def runs(declared, nodes=None, daemonsets=None):
    found = stages(declared, NODES if nodes is None else nodes, daemonsets or DAEMONSETS)
    return [{entry["node"]: entry["daemonsets"] for entry in stage["runs"]} for stage in found]


def test_what_one_stage_changes_stays_so_in_the_next():
    declared = [
        {"name": "first", "labels": {"n-0": {DEPLOY + "driver": "true"}}},
        {"name": "second", "nodes": [{"name": "n-1", "labels": {DEPLOY + "driver": "True"}}]},
        {"name": "third", "labels_to_remove": {"n-0": [DEPLOY + "driver"]}},
    ]
    found = stages(declared, NODES, DAEMONSETS)
    assert [stage["record"] for stage in found] == ["01-first", "02-second", "03-third"]
    assert [stage["changes"] for stage in found] == [
        ["n-0 joins with gpu=yes", "n-0 gets nvidia.com/gpu.deploy.driver=true"],
        ["n-1 joins with nvidia.com/gpu.deploy.driver=True"],
        ["n-0 loses nvidia.com/gpu.deploy.driver"],
    ]
    # Only exactly "true" is the label's value that a DaemonSet asks for.
    assert runs(declared) == [
        {"n-0": ["driver", "everywhere"]},
        {"n-0": ["driver", "everywhere"], "n-1": []},
        {"n-0": ["everywhere"], "n-1": []},
    ]
    assert found[0]["nodes"][0]["labels"] == {"gpu": "yes", DEPLOY + "driver": "true"}
    assert found[2]["labels"][0] == {"name": "n-0", "labels": {"gpu": "yes"}, "labels_to_remove": [DEPLOY + "driver"]}
    assert NODES == [{"name": "n-0", "labels": {"gpu": "yes"}}]


@pytest.mark.parametrize(
    ("effect", "then"),
    [
        ("NoSchedule", ["driver", "everywhere"]),
        ("NoExecute", ["everywhere"]),
        ("PreferNoSchedule", ["driver", "everywhere"]),
    ],
)
def test_what_a_taint_does_to_what_runs_already(effect, then):
    labelled = [{"name": "n-0", "labels": {"gpu": "yes", DEPLOY + "driver": "true"}}]
    declared = [{"name": "before"}, {"name": "tainted", "taints": {"n-0": [{**TAINT, "effect": effect}]}}]
    assert runs(declared, labelled)[1] == {"n-0": then}


def test_what_the_operators_daemonsets_tolerate_is_the_default():
    labels = {DEPLOY + "driver": "true"}
    nodes = [
        {"name": "a", "labels": labels, "taints": [{"key": "nvidia.com/gpu", "value": "x", "effect": "NoSchedule"}]},
        {"name": "b", "labels": labels, "taints": [TAINT]},
    ]
    assert runs([{"name": "x"}], nodes) == [{"a": ["driver"], "b": []}]
    assert runs([{"name": "x"}], nodes, [{**DAEMONSETS[0], "tolerations": []}]) == [{"a": [], "b": []}]


@pytest.mark.parametrize(
    ("declared", "nodes", "daemonsets", "words"),
    [
        (5, [], DAEMONSETS, "operands_stages must be a list of at least one entry, each with a name; found: 5"),
        (
            [{"name": "A"}],
            [],
            DAEMONSETS,
            'operands_stages[0]: name must be small letters, digits and inner dashes, at most 60; found: "A"',
        ),
        ([{"name": "a"}, {"name": "a"}], [], DAEMONSETS, "the stage name a stands 2 times"),
        ([{"name": "a", "typo": 1}], [], DAEMONSETS, 'stage a: unknown key "typo"; known are name, nodes, labels'),
        (
            [{"name": "a", "labels": {"x": {"k": "v"}}}],
            NODES,
            DAEMONSETS,
            'stage a: labels: there is no node "x" by then; there are n-0',
        ),
        ([{"name": "a", "labels": {"n-0": {"k": True}}}], NODES, DAEMONSETS, "put it in quotes"),
        ([{"name": "a", "labels": {"n-0": 5}}], NODES, DAEMONSETS, "labels of n-0 must be a mapping; found: 5"),
        (
            [{"name": "a", "labels": {"n-0": {"kubernetes.io/hostname": "x"}}}],
            NODES,
            DAEMONSETS,
            "is set by the lab itself",
        ),
        ([{"name": "a", "labels_to_remove": {"n-0": ["k"]}}], NODES, DAEMONSETS, 'n-0 has no label "k" by then'),
        (
            [{"name": "a", "labels_to_remove": {"n-0": "gpu"}}],
            NODES,
            DAEMONSETS,
            'labels_to_remove of n-0 must be a list; found: "gpu"',
        ),
        ([{"name": "a", "taints": {"n-0": [{"key": "k"}]}}], NODES, DAEMONSETS, "effect null; allowed are NoSchedule"),
        ([{"name": "a", "nodes": NODES}], NODES, DAEMONSETS, "nodes: node n-0: n-0 is there already"),
        ([{"name": "a"}], [{"name": "N"}], DAEMONSETS, "must be a mapping with a name of small letters"),
        ([{"name": "a"}], "n-0", DAEMONSETS, 'operands_nodes must be a list; found: "n-0"'),
        ([{"name": "a"}], [], [], "operands_daemonsets must be a list of at least one entry"),
        (
            [{"name": "a"}],
            [],
            [{"name": "x"}],
            "DaemonSet x: selector must name a label, such as {nvidia.com/gpu.deploy.x: 'true'}",
        ),
        (
            [{"name": "a"}],
            [],
            [{**DAEMONSETS[0], "tolerations": ["x"]}],
            'DaemonSet driver: tolerations: "x" must be a mapping',
        ),
        ([{"name": "a"}], [], DAEMONSETS[:1] * 2, "the DaemonSet name driver stands 2 times"),
    ],
)
def test_what_cannot_be_is_told(declared, nodes, daemonsets, words):
    with pytest.raises(AnsibleFilterError) as caught:
        stages(declared, nodes, daemonsets)
    assert words in str(caught.value)


def test_records_of_stages_that_are_declared_no_more(tmp_path):
    file = tmp_path / "stages.json"
    file.write_text(json.dumps({"schema": 1, "stages": [{"record": "01-a"}, {"record": "02-b"}]}))
    assert outdated(str(file), [{"record": "01-a"}]) == ["out/02-b.txt", "out/02-b-audit.txt"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"stages": 5}', '{"stages": [{}]}'])
def test_a_note_that_is_none_names_nothing(tmp_path, content):
    file = tmp_path / "stages.json"
    file.write_text(content)
    assert outdated(str(file), []) == []
    assert outdated(str(tmp_path / "nowhere"), []) == []


def test_deploy_labels_are_told_in_short():
    many = {DEPLOY + "driver": "true", DEPLOY + "dcgm": "true", "other": "x"}
    lines = table(stages([{"name": "a", "labels": {"n-0": many}}], NODES, DAEMONSETS))
    assert lines[0].endswith("n-0 gets nvidia.com/gpu.deploy.{driver,dcgm}=true, other=x")
    assert lines[1] == "  n-0  driver,everywhere"
