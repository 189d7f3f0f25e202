# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the GPU Operator would make of declared pools, had their nodes the GPUs that they stand for.

Private to the collection gpuwl.sandbox.
"""

from typing import Any, Dict, Iterable, List, Optional

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import RESOURCE_PREFIX, WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.expected_operands import expected_operands
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import (
    KERNEL,
    OPERANDS,
    OS_ID,
    OS_VERSION,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX, PCI_LABELS

# What Node Feature Discovery would find on a node; a pool that declares one of these labels has its own value.
_FOUND_ON_ANY = {OS_ID: "ubuntu", OS_VERSION: "24.04", KERNEL: "6.8.0-60-generic"}


def pool_operands(
    nodes: List[Dict[str, Any]],
    cluster_policy: Optional[Dict[str, Any]] = None,
    operator_version: Optional[str] = None,
    other_objects: Iterable[Dict[str, Any]] = (),
) -> List[Dict[str, Any]]:
    """Return what the operator would make of each pool, in the order declared.

    nodes: as pools.pool_nodes gives them; the other arguments, and errors, as of expected_operands.
    A pool has a GPU in each node if it has a workload or a resource whose name begins with nvidia.com/.

    Each pool gives {pool, nodes, workload, reason, labels, daemonsets, waiting, certain, notes}: nodes is their number,
    waiting the operands whose deploy label is "true" although no DaemonSet of theirs has a Pod due there, ascending; the
    others are those of expected_operands.
    """
    counts: Dict[str, int] = {}
    first: Dict[str, Dict[str, Any]] = {}
    for node in nodes:
        counts[node["pool"]] = counts.get(node["pool"], 0) + 1
        first.setdefault(node["pool"], node)
    objects = [_node_object(node) for node in first.values()]
    found = expected_operands(objects, cluster_policy, operator_version, other_objects)
    result = []
    for pool, entry in zip(first, found):
        answer = {key: value for key, value in entry.items() if key != "node"}
        result.append({"pool": pool, "nodes": counts[pool], **answer, "waiting": _waiting(entry)})
    return result


def _node_object(node: Dict[str, Any]) -> Dict[str, Any]:
    labels = dict(node["labels"])
    if WORKLOAD_LABEL in labels or any(name.startswith(RESOURCE_PREFIX) for name in node["resources"]):
        labels = {PCI_LABELS[0]: "true", **_FOUND_ON_ANY, **labels}
    return {"kind": "Node", "metadata": {"name": node["name"], "labels": labels}, "spec": {"taints": node["taints"]}}


def _waiting(entry: Dict[str, Any]) -> List[str]:
    running = {operand.operand for operand in OPERANDS if operand.daemonset in entry["daemonsets"]}
    if any("-driver-" in name for name in entry["daemonsets"]):
        running.add("driver")
    return sorted(
        key[len(DEPLOY_PREFIX) :]
        for key, value in entry["labels"].items()
        if key.startswith(DEPLOY_PREFIX) and value == "true" and key[len(DEPLOY_PREFIX) :] not in running
    )


def pool_operands_table(pools: List[Dict[str, Any]], operator_version: str = "") -> str:
    """Return what pool_operands gives as text for people, without a blank line."""
    lines = [f"GPU Operator {operator_version or 'of the newest known version'}"]
    for pool in pools:
        number = "1 node" if pool["nodes"] == 1 else f"{pool['nodes']} nodes"
        lines.append(f"{pool['pool']} ({number}): {pool['workload'] or 'no GPU'} ({pool['reason']})")
        lines += [f"  {name}" for name in pool["daemonsets"]] or ["  no operand runs"]
        if pool["waiting"]:
            lines.append(f"  labelled, but nothing runs for it: {', '.join(pool['waiting'])}")
        lines += [f"  note: {note}" for note in pool["notes"]]
    return "\n".join(lines) + "\n"
