# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_status as status
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import ApiError

GPU = "nvidia.com/gpu"


def node(capacity, allocatable=None, managed=()):
    fields = [
        {
            "manager": manager,
            "subresource": sub,
            "fieldsV1": {"f:status": {"f:capacity": {".": {}, **{f"f:{name}": {} for name in names}}}},
        }
        for manager, sub, names in managed
    ]
    return {
        "metadata": {"name": "n", "managedFields": fields},
        "status": {"capacity": capacity, "allocatable": capacity if allocatable is None else allocatable},
    }


def wish(**options):
    return {"set": {}, "remove": set(), "prefix": None, **options}


@pytest.mark.parametrize(
    "capacity, allocatable, asked, written",
    [
        ({}, {}, {"set": {GPU: 4}}, {GPU: "4"}),
        ({GPU: "4"}, {GPU: "4"}, {"set": {GPU: 4}}, None),
        ({GPU: "2k"}, {GPU: "2000"}, {"set": {GPU: 2000}}, None),
        ({GPU: "4"}, {}, {"set": {GPU: 4}}, {GPU: "4"}),
        ({GPU: "4"}, {GPU: "3"}, {"set": {GPU: 4}}, {GPU: "4"}),
        ({}, {GPU: "4"}, {"remove": {GPU}}, {GPU: None}),
        ({GPU: "0"}, {GPU: "0"}, {"remove": {GPU}}, {GPU: None}),
        ({}, {}, {"remove": {GPU}}, None),
        ({}, {}, {"set": {GPU: 0}}, {GPU: "0"}),
        (
            {GPU: "1", "amd.com/gpu": "1", "nvidia.com.x/y": "1"},
            None,
            {"set": {"nvidia.com/a": 1}, "prefix": "nvidia.com/"},
            {GPU: None, "nvidia.com/a": "1"},
        ),
        ({"cpu": "1", "hugepages-2Mi": "0", "attachable.kubernetes.io/x": "1"}, None, {"prefix": "a"}, None),
    ],
)
def test_difference_and_its_application(capacity, allocatable, asked, written):
    current, asked = status.extended(node(capacity, allocatable)), wish(**asked)
    patch = status.patch_of(status.difference(current, asked))
    assert patch == (written and {"capacity": written, "allocatable": written})
    if patch:
        after = status.foreseen(current, asked)
        assert status.patch_of(status.difference(after, asked)) is None and after["capacity"].get(GPU) == after[
            "allocatable"
        ].get(GPU)


@pytest.mark.parametrize(
    "manager, sub, quantity, asked, refused",
    [
        ("kubelet", "status", "4", {"set": {GPU: 5}}, True),
        ("kubelet", "status", "4", {"remove": {GPU}}, True),
        ("kubelet", "status", "4", {"prefix": "nvidia.com/"}, True),
        ("kubelet", "status", "4", {"set": {GPU: 4}}, False),
        ("kubelet", "status", "0", {"remove": {GPU}}, False),
        ("kubelet", "status", "0", {"set": {GPU: 5}}, False),
        ("kubelet", "", "4", {"remove": {GPU}}, False),
        ("gpuwl", "status", "4", {"remove": {GPU}}, False),
        ("kubectl-create", "status", "4", {"remove": {GPU}}, False),
        ("kwok-controller", "status", "4", {"set": {GPU: 5}}, False),
    ],
)
def test_only_what_the_kubelet_keeps_above_zero_is_refused(manager, sub, quantity, asked, refused):
    there = node({GPU: quantity}, managed=[(manager, sub, [GPU])])
    assert bool(status.refusals(there, wish(**asked), False)) == refused
    assert status.refusals(there, wish(**asked), True) == []


def test_lagging_needs_a_kubelet_and_a_capacity_that_is_right():
    kubelet = [("kubelet", "status", [])]
    assert status.lagging(node({GPU: "4"}, {}, kubelet), wish(set={GPU: 4}))
    assert not status.lagging(node({GPU: "4"}, {}), wish(set={GPU: 4}))
    assert not status.lagging(node({GPU: "3"}, {}, kubelet), wish(set={GPU: 4}))
    assert not status.lagging(node({GPU: "4"}, {GPU: "4"}, kubelet), wish(set={GPU: 4}))


def test_the_entry_wins_over_what_is_said_for_all():
    said = {
        "resources": {GPU: 1, "a.b/c": "2k"},
        "resources_to_remove": ["x.y/z"],
        "resources_state": "merge",
        "resources_prefix": "a.b/",
    }
    entry = {"name": "n", "resources": {GPU: 3, "x.y/z": 1}, "resources_to_remove": ["a.b/c"]}
    assert status.wish_of(entry, said) == {"set": {GPU: 3, "x.y/z": 1}, "remove": {"a.b/c"}, "prefix": None}


def test_all_problems_in_one_error():
    entries = [
        {"name": "a", "resources": {"cpu": 1}, "resources_to_remove": None},
        {"name": "a", "resources": {GPU: "x"}, "resources_to_remove": [GPU]},
        {"name": "", "resources": None, "resources_to_remove": None},
    ]
    with pytest.raises(ApiError) as error:
        status.validate({"nodes": entries, "resources": {}, "resources_to_remove": [], "resources_prefix": "nvidia"})
    for part in (
        "'a' stands 2 times",
        "nodes[2].name is empty",
        "'cpu'",
        '"x"',
        "also stands in resources",
        "'nvidia'",
    ):
        assert part in str(error.value)


def test_results_are_strings_of_whole_numbers():
    pair = (status.extended(node({GPU: "2k"})), status.extended(node({GPU: "2k", "b.c/d": "1"})))
    result = status.result_of(["n"], {"n": pair})
    assert result["nodes"][0]["before"] == {"capacity": {GPU: "2000"}, "allocatable": {GPU: "2000"}}
    assert result["diff"] == {
        "before": {"n": {"capacity": {}, "allocatable": {}}},
        "after": {"n": {"capacity": {"b.c/d": "1"}, "allocatable": {"b.c/d": "1"}}},
    }
