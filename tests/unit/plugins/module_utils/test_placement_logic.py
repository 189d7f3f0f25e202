# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _placement as placement

GPU = "nvidia.com/gpu"


def pod(node=None, condition=None, deleted=False, **spec):
    metadata = {"name": "p", "namespace": "ns", **({"deletionTimestamp": "now"} if deleted else {})}
    status = {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False"}]
        + ([{"type": "PodScheduled", **condition}] if condition else []),
    }
    return {
        "metadata": metadata,
        "spec": {"containers": [], **({"nodeName": node} if node else {}), **spec},
        "status": status,
    }


UNSCHEDULABLE = {"status": "False", "reason": "Unschedulable", "message": "0/3 nodes\nare available"}


@pytest.mark.parametrize(
    "given, decided",
    [
        (None, False),
        (pod(), False),
        (pod("n"), True),
        (pod("n", deleted=True), False),
        (pod(condition=UNSCHEDULABLE), True),
        (pod(condition=UNSCHEDULABLE, deleted=True), False),
        (pod(condition={"status": "False", "reason": "SchedulingGated"}), False),
        (pod(condition={"status": "False", "reason": "SchedulerError"}), False),
    ],
)
def test_decided(given, decided):
    assert placement.is_decided(given) == decided
    if not decided:
        assert placement.last_seen(given)


def test_placement_of_both_kinds():
    waiting = placement.placement_of(pod(condition=UNSCHEDULABLE))
    assert waiting == {
        "pod": "p",
        "namespace": "ns",
        "node": None,
        "scheduled": False,
        "phase": "Pending",
        "requested": {},
        "reason": "Unschedulable",
        "message": "0/3 nodes are available",
    }
    # A condition from before the assignment says nothing any more.
    assert placement.placement_of(pod("n", UNSCHEDULABLE)) | {"phase": ""} == {
        **waiting,
        "node": "n",
        "scheduled": True,
        "reason": "",
        "message": "",
        "phase": "",
    }


def container(gpus, **more):
    return {"resources": {"limits": {GPU: str(gpus), "cpu": "1"}}, **more}


@pytest.mark.parametrize(
    "spec, gpus",
    [
        ({"containers": [container(1), container(2), {}]}, 3),
        ({"containers": [container(1)], "initContainers": [container(4), container(3)]}, 4),
        ({"containers": [container(3)], "initContainers": [container(2, restartPolicy="Always"), container(1)]}, 5),
        ({"containers": [container(1)], "initContainers": [container(2, restartPolicy="Always"), container(4)]}, 6),
        ({"containers": [{"resources": {"requests": {GPU: "2k"}}}]}, 2000),
    ],
)
def test_requested(spec, gpus):
    assert placement.requested({"spec": spec}, placement.is_extended) == {GPU: gpus}
