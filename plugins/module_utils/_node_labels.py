# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labels of many nodes: what is asked, what differs, and writing only that. Private to the collection."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Dict, TypedDict

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._originals import demand_kept
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_label_value,
    invalid_qualified_name,
)

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/: these prefixes are Kubernetes' own.
RESERVED = ("kubernetes.io", "k8s.io")

Labels = Dict[str, str]


class Wish(TypedDict):
    """What is asked of one node's labels."""

    set: Labels
    remove: AbstractSet[str]
    replace: bool


def argument_spec() -> dict[str, Any]:
    """Options of node_labels besides authentication; the documentation in plugins/modules/node_labels.py mirrors it."""
    return {
        "nodes": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "labels": {"type": "dict"},
                "labels_state": {"type": "str", "choices": ["merge", "replace"]},
                "labels_to_remove": {"type": "list", "elements": "str"},
            },
        },
        "labels": {"type": "dict", "default": {}},
        "labels_state": {"type": "str", "choices": ["merge", "replace"], "default": "merge"},
        "labels_to_remove": {"type": "list", "elements": "str", "default": []},
        "require_originals": {"type": "bool", "default": False},
    }


def is_reserved(key: str) -> bool:
    """Whether a label belongs to Kubernetes itself by its prefix (kubernetes.io, k8s.io or a domain below them)."""
    prefix = key.rpartition("/")[0]
    return any(prefix == domain or prefix.endswith("." + domain) for domain in RESERVED)


def problems_of_labels(where: str, labels: dict[str, Any] | None, to_remove: list[str] | None) -> list[str]:
    """Strings for every name, value or contradiction that can't be, in one pair of labels and labels_to_remove."""
    problems = []
    for key, value in (labels or {}).items():
        wrong = invalid_qualified_name(str(key))
        if wrong:
            problems.append(f"{where}labels: the name {key!r}: {wrong}")
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            advice = "use labels_to_remove to take a label away" if value is None else "put it in quotes"
            problems.append(f"{where}labels: the value {value!r} of {key!r} is no string; {advice}")
        elif invalid_label_value(str(value)):
            problems.append(f"{where}labels: the value {value!r} of {key!r}: {invalid_label_value(str(value))}")
    for key in to_remove or []:
        wrong = invalid_qualified_name(key)
        if wrong:
            problems.append(f"{where}labels_to_remove: the name {key!r}: {wrong}")
        if key in (labels or {}):
            problems.append(f"{where}labels_to_remove: {key!r} also stands in labels; keep it in one of the two")
    return problems


def validate(params: dict[str, Any]) -> None:
    """Raise one ApiError that names everything wrong with the options."""
    problems = _nodes.problems_of_names(params["nodes"]) + problems_of_labels(
        "", params["labels"], params["labels_to_remove"]
    )
    for entry in params["nodes"]:
        problems += problems_of_labels(f"node {entry['name']}: ", entry["labels"], entry["labels_to_remove"])
    _nodes.refuse(problems, "the labels asked for can't be set")


def wish_of(entry: dict[str, Any], params: dict[str, Any]) -> Wish:
    """What is asked of one node: {set: {key: value}, remove: {keys}, replace: bool}.

    What the entry says wins over what is said for all nodes, key by key, be it to set or to remove.
    """
    own, own_removals = entry["labels"] or {}, set(entry["labels_to_remove"] or [])
    labels = {key: value for key, value in params["labels"].items() if key not in own_removals}
    labels.update(own)
    return {
        "set": {key: str(value) for key, value in labels.items()},
        "remove": own_removals | (set(params["labels_to_remove"]) - set(own)),
        "replace": (entry["labels_state"] or params["labels_state"]) == "replace",
    }


def difference(current: Labels, wish: Wish) -> dict[str, str | None]:
    """The labels of a merge patch that turns `current` into what is wished: {key: value, or None to remove}."""
    changes: dict[str, str | None] = {key: value for key, value in wish["set"].items() if current.get(key) != value}
    for key in current:
        unwanted = wish["replace"] and not is_reserved(key)
        if key not in wish["set"] and (unwanted or key in wish["remove"]):
            changes[key] = None
    return changes


def applied(current: Labels, changes: dict[str, str | None]) -> Labels:
    """What `current` becomes by a merge patch."""
    merged = {**current, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _labels(node: dict[str, Any]) -> Labels:
    labels: Labels | None = node["metadata"].get("labels")
    return labels or {}


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the labels of params["nodes"] about; returns the module's result."""
    validate(params)
    wishes = {entry["name"]: wish_of(entry, params) for entry in params["nodes"]}
    if not wishes:
        return result_of([], {})
    found = _nodes.read_nodes(api, list(wishes), metadata_only=True)[0]
    jobs = {name: wish for name, wish in wishes.items() if difference(_labels(found[name]), wish)}
    if check_mode:
        answers = {
            name: (_labels(found[name]), applied(_labels(found[name]), difference(_labels(found[name]), wish)))
            for name, wish in jobs.items()
        }
    else:
        answers = _nodes.write_all(jobs, lambda name, wish: _write(api, found[name], wish, params["require_originals"]))
    return result_of(
        list(wishes), {name: answers.get(name) or (_labels(found[name]), _labels(found[name])) for name in wishes}
    )


def _write(api: Api, node: dict[str, Any], wish: Wish, require_originals: bool) -> tuple[Labels, Labels]:
    def plan(current: dict[str, Any]) -> dict[str, Any] | None:
        changes = difference(_labels(current), wish)
        if require_originals:
            demand_kept(current, "labels", changes)
        return {"metadata": {"labels": changes}} if changes else None

    before, after = _nodes.patch_until_current(api, node, plan)
    left = difference(_labels(after), wish)
    if left:
        raise ApiError(
            f"the API server accepted the labels but its answer differs at {', '.join(sorted(left))}: an admission webhook changes them"
        )
    return _labels(before), _labels(after)


def result_of(names: Iterable[str], pairs: dict[str, tuple[Labels, Labels]]) -> dict[str, Any]:
    """The module's result from {name: (labels before, labels after)}; the diff holds only what changes."""
    nodes: list[dict[str, Any]] = [
        {"name": name, "changed": pairs[name][0] != pairs[name][1], "before": pairs[name][0], "after": pairs[name][1]}
        for name in names
    ]
    before, after = {}, {}
    for node in (node for node in nodes if node["changed"]):
        keys = [key for key in {**node["before"], **node["after"]} if node["before"].get(key) != node["after"].get(key)]
        before[node["name"]] = {key: node["before"][key] for key in keys if key in node["before"]}
        after[node["name"]] = {key: node["after"][key] for key in keys if key in node["after"]}
    return {"changed": bool(before or after), "nodes": nodes, "diff": {"before": before, "after": after}}
