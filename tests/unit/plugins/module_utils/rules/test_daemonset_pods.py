# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When DaemonSets are settled, and what is awaited before that."""

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.daemonset_pods import (
    daemonset_numbers,
    daemonsets_awaited,
    daemonsets_by_node,
)

TAINTED = {"taints": [{"key": "a", "effect": "NoSchedule"}]}


def node(name, wanted=True, **spec):
    return {"metadata": {"name": name, "labels": {"run": "true" if wanted else "false"}}, "spec": spec}


def daemonset(count=1, **status):
    counts = dict.fromkeys(["desiredNumberScheduled", "numberReady", "updatedNumberScheduled"], count)
    return {
        "metadata": {"name": "driver", "uid": "u", "generation": 2},
        "spec": {"template": {"spec": {"nodeSelector": {"run": "true"}}}},
        "status": {"observedGeneration": 2, **counts, **status},
    }


def pod(where, phase="Running", ready="True", waits=False, **metadata):
    owner = {"uid": "u", "controller": True}
    meant = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}]}
    affinity = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": meant}}}
    return {
        "metadata": {"ownerReferences": [owner], **metadata},
        "spec": affinity if waits else {"nodeName": where},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("nodes", "one", "pods"),
    [
        ([node("a"), node("b", wanted=False)], daemonset(), [pod("a")]),
        ([node("a"), node("b", **TAINTED)], daemonset(), [pod("a")]),
        # A cordon keeps no Pod of a DaemonSet away, nor does what Kubernetes taints by itself.
        (
            [
                node(
                    "a",
                    unschedulable=True,
                    taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
                )
            ],
            daemonset(),
            [pod("a")],
        ),
        # A Pod on a node that was tainted since, counted anew or not.
        ([node("a", **TAINTED)], daemonset(0), [pod("a")]),
        ([node("a", **TAINTED)], daemonset(1), [pod("a")]),
        ([], daemonset(0), []),
    ],
)
def test_settled(nodes, one, pods):
    assert daemonsets_awaited(nodes, [one], pods) == []


@pytest.mark.parametrize(
    ("nodes", "one", "pods", "awaited"),
    [
        ([node("a")], daemonset(), [], "one Running Pod of driver on a, last seen: none"),
        (
            [node("a")],
            daemonset(),
            [pod("a", "Pending", waits=True)],
            "one Running Pod of driver on a, last seen: Pending",
        ),
        (
            [node("a")],
            daemonset(),
            [pod("a", ready="False")],
            "one Running Pod of driver on a, last seen: Running, not Ready",
        ),
        (
            [node("a")],
            daemonset(),
            [pod("a", deletionTimestamp="now")],
            "one Running Pod of driver on a, last seen: it is being deleted",
        ),
        ([node("a")], daemonset(), [pod("a"), pod("a")], "one Running Pod of driver on a, last seen: Running, Running"),
        ([node("a", wanted=False)], daemonset(0), [pod("a")], "that driver leaves a, last seen: Running"),
        (
            [node("a", taints=[{"key": "a", "effect": "NoExecute"}])],
            daemonset(0),
            [pod("a")],
            "that driver leaves a, last seen: Running",
        ),
        ([node("a")], daemonset(numberReady=0), [pod("a")], "driver: numberReady 1, last seen: 0"),
        (
            [node("a", wanted=False)],
            daemonset(0, desiredNumberScheduled=1),
            [],
            "driver: desiredNumberScheduled 0, last seen: 1",
        ),
        (
            [node("a")],
            daemonset(updatedNumberScheduled=0),
            [pod("a")],
            "driver: updatedNumberScheduled 1, last seen: 0",
        ),
        (
            [],
            daemonset(0, observedGeneration=1),
            [],
            "that the controller looks at driver, last seen: generation 1 of 2",
        ),
    ],
)
def test_awaited(nodes, one, pods, awaited):
    assert daemonsets_awaited(nodes, [one], pods) == [awaited]


def test_an_update_ends_what_a_taint_would_have_left():
    one, old = daemonset(0), pod("a", labels={"pod-template-generation": "1"})
    one["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "2"}
    assert daemonsets_awaited([node("a", **TAINTED)], [one], [old]) == ["that driver leaves a, last seen: Running"]
    one["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert daemonsets_awaited([node("a", **TAINTED)], [one], [old]) == []


def test_a_pod_of_somebody_elses_does_not_count():
    foreign = pod("a")
    foreign["metadata"]["ownerReferences"][0]["uid"] = "other"
    assert daemonsets_awaited([node("a")], [daemonset()], [foreign]) == [
        "one Running Pod of driver on a, last seen: none"
    ]


def test_the_truth_beside_the_number():
    nodes, pods = [node("b", **TAINTED), node("a"), node("c", wanted=False)], [pod("a")]
    assert daemonsets_by_node(nodes, [daemonset()], pods) == [
        {"node": "a", "daemonsets": ["driver"]},
        {"node": "b", "daemonsets": []},
        {"node": "c", "daemonsets": []},
    ]
    assert daemonset_numbers(nodes, [daemonset()], pods) == [
        {"name": "driver", "desired_number_scheduled": 1, "number_misscheduled": 0, "selected": 2, "running": 1}
    ]
