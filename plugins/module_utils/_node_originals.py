# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping what nodes were before a declaration changes them, and putting it back. Private to the collection."""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Dict, Optional

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import CONFLICTS, Api, ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._node_labels import problems_of_labels
from ansible_collections.gpuwl.sandbox.plugins.module_utils._node_status import owned_by_kubelet, problems_of_resources
from ansible_collections.gpuwl.sandbox.plugins.module_utils._originals import ANNOTATION, FIELDS, originals_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_resource_name
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

SCOPES = ("labels", "resources")

# {name: {field: quantity as the API has it}}
Resources = Dict[str, Dict[str, str]]
# None: there is no such label.
Labels = Dict[str, Optional[str]]


def argument_spec() -> dict[str, Any]:
    """Options of node_originals besides authentication; the documentation in plugins/modules/node_originals.py mirrors it."""
    return {
        "nodes": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "labels": {"type": "dict", "default": {}},
                "resources": {"type": "dict", "default": {}},
            },
        },
        "scope": {"type": "list", "elements": "str", "choices": list(SCOPES), "default": list(SCOPES)},
        "resources_prefix": {"type": "str", "default": "nvidia.com/"},
    }


def labels_plan(current: dict[str, str], kept: Labels, declared: dict[str, str]) -> tuple[Labels, Labels]:
    """(labels to put back {key: value or None}, what is to be kept) for a node's labels, what is kept of them and what is declared."""
    back = {key: value for key, value in kept.items() if key not in declared}
    still = {key: value for key, value in kept.items() if key in declared}
    new = {key: current.get(key) for key, value in declared.items() if key not in kept and current.get(key) != value}
    return {key: value for key, value in back.items() if current.get(key) != value}, {**still, **new}


def resources_plan(
    status: dict[str, Any],
    kept: Resources,
    declared: dict[str, int] | None,
    prefix: str,
    untouchable: AbstractSet[str] = frozenset(),
) -> tuple[Resources, Resources]:
    """(resources to put back {name: {field: quantity}}, what is to be kept) for a node's status.

    declared: {name: int}, or None where the node is not declared at all. In a declared node everything that begins with
    `prefix` is the declaration's, so what it doesn't name is going to be taken away. untouchable: names that a device plugin
    has registered meanwhile, which the kubelet would bring back.
    """

    def is_declared(name: str) -> bool:
        return declared is not None and (name in declared or name.startswith(prefix))

    back = {
        name: fields
        for name, fields in kept.items()
        if not is_declared(name) and name not in untouchable and _fields(status, name) != fields
    }
    still = {name: fields for name, fields in kept.items() if is_declared(name)}
    present = {name for field in FIELDS for name in status.get(field) or {} if invalid_resource_name(name) is None}
    new = {}
    for name in sorted({*(declared or {}), *filter(is_declared, present)} - kept.keys()):
        fields, wished = _fields(status, name), (declared or {}).get(name)
        if [fields.get(field) and parse_quantity(fields[field]) for field in FIELDS] != [wished, wished]:
            new[name] = fields
    return back, {**still, **new}


def _fields(status: dict[str, Any], name: str) -> dict[str, str]:
    """A resource's quantities as the API has them: {field: quantity}, without the fields that lack it."""
    return {field: status[field][name] for field in FIELDS if name in (status.get(field) or {})}


def status_patch(back: Resources) -> dict[str, Labels]:
    """The status of a merge patch that puts resources back; both fields at once, as the kubelet wants it."""
    return {field: {name: fields.get(field) for name, fields in back.items()} for field in FIELDS}


class Plan:
    """What is to be done to one node, worked out from the node as it is at the moment."""

    def __init__(self, node: dict[str, Any], entry: dict[str, Any] | None, scope: list[str], prefix: str) -> None:
        kept = originals_of(node)
        metadata, status = node["metadata"], node.get("status") or {}
        self.labels: Labels = {}
        self.resources: Resources = {}
        self.kept = dict(kept)
        if "labels" in scope:
            labels = {key: str(value) for key, value in entry["labels"].items()} if entry else {}
            self.labels, self.kept["labels"] = labels_plan(metadata.get("labels") or {}, kept["labels"], labels)
        if "resources" in scope:
            declared = {name: parse_quantity(value) for name, value in entry["resources"].items()} if entry else None
            owned = {
                name
                for name in owned_by_kubelet(node) & kept["resources"].keys()
                if parse_quantity(_fields(status, name).get("capacity", 0))
            }
            self.resources, self.kept["resources"] = resources_plan(status, kept["resources"], declared, prefix, owned)
        self.changes_annotation = self.kept != kept

    def __bool__(self) -> bool:
        return bool(self.labels or self.resources or self.changes_annotation)

    def annotation(self) -> str | None:
        return json.dumps(self.kept, sort_keys=True) if any(self.kept.values()) else None

    def metadata_patch(self) -> dict[str, Any] | None:
        """The merge patch of labels and annotation, in one request, or None."""
        metadata: dict[str, Any] = {"labels": self.labels} if self.labels else {}
        if self.changes_annotation:
            metadata["annotations"] = {ANNOTATION: self.annotation()}
        return {"metadata": metadata} if metadata else None


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Keep what the nodes of params["nodes"] were, put back what is no longer declared; returns the module's result."""
    problems = _nodes.problems_of_names(params["nodes"])
    for entry in params["nodes"]:
        where = f"node {entry['name']}: "
        problems += problems_of_labels(where, entry["labels"], None) + problems_of_resources(
            where, entry["resources"], None
        )
    _nodes.refuse(problems, "what is declared can't be, so nothing is kept")
    entries = {entry["name"]: entry for entry in params["nodes"]}
    nodes = {node["metadata"]["name"]: node for node in api.list("nodes")[0]}
    unknown = [name for name in entries if name not in nodes]
    _nodes.refuse(
        [f"no such node: {', '.join(unknown)}"] if unknown else [],
        f"{len(unknown)} of {len(entries)} nodes do not exist at {api.host}",
    )

    def plan_of(node: dict[str, Any]) -> Plan:
        return Plan(node, entries.get(node["metadata"]["name"]), params["scope"], params["resources_prefix"])

    plans = {name: plan for name, node in nodes.items() if (plan := plan_of(node))}
    if not check_mode:
        _nodes.write_all(plans, lambda name, _plan: _write(api, nodes[name], plan_of))
    return result_of(nodes, plans)


def _write(api: Api, node: dict[str, Any], plan_of: Callable[[dict[str, Any]], Plan]) -> None:
    """Put resources back first and forget them last, so that an interruption between the two forgets nothing."""

    def status(current: dict[str, Any]) -> dict[str, Any] | None:
        back = plan_of(current).resources
        return {"status": status_patch(back)} if back else None

    def metadata(current: dict[str, Any]) -> dict[str, Any] | None:
        # Somebody may have changed them once more since they were put back: not forgotten then.
        return None if plan_of(current).resources else plan_of(current).metadata_patch()

    for _attempt in range(CONFLICTS):
        node = _nodes.patch_until_current(api, node, status, "status")[1]
        node = _nodes.patch_until_current(api, node, metadata)[1]
        if not plan_of(node):
            return
    raise ApiError(
        "the API server accepted what was put back but its answer does not hold it; something changes it on its way, or another run works on the node"
    )


def result_of(nodes: dict[str, dict[str, Any]], plans: dict[str, Plan]) -> dict[str, Any]:
    """The module's result; the diff shows per node what is put back and the annotation."""
    before, after = {}, {}
    for name, plan in sorted(plans.items()):
        metadata, status = nodes[name]["metadata"], nodes[name].get("status") or {}
        labels = {key: (metadata.get("labels") or {}).get(key) for key in plan.labels}
        resources = {resource: _fields(status, resource) for resource in plan.resources}
        before[name] = {"labels": labels, "resources": resources, "originals": originals_of(nodes[name])}
        after[name] = {"labels": plan.labels, "resources": plan.resources, "originals": plan.kept}
    return {
        "changed": bool(plans),
        "kept": {
            name: plan.kept for name, plan in sorted(plans.items()) if plan.changes_annotation and plan.annotation()
        },
        "put_back": {
            name: {"labels": plan.labels, "resources": plan.resources}
            for name, plan in sorted(plans.items())
            if plan.labels or plan.resources
        },
        "diff": {"before": before, "after": after},
    }
