# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node in the audit of operands: what is due there, what runs, what is missing and why, and what runs before what it needs.

Private to the collection gpuwl.sandbox. Judged by the Pods that are Running on the node, never by a DaemonSet's
desiredNumberScheduled, in which a node whose taint is not tolerated does not count, nor by a ClusterPolicy's state.
Sources: as of operator_labelling.py and operator_daemonsets.py.
"""

import json
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import Cluster
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_facts import FAKE_POOL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_chain import (
    DRIVER,
    LAB_CHAIN,
    LAB_NEEDS,
    OPERATOR_NEEDS,
    TOOLKIT,
    unmet,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_seen import SeenNode, SeenPod, SeenSet
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_case import Case
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import driver_nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    CONTAINER_WORKLOAD,
    DEPLOY_PREFIX,
    MODES,
    WORKLOADS,
    can_do_mig,
    known_operands,
    operands_of,
)

LABEL_ABSENT, LABEL_NOT_TRUE, LABEL_EMPTY, PAUSED = "label-absent", "label-not-true", "label-empty", "paused"
TAINTED, NO_DAEMONSET, NOT_RUNNING = "taint-not-tolerated", "daemonset-absent", "pod-not-running"
LABEL_CAUSES = (LABEL_ABSENT, LABEL_NOT_TRUE, LABEL_EMPTY, PAUSED)


class Scene(NamedTuple):
    """The cluster that a node stands in."""

    cluster: Cluster
    sets: Dict[str, List[SeenSet]]  # by operand
    pods: Dict[Tuple[str, str], List[SeenPod]]  # by node and DaemonSet's title
    running: Dict[str, FrozenSet[str]]  # operands of which a Pod runs, by node
    made: FrozenSet[str]  # operands whose DaemonSets the operator makes for its ClusterPolicy
    drivers: Tuple[Dict[str, Any], ...]  # NVIDIADriver objects, where they count

    def pods_of(self, node: SeenNode, one: SeenSet) -> List[SeenPod]:
        """Return the Pods of a DaemonSet on a node."""
        return self.pods.get((node.name, one.title), [])

    def runs(self, node: SeenNode, operand: str) -> bool:
        """Say whether a Pod of an operand runs on a node."""
        return operand in self.running.get(node.name, ())


class Missing(NamedTuple):
    """An operand that is due on a node and does not run there."""

    operand: str
    cause: str
    detail: str
    at: Optional[SeenSet] = None  # the DaemonSet that it is about
    pod: Optional[SeenPod] = None
    waits: bool = False  # whether its Pod is being started, or waits as it should
    waits_for: Tuple[str, ...] = ()  # operands that are missing too, which explains it


class Disorder(NamedTuple):
    """An operand that runs on a node without one that it needs."""

    operand: str
    needs: str
    detail: str
    on_purpose: bool  # whether the needed one is held off on purpose


class Verdict(NamedTuple):
    """What the audit has to say about a node."""

    node: SeenNode
    case: Case
    workload: str
    managed: bool  # whether an operator looks after the node
    due: List[str]
    running: List[str]
    missing: List[Missing]
    out_of_order: List[Disorder]


def judge_node(node: SeenNode, case: Case, scene: Scene) -> Optional[Verdict]:
    """Return the verdict on a node, None for one that has nothing to do with GPUs."""
    running = sorted(scene.running.get(node.name, ()))
    has_operator = scene.cluster.policy is not None
    managed = has_operator and case.present and FAKE_POOL not in case.view.labels
    if not (managed or running or (not has_operator and (case.view.is_gpu_node() or case.view.live))):
        return None
    workload = _workload(case, managed)
    if case.off or (has_operator and not managed) or case.is_left_to_dra():
        due = []
    else:
        due = _due_by_operator(node, case, workload, scene) if managed else _due_in_lab(node, workload, scene)
    missing = [found for found in (_missing_operand(node, operand, case, scene) for operand in due) if found]
    # Where the operator leaves a node alone, what the cluster has is what there could be.
    known = frozenset(due) if managed or not has_operator else frozenset(scene.sets)
    disorder = [] if case.is_left_to_dra() else _out_of_order(node, running, known, missing, scene)
    needs = OPERATOR_NEEDS if has_operator else LAB_NEEDS
    missing = [_explained(node, one, known, needs, scene) for one in missing]
    gone = {one.operand for one in missing}
    return Verdict(node, case, workload, managed, due, [one for one in running if one not in gone], missing, disorder)


def _workload(case: Case, managed: bool) -> str:
    """Return what a node is for: to the operator, or by its own label; a container node without one."""
    if managed:
        return case.workload or case.effective.value
    return case.view.label if case.view.label in WORKLOADS else CONTAINER_WORKLOAD


def _due_by_operator(node: SeenNode, case: Case, workload: str, scene: Scene) -> List[str]:
    """Return the operands of a node's workload whose DaemonSets the operator makes."""
    version = scene.cluster.version
    operands = set(operands_of(workload, case.mode or MODES[0], version)) & scene.made
    if workload == CONTAINER_WORKLOAD and can_do_mig(node.labels) and "mig-manager" in scene.made:
        operands.add("mig-manager")
    if version < (26, 3) and node.labels.get("nvidia.com/cc.capable") != "true":
        operands.discard("cc-manager")
    operands |= {
        operand for operand in _by_driver_objects(node, scene) if operand in operands_of(workload, MODES[0], version)
    }
    policy = scene.cluster.policy
    drivers = scene.sets.get(DRIVER, [])
    if policy and policy.driver_objects and (not drivers or any(one.selects(node) for one in drivers)):
        # A DaemonSet tells that it is due where the NVIDIADriver was not seen. Without one nobody has said which driver it
        # should be, so there is none, and the ClusterPolicy is ready.
        operands |= {DRIVER} & operands_of(workload, MODES[0], version)
    if node.labels.get(DEPLOY_PREFIX + DRIVER) == "pre-installed":
        operands.discard(DRIVER)
    return sorted(operands)


def _by_driver_objects(node: SeenNode, scene: Scene) -> List[str]:
    """Return the operands that NVIDIADriver objects bring to a node."""
    found = []
    for driver in scene.drivers:
        if driver_nodes(driver, [node.labels]):
            spec = driver.get("spec")
            kind = spec.get("driverType") if isinstance(spec, dict) else None
            found.append("vgpu-manager" if kind == "vgpu-host-manager" else DRIVER)
    return found


def _due_in_lab(node: SeenNode, workload: str, scene: Scene) -> List[str]:
    """Return what is due where no operator says so: what belongs to the node's workload and has a DaemonSet.

    An operand of the chain that the node's label asks for is due without one too, and one that belongs to no workload only where it
    is asked for.
    """
    own = {operand for mode in MODES for operand in operands_of(workload, mode, scene.cluster.version)}
    own |= {"mig-manager"} if workload == CONTAINER_WORKLOAD and can_do_mig(node.labels) else set()
    asked = {
        operand
        for operand in {*scene.sets, *LAB_CHAIN}
        if node.labels.get(DEPLOY_PREFIX + operand) == "true" and (operand in own or operand not in known_operands())
    }
    due = {operand for operand in own if operand in scene.sets} | asked
    if node.labels.get(DEPLOY_PREFIX + DRIVER) == "pre-installed":
        due.discard(DRIVER)
    return sorted(due)


def _missing_operand(node: SeenNode, operand: str, case: Case, scene: Scene) -> Optional[Missing]:
    """Return why an operand that is due does not run on a node, None if it does."""
    sets = scene.sets.get(operand, [])
    selecting = [one for one in sets if one.selects(node)]
    lacking = [one for one in selecting if all(pod.why for pod in scene.pods_of(node, one))]
    if scene.runs(node, operand):
        # Of several DaemonSets one may be for other nodes, by its taints; a Pod that has failed is a fault.
        lacking = [one for one in lacking if scene.pods_of(node, one) or not one.untolerated(node)]
        return _of_pod(node, operand, lacking[0], scene) if lacking else None
    value = node.labels.get(DEPLOY_PREFIX + operand)
    if not selecting and value != "true":
        return _of_label(operand, value, case, scene.cluster)
    sets = [one for one in sets if not one.is_beside()]
    selecting = [one for one in selecting if not one.is_beside()]
    if not sets:
        return Missing(operand, NO_DAEMONSET, f"no DaemonSet asks nodes for {DEPLOY_PREFIX}{operand}")
    if not selecting:
        plain = [one for one in sets if not one.is_conditional()] or sets
        details = "; ".join(f"DaemonSet {one.title} does not take this node: {one.mismatch(node)}" for one in plain)
        # One for another kernel is as it should be; it is this node's own that is not there.
        edited = [one for one in plain if not one.is_of_system()]
        return Missing(operand, NO_DAEMONSET, details, edited[0] if len(edited) == len(plain) == 1 else None)
    with_pod = next((one for one in selecting if scene.pods_of(node, one)), None)
    tolerating = [one for one in selecting if not one.untolerated(node)]
    if with_pod is None and not tolerating:
        taints = ", ".join(selecting[0].untolerated(node))
        return Missing(operand, TAINTED, f"DaemonSet {selecting[0].title} does not tolerate {taints}", selecting[0])
    return _of_pod(node, operand, with_pod or tolerating[0], scene)


def _of_label(operand: str, value: Any, case: Case, cluster: Cluster) -> Missing:
    key = DEPLOY_PREFIX + operand
    if value is None:
        return Missing(operand, LABEL_ABSENT, f"no label {key}")
    detail = f"{key} is {json.dumps(value, default=repr)}"
    if value == "":
        # Since 26.7 the operator replaces it when it next looks, but for mig-manager.
        replaced = cluster.policy is not None and cluster.version_text != "" and cluster.version >= (26, 7)
        if not replaced or operand == "mig-manager":
            return Missing(operand, LABEL_EMPTY, detail)
        return Missing(operand, LABEL_NOT_TRUE, detail + ', which the operator makes "true" when it next looks')
    if "paused-for-" in str(value):
        return Missing(operand, PAUSED, detail)
    return Missing(operand, LABEL_NOT_TRUE, detail + (": taken off on purpose" if value == "false" else ""))


def _of_pod(node: SeenNode, operand: str, one: SeenSet, scene: Scene) -> Missing:
    pods = scene.pods_of(node, one)
    if not pods:
        detail = f"DaemonSet {one.title} has made no Pod for it"
        return Missing(operand, NOT_RUNNING, detail, one)
    # A failed Pod may stand beside its successor.
    pod = next((pod for pod in pods if pod.waits), pods[0])
    return Missing(operand, NOT_RUNNING, f"Pod {one.namespace}/{pod.name}: {pod.why}", one, pod, pod.waits)


def _on_purpose(node: SeenNode, operand: str) -> bool:
    """Say whether an operand's label was set to hold it off: by somebody, or by a manager for the time of a change."""
    value = str(node.labels.get(DEPLOY_PREFIX + operand))
    return value == "false" or "paused-for-" in value


def _is_off(node: SeenNode, operand: str) -> bool:
    return bool(node.labels.get(DEPLOY_PREFIX + operand) == "false")


def _out_of_order(
    node: SeenNode, running: List[str], known: FrozenSet[str], missing: List[Missing], scene: Scene
) -> List[Disorder]:
    """Return what runs without what it needs; what lacks the toolkit first."""
    causes = {one.operand: one.detail for one in missing}
    needs = OPERATOR_NEEDS if scene.cluster.policy is not None else LAB_NEEDS
    found = []
    for operand in running:
        for needed in _unmet_on(node, operand, known, needs, scene):
            why = (
                causes.get(needed)
                or f"{DEPLOY_PREFIX}{needed} is {json.dumps(node.labels.get(DEPLOY_PREFIX + needed), default=repr)}"
            )
            detail = f"{operand} runs, and {needed}, which it needs, does not ({why})"
            found.append(Disorder(operand, needed, detail, _on_purpose(node, needed)))
    return sorted(found, key=lambda one: (one.needs != TOOLKIT, one.operand != "device-plugin", one.operand))


def _unmet_on(
    node: SeenNode, operand: str, known: FrozenSet[str], needs: Dict[str, Tuple[str, ...]], scene: Scene
) -> List[str]:
    """Return what an operand lacks on a node. A driver that is off on purpose, and what is not due, count as met."""
    return unmet(
        operand,
        needs,
        lambda needed: scene.runs(node, needed),
        lambda needed: needed not in known or (needed == DRIVER and _is_off(node, DRIVER)),
    )


def _explained(
    node: SeenNode, one: Missing, known: FrozenSet[str], needs: Dict[str, Tuple[str, ...]], scene: Scene
) -> Missing:
    """Add to a Pod that waits as it should for what it waits."""
    lacking = _unmet_on(node, one.operand, known, needs, scene) if one.cause == NOT_RUNNING and one.waits else []
    if not lacking:
        return one
    detail = f"{one.detail}; it waits for {' and '.join(lacking)}, which does not run here"
    return one._replace(detail=detail, waits_for=tuple(lacking))
