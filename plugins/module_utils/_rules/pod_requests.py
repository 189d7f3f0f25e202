# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Pod asks for, and what the scheduler says of it.

Private to the collection gpuwl.sandbox. Source: Kubernetes documentation, "Resource sharing within containers"
(Sidecar Containers) and "Extended resources"; API reference, Pod conditions.
"""

from typing import Any, Callable, Dict, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_resource_name
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity


def requested(pod: Dict[str, Any], counts: Callable[[str], bool]) -> Dict[str, int]:
    """Return what a Pod asks for in all, {resource name: whole number above zero}, names ascending.

    counts: whether a resource name is to be counted. What is no quantity counts as zero.
    Containers and sidecars (init containers that restart always) run together;
    every other init container runs alone, but beside the sidecars begun before it.
    """
    spec = pod.get("spec") or {}
    total: Dict[str, int] = {}
    for container in spec.get("containers") or []:
        _add(total, _container(container, counts))
    sidecars: Dict[str, int] = {}
    peak: Dict[str, int] = {}
    for container in spec.get("initContainers") or []:
        wanted = _container(container, counts)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, wanted)
            _add(total, wanted)
        else:
            _add(wanted, sidecars)
            peak.update({name: max(peak.get(name, 0), quantity) for name, quantity in wanted.items()})
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in sorted(set(total) | set(peak))}


def positive_quantities(listed: Any, counts: Callable[[str], bool]) -> Dict[str, int]:
    """Return the counted resources above zero; what is no quantity counts as zero."""
    found = {}
    for name, quantity in (listed or {}).items():
        if counts(name):
            try:
                number = parse_quantity(quantity)
            except ValueError:
                continue
            if number:
                found[name] = number
    return found


def is_extended(name: str) -> bool:
    """Whether a resource name is an extended resource's, such as nvidia.com/gpu."""
    return invalid_resource_name(name) is None


def identity(pod: Dict[str, Any]) -> Tuple[str, str]:
    """Return a Pod's (namespace, name)."""
    return pod["metadata"].get("namespace") or "default", pod["metadata"]["name"]


def scheduled_condition(pod: Dict[str, Any]) -> Dict[str, Any]:
    """Return the condition PodScheduled, or {} while there is none."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == "PodScheduled"), {})


def _container(container: Dict[str, Any], counts: Callable[[str], bool]) -> Dict[str, int]:
    """Return what a container asks for; a limit without a request stands for the request."""
    resources = container.get("resources") or {}
    return positive_quantities({**(resources.get("limits") or {}), **(resources.get("requests") or {})}, counts)


def _add(total: Dict[str, int], more: Dict[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity
