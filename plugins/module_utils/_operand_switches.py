# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Operands out of nodes or the cluster and in again: what is there, what is to change, and writing only that. Private to the collection."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes, _policy_switch
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._policy_switch import PolicySwitch
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_effects import (
    OperandSet,
    PodsThere,
    label_effects,
    operand_sets,
    pods_there,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_names import (
    check_operand,
    expand_ranges,
    read_sections,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_summary import notes_of, summary_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_switches import (
    NodeSwitch,
    SwitchError,
    SwitchWish,
    plan_switch,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labelling import operands_known_to
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import NEWEST_VERSION

Node = Dict[str, Any]
WHAT = "the operands can't be switched"
# As many names or problems are told, so that one line stays one.
MOST_TOLD = 5


class Found(NamedTuple):
    """What is in the cluster."""

    nodes: dict[str, Node]
    sets: list[OperandSet]
    there: PodsThere


def argument_spec() -> dict[str, Any]:
    """Options of operand_switches besides authentication; the documentation in plugins/modules/operand_switches.py mirrors it."""
    return {
        "nodes": {"type": "list", "elements": "str", "default": []},
        "operands": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["out", "in"]},
        "reason": {"type": "str"},
        "force": {"type": "bool", "default": False},
        "cluster": {"type": "dict", "default": {}},
        "operator": {"type": "str", "choices": ["auto", "present", "absent"], "default": "auto"},
    }


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Switch what is asked for; returns the module's result."""
    names, wish, sections = read_wishes(params)
    if not names and not sections:
        return result_of([], {}, Found({}, [], {}), None, wish)
    found = look(api, names, whole=bool(sections))
    _check_operands(wish, found)
    switch = _policy_switch.find(api, sections, params["operator"])
    switches = _plan(found, names, wish, switch.acting)
    result = result_of(names, switches, found, switch, wish)
    if not check_mode:
        write(api, found, {name: one for name, one in switches.items() if one.changes()}, wish, switch)
    return result


def read_wishes(params: dict[str, Any]) -> tuple[list[str], SwitchWish, dict[str, bool]]:
    """The names of the nodes, what is asked of them, and the sections of the ClusterPolicy. Raises ApiError for what can't be."""
    problems: list[str] = []
    names: list[str] = []
    for pattern in params["nodes"]:
        try:
            names += expand_ranges(pattern)
        except ValueError as error:
            problems.append(f"nodes: {error}")
    try:
        sections = read_sections(params["cluster"])
    except ValueError as error:
        problems.append(f"cluster: {error}")
    reason = (params["reason"] or "").strip()
    if names and not params["state"]:
        problems.append("nodes are given without a state: say out or in")
    if params["state"] == "out" and params["operands"] and not reason:
        problems.append("reason is missing: say why, since who finds the operand missing reads it on the node")
    _nodes.refuse(problems, WHAT)
    wish = SwitchWish(params["state"] == "out", tuple(dict.fromkeys(params["operands"])), reason, force=params["force"])
    return list(dict.fromkeys(names)), wish, sections


def look(api: Api, names: list[str], whole: bool) -> Found:
    """One LIST per kind. whole: whether all nodes matter, and not only those named."""
    if whole:
        items = api.list("nodes")[0]
        nodes = {item["metadata"]["name"]: item for item in items}
        unknown = [name for name in names if name not in nodes]
        _nodes.refuse(
            [f"no such node: {', '.join(unknown)}"] if unknown else [],
            f"{len(unknown)} of {len(names)} nodes do not exist at {api.host}",
        )
    else:
        nodes = _nodes.read_nodes(api, names)[0]
    alone: dict[str, Any] = {"field_selector": f"spec.nodeName={names[0]}"} if len(names) == 1 and not whole else {}
    sets = operand_sets(api.list("daemonsets.apps")[0])
    return Found(nodes, sets, pods_there(api.list("pods", **alone)[0]))


def _check_operands(wish: SwitchWish, found: Found) -> None:
    known = operands_known_to(NEWEST_VERSION).union(*(one.operands for one in found.sets)) - {"operands"}
    problems = []
    for operand in wish.operands:
        try:
            check_operand(operand, known)
        except ValueError as error:
            problems.append(f"operands: {error}")
    _nodes.refuse(problems, WHAT)


def _plan(found: Found, names: list[str], wish: SwitchWish, acting: Policy | None) -> dict[str, NodeSwitch]:
    switches, problems = {}, []
    for name in names:
        try:
            switches[name] = plan_switch(found.nodes[name], wish, acting)
        except SwitchError as error:
            problems.append(f"node {name}: {error}")
    more = len(problems) - MOST_TOLD
    _nodes.refuse(problems[:MOST_TOLD] + ([f"and {more} more nodes"] if more > 0 else []), WHAT)
    return switches


def write(api: Api, found: Found, jobs: dict[str, NodeSwitch], wish: SwitchWish, switch: PolicySwitch) -> None:
    """Write the nodes, then the ClusterPolicy, which the API server was asked for leave to change before that."""
    if switch.changed:
        _policy_switch.patch(api, switch, dry_run=True)
    left = [f"ClusterPolicy {switch.name}"] if switch.changed else []
    try:
        _nodes.write_all(jobs, lambda name, _job: _write(api, found.nodes[name], wish, switch.acting))
    except ApiError as error:
        error.details["not_written"] += left
        raise
    if switch.changed:
        try:
            _policy_switch.patch(api, switch)
        except ApiError as error:
            raise ApiError(
                f"{error}. Written before that: {len(jobs)} of {len(jobs)} nodes; run it again to do the rest",
                error.status,
                written=list(jobs),
                not_written=left,
            ) from error


def _write(api: Api, node: Node, wish: SwitchWish, acting: Policy | None) -> None:
    def plan(current: Node) -> dict[str, Any] | None:
        try:
            one = plan_switch(current, wish, acting)
        except SwitchError as error:
            raise ApiError(error) from error
        patch = {"labels": one.labels, "annotations": one.annotations}
        return {"metadata": {key: value for key, value in patch.items() if value}} if one.changes() else None

    _nodes.patch_until_current(api, node, plan)


def result_of(
    names: list[str],
    switches: dict[str, NodeSwitch],
    found: Found,
    switch: PolicySwitch | None,
    wish: SwitchWish,
) -> dict[str, Any]:
    """The module's result."""
    nodes = [_told(found, name, switches[name]) for name in names]
    cluster = _policy_switch.result_of(switch, list(found.nodes.values()), found.sets, found.there)
    operator = bool(switch and switch.acting)
    notes = notes_of(nodes, switches, cluster, wish, operator) + list(switch.notes if switch else ())
    return {
        "changed": any(node["changed"] for node in nodes) or cluster["changed"],
        "nodes": nodes,
        "cluster": cluster,
        "operator": operator,
        "summary": summary_of(nodes, cluster, wish),
        "notes": notes,
        "warnings": list(notes),
        "diff": _diff(found, nodes, cluster),
    }


def _told(found: Found, name: str, one: NodeSwitch) -> dict[str, Any]:
    """An entry of the result's nodes."""
    stops: list[dict[str, str]] = []
    starts: list[dict[str, str]] = []
    if one.labels:
        stops, starts = label_effects(found.nodes[name], one.before, one.settled, found.sets, found.there)
    return {
        "name": name,
        "changed": one.changes(),
        "acts": "operator" if one.by_operator else "role",
        "labels": one.labels,
        "annotations": one.annotations,
        "stops": stops,
        "starts": starts,
    }


def _diff(found: Found, nodes: list[dict[str, Any]], cluster: dict[str, Any]) -> dict[str, Any]:
    """Labels, annotations and Pods that change, by node, and the sections of the ClusterPolicy."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for told in nodes:
        if not told["changed"]:
            continue
        name, metadata = told["name"], found.nodes[told["name"]]["metadata"]
        before[name], after[name] = {"pods": _pods(told["stops"])}, {"pods": _pods(told["starts"])}
        for field in ("labels", "annotations"):
            now = metadata.get(field) or {}
            before[name][field] = {key: now[key] for key in told[field] if key in now}
            after[name][field] = {key: value for key, value in told[field].items() if value is not None}
    if cluster["changed"]:
        key = f"ClusterPolicy {cluster['policy']}"
        now = {section: not value for section, value in cluster["switched"].items()}
        before[key] = {"enabled": now, "pods": _pods(cluster["stops"])}
        after[key] = {"enabled": cluster["switched"], "pods": _pods(cluster["starts"])}
    return {"before": before, "after": after}


def _pods(effects: list[dict[str, str]]) -> list[str]:
    """Pods in words; those to come have no name yet."""
    return [
        f"{one['daemonset'].partition('/')[0]}/{one['pod']} on {one['node']}"
        if "pod" in one
        else f"a Pod of {one['daemonset']} on {one['node']}"
        for one in effects
    ]
