# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One report on a cluster: consistency by the profile operator, operands, inventory, as text, JSON and JUnit XML.

Private to the collection gpuwl.sandbox. What both the profile and the audit of operands say of an object is told once: by
the profile, which knows the operands that are switched off too.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.audit_groups import (
    NODES,
    alike_groups,
    by_weight,
    single_group,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.audit_reading import AuditReading, read_audit
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.audit_text import audit_text
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.ci_reports import junit_xml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_lines import json_object
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_report import (
    assumed,
    not_judged,
    plural,
    told,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Group, Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import Settings

AUDIT_SCHEMA = 1
AUDIT_FORMATS = ("text", "json", "junit")
NEVER = "never"  # no finding makes the exit code 1
_SUITE = "gpuwl audit"
_CODES = {0: "all is well", 1: "findings", 2: "something could not be read", 3: "no node to judge"}
_OF_OPERATOR = ("operator", "operator_version", "version_source", "disabled")
_CAUSES = ("operand-tainted-out", "operand-not-running")  # of a node that offers nothing
_DUMP = "kubectl get nodes,pods,daemonsets.apps,clusterpolicies.nvidia.com --all-namespaces -o json > cluster.json"
_DUMPED = ("Node", "Pod", "DaemonSet", "ClusterPolicy", "Deployment")  # a DaemonSet tells the version too
_TOOLKIT_OFF = ("operand-off", "warning")  # of the operands only the toolkit weighs so much


class Audit(NamedTuple):
    """What an audit found, ready to be written down."""

    reading: AuditReading
    profile: Outcome  # of the profile operator, without what the audit of operands tells better
    merged: Outcome  # every finding that counts, a group each where it came from the audit of operands
    grouped: Outcome  # the same for people: nodes with one fault together
    operand_findings: List[Dict[str, Any]]  # those that the profile does not tell too
    not_judged: List[Dict[str, Any]]
    exit_code: int
    verdict: str


def audit_reports(
    paths: Sequence[str],
    settings: Settings,
    fail_on: str = "error",
    formats: Sequence[str] = ("text",),
    require_nodes: bool = False,
    cluster: Optional[Dict[str, Any]] = None,
    versions: Sequence[str] = (),
) -> Dict[str, Any]:
    """Audit one cluster by its dumps.

    paths: files, folders or archives, together one cluster. formats: of AUDIT_FORMATS.
    fail_on: the mildest severity that makes the exit code 1, or NEVER. require_nodes: whether it is 3 where no node is judged.
    cluster: what the module cluster_dump returned, where the dumps are of a cluster and just made; with msg alone where that failed.
    versions: two of the operator, to say what changes for the nodes from one to the other; () for none.
    Returns {exit_code, verdict, checked, outputs: {format: text}}.
    """
    live = None
    if cluster is not None:
        live = {one["kind"]: one["left_out"] for one in cluster.get("dumps") or []}
    reading = read_audit([] if cluster and not live else paths, settings, live, versions)
    if cluster is not None and not live:
        failed = reading.outcome._replace(errors=[str(cluster.get("msg") or "the cluster could not be read")])
        reading = reading._replace(outcome=failed)
    audit = _audit(reading, settings, fail_on, require_nodes, live)
    origin = _origin(paths, cluster)
    outputs = {form: "\n".join(_written(audit, form, fail_on, origin)) for form in formats}
    return {
        "exit_code": audit.exit_code,
        "verdict": audit.verdict,
        "checked": audit.merged.checked,
        "outputs": outputs,
    }


def _origin(paths: Sequence[str], cluster: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """Return what the audit is about: {cluster, kubernetes} or {dumps}."""
    if cluster is None:
        return {"dumps": list(paths)}
    return {"cluster": cluster.get("host"), "kubernetes": cluster.get("kubernetes_version")}


def _audit(
    reading: AuditReading, settings: Settings, fail_on: str, require_nodes: bool, live: Optional[Dict[str, str]]
) -> Audit:
    found = reading.operands["findings"] if reading.operands else []
    if reading.operands and not reading.operands["operator"]:
        # Without an operator only the operands are due that there are, which the profile does not know.
        groups = [one for one in reading.outcome.groups if one.draft.rule != "deploy-label-missing"]
        reading = reading._replace(outcome=reading.outcome._replace(groups=groups))
    fresh = _untold(found, reading.outcome)
    ignored = [one for one in fresh if _is_silent(one, settings)]
    fresh = [one for one in fresh if not _is_silent(one, settings)]
    fresh, explained = _with_consequence(reading, fresh)
    at = dict(reading.outcome.judged())
    profile = reading.outcome._replace(groups=_not_twice(reading.outcome, fresh, explained))
    groups = [*profile.groups] + [single_group(one, at, "--ignore") for one in ignored]
    merged = reading.outcome._replace(groups=by_weight(groups + [single_group(one, at) for one in fresh]))
    exit_code = merged.exit_code("error" if fail_on == NEVER else fail_on, require_nodes)
    exit_code = 0 if fail_on == NEVER and exit_code == 1 else exit_code
    return Audit(
        reading=reading,
        profile=profile,
        merged=merged,
        grouped=merged._replace(groups=by_weight(groups + alike_groups(fresh, at))),
        operand_findings=[{**one, "source": at.get(one["node"]) or None} for one in fresh],
        not_judged=_not_judged(reading, live),
        exit_code=exit_code,
        verdict=_verdict(merged, exit_code, reading.operands is not None),
    )


def _untold(found: List[Dict[str, Any]], outcome: Outcome) -> List[Dict[str, Any]]:
    """Return the findings of the operands' audit that the profile does not tell, be it in other words."""
    known = {(group.draft.rule, group.kind, name) for group in outcome.groups for name, _source in group.subjects}
    wrong = [group for group in outcome.counted() if group.draft.rule == "wrong-resource"]
    left_behind = {name for group in wrong for name, _source in group.subjects}
    return [
        one
        for one in found
        if (one["rule"], one["subject"]["kind"], one["subject"]["name"]) not in known
        # What is offered says that the operator has not followed.
        and not (one["rule"] == "operator-behind" and one["node"] in left_behind)
    ]


def _with_consequence(
    reading: AuditReading, fresh: List[Dict[str, Any]]
) -> Tuple[List[Dict[str, Any]], Dict[str, str]]:
    """Let what keeps a node's device plugin from running weigh as much as that the node offers no GPU, which follows from it.

    Returns the findings of the operands' audit, and {node: severity} of those whose no-resource is told by that.
    """
    lacking = {
        row["node"]
        for row in (reading.operands or {}).get("nodes", [])
        if any(one["operand"].endswith("device-plugin") for one in row["missing"])
    }
    causes = {one["node"] for one in fresh if one["rule"] in _CAUSES} & lacking
    weights = {
        name: group.draft.severity
        for group in reading.outcome.groups
        if group.draft.rule == "no-resource"
        for name, _source in group.subjects
        if name in causes
    }
    raised = []
    for one in fresh:
        if one["rule"] in _CAUSES and one["node"] in weights:
            severity = min(one["severity"], weights[one["node"]], key=SEVERITIES.index)
            one = {**one, "severity": severity, "message": f"{one['message']}; the node offers no GPU"}
        raised.append(one)
    return raised, weights


def _not_twice(outcome: Outcome, fresh: List[Dict[str, Any]], explained: Dict[str, str]) -> List[Group]:
    """Return the profile's groups without nodes of which the operands' audit tells the same and more.

    That a label was taken off which something that runs there needs is what the rules on the order of operands say.
    """
    told: Dict[Any, Set[str]] = {}
    for one in fresh:
        if one["rule"] in ("toolkit-missing", "operand-out-of-order"):
            told.setdefault(one["node"], set()).update(one["evidence"])
    kept = []
    for group in outcome.groups:
        subjects = group.subjects
        if group.draft.rule == "no-resource":
            subjects = [(name, source) for name, source in subjects if name not in explained]
        if group.draft.rule == "deploy-label-missing" or (group.draft.rule, group.draft.severity) == _TOOLKIT_OFF:
            fields = {field for field, _value in group.draft.evidence}
            subjects = [(name, source) for name, source in subjects if not fields <= told.get(name, set())]
        kept += [group._replace(subjects=subjects)] if subjects else []
    return kept


def _is_silent(found: Dict[str, Any], settings: Settings) -> bool:
    names = {"", found["subject"]["name"], found["node"]}
    return any((found["rule"], name) in settings.ignores for name in names)


def _verdict(outcome: Outcome, exit_code: int, is_whole: bool) -> str:
    """Return the outcome in one line. is_whole: whether the operands were judged too."""
    counts = dict.fromkeys(SEVERITIES, 0)
    bad = set()
    for group in outcome.counted():
        counts[group.draft.severity] += len(group.subjects)
        if group.draft.severity != "info":
            bad |= {name for name, _source in group.subjects if group.kind == "Node"}
            bad |= {name for field, names in group.draft.evidence if field == NODES for name in names}
    found = ", ".join(f"{count} {plural(severity, count)}" for severity, count in counts.items())
    words = f"{outcome.checked} {plural('node', outcome.checked)} judged, {found}"
    words += f" ({len(bad)} {plural('node', len(bad))} with errors or warnings)" if bad else ""
    if outcome.errors:
        words = one_line(outcome.errors[0]) + (f", and {len(outcome.errors) - 1} more" if outcome.errors[1:] else "")
    code = _CODES[exit_code]
    if exit_code == 0 and (counts["error"] or counts["warning"]):
        code = "nothing that counts as a failure"
    elif exit_code == 0 and not outcome.checked:
        code = _CODES[3]
    elif exit_code == 0 and not is_whole:
        code = "no fault in what could be judged"
    return f"{code} (exit code {exit_code}): {words}"


def _not_judged(reading: AuditReading, live: Optional[Dict[str, str]]) -> List[Dict[str, Any]]:
    """Return what was not judged and why: [{kind, rules, why}]; rules holds parts of the audit too."""
    place = "the dump" if live is None else "the cluster"
    missing = []
    for one in not_judged(reading.outcome) if not reading.outcome.errors else []:
        if live is None:
            missing.append(one)
        elif one["kind"] in live and live[one["kind"]]:
            missing.append({**one, "why": live[one["kind"]]})
        else:
            missing.append({**one, "why": one["why"].replace(" in the dump", " in the cluster")})
    known = {one["kind"] for one in missing}
    for kind, why in (live or {}).items():
        if why and kind not in known:
            missing.append({"kind": kind, "rules": [f"what {kind} objects tell"], "why": why})
    if reading.operands is None and reading.counts.get("Node"):
        why = (live or {}).get(reading.lacking) or f"there is no {reading.lacking} in {place}"
        missing.append({"kind": reading.lacking, "rules": ["operands"], "why": why})
    if reading.inventory is None and reading.counts.get("Node"):
        why = (live or {}).get("Pod") or f"there is no Pod in {place}"
        missing.append({"kind": "Pod", "rules": ["inventory"], "why": why})
    if reading.no_comparison:
        missing.append({"kind": "ClusterPolicy", "rules": ["comparison of versions"], "why": reading.no_comparison})
    rules: Dict[Tuple[str, str], List[str]] = {}
    for one in missing:
        rules.setdefault((one["kind"], one["why"]), []).extend(one["rules"])
    return [{"kind": kind, "rules": parts, "why": why} for (kind, why), parts in rules.items()]


def _ask_for(audit: Audit) -> str:
    """Return the command whose output is all that an audit judges, "" if the dumps hold that."""
    reading = audit.reading
    lacks_nodes = not reading.counts["Node"] and (any(reading.counts.values()) or not reading.outcome.errors)
    # Where DRA is not served, asking for ResourceSlices would make the whole command fail.
    lacks_others = any(one["kind"] in _DUMPED for one in audit.not_judged)
    return _DUMP if lacks_nodes or lacks_others else ""


def _written(audit: Audit, form: str, fail_on: str, origin: Dict[str, Any]) -> Iterator[str]:
    if form == "junit":
        return junit_xml(audit.merged, _SUITE, "error" if fail_on == NEVER else fail_on)
    if form == "json":
        return _json(audit, fail_on, origin)
    reading = audit.reading
    return audit_text(
        audit.verdict,
        audit.grouped,
        reading.operands,
        reading.inventory,
        reading.comparison,
        [*_read(reading, origin), *(f"Assumed: {words}" for words in assumed(reading.outcome.clusters))],
        audit.not_judged,
        "" if "cluster" in origin else _ask_for(audit),
    )


def _read(reading: AuditReading, origin: Dict[str, Any]) -> List[str]:
    """Put into words what was read."""
    if reading.outcome.errors and not any(reading.counts.values()):
        return []
    where = ", ".join(origin.get("dumps") or [str(origin["cluster"])])
    where += f", Kubernetes {origin['kubernetes']}" if origin.get("kubernetes") else ""
    counts = ", ".join(f"{kind} ({count})" for kind, count in reading.counts.items() if count)
    return [f"Read: {where}: {counts or 'no object'}", *(f"Read: {words}" for words in told(reading.outcome.clusters))]


def _json(audit: Audit, fail_on: str, origin: Dict[str, Any]) -> Iterator[str]:
    reading, operands = audit.reading, audit.reading.operands
    profile = audit.profile
    return json_object(
        {
            "schema": AUDIT_SCHEMA,
            "exit_code": audit.exit_code,
            "verdict": audit.verdict,
            "fail_on": fail_on,
            "origin": origin,
            "counts": reading.counts,
            "checked": reading.outcome.checked,
            "findings": (one for every in (profile.findings(), audit.operand_findings) for one in every),
            "silenced": audit.merged.silenced(),
            "operands": operands and operands["nodes"],
            "misleading": operands and operands["misleading"],
            "operator": operands and {key: operands[key] for key in _OF_OPERATOR},
            "comparison": reading.comparison,
            "inventory": queue_of(reading.inventory),
            "read": told(reading.outcome.clusters),
            "assumed": assumed(reading.outcome.clusters),
            "not_judged": audit.not_judged,
            "left_out": [
                {"path": source.path, "why": source.left_out} for source in audit.merged.sources if source.left_out
            ],
            "errors": audit.merged.errors,
        }
    )


def queue_of(inventory: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """Return an inventory in which Pods that wait for the same and are kept from the same stand together.

    Its pending is [{pods: [namespace/name], quantity, message, idle: [{resource, units, nodes, reasons, detail}]}].
    """
    if inventory is None:
        return None
    return {resource: {**entry, "pending": _queue(entry["pending"])} for resource, entry in inventory.items()}


def _queue(pending: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    waiting: Dict[Tuple[int, str, int], Dict[str, Any]] = {}
    idle: Dict[int, List[Dict[str, Any]]] = {}
    for pod in pending:
        # Alike Pods share what they cannot use.
        shared = id(pod["cannot_use"])
        if shared not in idle:
            idle[shared] = _idle_units(pod["cannot_use"])
        key = (shared, pod["message"], pod["quantity"])
        entry = {"pods": [], "quantity": pod["quantity"], "message": pod["message"], "idle": idle[shared]}
        waiting.setdefault(key, entry)["pods"].append(f"{pod['namespace']}/{pod['name']}")
    return list(waiting.values())


def _idle_units(obstacles: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    found: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
    for one in obstacles:
        key = (one["resource"], *one["reasons"], one["detail"])
        entry = {"resource": one["resource"], "units": 0, "nodes": []}
        entry = found.setdefault(key, {**entry, "reasons": one["reasons"], "detail": one["detail"]})
        entry["units"] += one["free"]
        entry["nodes"].append(one["node"])
    return list(found.values())
