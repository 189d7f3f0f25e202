# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pods of operands go from a node, and which DaemonSets get one there, when labels or a ClusterPolicy change.

Private to the collection gpuwl.sandbox. Operands are found by the deploy labels that their DaemonSets select, not by name
or namespace. Source: kubernetes pkg/controller/daemon/daemon_controller.go (NodeShouldRunDaemonPod): a Pod goes when the
node's labels no longer match; a NoSchedule taint only keeps a new one away.
"""

from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy, Tolerations
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.expected_operands import taints_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.fits import selector_mismatch, untolerated_taints
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import (
    OF_EVERY_DAEMONSET,
    OPERANDS,
    operator_daemonsets,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labelling import is_found
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    DEPLOY_PREFIX,
    NEWEST_VERSION,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# {(node, namespace/DaemonSet): names of Pods}
PodsThere = Dict[Tuple[str, str], List[str]]


class OperandSet(NamedTuple):
    """A DaemonSet in the cluster that selects nodes by deploy labels."""

    name: str  # namespace/name
    operands: Tuple[str, ...]
    pod: Dict[str, Any]  # a Pod of it, as far as it says which nodes it may go to
    of_operator: bool  # whether a ClusterPolicy owns it

    def selects(self, node: Dict[str, Any], labels: Dict[str, str]) -> bool:
        """Say whether it selects a node that had these labels."""
        seen = {"metadata": {"name": node["metadata"]["name"], "labels": labels}}
        return selector_mismatch(self.pod, seen) is None

    def may_start(self, node: Dict[str, Any]) -> bool:
        """Say whether a node's taints let a Pod of it in."""
        return not untolerated_taints(self.pod, node)


def operand_sets(daemonsets: Iterable[Dict[str, Any]]) -> List[OperandSet]:
    """Return those of some DaemonSet objects that select nodes by deploy labels, in the order of their names."""
    found = []
    for item in daemonsets:
        spec = item["spec"]["template"].get("spec") or {}
        operands = sorted({key[len(DEPLOY_PREFIX) :] for key in _keys(spec) if key.startswith(DEPLOY_PREFIX)})
        if operands:
            metadata = item["metadata"]
            owners = metadata.get("ownerReferences") or []
            pod = {"spec": {**spec, "tolerations": (spec.get("tolerations") or []) + _listed(OF_EVERY_DAEMONSET)}}
            found.append(
                OperandSet(
                    f"{metadata['namespace']}/{metadata['name']}",
                    tuple(operands),
                    pod,
                    any(owner.get("kind") == "ClusterPolicy" for owner in owners),
                )
            )
    return sorted(found, key=lambda one: one.name)


def _keys(spec: Dict[str, Any]) -> List[str]:
    """Return the labels that a Pod asks of a node."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = required.get("nodeSelectorTerms") or []
    asked = [str(one.get("key")) for term in terms for one in term.get("matchExpressions") or []]
    return [*(spec.get("nodeSelector") or {}), *asked]


def _listed(tolerations: Tolerations) -> List[Dict[str, str]]:
    fields = ("key", "operator", "value", "effect")
    return [dict(zip(fields, toleration)) for toleration in tolerations]


def pods_there(pods: Iterable[Dict[str, Any]]) -> PodsThere:
    """Return the Pods of DaemonSets by node and DaemonSet, without those that have ended."""
    found: PodsThere = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for owner in pod["metadata"].get("ownerReferences") or []:
            if owner.get("kind") == "DaemonSet":
                daemonset = f"{pod['metadata']['namespace']}/{owner['name']}"
                found.setdefault((node, daemonset), []).append(pod["metadata"]["name"])
    return found


def label_effects(
    node: Dict[str, Any], before: Dict[str, str], after: Dict[str, str], sets: List[OperandSet], there: PodsThere
) -> Tuple[List[Dict[str, str]], List[Dict[str, str]]]:
    """Return what stops and what starts on a node whose labels change.

    Returns ([{node, daemonset, operand, pod}], [{node, daemonset, operand}]), daemonset as namespace/name.
    """
    stops, starts = [], []
    for one in sets:
        was, due = one.selects(node, before), one.selects(node, after)
        name = node["metadata"]["name"]
        told = {"node": name, "daemonset": one.name, "operand": ", ".join(one.operands)}
        running = there.get((name, one.name), [])
        if was and not due:
            stops += [{**told, "pod": pod} for pod in sorted(running)]
        elif due and not was and not running and one.may_start(node):
            starts.append(told)
    return stops, starts


def policy_effects(
    after: Policy, switched: Dict[str, bool], nodes: List[Dict[str, Any]], sets: List[OperandSet], there: PodsThere
) -> Tuple[List[Dict[str, str]], List[Dict[str, str]]]:
    """Return what stops and what starts in the whole cluster when sections of the ClusterPolicy are switched.

    after: the ClusterPolicy then. switched: {section: enabled}. Returns as label_effects does. A DaemonSet that starts
    is told by the name that the operator gives it, without a namespace.
    """
    operands = {one.operand: switched[one.section] for one in OPERANDS if one.section in switched}
    gone = {
        one.name: one for one in sets if one.of_operator and any(operands.get(each) is False for each in one.operands)
    }
    stops = [
        {"node": node, "daemonset": name, "operand": ", ".join(gone[name].operands), "pod": pod}
        for (node, name), pods in sorted(there.items())
        if name in gone
        for pod in sorted(pods)
    ]
    with_gpu = [node["metadata"].get("labels") or {} for node in nodes]
    with_gpu = [labels for labels in with_gpu if is_found(labels)]
    starts = []
    for made in operator_daemonsets(after, NEWEST_VERSION, with_gpu):
        operand = next(key for key in made.node_selector if key.startswith(DEPLOY_PREFIX))[len(DEPLOY_PREFIX) :]
        if not operands.get(operand):
            continue
        starts += [
            {"node": node["metadata"]["name"], "daemonset": made.name, "operand": operand}
            for node in nodes
            if made.is_due_on(node["metadata"].get("labels") or {}, taints_of(node))
        ]
    return stops, starts
