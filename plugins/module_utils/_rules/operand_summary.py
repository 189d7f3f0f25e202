# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says in few lines what switching operands does to which nodes, and what else there is to know about it.

Private to the collection gpuwl.sandbox.
"""

from typing import Any, Dict, Iterable, List, Mapping

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_switches import (
    FORGETFUL,
    HOST_DRIVER,
    NodeSwitch,
    SwitchWish,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX

_MOST_RUNS = 10
WITHOUT_TOOLKIT = (
    "device-plugin goes on without container-toolkit: Pods are sent there and get no GPU, unless the host's container runtime was set up for it"
    " by other means; take device-plugin out as well"
)


def summary_of(nodes: Iterable[Dict[str, Any]], cluster: Dict[str, Any], wish: SwitchWish) -> List[str]:
    """Return lines on what changes; nodes to which the same happens share one.

    nodes, cluster: as the module operand_switches returns them.
    """
    alike: Dict[str, List[str]] = {}
    for node in nodes:
        alike.setdefault(_happens(node, wish), []).append(node["name"])
    lines = [f"{ranges(names, _MOST_RUNS)}: {text}" for text, names in alike.items()]
    if cluster["policy"] is not None:
        lines.append(f"ClusterPolicy {cluster['policy']}: {_switched(cluster)}")
        by_set: Dict[str, List[str]] = {}
        for verb in ("stops", "starts"):
            for one in cluster[verb]:
                by_set.setdefault(f"{verb} {one['daemonset']}", []).append(one["node"])
        lines += [f"{ranges(names, _MOST_RUNS)}: {text}" for text, names in by_set.items()]
    return lines


def _happens(node: Dict[str, Any], wish: SwitchWish) -> str:
    what = ", ".join(wish.operands) if wish.operands else "the whole node"
    if not node["changed"]:
        return f"{what} as asked already"
    who = (
        "the operator changes the deploy labels"
        if node["acts"] == "operator"
        else "this role changes the deploy labels"
    )
    parts = [f"{what} {'out' if wish.out else 'in'}", who]
    for verb in ("stops", "starts"):
        names = sorted({one["daemonset"] for one in node[verb]})
        if names:
            parts.append(f"{verb} {', '.join(names)}")
    if not node["stops"] and not node["starts"]:
        parts.append("no Pod stops or starts")
    return "; ".join(parts)


def _switched(cluster: Dict[str, Any]) -> str:
    if not cluster["changed"]:
        return "as asked already"
    return ", ".join(f"{name}.enabled={str(value).lower()}" for name, value in cluster["switched"].items())


def notes_of(
    nodes: Iterable[Dict[str, Any]],
    switches: Mapping[str, NodeSwitch],
    cluster: Dict[str, Any],
    wish: SwitchWish,
    operator: bool,
) -> List[str]:
    """Return what else to know: what was left alone and why, what will be forgotten, what becomes the user's own task."""
    alike: Dict[str, List[str]] = {}
    changed = False
    for node in nodes:
        one = switches[node["name"]]
        outs = [key[len(DEPLOY_PREFIX) :] for key, value in one.labels.items() if value == "false"]
        changed = changed or bool(outs)
        texts = list(one.notes)
        if "container-toolkit" in outs and one.settled.get(DEPLOY_PREFIX + "device-plugin") == "true":
            texts.append(WITHOUT_TOOLKIT)
        for text in texts:
            alike.setdefault(text, []).append(node["name"])
    notes = [f"{ranges(names, _MOST_RUNS)}: {text}" for text, names in alike.items()]
    out = bool(wish.out and wish.operands and changed)
    if out and operator:
        notes.append(FORGETFUL)
    driver_out = out and "driver" in wish.operands and operator
    if driver_out or cluster["switched"].get("driver") is False:
        notes.append(HOST_DRIVER)
    return notes
