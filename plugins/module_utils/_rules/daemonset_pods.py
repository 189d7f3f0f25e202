# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pods of DaemonSets are due on which nodes, which run there, and whether the controller is done.

Private to the collection gpuwl.sandbox. Source: kubernetes pkg/controller/daemon/daemon_controller.go
(NodeShouldRunDaemonPod, updateDaemonSetStatus) and util/daemonset_util.go (AddOrUpdateDaemonPodTolerations).
Objects are dicts as the API has them.
"""

from typing import Any, Dict, Iterable, List, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import (
    DEFAULT_TOLERATIONS,
    Tolerations,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.fits import selector_mismatch, untolerated_taints
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import OF_EVERY_DAEMONSET


def _as_listed(tolerations: Tolerations) -> List[Dict[str, str]]:
    return [{"key": key, "operator": operator, "effect": effect} for key, operator, _value, effect in tolerations]


# What all DaemonSets of the operator tolerate unless it is told otherwise.
OPERATOR_TOLERATIONS = _as_listed(DEFAULT_TOLERATIONS)
_AUTOMATIC_TOLERATIONS = _as_listed(OF_EVERY_DAEMONSET)
Pods = Dict[Tuple[str, str], List[Dict[str, Any]]]


def daemonset_is_due(daemonset: Dict[str, Any], node: Dict[str, Any]) -> Optional[bool]:
    """Say whether the controller wants a Pod of a DaemonSet on a Node.

    None: it would not start one, because of a NoSchedule taint, but one that runs there already stays.
    """
    spec = daemonset["spec"]["template"]["spec"]
    pod = {"spec": {**spec, "tolerations": list(spec.get("tolerations") or []) + _AUTOMATIC_TOLERATIONS}}
    if selector_mismatch(pod, node):
        return False
    taints = untolerated_taints(pod, node)
    if not taints:
        return True
    return False if any(taint.endswith(":NoExecute") for taint in taints) else None


def daemonset_selects(daemonset: Dict[str, Any], node: Dict[str, Any]) -> bool:
    """Say whether a Node's labels are those that a DaemonSet asks for, whatever its taints."""
    return selector_mismatch(daemonset["spec"]["template"], node) is None


def daemonset_runs(pod: Dict[str, Any]) -> bool:
    """Say whether a Pod is Running and Ready, and not on its way out."""
    status = pod.get("status") or {}
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or [])
    return status.get("phase") == "Running" and ready and not pod["metadata"].get("deletionTimestamp")


def pods_by_owner(pods: Iterable[Dict[str, Any]]) -> Pods:
    """Return {(uid of the owner, name of the node): Pods}; one that waits for the scheduler counts for the node it is meant for."""
    found: Pods = {}
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences") or []:
            if owner.get("controller"):
                found.setdefault((owner["uid"], _node_of(pod)), []).append(pod)
    return found


def _node_of(pod: Dict[str, Any]) -> str:
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def daemonsets_awaited(
    nodes: List[Dict[str, Any]], daemonsets: List[Dict[str, Any]], pods: Iterable[Dict[str, Any]]
) -> List[str]:
    """Return what is still awaited and what was last seen of it, in words; [] once labels, taints and Pods agree."""
    owned = pods_by_owner(pods)
    awaited: List[str] = []
    for daemonset in daemonsets:
        name, uid = daemonset["metadata"]["name"], daemonset["metadata"]["uid"]
        due, kept = 0, 0
        for node in nodes:
            where, there = node["metadata"]["name"], owned.get((uid, node["metadata"]["name"]), [])
            wanted = daemonset_is_due(daemonset, node)
            due += wanted is True
            if wanted is None and any(daemonset_runs(pod) and not _is_replaced(pod, daemonset) for pod in there):
                kept, wanted = kept + 1, True
            seen = ", ".join(_seen(pod) for pod in there) or "none"
            if wanted and not (len(there) == 1 and daemonset_runs(there[0])):
                awaited.append(f"one Running Pod of {name} on {where}, last seen: {seen}")
            elif not wanted and there:
                awaited.append(f"that {name} leaves {where}, last seen: {seen}")
        awaited += _status_awaited(daemonset, due, kept)
    return awaited


def _status_awaited(daemonset: Dict[str, Any], due: int, kept: int) -> List[str]:
    """What the controller has yet to say in the DaemonSet's status.

    A taint that comes to a node where a Pod runs does not make the controller count anew (syncNodeUpdate), so such Pods, kept,
    are in its numbers or not.
    """
    name, status = daemonset["metadata"]["name"], daemonset.get("status") or {}
    generation, observed = daemonset["metadata"].get("generation", 0), status.get("observedGeneration", 0)
    if observed < generation:
        return ["that the controller looks at %s, last seen: generation %d of %d" % (name, observed, generation)]
    counts = ["desiredNumberScheduled", "numberReady"]
    counts += ["updatedNumberScheduled"] if _rolls(daemonset) else []
    return [
        "%s: %s %d, last seen: %d" % (name, count, due, status.get(count, 0))
        for count in counts
        if not due <= status.get(count, 0) <= due + kept
    ]


def _rolls(daemonset: Dict[str, Any]) -> bool:
    return bool((daemonset["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def _is_replaced(pod: Dict[str, Any], daemonset: Dict[str, Any]) -> bool:
    """Say whether a Pod is of a template before the present one, so that a rolling update ends it wherever it is."""
    now = (daemonset["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    made = (pod["metadata"].get("labels") or {}).get("pod-template-generation")
    return _rolls(daemonset) and None not in (now, made) and made != now


def _seen(pod: Dict[str, Any]) -> str:
    """A few words on a Pod."""
    if pod["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    for container in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return "{}, {}".format(phase, waiting["reason"])
    return f"{phase}, not Ready" if phase == "Running" and not daemonset_runs(pod) else str(phase)


def daemonsets_by_node(
    nodes: List[Dict[str, Any]], daemonsets: List[Dict[str, Any]], pods: Iterable[Dict[str, Any]]
) -> List[Dict[str, Any]]:
    """Return [{node, daemonsets: names of those with a Running Pod there}], both ascending."""
    owned = pods_by_owner(pods)
    found = []
    for where in sorted(node["metadata"]["name"] for node in nodes):
        names = [
            daemonset["metadata"]["name"]
            for daemonset in daemonsets
            if any(daemonset_runs(pod) for pod in owned.get((daemonset["metadata"]["uid"], where), []))
        ]
        found.append({"node": where, "daemonsets": sorted(names)})
    return found


def daemonset_numbers(
    nodes: List[Dict[str, Any]], daemonsets: List[Dict[str, Any]], pods: Iterable[Dict[str, Any]]
) -> List[Dict[str, Any]]:
    """Return what each DaemonSet says of itself beside what is so, by name.

    {name, desired_number_scheduled, number_misscheduled, selected: nodes with the labels, running: nodes with a Running Pod}
    """
    running = daemonsets_by_node(nodes, daemonsets, list(pods))
    found = []
    for daemonset in sorted(daemonsets, key=lambda one: str(one["metadata"]["name"])):
        name, status = daemonset["metadata"]["name"], daemonset.get("status") or {}
        found.append(
            {
                "name": name,
                "desired_number_scheduled": status.get("desiredNumberScheduled", 0),
                "number_misscheduled": status.get("numberMisscheduled", 0),
                "selected": sum(daemonset_selects(daemonset, node) for node in nodes),
                "running": sum(name in entry["daemonsets"] for entry in running),
            }
        )
    return found
