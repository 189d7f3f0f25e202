# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play that is killed between any two tasks is repaired by the next one.

Every run here is killed at the first task boundary behind something that it changed, so that each run begins with what
the one before had left behind, and together they pass every boundary at which the state is another one. Each leaves out
the roles that were through before the one in which the last was killed. What remains must be exact, and a whole run must
find nothing to do.
"""

from __future__ import annotations

import signal

import pytest

# Every task that writes, with the tag of its role, in their order.
WRITES = {
    "Run the control plane": "control_plane",
    "Have the nodes of the pools": "nodes",
    "Label the nodes": "nodes",
    "Record each node's label as the API has it": "nodes",
    "Record which operands each workload starts": "operands",
    "Advertise the resources": "resources",
    "Record the resources as the API has them": "resources",
    "Write the requests' manifests": "placement",
    "Ask for the Pods, in order": "placement",
    "Record the decisions": "placement",
    "Leave the checker behind": "check",
    "Save nodes and Pods": "check",
    "Record verdict, decisions and inventory": "check",
}
TAGS = list(dict.fromkeys(WRITES.values()))
CHANGED = {
    "lab_pools": [
        {
            "name": "containers",
            "nodes": ["lab-node-0"],
            "workload": "vm-vgpu",
            "resources": {"nvidia.com/A10-4Q": 3},
            "taints": [{"key": "a", "effect": "NoSchedule"}],
        },
        {"name": "new", "nodes": ["new-[0:1]"], "workload": "container", "resources": {"nvidia.com/gpu": 1}},
    ],
    "lab_requests": [
        {
            "name": "job-container",
            "manifest": "pod-container.yaml",
            "resources": {"nvidia.com/gpu": 2},
            "record": {"file": "04-container.txt", "fields": ["NODE", "MESSAGE"]},
        },
        {
            "name": "pair",
            "count": 2,
            "resources": {"nvidia.com/gpu": 1},
            "record": {"file": "pair.txt", "placements": ["pair"]},
        },
    ],
}


def tags_behind(task):
    """The roles that may still change something when a run was killed behind this task; none for the last of all."""
    tasks = list(WRITES)
    left = {WRITES[name] for name in tasks[tasks.index(task) + 1 :]}
    return [tag for tag in TAGS if tag in left]


def run_until_done(lab, counting="*"):
    """Kill runs behind each of these tasks until all are through; returns the tasks behind which they were killed."""
    killed = []
    tags = TAGS
    while tags and len(killed) <= len(WRITES):
        played = lab.play("--tags", ",".join(tags), environment={"GPUWL_KILL_AFTER_CHANGE": counting})
        if played.rc == 0:
            return killed
        assert played.rc == -signal.SIGKILL, played.output[-4000:]
        killed.append(played.output.rpartition("KILLED AFTER [")[2].partition("]")[0])
        tags = tags_behind(killed[-1])
    if tags:
        pytest.fail(f"it goes on for ever: {killed}")
    return killed


def test_every_boundary_of_the_first_run_and_of_a_change(make_lab):
    lab = make_lab()
    # The first run makes nodes with their labels.
    assert run_until_done(lab) == [task for task in WRITES if task != "Label the nodes"]
    lab.settled()
    assert (
        lab.text("out/06-placement.txt")
        == "job-container lab-node-0\nvmi-passthrough lab-node-1\nvmi-vgpu lab-node-2\n"
    )
    assert lab.text("out/07-cross.txt").startswith(
        "PHASE=Pending\nNODE=none\nMESSAGE=0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s)"
    )
    assert (lab.text("out/consistency.txt"), len(lab.names())) == ("OK=3\n", 19)

    lab.declared = CHANGED
    # Those that take something away.
    delicate = [
        "Have the nodes of the pools",
        "Label the nodes",
        "Advertise the resources",
        "Write the requests' manifests",
        "Ask for the Pods, in order",
    ]
    assert run_until_done(lab, "|".join(delicate)) == delicate
    assert lab.text("out/01-nodes.txt") == "lab-node-0 vm-vgpu\nnew-0 container\nnew-1 container\n"
    assert (
        lab.text("out/03-resources.txt")
        == "lab-node-0 nvidia.com/A10-4Q 3\nnew-0 nvidia.com/gpu 1\nnew-1 nvidia.com/gpu 1\n"
    )
    assert lab.text("out/04-container.txt").startswith(
        "NODE=none\nMESSAGE=0/3 nodes are available: 1 node(s) had untolerated taint"
    )
    assert sorted(line.split()[1] for line in lab.text("out/pair.txt").splitlines()) == ["new-0", "new-1"]
    assert sorted(lab.objects("pods", "-A")) == ["job-container", "pair-0", "pair-1"]
    assert {name for name in lab.names() if name.startswith("k8s/")} == {"k8s/pod-container.yaml", "k8s/pod-pair.yaml"}
    lab.settled()
