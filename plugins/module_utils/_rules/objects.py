# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects out of dumps: which of them are wanted and what form they must have.

Private to the collection gpuwl.sandbox. Source: the Kubernetes API conventions
("Types (Kinds)", "Lists and simple kinds") and what kubectl prints with -o json.
"""

from typing import Any, Callable, Dict, List

# What the rules rely on. None stands for absent, as it does in Kubernetes.
_SHAPES = {
    "Node": (
        ("metadata.labels", dict),
        ("spec", dict),
        ("spec.taints", list),
        ("status", dict),
        ("status.capacity", dict),
        ("status.allocatable", dict),
    ),
    "Pod": (
        ("metadata.labels", dict),
        ("spec", dict),
        ("spec.containers", list),
        ("spec.initContainers", list),
        ("spec.nodeSelector", dict),
        ("spec.tolerations", list),
        ("spec.affinity", dict),
        ("status", dict),
    ),
}
_JSON_TYPES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class Unreadable(ValueError):
    """Input that is no dump of the wanted objects; the message says why, on its own."""


class Collector:
    """Collects what a function makes of the objects of one kind.

    Objects are given one at a time and none is kept, so that a dump may be
    larger than memory. Complaints about single items wait until finish():
    until then a second "items" may still replace the first.
    """

    def __init__(self, kind: str, take: Callable[[Dict[str, Any]], Any]) -> None:
        self._kind = kind
        self._take = take
        self.start_items()

    def start_items(self) -> None:
        """Begin a list's items; a later "items" replaces an earlier one, as in json.load."""
        self._taken: List[Any] = []
        self._count = 0
        self._problem = ""
        self._without_kind = ""

    def add(self, item: Any) -> None:
        """Take the next item of a list, or leave it where it is of another kind."""
        where = "items[%d]" % self._count
        self._count += 1
        if self._problem:
            return
        try:
            if self._is_wanted(item, where):
                check_shape(item, self._kind, where)
                self._taken.append(self._take(item))
        except Unreadable as error:
            self._problem = str(error)

    def finish(self, top: Dict[str, Any], has_items: bool) -> List[Any]:
        """Return what was taken, in the order of the dump.

        top: the outermost object without its items; has_items: whether it had a list of them.
        Raises Unreadable if these were not the wanted objects.
        """
        kind = top.get("kind") or ("List" if has_items and self._count else _likely_kind(top))
        if not isinstance(kind, str) or not kind:
            raise Unreadable("it is no Kubernetes object: it has no kind")
        if not _is_core(top) or kind not in (self._kind, "List", self._kind + "List"):
            group = "" if _is_core(top) else " of {}".format(_brief(str(top["apiVersion"])))
            raise Unreadable(f"it is of kind {_brief(kind)}{group}, expected a List, {self._kind}List or {self._kind}")
        if kind == self._kind:
            check_shape(top, kind, "the object")
            return [self._take(top)]
        if not has_items:
            raise Unreadable(f"it is of kind {kind} and has no array of items")
        if kind == "List" and self._without_kind:
            raise Unreadable(f"{self._without_kind} of the List has no kind")
        if self._problem:
            raise Unreadable(self._problem)
        if self._count and not self._taken:
            raise Unreadable("none of its %d items is a %s" % (self._count, self._kind))
        return self._taken

    def _is_wanted(self, item: Any, where: str) -> bool:
        if not isinstance(item, dict):
            raise Unreadable(f"{where} must be an object, not {json_type(item)}")
        kind = item.get("kind")
        if kind is None or kind == "":
            kind = _likely_kind(item)
            if not kind:
                # The API leaves the kind out in the items of a NodeList, never in a List.
                self._without_kind = self._without_kind or where
                return True
        for field, value in (("kind", kind), ("apiVersion", item.get("apiVersion") or "")):
            if not isinstance(value, str):
                raise Unreadable(f"{where}: {field} must be a string, not {json_type(value)}")
        return kind == self._kind and _is_core(item)


def collect(data: Any, kind: str, take: Callable[[Dict[str, Any]], Any]) -> List[Any]:
    """Collect from objects in memory: a list of them, a List, or one object.

    Returns what `take` makes of each object of that kind; raises Unreadable.
    """
    collector = Collector(kind, take)
    if isinstance(data, list):
        data = {"kind": kind + "List", "items": data}
    if not isinstance(data, dict):
        raise Unreadable(f"it is {json_type(data)}, expected a list of {kind}s, a List or one {kind}")
    items = data.get("items")
    if isinstance(items, list):
        for item in items:
            collector.add(item)
    return collector.finish(data, isinstance(items, list) or ("items" in data and items is None))


def check_shape(item: Dict[str, Any], kind: str, where: str) -> None:
    """Raise Unreadable unless the object has a name and the form the rules rely on."""
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise Unreadable(f"{where} is a {kind} without a name (metadata.name)")
    for path, expected in _SHAPES[kind]:
        outer, dot, inner = path.partition(".")
        value = item.get(outer)
        if dot:
            value = (value or {}).get(inner)
        if value is not None and not isinstance(value, expected):
            raise Unreadable(f"{kind} {_brief(name)}: {path} must be {_JSON_TYPES[expected]}, not {json_type(value)}")
        for entry in value if expected is list and value else ():
            if not isinstance(entry, dict):
                raise Unreadable(f"{kind} {_brief(name)}: {path} must hold objects, not {json_type(entry)}")


def json_type(value: Any) -> str:
    """Return what a value is in JSON, for messages, such as "an array"."""
    return next((words for known, words in _JSON_TYPES.items() if isinstance(value, known)), type(value).__name__)


def _likely_kind(item: Dict[str, Any]) -> str:
    """Return the kind of an object whose kind somebody's jq has trimmed off, or ""."""
    status, spec = item.get("status"), item.get("spec")
    if isinstance(status, dict) and ("allocatable" in status or "capacity" in status):
        return "Node"
    return "Pod" if isinstance(spec, dict) and "containers" in spec else ""


def _is_core(item: Dict[str, Any]) -> bool:
    # Other API groups have kinds of the same name, such as longhorn.io's Node.
    return item.get("apiVersion") in (None, "", "v1")


def _brief(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
