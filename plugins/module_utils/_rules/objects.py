# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects out of dumps: which of them are wanted and what form they must have.

Private to the collection gpuwl.sandbox. Source: the Kubernetes API conventions
("Types (Kinds)", "Lists and simple kinds") and what kubectl prints with -o json.
"""

from typing import Any, Callable, Dict, List

MAX_DOCUMENTS = 1000000  # of one file
MAX_UNSURE = 1000  # items of a list that are kept because neither they nor the list tell their kind so far
MAX_OBJECT_NAME = 10000  # characters that a name may have and still be shown; Kubernetes allows 253

# What the rules rely on. None stands for absent, as it does in Kubernetes.
_SHAPES = {
    "Node": (
        ("metadata.labels", "metadata", "labels", dict),
        ("spec", "spec", "", dict),
        ("spec.taints", "spec", "taints", list),
        ("status", "status", "", dict),
        ("status.capacity", "status", "capacity", dict),
        ("status.allocatable", "status", "allocatable", dict),
    ),
    "Pod": (
        ("metadata.labels", "metadata", "labels", dict),
        ("spec", "spec", "", dict),
        ("spec.containers", "spec", "containers", list),
        ("spec.initContainers", "spec", "initContainers", list),
        ("spec.nodeSelector", "spec", "nodeSelector", dict),
        ("spec.tolerations", "spec", "tolerations", list),
        ("spec.affinity", "spec", "affinity", dict),
        ("status", "status", "", dict),
    ),
}
# The API groups of the kinds that rules ask for; what is not named here is of the core API.
_GROUPS = {
    "ClusterPolicy": "nvidia.com",
    "GPUCluster": "nvidia.com",
    "NVIDIADriver": "nvidia.com",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "ResourceSlice": "resource.k8s.io",
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


class Unwanted(Unreadable):
    """Objects that could be read, of which none is of the wanted kind."""


class NotObjects(Unreadable):
    """Input that does not look like Kubernetes objects at all.

    reason: why it is left out where it was found in a folder, in few words.
    suspicious: whether that is a fault where its name promises objects, such as text in a.json.
    """

    def __init__(self, message: str, reason: str = "no Kubernetes objects", suspicious: bool = True) -> None:
        super().__init__(message)
        self.reason = reason
        self.suspicious = suspicious


class Collector:
    """Collects what a function makes of the objects of one kind in one document.

    Objects are given one at a time and none is kept, so that a dump may be
    larger than memory. Complaints about single items wait until finish():
    until then a second "items" may still replace the first.
    """

    def __init__(self, kind: str, take: Callable[[Dict[str, Any]], Any]) -> None:
        self.kind = kind
        self._takers = {kind: take}
        self.start_items({})

    def start_items(self, top: Dict[str, Any]) -> None:
        """Begin a list's items; a later "items" replaces an earlier one, as in json.load.

        top: what is known of the outermost object so far.
        """
        # The API names the kind of a list first and leaves it out in the items, kubectl does the reverse.
        self._items_kind = _kind_of_items(top.get("kind"))
        self._taken: List[Any] = []
        self._counts: Dict[str, int] = {}
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
            kind = self._wanted_kind(item, where)
            if kind:
                self._take(item, kind, where)
        except Unreadable as error:
            self._problem = str(error)

    def finish(self, top: Dict[str, Any], has_items: bool) -> List[Any]:
        """Return what was taken, in the order of the dump.

        top: the outermost object without its items; has_items: whether it had a list of them.
        Raises Unreadable if these are no objects to rely on, its child Unwanted if none of them was asked for.
        """
        kind = top.get("kind") or ("List" if has_items and self._count else _likely_kind(top))
        if not isinstance(kind, str) or not kind:
            raise NotObjects("it is no Kubernetes object: it has no kind", suspicious=False)
        inner = _kind_of_items(kind)
        group = "" if _is_of_group(top, "") else " of {}".format(_brief(str(top["apiVersion"])))
        other = f"it is of kind {_brief(kind)}{group}, expected a List, {self.kind}List or {self.kind}"
        if kind in self._takers and _is_of_group(top, kind):
            self._check_items((), f"it is of kind {kind}, yet it has items that are of kind {self.kind}")
            self._take(top, kind, "the object")
        elif (kind == "List" and _is_of_group(top, "")) or (inner in self._takers and _is_of_group(top, inner)):
            self._finish_list(kind, has_items, other)
        else:
            self._check_items((), other)
        is_wanted = self.kind in (kind, inner) and _is_of_group(top, self.kind)
        if not is_wanted and not (kind == "List" and _is_of_group(top, "")):
            raise Unwanted(other)
        if kind != self.kind and self._count and not self._counts.get(self.kind):
            raise Unwanted("none of its %d items is a %s" % (self._count, self.kind))
        return self._taken

    def _finish_list(self, kind: str, has_items: bool, other: str) -> None:
        if not has_items:
            raise Unreadable(f"it is of kind {kind} and has no array of items")
        if kind == "List" and self._without_kind:
            raise Unreadable(f"{self._without_kind} of the List has no kind")
        if self._without_kind and self._items_kind not in ("", _kind_of_items(kind)):
            raise Unreadable(f"{self._without_kind} has no kind, and the list has two")
        if self._problem:
            raise Unreadable(self._problem)
        if kind != "List":
            self._check_items((_kind_of_items(kind),), other)

    def _check_items(self, allowed: Any, other: str) -> None:
        """Do away with items that the outermost object, as it turns out, should not have.

        other: what to say where that cannot be done.
        """
        self._counts = {one: count for one, count in self._counts.items() if one in allowed}
        if not self._counts:
            self._taken = []

    def _take(self, item: Dict[str, Any], kind: str, where: str) -> None:
        check_shape(item, kind, where)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._taken.append(self._takers[kind](item))

    def _wanted_kind(self, item: Any, where: str) -> str:
        """Return the kind of an item if that kind is asked for, or ""."""
        if not isinstance(item, dict):
            raise Unreadable(f"{where} must be an object, not {json_type(item)}")
        kind = item.get("kind")
        if kind is None or kind == "":
            likely = _likely_kind(item)
            if not likely:
                # The API leaves the kind out in the items of a NodeList, never in a List.
                self._without_kind = self._without_kind or where
            kind = likely if likely and self._items_kind == self.kind else self._items_kind or likely
            if not kind:
                return self.kind
        for field, value in (("kind", kind), ("apiVersion", item.get("apiVersion") or "")):
            if not isinstance(value, str):
                raise Unreadable(f"{where}: {field} must be a string, not {json_type(value)}")
        return kind if kind in self._takers and _is_of_group(item, kind) else ""


class Intake(Collector):
    """Hands objects of several kinds on at once.

    Nothing can be taken back here, so that a document is refused in which later text takes back
    what was handed on.
    """

    def __init__(self, takers: Dict[str, Callable[[Dict[str, Any]], Any]], counts: Dict[str, int]) -> None:
        """takers: by kind; counts: where objects that were taken are counted, by kind."""
        first = next(iter(takers), "Node")
        super().__init__("Node" if "Node" in takers else first, takers.get(first, id))
        self._takers = takers
        self._totals = counts

    def start_items(self, top: Dict[str, Any]) -> None:
        """Begin a list's items, for the first time."""
        if getattr(self, "_counts", None):
            raise Unreadable("it has two arrays of items")
        super().start_items(top)
        self._unsure: List[Any] = []

    def add(self, item: Any) -> None:
        """Take the next item of a list, or keep it until the list has told of which kind its items are."""
        if self._items_kind or not isinstance(item, dict) or item.get("kind") or _likely_kind(item):
            super().add(item)
        elif len(self._unsure) < MAX_UNSURE:
            self._unsure.append((self._count, item))
            self._without_kind = self._without_kind or "items[%d]" % self._count
            self._count += 1
        else:
            raise Unreadable("more than %d of its items have no kind, and the list's own comes after them" % MAX_UNSURE)

    def _finish_list(self, kind: str, has_items: bool, other: str) -> None:
        super()._finish_list(kind, has_items, other)
        inner = _kind_of_items(kind)
        for at, item in self._unsure if inner in self._takers else ():
            if _is_of_group(item, inner):
                self._take(item, inner, "items[%d]" % at)

    def _check_items(self, allowed: Any, other: str) -> None:
        # What is told beside the nodes may be told by any list.
        if self.kind not in allowed and self._counts.get(self.kind):
            raise Unreadable(other)

    def _take(self, item: Dict[str, Any], kind: str, where: str) -> None:
        check_shape(item, kind, where)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._totals[kind] = self._totals.get(kind, 0) + 1
        self._takers[kind](item)


class Documents:
    """The documents of one file, one after the other.

    results: what was taken of all of them; count: how many were read; complaint: why none
    has what is wanted, "" where one has.
    """

    def __init__(self, make: Callable[[], Collector]) -> None:
        self.results: List[Any] = []
        self.count = 0
        self._make = make
        self._is_fine = False
        self._complaint = ""

    def begin(self) -> Collector:
        """Return a collector for the next document."""
        return self._make()

    def end(self, collector: Collector, top: Dict[str, Any], has_items: bool) -> None:
        """Finish a document; raises Unreadable."""
        try:
            self.results += collector.finish(top, has_items)
            self._is_fine = True
        except Unwanted as error:
            self._complaint = self._complaint or str(error)
        self.count += 1
        if self.count > MAX_DOCUMENTS:
            raise Unreadable("it has more than 1,000,000 documents")

    @property
    def complaint(self) -> str:
        return "" if self._is_fine else self._complaint


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
    """Raise Unreadable unless the object has the form the rules rely on, a Node and a Pod also a name."""
    if kind not in _SHAPES:
        return
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise Unreadable(f"{where} is a {kind} without a name (metadata.name)")
    if len(name) > MAX_OBJECT_NAME:
        raise Unreadable("%s is a %s with a name of %d characters, of which 253 are allowed" % (where, kind, len(name)))
    for path, outer, inner, expected in _SHAPES[kind]:
        value = item.get(outer)
        if inner:
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
    # A PersistentVolumeClaim has a capacity too.
    if isinstance(status, dict) and ("allocatable" in status or ("capacity" in status and "accessModes" not in status)):
        return "Node"
    return "Pod" if isinstance(spec, dict) and "containers" in spec else ""


def _kind_of_items(kind: Any) -> str:
    """Return "Node" for "NodeList", and "" for what is no list or a List of anything."""
    return kind[:-4] if isinstance(kind, str) and kind.endswith("List") else ""


def _is_of_group(item: Dict[str, Any], kind: str) -> bool:
    # Other API groups have kinds of the same name, such as longhorn.io's Node.
    version = item.get("apiVersion")
    if version in (None, ""):
        return True
    group = _GROUPS.get(kind)
    return isinstance(version, str) and version.startswith(group + "/") if group else version == "v1"


def _brief(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
