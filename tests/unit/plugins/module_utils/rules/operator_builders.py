# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dumps of clusters with a GPU Operator, as it leaves them, for the tests of the profile `operator`.

The tables here were written down from the operator's source and from what it was seen to do, not from the rules.
Keys without a prefix are nvidia.com's.
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.checking import check_objects
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import Settings

N = "nvidia.com/"
LABEL = "gpu.workload.config"
NFD = "feature.node.kubernetes.io/pci-10de.present"
CONTAINER, PASSTHROUGH, VGPU = "container", "vm-passthrough", "vm-vgpu"

_SANDBOX_PLUGINS = {"kubevirt": "sandbox-device-plugin", "kata": "kata-sandbox-device-plugin"}
# What each kind of node offers where all is well.
OFFERED = {CONTAINER: {"gpu": "8"}, PASSTHROUGH: {"GA102GL_A10": "2"}, VGPU: {"NVIDIA_A10-12Q": "4"}}


def operands(workload, version="26.7.0", mode="kubevirt"):
    """The deploy labels that the operator sets, without mig-manager."""
    if workload == CONTAINER:
        found = "driver container-toolkit device-plugin gpu-feature-discovery dcgm dcgm-exporter node-status-exporter operator-validator"
    elif workload == PASSTHROUGH:
        plugin = "sandbox-device-plugin" if version.startswith("25.") else _SANDBOX_PLUGINS[mode]
        found = f"{plugin} sandbox-validator vfio-manager kata-manager cc-manager"
    else:
        found = "sandbox-device-plugin sandbox-validator vgpu-manager vgpu-device-manager cc-manager"
    return found.split() + (["client"] if version.startswith("26.7") else [])


def prefixed(pairs):
    return {key if "/" in key else N + key: value for key, value in pairs.items() if value is not ...}


def node(
    workload=CONTAINER,
    offered=None,
    capacity=None,
    *,
    name="gpu-1",
    labels=None,
    deployed="",
    version="26.7.0",
    mode="kubevirt",
    annotations=None,
):
    """A Node as the operator and the kubelet leave it.

    workload: the label's value, None for no label.
    offered: what is allocatable, OFFERED[workload] if not given; capacity: the same if not given.
    labels: further labels, which stand above the others; ... takes one away.
    deployed: whose deploy labels it carries, those of its label if not given, None for none.
    """
    use = workload if deployed == "" else deployed
    every = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        NFD: "true",
        "feature.node.kubernetes.io/cpu-model.vendor_id": "Intel",
        "gpu.present": "true",
    }
    every.update({LABEL: workload} if workload is not None else {})
    every.update({"gpu.deploy." + operand: "true" for operand in (operands(use, version, mode) if use else ())})
    every.update(labels or {})
    offered = OFFERED[workload] if offered is None else offered
    status = {"cpu": "64", "memory": "263856520Ki", "pods": "110", "ephemeral-storage": "459262868Ki"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": prefixed(every), "annotations": annotations or {}},
        "spec": {"podCIDR": "10.244.1.0/24"},
        "status": {
            "capacity": {**status, **prefixed(offered if capacity is None else capacity)},
            "allocatable": {**status, **prefixed(offered)},
        },
    }


def bare(workload=None, offered=None, capacity=None, labels=None, **more):
    """A Node in a cluster without an operator: NFD and GPU Feature Discovery at most have labelled it."""
    return node(workload, offered or {}, capacity, deployed=None, labels=labels, **more)


def policy(sandbox=True, default=CONTAINER, mode="kubevirt", name="cluster-policy", state="ready", **sections):
    """A ClusterPolicy with the chart's defaults; a section given is merged into the default one."""
    spec = {
        "sandboxWorkloads": {"enabled": sandbox, "defaultWorkload": default, "mode": mode},
        "mig": {"strategy": "single"},
        "devicePlugin": {"enabled": True},
        "driver": {"enabled": True},
        "migManager": {"enabled": True, "config": {"name": "", "default": "all-disabled"}},
        "vfioManager": {"enabled": True},
        "sandboxDevicePlugin": {"enabled": True},
        "kataSandboxDevicePlugin": {"enabled": True},
        "vgpuManager": {"enabled": True, "image": "vgpu-manager"},
        "vgpuDeviceManager": {"enabled": True, "config": {"name": "", "default": "default"}},
    }
    for section, value in sections.items():
        spec[section] = {**spec.get(section, {}), **value}
    made = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": name}, "spec": spec}
    return {**made, "status": {"state": state} if state else {}}


def operator(version="v26.7.0", kind="Deployment", labels=None, image=None):
    """The operator's Deployment as its chart makes it; labels None: the chart's."""
    chart = {
        "app": "gpu-operator",
        "app.kubernetes.io/name": "gpu-operator",
        "app.kubernetes.io/version": version,
        "helm.sh/chart": f"gpu-operator-{version}",
    }
    container = {"name": "gpu-operator", "image": image or f"nvcr.io/nvidia/gpu-operator:{version}"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": "gpu-operator",
            "namespace": "gpu-operator",
            "labels": chart if labels is None else labels,
        },
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def resource_slice(node_name="gpu-1", driver="gpu.nvidia.com"):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-{driver}"},
        "spec": {"driver": driver, "nodeName": node_name, "devices": []},
    }


def gpu_cluster(name="gpu-cluster"):
    return {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": name}, "spec": {}}


SANDBOX_ON = (policy(), operator())
SANDBOX_OFF = (policy(sandbox=False), operator())
NOTHING_BESIDE = ()


def outcome(nodes, beside=SANDBOX_ON, **settings):
    nodes = nodes if isinstance(nodes, list) else [nodes]
    return check_objects(nodes, Settings("operator", **settings), beside)


def findings(nodes, beside=SANDBOX_ON, **settings):
    """Return every finding that counts, the gravest first."""
    return list(outcome(nodes, beside, **settings).findings())


def verdict(nodes, beside=SANDBOX_ON, **settings):
    """Return "severity rule" of each finding that counts, the gravest first."""
    return [f"{found['severity']} {found['rule']}" for found in findings(nodes, beside, **settings)]
