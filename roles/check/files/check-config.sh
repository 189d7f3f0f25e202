#!/bin/sh
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Judges a saved `kubectl get nodes -o json`, offline: sh check-config.sh FILE
# Needs a POSIX shell and Python 3.8 or newer, nothing else.
#
# Made by `make script` of the Ansible collection gpuwl.sandbox from
# plugins/module_utils/_rules: change it there.
#
# The shell reads only the lines up to the second row of quotes and hands this file to
# Python, for which they are one string. -I: a json.py beside a dump is not imported.
# A checker of shell scripts would take the Python for shell:
# shellcheck disable=all
''':'
command -v python3 >/dev/null 2>&1 && exec python3 -I "$0" "$@"
echo "check-config.sh: needs Python 3.8 or newer, found no python3" >&2
exit 2
'''

import sys

if sys.version_info < (3, 8):
    sys.stderr.write("check-config.sh: needs Python 3.8 or newer, python3 is %d.%d\n" % sys.version_info[:2])
    sys.exit(2)


# -------------------- finding.py
"""What a rule says about an object: a finding, as plain data.

Private to the collection gpuwl.sandbox. Every audit gives findings of this one
form, so that one reporter serves them all.
"""

from typing import Any, Dict, Optional

SEVERITIES = ("error", "warning", "info")


def finding(
    kind: str,
    name: str,
    rule: str,
    message: str,
    remedy: str,
    evidence: Dict[str, Any],
    severity: str = "error",
    namespace: Optional[str] = None,
    node: Optional[str] = None,
    source: Optional[str] = None,
) -> Dict[str, Any]:
    """Return one finding.

    kind, namespace, name: the object it is about; namespace None for a cluster-wide one.
    node, source: the node it concerns, and the file or context it came from, or None.
    rule: the rule's id, lower-case words joined by hyphens.
    severity: one of SEVERITIES.
    message: what was found and what was expected; to be understood alone.
    remedy: what to do about it.
    evidence: the values the judgement rests on, as they were found.
    """
    if severity not in SEVERITIES:
        raise ValueError("severity {!r} is none of {}".format(severity, ", ".join(SEVERITIES)))
    return {
        "subject": {"kind": kind, "namespace": namespace, "name": name},
        "node": node,
        "source": source,
        "rule": rule,
        "severity": severity,
        "message": message,
        "remedy": remedy,
        "evidence": evidence,
    }


# -------------------- quantity.py
"""Kubernetes quantities of devices, as whole numbers.

Private to the collection gpuwl.sandbox. Source: the grammar in the comment of
k8s.io/apimachinery pkg/api/resource type Quantity; that extended resources are
whole and not negative: Kubernetes documentation, "Extended resources".
"""

import re
from typing import Any

# Kubernetes caps greater quantities at this value.
LARGEST = 2**63 - 1

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?\Z"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse_quantity(value: Any) -> int:
    """Return a number of devices, 0 to 2**63 - 1, from a Kubernetes quantity.

    value: a string such as "4", "2k" or "2000m", or a JSON number.
    Raises ValueError, with a message that names the value, if it is no
    quantity, is negative, or is not a whole number.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        wrong = f'{_shown(value)} is no quantity: expected a whole number such as "4"'
        raise ValueError(wrong)  # noqa: TRY004 - one kind of error for every value that is no quantity
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{_shown(value)} is negative: expected a whole number from 0")
        return min(value, LARGEST)
    match = _QUANTITY.match(value if isinstance(value, str) else repr(value))
    if match is None:
        raise ValueError(f'{_shown(value)} is no quantity: expected a whole number such as "4" or "2k"')
    part = match.group("part") or match.group("only_part") or ""
    digits = ((match.group("whole") or "") + part).lstrip("0")
    if not digits:
        return 0
    if match.group("sign") == "-":
        raise ValueError(f"{_shown(value)} is negative: expected a whole number from 0")
    suffix = match.group("suffix") or ""
    tens = _exponent(match.group("exponent") or "0") + _DECIMAL.get(suffix, 0) - len(part)
    result = _whole(digits, tens, _BINARY.get(suffix, 0))
    if result < 0:
        raise ValueError(f"{_shown(value)} is not a whole number of devices")
    return result


def _whole(digits: str, tens: int, twos: int) -> int:
    """Return digits * 10**tens * 2**twos, capped, or -1 where that is no whole number.

    Works on lengths before it works on numbers, so that neither 1e999999999
    nor a million digits cost time or memory.
    """
    significant = digits.rstrip("0")
    tens += len(digits) - len(significant)
    if tens < -twos:
        return -1  # not divisible by ten, so the twos cancel at most so many places
    if len(significant) + tens > 19:
        return LARGEST
    if tens >= 0:
        number: int = int(significant) * 10**tens << twos
        return min(number, LARGEST)
    result, rest = divmod(int(significant) << twos, 10**-tens)
    return -1 if rest else min(result, LARGEST)


def _exponent(text: str) -> int:
    """Return an exponent; a longer one than any sensible stands for a very great one."""
    digits = text.lstrip("+-").lstrip("0")
    size = int(digits or "0") if len(digits) <= 12 else 10**12
    return -size if text.startswith("-") else size


def _shown(value: Any) -> str:
    """Return a value for a message, as JSON would have it, cut to a length for reading."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number beyond 64 bits"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    if not isinstance(value, str):
        number = str(value)
        return number if len(number) <= 60 else number[:60] + "..."
    text = f'"{ascii(value[:60])[1:-1]}"'
    return text if len(value) <= 60 else text[:-1] + '..."'


# -------------------- objects.py
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


# -------------------- consistency.py
"""When do a node's label and the resource names it advertises not fit together?

Private to the collection gpuwl.sandbox. Source of the profile `lab`: the lab's
step 8, "a checker that judges whether label and advertised resources agree".

Nodes are expected in the form that objects.check_shape has accepted.
"""

import re
from typing import Any, Dict, List, Tuple


WORKLOAD_LABEL = "nvidia.com/gpu.workload.config"
RESOURCE_PREFIX = "nvidia.com/"
CONTAINER_RESOURCE = "nvidia.com/gpu"

# A vGPU profile ends in a hyphen, digits and one capital letter: NVIDIA_A10-12Q.
# A device model may end alike but for the hyphen: GF100GL_TESLA_M2070Q.
_VGPU_PROFILE = re.compile(r"-[0-9]+[A-Z]\Z")

_EXPECTED = {
    "container": "exactly nvidia.com/gpu",
    "vm-passthrough": "one device model name (neither nvidia.com/gpu nor a vGPU profile),"
    " such as nvidia.com/GA102GL_A10",
    "vm-vgpu": "one vGPU profile name (it ends in a hyphen, digits and one capital letter),"
    " such as nvidia.com/NVIDIA_A10-12Q",
}
_REMEDIES = {
    "unknown-workload-label": f"Set the label {WORKLOAD_LABEL} to container, vm-passthrough or vm-vgpu.",
    "invalid-resource-quantity": "Find out what wrote the node's status: the kubelet writes whole numbers only.",
    "several-resources": "Leave one kind of GPU workload on the node; names left from an earlier use must stand at 0.",
    "no-resource": "Look at the device plugin that this label chooses: it has registered no device.",
    "wrong-resource": "Correct the label, or wait until the operator has exchanged the node's software for it.",
}


def is_labelled(node: Dict[str, Any]) -> bool:
    """Say whether a Node carries the workload label; an empty value is carrying it."""
    return WORKLOAD_LABEL in ((node.get("metadata") or {}).get("labels") or {})


def judge_lab(node: Dict[str, Any], context: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Judge one Node by the profile `lab`.

    node: a Node as the Kubernetes API gives it.
    context: what is known beside the node; `source`, the file or context it came from.
    Returns no finding for a node that is healthy or not labelled, else exactly one,
    whose rule is the gravest reason and whose message names them all.
    """
    if not is_labelled(node):
        return []
    label = node["metadata"]["labels"][WORKLOAD_LABEL]
    listed = _listed(node)
    advertised, unusable = _advertised(listed)
    if not unusable and len(advertised) == 1 and all(_fits(label, name) for name in advertised):
        return []
    reasons = _reasons(label, advertised, unusable)
    name = node["metadata"]["name"]
    return [
        finding(
            kind="Node",
            name=name,
            node=name,
            source=context.get("source"),
            rule=reasons[0][0],
            message="; ".join(text for rule, text in reasons),
            remedy=_REMEDIES[reasons[0][0]],
            evidence={"label": label, "resources": listed},
        )
    ]


# A second profile, what the operator really does, stands beside it once there is one.
PROFILES = {"lab": judge_lab}


def _listed(node: Dict[str, Any]) -> Dict[str, Any]:
    """Return the NVIDIA resources a node lists: capacity speaks only where allocatable is silent."""
    status = node.get("status") or {}
    listed = {}
    for resources in (status.get("capacity"), status.get("allocatable")):
        for name, quantity in (resources or {}).items():
            if name.startswith(RESOURCE_PREFIX):
                listed[name] = quantity
    return {name: listed[name] for name in sorted(listed)}


def _advertised(listed: Dict[str, Any]) -> Tuple[Dict[str, int], Dict[str, str]]:
    """Divide listed resources into those above zero and those whose quantity is none.

    "0" is absent: after a change of use the kubelet leaves the old name behind with "0".
    """
    advertised, unusable = {}, {}
    for name, quantity in listed.items():
        try:
            number = parse_quantity(quantity)
        except ValueError as error:
            unusable[name] = str(error)
        else:
            if number > 0:
                advertised[name] = number
    return advertised, unusable


def _reasons(label: Any, advertised: Dict[str, int], unusable: Dict[str, str]) -> List[Tuple[str, str]]:
    """Return (rule, text) for each way in which a node fails, the gravest first, for one that does fail."""
    reasons = []
    known = isinstance(label, str) and label in _EXPECTED
    if not known:
        reasons.append(
            (
                "unknown-workload-label",
                f"label value {_quoted(label)} is none of container, vm-passthrough and vm-vgpu",
            )
        )
    for name, problem in unusable.items():
        reasons.append(("invalid-resource-quantity", f"resource {name}: {problem}"))
    expected = f"label {label} expects {_EXPECTED[label]}" if known else "expected one resource name"
    found = f"{expected}, the node advertises {_found(advertised)}"
    if len(advertised) > 1:
        reasons.append(("several-resources", found + ": a node runs one kind of GPU workload"))
    elif known and not advertised and not unusable:
        reasons.append(("no-resource", found))
    elif known and not all(_fits(label, name) for name in advertised):
        reasons.append(("wrong-resource", found))
    else:
        reasons.append((reasons[0][0], "the node advertises " + _found(advertised)))
    return reasons


def _fits(label: object, resource: str) -> bool:
    """Say whether a resource name has the form that a label value expects."""
    if resource == CONTAINER_RESOURCE:
        return label == "container"
    return label == ("vm-vgpu" if _VGPU_PROFILE.search(resource) else "vm-passthrough")


def _found(advertised: Dict[str, int]) -> str:
    """Put into words what a node advertises."""
    if not advertised:
        return "no nvidia.com/ resource above 0"
    shown = ["%s (%d)" % item for item in advertised.items()]
    if len(shown) > 8:
        shown[7:] = ["%d more" % (len(shown) - 7)]
    return " and ".join(shown)


def _quoted(label: Any) -> str:
    """Show a label's value, cut to a length for reading."""
    if not isinstance(label, str):
        return f"of the wrong type, {json_type(label)},"
    return '"%s"' % (label if len(label) <= 63 else label[:60] + "...")


# -------------------- dump.py
"""Reads a dump of Kubernetes objects, one object at a time.

Private to the collection gpuwl.sandbox. Source of the form: RFC 8259 (JSON) and
what `kubectl get nodes -o json` prints. A file means what json.load makes of it,
but NaN and Infinity are refused; its memory is that of the largest item, not that of the file.
"""

import codecs
import json
import re
from typing import Any, BinaryIO, Callable, Dict, List


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


# -------------------- report.py
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


# -------------------- check_config.py
"""The command line of the offline checker, and the check of one file behind it.

Private to the collection gpuwl.sandbox. Source: the lab's step 8.
"""

import os
import signal
import sys
from typing import Any, Dict, List


USAGE = """\
usage: check-config.sh FILE
Judges whether the label nvidia.com/gpu.workload.config of each node agrees with the
nvidia.com/ resource it advertises. FILE is what `kubectl get nodes -o json` printed;
no cluster is contacted.
Prints OK=<nodes checked> and exits with 0, or a line MISMATCH=<node> <reason> for each
bad node and exits with 1. Exits with 2 if FILE cannot be read as a dump of nodes."""


def check_file(path: str, profile: str) -> Dict[str, Any]:
    """Judge the nodes in one dump.

    path: the file; profile: a key of consistency.PROFILES.
    Returns path; exit_code 0 (all well), 1 (mismatches) or 2 (unreadable); checked,
    the number of nodes judged; text, for standard output; error, for standard error
    ("" if none), one line; findings, ascending by node name.
    """
    judge = PROFILES[profile]
    context = {"source": path}
    try:
        judged = read_dump(path, "Node", lambda node: judge(node, context) if is_labelled(node) else None)
    except Unreadable as error:
        return unread(path, str(error))
    labelled = [findings for findings in judged if findings is not None]
    findings = in_order([found for several in labelled for found in several])
    return {
        "path": path,
        "exit_code": 1 if findings else 0,
        "checked": len(labelled),
        "text": lab_text(findings, len(labelled)),
        "error": "",
        "findings": findings,
    }


def unread(path: str, error: str) -> Dict[str, Any]:
    """Return what check_file returns for a dump that cannot be read, and why."""
    return {"path": path, "exit_code": 2, "checked": 0, "text": "", "error": one_line(error), "findings": []}


def main(arguments: List[str]) -> int:
    """Run the checker with its command line arguments; return the exit code."""
    exit_code, text, wrong = 0, "", ""
    if arguments in (["-h"], ["--help"]):
        text = USAGE
    elif len(arguments) != 1:
        exit_code, wrong = 2, "expected one FILE, got %d arguments; see --help" % len(arguments)
    else:
        result = check_file(arguments[0], "lab")
        exit_code, text, wrong = result["exit_code"], result["text"], result["error"]
    try:
        if text:
            _write(1, text)
    except OSError as error:
        exit_code, wrong = 2, f"cannot write the result: {error.strerror}"
    if wrong:
        try:
            _write(2, "check-config.sh: " + wrong)
        except OSError:
            pass  # nobody is left to be told
    return exit_code


def _write(descriptor: int, text: str) -> None:
    """Write a text and a newline, in UTF-8 whatever the locale says.

    Not through sys.stdout, which may be None, and which Python flushes once more
    at exit, with a traceback if that fails.
    """
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(text.encode("utf-8", "backslashreplace") + b"\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    raise SystemExit(main(sys.argv[1:]))
