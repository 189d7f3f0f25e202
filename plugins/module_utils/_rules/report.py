# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns findings into text and JSON.

Private to the collection gpuwl.sandbox. Source of the lines: the lab's step 8.
"""

import json
from typing import Any, Dict, List


def lab_text(findings: List[Dict[str, Any]], checked: int) -> str:
    """Return the lines of the lab's checker, without a newline at the end.

    findings: what is wrong; a line each, ascending by node name.
    checked: the number of nodes that were judged, for the line that says all is well.
    """
    if not findings:
        return "OK=%d" % checked
    lines = []
    for found in in_order(findings):
        # A space in a name would make it end too early for whoever splits the line.
        name = one_line(found["subject"]["name"]).replace(" ", "\\x20")
        lines.append("MISMATCH={} {}".format(name, one_line(found["message"])))
    return "\n".join(lines)


def json_text(findings: List[Dict[str, Any]], checked: int) -> str:
    """Return {"checked": number, "findings": [...]} as JSON of plain ASCII, without a newline at the end."""
    return json.dumps({"checked": checked, "findings": in_order(findings)}, indent=2, sort_keys=True)


def in_order(findings: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return findings ascending by the name of their subject; equal names keep their order."""
    return sorted(findings, key=lambda found: found["subject"]["name"])


def one_line(text: str) -> str:
    """Return text in which newlines, terminal escapes and the like are written out.

    Names come from other people's files: none may begin a line of its own or steer a terminal.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
