# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From declared pools to the nodes that they stand for.

Private to the collection gpuwl.sandbox. Source of the form: the role variable lab_pools of this collection.
"""

import re
from typing import Any, Callable, Dict, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.declared import (
    DeclarationError,
    label_errors,
    repeated,
    resource_errors,
    shown,
    wrong_type,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_dns_subdomain,
    invalid_label_value,
    invalid_qualified_name,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

POOL_LABEL = "gpuwl.sandbox/pool"
# By these the lab knows its own nodes, so no pool may set them.
OWN_LABELS = (POOL_LABEL, "app.kubernetes.io/managed-by", "kubernetes.io/hostname")
POOL_KEYS = ("name", "nodes", "workload", "resources", "labels", "taints", "capacity")
# A node without these takes no Pod at all, whatever its GPUs.
DEFAULT_CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110"}
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# The label kubernetes.io/hostname holds a node's name, and a label's value is no longer.
LONGEST_NODE_NAME = 63
_NATIVE = re.compile(r"(cpu|memory|pods|ephemeral-storage|hugepages-[1-9][0-9]*[KMG]i)\Z")
# The form of a quantity; what it means is not needed here (k8s.io/apimachinery pkg/api/resource).
_QUANTITY = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\Z")


def pool_nodes(pools: Any, expand: Callable[[str], List[str]]) -> List[Dict[str, Any]]:
    """The nodes of all pools, in the order declared.

    pools: list of {name, nodes: [names or ranges], workload, resources: {name: quantity}, labels: {}, taints: [],
    capacity: {}}; expand: a name with ranges in Ansible's inventory syntax -> names.
    Returns a list of {name, pool, labels, resources: {name: whole number}, taints, capacity}.
    Raises DeclarationError, a ValueError, that lists all that is wrong.
    """
    if not isinstance(pools, list) or not pools:
        raise DeclarationError(
            [f"lab_pools must be a list of at least one pool, each {{name, nodes, ...}}; found: {shown(pools)}"]
        )
    errors: List[str] = []
    declared: List[Tuple[Dict[str, Any], List[str]]] = []
    for number, pool in enumerate(pools):
        where = "lab_pools[%d]" % number
        if not isinstance(pool, dict):
            errors.append(f"{where} must be a mapping with name and nodes; found: {shown(pool)}")
            continue
        where = "pool {}".format(pool["name"]) if isinstance(pool.get("name"), str) and pool["name"] else where
        names, wrong = _names(pool, expand)
        errors += [f"{where}: {error}" for error in _pool_errors(pool) + wrong]
        declared.append((pool, names))
    errors += repeated((pool["name"] for pool, _names_ in declared if pool.get("name")), "pool name")
    errors += repeated((name for _pool, names in declared for name in names), "node name")
    if not errors and not any(names for _pool, names in declared):
        errors.append("lab_pools declares no node: give at least one pool a name in nodes")
    if errors:
        raise DeclarationError(errors)
    return [node for pool, names in declared for node in _nodes_of(pool, names)]


def beyond_labels_and_resources(pools: Any) -> List[str]:
    """Errors for what only nodes that the lab makes itself can be given: taints and capacity. pools: a declaration that can be."""
    return [
        "pool {}: {}: nodes that are there already, or that kind makes, get labels and resources only: leave it out".format(
            pool["name"], key
        )
        for pool in pools
        for key in ("taints", "capacity")
        if pool.get(key)
    ]


def _names(pool: Dict[str, Any], expand: Callable[[str], List[str]]) -> Tuple[List[str], List[str]]:
    """The names of a pool's nodes, and what is wrong with them."""
    patterns = pool.get("nodes")
    if not isinstance(patterns, list):
        return [], [f"nodes must be a list of names or ranges such as edge-[00:19]; found: {shown(patterns)}"]
    names: List[str] = []
    errors = []
    for pattern in patterns:
        try:
            found = expand(pattern) if isinstance(pattern, str) else [pattern]
        except Exception as error:  # noqa: BLE001 - the expansion of ranges belongs to Ansible, which raises what it likes
            errors.append(f"nodes: {shown(pattern)} is no name or range such as edge-[00:19]: {error}")
            continue
        wrong = [name for name in found if _invalid_node_name(name)]
        if wrong:  # a wrong range is wrong many times: the first name says it
            errors.append(f"nodes: {shown(wrong[0])} is no node name: {_invalid_node_name(wrong[0])}")
        names += found
    return names, errors


def _invalid_node_name(name: Any) -> Any:
    if isinstance(name, str) and len(name) > LONGEST_NODE_NAME:
        return "it has %d characters, at most %d are allowed" % (len(name), LONGEST_NODE_NAME)
    return invalid_dns_subdomain(name)


def _nodes_of(pool: Dict[str, Any], names: List[str]) -> List[Dict[str, Any]]:
    labels = {**(pool.get("labels") or {}), POOL_LABEL: pool["name"]}
    if pool.get("workload") is not None:
        labels[WORKLOAD_LABEL] = pool["workload"]
    resources = {name: parse_quantity(quantity) for name, quantity in (pool.get("resources") or {}).items()}
    capacity = {**DEFAULT_CAPACITY, **{k: str(v) for k, v in (pool.get("capacity") or {}).items()}}
    shared = {"pool": pool["name"], "labels": labels, "resources": resources, "taints": list(pool.get("taints") or [])}
    return [{"name": name, "capacity": capacity, **shared} for name in names]


def _pool_errors(pool: Dict[str, Any]) -> List[str]:
    errors = ["unknown key {}; known are {}".format(key, ", ".join(POOL_KEYS)) for key in pool if key not in POOL_KEYS]
    if invalid_label_value(pool.get("name")) or not pool.get("name"):
        errors.append(
            "name must be a text of letters, digits, '-', '_' and '.', at most 63 long; found: {}".format(
                shown(pool.get("name"))
            )
        )
    errors += _workload_errors(pool)
    errors += label_errors("labels", pool.get("labels"))
    errors += resource_errors(pool.get("resources"), least=0)
    return errors + _taint_errors(pool.get("taints")) + _capacity_errors(pool.get("capacity"))


def _workload_errors(pool: Dict[str, Any]) -> List[str]:
    labels = pool.get("labels")
    labels = labels if isinstance(labels, dict) else {}
    errors = [f"labels: {key} is set by the lab itself: leave it out" for key in OWN_LABELS if key in labels]
    workload = pool.get("workload")
    if workload is not None:
        wrong = invalid_label_value(workload)
        advice = ": put it in quotes" if isinstance(workload, (bool, int, float)) else ""
        errors += [f"workload: {shown(workload)} is no label value: {wrong}{advice}"] if wrong else []
        if WORKLOAD_LABEL in labels and labels[WORKLOAD_LABEL] != workload:
            said = shown(labels[WORKLOAD_LABEL])
            errors.append(f"workload is {shown(workload)}, but labels say {WORKLOAD_LABEL}: {said}: drop one")
    return errors


def _taint_errors(taints: Any) -> List[str]:
    errors = wrong_type("taints", taints, list)
    known = []
    for taint in (taints or []) if not errors else []:
        if not isinstance(taint, dict) or set(taint) - {"key", "value", "effect"}:
            errors.append(f"taints: {shown(taint)} must be {{key, value, effect}}")
            continue
        wrong = invalid_qualified_name(taint.get("key"))
        errors += ["taints: key {}: {}".format(shown(taint.get("key")), wrong)] if wrong else []
        wrong = invalid_label_value(taint.get("value", ""))
        errors += ["taints: value {}: {}".format(shown(taint["value"]), wrong)] if wrong else []
        if taint.get("effect") not in TAINT_EFFECTS:
            errors.append(
                "taints: effect {}; allowed are {}".format(shown(taint.get("effect")), ", ".join(TAINT_EFFECTS))
            )
        known.append("{}:{}".format(taint.get("key"), taint.get("effect")))
    return errors + repeated(known, "taint")


def _capacity_errors(capacity: Any) -> List[str]:
    errors = wrong_type("capacity", capacity, dict)
    for name, quantity in (capacity or {}).items() if not errors else ():
        if not isinstance(name, str) or not _NATIVE.match(name):
            advice = ": it belongs under resources" if "/" in str(name) else ""
            errors.append(
                f"capacity: {shown(name)} is none of cpu, memory, pods, ephemeral-storage and hugepages-<size>{advice}"
            )
        elif name == "pods":
            try:
                parse_quantity(quantity)
            except ValueError as error:
                errors.append(f"capacity: pods: {error}")
        elif isinstance(quantity, bool) or not _QUANTITY.match(str(quantity)):
            errors.append(f"capacity: {name}: {shown(quantity)} is no quantity such as 32, 500m or 256Gi")
    return errors
