# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From declared pools to the nodes that they stand for.

Private to the collection gpuwl.sandbox. Source of the form: the role variable lab_pools of this collection.
"""

import re
from typing import Any, Callable, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_dns_subdomain,
    invalid_label_value,
    invalid_qualified_name,
    invalid_resource_name,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

POOL_LABEL = "gpuwl.sandbox/pool"
POOL_KEYS = ("name", "nodes", "workload", "resources", "labels", "taints", "capacity")
# A node without these takes no Pod at all, whatever its GPUs.
DEFAULT_CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110"}
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# The form of a quantity; what it means is not needed here (k8s.io/apimachinery pkg/api/resource).
_QUANTITY = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\Z")


def pool_nodes(pools: Any, expand: Callable[[str], List[str]]) -> List[Dict[str, Any]]:
    """The nodes of all pools, in the order declared.

    pools: list of {name, nodes: [names or ranges], workload, resources: {name: quantity}, labels: {}, taints: [],
    capacity: {}}; expand: a name with ranges in Ansible's inventory syntax -> names.
    Returns a list of {name, pool, labels, resources: {name: whole number}, taints, capacity}.
    Raises ValueError that lists all that is wrong.
    """
    errors: List[str] = []
    nodes: List[Dict[str, Any]] = []
    if not isinstance(pools, list) or not pools:
        raise ValueError("lab_pools must be a list of at least one pool, each {name, nodes, ...}; found: %r" % (pools,))
    for number, pool in enumerate(pools):
        where = "lab_pools[%d]" % number
        if not isinstance(pool, dict):
            errors.append("%s must be a mapping with name and nodes; found: %r" % (where, pool))
            continue
        where = "pool %s" % pool["name"] if isinstance(pool.get("name"), str) else where
        errors += ["%s: %s" % (where, error) for error in _pool_errors(pool)]
        nodes += _nodes_of(pool, where, expand, errors)
    errors += _repeated([pool.get("name") for pool in pools if isinstance(pool, dict)], "the pool name %s")
    errors += _repeated([node["name"] for node in nodes], "the node name %s")
    if errors:
        raise ValueError("; ".join(errors))
    if not nodes:
        raise ValueError("lab_pools declares no node: give at least one pool a name in nodes")
    return nodes


def _nodes_of(pool: Dict[str, Any], where: str, expand: Callable[[str], List[str]], errors: List[str]) -> List[Dict[str, Any]]:
    names: List[str] = []
    for pattern in pool.get("nodes") if isinstance(pool.get("nodes"), list) else []:
        try:
            names += expand(pattern) if isinstance(pattern, str) else [pattern]
        except Exception as error:  # the expansion of ranges belongs to Ansible, which raises what it likes
            errors.append("%s: nodes: %r is no name or range such as edge-[00:19] (%s)" % (where, pattern, error))
    for name in names:
        wrong = invalid_dns_subdomain(name)
        if wrong:
            errors.append("%s: nodes: %r is no node name: %s" % (where, name, wrong))
    if errors:
        return []
    labels = {**(pool.get("labels") or {}), POOL_LABEL: pool["name"]}
    if pool.get("workload") is not None:
        labels[WORKLOAD_LABEL] = pool["workload"]
    resources = {name: parse_quantity(quantity) for name, quantity in (pool.get("resources") or {}).items()}
    capacity = {**DEFAULT_CAPACITY, **{k: str(v) for k, v in (pool.get("capacity") or {}).items()}}
    shared = {"pool": pool["name"], "labels": labels, "resources": resources, "taints": list(pool.get("taints") or [])}
    return [{"name": name, "capacity": capacity, **shared} for name in names]


def _pool_errors(pool: Dict[str, Any]) -> List[str]:
    errors = ["unknown key %s; known are %s" % (key, ", ".join(POOL_KEYS)) for key in pool if key not in POOL_KEYS]
    if invalid_label_value(pool.get("name")) or not pool.get("name"):
        errors.append("name %r must be a text of letters, digits, '-', '_' and '.', at most 63 long" % (pool.get("name"),))
    if not isinstance(pool.get("nodes"), list):
        errors.append("nodes must be a list of names or ranges such as edge-[00:19]; found: %r" % (pool.get("nodes"),))
    for key, kind in (("resources", dict), ("labels", dict), ("taints", list), ("capacity", dict)):
        if not isinstance(pool.get(key) or kind(), kind):
            errors.append("%s must be a %s; found: %r" % (key, "list" if kind is list else "mapping", pool[key]))
    if errors:
        return errors
    for name, quantity in (pool.get("resources") or {}).items():
        wrong = invalid_resource_name(name)
        errors += ["resources: %s is no resource name: %s" % (name, wrong)] if wrong else []
        try:
            parse_quantity(quantity)
        except ValueError as error:
            errors.append("resources: %s: %s" % (name, error))
    for name, quantity in (pool.get("capacity") or {}).items():
        if isinstance(quantity, bool) or not _QUANTITY.match(str(quantity)):
            errors.append("capacity: %s: %r is no quantity such as 32, 500m or 256Gi" % (name, quantity))
        if "/" in str(name):
            errors.append("capacity: %s belongs under resources" % name)
    return errors + _label_errors(pool) + _taint_errors(pool)


def _label_errors(pool: Dict[str, Any]) -> List[str]:
    errors = []
    labels = dict(pool.get("labels") or {})
    workload = pool.get("workload")
    if workload is not None:
        if labels.get(WORKLOAD_LABEL, workload) != workload:
            errors.append("workload is %r, but labels say %s=%s: drop one" % (workload, WORKLOAD_LABEL, labels[WORKLOAD_LABEL]))
        labels[WORKLOAD_LABEL] = workload
    for key, value in labels.items():
        wrong = invalid_qualified_name(key)
        errors += ["labels: %s is no label key: %s" % (key, wrong)] if wrong else []
        wrong = invalid_label_value(value)
        errors += ["labels: %s=%r is no label value: %s" % (key, value, wrong)] if wrong else []
    return errors


def _taint_errors(pool: Dict[str, Any]) -> List[str]:
    errors = []
    for taint in pool.get("taints") or []:
        if not isinstance(taint, dict) or set(taint) - {"key", "value", "effect"}:
            errors.append("taints: %r must be {key, value, effect}" % (taint,))
        elif invalid_qualified_name(taint.get("key")) or invalid_label_value(taint.get("value", "")):
            errors.append("taints: %r has no valid key or value" % (taint,))
        elif taint.get("effect") not in TAINT_EFFECTS:
            errors.append("taints: %s has the effect %r; allowed are %s" % (taint["key"], taint.get("effect"), ", ".join(TAINT_EFFECTS)))
    return errors


def _repeated(names: List[Any], what: str) -> List[str]:
    texts = [str(name) for name in names]
    return ["%s stands %d times: names must be unique" % (what % name, texts.count(name)) for name in sorted(
        {name for name in texts if texts.count(name) > 1})]
