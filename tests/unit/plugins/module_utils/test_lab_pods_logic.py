# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the lab's Pods are asked for anew when the declaration of the nodes changed under them."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _lab_pods
from ansible_collections.gpuwl.sandbox.plugins.module_utils._kwok_nodes import MARK

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int, taints: list[dict] | None = None, **labels: str) -> dict:
    spec = {"taints": taints} if taints else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": {GPU: str(gpus)}}}


def pod(name: str, gpus: int, on: str | None = None, selector: dict | None = None) -> dict:
    spec = {"containers": [{"name": "cuda", "image": "cuda", "resources": {"limits": {GPU: gpus}}}]}
    if selector:
        spec["nodeSelector"] = selector
    made = {"metadata": {"name": name, "namespace": "ns", "labels": dict(MARK)}, "spec": spec}
    if on:
        made["spec"]["nodeName"] = on
        made["status"] = {"phase": "Running"}
    return made


def replaced(nodes: list[dict], *pods: dict) -> dict[str, str]:
    wanted = {}
    for one in pods:
        definition = copy.deepcopy(one)
        definition["spec"].pop("nodeName", None)
        wanted[_lab_pods.key_of(one)] = definition
    return _lab_pods.plan(wanted, {_lab_pods.key_of(one): one for one in pods}, nodes)["replaced"]


def test_a_pod_whose_node_still_takes_it_stays() -> None:
    assert replaced([node("n", 4, pool="a")], pod("p", 2, "n", {"pool": "a"}), pod("q", 2, "n")) == {}


@pytest.mark.parametrize(
    "nodes, why",
    [
        ([node("n", 1, pool="a")], "no longer has enough nvidia.com/gpu"),
        ([node("n", 0, pool="a")], "no longer has enough nvidia.com/gpu"),
        ([node("n", 4, pool="b")], "no longer has the labels"),
        ([node("n", 4, [{"key": "k", "effect": "NoSchedule"}], pool="a")], "has a taint"),
        ([node("m", 4, pool="a")], "is gone"),
    ],
)
def test_a_pod_whose_node_would_not_take_it_is_asked_for_anew(nodes: list[dict], why: str) -> None:
    found = replaced(nodes, pod("p", 2, "n", {"pool": "a"}))
    assert list(found) == ["ns/p"] and why in found["ns/p"]


def test_all_pods_that_share_too_few_cards_are_asked_for_anew() -> None:
    assert sorted(replaced([node("n", 3), node("m", 2)], pod("p", 2, "n"), pod("q", 2, "n"), pod("r", 2, "m"))) == [
        "ns/p",
        "ns/q",
    ]


def namespace(name: str, own: bool, ending: bool = False) -> dict:
    ended = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}
    return {"metadata": {"name": name, "labels": dict(MARK) if own else {}, **ended}}


@pytest.mark.parametrize(
    ("wanted", "present", "others", "created", "removed", "warned"),
    [
        ({"a"}, [], [], ["a"], [], 0),
        ({"a"}, [namespace("a", own=True), namespace("b", own=False)], [], [], [], 0),
        (set(), [namespace("a", own=True), namespace("b", own=False)], [], [], ["a"], 0),
        (set(), [namespace("a", own=True)], ["a"], [], [], 1),
        # A teardown is under way: what is being deleted is waited for and made anew.
        ({"a"}, [namespace("a", own=True, ending=True)], [], ["a"], ["a"], 0),
        ({"a"}, [namespace("a", own=False, ending=True)], [], ["a"], ["a"], 0),
        (set(), [namespace("a", own=True, ending=True)], [], [], ["a"], 0),
        (set(), [namespace("b", own=False, ending=True)], [], [], [], 0),
    ],
)
def test_which_namespaces_come_and_go(wanted, present, others, created, removed, warned):
    inside = {name: ["configmaps/theirs"] for name in others}
    found = _lab_pods.plan_namespaces(
        wanted, {item["metadata"]["name"]: item for item in present}, lambda name: inside.get(name, [])
    )
    assert (found["namespaces"], found["namespaces_removed"], len(found["warnings"])) == (created, removed, warned)
