# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expected operands against actual ones: what is due on each node, what runs, what is missing and why, what is out of order.

Private to the collection gpuwl.sandbox. Sources: as of operand_verdicts.py, operand_chain.py and operand_misleading.py.
"""

import contextlib
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import Cluster, Surroundings
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy, read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inputs import Source, read_inputs
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import (
    Intake,
    Unreadable,
    Unwanted,
    check_shape,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_comparison import compare_versions as compare
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_comparison import read_versions
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_findings import findings_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_misleading import as_data, misleading
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_seen import (
    SeenNode,
    SeenPod,
    SeenSet,
    as_dict,
    seen_node,
    seen_pod,
    seen_set,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_verdicts import Scene, Verdict, judge_node
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_case import Case
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import OPERANDS, made_operands
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import read_version, settings_from
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    CONTAINER_WORKLOAD,
    can_do_mig,
    operands_of,
    version_text,
)

# With each kind that tells something the resource as kubectl names it.
AUDIT_KINDS = {
    "Node": "nodes",
    "DaemonSet": "daemonsets.apps",
    "Pod": "pods",
    "ClusterPolicy": "clusterpolicies.nvidia.com",
    "NVIDIADriver": "nvidiadrivers.nvidia.com",
    "GPUCluster": "gpuclusters.nvidia.com",
    "Deployment": "deployments.apps",
    "ResourceSlice": "resourceslices.resource.k8s.io",
}
_MOST_ERRORS = 5  # in one line
_NO_OPERATOR = "no ClusterPolicy, so no operator's version counts"


def seen_object(kind: str, item: Dict[str, Any]) -> Any:
    """Return what the audit needs of an object of a kind of AUDIT_KINDS, small where there are many; None if nothing.

    Raises Unreadable for a Node without the form that the API gives it.
    """
    if kind == "Node":
        check_shape(item, "Node", "an object")
        return seen_node(item)
    if kind != "Pod":
        return item
    pod = seen_pod(item)
    if pod:
        return pod
    # The operator's own Pod tells its version; those of operands tell it by their DaemonSets.
    labels = as_dict(as_dict(item.get("metadata")).get("labels"))
    return item if "gpu-operator" in (labels.get("app"), labels.get("app.kubernetes.io/name")) else None


class OperandsSeen:
    """Takes objects one after the other, and keeps of each what the audit needs."""

    def __init__(self, policy: Optional[Policy] = None, version: str = "") -> None:
        """policy, version: given by the user, which stand above what the objects say."""
        self._surroundings = Surroundings(policy, version)
        self._nodes: Dict[str, SeenNode] = {}
        self._sets: Dict[Tuple[str, str], SeenSet] = {}
        self._pods: Dict[Tuple[str, str], SeenPod] = {}
        self._states: Dict[str, str] = {}  # of the ClusterPolicies
        self._drivers: Dict[str, Dict[str, Any]] = {}
        self._others = False  # whether anything but Nodes was given

    def take(self, kind: str, item: Dict[str, Any]) -> None:
        """Note an object of a kind of AUDIT_KINDS; raises as seen_object does, and PolicyError for a ClusterPolicy that cannot be."""
        self.note(kind, seen_object(kind, item))

    def note(self, kind: str, seen: Any) -> None:
        """Note what seen_object has made of an object; of one that stands there twice the last counts."""
        if isinstance(seen, SeenNode):
            self._nodes[seen.name] = seen
        elif isinstance(seen, SeenPod):
            self._pods[seen.owner[0], seen.name] = seen
        elif seen is not None:
            self._others = True
            self._note_whole(kind, seen)

    def _note_whole(self, kind: str, item: Dict[str, Any]) -> None:
        metadata = as_dict(item.get("metadata"))
        if kind == "NVIDIADriver":
            self._drivers[str(metadata.get("name"))] = {**item, "kind": kind}
            return
        if kind == "DaemonSet":
            daemonset = seen_set(item)
            if daemonset:
                self._sets[daemonset.namespace, daemonset.name] = daemonset
        elif kind == "ClusterPolicy":
            name = str(metadata.get("name") or "cluster-policy")
            self._states[name] = str(as_dict(item.get("status")).get("state") or "")
        self._surroundings.take(kind, item, "the cluster", ())

    def lacking(self) -> str:
        """Return the kind of which there must be objects that were not given, "" where all seems to be there."""
        if not self._nodes:
            return "Node"
        if not self._sets and (self._pods or not self._others):
            return "DaemonSet"
        return "Pod" if not self._pods and any(one.desired for one in self._sets.values()) else ""

    def compare(self, versions: Any) -> Dict[str, Any]:
        """Return what changes for the nodes from one version to another; see operand_comparison.compare_versions."""
        older_newer = read_versions(versions)
        cluster = self._surroundings.cluster_at(())
        if cluster.policy is None:
            raise ValueError("compare_versions: there is no ClusterPolicy to predict by, give cluster_policy")
        others = [*self._drivers.values()]
        others += [{"kind": "ClusterPolicy", "metadata": {"name": name}} for name in cluster.other_policies]
        others += [{"kind": "GPUCluster", "metadata": {"name": name}} for name in cluster.gpu_clusters]
        nodes = [self._nodes[name] for name in sorted(self._nodes)]
        return compare(nodes, cluster.policy, older_newer, others)

    def result(self, versions: Any = None) -> Dict[str, Any]:
        """Return the audit, with the comparison of versions where two are given."""
        if versions in (None, [], ()):
            return self.audit()
        comparison = self.compare(versions)
        return {**self.audit(), "comparison": comparison}

    def audit(self) -> Dict[str, Any]:
        """Judge what was noted; returns as operand_audit does."""
        cluster = self._surroundings.cluster_at(())
        scene = self._scene(cluster)
        cases: Dict[Any, Case] = {}
        verdicts = []
        for name in sorted(self._nodes):
            node = self._nodes[name]
            by_dra = name in cluster.slice_nodes
            if (node.facts, by_dra) not in cases:
                cases[node.facts, by_dra] = Case(node.facts, cluster, by_dra)
            verdict = judge_node(node, cases[node.facts, by_dra], scene)
            if verdict:
                verdicts.append(verdict)
        has_operator = cluster.policy is not None
        assumed = "%d.%d" % cluster.version if has_operator else None
        told_by = cluster.version_source or ("assumed, as nothing tells it" if has_operator else _NO_OPERATOR)
        return {
            "nodes": [as_data(verdict) for verdict in verdicts],
            "findings": findings_of(verdicts, scene),
            "misleading": misleading(verdicts, scene, self._states),
            "disabled": _disabled(verdicts, scene),
            "operator": has_operator,
            "operator_version": cluster.version_text or assumed,
            "version_source": told_by,
        }

    def _scene(self, cluster: Cluster) -> Scene:
        sets: Dict[str, List[SeenSet]] = {}
        titles = {}
        # Where the operator's own is there, what others let go after its label is not the operand.
        owned = {operand for one in self._sets.values() if one.owner for operand in one.operands}
        for key, one in sorted(self._sets.items()):
            if not one.owner and owned.issuperset(one.operands):
                continue
            titles[key] = one
            if one.uid:
                titles["", one.uid] = one
            for operand in one.operands:
                sets.setdefault(operand, []).append(one)
        pods: Dict[Tuple[str, str], List[SeenPod]] = {}
        running: Dict[str, Set[str]] = {}
        for pod in self._pods.values():
            namespace, name, uid = pod.owner
            owner = titles.get(("", uid)) or titles.get((namespace, name))
            # A Pod of an earlier DaemonSet of the same name is on its way out.
            if owner and (not uid or not owner.uid or owner.uid == uid):
                pods.setdefault((pod.node, owner.title), []).append(pod)
                if not pod.why and not owner.is_beside():
                    running.setdefault(pod.node, set()).update(owner.operands)
        policy = cluster.policy
        made = frozenset(one.operand for one in made_operands(policy, cluster.version)) if policy else frozenset()
        drivers = (
            tuple(self._drivers[name] for name in sorted(self._drivers)) if policy and policy.driver_objects else ()
        )
        return Scene(cluster, sets, pods, {name: frozenset(every) for name, every in running.items()}, made, drivers)


def _disabled(verdicts: List[Verdict], scene: Scene) -> List[Dict[str, str]]:
    """Return the operands of the nodes' workloads that the ClusterPolicy switches off: [{operand, setting}]."""
    policy, version = scene.cluster.policy, scene.cluster.version
    if not policy:
        return []
    wanted: Set[str] = set()
    for verdict in verdicts:
        if verdict.managed and not verdict.case.off:
            wanted |= operands_of(verdict.workload, verdict.case.mode, version)
            if verdict.workload == CONTAINER_WORKLOAD and can_do_mig(verdict.node.labels):
                wanted.add("mig-manager")
    off = {
        one.operand: f"{one.section}.enabled"
        for one in OPERANDS
        if one.operand in wanted - scene.made and one.section and not policy.is_enabled(one.section)
    }
    return [{"operand": operand, "setting": off[operand]} for operand in sorted(off)]


def operand_audit(
    objects: Any, operator_version: Any = None, cluster_policy: Any = None, compare_versions: Any = None
) -> Dict[str, Any]:
    """Return what each node should run and does.

    objects: a list of Nodes, DaemonSets, Pods, ClusterPolicies and whatever else AUDIT_KINDS has; other kinds are left out.
    A List among them stands for its items.
    operator_version: such as 26.3.3, which stands above what the objects tell; the newest known one where nothing tells it.
    cluster_policy: a ClusterPolicy or its spec, which stands above those among the objects.
    compare_versions: two versions, of which `comparison` then tells what changes for the nodes.

    nodes: per node with a GPU {node, workload, due, running, missing: [{operand, cause, detail}],
    out_of_order: [{operand, needs, detail}]}, ascending. cause: label-absent, label-not-true, label-empty, paused,
    taint-not-tolerated, daemonset-absent or pod-not-running.
    findings: in the form of finding.py. misleading: [{object, says, but}].
    disabled: [{operand, setting}], what the ClusterPolicy switches off and is therefore not due.
    operator: whether there is a ClusterPolicy. operator_version, version_source: which one was assumed, and who told.

    Raises ValueError or TypeError, in one line.
    """
    seen = OperandsSeen(
        read_policy(cluster_policy) if cluster_policy else None,
        read_version(version_text(operator_version)) if operator_version not in (None, "") else "",
    )
    _take_objects(seen, objects)
    return seen.result(compare_versions)


def _take_objects(seen: OperandsSeen, objects: Any) -> None:
    """Hand on objects in memory: a list of them, in which a List stands for its items, a List or one object."""
    given = list(objects) if isinstance(objects, (list, tuple)) else [objects]
    lists = [one for one in given if isinstance(one, dict) and isinstance(one.get("items"), list)]
    plain = [one for one in given if not any(one is other for other in lists)]
    for one in [*lists, {"kind": "List", "items": plain}]:
        takers = {kind: _taker(seen, kind) for kind in AUDIT_KINDS}
        intake = Intake(takers, {})
        intake.start_items(one)
        for item in one["items"]:
            intake.add(item)
        with contextlib.suppress(Unwanted):  # it has no Node, which another may have
            intake.finish(one, True)


def operand_audit_of(
    paths: List[str], operator_version: Any = None, cluster_policy: Any = None, compare_versions: Any = None
) -> Dict[str, Any]:
    """Do the same with files, folders and archives, which together show one cluster; cluster_policy may be a path too."""
    settings = settings_from("operator", cluster_policy, operator_version)
    seen = OperandsSeen(settings.policy, settings.version)
    wrong: List[str] = []

    def taker(kind: str) -> Callable[[Dict[str, Any], Source], None]:
        def take(item: Dict[str, Any], source: Source) -> None:
            try:
                seen.take(kind, item)
            except ValueError as error:
                wrong.append(f"{source.path}: {error}")

        return take

    sources = read_inputs(paths, {kind: taker(kind) for kind in AUDIT_KINDS}, settings.max_size)
    errors = [f"{source.path}: {source.error}" for source in sources if source.error] + wrong
    lacking = seen.lacking()
    if lacking and not errors:
        errors = [
            f"{', '.join(paths)}: there is no {lacking} in it: add what `kubectl get {AUDIT_KINDS[lacking]} -A -o json` prints"
        ]
    if errors:
        raise Unreadable("; ".join(errors[:_MOST_ERRORS]))
    return seen.result(compare_versions)


def _taker(seen: OperandsSeen, kind: str) -> Callable[[Dict[str, Any]], None]:
    return lambda item: seen.take(kind, item)
