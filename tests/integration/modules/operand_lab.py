# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of operand_switches find: nodes with GPUs, DaemonSets of operands, ClusterPolicies."""

from __future__ import annotations

import json
import time

DEPLOY = "nvidia.com/gpu.deploy."
WORKLOAD = "nvidia.com/gpu.workload.config"
FOUND = "feature.node.kubernetes.io/pci-10de.present"
WAS, WHY = "gpuwl.sandbox/operand-was.", "gpuwl.sandbox/operand."
CHAIN = ("driver", "container-toolkit", "device-plugin")
# As the operator labels a container node (26.7), but for what no DaemonSet here selects.
ON = {DEPLOY + operand: "true" for operand in CHAIN}
GPU_NODE = {FOUND: "true", "nvidia.com/gpu.present": "true", WORKLOAD: "container", **ON}


def until(condition, what):
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


class Lab:
    """Nodes, DaemonSets and ClusterPolicies of one test; all in its namespace or gone after it."""

    def __init__(self, cluster, namespace):
        self.cluster, self.namespace, self.made = cluster, namespace, []

    def nodes(self, *names, labels=GPU_NODE):
        self.cluster.create_nodes(*names)
        self.made += [f"node/{name}" for name in names]
        self.label(*names, **labels)
        self.cluster.await_nodes(*names)

    def label(self, *names, **labels):
        changes = [f"{key}-" if value is None else f"{key}={value}" for key, value in labels.items()]
        self.cluster.kubectl("label", "--overwrite", "node", *names, *changes)

    def daemonset(self, name, operand, owner=None, affinity=False):
        """A DaemonSet on the test's nodes with GPUs; its name says nothing of its operand."""
        key = DEPLOY + operand
        asked = {"nodeSelector": {key: "true"}}
        if affinity:
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            asked = {"affinity": {"nodeAffinity": required}}
        metadata = {"name": name, "namespace": self.namespace}
        if owner:
            uid = self.cluster.get("clusterpolicy", owner)["metadata"]["uid"]
            reference = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": owner, "uid": uid}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        container = {"name": "main", "image": "example.com/operand"}
        template = {"metadata": {"labels": {"app": name}}, "spec": {**asked, "containers": [container]}}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        item = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(item))

    def policy(self, name="cluster-policy", state="ready", **spec):
        item = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": name}, "spec": spec}
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(item))
        self.made.append(f"clusterpolicy/{name}")
        if state:
            status = json.dumps({"status": {"state": state}})
            self.cluster.kubectl("patch", "clusterpolicy", name, "--subresource=status", "--type=merge", "-p", status)

    def running(self):
        """{(node, DaemonSet)} of all Pods that run and are not on their way out."""
        pods = self.cluster.get("pods", "-n", self.namespace)["items"]
        return {
            (pod["spec"]["nodeName"], pod["metadata"]["ownerReferences"][0]["name"])
            for pod in pods
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def await_running(self, *expected):
        until(lambda: self.running() == set(expected), f"{sorted(expected)}, there are {sorted(self.running())}")

    def await_counted(self):
        """Wait until the DaemonSets tell of their running Pods; their controller counts some time after it made them."""

        def counted():
            running = [name for _node, name in self.running()]
            sets = self.cluster.get("daemonsets", "-n", self.namespace)["items"]
            return all(
                one["status"].get("observedGeneration") == one["metadata"]["generation"]
                and one["status"]["desiredNumberScheduled"] == one["status"]["numberReady"]
                and one["status"]["numberReady"] == running.count(one["metadata"]["name"])
                for one in sets
            )

        until(counted, "the controller's count")

    def metadata(self, name, field):
        found = self.cluster.get("node", name)["metadata"].get(field) or {}
        wanted = ("nvidia.com/", "gpuwl.sandbox/", "feature.node")
        return {key: value for key, value in found.items() if key.startswith(wanted)}

    def state(self, *names):
        return [(self.metadata(name, "labels"), self.metadata(name, "annotations")) for name in names]

    def clear(self):
        self.cluster.kubectl("delete", "daemonset", "--all", "-n", self.namespace, "--wait=true")
        for one in reversed(self.made):
            self.cluster.kubectl("delete", one, "--ignore-not-found", "--wait=true")
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")


def have_policies(cluster):
    """Make the kind ClusterPolicy without its operator; all fields are kept as they are."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
        "subresources": {"status": {}},
    }
    names = {"kind": "ClusterPolicy", "plural": "clusterpolicies", "singular": "clusterpolicy"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterpolicies.nvidia.com"},
        "spec": {"group": "nvidia.com", "scope": "Cluster", "names": names, "versions": [version]},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(crd))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd/clusterpolicies.nvidia.com")


def refused(modules, *parts, **options):
    result = modules.run("operand_switches", **options)
    assert result.get("failed") and not result["changed"], result
    assert "\n" not in result["msg"]
    for part in parts:
        assert part in result["msg"], result["msg"]
