# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes and Pods for the tests."""

LABEL = "nvidia.com/gpu.workload.config"


def node(name="n", workload="container", allocatable=None, capacity=None, **more):
    """Return a Node; workload None leaves the label out."""
    built = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": "a"}}, "status": {}}
    if workload is not None:
        built["metadata"]["labels"][LABEL] = workload
    if allocatable is not None:
        built["status"]["allocatable"] = allocatable
    if capacity is not None:
        built["status"]["capacity"] = capacity
    built.update(more)
    return built


def pod(name="p", limits=None, node_name=None, phase=None, message="", **spec):
    """Return a Pod of one container."""
    spec.setdefault("containers", [{"name": "c", "resources": {"limits": limits or {}}}])
    if node_name:
        spec["nodeName"] = node_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "gpu-vm"},
        "spec": spec,
        "status": {
            "phase": phase or ("Running" if node_name else "Pending"),
            "conditions": [{"type": "PodScheduled", "message": message}],
        },
    }


def listed(items, kind="List"):
    """Return a List of items, kind last, as kubectl prints it."""
    return {"apiVersion": "v1", "items": items, "kind": kind}


HEALTHY = [
    node("lab-node-0", "container", {"nvidia.com/gpu": "4"}),
    node("lab-node-1", "vm-passthrough", {"nvidia.com/GA102GL_A10": "2"}),
    node("lab-node-2", "vm-vgpu", {"nvidia.com/NVIDIA_A10-12Q": "4"}),
]
