# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler decided about every Pod that asks for a GPU."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.filter.decisions import decisions
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import listed, pod


def made(name, when=None, order=None, **more):
    built = pod(name, {"nvidia.com/gpu": "1"}, **more)
    built["metadata"]["creationTimestamp"] = when
    if order is not None:
        built["metadata"]["annotations"] = {"gpuwl.sandbox/order": order}
    return built


def names(*pods):
    return [decision["name"] for decision in decisions(list(pods))]


def test_a_placed_pod():
    assert decisions([made("p", node_name="n", message="old words")]) == [
        {
            "namespace": "gpu-vm",
            "name": "p",
            "resource": "nvidia.com/gpu",
            "quantity": 1,
            "phase": "Running",
            "node": "n",
            "reason": None,
            "message": None,
        }
    ]


def test_a_waiting_pod():
    waiting = made("p", message="0/1 nodes are available")
    waiting["status"]["conditions"][0]["reason"] = "Unschedulable"
    (decision,) = decisions(listed([waiting]))
    assert (decision["node"], decision["phase"], decision["reason"], decision["message"]) == (
        None,
        "Pending",
        "Unschedulable",
        "0/1 nodes are available",
    )


def test_a_pod_that_nobody_has_looked_at():
    fresh = made("p")
    del fresh["status"]
    (decision,) = decisions([fresh])
    assert (decision["phase"], decision["node"], decision["reason"], decision["message"]) == (
        "Pending",
        None,
        None,
        None,
    )


def test_a_decision_per_resource_of_the_prefix():
    both = pod("p", {"nvidia.com/b": "2k", "nvidia.com/a": 1, "cpu": "1", "amd.com/gpu": "1"})
    assert [(decision["resource"], decision["quantity"]) for decision in decisions([both])] == [
        ("nvidia.com/a", 1),
        ("nvidia.com/b", 2000),
    ]
    assert [decision["resource"] for decision in decisions([both], "amd.com/")] == ["amd.com/gpu"]
    assert decisions([pod("p", {"cpu": "1"})]) == decisions([]) == []


def test_order_is_that_of_the_declaration():
    early, late = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
    assert names(made("a", late, "0"), made("b", early, "10"), made("c", early, "9")) == ["a", "c", "b"]
    # Pods of somebody else's come after the lab's.
    assert names(made("z", early), made("y", late), made("a", late, "0")) == ["a", "z", "y"]


@pytest.mark.parametrize("order", ["", "x", "-1", "1.5", 5, None, "²"])
def test_an_order_of_somebody_elses_is_no_traceback(order):
    assert names(made("a", order=order), made("b", order="1")) == ["b", "a"]


@pytest.mark.parametrize("value", [None, 5, "/no/such/file", [5], {"kind": "Node"}])
def test_what_is_no_pods_is_one_line(value):
    with pytest.raises(AnsibleFilterError) as caught:
        decisions(value)
    assert str(caught.value) and "\n" not in str(caught.value)
