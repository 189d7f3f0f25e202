# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the dumps of one cluster for an audit: consistency, operands and inventory, none of which holds whole objects.

Private to the collection gpuwl.sandbox. The dumps are read twice: once by the checker, which knows what makes a dump unreadable,
and once for what only the audit looks at.
"""

import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.checking import check_paths
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import RESOURCE_PREFIX
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inputs import Source, read_inputs
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inventory import inventory
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import AUDIT_KINDS, OperandsSeen
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.pod_requests import (
    identity,
    positive_quantities,
    requested,
    scheduled_condition,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import Settings

_NAMES_OF_CLUSTER = "the cluster"
# What of a Pod's spec decides where it may go.
_PLACING = ("nodeSelector", "affinity", "tolerations")


class AuditReading(NamedTuple):
    """What was read of a cluster, and what each part of the audit makes of it."""

    outcome: Outcome  # of the profile operator
    counts: Dict[str, int]  # objects read, by kind
    operands: Optional[Dict[str, Any]]  # as operand_audit gives it; None where it cannot be judged
    lacking: str  # the kind for want of which that is so
    inventory: Optional[Dict[str, Any]]  # as inventory gives it; None without any Node or Pod
    comparison: Optional[Dict[str, Any]] = None  # of two versions of the operator, where that was asked for
    no_comparison: str = ""  # why there is none though it was asked for


def read_audit(
    paths: Sequence[str], settings: Settings, live: Optional[Dict[str, str]] = None, versions: Sequence[str] = ()
) -> AuditReading:
    """Read the dumps of one cluster. Nothing is raised for what they hold.

    paths: files, folders or archives. live: of dumps just made of a whole cluster, for each kind why it could not be read, "" if
    it was; then what is not there is not in the cluster. None where nobody knows of what the dumps are.
    versions: two of the operator to compare, or none.
    """
    settings = settings._replace(saw_slices=live is not None and live.get("ResourceSlice") == "")
    outcome = check_paths(paths, settings)
    seen, stock = OperandsSeen(settings.policy, settings.version), _Stock()
    sources = read_inputs(paths, _audit_takers(seen, stock), settings.max_size)
    counts = {kind: sum(source.counts.get(kind, 0) for source in sources) for kind in AUDIT_KINDS}
    errors = list(outcome.errors)
    counted, operands, lacking = None, None, _lacking_kind(counts, settings, live)
    # Pods alone would be a queue beside no GPU at all.
    if (counts["Node"] and counts["Pod"]) or (live is not None and not live.get("Pod")):
        try:
            counted = stock.counted()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            errors.append(_why("a Node or Pod", error))
    if live and live.get(lacking):
        # The main part of an audit cannot be made, so that all is well would be no answer.
        errors.append(f"{live[lacking]}; so operands cannot be judged")
    if not lacking and counts["Node"]:
        operands = seen.audit()
    outcome = outcome._replace(errors=list(dict.fromkeys(errors + stock.errors)))
    outcome = outcome if live is None else _without_files(outcome)
    reading = AuditReading(outcome, counts, operands, lacking, counted)
    return _compared(reading, seen, versions) if versions else reading


def _compared(reading: AuditReading, seen: OperandsSeen, versions: Sequence[str]) -> AuditReading:
    try:
        return reading._replace(comparison=seen.compare(versions))
    except ValueError as error:
        return reading._replace(no_comparison=str(error))


def _lacking_kind(counts: Dict[str, int], settings: Settings, live: Optional[Dict[str, str]]) -> str:
    """Return the kind for want of which operands cannot be judged, "" if they can."""
    if live is None:
        # A dump without any DaemonSet is one of something else, and not of a cluster that has none.
        return next((kind for kind in ("Node", "DaemonSet", "Pod") if not counts[kind]), "")
    # Without the ClusterPolicy an operator's cluster would be taken for one without an operator.
    needed = ["Node", "Pod", "DaemonSet"] + ([] if settings.policy else ["ClusterPolicy"])
    return next((kind for kind in needed if live.get(kind)), "")


def _audit_takers(seen: OperandsSeen, stock: "_Stock") -> Dict[str, Callable[[Dict[str, Any], Source], None]]:
    def taker(kind: str) -> Callable[[Dict[str, Any], Source], None]:
        def take(item: Dict[str, Any], source: Source) -> None:
            try:
                seen.take(kind, item)
                if kind in ("Node", "Pod"):
                    stock.take(kind, item)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                stock.errors.append(f"{source.path}: {_why(_title(kind, item), error)}")

        return take

    return {kind: taker(kind) for kind in AUDIT_KINDS}


def _why(what: str, error: Exception) -> str:
    """Say why an object cannot be judged. Deeper down, what an API server would never have accepted is not told apart."""
    if isinstance(error, ValueError):
        return str(error)
    return f"{what} has not the form that the Kubernetes API gives it: save it anew, as kubectl prints it"


def _title(kind: str, item: Dict[str, Any]) -> str:
    metadata = item.get("metadata")
    return f"{kind} {metadata.get('name')}" if isinstance(metadata, dict) else f"a {kind}"


def _without_files(outcome: Outcome) -> Outcome:
    """Return an outcome that does not name the files in which a cluster was saved for a moment."""
    return outcome._replace(
        names={"": [name for name, _source in outcome.judged()]},
        groups=[one._replace(subjects=[(name, "") for name, _source in one.subjects]) for one in outcome.groups],
        clusters=[
            one._replace(policy_source=_NAMES_OF_CLUSTER if one.policy_source in _files(outcome) else one.policy_source)
            for one in outcome.clusters
        ],
        sources=[],
    )


def _files(outcome: Outcome) -> List[str]:
    return [source.path for source in outcome.sources]


def _is_counted(name: str) -> bool:
    return name.startswith(RESOURCE_PREFIX)


class _Stock:
    """Keeps of nodes and Pods what the inventory needs: little, and nothing of those that have no GPU and ask for none."""

    def __init__(self) -> None:
        self.errors: List[str] = []
        self._nodes: Dict[str, Dict[str, Any]] = {}
        self._pods: Dict[Tuple[str, str], Dict[str, Any]] = {}

    def take(self, kind: str, item: Dict[str, Any]) -> None:
        """Note a Node or a Pod; of one that stands there twice the last counts."""
        if kind == "Node":
            status, metadata = item.get("status") or {}, item["metadata"]
            offered = {field: status[field] for field in ("capacity", "allocatable") if field in status}
            if any(positive_quantities(listed, _is_counted) for listed in offered.values()):
                kept = {"name": metadata["name"], "labels": metadata.get("labels")}
                self._nodes[metadata["name"]] = {"metadata": kept, "spec": item.get("spec"), "status": offered}
            return
        phase = (item.get("status") or {}).get("phase")
        asked = {} if phase in ("Succeeded", "Failed") else requested(item, _is_counted)
        if asked:
            self._pods[identity(item)] = _slim(item, asked)

    def counted(self) -> Dict[str, Any]:
        """Return the inventory. Pods that wait and are alike are compared with the nodes once."""
        first: Dict[
            str, Tuple[str, str]
        ] = {}  # what decides where a Pod may go, and the scheduler's word -> the first that is so
        alike: Dict[Tuple[str, str], Tuple[str, str]] = {}
        for name, pod in self._pods.items():
            if not pod["spec"]["nodeName"]:
                alike[name] = first.setdefault(
                    json.dumps([pod["spec"], _message(pod)], sort_keys=True, default=str), name
                )
        pods = [pod for name, pod in self._pods.items() if alike.get(name, name) == name]
        found = inventory(list(self._nodes.values()), pods)
        for entry in found.values():
            told = {(one["namespace"], one["name"]): one for one in entry["pending"]}
            entry["pending"] = [
                {**told[alike[name]], "namespace": name[0], "name": name[1]}
                for name in sorted(alike)
                if alike[name] in told
            ]
        return found


def _slim(pod: Dict[str, Any], asked: Dict[str, int]) -> Dict[str, Any]:
    """Return a Pod that asks for the same in one container, and whose status holds the scheduler's word alone."""
    spec = pod["spec"]
    namespace, name = identity(pod)
    placing = {field: spec.get(field) for field in _PLACING} if not spec.get("nodeName") else {}
    requests = {resource: str(quantity) for resource, quantity in asked.items()}
    containers = [{"resources": {"requests": requests}}]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": spec.get("nodeName"), "containers": containers, **placing},
        "status": {"conditions": [{**scheduled_condition(pod), "message": _message(pod)}]},
    }


def _message(pod: Dict[str, Any]) -> str:
    return str(scheduled_condition(pod).get("message") or "")
