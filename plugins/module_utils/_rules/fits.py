# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a Pod's own conditions keep it away from.

Private to the collection gpuwl.sandbox. Source: Kubernetes documentation,
"Assigning Pods to Nodes" and "Taints and Tolerations"; k8s.io/component-helpers
scheduling/corev1 (nodeaffinity) and k8s.io/api core/v1 Toleration.ToleratesTaint.

These explain the scheduler's decision afterwards; they never make it.
"""

import re
from typing import Any, Dict, List, Optional

_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")


def selector_mismatch(pod: Dict[str, Any], node: Dict[str, Any]) -> Optional[str]:
    """Return which of a Pod's nodeSelector or required node affinity a Node fails, in words, or None."""
    spec = pod.get("spec") or {}
    labels = node["metadata"].get("labels") or {}
    failed = [
        f"{key}={value}" for key, value in sorted((spec.get("nodeSelector") or {}).items()) if labels.get(key) != value
    ]
    if failed:
        return "its nodeSelector wants " + ", ".join(failed)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    terms = required.get("nodeSelectorTerms") or []
    if any(_term_matches(term, labels, node["metadata"]["name"]) for term in terms):
        return None
    return "its required node affinity matches no term"


def untolerated_taints(pod: Dict[str, Any], node: Dict[str, Any]) -> List[str]:
    """Return a Node's taints that keep a Pod from being scheduled there, as key=value:effect."""
    spec = node.get("spec") or {}
    taints = list(spec.get("taints") or [])
    if spec.get("unschedulable") is True:
        taints.append(_UNSCHEDULABLE)
    tolerations = (pod.get("spec") or {}).get("tolerations") or []
    shown = []
    for taint in taints:
        if taint.get("effect") not in ("NoSchedule", "NoExecute"):
            continue
        if any(_tolerates(toleration, taint) for toleration in tolerations):
            continue
        value = "=" + taint["value"] if taint.get("value") else ""
        text = "{}{}:{}".format(taint.get("key"), value, taint["effect"])
        if text not in shown:
            shown.append(text)
    return shown


def _term_matches(term: Dict[str, Any], labels: Dict[str, Any], name: str) -> bool:
    """Terms are alternatives; within one, everything must hold; an empty one matches nothing."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _holds(one, {"metadata.name": name}) for one in fields
    )


def _holds(expression: Dict[str, Any], present: Dict[str, Any]) -> bool:
    key = expression.get("key", "")
    operator = expression.get("operator")
    values = expression.get("values") or []
    if operator == "In":
        return key in present and present[key] in values
    if operator == "NotIn":
        return key not in present or present[key] not in values
    if operator == "Exists":
        return key in present
    if operator == "DoesNotExist":
        return key not in present
    if operator in ("Gt", "Lt") and len(values) == 1:
        found, bound = _integer(present.get(key)), _integer(values[0])
        if found is None or bound is None:
            return False
        return found > bound if operator == "Gt" else found < bound
    return False


def _tolerates(toleration: Dict[str, Any], taint: Dict[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    # A toleration without a key, which must be "Exists", tolerates every key.
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")


def _integer(text: Any) -> Optional[int]:
    return int(text) if isinstance(text, str) and _INTEGER.match(text) else None
