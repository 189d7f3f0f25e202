# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change in a live cluster leads to: the state after it, or why this version of the GPU Operator does not move.

Private to the collection gpuwl.sandbox. Sources: NVIDIA/gpu-operator controllers/clusterpolicy_controller.go
(addWatchNewGPUNode and its predicates) at v25.10.1 and v26.3.3, controllers/nodelabeling_controller.go at v26.7.0, and
recorded sequences of these versions on a real API server. What the DaemonSet controller does: kubernetes
pkg/controller/daemon/daemon_controller.go (NodeShouldRunDaemonPod).
"""

from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy, is_tolerated
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.expected_operands import (
    Surrounding,
    daemonsets_for,
    settle,
    surrounding,
    taints_of,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import (
    OF_EVERY_DAEMONSET,
    OPERANDS,
    DaemonSet,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labelling import is_found, workload_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    DEPLOY_PREFIX,
    GPU_PRESENT,
    can_do_mig,
    operands_disabled,
)

POLICY, OBJECTS, OPERATOR, DAEMONSETS = "(cluster policy)", "(objects)", "(operator)", "(daemonsets)"
TAINTS, CORDONED = "(taints)", "(unschedulable)"
_MIG_MANAGER = DEPLOY_PREFIX + "mig-manager"
_SECTIONS = {operand.daemonset: operand.section for operand in OPERANDS}

WAITS = (
    "operator 26.7 goes through the nodes only when one with a GPU joins, the ClusterPolicy's spec changes, it starts anew, a driver"
    " Pod starts, or a node's GPU, workload, operands switch or MIG capability changes; none of these happened"
)
UNNOTICED = "operators before 26.7 go through the nodes when a DaemonSet's Pods change, and none changed by this"
FROZEN = "a GPUCluster beside the ClusterPolicy stops the operator: labels stay as they are"
NO_POLICY = "without a ClusterPolicy the operator removes its DaemonSets and leaves all labels as they are"
EDITED = (
    "the operator leaves a DaemonSet alone that somebody has edited, until its section of the ClusterPolicy changes"
)
STAYS = "a NoSchedule taint does not stop the Pods that run already"
DEFAULT_RACE = "in 26.7 two controllers race for defaultWorkload: nodes without a valid workload label may be left on another default"


class _Node(NamedTuple):
    """A node in a state."""

    name: str
    given: Dict[str, Any]  # labels from outside
    labels: Dict[str, Any]  # all labels
    taints: List[Dict[str, Any]]
    unschedulable: Optional[bool]
    pods: List[str]


def next_state(before: Dict[str, Any], change: Dict[str, Any], version: str) -> Dict[str, Any]:
    """Return the state that a settled cluster comes to rest in after a change.

    before: {cluster_policy, nodes, daemonsets, objects}; cluster_policy: the spec, None without one; objects: NVIDIADriver,
    GPUCluster and further ClusterPolicy objects, none if left out; daemonsets: of {name, node_selector}; nodes: of
    {name, labels_in, labels_out, taints, unschedulable, pods}: labels given from outside, all nvidia.com/ labels, taints
    as the API has them, and names of the DaemonSets with a Pod on the node.
    change: node name -> {label: value, None to remove it; "(taints)": the new taints; "(unschedulable)": true or false},
    None to take the node away; a node that is not there yet joins. Beside nodes: "(cluster policy)": a merge patch of
    the spec, None to delete it; "(objects)": objects that are added; "(operator)": "restarted"; "(daemonsets)":
    name -> {node_selector} edited by hand, or None for a deleted one.
    version: the operator's, such as 26.7.0.

    The result has the form of `before`, and beside it operator_version, certain (False where timing decides), moved
    (whether the operator went through the nodes) and rules, which say why, or why not.

    Raises ValueError or TypeError in one line.
    """
    old = _surrounding(before, before.get("cluster_policy"), (), version)
    nodes = {node.name: node for node in map(_node, before.get("nodes") or ())}
    changed = _changed(nodes, change)
    policy = _patched(before.get("cluster_policy"), change)
    around = _surrounding(before, policy, change.get(OBJECTS) or (), version)
    daemonsets = _standing(before, change, old)
    rules: List[str] = []

    def come_to_rest(labelled: Dict[str, _Node]) -> Tuple[Dict[str, _Node], List[DaemonSet]]:
        made = _daemonsets(daemonsets, labelled, around, old, _changed_sections(before, policy), rules)
        return {name: node._replace(pods=_pods(node, made, rules)) for name, node in labelled.items()}, made

    after, made = come_to_rest(changed)
    moved = (
        policy is not None
        and not (around and around.gpu_cluster)
        and _is_noticed(nodes, changed, after, change, policy != before.get("cluster_policy"), around)
    )
    if moved and around:
        # What the DaemonSet controller did and what the operator writes settle together.
        settled = settle([node.labels for node in changed.values()], around)
        after, made = come_to_rest(
            {name: node._replace(labels=labels) for (name, node), labels in zip(changed.items(), settled)}
        )
    certain = True
    if policy is None:
        rules.append(NO_POLICY)
    elif around and around.gpu_cluster:
        rules.append(FROZEN)
    elif around and not moved:
        rules.append(WAITS if around.version >= (26, 7) else UNNOTICED)
    elif around and not _is_default_followed(around, old, after):
        certain = False
        rules.append(DEFAULT_RACE)
    return _state(before, version, policy, change, after, made, certain, moved, rules)


def _surrounding(
    before: Dict[str, Any], policy: Optional[Dict[str, Any]], added: Any, version: str
) -> Optional[Surrounding]:
    objects = [*(before.get("objects") or ()), *added]
    return None if policy is None else surrounding(policy, version, objects)


def _node(item: Dict[str, Any]) -> _Node:
    given, own = item.get("labels_in") or {}, item.get("labels_out") or {}
    others = {key: value for key, value in given.items() if not key.startswith("nvidia.com/")}
    return _Node(
        item["name"],
        dict(given),
        {**others, **own},
        list(item.get("taints") or ()),
        item.get("unschedulable"),
        list(item.get("pods") or ()),
    )


def _changed(nodes: Dict[str, _Node], change: Dict[str, Any]) -> Dict[str, _Node]:
    """Return the nodes with the change made, before anybody has reacted to it."""
    result = dict(nodes)
    for name, wish in change.items():
        if name in (POLICY, OBJECTS, OPERATOR, DAEMONSETS):
            continue
        if wish is None:
            result.pop(name, None)
            continue
        node = result.get(name) or _Node(name, {}, {}, [], None, [])
        labels, given = dict(node.labels), dict(node.given)
        for key, value in wish.items():
            if key not in (TAINTS, CORDONED):
                for where in (labels, given):
                    where.pop(key, None)
                    where.update({} if value is None else {key: value})
        result[name] = node._replace(
            labels=labels,
            given=given,
            taints=list(wish.get(TAINTS, node.taints)),
            unschedulable=wish.get(CORDONED, node.unschedulable),
        )
    return result


def _patched(policy: Optional[Dict[str, Any]], change: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    if POLICY not in change:
        return policy
    return None if change[POLICY] is None else _merge(policy or {}, change[POLICY])


def _merge(old: Any, patch: Any) -> Any:
    """Return what a JSON merge patch (RFC 7386) makes of a value."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _changed_sections(before: Dict[str, Any], policy: Optional[Dict[str, Any]]) -> List[str]:
    """Return the sections of the spec that differ."""
    old, new = before.get("cluster_policy") or {}, policy or {}
    return [name for name in {*old, *new} if old.get(name) != new.get(name)]


def _standing(before: Dict[str, Any], change: Dict[str, Any], old: Optional[Surrounding]) -> Dict[str, DaemonSet]:
    """Return the DaemonSets that stand there when the change was made, edited ones as they were edited."""
    tolerations = (old.policy.tolerations if old else ()) + OF_EVERY_DAEMONSET
    found = {
        item["name"]: DaemonSet(item["name"], dict(item["node_selector"]), tolerations)
        for item in before.get("daemonsets") or ()
    }
    for name, edit in (change.get(DAEMONSETS) or {}).items():
        if edit is None:
            found.pop(name, None)
        else:
            found[name] = DaemonSet(name, dict(edit["node_selector"]), tolerations)
    return found


def _daemonsets(
    standing: Dict[str, DaemonSet],
    nodes: Dict[str, _Node],
    around: Optional[Surrounding],
    old: Optional[Surrounding],
    sections: List[str],
    rules: List[str],
) -> List[DaemonSet]:
    """Return the DaemonSets after the operator has seen to them."""
    if around is None:
        return []
    if around.gpu_cluster:
        return list(standing.values())
    settled = [node.labels for node in nodes.values()]
    if not any(is_found(labels) for labels in settled):
        return list(standing.values())
    made = []
    for wanted in daemonsets_for(settled, around)[0]:
        # The hash at the end of a driver's name, which nobody can foretell, is that of the one that stands there.
        there = next(
            (one for name, one in standing.items() if name == wanted.name or _is_hashed(name, wanted.name)), None
        )
        if there is None:
            made.append(wanted)
        elif there.node_selector == wanted.node_selector or _is_remade(wanted.name, around.policy, old, sections):
            made.append(wanted._replace(name=there.name))
        else:
            rules.append(EDITED)
            made.append(there)
    return made


def _is_hashed(name: str, start: str) -> bool:
    return start.startswith("nvidia-") and "-driver-" in start and name.startswith(start + "-")


def _is_remade(name: str, policy: Policy, old: Optional[Surrounding], sections: List[str]) -> bool:
    """Say whether the operator has a reason to write a DaemonSet anew: what it is made from has changed."""
    common = old is None or old.policy.tolerations != policy.tolerations or "daemonsets" in sections
    return common or _SECTIONS.get(name, "driver") in sections


def _pods(node: _Node, daemonsets: List[DaemonSet], rules: List[str]) -> List[str]:
    """Return the DaemonSets with a Pod on a node after the DaemonSet controller has seen to it."""
    taints = taints_of({"spec": {"taints": node.taints}})
    running = []
    for one in daemonsets:
        refused = [taint for taint in taints if not is_tolerated(taint, one.tolerations)]
        if not one.selects(node.labels):
            continue
        if not refused:
            running.append(one.name)
        elif one.name in node.pods and all(effect == "NoSchedule" for _key, _value, effect in refused):
            rules.append(STAYS)
            running.append(one.name)
    return sorted(running)


def _is_noticed(
    old: Dict[str, _Node],
    changed: Dict[str, _Node],
    after: Dict[str, _Node],
    change: Dict[str, Any],
    is_new_policy: bool,
    around: Optional[Surrounding],
) -> bool:
    """Say whether the operator goes through the nodes after this.

    changed: the nodes before anybody has reacted; after: the same with the Pods that the DaemonSet controller leaves.
    """
    if around is None:
        return False
    if (
        is_new_policy
        or OPERATOR in change
        or any(item.get("kind") == "NVIDIADriver" for item in change.get(OBJECTS) or ())
    ):
        return True
    for name, node in changed.items():
        if name not in old:
            if is_found(node.labels):
                return True
        elif node.labels != old[name].labels and _is_label_noticed(old[name].labels, node.labels, around):
            return True
    if around.version >= (26, 7):
        # A deleted DaemonSet comes again, and its Pods start anew.
        anew = {name for name, edit in (change.get(DAEMONSETS) or {}).items() if edit is None}
        if any(anew & _drivers(node) for node in after.values()):
            return True
        return any(_drivers(node) - _drivers(old.get(name)) for name, node in after.items())
    if DAEMONSETS in change:
        return True
    # The status of a DaemonSet that gains or loses a Pod changes.
    names = {*old, *after}
    return any(_pods_of(old.get(name)) != _pods_of(after.get(name)) for name in names)


def _is_label_noticed(old: Dict[str, Any], new: Dict[str, Any], around: Surrounding) -> bool:
    """Say whether the operator has an eye on what differs between a node's labels."""
    workloads = [
        workload_of(labels, around.policy._replace(sandbox=True), around.version).value for labels in (old, new)
    ]
    if (
        workloads[0] != workloads[1]
        or operands_disabled(old) != operands_disabled(new)
        or is_found(old) != is_found(new)
    ):
        return True
    if around.version >= (26, 7):
        return can_do_mig(old) != can_do_mig(new) or old.get(GPU_PRESENT) != new.get(GPU_PRESENT)
    is_present = new.get(GPU_PRESENT) == "true"
    return is_found(new) != is_present or (can_do_mig(new) and _MIG_MANAGER not in new)


def _pods_of(node: Optional[_Node]) -> List[str]:
    return sorted(node.pods) if node else []


def _drivers(node: Optional[_Node]) -> Set[str]:
    return {name for name in _pods_of(node) if "-driver-" in name}


def _is_default_followed(around: Surrounding, old: Optional[Surrounding], nodes: Dict[str, _Node]) -> bool:
    """Say whether every node's workload is certain: the default container is too, if it was the default before."""
    is_kept = old is None or old.policy.default == around.policy.default
    found = [
        workload_of(node.labels, around.policy, around.version)
        for node in nodes.values()
        if is_found(node.labels) and not operands_disabled(node.labels)
    ]
    return all(
        one.certain and (is_kept or around.version < (26, 7) or one.reason in ("label", "sandbox-disabled"))
        for one in found
    )


def _state(
    before: Dict[str, Any],
    version: str,
    policy: Optional[Dict[str, Any]],
    change: Dict[str, Any],
    nodes: Dict[str, _Node],
    daemonsets: List[DaemonSet],
    certain: bool,
    moved: bool,
    rules: List[str],
) -> Dict[str, Any]:
    return {
        "operator_version": version,
        "cluster_policy": policy,
        "objects": [*(before.get("objects") or ()), *(change.get(OBJECTS) or ())],
        "nodes": [
            {
                "name": node.name,
                "labels_in": node.given,
                "labels_out": {key: node.labels[key] for key in sorted(node.labels) if key.startswith("nvidia.com/")},
                "taints": node.taints,
                "unschedulable": node.unschedulable,
                "pods": node.pods,
            }
            for node in nodes.values()
        ],
        "daemonsets": [
            {"name": one.name, "node_selector": one.node_selector}
            for one in sorted(daemonsets, key=lambda one: one.name)
        ],
        "certain": certain,
        "moved": moved,
        "rules": list(dict.fromkeys(rules)),
    }
