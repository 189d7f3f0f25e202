# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's own nodes on a KWOK cluster: made, brought up to date, removed. Private to the collection."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import FIELD_MANAGER, Api, ApiError, collection_path
from ansible_collections.gpuwl.sandbox.plugins.module_utils._node_labels import is_reserved
from ansible_collections.gpuwl.sandbox.plugins.module_utils._watching import watch_until

try:
    from kubernetes.utils.quantity import parse_quantity as amount
except ImportError:
    pass  # AnsibleK8SModule says what is missing, in Ansible's usual words

# Every object that the lab makes carries it, and only what carries it is ever removed.
MARK = {"app.kubernetes.io/managed-by": "gpuwl.sandbox"}
# https://kubernetes.io/docs/reference/labels-annotations-taints/: Kubernetes puts these on by itself.
AUTOMATIC_TAINTS = "node.kubernetes.io/"


def argument_spec() -> dict[str, Any]:
    """Options of kwok_nodes besides authentication; the documentation in plugins/modules/kwok_nodes.py mirrors it."""
    return {
        "nodes": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "labels": {"type": "dict", "default": {}},
                "taints": {"type": "list", "elements": "dict", "default": []},
                "capacity": {"type": "dict", "required": True},
            },
        },
        "wait_timeout": {"type": "int", "default": 120},
    }


def definition(entry: dict[str, Any]) -> dict[str, Any]:
    """The Node object to create for one entry of nodes."""
    capacity = {name: str(quantity) for name, quantity in entry["capacity"].items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": entry["name"],
            "labels": {"kubernetes.io/hostname": entry["name"], **entry["labels"], **MARK},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": entry["taints"]} if entry["taints"] else {},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def is_own(node: dict[str, Any]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in MARK.items())


def changes_of(node: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """What differs: {} or some of {taints: [...], capacity: {name: quantity or None}, labels: {key: None}}.

    The labels here are those that node_labels leaves alone, because elsewhere they are Kubernetes' own; on a node of the
    lab they came from its declaration.
    """
    taints = [taint for taint in node["spec"].get("taints") or [] if not taint["key"].startswith(AUTOMATIC_TAINTS)]
    kept = {"kubernetes.io/hostname", *MARK, *entry["labels"]}
    changes = {
        "taints": entry["taints"] if _comparable(taints) != _comparable(entry["taints"]) else None,
        "capacity": _capacity_changes(node.get("status") or {}, entry["capacity"]),
        "labels": {key: None for key in node["metadata"].get("labels") or {} if is_reserved(key) and key not in kept},
    }
    return {field: change for field, change in changes.items() if change or (field == "taints" and change is not None)}


def _capacity_changes(status: dict[str, Any], wanted: dict[str, Any]) -> dict[str, str | None]:
    """The native resources that differ in capacity or allocatable; those with a domain belong to node_status."""
    changes: dict[str, str | None] = {}
    for present in (status.get("capacity") or {}, status.get("allocatable") or {}):
        for name, quantity in wanted.items():
            if name not in present or amount(present[name]) != amount(quantity):
                changes[name] = str(quantity)
        changes.update(dict.fromkeys(name for name in present if "/" not in name and name not in wanted))
    return changes


def _comparable(taints: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((taint["key"], taint.get("value") or "", taint["effect"]) for taint in taints)


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the nodes of params["nodes"] about and remove the lab's others; returns the module's result."""
    _nodes.refuse(_nodes.problems_of_names(params["nodes"]), "the nodes asked for can't be made")
    wanted = {entry["name"]: entry for entry in params["nodes"]}
    present = {node["metadata"]["name"]: node for node in api.list("nodes")[0]}
    foreign = [name for name in wanted if name in present and not is_own(present[name])]
    _nodes.refuse(
        [f"{', '.join(foreign)}: choose other names in lab_pools"] if foreign else [],
        "these nodes exist already and are not the lab's",
    )
    created = [name for name in wanted if name not in present]
    updated = {
        name: changes for name in wanted if name in present and (changes := changes_of(present[name], wanted[name]))
    }
    removed = sorted(name for name, node in present.items() if is_own(node) and name not in wanted)
    if not check_mode:
        _nodes.write_all(dict.fromkeys(removed), lambda name, _job: _remove(api, name))
        _remove_leases(api, {*created, *removed})
        _nodes.write_all({name: wanted[name] for name in created}, lambda _name, entry: _create(api, entry))
        _nodes.write_all(updated, lambda name, changes: _update(api, present[name], changes))
        wait_until_ready(api, set(wanted), params["wait_timeout"])
    before = {name: _shown(present[name], updated[name]) for name in updated} | dict.fromkeys(removed, "present")
    after = {name: updated[name] for name in updated} | {name: wanted[name] for name in created}
    return {
        "changed": bool(created or updated or removed),
        "created": created,
        "updated": sorted(updated),
        "removed": removed,
        "diff": {"before": before, "after": after},
    }


def _shown(node: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """What the changed fields hold now."""
    present = {"taints": node["spec"].get("taints") or []}
    for field, now in (
        ("capacity", (node.get("status") or {}).get("capacity") or {}),
        ("labels", node["metadata"].get("labels") or {}),
    ):
        present[field] = {key: now.get(key) for key in changes.get(field, {})}
    return {field: present[field] for field in changes}


def _create(api: Api, entry: dict[str, Any]) -> dict[str, Any]:
    return api.request(
        "post",
        collection_path("nodes"),
        ("create", "nodes", None),
        body=definition(entry),
        content_type="application/json",
        field_manager=FIELD_MANAGER,
    )


def _update(api: Api, node: dict[str, Any], changes: dict[str, Any]) -> None:
    name = node["metadata"]["name"]
    if "taints" in changes:

        def plan(current: dict[str, Any]) -> dict[str, Any]:
            automatic = [
                taint for taint in current["spec"].get("taints") or [] if taint["key"].startswith(AUTOMATIC_TAINTS)
            ]
            return {"spec": {"taints": automatic + changes["taints"]}}

        _nodes.patch_until_current(api, node, plan)
    if "labels" in changes:
        api.patch("nodes", name, {"metadata": {"labels": changes["labels"]}})
    if "capacity" in changes:
        api.patch(
            "nodes", name, {"status": {"capacity": changes["capacity"], "allocatable": changes["capacity"]}}, "status"
        )


def _remove(api: Api, name: str) -> None:
    _delete(api, f"{collection_path('nodes')}/{quote(name, safe='')}", "nodes", None)


def _remove_leases(api: Api, names: set[str]) -> None:
    """Delete the leases of these nodes: with an old one there, kwok may not pick up a new node of the same name."""
    if names:
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        kind = "leases.coordination.k8s.io"
        present = api.request("get", leases, ("list", kind, "kube-node-lease"))["items"]
        old = [lease["metadata"]["name"] for lease in present if lease["metadata"]["name"] in names]
        _nodes.write_all(
            dict.fromkeys(old),
            lambda name, _job: _delete(api, f"{leases}/{quote(name, safe='')}", kind, "kube-node-lease"),
        )


def _delete(api: Api, path: str, resource: str, namespace: str | None) -> None:
    try:
        api.request("delete", path, ("delete", resource, namespace))
    except ApiError as error:
        if error.status != 404:
            raise


def is_ready(node: dict[str, Any]) -> bool:
    """Ready, and no longer tainted as not ready: from then on the scheduler counts the node."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not any(
        taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints") or []
    )


def wait_until_ready(
    api: Api, names: set[str], seconds: float, advice: str = "do kwok and the controller manager run?"
) -> None:
    """Watch until every named node is ready; a time-out names those that are not, and ends with the advice."""
    waiting = set(names)

    def take_list(items: list[dict[str, Any]]) -> bool:
        waiting.clear()
        waiting.update(names - {node["metadata"]["name"] for node in items if is_ready(node)})
        return not waiting

    def take_event(_kind: str, node: dict[str, Any]) -> bool:
        if is_ready(node):
            waiting.discard(node["metadata"]["name"])
        return not waiting

    # Ever so many nodes may take their time, as long as some get ready.
    left = len(names) + 1
    while waiting and len(waiting) < left:
        left = len(waiting)
        if watch_until(api, "nodes", take_list, take_event, seconds):
            return
    if waiting:
        some = ", ".join(sorted(waiting)[:20])
        raise ApiError(
            f"{len(waiting)} of {len(names)} nodes are not Ready, or still tainted as not ready, and none got so for {seconds} s: {some}; {advice}"
        )
