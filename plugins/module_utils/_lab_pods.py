# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's own Pods: asked for in order, asked anew where they changed, removed. Private to the collection."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any
from urllib.parse import quote

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import FIELD_MANAGER, Api, ApiError, collection_path
from ansible_collections.gpuwl.sandbox.plugins.module_utils._kwok_nodes import AUTOMATIC_TAINTS, MARK, is_own
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.fits import selector_mismatch, untolerated_taints
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.pod_requests import is_extended, requested
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity
from ansible_collections.gpuwl.sandbox.plugins.module_utils._watching import watch_until

# The nodes that there were when a Pod was asked for, as a number to compare. The scheduler doesn't look again at a waiting
# Pod whenever nodes change, so what it said about other nodes is out of date, and the Pod is asked for anew.
NODES = "gpuwl.sandbox/nodes"
SCHEDULER = "kube-scheduler"
# What people put into a namespace: (path of its group, resource, name of the one that every namespace gets).
CONTENTS = [
    ("/api/v1", "pods", None),
    ("/api/v1", "configmaps", "kube-root-ca.crt"),
    ("/api/v1", "persistentvolumeclaims", None),
    ("/api/v1", "secrets", None),
    ("/api/v1", "serviceaccounts", "default"),
    ("/api/v1", "services", None),
    ("/apis/apps/v1", "deployments", None),
    ("/apis/apps/v1", "statefulsets", None),
    ("/apis/batch/v1", "cronjobs", None),
    ("/apis/batch/v1", "jobs", None),
]
METADATA = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
# The API server gives every Pod these.
AUTOMATIC_TOLERATIONS = [
    {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def argument_spec() -> dict[str, Any]:
    """Options of lab_pods besides authentication; the documentation in plugins/modules/lab_pods.py mirrors it."""
    return {
        "pods": {"type": "list", "elements": "dict", "required": True},
        "wait_timeout": {"type": "int", "default": 60},
    }


def key_of(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def fingerprint(nodes: Iterable[dict[str, Any]]) -> str:
    """A text that changes when any node changes in what the scheduler looks at."""
    seen = []
    for node in sorted(nodes, key=lambda node: node["metadata"]["name"]):
        taints = [taint for taint in node["spec"].get("taints") or [] if not taint["key"].startswith(AUTOMATIC_TAINTS)]
        labels, allocatable = node["metadata"].get("labels"), (node.get("status") or {}).get("allocatable")
        seen.append([node["metadata"]["name"], labels, taints, node["spec"].get("unschedulable", False), allocatable])
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:16]


def is_stale(pod: dict[str, Any], nodes: Collection[dict[str, Any]], seen: str) -> bool:
    """Whether what the scheduler said about a waiting Pod may be about other nodes than those of now."""
    if _annotations(pod).get(NODES) != seen:
        return True
    looked = [
        entry["time"]
        for entry in pod["metadata"].get("managedFields") or []
        if entry["manager"] == SCHEDULER and "time" in entry
    ]
    changed = [node["metadata"].get("creationTimestamp") or "" for node in nodes]
    changed += [
        entry["time"]
        for node in nodes
        for entry in node["metadata"].get("managedFields") or []
        if entry["manager"] == FIELD_MANAGER and "time" in entry
    ]
    return bool(looked and changed) and max(looked) < max(changed)


def asked_by(pod: dict[str, Any]) -> dict[str, Any]:
    """What of a Pod was declared, in a form that is equal for a definition and for the Pod that became of it."""
    spec = pod["spec"]
    containers = []
    for container in spec["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        containers.append(
            [container["name"], container["image"], {name: parse_quantity(value) for name, value in limits.items()}]
        )
    # An empty field is as good as none, and no operator means Equal.
    tolerations = [
        {"operator": "Equal", **{key: value for key, value in entry.items() if value not in ("", None)}}
        for entry in spec.get("tolerations") or []
    ]
    tolerations = [entry for entry in tolerations if entry not in AUTOMATIC_TOLERATIONS]
    return {"nodeSelector": spec.get("nodeSelector") or {}, "tolerations": tolerations, "containers": containers}


def overcommitted(pods: Iterable[dict[str, Any]], nodes: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    """Pairs (node name, resource name) of which more is asked than the node has, since its resources changed under the Pods."""
    asked: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        if pod["spec"].get("nodeName") in nodes and (pod.get("status") or {}).get("phase") not in (
            "Succeeded",
            "Failed",
        ):
            for resource, quantity in requested(pod, is_extended).items():
                asked[pod["spec"]["nodeName"], resource] += quantity
    return {
        (name, resource)
        for (name, resource), quantity in asked.items()
        if quantity > allocatable(nodes[name], resource)
    }


def allocatable(node: dict[str, Any], resource: str) -> int:
    return parse_quantity(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def why_unfit(pod: dict[str, Any], node: dict[str, Any], short: set[tuple[str, str]]) -> str | None:
    """Why the scheduler would not put a Pod on the node that it is on, in a few words, or None. short: as overcommitted gives it.

    A kubelet lets such a Pod run on; here the question is where the declared requests go among the declared nodes.
    """
    name = node["metadata"]["name"]
    if untolerated_taints(pod, node):
        return f"its node {name} has a taint that it does not tolerate"
    if selector_mismatch(pod, node):
        return f"its node {name} no longer has the labels that it asks for"
    lacking = [resource for resource in requested(pod, is_extended) if (name, resource) in short]
    return f"its node {name} no longer has enough {', '.join(lacking)}" if lacking else None


def why_anew(
    pod: dict[str, Any],
    definition: dict[str, Any],
    nodes: dict[str, dict[str, Any]],
    seen: str,
    short: set[tuple[str, str]],
) -> str | None:
    """Why a Pod that is there must be asked for anew, in a few words, or None.

    nodes: {name: Node}; seen: their fingerprint; short: as overcommitted gives it.
    """
    node = pod["spec"].get("nodeName")
    if pod["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    if asked_by(pod) != asked_by(definition):
        return "its request changed"
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return "it has ended"
    if node and node not in nodes:
        return f"its node {node} is gone"
    if node:
        return why_unfit(pod, nodes[node], short)
    if is_stale(pod, nodes.values(), seen):
        return "the nodes have changed since the scheduler looked at it"
    return None


def plan(
    wanted: dict[str, dict[str, Any]], pods: dict[str, dict[str, Any]], nodes: list[dict[str, Any]]
) -> dict[str, Any]:
    """What is to be done: {created: [keys], replaced: {key: why}, removed: [keys], annotated: [keys]}.

    wanted: {key: definition}, pods: {key: Pod} of the whole cluster, nodes: list of Nodes. Raises ApiError for Pods of
    somebody else's that are in the way.
    """
    foreign = [key for key in wanted if key in pods and not is_own(pods[key])]
    _nodes.refuse(
        [f"{', '.join(foreign)}: choose other names in lab_requests"] if foreign else [],
        "these Pods exist already and are not the lab's",
    )
    by_name, seen = {node["metadata"]["name"]: node for node in nodes}, fingerprint(nodes)
    present = [key for key in wanted if key in pods]
    removed = sorted(key for key, pod in pods.items() if is_own(pod) and key not in wanted)
    short = overcommitted(pods.values(), by_name)
    replaced = {key: why for key in present if (why := why_anew(pods[key], wanted[key], by_name, seen, short))}
    if any(pods[key]["spec"].get("nodeName") for key in [*removed, *replaced]):
        for key in present:
            if not pods[key]["spec"].get("nodeName"):
                replaced.setdefault(key, "cards have become free since it asked")
    annotated = [
        key
        for key in present
        if key not in replaced and _annotations(wanted[key]).items() - _annotations(pods[key]).items()
    ]
    return {
        "created": [key for key in wanted if key not in pods],
        "replaced": replaced,
        "removed": removed,
        "annotated": annotated,
    }


def _annotations(pod: dict[str, Any]) -> dict[str, str]:
    annotations: dict[str, str] | None = pod["metadata"].get("annotations")
    return annotations or {}


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the Pods of params["pods"] about and remove the lab's others; returns the module's result."""
    wanted = {key_of(pod): pod for pod in params["pods"]}
    pods = {key_of(pod): pod for pod in api.list("pods")[0]}
    nodes = api.list("nodes")[0]
    namespaces = {item["metadata"]["name"]: item for item in api.list("namespaces", metadata_only=True)[0]}
    todo = {
        **plan(wanted, pods, nodes),
        **plan_namespaces(
            {pod["metadata"]["namespace"] for pod in wanted.values()}, namespaces, lambda name: others_in(api, name)
        ),
    }
    if not check_mode:
        gone = [*todo["removed"], *todo["replaced"]]
        _remove(
            api, {key: pods[key] for key in gone}, {node["metadata"]["name"] for node in nodes}, params["wait_timeout"]
        )
        _remove_namespaces(api, namespaces, todo, params["wait_timeout"])
        for namespace in todo["namespaces"]:
            _create_namespace(api, namespace)
        left = {key for key in wanted if key in pods and key not in todo["replaced"]}
        _create(
            api,
            {key: pod for key, pod in wanted.items() if key not in left},
            fingerprint(nodes),
            params["wait_timeout"],
        )
        for key in todo["annotated"]:
            _annotate(api, wanted[key])
    asked = [*todo["created"], *todo["replaced"]]
    before = {key: asked_by(pods[key]) for key in todo["replaced"]} | dict.fromkeys(todo["removed"], "present")
    before |= {key: _annotations(pods[key]) for key in todo["annotated"]}
    after = {key: asked_by(wanted[key]) for key in asked} | {
        key: _annotations(pods[key]) | _annotations(wanted[key]) for key in todo["annotated"]
    }
    before |= dict.fromkeys(todo["namespaces_removed"], "present")
    after |= dict.fromkeys(todo["namespaces"], "present")
    return {
        "changed": any(todo[what] for what in todo if what != "warnings"),
        **todo,
        "diff": {"before": before, "after": after},
    }


def others_in(api: Api, namespace: str) -> list[str]:
    """What is in a namespace that is not the lab's nor put in every namespace, such as ["configmaps/settings"]."""
    found: list[str] = []
    for group, resource, given in CONTENTS:
        path = f"{group}/namespaces/{quote(namespace, safe='')}/{resource}"
        try:
            items = api.request("get", path, ("list", resource, namespace), header_params=METADATA).get("items") or []
        except ApiError as error:
            # Secrets can only be looked for by whoever may read them, and gpuwl-lab may not.
            if error.status not in (403, 404):
                raise
            continue
        found += [
            f"{resource}/{item['metadata']['name']}"
            for item in items
            if item["metadata"]["name"] != given and not is_own(item)
        ]
    return found


def plan_namespaces(
    wanted: set[str], namespaces: dict[str, dict[str, Any]], others: Callable[[str], list[str]]
) -> dict[str, list[str]]:
    """{namespaces: [names to create], namespaces_removed: [names], warnings: [texts]}: the lab's that no Pod is asked for in go.

    wanted: names; namespaces: {name: Namespace}; others: a function that gives what of others' is in a namespace. One that is
    being deleted counts as removed: it is waited for.
    """
    ending = {name for name, item in namespaces.items() if item["metadata"].get("deletionTimestamp")}
    unused = {name for name, item in namespaces.items() if is_own(item)} - wanted
    held = {name: found for name in sorted(unused - ending) if (found := others(name))}
    return {
        "namespaces": sorted(wanted - (namespaces.keys() - ending)),
        "namespaces_removed": sorted((unused - held.keys()) | (wanted & ending)),
        "warnings": [
            f"the namespace {name} was made by the lab and stays, because this is in it that is not the lab's: {', '.join(found[:10])}"
            for name, found in held.items()
        ],
    }


def _create_namespace(api: Api, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(MARK)}}
    api.request(
        "post",
        collection_path("namespaces"),
        ("create", "namespaces", None),
        body=body,
        content_type="application/json",
        field_manager=FIELD_MANAGER,
    )


def _remove_namespaces(api: Api, namespaces: dict[str, dict[str, Any]], todo: dict[str, Any], seconds: float) -> None:
    """Delete namespaces and wait until they and all in them are gone."""
    waiting = {namespaces[name]["metadata"]["uid"]: name for name in todo["namespaces_removed"]}
    for uid, name in waiting.items():
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        _delete(api, f"{collection_path('namespaces')}/{quote(name, safe='')}", "namespaces", None, body)
    if not _await_gone(api, "namespaces", waiting, seconds):
        raise ApiError(
            f"the namespaces {', '.join(sorted(waiting.values()))} are not gone {seconds} s after they were deleted: `kubectl describe namespace` says"
            " what holds them; run it again when that is mended"
        )


def _delete(api: Api, path: str, resource: str, namespace: str | None, body: dict[str, Any]) -> None:
    try:
        api.request("delete", path, ("delete", resource, namespace), body=body)
    except ApiError as error:
        # 409: the name belongs to another object by now, or it is being deleted already.
        if error.status not in (404, 409):
            raise


def _await_gone(api: Api, resource: str, waiting: dict[str, str], seconds: float) -> bool:
    """Watch until no object has one of these uids; takes those that are gone out of `waiting` ({uid: name})."""

    def take_list(items: list[dict[str, Any]]) -> bool:
        for uid in waiting.keys() - {item["metadata"]["uid"] for item in items}:
            del waiting[uid]
        return not waiting

    def take_event(kind: str, item: dict[str, Any]) -> bool:
        if kind == "DELETED":
            waiting.pop(item["metadata"]["uid"], None)
        return not waiting

    return not waiting or watch_until(api, resource, take_list, take_event, seconds)


def _path(pod: dict[str, Any]) -> str:
    return f"{collection_path('pods', pod['metadata']['namespace'])}/{quote(pod['metadata']['name'], safe='')}"


def _remove(api: Api, pods: dict[str, dict[str, Any]], nodes: set[str], seconds: float) -> None:
    """Delete Pods and wait until they are gone. On a node that is gone nobody would end one: there it goes at once."""
    for pod in pods.values():
        uid = pod["metadata"]["uid"]
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if pod["spec"].get("nodeName") not in nodes:
            body["gracePeriodSeconds"] = 0
        _delete(api, _path(pod), "pods", pod["metadata"]["namespace"], body)
    waiting = {pod["metadata"]["uid"]: key for key, pod in pods.items()}
    if not _await_gone(api, "pods", waiting, seconds):
        some = ", ".join(sorted(waiting.values())[:20])
        raise ApiError(
            f"{len(waiting)} Pods are not gone {seconds} s after they were deleted: {some}; does kwok, or the kubelet of their nodes, run?"
        )


def _is_default(account: dict[str, Any]) -> bool:
    name: str = account["metadata"]["name"]
    return name == "default"


def _create(api: Api, definitions: dict[str, dict[str, Any]], seen: str, seconds: float) -> None:
    """Create Pods one after the other, in the order given."""
    for namespace in sorted({pod["metadata"]["namespace"] for pod in definitions.values()}):
        # Without it no Pod is admitted, and it follows the namespace by moments.
        if not watch_until(
            api,
            "serviceaccounts",
            lambda items: any(map(_is_default, items)),
            lambda kind, item: kind == "ADDED" and _is_default(item),
            seconds,
            namespace,
        ):
            raise ApiError(
                f"the namespace {namespace} has no ServiceAccount default after {seconds} s; does the controller manager run?"
            )
    written: list[str] = []
    for key, pod in definitions.items():
        body = {**pod, "metadata": {**pod["metadata"], "annotations": {**_annotations(pod), NODES: seen}}}
        body["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **MARK}
        namespace = pod["metadata"]["namespace"]
        try:
            api.request(
                "post",
                collection_path("pods", namespace),
                ("create", "pods", namespace),
                body=body,
                content_type="application/json",
                field_manager=FIELD_MANAGER,
            )
        except ApiError as error:
            told = f"Pod {key}: {error}. Created before that: {len(written)} of {len(definitions)} Pods; run it again to do the rest"
            raise ApiError(
                told,
                error.status,
                written=written,
                not_written=[other for other in definitions if other not in written],
            ) from error
        written.append(key)


def _annotate(api: Api, pod: dict[str, Any]) -> None:
    api.request(
        "patch",
        _path(pod),
        ("patch", "pods", pod["metadata"]["namespace"]),
        body={"metadata": {"annotations": _annotations(pod)}},
        content_type="application/merge-patch+json",
        field_manager=FIELD_MANAGER,
    )
