# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared pools: what they stand for, and what is said about wrong ones."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.filter.pools import expand_range, pool_nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_names import expand_ranges

LABEL = "nvidia.com/gpu.workload.config"
# What YAML makes of things that people forget to quote or to fill in.
SURPRISES = [
    None,
    True,
    False,
    0,
    7,
    1.5,
    float("nan"),
    "",
    "x",
    [],
    [[]],
    [None],
    {},
    {1: 2},
    {None: None},
    {"a": {}},
    {"key": []},
]


def names(*patterns):
    return [node["name"] for node in pool_nodes([{"name": "p", "nodes": list(patterns)}])]


def errors(*pools):
    with pytest.raises(AnsibleFilterError) as caught:
        pool_nodes(list(pools))
    return str(caught.value)


def pool(**more):
    return {"name": "p", "nodes": ["n"], **more}


def test_a_node_has_what_its_pool_declares():
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    (node,) = pool_nodes(
        [
            pool(
                workload="vm-vgpu",
                resources={"nvidia.com/A10-4Q": "2k"},
                labels={"zone": "a"},
                taints=[taint],
                capacity={"cpu": 8},
            )
        ]
    )
    assert node == {
        "name": "n",
        "pool": "p",
        "labels": {"zone": "a", "gpuwl.sandbox/pool": "p", LABEL: "vm-vgpu"},
        "resources": {"nvidia.com/A10-4Q": 2000},
        "taints": [taint],
        "capacity": {"cpu": "8", "memory": "256Gi", "pods": "110"},
    }


def test_fields_choose_what_is_given():
    assert pool_nodes([pool()], ["name", "taints"]) == [{"name": "n", "taints": []}]


def test_optional_keys_may_be_empty():
    assert pool_nodes([pool(workload=None, resources=None, labels=None, taints=None, capacity=None)]) == pool_nodes(
        [pool()]
    )


def test_order_is_that_of_the_declaration():
    pools = [{"name": "z", "nodes": ["z", "b-[1:2]"]}, {"name": "a", "nodes": ["a"]}]
    assert [node["name"] for node in pool_nodes(pools)] == ["z", "b-1", "b-2", "a"]


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("edge-[00:19]", ["edge-%02d" % number for number in range(20)]),
        ("r[a:c]", ["ra", "rb", "rc"]),
        ("r[a:b]-[09:10].example", ["ra-09.example", "ra-10.example", "rb-09.example", "rb-10.example"]),
        ("n[0:4:2]", ["n0", "n2", "n4"]),
        ("[:1]n", ["0n", "1n"]),
        ("n[5:5]", ["n5"]),
        ("10.0.0.1", ["10.0.0.1"]),
        ("1.5", ["1.5"]),
        ("007", ["007"]),
    ],
)
def test_ranges(pattern, expected):
    assert names(pattern) == expected


@pytest.mark.parametrize(
    "pattern, words",
    [
        ("n[3:1]", "begin must not be greater than end"),
        ("n[c:a]", "begin <= end"),
        ("n[01:3]", "equal-length"),
        ("n[0:9:0]", "brackets hold begin:end"),
        ("n[0:2", "brackets hold begin:end"),
        ("n0:2]", "brackets hold begin:end"),
        ("n[]", "brackets hold begin:end"),
        ("n[1]", "brackets hold begin:end"),
        ("n[1:x]", "brackets hold begin:end"),
        ("n[1:2:-1]", "brackets hold begin:end"),
        ("n[[0:1]]", "brackets hold begin:end"),
        ("n]0[", "brackets hold begin:end"),
        ("n[0:99999999999]", "stands for 100000000000 names, at most 100000"),
        ("n[0:999][0:999]", "stands for 1000000 names"),
        ("N[0:1]", '"N0" is no node name: only a-z'),
        ("n_[0:1]", '"n_0" is no node name'),
        ("-n", '"-n" is no node name'),
        ("", '"" is no node name: it is empty'),
        (" n", '" n" is no node name'),
        ("n" * 64, "has 64 characters, at most 63"),
        (5, "5 is no node name: it must be a string, not int"),
        (True, "true is no node name"),
        (None, "null is no node name"),
        (["n"], '["n"] is no node name'),
    ],
)
def test_wrong_names_and_ranges(pattern, words):
    told = errors(pool(nodes=[pattern, "good"]))
    assert told.startswith("pool p: nodes: ")
    assert words in told
    assert told.count("pool p") == 1


@pytest.mark.parametrize(
    "more, words",
    [
        ({"workload": True}, "workload: true is no label value: it must be a string, not bool: put it in quotes"),
        ({"workload": 1}, "workload: 1 is no label value"),
        ({"workload": "a b"}, 'workload: "a b" is no label value: only A-Z'),
        (
            {"workload": "vm-vgpu", "labels": {LABEL: "container"}},
            'workload is "vm-vgpu", but labels say nvidia.com/gpu.workload.config: "container": drop one',
        ),
        ({"labels": {"a": 1}}, 'labels: 1 of "a" is no label value: it must be a string, not int: put it in quotes'),
        (
            {"labels": {"a": True}},
            'labels: true of "a" is no label value: it must be a string, not bool: put it in quotes',
        ),
        ({"labels": {"a/b/c": "x"}}, 'labels: "a/b/c" is no label key: at most one'),
        ({"labels": {5: "x"}}, "labels: 5 is no label key: it must be a string"),
        ({"labels": ["a"]}, 'labels must be a mapping; found: ["a"]'),
        ({"labels": False}, "labels must be a mapping; found: false"),
        ({"labels": {"gpuwl.sandbox/pool": "q"}}, "labels: gpuwl.sandbox/pool is set by the lab itself: leave it out"),
        (
            {"labels": {"app.kubernetes.io/managed-by": "me"}},
            "labels: app.kubernetes.io/managed-by is set by the lab itself",
        ),
        (
            {"resources": {"nvidia.com/gpu": -1}},
            "resources: nvidia.com/gpu: -1 is negative: expected a whole number from 0",
        ),
        ({"resources": {"nvidia.com/gpu": 1.5}}, "resources: nvidia.com/gpu: 1.5 is not a whole number"),
        ({"resources": {"nvidia.com/gpu": None}}, "resources: nvidia.com/gpu: null is no quantity"),
        ({"resources": {"nvidia.com/gpu": True}}, "resources: nvidia.com/gpu: true is no quantity"),
        (
            {"resources": {"nvidia.com/gpu": "four"}},
            'resources: nvidia.com/gpu: "four" is no quantity: expected a whole number such as "4"',
        ),
        ({"resources": {"gpu": 1}}, 'resources: "gpu" is no resource name: an extended resource has a domain'),
        ({"resources": 4}, "resources must be a mapping; found: 4"),
        ({"capacity": {"cpu": "many"}}, 'capacity: cpu: "many" is no quantity such as 32, 500m or 256Gi'),
        ({"capacity": {"cpu": True}}, "capacity: cpu: true is no quantity"),
        ({"capacity": {"memory": -1}}, "capacity: memory: -1 is no quantity"),
        ({"capacity": {"pods": 1.5}}, "capacity: pods: 1.5 is not a whole number"),
        (
            {"capacity": {"nvidia.com/gpu": 1}},
            'capacity: "nvidia.com/gpu" is none of cpu, memory, pods, ephemeral-storage and hugepages-<size>: it belongs under resources',
        ),
        ({"capacity": {"ram": 1}}, 'capacity: "ram" is none of cpu'),
        ({"taints": "x"}, 'taints must be a list; found: "x"'),
        ({"taints": ["x"]}, 'taints: "x" must be {key, value, effect}'),
        ({"taints": [{"key": "a"}]}, "taints: effect null; allowed are NoSchedule, PreferNoSchedule, NoExecute"),
        ({"taints": [{"key": "a", "effect": "noschedule"}]}, 'taints: effect "noschedule"; allowed are NoSchedule'),
        ({"taints": [{"key": 1, "effect": "NoSchedule"}]}, "taints: key 1: it must be a string"),
        ({"taints": [{"key": "a", "value": True, "effect": "NoSchedule"}]}, "taints: value true: it must be a string"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "the taint a:NoSchedule stands 2 times"),
        ({"size": 3}, "unknown key size; known are name, nodes"),
        ({"nodes": "n"}, 'nodes must be a list of names or ranges such as edge-[00:19]; found: "n"'),
        ({"nodes": None}, "nodes must be a list"),
    ],
)
def test_what_is_wrong_with_a_pool(more, words):
    told = errors(pool(**more))
    assert told.startswith("pool p: ")
    assert words in told


@pytest.mark.parametrize("quantity, number", [("2k", 2000), (4.0, 4), ("4", 4), (0, 0), ("2000m", 2)])
def test_quantities_are_whole_numbers(quantity, number):
    assert pool_nodes([pool(resources={"nvidia.com/gpu": quantity})])[0]["resources"] == {"nvidia.com/gpu": number}


@pytest.mark.parametrize("name", [None, 5, True, "", "a b", "x" * 64, ["p"]])
def test_a_pool_without_a_proper_name_is_known_by_its_place(name):
    told = errors({"name": "good", "nodes": ["a"]}, {"name": name, "nodes": ["b"]})
    assert "name must be a text of letters, digits" in told
    assert "lab_pools[1]: " in told or f"pool {name}: " in told


def test_everything_wrong_is_told_at_once():
    told = errors(
        {
            "name": "a",
            "nodes": ["n", "N"],
            "size": 1,
            "labels": {"x": 1},
            "resources": {"gpu": -1},
            "taints": [{}],
            "capacity": {"cpu": "x"},
        },
        "b",
        {"name": "a", "nodes": ["n", "m[3:1]"]},
    )
    for words in (
        '"N"',
        "unknown key size",
        '1 of "x"',
        '"gpu" is no resource name',
        "-1 is negative",
        "key null",
        "effect null",
        'cpu: "x"',
        'lab_pools[1] must be a mapping with name and nodes; found: "b"',
        "the pool name a stands 2 times",
        "the node name n stands 2 times",
        '"m[3:1]"',
    ):
        assert words in told
    assert "\n" not in told


@pytest.mark.parametrize("pools", [None, True, 5, "pools", {}, {"name": "a"}, []])
def test_pools_must_be_a_list(pools):
    with pytest.raises(AnsibleFilterError, match="lab_pools must be a list of at least one pool"):
        pool_nodes(pools)


def test_some_pool_must_have_a_node():
    assert "lab_pools declares no node" in errors({"name": "a", "nodes": []})
    assert pool_nodes([{"name": "a", "nodes": []}, pool()])[0]["name"] == "n"


@pytest.mark.parametrize("key", ["name", "nodes", "workload", "resources", "labels", "taints", "capacity", 5])
@pytest.mark.parametrize("value", SURPRISES, ids=repr)
def test_no_value_ends_in_a_traceback(key, value):
    for wrapped in (value, [value], {"a/b": value}, [{"key": value, "effect": value, "value": value}]):
        try:
            assert pool_nodes([pool(name="p") | {key: wrapped}, wrapped])
        except AnsibleFilterError as error:
            assert "lab_pools[1]" in str(error)


def test_long_values_are_cut():
    assert len(errors(pool(labels={"a": "x" * 10000}))) < 500


def test_ten_thousand_nodes():
    patterns = ["n-%d" % number for number in range(10000)]
    assert len(names(*patterns)) == 10000
    assert errors(pool(nodes=patterns * 2)).count("stands 2 times") == 10000


@pytest.mark.parametrize("pattern", ["gpu-7", "gpu-[00:19]", "gpu-[8:11].x", "r[1:2]-n[0:4:2]", "z-[a:c]", "e-[:2]"])
def test_modules_expand_ranges_as_ansible_does(pattern):
    assert expand_ranges(pattern) == expand_range(pattern)
