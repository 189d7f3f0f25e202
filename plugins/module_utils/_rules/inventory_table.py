# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows an inventory as text for a terminal.

Private to the collection gpuwl.sandbox. Ranges of names are written as in
Ansible inventories: edge-[00:19].
"""

import textwrap
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line

# More rows than this are drawn together, and what is still left over is counted.
ROWS = 20

_WORDS = {
    "name": "another name",
    "selector": "its node selector",
    "taint": "a taint",
    "quantity": "no single node has all it asks for",
    "other": "see the scheduler's message",
}


def inventory_table(
    inventory: Dict[str, Any], placements: Optional[List[Dict[str, Any]]] = None, width: int = 100
) -> str:
    """Return the table, without a newline at the end.

    inventory: what inventory.inventory() returns.
    placements: decisions to list, each with namespace, name, node (None if there is none), resource,
    quantity, reason and message; by default the inventory's Pending requests.
    width: columns to keep to where the names allow it.
    """
    waiting = [
        dict(pending, node=None, resource=resource)
        for resource, entry in sorted(inventory.items())
        for pending in entry["pending"]
    ]
    decided = waiting if placements is None else placements
    several = len({pod.get("namespace") for pod in waiting + decided}) > 1
    parts = [
        _pools(inventory),
        _requests([_labelled(pod, several) for pod in decided], width),
        _idle([_labelled(pod, several) for pod in waiting]),
    ]
    return "\n\n".join("\n".join(one_line(line) for line in lines) for lines in parts if lines)


def _labelled(pod: Dict[str, Any], several: bool) -> Dict[str, Any]:
    """Add what a Pod is called here: its name, with the namespace where there are several."""
    namespace = pod.get("namespace")
    return dict(pod, pod="{}/{}".format(namespace, pod["name"]) if several and namespace else pod["name"])


def _family(pod: Dict[str, Any]) -> str:
    """Return what the Pods of one series have in common."""
    name: str = pod["pod"]
    return name.rstrip("0123456789")


def _pools(inventory: Dict[str, Any]) -> List[str]:
    """Return a row for each resource name, the part of the inventory it cuts out."""
    rows = [("RESOURCE", "ALLOCATABLE", "ASKED", "FREE", "NODES", "")]
    for resource, entry in sorted(inventory.items()):
        asked = entry["requested"] + sum(pending["quantity"] for pending in entry["pending"])
        rows.append(
            (
                resource,
                str(entry["allocatable"]),
                str(asked),
                str(entry["free"]),
                str(len(entry["nodes"])),
                ranges(entry["nodes"]),
            )
        )
    return _aligned(rows, "<>>>><")


def _requests(placements: List[Dict[str, Any]], width: int) -> List[str]:
    """Return who asked for what and where it went, or why not.

    Few requests get a row each; of many, those of a series that asked for the same and fared alike share one.
    """
    if not placements:
        return []
    many = len(placements) > ROWS
    grouped: Dict[Tuple[str, str, int, bool], List[Dict[str, Any]]] = {}
    for placement in placements:
        placed = bool(placement.get("node"))
        key = (_family(placement) if many else placement["pod"], placement["resource"], placement["quantity"], placed)
        grouped.setdefault(key, []).append(placement)
    rows = [("REQUEST", "ASKS FOR", "NODE, OR WHY NONE")]
    for (name, resource, quantity, placed), members in grouped.items():
        nodes = sorted({member["node"] for member in members if placed})
        went = (
            ranges(nodes)
            if placed
            else "none: %s"
            % (members[0].get("message") or members[0].get("reason") or "the scheduler has said nothing yet")
        )
        if len(nodes) > 1:
            went = "%d on %d nodes, %s" % (len(members), len(nodes), went)
        each = " each" if len(members) > 1 else ""
        rows.append((ranges([member["pod"] for member in members]), f"{quantity} {resource}{each}", went))
    if len(rows) > ROWS + 1:
        rows[ROWS:] = [("and %d more" % (len(rows) - ROWS), "", "")]
    return _folded(_aligned(rows, "<<<"), width)


def _idle(waiting: List[Dict[str, Any]]) -> List[str]:
    """Return what stays free beside the queue, and why each waiting request cannot take it.

    Requests of a series that are kept from the same by the same are told of together.
    """
    grouped: Dict[Tuple[str, str, int, Tuple[str, ...]], List[str]] = {}
    known: Dict[int, Tuple[str, ...]] = {}
    for pod in waiting:
        # Alike Pods may share one list of what they cannot use.
        shared = id(pod["cannot_use"])
        if shared not in known:
            known[shared] = _cannot_use(pod["cannot_use"])
        told = known[shared]
        if told:
            grouped.setdefault((_family(pod), pod["resource"], pod["quantity"], told), []).append(pod["pod"])
    lines = []
    for (family, resource, quantity, told), pods in grouped.items():
        verb, each = ("wait", " each") if len(pods) > 1 else ("waits", "")
        lines.append("%s %s for %d %s%s while" % (ranges(pods), verb, quantity, resource, each))
        lines.extend("  " + sentence for sentence in told[: ROWS // 2])
        if len(told) > ROWS // 2:
            lines.append("  and %d more are free" % (len(told) - ROWS // 2))
    if len(lines) > 2 * ROWS:
        lines[2 * ROWS - 1 :] = ["and %d more lines" % (len(lines) - 2 * ROWS + 1)]
    return ["IDLE BESIDE THE QUEUE"] + lines if lines else []


def _cannot_use(obstacles: List[Dict[str, Any]]) -> Tuple[str, ...]:
    """Return a sentence for each name and reason for which something stays free."""
    free: Dict[Tuple[str, Tuple[str, ...]], Dict[str, int]] = {}
    for obstacle in obstacles:
        free.setdefault((obstacle["resource"], tuple(obstacle["reasons"])), {})[obstacle["node"]] = obstacle["free"]
    # Another name is what splits an inventory, so it comes first.
    kinds = sorted(free, key=lambda key: ("name" not in key[1], key))
    return tuple(_free_units(resource, reasons, free[resource, reasons]) for resource, reasons in kinds)


def _free_units(resource: str, reasons: Tuple[str, ...], nodes: Dict[str, int]) -> str:
    """Say what is free where, and why a request cannot take it."""
    units = sum(nodes.values())
    places = ranges(list(nodes))
    if len(nodes) > 1:
        places = "%d nodes (%s)" % (len(nodes), places)
    return "%d %s on %s %s free: %s" % (
        units,
        resource,
        places,
        "is" if units == 1 else "are",
        ", ".join(_WORDS[reason] for reason in reasons),
    )


def _aligned(rows: Sequence[Tuple[str, ...]], sides: str) -> List[str]:
    """Return rows with their columns below each other; sides: < or > for each column."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(sides))]
    lines = []
    for row in rows:
        cells = [cell.rjust(size) if side == ">" else cell.ljust(size) for cell, size, side in zip(row, widths, sides)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _folded(lines: List[str], width: int) -> List[str]:
    """Fold long lines so that they go on below their last column."""
    indent = lines[0].index("NODE, ")
    folded = []
    for line in lines:
        # textwrap would squeeze the columns, so it gets the last one only.
        last = textwrap.wrap(line[indent:], max(width - indent, 40), break_long_words=False, break_on_hyphens=False)
        folded.append(line[:indent] + (last[0] if last else ""))
        folded.extend(" " * indent + rest for rest in last[1:])
    return [line.rstrip() for line in folded]
