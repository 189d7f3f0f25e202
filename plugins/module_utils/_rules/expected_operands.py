# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the GPU Operator will make of nodes: their workload, their labels, and the DaemonSets with a Pod due on them.

Private to the collection gpuwl.sandbox. Every rule was compared with what unmodified controllers of v25.10.1, v26.3.3 and
v26.7.0 did on a real API server; the sources in the operator stand with the rules in operator_labelling.py and
operator_daemonsets.py.
"""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy, read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import (
    DRIVER_OWNER,
    KERNEL,
    OPERANDS,
    OS_ID,
    OS_VERSION,
    DaemonSet,
    driver_name,
    driver_nodes,
    is_made,
    is_precompiled,
    operator_daemonsets,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labelling import (
    is_found,
    label_node,
    workload_of,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.sources import collect_from
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    KNOWN_VERSIONS,
    NEWEST_VERSION,
    OPERANDS_SWITCH,
    nearest_version,
    operands_disabled,
    parse_version,
    version_text,
)

_DOUBTFUL_SYSTEM = (
    "some node with a GPU lacks Node Feature Discovery's labels of its operating system: should the operator look"
    " there for them, it makes no DaemonSet at all"
)

_NO_SYSTEM = (
    "no node with a GPU has Node Feature Discovery's labels of its operating system or kernel, without which the"
    " operator makes no DaemonSet"
)
_CRASH = (
    "kataManager.enabled is true without a kataManager.config: operators before 26.7 crash there, and make nothing that"
    " comes after it, such as nvidia-cc-manager"
)

Taints = Tuple[Tuple[str, str, str], ...]


class Surrounding(NamedTuple):
    """What decides about all nodes alike."""

    policy: Policy
    version: Tuple[int, int]  # one of KNOWN_VERSIONS
    drivers: Tuple[Dict[str, Any], ...]  # NVIDIADriver objects
    gpu_cluster: str  # the name of a GPUCluster, which 26.7 does not suffer beside a ClusterPolicy, or ""
    notes: Tuple[str, ...]  # what is to be said about every node


def expected_operands(
    nodes: Any,
    cluster_policy: Union[Policy, Dict[str, Any], None] = None,
    operator_version: Optional[str] = None,
    other_objects: Iterable[Dict[str, Any]] = (),
) -> List[Dict[str, Any]]:
    """Return what the operator will make of each node once it has gone through all of them.

    nodes: Node objects, as a list or a List object, or the path of a dump; objects of other kinds are left out.
    cluster_policy: the ClusterPolicy, its spec, or a Policy; absent fields mean what they mean to the operator.
    operator_version: such as 26.7.0, v26.7.0 or 26.7; the newest known one if None.
    other_objects: NVIDIADriver and GPUCluster objects and further ClusterPolicies, which the operator ignores.

    Each node gives {node, workload, reason, labels, daemonsets, certain, notes}:
    workload: container, vm-passthrough or vm-vgpu; None on a node without a GPU.
    reason: label, label-missing, label-invalid, sandbox-disabled, operands-disabled, gpu-not-present or frozen.
    labels: all labels of the settled node that begin with nvidia.com/.
    daemonsets: names of the DaemonSets with a Pod due there, ascending. A driver's that ends in a hash goes without it.
    certain: False where the answer depends on timing; notes says why, and what else was assumed.

    Raises ValueError (PolicyError for a ClusterPolicy, Unreadable for the nodes) or TypeError, in one line.
    """
    listed = collect_from(nodes, "Node", dict)
    around = surrounding(cluster_policy, operator_version, other_objects)
    found = [{str(key): value for key, value in (node["metadata"].get("labels") or {}).items()} for node in listed]
    settled = settle(found, around)
    daemonsets, words = daemonsets_for(settled, around)
    doubts = [word for word in words if word != _NO_SYSTEM]
    result = []
    for node, before, labels in zip(listed, found, settled):
        reason, workload, certain, notes = _decision(before, around)
        taints = taints_of(node)
        result.append(
            {
                "node": node["metadata"]["name"],
                "workload": workload,
                "reason": reason,
                "labels": {key: labels[key] for key in sorted(labels) if key.startswith("nvidia.com/")},
                "daemonsets": sorted(one.name for one in daemonsets if one.is_due_on(labels, taints)),
                "certain": certain and not doubts,
                "notes": [*notes, *_kept_away(daemonsets, labels, taints), *words, *around.notes],
            }
        )
    return result


def surrounding(
    cluster_policy: Union[Policy, Dict[str, Any], None],
    operator_version: Optional[str],
    other_objects: Iterable[Dict[str, Any]],
) -> Surrounding:
    """Read what decides about all nodes alike; arguments and errors as of expected_operands."""
    notes = []
    version = NEWEST_VERSION
    if operator_version not in (None, ""):
        parsed = parse_version(version_text(operator_version))
        if parsed is None:
            raise ValueError(
                f"the operator version is {operator_version!r}, expected one such as 26.7.0, v26.7.0 or 26.7"
            )
        version = nearest_version(parsed)
        if parsed not in KNOWN_VERSIONS:
            notes.append(
                f"operator {operator_version} is not known; predicted as {version[0]}.{version[1]}, the nearest"
            )
    policy = (
        cluster_policy
        if isinstance(cluster_policy, Policy)
        else read_policy({} if cluster_policy is None else cluster_policy)
    )
    if isinstance(other_objects, dict) or not isinstance(other_objects, (list, tuple)):
        raise TypeError("other_objects must be a list of objects, such as NVIDIADriver, GPUCluster or ClusterPolicy")
    by_kind: Dict[str, List[Dict[str, Any]]] = {}
    for at, item in enumerate(other_objects):
        if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
            raise TypeError(f"other_objects[{at}] is no Kubernetes object: it has no kind")
        by_kind.setdefault(item["kind"], []).append(item)
    if by_kind.get("ClusterPolicy"):
        notes.append("a second ClusterPolicy is ignored, whatever it says")
    if policy.driver_objects and not by_kind.get("NVIDIADriver"):
        notes.append("driver.useNvidiaDriverCRD is true and there is no NVIDIADriver: no node gets a driver")
    if policy.precompiled is None and is_precompiled(policy) and is_made(OPERANDS[0], policy, version):
        notes.append(
            f"driver.version {policy.driver_version} is a branch alone, so precompiled drivers are meant, one DaemonSet per kernel"
        )
    kata = next(one for one in OPERANDS if one.operand == "kata-manager")
    if is_made(kata, policy, version) and not policy.kata_config:
        notes.append(_CRASH)
    clusters = by_kind.get("GPUCluster", []) if version >= (26, 7) else []
    return Surrounding(
        policy,
        version,
        tuple(by_kind.get("NVIDIADriver", ())),
        driver_name(clusters[0]) or "gpu-cluster" if clusters else "",
        tuple(notes),
    )


def settle(found: List[Dict[str, Any]], around: Surrounding) -> List[Dict[str, Any]]:
    """Return the labels of all nodes after the operator has gone through them, in the same order."""
    if around.gpu_cluster:
        return found
    settled = [label_node(labels, around.policy, around.version) for labels in found]
    if around.policy.driver_objects and around.version >= (26, 7):
        for driver in around.drivers:
            for labels in driver_nodes(driver, [labels for labels in settled if is_found(labels)]):
                labels[DRIVER_OWNER] = driver_name(driver)
    return settled


def daemonsets_for(settled: List[Dict[str, Any]], around: Surrounding) -> Tuple[List[DaemonSet], List[str]]:
    """Return the DaemonSets that the operator makes for nodes with these labels, and what is doubtful about that."""
    gpu_nodes = [labels for labels in settled if is_found(labels)]
    made = operator_daemonsets(around.policy, around.version, gpu_nodes, around.drivers)
    unnamed = [labels for labels in gpu_nodes if not _has_system(labels, around)]
    if not unnamed:
        return made, []
    if len(unnamed) == len(gpu_nodes):
        return [], [_NO_SYSTEM]
    return made, [_DOUBTFUL_SYSTEM]


def _has_system(labels: Dict[str, Any], around: Surrounding) -> bool:
    """Say whether a node tells what the operator cannot go on without; 25.10 needs the kernel, and only for drivers."""
    if around.version < (26, 3):
        return bool(labels.get(KERNEL)) or not is_made(OPERANDS[0], around.policy, around.version)
    return bool(labels.get(OS_ID) and labels.get(OS_VERSION))


def _decision(labels: Dict[str, Any], around: Surrounding) -> Tuple[str, Optional[str], bool, List[str]]:
    """Return (reason, workload, certain, notes) for a node with these labels."""
    workload = workload_of(labels, around.policy, around.version)
    if around.gpu_cluster:
        note = f"the GPUCluster {around.gpu_cluster} conflicts with the ClusterPolicy: the operator leaves everything as it is"
        return "frozen", workload.value if is_found(labels) else None, True, [note]
    if not is_found(labels):
        return "gpu-not-present", None, True, []
    if operands_disabled(labels):
        return "operands-disabled", workload.value, True, [f"{OPERANDS_SWITCH}=false takes the node out as a whole"]
    notes = []
    if not workload.certain:
        notes.append(
            f"without a valid workload label operator 26.7 may have left this node on another default than"
            f" {workload.value}: compare its deploy labels, and label it"
        )
    return workload.reason, workload.value, workload.certain, notes


def _kept_away(daemonsets: List[DaemonSet], labels: Dict[str, Any], taints: Taints) -> List[str]:
    """Say which DaemonSets select a node and have no Pod there, as they do not tolerate its taints."""
    away = sorted(one.name for one in daemonsets if one.selects(labels) and not one.is_due_on(labels, taints))
    if not away:
        return []
    words = ", ".join(f"{key}{'=' + value if value else ''}:{effect}" for key, value, effect in taints)
    return [f"the taints {words} keep away {', '.join(away)}"]


def taints_of(node: Dict[str, Any]) -> Taints:
    """Return the taints of a Node that keep Pods away, as (key, value, effect)."""
    spec = node.get("spec")
    listed = spec.get("taints") if isinstance(spec, dict) else None
    return tuple(
        (str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint["effect"]))
        for taint in (listed if isinstance(listed, list) else ())
        if isinstance(taint, dict) and taint.get("effect") in ("NoSchedule", "NoExecute")
    )
