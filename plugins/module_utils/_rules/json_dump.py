# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads Kubernetes objects from JSON, one object at a time.

Private to the collection gpuwl.sandbox. Source of the form: RFC 8259 (JSON) and
what `kubectl get nodes -o json` prints. A file means what json.load makes of it,
but NaN and Infinity are refused, and several objects may follow one another; its
memory is that of the largest item, not that of the file.
"""

import codecs
import gc
import json
import re
import sys
from typing import Any, Dict, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Collector, Documents, Unreadable

CHUNK = 1 << 20  # bytes read at once
MAX_ITEM = 8 << 20  # characters of one value; etcd takes objects of 1.5 MiB
MAX_WIDE = 5 << 20  # the same of text with an emoji in it, which takes four bytes of memory for each character
MAX_VALUES = 200000  # in one value: "[{},{},...]" takes thirty times the memory of its text
MAX_PROPERTIES = 10000  # of an outermost object
MAX_LEVELS = 200  # of objects and arrays within each other

TOO_LARGE = "an item of it is larger than 8 MiB, no Kubernetes object is"
TOO_MANY = "an item of it has more than 200,000 values, no Kubernetes object has"
TOO_DEEP = "it is nested too deeply, more than 200 levels"

_NO_SPACE = re.compile(r"[^ \t\n\r]")


def read_json(text: "Text", documents: Documents) -> None:
    """Read JSON objects until the text ends; it begins with one.

    Raises Unreadable, or what else _Text raises.
    """
    while True:
        collector = documents.begin()
        top, has_items = read_object(text, collector)
        follows = text.peek()
        if follows not in ("", "{"):
            # Before the object itself is judged: half of a file is no dump.
            raise Unreadable('something follows the JSON object, at character %d: "%s"' % (text.place(), text.sample()))
        documents.end(collector, top, has_items)
        if not follows:
            return


def read_object(text: "Text", collector: Collector) -> Tuple[Dict[str, Any], bool]:
    """Read an outermost object, its items singly; return it without them, and whether it had an array of them."""
    top: Dict[str, Any] = {}
    has_items = False
    size = 0
    text.expect("{")
    more = text.peek() != "}"
    text.at += 0 if more else 1
    while more:
        if text.peek() != '"':
            raise text.broken("a property name in double quotes")
        begun = text.place()
        key = text.value(0)
        text.expect(":")
        is_array = text.peek() == "["
        if key == "items":
            collector.start_items(top)
            has_items = is_array
        if key == "items" and is_array:
            _read_items(text, collector)
        else:
            top[key] = text.value(MAX_LEVELS - 1)
            has_items = has_items or (key == "items" and top[key] is None)
            size += text.place() - begun
        if size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        if len(top) > MAX_PROPERTIES:
            raise Unreadable(TOO_MANY)
        more = text.expect(",}") == ","
    return top, has_items


def _read_items(text: "Text", collector: Collector) -> None:
    """Read an array, handing over each element as soon as it is complete."""
    text.expect("[")
    if text.peek() == "]":
        text.expect("]")
        return
    more = True
    while more:
        text.peek()
        collector.add(text.value(MAX_LEVELS - 2))
        more = text.expect(",]") == ","


class Text:
    """The text of a file, of which no more is held than the value being read needs."""

    def __init__(self, stream: Any, chunk: int = CHUNK) -> None:
        """stream: has read(size), which gives bytes, as many as it likes, and none only at the end."""
        head = stream.read(4)
        while 0 < len(head) < 4:
            piece = stream.read(4 - len(head))
            if not piece:
                break
            head += piece
        self._stream = stream
        self._chunk = chunk
        self._decode = codecs.getincrementaldecoder(json.detect_encoding(head))().decode
        # Old Pythons take the square of its length for a number, newer ones limit it themselves.
        parse_int = None if hasattr(sys, "get_int_max_str_digits") else _parse_int
        self._scan = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=parse_int).raw_decode
        self._held = self._decode(head)
        self._dropped = 0
        self._usual = 0  # characters of the last value
        self._ended = False
        self.at = 0
        self._fill(chunk)

    def head(self, size: int) -> str:
        """Return the text that follows, without taking it: that much, unless it ends before."""
        while len(self._held) - self.at < size and not self._ended:
            self._fill(self._chunk)
        return self._held[self.at : self.at + size]

    def read(self, size: int) -> str:
        """Take text: at most that much, none only at the end."""
        while self.at == len(self._held) and not self._ended:
            self._fill(self._chunk)
        taken = self._held[self.at : self.at + size]
        self.at += len(taken)
        return taken

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

    def value(self, levels: int) -> Any:
        """Take the JSON value that begins here and has at most so many levels.

        Where it is cut off by the end of what is held, read on and try again, each
        time with twice as much, so that one giant value costs its size and not its square.
        """
        more = self._chunk
        if len(self._held) - self.at < self._usual and not self._ended:
            # Likely cut off: a failed try takes longer, for its error counts the lines before.
            self._fill(more)
        while True:
            try:
                result, end = self._scan(self._held, self.at)
                # A number may go on behind what is held: 1|2, 1|.5, 1.|5, 1e|5, 1e-|5.
                if end + 3 <= len(self._held) or self._ended:
                    self._check(result, end, levels)
                    self._usual = end - self.at
                    self.at = end
                    return result
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos + 16 > len(self._held)
                if self._ended or not cut:
                    self.at = len(self._held) if error.msg.startswith("Unterminated string") else error.pos
                    raise self.broken(f"valid JSON ({error.msg})") from None
            except RecursionError:
                raise Unreadable(TOO_DEEP) from None
            self._grow(more)
            if more > CHUNK:
                self._count_values()
            more *= 2

    def broken(self, expected: str) -> Unreadable:
        """Make the error for text that is no JSON at this place."""
        self.peek()
        rest = self.sample()
        if self._ended and any(word.startswith(rest) for word in ("true", "false", "null", "-")):
            return Unreadable("it ends within the JSON, after %d characters: is it truncated?" % self.place())
        return Unreadable('it is no JSON at character %d: "%s", expected %s' % (self.place(), rest, expected))

    def place(self) -> int:
        """Return the number of characters before this place."""
        return self._dropped + self.at

    def sample(self) -> str:
        """Return some of the text that follows, for a message."""
        return self._held[self.at : self.at + 20]

    def _skip_space(self) -> None:
        found = _NO_SPACE.search(self._held, self.at)
        self.at = found.start() if found else len(self._held)

    def _check(self, value: Any, end: int, levels: int) -> None:
        """Refuse the value that goes from here to an end if it is too large or nested too deeply."""
        if end - self.at > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        # Each level takes two characters at least.
        if end - self.at > 2 * levels and _levels_above(value, levels):
            raise Unreadable(TOO_DEEP)

    def _grow(self, size: int) -> None:
        """Read on within a value, up to the limits of one."""
        is_wide = sys.getsizeof(self._held) > 3 * len(self._held)
        left = (MAX_WIDE if is_wide else MAX_ITEM) + CHUNK - (len(self._held) - self.at)
        if left <= CHUNK:
            raise Unreadable(TOO_LARGE)
        self._fill(min(size, left))

    def _count_values(self) -> None:
        """Refuse what would take much more memory as a value than as text. Seldom called: it takes its time."""
        if sum(self._held.count(one, self.at) for one in ",[{") > MAX_VALUES:
            raise Unreadable(TOO_MANY)

    def _fill(self, size: int) -> None:
        """Drop what has been read and read on, half that much at least."""
        held = self._held[self.at :]
        self._dropped += self.at
        self.at = 0
        if size > CHUNK:
            self._held = ""  # with one name only, a text grows where it is: there is no memory for two large ones
        count = 0
        # About as much will do: the rest may lie in another buffer.
        while count * 2 < size and not self._ended:
            raw = self._stream.read(min(size, CHUNK))
            self._ended = not raw
            held += self._decode(raw, final=self._ended)
            count += len(raw)
        self._held = held


def _levels_above(value: Any, levels: int) -> bool:
    """Whether objects and arrays are nested deeper than that."""
    layer = [value]
    for _level in range(levels):
        # All that is in all of these, keys too: one call, where a loop would take as long as the parsing did.
        layer = gc.get_referents(*layer)
        if not layer:
            return False
    return any(isinstance(inner, (dict, list)) for inner in layer)


def _parse_int(digits: str) -> int:
    if len(digits) > 4300:
        raise ValueError("a number has more than 4,300 digits")
    return int(digits)


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")
