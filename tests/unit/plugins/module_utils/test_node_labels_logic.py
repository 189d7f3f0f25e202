# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_labels as labels


def entry(**options):
    return {"name": "n", "labels": None, "labels_state": None, "labels_to_remove": None, **options}


def params(**options):
    return {"labels": {}, "labels_state": "merge", "labels_to_remove": [], **options}


@pytest.mark.parametrize(
    "key", ["kubernetes.io/os", "node.kubernetes.io/x", "a.b.kubernetes.io/x", "k8s.io/x", "sub.k8s.io/x"]
)
def test_reserved(key):
    assert labels.is_reserved(key)


@pytest.mark.parametrize(
    "key",
    ["rack", "kubernetes.io", "example.com/kubernetes.io", "mykubernetes.io/x", "kwok.x-k8s.io/node", "nvidia.com/gpu"],
)
def test_not_reserved(key):
    assert not labels.is_reserved(key)


def test_the_entry_wins_over_what_is_said_for_all():
    said = params(labels={"a": "all", "b": "all", "c": 3}, labels_to_remove=["x", "y"])
    wish = labels.wish_of(entry(labels={"a": "own", "x": "kept"}, labels_to_remove=["b"], labels_state="replace"), said)
    assert wish == {"set": {"a": "own", "c": "3", "x": "kept"}, "remove": {"b", "y"}, "replace": True}


@pytest.mark.parametrize(
    "current, wish, changes",
    [
        ({}, {"set": {"a": "1"}}, {"a": "1"}),
        ({"a": "1"}, {"set": {"a": "1"}}, {}),
        ({"a": "1", "b": ""}, {"set": {"a": "2"}, "remove": {"b", "c"}}, {"a": "2", "b": None}),
        ({"a": "1", "kubernetes.io/os": "linux"}, {"replace": True}, {"a": None}),
        ({"kubernetes.io/os": "linux"}, {"replace": True, "remove": {"kubernetes.io/os"}}, {"kubernetes.io/os": None}),
        ({"a": "1"}, {"set": {"a": "1"}, "replace": True}, {}),
    ],
)
def test_difference_and_its_application(current, wish, changes):
    wish = {"set": {}, "remove": set(), "replace": False, **wish}
    assert labels.difference(current, wish) == changes
    # Applied once, nothing is left to do: this is what idempotence rests on.
    assert labels.difference(labels.applied(current, changes), wish) == {}


@pytest.mark.parametrize("value", [True, None, 1.5, ["x"], {"x": 1}, "a b", "-x", "x" * 64])
def test_bad_values(value):
    assert len(labels.problems_of_labels("", {"a": value}, None)) == 1


@pytest.mark.parametrize("value", ["", "x", "A.b_c-1", 7, "x" * 63])
def test_good_values(value):
    assert labels.problems_of_labels("", {"a": value}, ["b"]) == []


def test_the_diff_holds_only_what_changes():
    result = labels.result_of(
        ["m", "n"],
        {"n": ({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}), "m": ({"z": "1"}, {"z": "1"})},
    )
    assert result["diff"] == {"before": {"n": {"b": "1", "c": "1"}}, "after": {"n": {"b": "2", "d": "1"}}}
    assert [node["changed"] for node in result["nodes"]] == [False, True] and result["changed"]
