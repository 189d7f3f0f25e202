# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes for nodes from one version of the operator to another: two predictions and their difference.

Private to the collection gpuwl.sandbox. Sources: as of expected_operands.py; how versions differ beyond that, as
v25.10.1, v26.3.3 and v26.7.0 were seen to do on a real API server.
"""

from typing import Any, Dict, Iterable, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.expected_operands import expected_operands
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_seen import SeenNode
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import read_version
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    nearest_version,
    parse_version,
    version_text,
)

# What a version does otherwise than those before it, and no single state shows.
_LOST_LABELS = (
    "from 26.7 on a deploy label that is lost stays away until something else makes the operator look at the nodes;"
    " earlier versions put it back within seconds"
)
_DEFAULT = (
    "from 26.7 on nodes without a valid workload label may not follow a change of defaultWorkload or a restart of the"
    " operator: label them"
)
_BEHAVIOUR = {(26, 7): (_LOST_LABELS, _DEFAULT)}


def read_versions(given: Any) -> Tuple[str, str]:
    """Accept a list of two versions, from and to."""
    if not isinstance(given, (list, tuple)) or len(given) != 2:
        raise ValueError(f"compare_versions is {given!r}, expected a list of two versions such as [26.3, 26.7]")
    older, newer = (read_version(version_text(one)) for one in given)
    return older, newer


def compare_versions(
    nodes: Iterable[SeenNode],
    policy: Policy,
    versions: Tuple[str, str],
    others: List[Dict[str, Any]],
) -> Dict[str, Any]:
    """Return {from, to, nodes, notes}; nodes that stay as they are do not stand in it.

    others: as other_objects of expected_operands. Each node gives {node, workload: [before, after],
    labels: {added, removed, changed}, daemonsets: {added, removed}, notes}: labels added and changed with their values,
    changed as [before, after]; notes: what only the second prediction has to say.
    """
    listed = [_object(node) for node in nodes]
    before, after = (expected_operands(listed, policy, version, others) for version in versions)
    changes = [_change(was, now) for was, now in zip(before, after)]
    older, newer = (nearest_version(parse_version(version) or (0, 0)) for version in versions)
    notes = [words for since, every in _BEHAVIOUR.items() if older < since <= newer for words in every]
    return {
        "from": versions[0],
        "to": versions[1],
        "nodes": [one for one in changes if _is_change(one)],
        "notes": notes,
    }


def _object(node: SeenNode) -> Dict[str, Any]:
    taints = [dict(zip(("key", "value", "effect"), taint)) for taint in node.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": node.labels},
        "spec": {"taints": taints},
    }


def _change(was: Dict[str, Any], now: Dict[str, Any]) -> Dict[str, Any]:
    old, new = was["labels"], now["labels"]
    return {
        "node": now["node"],
        "workload": [was["workload"], now["workload"]],
        "labels": {
            "added": {key: new[key] for key in new if key not in old},
            "removed": sorted(old.keys() - new.keys()),
            "changed": {key: [old[key], new[key]] for key in new if key in old and old[key] != new[key]},
        },
        "daemonsets": {
            "added": sorted(set(now["daemonsets"]) - set(was["daemonsets"])),
            "removed": sorted(set(was["daemonsets"]) - set(now["daemonsets"])),
        },
        "notes": [note for note in now["notes"] if note not in was["notes"]],
    }


def _is_change(one: Dict[str, Any]) -> bool:
    return bool(
        one["workload"][0] != one["workload"][1]
        or any(one["labels"].values())
        or any(one["daemonsets"].values())
        or one["notes"]
    )
