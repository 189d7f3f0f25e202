# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows an audit of operands as text for a terminal.

Private to the collection gpuwl.sandbox. Ranges of names are written as in Ansible inventories: gpu-[00:19].
"""

import json
import textwrap
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line

# More rows than this are counted and not drawn.
_MOST_ROWS = 40


def operand_table(audit: Dict[str, Any], width: int = 100) -> str:
    """Return the table, without a newline at the end.

    audit: what operand_audit() returns. width: columns to keep to where the names allow it.
    Nodes on which the same is due, runs and is missing share a row.
    """
    parts = [
        _folded(_heading(audit), width),
        _rows(audit["nodes"], width),
        _listed("OUT OF ORDER", _disorder(audit["nodes"]), width),
        _listed("WHERE THE CLUSTER'S OWN WORD MISLEADS", _misleading(audit["misleading"]), width),
        _compared(audit.get("comparison"), width),
    ]
    return "\n\n".join("\n".join(one_line(line) for line in lines) for lines in parts if lines)


def _heading(audit: Dict[str, Any]) -> str:
    nodes = audit["nodes"]
    wrong = sum(1 for node in nodes if node["missing"] or node["out_of_order"])
    words = "%d node%s with GPUs, %d with something missing or out of order" % (
        len(nodes),
        "" if len(nodes) == 1 else "s",
        wrong,
    )
    if not audit["operator"]:
        return words + "; no operator"
    words += f"; operator {audit['operator_version']} ({audit['version_source']})"
    off = [f"{one['operand']} ({one['setting']})" for one in audit.get("disabled", [])]
    return words + (f"; switched off in the whole cluster: {', '.join(off)}" if off else "")


def _rows(nodes: List[Dict[str, Any]], width: int) -> List[str]:
    """Return a row for each set of nodes that are alike."""
    alike: Dict[Tuple[Any, ...], List[str]] = {}
    for node in nodes:
        missing = tuple((one["operand"], one["cause"]) for one in node["missing"])
        key = (node["workload"], len(node["due"]), len(node["running"]), missing)
        alike.setdefault(key, []).append(node["node"])
    if not alike:
        return []
    rows = [("NODES", "WORKLOAD", "DUE", "RUN", "MISSING")]
    for (workload, due, running, missing), names in sorted(alike.items(), key=lambda item: item[1]):
        words = "; ".join(f"{cause}: {', '.join(operands)}" for cause, operands in _by_cause(missing).items())
        rows.append((ranges(names), workload, str(due), str(running), words))
    return _drawn(rows, width)


def _by_cause(missing: Tuple[Tuple[str, str], ...]) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    for operand, cause in missing:
        found.setdefault(cause, []).append(operand)
    return found


def _drawn(rows: List[Tuple[str, str, str, str, str]], width: int) -> List[str]:
    """Draw rows with their columns below each other; the last one is folded."""
    more = len(rows) - 1 - _MOST_ROWS
    rows = rows[: _MOST_ROWS + 1]
    first, second, third, fourth = (max(len(row[column]) for row in rows) for column in range(4))
    lines = []
    for names, workload, due, running, words in rows:
        head = f"{names:<{first}}  {workload:<{second}}  {due:>{third}}  {running:>{fourth}}  "
        folded = textwrap.wrap(words, max(width - len(head), 40), break_long_words=False, break_on_hyphens=False)
        lines.append((head + (folded[0] if folded else "")).rstrip())
        lines += [" " * len(head) + rest for rest in folded[1:]]
    return lines + ([f"and {more} more rows"] if more > 0 else [])


def _disorder(nodes: List[Dict[str, Any]]) -> List[str]:
    alike: Dict[Tuple[str, str, str], List[str]] = {}
    for node in nodes:
        for one in node["out_of_order"]:
            alike.setdefault((one["operand"], one["needs"], one["detail"]), []).append(node["node"])
    return [f"{ranges(names)}: {detail}" for (_operand, _needs, detail), names in alike.items()]


def _misleading(listed: List[Dict[str, str]]) -> List[str]:
    return [f"{one['object']} says {one['says']}, but {one['but']}" for one in listed]


def _compared(comparison: Optional[Dict[str, Any]], width: int) -> List[str]:
    if not comparison:
        return []
    title = f"WHAT CHANGES FROM OPERATOR {comparison['from']} TO {comparison['to']}"
    return _listed(title, comparison_lines(comparison), width)


def comparison_lines(comparison: Dict[str, Any]) -> List[str]:
    """Return what changes from one version to the other; nodes for which the same changes share a line.

    comparison: as operand_comparison.compare_versions gives it.
    """
    alike: Dict[str, List[str]] = {}
    for node in comparison["nodes"]:
        alike.setdefault("; ".join(_change_words(node)), []).append(node["node"])
    lines = [f"{ranges(names)}: {words}" for words, names in alike.items()] or ["nothing changes for any node"]
    return lines + list(comparison["notes"])


def _change_words(one: Dict[str, Any]) -> List[str]:
    words = []
    before, after = one["workload"]
    if before != after:
        words.append(f"workload {before or 'none'} becomes {after or 'none'}")
    labels = one["labels"]
    changed = [f"{key}={value}" for key, value in labels["added"].items()]
    changed += [f"{key} gone" for key in labels["removed"]]
    changed += [f"{key} {json.dumps(old)} becomes {json.dumps(new)}" for key, (old, new) in labels["changed"].items()]
    words += [f"labels: {', '.join(changed)}"] if changed else []
    sets = [f"{name} comes" for name in one["daemonsets"]["added"]]
    sets += [f"{name} goes" for name in one["daemonsets"]["removed"]]
    words += [f"Pods: {', '.join(sets)}"] if sets else []
    return words + list(one["notes"])


def _listed(title: str, lines: List[str], width: int) -> List[str]:
    if not lines:
        return []
    more = len(lines) - _MOST_ROWS
    folded = [title]
    for line in lines[:_MOST_ROWS]:
        folded += _folded(line, width)
    return folded + ([f"and {more} more"] if more > 0 else [])


def _folded(line: str, width: int) -> List[str]:
    return textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
