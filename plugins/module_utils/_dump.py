# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dumps: what `kubectl get KIND -o json` prints, made from one LIST, and compared with an older one. Private to the collection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

# kind: (resource as RBAC names it, whether it lives in a namespace)
KINDS = {
    "Node": ("nodes", False),
    "Pod": ("pods", True),
    "DaemonSet": ("daemonsets.apps", True),
    "ClusterPolicy": ("clusterpolicies.nvidia.com", False),
    "GPUCluster": ("gpuclusters.nvidia.com", False),
    "NVIDIADriver": ("nvidiadrivers.nvidia.com", False),
    "ResourceSlice": ("resourceslices.resource.k8s.io", False),
}

# What differs between two dumps although nothing happened.
UNSTEADY_METADATA = ("resourceVersion", "managedFields")
UNSTEADY_CONDITION = ("lastHeartbeatTime", "lastTransitionTime", "lastProbeTime")
# A kubelet's own affairs: images come with the Pods that are placed, volumes with theirs.
UNSTEADY_NODE_STATUS = ("images", "volumesInUse", "volumesAttached")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ENVIRONMENT = ("env", "envFrom", "command", "args")
ENDED = ("Succeeded", "Failed")
# Names in a diff; more are counted.
SHOWN = 50


class Entry(NamedTuple):
    """An object of a dump.

    name: with its namespace before a slash; text: as it stands in the dump; digest: of what does not change by itself.
    """

    name: str
    text: str
    digest: bytes


def kind_of(text: str) -> str | None:
    """The kind meant by Node, node or nodes (likewise the others); None for anything else."""
    for kind, (resource, _namespaced) in KINDS.items():
        if text.lower() in (kind.lower(), resource, resource.partition(".")[0]):
            return kind
    return None


def without_environment(item: dict[str, Any]) -> dict[str, Any]:
    """A Pod or DaemonSet without what may hold secrets: its containers' environment, command and arguments, and kubectl's copy of it."""
    annotations = item["metadata"].get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    spec = item.get("spec") or {}
    template = spec.get("template")
    if template:
        inner = {**template, "metadata": template.get("metadata") or {}}
        spec = {**spec, "template": without_environment(inner)}
    for field in ("initContainers", "containers", "ephemeralContainers"):
        if spec.get(field):
            bare = [{key: one[key] for key in one if key not in ENVIRONMENT} for one in spec[field]]
            spec = {**spec, field: bare}
    return {**item, "metadata": {**item["metadata"], "annotations": kept}, "spec": spec}


def without_operand_environment(item: dict[str, Any]) -> dict[str, Any]:
    """A ClusterPolicy or NVIDIADriver without the environment that it gives operands, but for the names of GPUs in that of Kata."""
    annotations = item["metadata"].get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    spec = {
        name: {key: value for key, value in section.items() if key != "env" or name == "kataSandboxDevicePlugin"}
        if isinstance(section, dict)
        else section
        for name, section in (item.get("spec") or {}).items()
        if name != "env"
    }
    return {**item, "metadata": {**item["metadata"], "annotations": kept}, "spec": spec}


def entry(kind: str, api_version: str, item: dict[str, Any], with_digest: bool, environment: bool = True) -> Entry:
    """What a dump holds of an item of a LIST: the object with its kind, without managedFields, as kubectl has it.

    with_digest: whether it will be compared with another; it takes about as long as all the rest.
    environment: whether Pods and DaemonSets keep the environment of their containers.
    """
    if not environment and kind in ("Pod", "DaemonSet"):
        item = without_environment(item)
    elif not environment and kind in ("ClusterPolicy", "NVIDIADriver"):
        item = without_operand_environment(item)
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    whole = {**item, "apiVersion": api_version, "kind": kind, "metadata": metadata}
    # Each line stands two levels deep. Within a string a newline is written out.
    text = json.dumps(whole, indent=4, sort_keys=True, ensure_ascii=False).replace("\n", "\n        ")
    # Go escapes these in every JSON string; outside of strings JSON has none of them.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Entry(_key(item), text, _digest(whole) if with_digest else b"")


def render(entries: Iterable[Entry]) -> str:
    """The text of a dump, a List, as kubectl prints it."""
    # Joined in one go: a dump may be large, and so is each copy of it.
    pieces = ['{\n    "apiVersion": "v1",\n    "items": [']
    for one in entries:
        pieces += [",\n        " if len(pieces) > 1 else "\n        ", one.text]
    pieces.append("\n    ]" if len(pieces) > 1 else "]")
    pieces.append(',\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')
    return "".join(pieces)


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def _digest(item: dict[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps(steady(item), sort_keys=True).encode()).digest()


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
        copy["status"] = _steady_pod(status) if item.get("kind") == "Pod" else _steady_status(status)
    return copy


def _steady_status(status: dict[str, Any]) -> dict[str, Any]:
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


def digests(entries: Iterable[Entry]) -> dict[str, bytes]:
    """What differences() compares, of a dump just made."""
    return {one.name: one.digest for one in entries}


def parse(text: str) -> dict[str, bytes] | None:
    """The same of an older dump's text, or None where that is no dump (whatever it is, it gets replaced)."""
    try:
        dump = json.loads(text)
        found = {_key(item): _digest(item) for item in dump["items"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if dump.get("kind") == "List" else None


def differences(before: dict[str, bytes], after: dict[str, bytes]) -> dict[str, list[str]]:
    """Names of the objects that differ between two dumps: {added, removed, changed}, each ascending."""
    return {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(name for name in before.keys() & after.keys() if before[name] != after[name]),
    }


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
