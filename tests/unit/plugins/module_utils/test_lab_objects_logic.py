# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the lab does with its Pods and nodes, decided from objects alone."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _kwok_nodes, _lab_pods
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import ApiError

OWN = {"app.kubernetes.io/managed-by": "gpuwl.sandbox"}


def definition(name="p", quantity=1, namespace="ns", **spec):
    container = {"name": "cuda", "image": "i", "resources": {"limits": {"nvidia.com/gpu": quantity}}}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": dict(OWN)},
        "spec": {"containers": [container], **spec},
    }


def node(name="n", taints=(), gpus="4", written="2026-01-01T00:00:00Z"):
    fields = [{"manager": "gpuwl", "time": written}, {"manager": "kwok", "time": "2030-01-01T00:00:00Z"}]
    return {
        "metadata": {
            "name": name,
            "labels": dict(OWN),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": fields,
        },
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"allocatable": {"nvidia.com/gpu": gpus, "cpu": "1"}, "capacity": {}},
    }


def live(asked, on=None, nodes=(), looked="2026-01-01T00:00:09Z"):
    """The Pod that became of a definition, as the API server gives it."""
    pod = copy.deepcopy(asked)
    for container in pod["spec"]["containers"]:
        container["resources"] = {
            field: {"nvidia.com/gpu": str(container["resources"]["limits"]["nvidia.com/gpu"])}
            for field in ("limits", "requests")
        }
    pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", []), *copy.deepcopy(_lab_pods.AUTOMATIC_TOLERATIONS)]
    pod["metadata"] |= {
        "uid": asked["metadata"]["name"],
        "managedFields": [{"manager": "kube-scheduler", "time": looked}],
    }
    pod["metadata"]["annotations"] = {
        _lab_pods.NODES: _lab_pods.fingerprint(nodes),
        **asked["metadata"].get("annotations", {}),
    }
    pod["status"] = {"phase": "Running" if on else "Pending"}
    if on:
        pod["spec"]["nodeName"] = on
    return pod


def planned(wanted, pods, nodes):
    todo = _lab_pods.plan(
        {_lab_pods.key_of(pod): pod for pod in wanted}, {_lab_pods.key_of(pod): pod for pod in pods}, nodes
    )
    return {what: list(keys) for what, keys in todo.items() if keys}


def test_nothing_to_do():
    nodes = [node()]
    wanted = [definition("a"), definition("b", tolerations=[{"key": "k", "operator": "", "value": "v", "effect": ""}])]
    assert planned(wanted, [live(wanted[0], "n"), live(wanted[1], None, nodes)], nodes) == {}


def test_a_toleration_that_says_the_default_is_no_change():
    pod = live(definition(tolerations=[{"key": "k", "value": "v"}]), "n")
    assert (
        planned(
            [definition(tolerations=[{"key": "k", "operator": "Equal", "value": "v", "effect": None}])], [pod], [node()]
        )
        == {}
    )


def test_what_is_new_and_what_is_gone():
    nodes = [node()]
    gone = live(definition("gone", namespace="elsewhere"), "n")
    assert planned([definition("new")], [gone], nodes) == {"created": ["ns/new"], "removed": ["elsewhere/gone"]}


@pytest.mark.parametrize(
    "change",
    [
        {"quantity": 2},
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
        {"containers": [{"name": "cuda", "image": "other", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
    ],
)
def test_a_request_that_changed_is_asked_anew(change):
    assert planned([definition(**change)], [live(definition(), "n")], [node()]) == {"replaced": ["ns/p"]}


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
        lambda pod: pod["status"].update(phase="Failed"),
        lambda pod: pod["spec"].update(nodeName="gone"),
    ],
)
def test_a_pod_that_has_no_future_is_asked_anew(change):
    pod = live(definition(), "n")
    change(pod)
    assert planned([definition()], [pod], [node()]) == {"replaced": ["ns/p"]}


@pytest.mark.parametrize(
    "before, now, anew",
    [
        ([node()], [node()], False),
        ([node()], [node(), node("m")], True),
        ([node()], [node(gpus="5")], True),
        ([node()], [node(taints=[{"key": "a", "effect": "NoSchedule"}])], True),
        ([node()], [node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])], False),
        # Changed by somebody, looked at by the scheduler, and changed back by the lab.
        ([node()], [node(written="2026-01-01T00:00:10Z")], True),
        ([node()], [node(written="2026-01-01T00:00:09Z")], False),
    ],
)
def test_a_waiting_pod_is_asked_anew_when_the_nodes_are_others(before, now, anew):
    wanted = definition(quantity=9)
    assert planned([wanted], [live(wanted, None, before)], now) == ({"replaced": ["ns/p"]} if anew else {})


def test_a_waiting_pod_is_asked_anew_when_cards_become_free():
    nodes, waiting = [node()], definition("w", 9)
    assert planned([waiting], [live(waiting, None, nodes), live(definition("gone"), "n")], nodes) == {
        "removed": ["ns/gone"],
        "replaced": ["ns/w"],
    }
    assert planned([waiting], [live(waiting, None, nodes), live(definition("gone"), None, nodes)], nodes) == {
        "removed": ["ns/gone"]
    }


def test_another_place_in_the_order_is_written_in_place():
    wanted = definition()
    pod = live(wanted, "n")
    wanted["metadata"]["annotations"] = {"gpuwl.sandbox/order": "3"}
    assert planned([wanted], [pod], [node()]) == {"annotated": ["ns/p"]}


def test_somebody_elses_pod_stops_everything():
    theirs = live(definition("theirs"), "n")
    theirs["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "helm"}
    with pytest.raises(
        ApiError, match="not the lab's: ns/theirs: choose other names in lab_requests. Nothing was written"
    ):
        planned([definition("theirs"), definition("new")], [theirs], [node()])
    assert planned([], [theirs], [node()]) == {}


def entry(**more):
    return {"name": "n", "labels": {}, "taints": [], "capacity": {"cpu": "1"}} | more


def own_node(taints=(), labels=(), **capacity):
    quantities = {"cpu": "1", "nvidia.com/gpu": "4", **capacity}
    return {
        "metadata": {"name": "n", "labels": {**OWN, "kubernetes.io/hostname": "n", **dict(labels)}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": quantities, "allocatable": dict(quantities)},
    }


@pytest.mark.parametrize(
    "said, kept",
    [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1k"),
        ("+1", "1"),
        (".5", "500m"),
        ("32.0", "32"),
    ],
)
def test_a_quantity_in_another_form_is_no_change(said, kept):
    assert _kwok_nodes.changes_of(own_node(cpu=kept), entry(capacity={"cpu": said})) == {}
    assert _kwok_nodes.changes_of(own_node(cpu="7"), entry(capacity={"cpu": said})) == {"capacity": {"cpu": said}}


def test_native_resources_that_are_not_declared_go():
    assert _kwok_nodes.changes_of(own_node(**{"hugepages-2Mi": "1Gi"}), entry()) == {
        "capacity": {"hugepages-2Mi": None}
    }


def test_taints_follow_in_any_order_but_kubernetes_own_are_left_alone():
    one, other = {"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "x", "effect": "NoExecute"}
    automatic = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert _kwok_nodes.changes_of(own_node([other, automatic, one]), entry(taints=[one, other])) == {}
    assert _kwok_nodes.changes_of(own_node([other, automatic]), entry(taints=[one])) == {"taints": [one]}
    assert _kwok_nodes.changes_of(own_node([one]), entry()) == {"taints": []}


def test_labels_with_a_prefix_of_kubernetes_go_unless_declared():
    present = {"topology.kubernetes.io/zone": "a", "mine": "x"}
    assert _kwok_nodes.changes_of(own_node(labels=present), entry()) == {
        "labels": {"topology.kubernetes.io/zone": None}
    }
    assert _kwok_nodes.changes_of(own_node(labels=present), entry(labels={"topology.kubernetes.io/zone": "a"})) == {}
