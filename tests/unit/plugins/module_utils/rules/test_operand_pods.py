# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a Pod runs, and in which words it is told why not; and objects of any shape."""

import copy
import random

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import operand_audit
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_pods import not_running
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operand_builders import (
    NOT_CHECKED,
    audit,
    cluster_policy,
    gpu_node,
    operator_sets,
    pods_on,
)


def container(ready=False, name="main", **state):
    return {"name": name, "ready": ready, "state": state}


INITS = [
    container(name="driver-validation", terminated={"exitCode": 0}),
    container(name="toolkit-validation", waiting={"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}),
]
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Insufficient\n cpu"}
CASES = [
    ({"phase": "Running", "containerStatuses": [container(True, running={})]}, "", False),
    ({"phase": "Running"}, "", False),
    ({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, "", False),
    ({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, "it is not ready", True),
    (
        # What is left of a Pod whose node's kubelet is lost.
        {
            "phase": "Running",
            "containerStatuses": [container(True, running={})],
            "conditions": [{"type": "Ready", "status": "False", "reason": "NodeLost"}],
        },
        "it is not ready: NodeLost",
        False,
    ),
    (
        {"phase": "Running", "containerStatuses": [container(running={})]},
        "container main runs and is not ready",
        True,
    ),
    (
        {"phase": "Running", "containerStatuses": [container(waiting={"reason": "CrashLoopBackOff", "message": "x"})]},
        "container main waits: CrashLoopBackOff: x",
        False,
    ),
    (
        {"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ImagePullBackOff"})]},
        "container main waits: ImagePullBackOff",
        False,
    ),
    (
        {"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ContainerCreating"})]},
        "container main is being started",
        True,
    ),
    (
        {"phase": "Pending", "initContainerStatuses": INITS},
        "Init:1/2, container toolkit-validation waits: CrashLoopBackOff: back-off 5m0s",
        False,
    ),
    (
        {"phase": "Pending", "initContainerStatuses": [INITS[0], container(name="b", terminated={"exitCode": 3})]},
        "Init:1/2, container b has ended with exit code 3",
        False,
    ),
    (
        {"phase": "Pending", "initContainerStatuses": [container(name="a", running={})]},
        "Init:0/1, init container a has not finished",
        True,
    ),
    (
        {"phase": "Pending", "conditions": [UNSCHEDULED]},
        "it is not scheduled: Unschedulable: Insufficient cpu",
        False,
    ),
    ({"phase": "Pending"}, "it is being started", True),
    ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, "it has failed: Evicted: disk", False),
    ({"phase": "Succeeded"}, "it has ended, which no operand should", False),
    ({}, "its phase is not told", False),
]


@pytest.mark.parametrize(("status", "why", "waits"), CASES)
def test_why_a_pod_does_not_run(status, why, waits):
    assert not_running({"metadata": {}, "status": status}) == (why, waits)


def test_a_pod_on_its_way_out_does_not_run():
    status = {"phase": "Running", "containerStatuses": [container(True, running={})]}
    going = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": status}
    # A rolling update looks like this.
    assert not_running(going) == ("it is being deleted", True)


def test_a_sidecar_is_no_init_container_to_wait_for():
    sidecar = container(name="side", running={})
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "toolkit-validation"}]}
    status = {"phase": "Pending", "initContainerStatuses": [sidecar, INITS[1]]}
    assert not_running({"spec": spec, "status": status})[0].startswith("Init:0/1, container toolkit-validation waits")


def test_the_end_of_a_containers_log_is_not_told():
    ended = container(terminated={"exitCode": 1, "reason": "Error", "message": "https://user:SECRET@host"})
    why, _waits = not_running(
        {"metadata": {}, "spec": {}, "status": {"phase": "Running", "containerStatuses": [ended]}}
    )
    assert why == "container main has ended with exit code 1: Error"


def test_a_sidecar_that_is_not_ready_does_not_count():
    status = {
        "phase": "Running",
        "initContainerStatuses": [container(name="side", running={})],
        "containerStatuses": [container(True, running={})],
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    sidecar = {"initContainers": [{"name": "side", "restartPolicy": "Always"}]}
    assert not_running({"metadata": {}, "spec": sidecar, "status": status}) == ("", False)
    assert not_running({"metadata": {}, "spec": {}, "status": status}) == ("it is not ready", False)


def test_the_words_stay_on_one_line_of_a_length_to_read():
    status = {"phase": "Failed", "message": "a\nb " * 500}
    why = not_running({"status": status})[0]
    assert "\n" not in why and len(why) == 300 and why.endswith("...")


def test_a_pod_that_the_scheduler_refuses_is_told_with_its_node():
    """The DaemonSet controller ties a Pod to its node by affinity, before the scheduler has had its say."""
    (refused,) = [one for one in pods_on("gpu-1") if one["metadata"]["name"].startswith("nvidia-dcgm")]
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    refused["spec"] = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    refused["status"] = {"phase": "Pending", "conditions": [UNSCHEDULED]}
    result = audit(cluster_policy(), operator_sets(), gpu_node(), pods_on("gpu-1", ("dcgm-exporter",)), refused)
    (missing,) = result["nodes"][0]["missing"]
    assert missing["cause"] == "pod-not-running" and "Insufficient cpu" in missing["detail"]


STRANGE = [None, 0, 1.5, True, "", "text", [], {}, [None], ["x"], [{}], {"x": None}, {"": {}}, [[]]]


def fields(value, path=()):
    """The paths of all values in an object."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from fields(inner, (*path, at))


def test_no_shape_of_an_object_gives_anything_but_an_answer_or_one_line():
    objects = [cluster_policy(), *operator_sets(), gpu_node(taints=[NOT_CHECKED]), *pods_on("gpu-1")]
    every = [(at, path) for at, one in enumerate(objects) for path in fields(one)]
    chosen = random.Random(7)
    answers = 0
    for at, path in every:
        if not path or path == ("kind",):
            continue
        for strange in chosen.sample(STRANGE, 2):
            spoilt = copy.deepcopy(objects)
            outer = spoilt[at]
            for key in path[:-1]:
                outer = outer[key]
            outer[path[-1]] = copy.deepcopy(strange)
            try:
                operand_audit(spoilt)
                answers += 1
            except (TypeError, ValueError) as error:
                assert str(error) and "\n" not in str(error)
    assert answers > 500


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (3, "items[0] must be an object, not a number"),
        ([None], "items[0] must be an object, not null"),
        ([{"metadata": {}}], "items[0] of the List has no kind"),
        ([{"kind": "Node", "metadata": {}}], "Node without a name"),
        ([{"kind": "Node", "metadata": {"name": "a", "labels": []}}], "metadata.labels must be an object"),
        ([{"kind": "ClusterPolicy", "spec": {"driver": {"enabled": "no"}}}], "driver.enabled"),
    ],
)
def test_what_is_no_cluster_gives_one_line(objects, words):
    with pytest.raises(ValueError) as caught:
        operand_audit(objects)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["26", "newest", "v26.x"])
def test_a_version_that_is_none(version):
    with pytest.raises(ValueError, match="operator version .*26.3"):
        operand_audit([], operator_version=version)


def test_lists_among_the_objects_stand_for_their_items():
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [{**gpu_node(), "kind": None}]}
    del nodes["items"][0]["kind"]
    rest = {"apiVersion": "v1", "kind": "List", "items": [*operator_sets(), *pods_on("gpu-1")]}
    assert audit(cluster_policy(), nodes, rest) == audit(
        cluster_policy(), gpu_node(), operator_sets(), pods_on("gpu-1")
    )


def test_nodes_of_other_api_groups_are_none():
    other = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "x", "labels": {}}}
    assert audit(cluster_policy(), other)["nodes"] == []
