# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Extended resources in the status of many nodes: reading, judging and writing them. Private to the collection.

What a kubelet does with such resources decides most of this file. It takes capacity as given and makes allocatable
equal to it at its next sync, at most ten seconds later; it brings back what a device plugin registered; and after a
change of use it leaves old names behind with "0". Where no kubelet runs, both stay as they were written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Dict, Optional, TypedDict

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._originals import FIELDS, demand_kept
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_resource_name
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

# A kubelet's sync is due every ten seconds.
SYNC_SECONDS = 10
KUBELET = "kubelet"

# {capacity: {name: number}, allocatable: {name: number}}
Resources = Dict[str, Dict[str, int]]
# The same for what differs; None is to be removed.
Changes = Dict[str, Dict[str, Optional[int]]]


class Wish(TypedDict):
    """What is asked of one node's resources; a prefix where those that begin with it and are not in `set` shall go."""

    set: dict[str, int]
    remove: AbstractSet[str]
    prefix: str | None


def argument_spec() -> dict[str, Any]:
    """Options of node_status besides authentication; the documentation in plugins/modules/node_status.py mirrors it."""
    return {
        "nodes": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "resources": {"type": "dict"},
                "resources_to_remove": {"type": "list", "elements": "str"},
            },
        },
        "resources": {"type": "dict", "default": {}},
        "resources_state": {"type": "str", "choices": ["merge", "replace"], "default": "merge"},
        "resources_prefix": {"type": "str"},
        "resources_to_remove": {"type": "list", "elements": "str", "default": []},
        "force": {"type": "bool", "default": False},
        "require_originals": {"type": "bool", "default": False},
    }


def problems_of_resources(where: str, resources: dict[str, Any] | None, to_remove: list[str] | None) -> list[str]:
    """Strings for every name, quantity or contradiction that can't be, in one pair of resources and resources_to_remove."""
    problems = []
    for name, quantity in (resources or {}).items():
        wrong = invalid_resource_name(name)
        if wrong:
            problems.append(f"{where}resources: the name {name!r}: {wrong}")
        try:
            parse_quantity(quantity)
        except ValueError as error:
            problems.append(f"{where}resources: the quantity of {name!r}: {error}")
    for name in to_remove or []:
        wrong = invalid_resource_name(name)
        if wrong:
            problems.append(f"{where}resources_to_remove: the name {name!r}: {wrong}")
        if name in (resources or {}):
            problems.append(f"{where}resources_to_remove: {name!r} also stands in resources; keep it in one of the two")
    return problems


def validate(params: dict[str, Any]) -> None:
    """Raise one ApiError that names everything wrong with the options."""
    problems = _nodes.problems_of_names(params["nodes"]) + problems_of_resources(
        "", params["resources"], params["resources_to_remove"]
    )
    for entry in params["nodes"]:
        problems += problems_of_resources(f"node {entry['name']}: ", entry["resources"], entry["resources_to_remove"])
    prefix = params["resources_prefix"]
    if prefix is not None and "/" not in prefix:
        problems.append(
            f"resources_prefix {prefix!r}: it must hold a domain and a slash, such as nvidia.com/ or nvidia.com/mig-"
        )
    _nodes.refuse(problems, "the resources asked for can't be set")


def wish_of(entry: dict[str, Any], params: dict[str, Any]) -> Wish:
    """What is asked of one node: {set: {name: int}, remove: {names}, prefix: str or None}. The entry wins over what is said for all."""
    own, own_removals = entry["resources"] or {}, set(entry["resources_to_remove"] or [])
    resources = {name: quantity for name, quantity in params["resources"].items() if name not in own_removals}
    resources.update(own)
    return {
        "set": {name: parse_quantity(quantity) for name, quantity in resources.items()},
        "remove": own_removals | (set(params["resources_to_remove"]) - set(own)),
        "prefix": params["resources_prefix"] if params["resources_state"] == "replace" else None,
    }


def extended(node: dict[str, Any]) -> Resources:
    """A node's extended resources: {capacity: {name: int}, allocatable: {name: int}}."""
    status = node.get("status") or {}
    return {
        field: {
            name: parse_quantity(value)
            for name, value in (status.get(field) or {}).items()
            if invalid_resource_name(name) is None
        }
        for field in FIELDS
    }


def difference(current: Resources, wish: Wish) -> Changes:
    """What differs, per field: {capacity: {name: int, or None to remove}, allocatable: the same}."""
    present = set(current["capacity"]) | set(current["allocatable"])
    gone = {
        name for name in present if name in wish["remove"] or (wish["prefix"] and name.startswith(wish["prefix"]))
    } - set(wish["set"])
    changes: Changes = {}
    for field in FIELDS:
        changes[field] = {
            name: quantity for name, quantity in wish["set"].items() if current[field].get(name) != quantity
        }
        changes[field].update(dict.fromkeys(name for name in gone if name in current[field]))
    return changes


def patch_of(changes: Changes) -> dict[str, dict[str, str | None]] | None:
    """The status of a merge patch: every name that differs in either field is written in both, as the kubelet wants it."""
    names = _either(changes)
    value = {name: None if quantity is None else str(quantity) for name, quantity in sorted(names.items())}
    return {"capacity": value, "allocatable": dict(value)} if value else None


def _either(changes: Changes) -> dict[str, int | None]:
    """What differs in one field or in both."""
    return {**changes["allocatable"], **changes["capacity"]}


def owned_by_kubelet(node: dict[str, Any]) -> set[str]:
    """The names whose capacity the kubelet wrote last, by the node's managedFields (the device plugins' resources)."""
    names: set[str] = set()
    for entry in node["metadata"].get("managedFields") or []:
        if entry.get("manager") == KUBELET and entry.get("subresource") == "status":
            fields = (entry.get("fieldsV1") or {}).get("f:status", {}).get("f:capacity", {})
            names.update(key[len("f:") :] for key in fields if key.startswith("f:"))
    return names


def has_kubelet(node: dict[str, Any]) -> bool:
    """Whether a kubelet reports this node's status; KWOK's nodes and nodes made by hand have none."""
    return any(entry.get("manager") == KUBELET for entry in node["metadata"].get("managedFields") or [])


def refusals(node: dict[str, Any], wish: Wish, force: bool) -> list[str]:
    """Strings for the changes that the kubelet would undo at its next sync: its own resources above zero."""
    if force:
        return []
    current = extended(node)
    changes, owned = difference(current, wish)["capacity"], owned_by_kubelet(node)
    return [
        f"node {node['metadata']['name']}: {name} ({current['capacity'][name]}) is registered by a device plugin and kept by the kubelet, which would undo"
        f" the change to {'nothing' if changes[name] is None else changes[name]}; stop that device plugin first, or say force: true"
        for name in sorted(changes)
        if name in owned and current["capacity"].get(name)
    ]


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the resources of params["nodes"] about; returns the module's result."""
    validate(params)
    wishes = {entry["name"]: wish_of(entry, params) for entry in params["nodes"]}
    if not wishes:
        return result_of([], {})
    found, version = _nodes.read_nodes(api, list(wishes))
    _nodes.refuse(
        [text for name in wishes for text in refusals(found[name], wishes[name], params["force"])],
        "some resources belong to the kubelet",
    )
    await_kubelets(api, found, wishes, version)
    jobs = {name: wish for name, wish in wishes.items() if patch_of(difference(extended(found[name]), wish))}
    if check_mode:
        answers = {name: (extended(found[name]), foreseen(extended(found[name]), wish)) for name, wish in jobs.items()}
    else:
        answers = _nodes.write_all(jobs, lambda name, wish: _write(api, found[name], wish, params))
    return result_of(
        list(wishes), {name: answers.get(name) or (extended(found[name]), extended(found[name])) for name in wishes}
    )


def lagging(node: dict[str, Any], wish: Wish) -> bool:
    """Whether only allocatable differs and a kubelet is there that will bring it about."""
    changes = difference(extended(node), wish)
    return bool(changes["allocatable"]) and not changes["capacity"] and has_kubelet(node)


def await_kubelets(api: Api, found: dict[str, dict[str, Any]], wishes: dict[str, Wish], version: str) -> None:
    """Give kubelets the time of one sync to let allocatable follow capacity; updates `found` with what is seen."""
    behind = {name for name in wishes if lagging(found[name], wishes[name])}
    end = time.monotonic() + SYNC_SECONDS
    while behind and time.monotonic() < end:
        narrow = {"field_selector": f"metadata.name={next(iter(behind))}"} if len(behind) == 1 else {}
        for kind, node in api.watch("nodes", version, end - time.monotonic(), **narrow):
            version = node["metadata"]["resourceVersion"]
            name = node["metadata"].get("name")
            if kind == "MODIFIED" and name in behind:
                found[name] = node
                if not lagging(node, wishes[name]):
                    behind.discard(name)
            if not behind:
                break


def _write(api: Api, node: dict[str, Any], wish: Wish, params: dict[str, Any]) -> tuple[Resources, Resources]:
    def plan(current: dict[str, Any]) -> dict[str, Any] | None:
        # After a conflict: a device plugin may have registered the name meanwhile.
        refused = refusals(current, wish, params["force"])
        if refused:
            raise ApiError("; ".join(refused))
        status = patch_of(difference(extended(current), wish))
        if params["require_originals"]:
            demand_kept(current, "resources", status["capacity"] if status else ())
        return {"status": status} if status else None

    before, after = _nodes.patch_until_current(api, node, plan, "status")
    left = difference(extended(after), wish)
    if patch_of(left):
        names = ", ".join(sorted(_either(left)))
        raise ApiError(
            f"the API server accepted the status but its answer does not hold what was asked for {names}; something changes it on its way"
        )
    return extended(before), extended(after)


def foreseen(current: Resources, wish: Wish) -> Resources:
    """What a node's extended resources become when the difference is written (check mode)."""
    written = _either(difference(current, wish))
    merged: Changes = {field: {**current[field], **written} for field in FIELDS}
    return {field: {name: value for name, value in merged[field].items() if value is not None} for field in FIELDS}


def _shown(resources: Resources) -> dict[str, dict[str, str]]:
    """Quantities as the strings of whole numbers: 2000, where the API answers 2k."""
    return {field: {name: str(resources[field][name]) for name in sorted(resources[field])} for field in FIELDS}


def result_of(names: Iterable[str], pairs: dict[str, tuple[Resources, Resources]]) -> dict[str, Any]:
    """The module's result from {name: (resources before, resources after)}; the diff holds only what changes."""
    nodes, before, after = [], {}, {}
    for name in names:
        old, new = (_shown(resources) for resources in pairs[name])
        nodes.append({"name": name, "changed": old != new, "before": old, "after": new})
        if old != new:
            before[name] = {
                field: {key: value for key, value in old[field].items() if new[field].get(key) != value}
                for field in FIELDS
            }
            after[name] = {
                field: {key: value for key, value in new[field].items() if old[field].get(key) != value}
                for field in FIELDS
            }
    return {"changed": bool(before), "nodes": nodes, "diff": {"before": before, "after": after}}
