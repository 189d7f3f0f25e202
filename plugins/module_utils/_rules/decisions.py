# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler decided about every Pod that asks for a GPU.

Private to the collection gpuwl.sandbox. Source: Kubernetes API reference, Pod: spec.nodeName and the condition
PodScheduled.
"""

from typing import Any, Dict, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.pod_requests import (
    identity,
    requested,
    scheduled_condition,
)

ORDER = "gpuwl.sandbox/order"


def decisions(pods: List[Dict[str, Any]], prefix: str = "nvidia.com/") -> List[Dict[str, Any]]:
    """Return a decision per Pod and resource name that it asks for, the lab's in the order declared, then others by creation time.

    pods: Pod objects; prefix: how the names of the resources begin.
    Each is {namespace, name, resource, quantity, phase, node: name or None, reason, message}.
    """
    found = []
    for pod in sorted(pods, key=_asked):
        node = (pod.get("spec") or {}).get("nodeName")
        status = pod.get("status") or {}
        condition = scheduled_condition(pod)
        for resource, quantity in requested(pod, lambda name: name.startswith(prefix)).items():
            namespace, name = identity(pod)
            found.append(
                {
                    "namespace": namespace,
                    "name": name,
                    "resource": resource,
                    "quantity": quantity,
                    "phase": status.get("phase") or "Pending",
                    "node": node,
                    "reason": None if node else condition.get("reason"),
                    "message": None if node else condition.get("message"),
                }
            )
    return found


def _asked(pod: Dict[str, Any]) -> Tuple[bool, int, str, Tuple[str, str]]:
    """The lab's Pods stand in their declared order, which asking anew does not change; others follow by creation time."""
    order = (pod["metadata"].get("annotations") or {}).get(ORDER)
    number = int(order) if isinstance(order, str) and order.isdecimal() else -1
    return number < 0, number, pod["metadata"].get("creationTimestamp") or "", identity(pod)
