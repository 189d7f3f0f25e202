# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges all nodes of some dumps by a profile, in one pass and in little memory.

Private to the collection gpuwl.sandbox. Of each node only its name is kept; what the rules read of it is kept once
for all nodes that are alike, and judged once.
"""

import os
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Sequence, Set, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import CONTEXT_KINDS, Cluster, Surroundings
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import (
    LabFacts,
    is_labelled,
    lab_draft,
    lab_facts,
    lab_is_healthy,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import (
    SEVERITIES,
    Draft,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inputs import Progress, Source, read_inputs
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_facts import NodeFacts, facts_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable, collect
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_profile import (
    is_judged,
    judge_cluster,
    judge_operator,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Group, Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import Settings

# So many different nodes are remembered by the profile lab, and by the hint at what the profile operator would say.
_MOST_DIFFERENT = 2000


class LabCheck:
    """Profile `lab`: keeps what bad nodes are like, in the order of the dumps, and puts it into words when asked."""

    def __init__(self, ignores: FrozenSet[Tuple[str, str]]) -> None:
        self.names: Dict[str, List[str]] = {}
        self._ignores = ignores
        self._bad: List[Tuple[LabFacts, str, str]] = []
        self._known: Dict[LabFacts, bool] = {}

    def take(self, node: Dict[str, Any], source: str) -> bool:
        """Judge a Node; say whether it is bad."""
        if not is_labelled(node):
            return False
        name, facts = node["metadata"]["name"], lab_facts(node)
        self.names.setdefault(source, []).append(name)
        if self._is_healthy(facts):
            return False
        self._bad.append((facts, name, source))
        return True

    def _is_healthy(self, facts: LabFacts) -> bool:
        """Judge the same only once: most nodes of a pool are alike."""
        # Other values may not be hashable, or equal and yet different: 1 and true.
        if not isinstance(facts[0], str) or not all(isinstance(quantity, str) for _name, quantity in facts[1]):
            return lab_is_healthy(facts)
        if facts not in self._known:
            if len(self._known) >= _MOST_DIFFERENT:
                self._known.clear()
            self._known[facts] = lab_is_healthy(facts)
        return self._known[facts]

    @property
    def checked(self) -> int:
        """The number of nodes judged."""
        return sum(map(len, self.names.values()))

    def forget(self, source: str) -> None:
        """Forget the nodes of a file that turned out unreadable."""
        self.names.pop(source, None)
        self._bad = [bad for bad in self._bad if bad[2] != source]

    def __iter__(self) -> Iterator[Group]:
        """Give a group per bad node, ascending by name."""
        for facts, name, source in sorted(self._bad, key=lambda bad: bad[1]):
            found = lab_draft(facts)
            yield Group(found, "Node", [(name, source)], "--ignore" if _is_ignored(self._ignores, found, name) else "")


class OperatorCheck:
    """Profile `operator`: keeps what nodes are like until all that surrounds them is known."""

    def __init__(self, settings: Settings) -> None:
        self.checked = 0
        self.names: Dict[str, List[str]] = {}
        self._ignores = settings.ignores
        self._surroundings = Surroundings(settings.policy, settings.version, settings.saw_slices)
        self._labels: Dict[Any, Any] = {}
        # Facts -> source's place -> (source's path, names)
        self._nodes: Dict[NodeFacts, Dict[Tuple[str, ...], Tuple[str, List[str]]]] = {}
        self._forgotten: Set[Tuple[str, ...]] = set()
        self._groups: Dict[Tuple[Draft, str, str], Group] = {}
        self._clusters: Dict[Cluster, None] = {}

    def take(self, node: Dict[str, Any], source: str, place: Tuple[str, ...]) -> None:
        """Note a Node."""
        facts = facts_of(node)
        if facts not in self._nodes:
            # Many nodes differ in a quantity alone: their labels are kept once.
            facts = facts._replace(labels=self._labels.setdefault(facts.labels, facts.labels))
        at = self._nodes.setdefault(facts, {})
        at.setdefault(place, (source, []))[1].append(node["metadata"]["name"])

    def forget(self, place: Tuple[str, ...]) -> None:
        """Forget the nodes of a file that turned out unreadable."""
        self._forgotten.add(place)

    def take_beside(self, kind: str, item: Dict[str, Any], source: str, place: Tuple[str, ...]) -> None:
        """Note an object of another kind; raises ValueError for one that cannot be."""
        self._surroundings.take(kind, item, source, place)

    def different(self) -> int:
        """Return how many nodes are noted, alike ones counted once."""
        return len(self._nodes)

    def judge(self) -> List[Group]:
        """Judge what was noted; return the groups, the gravest first, then by rule."""
        for facts in list(self._nodes):
            # The facts go as the findings come: a dump in which no node is like another needs no room for both.
            places = self._nodes.pop(facts)
            for place in self._forgotten & places.keys():
                del places[place]
            for place, source, names in _once(places):
                cluster = self._surroundings.cluster_at(place)
                self._clusters[cluster] = None
                by_dra = [name for name in names if name in cluster.slice_nodes] if cluster.slice_nodes else []
                if by_dra:
                    self._judge_alike(facts, cluster, True, by_dra, source)
                    names = [name for name in names if name not in cluster.slice_nodes]
                if names:
                    self._judge_alike(facts, cluster, False, names, source)
        for cluster in self._clusters:
            for found in judge_cluster(cluster):
                kind = "GPUCluster" if found.rule == "conflicting-gpu-cluster" else "ClusterPolicy"
                name = found.evidence[0][1]
                silent = "--ignore" if _is_ignored(self._ignores, found, name) else ""
                self._add(found, kind, [(name, cluster.policy_source)], silent)
        order = {severity: at for at, severity in enumerate(SEVERITIES)}
        return sorted(
            self._groups.values(),
            key=lambda one: (order[one.draft.severity], one.draft.rule, one.draft.message, one.silenced),
        )

    def clusters(self) -> List[Cluster]:
        """Return the clusters that nodes were judged in."""
        return list(self._clusters)

    def _judge_alike(self, facts: NodeFacts, cluster: Cluster, by_dra: bool, names: List[str], source: str) -> None:
        drafts = judge_operator(facts, cluster, by_dra)
        if is_judged(facts, cluster, by_dra):
            self.checked += len(names)
            self.names.setdefault(source, []).extend(names)
        reasons = {rule: str(reason).strip() for rule, reason in facts.ignores if isinstance(reason, str)}
        for found in drafts:
            subjects = [(name, source) for name in names if not _is_ignored(self._ignores, found, name)]
            silent = [(name, source) for name in names if _is_ignored(self._ignores, found, name)]
            self._add(found, "Node", silent, "--ignore")
            self._add(found, "Node", subjects, reasons.get(found.rule, ""))

    def _add(self, found: Draft, kind: str, subjects: List[Tuple[str, str]], silenced: str) -> None:
        if subjects:
            key = (found, kind, silenced)
            if key not in self._groups:
                self._groups[key] = Group(found, kind, [], silenced)
            self._groups[key].subjects.extend(subjects)


def _is_ignored(ignores: FrozenSet[Tuple[str, str]], found: Draft, name: str) -> bool:
    return bool(ignores) and ((found.rule, "") in ignores or (found.rule, name) in ignores)


def _once(places: Dict[Tuple[str, ...], Tuple[str, List[str]]]) -> Iterator[Tuple[Tuple[str, ...], str, List[str]]]:
    """Give (place, source, names), leaving out nodes that another file of the same folder shows just so.

    A must-gather has the same node as an object and as text. Within one file a node that stands twice is judged twice.
    """
    if len(places) == 1:
        for place, (source, names) in places.items():
            yield place, source, names
        return
    seen: Dict[Tuple[str, ...], Set[str]] = {}
    for place, (source, names) in places.items():
        known = seen.setdefault(place[:-1], set())
        fresh = [name for name in names if name not in known]
        known.update(fresh)
        if fresh:
            yield place, source, fresh


def check_paths(paths: Sequence[str], settings: Settings, progress: Progress = None, hint: bool = False) -> Outcome:
    """Judge the nodes in files, folders, archives or standard input ("-"). Nothing is raised for what they hold.

    hint: whether to say which nodes are bad by the profile `lab` and not by `operator`.
    """
    paths = list({path if path == "-" else os.path.normpath(path): path for path in paths}.values())
    operator = OperatorCheck(settings)
    wrong: List[str] = []
    takers = _takers(operator, wrong)
    if settings.profile == "operator":
        sources = read_inputs(paths, takers, settings.max_size, progress)
        for source in sources:
            if source.error:
                operator.forget(source.place)
        errors = _errors(sources) + wrong
        groups = operator.judge()
        return Outcome("operator", sources, errors, operator.checked, operator.names, groups, operator.clusters())
    lab = LabCheck(settings.ignores)

    def take(node: Dict[str, Any], source: Source) -> None:
        if lab.take(node, source.path) and hint and operator.different() <= _MOST_DIFFERENT:
            operator.take(node, source.path, source.place)

    # A Pod's form would be checked, and the lab's checker leaves other kinds alone.
    beside = {kind: takers[kind] for kind in CONTEXT_KINDS if kind != "Pod"} if hint else {}
    sources = read_inputs(paths, {**beside, "Node": take}, settings.max_size, progress)
    for source in sources:
        if source.error:
            lab.forget(source.path)
    outcome = Outcome("lab", sources, _errors(sources), lab.checked, lab.names, lab, [])
    return outcome._replace(cleared=tuple(_cleared(operator, lab))) if hint else outcome


def check_objects(nodes: Any, settings: Settings, beside: Sequence[Any] = ()) -> Outcome:
    """Judge nodes in memory: a list of them, a List or NodeList, or one Node.

    beside: further objects that tell about the cluster; those in a List among the nodes count too.
    Raises objects.Unreadable, and ValueError for a ClusterPolicy that cannot be.
    """
    lab, operator = LabCheck(settings.ignores), OperatorCheck(settings)

    def take(node: Dict[str, Any]) -> None:
        _check_keys(node)
        if settings.profile == "lab":
            lab.take(node, "")
        else:
            operator.take(node, "", ())

    for item in [*beside, *_items(nodes)]:
        if isinstance(item, dict) and item.get("kind") in CONTEXT_KINDS:
            operator.take_beside(item["kind"], item, "", ())
    collect(nodes, "Node", take)
    if settings.profile == "lab":
        return Outcome("lab", [], [], lab.checked, lab.names, lab, [])
    groups = operator.judge()
    return Outcome("operator", [], [], operator.checked, operator.names, groups, operator.clusters())


def _check_keys(node: Dict[str, Any]) -> None:
    """Refuse keys that are no texts; what was read from a file has none, variables of a play may."""
    status = node.get("status") or {}
    fields = {f"metadata.{field}": node["metadata"].get(field) for field in ("labels", "annotations")}
    fields.update({f"status.{field}": status.get(field) for field in ("capacity", "allocatable")})
    for field, found in fields.items():
        for key in found if isinstance(found, dict) else ():
            if not isinstance(key, str):
                raise Unreadable(f"Node {node['metadata']['name']}: a key of {field} is {key!r}, expected a string")


def _items(data: Any) -> List[Any]:
    items = data.get("items") if isinstance(data, dict) else data
    return items if isinstance(items, list) else []


def _cleared(operator: OperatorCheck, groups: Iterable[Group]) -> List[str]:
    """Return the bad nodes about which the profile operator has nothing but information.

    None where so many nodes are so different that a hint would take more memory than the check.
    """
    if operator.different() > _MOST_DIFFERENT:
        return []
    wrong = {
        name
        for group in operator.judge()
        if group.draft.severity != "info" and group.kind == "Node"
        for name, _source in group.subjects
    }
    return [name for group in groups for name, _source in group.subjects if name not in wrong]


def _takers(check: OperatorCheck, wrong: List[str]) -> Dict[str, Callable[[Dict[str, Any], Source], None]]:
    """Return what takes each kind; what is wrong with an object beside the nodes is added to `wrong`."""

    def beside(kind: str) -> Callable[[Dict[str, Any], Source], None]:
        def take(item: Dict[str, Any], source: Source) -> None:
            try:
                check.take_beside(kind, item, source.path, source.place)
            except ValueError as error:
                wrong.append(f"{source.path}: {error}")

        return take

    takers = {kind: beside(kind) for kind in CONTEXT_KINDS}
    takers["Node"] = lambda node, source: check.take(node, source.path, source.place)
    return takers


def _errors(sources: Sequence[Source]) -> List[str]:
    """Return why something could not be read, a line each; that there is no node in all of it counts too."""
    errors = [f"{source.path}: {source.error}" for source in sources if source.error]
    if errors or any(source.counts.get("Node") for source in sources):
        return errors
    read = [source for source in sources if not source.left_out]
    if any(not source.complaint for source in read):
        return []  # an empty List of nodes is a dump
    complaints = [f"{source.path}: {source.complaint}" for source in read]
    return (
        complaints[:1]
        or [f"{source.path}: {source.left_out}" for source in sources][:1]
        or ["there is nothing to read"]
    )
