# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a dump of Kubernetes objects, one object at a time.

Private to the collection gpuwl.sandbox. Source of the form: RFC 8259 (JSON) and
what `kubectl get nodes -o json` prints. A file means what json.load makes of it,
but NaN and Infinity are refused; its memory is that of the largest item, not that of the file.
"""

import codecs
import json
import re
from typing import Any, BinaryIO, Callable, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Collector, Unreadable

CHUNK = 1 << 20  # bytes read at once

_NO_SPACE = re.compile(r"[^ \t\n\r]")
_HINT = "expected JSON as `kubectl get %ss -o json` prints it"


def read_dump(path: str, kind: str, take: Callable[[Dict[str, Any]], Any]) -> List[Any]:
    """Return what `take` makes of each object of a kind in a file, in the file's order.

    path: a file in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.
    kind: "Node" or "Pod"; the file holds one, a List or a NodeList (PodList). Other
    kinds in a List are left out.
    take: called with each object as soon as it is read; may raise Unreadable.
    Raises Unreadable, with a message of one sentence that begins with the path.
    """
    try:
        with open(path, "rb") as stream:
            return _read(_Text(stream, CHUNK), Collector(kind, take), kind)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{path}: {_problem(error, kind)}") from None


def _problem(error: BaseException, kind: str) -> str:
    """Put into words why a file could not be read as a dump."""
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, OSError):
        return "cannot be read: %s" % (error.strerror or error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is no text in {error.encoding.upper()}: {_HINT % kind.lower()}"
    if isinstance(error, RecursionError):
        return "its JSON is nested too deeply"
    if isinstance(error, MemoryError):
        return "an item of it is larger than the memory"
    return f"it is no usable JSON: {error}"


def _read(text: "_Text", collector: Collector, kind: str) -> List[Any]:
    """Read the outermost object, its items singly."""
    start = text.peek()
    if not start:
        raise Unreadable("it is empty: " + _HINT % kind.lower())
    if start != "{":
        raise Unreadable(f'it starts with "{text.sample()}": {_HINT % kind.lower()}')
    top: Dict[str, Any] = {}
    has_items = False
    text.at += 1
    more = text.peek() != "}"
    text.at += 0 if more else 1
    while more:
        if text.peek() != '"':
            raise text.broken("a property name in double quotes")
        key = text.value()
        text.expect(":")
        is_array = text.peek() == "["
        if key == "items":
            collector.start_items()
            has_items = is_array
        if key == "items" and is_array:
            _read_items(text, collector)
        else:
            top[key] = text.value()
            has_items = has_items or (key == "items" and top[key] is None)
        more = text.expect(",}") == ","
    if text.peek():
        raise Unreadable('something follows the JSON object, at character %d: "%s"' % (text.place(), text.sample()))
    return collector.finish(top, has_items)


def _read_items(text: "_Text", collector: Collector) -> None:
    """Read an array, handing over each element as soon as it is complete."""
    text.expect("[")
    if text.peek() == "]":
        text.expect("]")
        return
    more = True
    while more:
        text.peek()
        collector.add(text.value())
        more = text.expect(",]") == ","


class _Text:
    """The text of a file, of which no more is held than the value being read needs."""

    def __init__(self, stream: BinaryIO, chunk: int) -> None:
        head = stream.read(4)
        self._stream = stream
        self._chunk = chunk
        self._decode = codecs.getincrementaldecoder(json.detect_encoding(head))().decode
        self._scan = json.JSONDecoder(parse_constant=_refuse).raw_decode
        self._held = self._decode(head)
        self._dropped = 0
        self._ended = False
        self.at = 0
        self._fill(chunk)

    def peek(self) -> str:
        """Skip white space; return the next character without taking it, or "" at the end."""
        self._skip_space()
        while self.at == len(self._held) and not self._ended:
            self._fill(self._chunk)
            self._skip_space()
        return self._held[self.at : self.at + 1]

    def expect(self, characters: str) -> str:
        """Skip white space and take the next character, which must be one of these."""
        found = self.peek()
        if not found or found not in characters:
            raise self.broken(" or ".join(f'"{one}"' for one in characters))
        self.at += 1
        return found

    def value(self) -> Any:
        """Take the JSON value that begins here.

        Where it is cut off by the end of what is held, read on and try again, each
        time with twice as much, so that one giant value costs its size and not its square.
        """
        more = self._chunk
        while True:
            try:
                result, end = self._scan(self._held, self.at)
                # A number may go on behind what is held: 1|2, 1|.5, 1.|5, 1e|5, 1e-|5.
                if end + 3 <= len(self._held) or self._ended:
                    self.at = end
                    return result
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos + 16 > len(self._held)
                if self._ended or not cut:
                    self.at = len(self._held) if error.msg.startswith("Unterminated string") else error.pos
                    raise self.broken(f"valid JSON ({error.msg})") from None
            self._fill(more)
            more *= 2

    def broken(self, expected: str) -> Unreadable:
        """Make the error for text that is no JSON at this place."""
        self.peek()
        rest = self._held[self.at :]
        if self._ended and any(word.startswith(rest) for word in ("true", "false", "null", "-")):
            return Unreadable("it ends within the JSON, after %d characters: is it truncated?" % self.place())
        return Unreadable('it is no JSON at character %d: "%s", expected %s' % (self.place(), self.sample(), expected))

    def place(self) -> int:
        """Return the number of characters before this place."""
        return self._dropped + self.at

    def sample(self) -> str:
        """Return some of the text that follows, for a message."""
        return self._held[self.at : self.at + 20]

    def _skip_space(self) -> None:
        found = _NO_SPACE.search(self._held, self.at)
        self.at = found.start() if found else len(self._held)

    def _fill(self, size: int) -> None:
        """Drop what has been read and read on."""
        raw = self._stream.read(size)
        self._ended = not raw
        self._held = self._held[self.at :] + self._decode(raw, final=self._ended)
        self._dropped += self.at
        self.at = 0


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")
