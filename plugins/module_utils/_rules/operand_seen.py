# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the audit of operands reads in Nodes, DaemonSets and Pods: as little of each as it needs, and of any shape.

Private to the collection gpuwl.sandbox. Operands are found by the deploy label that their DaemonSet asks nodes for, not by
name or namespace, so renamed ones and those of a lab count. Sources: Kubernetes documentation, "Pod Lifecycle" and
"DaemonSet"; kubernetes pkg/controller/daemon/util/daemonset_util.go (a Pod is tied to its node by metadata.name).
"""

import sys
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import (
    Tolerations,
    is_tolerated,
    read_tolerations,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.expected_operands import taints_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.fits import selector_mismatch
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_facts import NodeFacts, facts_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_pods import not_running
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import (
    KERNEL,
    OF_EVERY_DAEMONSET,
    OPERANDS,
    OS_ID,
    OS_VERSION,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# The controller adds this one for the Pods that use the host's network.
_OF_HOST_NETWORK: Tolerations = (("node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule"),)
_OPERAND_NAMED = {one.daemonset: one.operand for one in OPERANDS}
# The labels that operands of the operator ask for beside their own.
MPS_CAPABLE = "nvidia.com/mps.capable"
_CONDITIONS = (MPS_CAPABLE, "nvidia.com/cc.capable")


class SeenNode(NamedTuple):
    """A Node."""

    name: str
    facts: NodeFacts
    labels: Dict[str, Any]
    taints: Tuple[Tuple[str, str, str], ...]  # (key, value, effect) of those that keep Pods away
    unready: str  # the value of its condition Ready if that is not True, else ""


class SeenSet(NamedTuple):
    """A DaemonSet of operands."""

    namespace: str
    name: str
    uid: str
    operands: Tuple[str, ...]
    by_selector: bool  # whether its operands stand in its selector, and were not told by who owns it or its label app
    spec: Dict[str, Any]  # the node selector and the required node affinity of its Pods
    tolerations: Tolerations
    owner: str  # kind of the operator's object that owns it: ClusterPolicy, NVIDIADriver or ""
    desired: Optional[int]
    ready: Optional[int]

    @property
    def title(self) -> str:
        """What it is called: namespace/name."""
        return f"{self.namespace}/{self.name}"

    def selects(self, node: SeenNode) -> bool:
        """Say whether its selector and required affinity match a node."""
        shown = {"metadata": {"name": node.name, "labels": node.labels}}
        return selector_mismatch({"spec": self.spec}, shown) is None

    def mismatch(self, node: SeenNode) -> str:
        """Return which part of its selector or affinity a node fails, in words."""
        return selector_mismatch({"spec": self.spec}, {"metadata": {"name": node.name, "labels": node.labels}}) or ""

    def untolerated(self, node: SeenNode) -> List[str]:
        """Return the taints of a node that its Pods do not tolerate, as key=value:effect."""
        return [
            f"{key}{'=' + value if value else ''}:{effect}"
            for key, value, effect in node.taints
            if not is_tolerated((key, value, effect), self.tolerations)
        ]

    def is_conditional(self) -> bool:
        """Say whether its selector asks for a condition, as that of the MPS control daemon does."""
        return any(key in self.spec["nodeSelector"] for key in _CONDITIONS)

    def is_beside(self) -> bool:
        """Say whether it goes beside the operand that it shares a deploy label with, as the MPS control daemon does."""
        return MPS_CAPABLE in self.spec["nodeSelector"]

    def is_of_system(self) -> bool:
        """Say whether it is for nodes of one operating system or kernel, as a precompiled driver or one of an NVIDIADriver is."""
        return any(key in self.spec["nodeSelector"] for key in (KERNEL, OS_ID, OS_VERSION))


class SeenPod(NamedTuple):
    """A Pod of a DaemonSet."""

    name: str
    node: str
    why: str  # why it is not Running with all its containers ready; "" if it is
    waits: bool  # whether an init container goes on as it should, or the Pod is being started
    owner: Tuple[str, str, str]  # its DaemonSet's namespace, name and uid


def seen_node(item: Dict[str, Any]) -> SeenNode:
    """Return what is read in a Node of the form that objects.check_shape has accepted."""
    labels = item["metadata"].get("labels") or {}
    conditions = dicts(as_dict(item.get("status")).get("conditions"))
    ready = next((str(one.get("status")) for one in conditions if one.get("type") == "Ready"), "True")
    return SeenNode(item["metadata"]["name"], facts_of(item), labels, taints_of(item), "" if ready == "True" else ready)


def seen_set(item: Dict[str, Any]) -> Optional[SeenSet]:
    """Return what is read in a DaemonSet, None for one of no operand."""
    metadata = as_dict(item.get("metadata"))
    pod = as_dict(as_dict(as_dict(item.get("spec")).get("template")).get("spec"))
    asked = {
        "nodeSelector": {str(key): value for key, value in as_dict(pod.get("nodeSelector")).items()},
        "affinity": _required(pod),
    }
    operands = _selected(asked)
    owners = [str(owner.get("kind")) for owner in dicts(metadata.get("ownerReferences"))]
    owner = next((kind for kind in owners if kind in ("ClusterPolicy", "NVIDIADriver")), "")
    named = "" if operands else _operand_told(item, owner)
    if not operands and not named:
        return None
    more = OF_EVERY_DAEMONSET + (_OF_HOST_NETWORK if pod.get("hostNetwork") is True else ())
    status = as_dict(item.get("status"))
    return SeenSet(
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        operands=tuple(sorted(operands)) or (named,),
        by_selector=bool(operands),
        spec=asked,
        tolerations=read_tolerations(pod.get("tolerations")) + more,
        owner=owner,
        desired=_count(status.get("desiredNumberScheduled")),
        ready=_count(status.get("numberReady")),
    )


def _required(pod: Dict[str, Any]) -> Dict[str, Any]:
    """Return the required node affinity alone, in the form that fits.py relies on."""
    affinity = as_dict(as_dict(pod.get("affinity")).get("nodeAffinity"))
    required = affinity.get(_REQUIRED)
    if not isinstance(required, dict):
        return {}
    terms = []
    for term in dicts(required.get("nodeSelectorTerms")):
        terms.append(
            {
                field: [_expression(one) for one in dicts(term.get(field))]
                for field in ("matchExpressions", "matchFields")
            }
        )
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}


def _expression(one: Dict[str, Any]) -> Dict[str, Any]:
    values = one.get("values")
    return {
        "key": str(one.get("key")),
        "operator": one.get("operator"),
        "values": values if isinstance(values, list) else [],
    }


def _selected(asked: Dict[str, Any]) -> FrozenSet[str]:
    """Return the operands whose deploy labels a selector or a required affinity asks to be "true".

    What goes where an operand is not, by NotIn or DoesNotExist, is none.
    """
    keys = [key for key, value in asked["nodeSelector"].items() if value == "true"]
    terms = as_dict(as_dict(asked["affinity"].get("nodeAffinity")).get(_REQUIRED)).get("nodeSelectorTerms") or []
    keys += [
        one["key"]
        for term in terms
        for one in term["matchExpressions"]
        if one["operator"] == "In" and "true" in one["values"]
    ]
    return frozenset(key[len(DEPLOY_PREFIX) :] for key in keys if key.startswith(DEPLOY_PREFIX)) - {"operands", ""}


def _operand_told(item: Dict[str, Any], owner: str) -> str:
    """Return the operand of a DaemonSet that has lost its selector: by its label app, or by its name if the operator owns it."""
    metadata = as_dict(item.get("metadata"))
    template = as_dict(as_dict(as_dict(item.get("spec")).get("template")).get("metadata"))
    names = [as_dict(one.get("labels")).get("app") for one in (metadata, template)]
    names += [metadata.get("name")] if owner else []
    for name in names:
        if isinstance(name, str) and name in _OPERAND_NAMED:
            return _OPERAND_NAMED[name]
    return "driver" if owner == "NVIDIADriver" else ""


def seen_pod(item: Dict[str, Any]) -> Optional[SeenPod]:
    """Return what is read in a Pod, None for one that no DaemonSet owns or that is on no node."""
    metadata = as_dict(item.get("metadata"))
    for owner in dicts(metadata.get("ownerReferences")):
        if owner.get("kind") == "DaemonSet":
            node = _node_of(as_dict(item.get("spec")))
            if not node:
                return None
            why, waits = not_running(item)
            # Interned: a node has many Pods, and a DaemonSet too.
            told = (metadata.get("namespace") or "default", owner.get("name") or "", owner.get("uid") or "")
            namespace, name, uid = (sys.intern(str(one)) for one in told)
            return SeenPod(str(metadata.get("name") or ""), sys.intern(node), why, waits, (namespace, name, uid))
    return None


def _node_of(spec: Dict[str, Any]) -> str:
    """Return the node that a Pod is on, or is made for by its DaemonSet though the scheduler does not let it there."""
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    terms = as_dict(as_dict(_required(spec).get("nodeAffinity")).get(_REQUIRED)).get("nodeSelectorTerms") or []
    for term in terms:
        for one in term["matchFields"]:
            if one["key"] == "metadata.name" and one["operator"] == "In" and len(one["values"]) == 1:
                return str(one["values"][0])
    return ""


def _count(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_dict(value: Any) -> Dict[str, Any]:
    """Return a value if it is an object, {} of anything else."""
    return value if isinstance(value, dict) else {}


def dicts(value: Any) -> List[Dict[str, Any]]:
    """Return the objects in a list, [] of anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
