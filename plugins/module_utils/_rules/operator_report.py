# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of a check by the profile `operator`, as text for people and as JSON.

Private to the collection gpuwl.sandbox. Nodes with one fault are one block.
"""

import json
from typing import Any, Dict, Iterator, List, Sequence

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import CONTEXT_KINDS, Cluster
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE, SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_lines import json_object
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges, shell_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_profile import assumptions
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Group, Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import parse_version

_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "info": "\x1b[36m"}
_PLAIN = "\x1b[0m"
# So many ranges of names, and values of one field, are shown; the rest is counted.
_MOST_RANGES = 40
_MOST_VALUES = 4


def operator_text(outcome: Outcome, colour: bool = False) -> Iterator[str]:
    """Give the lines: a block for each fault, the gravest first, then what was judged and what could not be.

    colour: whether to mark severities by the escape sequences of terminals.
    """
    several = len(outcome.names) > 1
    for groups in outcome.faults():
        yield from fault_lines(groups, colour, several)
        yield ""
    yield _summary(outcome)
    yield from silenced_lines(outcome)
    yield from left_out_lines(outcome)
    for words in told(outcome.clusters):
        yield "Read: " + one_line(words)
    for words in assumed(outcome.clusters):
        yield "Assumed: " + one_line(words)
    for missing in not_judged(outcome):
        yield "Not judged: {}, because {}".format(", ".join(missing["rules"]), missing["why"])
    ask = ask_for(outcome)
    if ask:
        yield "Ask for: " + ask


def fault_lines(groups: List[Group], colour: bool, several: bool) -> Iterator[str]:
    """Give the lines of one fault; several: whether nodes came from more than one file, so that it is to be told."""
    first = groups[0].draft
    subjects = [subject for group in groups for subject in group.subjects]
    severity = first.severity.upper()
    severity = f"{_COLOURS[first.severity]}{severity}{_PLAIN}" if colour else severity
    names = [name for name, _source in subjects]
    kind = groups[0].kind
    count = "" if kind != "Node" else "%d node%s: " % (len(names), "" if len(names) == 1 else "s")
    yield "{} {}  {}{}".format(severity, first.rule, count or kind + " ", one_line(ranges(names, _MOST_RANGES)))
    yield "  " + one_line(first.message)
    if several:
        sources = list(dict.fromkeys(source for _name, source in subjects))
        more = f" and {len(sources) - _MOST_VALUES} more" if len(sources) > _MOST_VALUES else ""
        yield "  in     " + one_line(", ".join(sources[:_MOST_VALUES]) + more)
    for line in _evidence(groups):
        yield "  found  " + line
    yield "  do     " + one_line(first.remedy.replace(NODE, shell_names(names)))
    if "kubectl patch clusterpolicy" in first.remedy:
        yield "  note   this changes the whole cluster, not these nodes alone"


def _evidence(groups: List[Group]) -> Iterator[str]:
    """Give a line per field: its value as found, or the values with the number of nodes that have each."""
    fields: Dict[str, Dict[str, int]] = {}
    for group in groups:
        for field, value in group.draft.evidence:
            shown = "(absent)" if value is None else value if isinstance(value, str) and value else json.dumps(value)
            counts = fields.setdefault(field, {})
            counts[shown] = counts.get(shown, 0) + len(group.subjects)
    for field, counts in fields.items():
        values = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
        if len(values) == 1:
            yield one_line(f"{field} = {values[0][0]}")
            continue
        words = ["%s (%d)" % value for value in values[:_MOST_VALUES]]
        words += ["%d more values" % (len(values) - _MOST_VALUES)] if len(values) > _MOST_VALUES else []
        yield one_line(f"{field} = {', '.join(words)}")


def _summary(outcome: Outcome) -> str:
    counts = {severity: 0 for severity in SEVERITIES}
    for group in outcome.counted():
        counts[group.draft.severity] += len(group.subjects)
    found = ", ".join("%d %s" % (count, plural(severity, count)) for severity, count in counts.items())
    return "%d %s judged by the profile operator: %s" % (outcome.checked, plural("node", outcome.checked), found)


def plural(word: str, count: int) -> str:
    """Return a word such as error, with an s unless there is one of it."""
    return word if count == 1 or word == "info" else word + "s"


def silenced_lines(outcome: Outcome) -> Iterator[str]:
    """Give the lines that tell which findings do not count, and why."""
    silent = [group for group in outcome.groups if group.silenced]
    if not silent:
        return
    yield "Silenced: %d %s" % (
        sum(len(group.subjects) for group in silent),
        plural("finding", sum(len(group.subjects) for group in silent)),
    )
    for group in silent:
        names = ranges([name for name, _source in group.subjects], _MOST_RANGES)
        why = "by --ignore" if group.silenced == "--ignore" else f'by annotation: "{group.silenced}"'
        yield one_line(f"  {group.draft.rule} on {names} {why}")


def left_out_lines(outcome: Outcome) -> Iterator[str]:
    """Give the line that says what of a folder or an archive was not read."""
    left_out = [f"{source.path} ({source.left_out})" for source in outcome.sources if source.left_out]
    if left_out:
        more = f" and {len(left_out) - _MOST_VALUES} more" if len(left_out) > _MOST_VALUES else ""
        yield "Left out: " + one_line(", ".join(left_out[:_MOST_VALUES]) + more)


def told(clusters: Sequence[Cluster]) -> List[str]:
    """Put into words what the dumps tell about each cluster, without repeating."""
    words = []
    for cluster in clusters:
        policy = cluster.policy
        if policy:
            sandbox = "on" if policy.sandbox else "off"
            words.append(
                f"ClusterPolicy {policy.name} ({cluster.policy_source}): sandboxWorkloads {sandbox},"
                f" default {policy.default}, mode {policy.mode}"
            )
        if cluster.version_text:
            is_known = parse_version(cluster.version_text) == cluster.version
            known = "" if is_known else ", judged as %d.%d, the nearest known" % cluster.version
            words.append(f"operator {cluster.version_text} ({cluster.version_source}){known}")
    return list(dict.fromkeys(words))


def assumed(clusters: Sequence[Cluster]) -> List[str]:
    """Put into words what was assumed for want of better, without repeating."""
    return list(dict.fromkeys(words for cluster in clusters for words in assumptions(cluster)))


def not_judged(outcome: Outcome) -> List[Dict[str, Any]]:
    """Return what could not be judged, for each kind that is missing: {kind, rules, why}."""
    missing = []
    clusters = outcome.clusters
    if any(cluster.policy is None and not cluster.gpu_clusters for cluster in clusters):
        missing.append(_lacking("ClusterPolicy", "there is no ClusterPolicy in the dump"))
    if any(not cluster.version_text for cluster in clusters):
        missing.append(_lacking("version", "no Deployment, DaemonSet or Pod in the dump tells the operator's version"))
    seen = {group.draft.rule for group in outcome.groups}
    if any(not cluster.saw_slices for cluster in clusters) and "dra-node" not in seen:
        missing.append(
            _lacking("ResourceSlice", "there is no ResourceSlice in the dump: DRA shows in deploy labels alone")
        )
    if any(source.form == "describe" for source in outcome.sources):
        why = "the text of kubectl describe tells no kind but Node, and cuts long annotations"
        missing.append({"kind": "Node", "rules": ["ignore-without-reason"], "why": why})
    return missing


def _lacking(needs: str, why: str) -> Dict[str, Any]:
    rules = [rule for rule, page in RULE_PAGES.items() if page.needs == needs]
    return {"kind": "Deployment" if needs == "version" else needs, "rules": rules, "why": why}


def ask_for(outcome: Outcome) -> str:
    """Return the one command whose output would tell what is missing, "" if nothing is."""
    kinds = [missing["kind"] for missing in not_judged(outcome)]
    if not set(kinds) - {"ResourceSlice"}:
        return ""
    resources = ["nodes"]
    for kind in kinds:
        resources += ["deployments.apps", "daemonsets.apps"] if kind == "Deployment" else []
        # Where DRA is not served, asking for ResourceSlices would make the whole command fail.
        resources += [CONTEXT_KINDS[kind]] if kind == "ClusterPolicy" else []
    return f"kubectl get {','.join(resources)} --all-namespaces -o yaml > dump.yaml"


def operator_json(outcome: Outcome) -> Iterator[str]:
    """Give the lines of a JSON document: {profile, checked, findings, silenced, read, assumed, not_judged, ask_for, errors}."""
    return json_object(
        {
            "profile": "operator",
            "checked": outcome.checked,
            "findings": outcome.findings(),
            "silenced": outcome.silenced(),
            "read": told(outcome.clusters),
            "assumed": assumed(outcome.clusters),
            "not_judged": not_judged(outcome),
            "ask_for": ask_for(outcome),
            "left_out": [
                {"path": source.path, "why": source.left_out} for source in outcome.sources if source.left_out
            ],
            "errors": outcome.errors,
        }
    )
