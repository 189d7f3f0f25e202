# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads Kubernetes objects from YAML, one object at a time.

Private to the collection gpuwl.sandbox. Source of the form: what `kubectl get nodes -o yaml`
prints, and YAML 1.1 as PyYAML's SafeLoader reads it, less what is not plain data. It is
built from the parser's events, so that neither a long List nor an alias bomb takes memory.
"""

import importlib
import math
import re
import sys
from typing import Any, Dict, Iterator, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_dump import (
    MAX_ITEM,
    MAX_LEVELS,
    TOO_DEEP,
    TOO_LARGE,
    Text,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import (
    Collector,
    Documents,
    NotObjects,
    Unreadable,
)

MAX_REPEATED = 100000  # values that the aliases of one document may stand for

_TAG = "tag:yaml.org,2002:"
_LOOKS_LIKE = re.compile(
    r"""^[ \t]*(?:- )?["']?(?:apiVersion|kind|items|metadata)["']?[ \t]*:(?:[ \t\r]|$)""", re.MULTILINE
)
_BEGINS_LIKE = re.compile(
    r"""\A(?:[ \t]*(?:[#%].*|---[ \t]*(?:#.*)?|\.\.\.[ \t]*)?\r?\n)*(?:---[ \t]+)?[ \t]*["']?[A-Za-z][\w./-]*["']?[ \t]*:(?:[ \t\r\n]|\Z)"""
)
_VALUE_COST = 40  # characters that a value counts for besides its text, about what it takes in memory


def looks_like_yaml(head: str) -> bool:
    """Whether text begins like a Kubernetes object in YAML."""
    return begins_like_yaml(head) and bool(_LOOKS_LIKE.search(head))


def begins_like_yaml(head: str) -> bool:
    """Whether text begins with the key of a mapping in YAML."""
    return bool(_BEGINS_LIKE.match(head))


def read_yaml(text: Text, documents: Documents) -> None:
    """Read YAML documents until the text ends. Raises Unreadable."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise Unreadable(
            "it is YAML, and this Python has no PyYAML: `pip install pyyaml`, or ask kubectl for JSON (`-o json`)"
        ) from None
    feed = _Feed(text)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        reader = _YamlReader(yaml, yaml.parse(feed, Loader=loader), feed)
        reader.read(documents)
    except yaml.YAMLError as error:
        raise Unreadable(_yaml_problem(error, feed.end)) from None


def _yaml_problem(error: Any, end: int) -> str:
    """Put PyYAML's error, which has several lines, into one."""
    mark = getattr(error, "problem_mark", None)
    line = " at line %d" % (mark.line + 1) if mark else ""
    if "nesting depth" in str(error):  # libyaml has a limit too, and looks ahead
        return TOO_DEEP
    problem = " ".join(str(getattr(error, "problem", "") or getattr(error, "reason", "") or "").split())[:80]
    if mark and 0 <= end <= mark.index + 1:
        return f"it ends within the YAML{line}: is it truncated?"
    return f"it is no usable YAML{line}: {problem or 'it cannot be parsed'}"


class _Feed:
    """Gives text to the parser and stops it within a value that has no end.

    since: the bytes given since the parser's last event; end: those of the whole text, -1 until it ended.
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self._given = 0
        self.since = 0
        self.end = -1

    def read(self, size: int = 0) -> str:
        """Return some text, "" only at the end; the parser asks for so many characters and takes any."""
        if self.since > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        piece = self._text.read(1 << 14)
        self.since += sys.getsizeof(piece)  # the parser holds bytes, more than one for a character beyond ASCII
        self._given += len(piece)
        if not piece:
            self.end = self._given
        return piece


class _YamlReader:
    """Builds values from the events of a parser, within limits."""

    def __init__(self, yaml: Any, events: Iterator[Any], feed: _Feed) -> None:
        self._yaml = yaml
        self._events = events
        self._feed = feed
        self._numbers = yaml.constructor.SafeConstructor()
        self._resolvers = _plain_resolvers(yaml)
        self._forget()

    def _forget(self) -> None:
        """Begin a document: it knows no anchor of the one before."""
        # Name of an anchor -> value, number of values, levels; None while it is being built.
        self._anchors: Dict[str, Any] = {}
        self._anchored = 0  # what anchors keep in memory
        self._repeated = 0  # values that aliases stand for
        self._size = 0  # of the item, in characters
        self._values = 0  # of the document, with those that aliases stand for
        self._deepest = 0

    def read(self, documents: Documents) -> None:
        """Read all documents."""
        yaml = self._yaml
        for event in self._events:
            self._feed.since = 0
            if isinstance(event, yaml.DocumentStartEvent):
                self._forget()
            elif isinstance(event, yaml.MappingStartEvent):
                self._check_tag(event, "map")
                self._register(event, None, 0, 0)
                collector = documents.begin()
                top, has_items = self._object(collector)
                if "items" in top and not top.get("kind"):
                    raise Unreadable("it has items and no kind, which kubectl writes after them: is it truncated?")
                self._next_is(yaml.DocumentEndEvent)
                documents.end(collector, top, has_items)
            elif isinstance(event, yaml.ScalarEvent) and event.value == "" and event.implicit[0]:
                continue  # "---" with nothing after it
            elif isinstance(event, yaml.NodeEvent):
                raise NotObjects("its YAML is no object, expected what `kubectl get nodes -o yaml` prints")
        if not documents.count:
            raise NotObjects("it has no YAML document", "empty", suspicious=False)

    def _object(self, collector: Collector) -> Tuple[Dict[str, Any], bool]:
        """Read an outermost mapping, its items singly: in what is returned, () stands for them."""
        top: Dict[str, Any] = {}
        has_items = False
        size = 0
        while True:
            key, value = self._key()
            if key is None:
                return top, has_items
            is_list = isinstance(value, self._yaml.SequenceStartEvent)
            if key == "items":
                collector.start_items(top)
                has_items = is_list
            self._size = size
            if key == "items" and is_list:
                self._items(value, collector)
                top[key] = ()
            else:
                top[key] = self._value(value, 2)
                has_items = has_items or (key == "items" and top[key] is None)
                size = self._size + len(key) + _VALUE_COST

    def _items(self, start: Any, collector: Collector) -> None:
        self._check_tag(start, "seq")
        if start.anchor:
            raise Unreadable("its items have an anchor, in no dump of kubectl they have")
        for event in self._events:
            if isinstance(event, self._yaml.SequenceEndEvent):
                return
            self._size = 0
            collector.add(self._value(event, 3))

    def _key(self) -> Tuple[Any, Any]:
        """Return the next key of a mapping, None at its end, and the event with which its value begins."""
        event = next(self._events)
        self._feed.since = 0
        if isinstance(event, self._yaml.ScalarEvent):
            key: str = event.value
            if event.tag not in (None, _TAG + "str"):
                self._check_tag(event, "str")
            if key == "<<" and event.implicit[0]:
                raise Unreadable("it uses YAML's merge key <<, which is not read")
            self._count(len(key))
            self._register(event, key, 1, 0)
            return key, next(self._events)
        if isinstance(event, self._yaml.MappingEndEvent):
            return None, None
        raise Unreadable("it has a key that is no string")

    def _value(self, event: Any, level: int) -> Any:
        """Build the value that begins with an event, at a level of nesting."""
        self._feed.since = 0
        yaml = self._yaml
        if isinstance(event, yaml.ScalarEvent):
            self._count(len(event.value))
            value: Any = self._scalar(event)
            self._register(event, value, 1, 0, len(event.value))
            return value
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, level)
        if level > MAX_LEVELS:
            raise Unreadable(TOO_DEEP)
        values, size, deepest = self._values, self._size, self._deepest
        self._register(event, None, 0, 0)
        self._count(0)
        self._deepest = level
        if isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, "map")
            value = self._mapping(level)
        else:
            self._check_tag(event, "seq")
            value = self._sequence(level)
        self._register(event, value, self._values - values, self._deepest - level + 1, self._size - size)
        self._deepest = max(deepest, self._deepest)
        return value

    def _mapping(self, level: int) -> Dict[str, Any]:
        built: Dict[str, Any] = {}
        key, value = self._key()
        while key is not None:
            built[key] = self._value(value, level + 1)
            key, value = self._key()
        return built

    def _sequence(self, level: int) -> List[Any]:
        built = []
        for event in self._events:
            if isinstance(event, self._yaml.SequenceEndEvent):
                break
            built.append(self._value(event, level + 1))
        return built

    def _alias(self, name: str, level: int) -> Any:
        """Return what an alias stands for, which is counted as if it stood here."""
        if self._anchors.get(name) is None:
            raise Unreadable("its YAML has an alias of nothing, or of what it is in itself")
        value, values, levels = self._anchors[name]
        if levels and level + levels - 1 > MAX_LEVELS:
            raise Unreadable(TOO_DEEP)
        self._deepest = max(self._deepest, level + levels - 1)
        self._values += values
        self._repeated += values
        self._size += _VALUE_COST
        if self._repeated > MAX_REPEATED:
            raise Unreadable("its YAML aliases stand for more than 100,000 values")
        return value

    def _register(self, event: Any, value: Any, values: int, levels: int, size: int = 0) -> None:
        """Remember a value for aliases, if it has an anchor; no values say that it is being built."""
        if event.anchor:
            self._anchored += size + _VALUE_COST
            if self._anchored > MAX_ITEM:
                raise Unreadable("its YAML anchors hold more than 8 MiB")
            self._anchors[event.anchor] = (value, values, levels) if values else None

    def _count(self, length: int) -> None:
        self._values += 1
        self._size += length + _VALUE_COST
        if self._size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)

    def _check_tag(self, event: Any, expected: str) -> None:
        if event.tag not in (None, _TAG + expected):
            raise Unreadable(f'it has the YAML tag "{event.tag[:20]}", which is no plain data')

    def _next_is(self, kind: Any) -> None:
        if not isinstance(next(self._events), kind):
            raise Unreadable("something follows the YAML object")

    def _scalar(self, event: Any) -> Any:
        """Return the string, number, boolean or None that a scalar stands for."""
        text: str = event.value
        tag = event.tag
        if tag is None:
            if not event.implicit[0] or len(text) > 1000:  # quoted, or longer than any number
                return text
            resolvers = self._resolvers.get(text[:1], ())
            tag = next((known for known, pattern in resolvers if pattern.match(text)), _TAG + "str")
        if tag == _TAG + "str":
            return text
        if tag == _TAG + "null":
            return None
        kind = tag[len(_TAG) :] if tag.startswith(_TAG) else ""
        if kind not in ("bool", "int", "float"):
            self._check_tag(event, "str")
            return text
        try:
            if len(text) > 1000:
                raise ValueError
            value = getattr(self._numbers, "construct_yaml_" + kind)(self._yaml.ScalarNode(tag, text))
        except (ValueError, LookupError, OverflowError):
            raise Unreadable(f'it has "{text[:20]}" for a YAML {kind}') from None
        if isinstance(value, float) and not math.isfinite(value) and text[-1:].isalpha():
            raise Unreadable(f"{text[:20]} is no JSON number")
        return value


def _plain_resolvers(yaml: Any) -> Dict[str, List[Tuple[str, Any]]]:
    """Return PyYAML's patterns of unquoted nulls, booleans and numbers, by first character."""
    wanted = [_TAG + kind for kind in ("null", "bool", "int", "float")]
    table = yaml.resolver.Resolver.yaml_implicit_resolvers
    return {first: [(tag, pattern) for tag, pattern in known if tag in wanted] for first, known in table.items()}
