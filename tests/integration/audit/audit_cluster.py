# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster as GPU Operator 26.3 leaves one behind, without the operator: nodes, its DaemonSets with their Pods, its ClusterPolicy."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

import pytest

N = "nvidia.com/"
DEPLOY = N + "gpu.deploy."
NAMESPACE = "gpu-operator"
VERSION = "v26.3.3"
# As its assets have them: DaemonSet, operand.
DAEMONSETS = {
    "nvidia-driver-daemonset": "driver",
    "nvidia-container-toolkit-daemonset": "container-toolkit",
    "nvidia-operator-validator": "operator-validator",
    "nvidia-device-plugin-daemonset": "device-plugin",
    "nvidia-dcgm-exporter": "dcgm-exporter",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-mig-manager": "mig-manager",
    "nvidia-sandbox-validator": "sandbox-validator",
    "nvidia-vfio-manager": "vfio-manager",
    "nvidia-sandbox-device-plugin-daemonset": "sandbox-device-plugin",
}
SPEC = {
    "sandboxWorkloads": {"enabled": True},
    "dcgm": {"enabled": False},
    "sandboxDevicePlugin": {"enabled": True},
    "vfioManager": {"enabled": True},
}
CONTAINER = ("driver", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter")
OPERANDS = {
    "container": (*CONTAINER, "node-status-exporter", "operator-validator"),
    "vm-passthrough": ("sandbox-device-plugin", "sandbox-validator", "vfio-manager", "kata-manager", "cc-manager"),
}
RESOURCES = {"container": {N + "gpu": "4"}, "vm-passthrough": {N + "GA102GL_A10": "2"}}
KINDS = (
    ("ClusterPolicy", "clusterpolicies", "v1"),
    ("GPUCluster", "gpuclusters", "v1alpha1"),
    ("NVIDIADriver", "nvidiadrivers", "v1alpha1"),
)
SECRET = "hunter2-in-the-environment"


def until(condition, what):
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)
    return found


def labels_of(workload: str, **more: str | None) -> dict[str, str]:
    """What the operator, Node Feature Discovery and the user have written on a node; more: keys of nvidia.com/, None for absent."""
    labels = {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
        "feature.node.kubernetes.io/kernel-version.full": "6.8.0-60-generic",
        N + "gpu.present": "true",
        N + "gpu.workload.config": workload,
        **{DEPLOY + operand: "true" for operand in OPERANDS[workload]},
    }
    labels.update({N + key: value for key, value in more.items()})
    return {key: value for key, value in labels.items() if value is not None}


def node(name: str, labels: dict[str, str], resources: dict[str, str]) -> dict:
    quantities = {"cpu": "32", "memory": "64Gi", "pods": "110", **resources}
    metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": quantities, "allocatable": quantities},
    }


def daemonset(name: str, operand: str, owner: dict) -> dict:
    validator = f"nvcr.io/nvidia/cloud-native/gpu-operator-validator:{VERSION}"
    container = {"name": "main", "image": f"nvcr.io/nvidia/{name}:1", "env": [{"name": "PASSWORD", "value": SECRET}]}
    spec = {
        "nodeSelector": {DEPLOY + operand: "true"},
        "tolerations": [{"key": N + "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "initContainers": [{"name": "validation", "image": validator}],
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}, "ownerReferences": [owner]},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def definition(kind: str, plural: str, version: str) -> dict:
    """A CRD that keeps all fields as they are."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    one = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.nvidia.com"},
        "spec": {
            "group": "nvidia.com",
            "scope": "Cluster",
            "names": names,
            "versions": [{**one, "subresources": {"status": {}}}],
        },
    }


@dataclass
class Operated:
    """The cluster, and what the operator would have made in it."""

    cluster: object
    nodes: list[str] = field(default_factory=list)

    def create(self, *items: dict) -> None:
        self.cluster.kubectl(
            "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})
        )

    def add_nodes(self, *items: dict) -> None:
        self.create(*items)
        names = [item["metadata"]["name"] for item in items]
        self.nodes += names
        self.cluster.await_nodes(*names)

    def install(self) -> None:
        """What the operator's chart and the operator make; its Pods are not there."""
        self.create(*(definition(*kind) for kind in KINDS))
        for _kind, plural, _version in KINDS:
            self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{plural}.nvidia.com")
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.cluster.await_namespace(NAMESPACE)
        metadata = {"name": "cluster-policy"}
        self.create({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": SPEC})
        ready = json.dumps({"status": {"state": "ready"}})
        self.cluster.kubectl(
            "patch", "clusterpolicy", "cluster-policy", "--subresource=status", "--type=merge", "-p", ready
        )
        uid = self.cluster.get("clusterpolicy", "cluster-policy")["metadata"]["uid"]
        owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": uid}
        self.create(*(daemonset(name, operand, {**owner, "controller": True}) for name, operand in DAEMONSETS.items()))

    def running(self) -> dict[str, set[str]]:
        """The operands of which a Pod runs, by node."""
        found = {name: set() for name in self.nodes}
        for pod in self.cluster.get("pods", "-n", NAMESPACE)["items"]:
            ready = any(
                one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", [])
            )
            if ready and "deletionTimestamp" not in pod["metadata"]:
                found[pod["spec"]["nodeName"]].add(DAEMONSETS[pod["metadata"]["labels"]["app"]])
        return found

    def await_operands(self) -> None:
        """Wait until just those Pods run that labels and taints ask for."""

        def wanted(item: dict) -> set[str]:
            labels, taints = item["metadata"].get("labels") or {}, item["spec"].get("taints") or []
            if any(taint["key"] != N + "gpu" for taint in taints):
                return set()
            there = set(self.daemonsets())
            return {DAEMONSETS[name] for name in there if labels.get(DEPLOY + DAEMONSETS[name]) == "true"}

        def settled() -> bool:
            items = self.cluster.get("nodes")["items"]
            return self.running() == {item["metadata"]["name"]: wanted(item) for item in items}

        until(settled, f"the operands, there are {self.running()}")

    def daemonsets(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.cluster.get("daemonsets", "-n", NAMESPACE)["items"]]

    def label(self, name: str, **labels: str | None) -> None:
        """Change deploy labels; None removes."""
        changes = [f"{DEPLOY}{key}-" if value is None else f"{DEPLOY}{key}={value}" for key, value in labels.items()]
        self.cluster.kubectl("label", "--overwrite", "node", name, *changes)

    def queue(self, name: str, resources: dict[str, int]) -> None:
        """A Pod that the scheduler finds no node for."""
        limits = {"limits": {key: str(value) for key, value in resources.items()}}
        spec = {"containers": [{"name": "main", "image": "example.com/work", "resources": limits}]}
        metadata = {"name": name, "namespace": "default"}
        self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        until(lambda: self.cluster.get("pod", name)["status"].get("conditions"), "the scheduler's word")

    def break_pod(self, name: str, app: str) -> str:
        """Have a node's Pod of a DaemonSet crash, as its kubelet would say; returns the Pod's name."""
        pods = self.cluster.get("pods", "-n", NAMESPACE, "-l", f"app={app}")["items"]
        pod = next(pod for pod in pods if pod["spec"]["nodeName"] == name)
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
        container = {**pod["status"]["containerStatuses"][0], "ready": False, "state": {"waiting": waiting}}
        conditions = [
            {**one, "status": "False"} if one["type"] in ("Ready", "ContainersReady") else one
            for one in pod["status"]["conditions"]
        ]
        status = json.dumps({"status": {"containerStatuses": [container], "conditions": conditions}})
        where = ("-n", NAMESPACE, "pod", pod["metadata"]["name"])
        self.cluster.kubectl("patch", *where, "--subresource=status", "--type=merge", "-p", status)
        return pod["metadata"]["name"]


def state_of(cluster) -> dict[str, str]:
    """The resourceVersion of all that an audit could have changed, but for what nodes report of themselves."""
    kinds = (
        "pods,daemonsets.apps,clusterpolicies,gpuclusters,nvidiadrivers,configmaps,secrets,serviceaccounts,namespaces"
    )
    items = json.loads(cluster.kubectl("get", kinds, "-A", "-o", "json"))["items"]
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    found = {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["resourceVersion"] for one in items}
    for one in nodes:
        kept = {key: one["metadata"].get(key) for key in ("labels", "annotations")}
        found[f"Node/{one['metadata']['name']}"] = json.dumps([kept, one["spec"], one["status"]["allocatable"]])
    if not found:
        pytest.fail("there is nothing in the cluster to compare")
    return found
