# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPU resources a cluster has, who asks for them, and what stays idle beside the queue.

Private to the collection gpuwl.sandbox. Source: Kubernetes documentation,
"Extended resources" and "Sidecar containers" (what a Pod requests in all);
k8s.io/kubernetes pkg/scheduler plugin NodeResourcesFit.

The scheduler decides; this counts and explains. Nodes and Pods are expected in
the form that objects.check_shape has accepted.
"""

from typing import Any, Callable, Dict, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.fits import selector_mismatch, untolerated_taints
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.pod_requests import (
    identity,
    positive_quantities,
    requested,
    scheduled_condition,
)


def inventory(nodes: List[Dict[str, Any]], pods: List[Dict[str, Any]], prefix: str = "nvidia.com/") -> Dict[str, Any]:
    """Return the inventory by resource name.

    nodes, pods: Node and Pod objects; prefix: how the names of the counted resources begin.

    Each resource name that a node lists above zero or that a Pod asks for gives
    nodes: names of the nodes that list it, ascending
    capacity, allocatable: sums over these nodes
    requested: by Pods with a node that have not ended
    free: allocatable less requested, per node never below zero, summed
    pending: Pods without a node, ascending by namespace and name, each with namespace,
    name, quantity, message (the scheduler's) and cannot_use: free units that this
    request cannot take, each with node, resource, free, reasons and detail.
    Reasons: name, selector, taint, quantity, other.
    """

    def counted(name: str) -> bool:
        return name.startswith(prefix)

    pools = [_pool(node, counted) for node in nodes]
    result: Dict[str, Any] = {}
    for pool in pools:
        for resource in sorted(set(pool["capacity"]) | set(pool["free"])):
            entry = _entry(result, resource)
            entry["nodes"].append(pool["name"])
            entry["capacity"] += pool["capacity"].get(resource, 0)
            entry["allocatable"] += pool["free"].get(resource, 0)
    waiting = _count_requests(result, pods, {pool["name"]: pool for pool in pools}, counted)
    for resource, entry in result.items():
        entry["nodes"].sort()
        entry["free"] = sum(pool["free"].get(resource, 0) for pool in pools)
    _add_pending(result, waiting, sorted(pools, key=lambda pool: pool["name"]))
    return {resource: result[resource] for resource in sorted(result)}


def _count_requests(
    result: Dict[str, Any], pods: List[Dict[str, Any]], pools: Dict[str, Any], counted: Callable[[str], bool]
) -> List[Tuple[Dict[str, Any], Dict[str, int]]]:
    """Enter what Pods ask for, take it from their nodes' free units, and return those that wait with their requests."""
    waiting = []
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        requests = requested(pod, counted)
        node = (pod.get("spec") or {}).get("nodeName")
        for resource, quantity in requests.items():
            entry = _entry(result, resource)
            if not node:
                continue
            entry["requested"] += quantity
            if node in pools:
                free = pools[node]["free"]
                free[resource] = max(0, free.get(resource, 0) - quantity)
        if requests and not node:
            waiting.append((pod, requests))
    return waiting


def _entry(result: Dict[str, Dict[str, Any]], resource: str) -> Dict[str, Any]:
    return result.setdefault(
        resource, {"nodes": [], "capacity": 0, "allocatable": 0, "requested": 0, "free": 0, "pending": []}
    )


def _pool(node: Dict[str, Any], counted: Callable[[str], bool]) -> Dict[str, Any]:
    """Return what one node lists above zero; `free` begins as allocatable."""
    status = node.get("status") or {}
    capacity = positive_quantities(status.get("capacity"), counted)
    # The API server fills in an absent allocatable with capacity.
    allocatable = status.get("allocatable")
    free = dict(capacity) if allocatable is None else positive_quantities(allocatable, counted)
    return {"name": node["metadata"]["name"], "node": node, "capacity": capacity, "free": free}


def _add_pending(
    result: Dict[str, Any],
    waiting: List[Tuple[Dict[str, Any], Dict[str, int]]],
    pools: List[Dict[str, Any]],
) -> None:
    """Enter each waiting Pod below each resource name it asks for."""
    for pod, requests in sorted(waiting, key=lambda item: identity(item[0])):
        namespace, name = identity(pod)
        message = scheduled_condition(pod).get("message") or ""
        # What the Pod's own conditions say about a node holds for all of its resources.
        barred = [_barred(pod, pool["node"]) for pool in pools]
        for resource, quantity in requests.items():
            obstacles = []
            for pool, bars in zip(pools, barred):
                obstacles.extend(_obstacles(pool, bars, resource, requests, message))
            result[resource]["pending"].append(
                {
                    "namespace": namespace,
                    "name": name,
                    "quantity": quantity,
                    "message": message,
                    "cannot_use": obstacles,
                }
            )


def _barred(pod: Dict[str, Any], node: Dict[str, Any]) -> List[Tuple[str, str]]:
    """Return (reason, words) for each of a Pod's own conditions that a node fails."""
    bars = []
    mismatch = selector_mismatch(pod, node)
    if mismatch is not None:
        bars.append(("selector", mismatch))
    taints = untolerated_taints(pod, node)
    if taints:
        bars.append(("taint", "it does not tolerate the taint " + ", ".join(taints)))
    return bars


def _obstacles(
    pool: Dict[str, Any], bars: List[Tuple[str, str]], resource: str, requests: Dict[str, int], message: str
) -> List[Dict[str, Any]]:
    """Return, for each resource free on one node, why a request cannot take it."""
    obstacles = []
    for other, free in sorted(pool["free"].items()):
        # What the Pod asks for under a second name is looked at below that name.
        if not free or (other != resource and other in requests):
            continue
        reasons = list(bars)
        if other != resource:
            reasons.insert(0, ("name", f"it asks for {resource}, and {other} is another name"))
            if free < requests[resource]:
                reasons.append(("quantity", "it asks for %d, %d are free here" % (requests[resource], free)))
        else:
            reasons.extend(_too_few(pool, requests))
        if not reasons:
            reasons = [
                (
                    "other",
                    "neither name, selector, taint nor quantity keeps it away; the scheduler says: "
                    + (message or "nothing yet"),
                )
            ]
        obstacles.append(
            {
                "node": pool["name"],
                "resource": other,
                "free": free,
                "reasons": [reason for reason, words in reasons],
                "detail": "; ".join(words for reason, words in reasons),
            }
        )
    return obstacles


def _too_few(pool: Dict[str, Any], requests: Dict[str, int]) -> List[Tuple[str, str]]:
    """Return the reason `quantity` if one node has too few of any resource a Pod asks for."""
    short = [
        "it asks for %d %s, %d are free here" % (quantity, name, pool["free"].get(name, 0))
        for name, quantity in requests.items()
        if pool["free"].get(name, 0) < quantity
    ]
    return [("quantity", ", ".join(short))] if short else []
