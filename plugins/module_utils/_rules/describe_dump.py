# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads nodes from the text of `kubectl describe node`, also as it comes out of a mail or a terminal.

Private to the collection gpuwl.sandbox. Source of the form: describeNode in kubectl's
pkg/describe/describe.go. It shortens long annotations and leaves out much of the status.
"""

import re
from typing import Any, Dict, Iterator, List, Optional

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_dump import MAX_ITEM, TOO_LARGE, Text
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Documents, NotObjects, Unreadable

_FIRST = re.compile(r"^([ \t>|]*)Name:[ \t]+(\S.*)$")
_LOOKS_LIKE_DESCRIBED = re.compile(
    r"^[ \t>|]*Name:[ \t]+\S.*\n(?:[ \t>|]*\r?\n)*[ \t>|]*(?:Namespace|Roles|Labels|Selector|Priority|API Version):",
    re.MULTILINE,
)
_SECTION = re.compile(r"^([A-Z][A-Za-z()-]*(?: [A-Za-z()-]+){0,4}):(?:[ \t]+(.*))?$")
_ENTRY = re.compile(r"^[ \t]*([^\s:]+):[ \t]+(\S+)$")
_ANNOTATION = re.compile(r"^[ \t]*([A-Za-z0-9][\w./-]*):(?:[ \t]+(.*))?$")
_CONDITION = re.compile(r"^[ \t]+([A-Z]\w*)[ \t]+(True|False|Unknown)\b")
# What other kinds have and nodes do not, in the order in which a kind is told by it.
_OTHER_KINDS = (
    ("Containers", "a Pod"),
    ("Desired Number of Nodes Scheduled", "a DaemonSet"),
    ("Replicas", "a Deployment"),
    ("Namespace", "an object of a namespace"),
    ("Selector", "a workload"),
)
_LAST = "System Info"  # every node has this section, behind all that is read
_KEPT = ("Labels", "Annotations", "Taints", "Conditions", "Capacity", "Allocatable")


def looks_described(head: str) -> bool:
    """Whether text, maybe after some other lines, begins like what `kubectl describe` prints."""
    return bool(_LOOKS_LIKE_DESCRIBED.search(head))


def read_described(text: Text, documents: Documents) -> None:
    """Read the nodes of a text that looks described. Raises Unreadable."""
    block: Optional[_Described] = None
    other = line_before = ""
    for line in _lines_of(text):
        first = _FIRST.match(line)
        if first and (not block or block.may_end(line_before, first.group(1))):
            other = _finish(block, documents) or other
            block = _Described(first.group(1), first.group(2))
        elif block:
            block.add(line)
        line_before = line
    other = _finish(block, documents) or other
    if not documents.count:
        raise NotObjects(
            f"it describes {other or 'something else'}, not a node", f"describes {other or 'no node'}", False
        )


def _finish(block: "Optional[_Described]", documents: Documents) -> str:
    """Hand over a node; return what else was described, or ""."""
    if not block:
        return ""
    other = block.other_kind()
    if not other:
        documents.end(documents.begin(), block.node(), False)
    return other


def _lines_of(text: Text) -> Iterator[str]:
    """Give the lines of a text without what ends them; memory is that of a line."""
    rest: List[str] = []
    size = 0
    while True:
        piece = text.read(1 << 16)
        lines = piece.split("\n")
        rest.append(lines[0])
        size += len(lines[0])
        if size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        if len(lines) > 1:
            yield "".join(rest).rstrip()
            for line in lines[1:-1]:
                yield line.rstrip()
            rest, size = [lines[-1]], len(lines[-1])
        if not piece:
            yield "".join(rest).rstrip()
            return


class _Described:
    """One described object: the lines of the sections that matter.

    prefix: what the mail program put before each line.
    """

    def __init__(self, prefix: str, name: str) -> None:
        self.prefix = prefix
        self._name = name.strip()
        self._single: Dict[str, str] = {}
        self._lines: Dict[str, List[str]] = {}
        self._section = "Name"
        self._size = 0

    def may_end(self, line_before: str, prefix: str) -> bool:
        """Whether a line "Name:" behind another one begins the next object.

        The message of a condition may have several lines too. Between objects kubectl leaves lines
        empty, which may have got lost.
        """
        is_whole = _LAST in self._single or not self.is_likely_node()
        return prefix == self.prefix and (is_whole or not line_before.strip(" \t>|"))

    def add(self, line: str) -> None:
        """Take the next line."""
        if _LAST in self._single:
            return  # what follows are the node's pods and events, whose messages may say anything
        if line.startswith(self.prefix):
            line = line[len(self.prefix) :]
        line = line.expandtabs(8)
        found = _SECTION.match(line)
        if found:
            self._section = found.group(1)
            if self._section in self._single and self._section in _KEPT:
                raise Unreadable(f'node "{self._name[:20]}" has two sections {self._section}')
            self._single.setdefault(self._section, found.group(2) or "")
            line = " " * found.start(2) + (found.group(2) or "")
        self._size += len(self._section) + 100 if found else 0
        if self._section in _KEPT and line.strip():
            self._lines.setdefault(self._section, []).append(line)
            self._size += len(line) + 100
        if self._size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)

    def is_likely_node(self) -> bool:
        return "Roles" in self._single and "Namespace" not in self._single

    def other_kind(self) -> str:
        """Return what this is if it is no node, such as "a Pod"; else ""."""
        if self.is_likely_node():
            return ""
        kind = self._single.get("Kind", "")
        if kind:
            return f"an object of kind {kind[:20]}"
        found = next((words for section, words in _OTHER_KINDS if section in self._single), "")
        if found or "Allocatable" in self._single:
            return found
        # One line may be all that is left of a node.
        return "something else" if self._single else ""

    def node(self) -> Dict[str, Any]:
        """Return the Node, as far as its text tells; raises Unreadable."""
        if _LAST not in self._single:
            raise Unreadable(f'the description of node "{self._name[:20]}" ends before its end: is it truncated?')
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._name, "labels": self._labels(), "annotations": self._annotations()},
            "spec": {
                "taints": [_taint(line) for line in self._values("Taints")],
                "unschedulable": self._single.get("Unschedulable", "").strip() == "true",
            },
            "status": {
                "capacity": self._quantities("Capacity"),
                "allocatable": self._quantities("Allocatable"),
                "conditions": self._conditions(),
            },
        }

    def _values(self, section: str) -> List[str]:
        lines = [line.strip() for line in self._lines.get(section, [])]
        return [] if lines == ["<none>"] else lines

    def _labels(self) -> Dict[str, str]:
        pairs = [line.partition("=") for line in self._values("Labels")]
        for key, equals, _value in pairs:
            if not equals:
                raise Unreadable(f'node "{self._name[:20]}" has "{key[:20]}" among its labels, expected key=value')
        return {key: value for key, _equals, value in pairs}

    def _annotations(self) -> Dict[str, str]:
        """Read "key: value", the value maybe in the lines below and further right, maybe cut off with "..."."""
        found: Dict[str, str] = {}
        if not self._values("Annotations"):
            return found
        lines = self._lines["Annotations"]
        left = _indentation(lines[0])
        key = ""
        for line in lines:
            match = _ANNOTATION.match(line) if _indentation(line) <= left else None
            if match:
                key = match.group(1)
                found[key] = match.group(2) or ""
            elif key:
                found[key] = (found[key] + "\n" + line.strip()).lstrip("\n")
        return found

    def _quantities(self, section: str) -> Dict[str, str]:
        found = {}
        for line in self._values(section):
            entry = _ENTRY.match(line)
            if not entry:
                raise Unreadable(f'node "{self._name[:20]}" has "{line[:20]}" in {section}, expected name: quantity')
            found[entry.group(1)] = entry.group(2)
        return found

    def _conditions(self) -> List[Dict[str, str]]:
        matches = [_CONDITION.match(line) for line in self._lines.get("Conditions", [])]
        return [{"type": match.group(1), "status": match.group(2)} for match in matches if match]


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _taint(text: str) -> Dict[str, str]:
    """Read "key=value:Effect" or "key:Effect"."""
    pair, _colon, effect = text.rpartition(":")
    key, equals, value = pair.partition("=")
    taint = {"key": key, "effect": effect}
    if equals:
        taint["value"] = value
    return taint
