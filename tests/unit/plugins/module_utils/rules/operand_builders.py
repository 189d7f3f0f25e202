# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters for the tests of the audit of operands: nodes, DaemonSets and the Pods that are on the nodes.

Short names of labels are those of nvidia.com/gpu.deploy.
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import operand_audit

DEPLOY = "nvidia.com/gpu.deploy."
CHAIN = ("driver", "container-toolkit", "device-plugin", "gpu-feature-discovery", "operator-validator")
FOUND = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true"}
# DaemonSets that the operator makes with its chart's values for a cluster of container nodes.
OPERATOR_SETS = {
    "nvidia-driver-daemonset": "driver",
    "nvidia-container-toolkit-daemonset": "container-toolkit",
    "nvidia-device-plugin-daemonset": "device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-dcgm-exporter": "dcgm-exporter",
    "nvidia-operator-validator": "operator-validator",
}
ON = tuple(OPERATOR_SETS.values())
NOT_CHECKED = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def labels_of(operands, **values):
    """Deploy labels; values by operand with _ for -, None takes one away."""
    found = {DEPLOY + operand: "true" for operand in operands}
    found.update({DEPLOY + operand.replace("_", "-"): value for operand, value in values.items()})
    return {key: value for key, value in found.items() if value is not None}


def node(name, labels, taints=(), resources=None):
    status = {"allocatable": resources or {}, "capacity": resources or {}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
        "status": status,
    }


def gpu_node(name="gpu-1", taints=(), labels=None, **values):
    """A node as the operator labels it."""
    return node(name, {**FOUND, **labels_of(ON, **values), **(labels or {})}, taints)


def daemonset(
    name,
    operand,
    namespace="gpu-operator",
    selector=None,
    owner="ClusterPolicy",
    tolerations=(TOLERATED,),
    numbers=(1, 1),
):
    owners = [{"apiVersion": "nvidia.com/v1", "kind": owner, "name": "cluster-policy", "uid": "1"}] if owner else []
    asked = {DEPLOY + operand: "true"} if selector is None else selector
    pod = {"nodeSelector": asked, "tolerations": list(tolerations), "containers": [{"name": "main", "image": "x"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "ownerReferences": owners},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
        "status": {"desiredNumberScheduled": numbers[0], "numberReady": numbers[1]},
    }


def pod(of, on, namespace="gpu-operator", status=None, **metadata):
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": of, "uid": f"uid-{of}", "controller": True}
    running = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{of}-{on}", "namespace": namespace, "ownerReferences": [owner], **metadata},
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "x"}]},
        "status": running if status is None else status,
    }


def cluster_policy(name="cluster-policy", state="ready", **sections):
    spec = {"dcgm": {"enabled": False}, **sections}
    status = {"state": state} if state else {}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name},
        "spec": spec,
        "status": status,
    }


def operator_sets(without=(), **numbers):
    return [daemonset(name, operand, **numbers) for name, operand in OPERATOR_SETS.items() if operand not in without]


def pods_on(name, without=()):
    return [pod(one, name) for one, operand in OPERATOR_SETS.items() if operand not in without]


def lab_sets(operands=CHAIN, **options):
    return [daemonset(f"lab-{one}", one, "lab", owner="", tolerations=(), **options) for one in operands]


def lab_pods(name, operands=CHAIN):
    return [pod(f"lab-{one}", name, "lab") for one in operands]


def audit(*objects, version="26.7.0", **options):
    """The audit of objects and lists of them."""
    flat = [one for given in objects for one in (given if isinstance(given, list) else [given])]
    return operand_audit(flat, operator_version=version, **options)


def only_node(result):
    (found,) = result["nodes"]
    return found


def rules(result):
    """What was found: [severity, rule, node]."""
    return sorted((one["severity"], one["rule"], one["node"]) for one in result["findings"])


def causes(found):
    return {one["operand"]: one["cause"] for one in found["missing"]}


def pairs(found):
    return [(one["operand"], one["needs"]) for one in found["out_of_order"]]


def in_operator(without=(), pods=None, taints=(), sets=None, policy=None, version="26.7.0", labels=None, **values):
    """The audit of a cluster with one node; without: operands that have no Pod there; values: deploy labels."""
    return audit(
        policy or cluster_policy(),
        sets if sets is not None else operator_sets(),
        gpu_node(taints=taints, labels=labels, **values),
        pods_on("gpu-1", without) if pods is None else pods,
        version=version,
    )
