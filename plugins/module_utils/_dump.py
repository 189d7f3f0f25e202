# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dumps: what `kubectl get KIND -o json` prints, made from one LIST, and compared with an older one. Private to the collection."""

from __future__ import annotations

import json
from typing import Any

# kind: (resource in the API's paths, whether it lives in a namespace)
KINDS = {"Node": ("nodes", False), "Pod": ("pods", True)}

# What differs between two dumps although nothing happened.
UNSTEADY_METADATA = ("resourceVersion", "managedFields")
UNSTEADY_CONDITION = ("lastHeartbeatTime", "lastTransitionTime", "lastProbeTime")
# A kubelet's own affairs: images come with the Pods that are placed, volumes with theirs.
UNSTEADY_NODE_STATUS = ("images", "volumesInUse", "volumesAttached")
ENDED = ("Succeeded", "Failed")
# Names in a diff; more are counted.
SHOWN = 50


def kind_of(text: str) -> str | None:
    """The kind meant by Node, node or nodes (Pod, pod, pods); None for anything else."""
    return next(
        (kind for kind, (resource, _namespaced) in KINDS.items() if text.lower() in (kind.lower(), resource)), None
    )


def as_list(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The List object that kubectl makes of a LIST's items: each with its kind, without managedFields."""
    objects = []
    for item in items:
        metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
        objects.append({**item, "apiVersion": "v1", "kind": kind, "metadata": metadata})
    return {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}


def render(dump: dict[str, Any]) -> str:
    """A dump's text as kubectl prints it."""
    text = json.dumps(dump, indent=4, sort_keys=True, ensure_ascii=False)
    # Go escapes these in every JSON string; outside of strings JSON has none of them.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text + "\n"


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def steady(item: dict[str, Any]) -> dict[str, Any]:
    """An object without what changes by itself, so that what is left differs only where something happened.

    Never counts: resourceVersion, managedFields, and the times of conditions.
    Node: all else counts but images and volumes.
    Pod: metadata, spec, the scheduler's word (the condition PodScheduled) and whether it has ended. What a kubelet does with a
    Pod that was placed goes on for minutes: it fetches images, tries again, starts, gives an address.
    """
    copy = {**item, "metadata": {key: value for key, value in item["metadata"].items() if key not in UNSTEADY_METADATA}}
    status = item.get("status")
    if status:
        copy["status"] = _steady_pod(status) if item.get("kind") == "Pod" else _steady_node(status)
    return copy


def _steady_node(status: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in status.items() if key not in UNSTEADY_NODE_STATUS}
    return {**kept, "conditions": _lasting(status)}


def _steady_pod(status: dict[str, Any]) -> dict[str, Any]:
    phase = status.get("phase")
    scheduled = [condition for condition in _lasting(status) if condition.get("type") == "PodScheduled"]
    return {"conditions": scheduled, "ended": phase if phase in ENDED else None}


def _lasting(status: dict[str, Any]) -> list[dict[str, Any]]:
    conditions = status.get("conditions") or []
    return [
        {key: value for key, value in condition.items() if key not in UNSTEADY_CONDITION} for condition in conditions
    ]


def differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, list[str]]:
    """Names of the objects that differ between two dumps: {added, removed, changed}, each ascending."""
    before = {_key(item): steady(item) for item in old["items"]}
    after = {_key(item): steady(item) for item in new["items"]}
    return {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(name for name in before.keys() & after.keys() if before[name] != after[name]),
    }


def parse(text: str) -> dict[str, Any] | None:
    """An older dump's List object, or None where the text is none (whatever it is, it gets replaced)."""
    try:
        dump = json.loads(text)
        [_key(item) for item in dump["items"]]
    except (ValueError, KeyError, TypeError):
        return None
    return dump if dump.get("kind") == "List" else None


def summary(path: str, found: dict[str, list[str]] | None, count: int) -> str:
    """A diff for people: which objects came, went or changed; never their content. found: None for a new file."""
    if found is None:
        return f"+++ {path}: {count} objects, newly written\n"
    lines = [
        f"{sign} {name}" for sign, what in (("+", "added"), ("-", "removed"), ("~", "changed")) for name in found[what]
    ]
    if len(lines) > SHOWN:
        lines[SHOWN:] = [f"... and {len(lines) - SHOWN} more"]
    return "\n".join([f"+++ {path}", *lines]) + "\n"
