# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a JSON object in pieces, so that no list needs to be in memory as a whole.

Private to the collection gpuwl.sandbox.
"""

import json
from collections.abc import Iterator
from typing import Any, Dict
from typing import Iterator as Iterates


def json_object(members: Dict[str, Any]) -> Iterates[str]:
    """Give the lines of an object as json.dumps(..., indent=2, sort_keys=True) has them but for the order of these
    members: plain ASCII. A member that is an iterator becomes an array, of which one item is held at a time."""
    yield "{"
    last = len(members) - 1
    for at, (key, value) in enumerate(members.items()):
        comma = "," if at < last else ""
        if isinstance(value, Iterator):
            yield from _array(json.dumps(key), value, comma)
        else:
            yield _indented(f"{json.dumps(key)}: {json.dumps(value, indent=2, sort_keys=True)}", 2) + comma
    yield "}"


def _array(key: str, items: Iterates[Any], comma: str) -> Iterates[str]:
    held = ""
    for item in items:
        yield held + "," if held else f"  {key}: ["
        held = _indented(json.dumps(item, indent=2, sort_keys=True), 4)
    yield held if held else f"  {key}: []{comma}"
    if held:
        yield "  ]" + comma


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
