# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import importlib
import io

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import json_dump, yaml_dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Collector, Documents, Unreadable
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, listed, node, pod

NAMES = ["lab-node-0", "lab-node-1", "lab-node-2"]
EMPTY = "kind: List\nitems: []\n"


def read(text, encoding="utf-8"):
    """Read Nodes out of YAML."""
    documents = Documents(lambda: Collector("Node", dict))
    data = text if isinstance(text, bytes) else text.encode(encoding)
    yaml_dump.read_yaml(json_dump.Text(io.BytesIO(data)), documents)
    if documents.complaint:
        raise Unreadable(documents.complaint)
    return documents.results


def names(text, encoding="utf-8"):
    return [one["metadata"]["name"] for one in read(text, encoding)]


def spec_of(text):
    """Return a node's spec."""
    indented = text.replace("\n", "\n  ")
    return read(f"kind: Node\nmetadata: {{name: x}}\nspec:\n  {indented}\n")[0]["spec"]


@pytest.fixture(params=["C", "Python"])
def parsers(request, monkeypatch):
    """Read with each of PyYAML's parsers."""
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("this PyYAML has no parser in C")


@pytest.mark.parametrize(
    "text, expected",
    [
        (yaml.safe_dump(listed(HEALTHY)), NAMES),
        (yaml.safe_dump(listed(HEALTHY, "NodeList")), NAMES),
        (yaml.safe_dump(HEALTHY[0]), NAMES[:1]),
        (yaml.safe_dump_all(HEALTHY), NAMES),
        (yaml.safe_dump_all([listed(HEALTHY[:2]), pod(), HEALTHY[2]]), NAMES),
        (yaml.safe_dump(listed([pod(), *HEALTHY, {"kind": "Service"}])), NAMES),
        ("--- # a comment\n" + yaml.safe_dump(HEALTHY[0]) + "---\n\n---\n# nothing\n...\n", NAMES[:1]),
        (EMPTY, []),
        ("kind: List\nitems: null\n", []),
        ("kind: List\nitems: [5]\n" + "items:\n- kind: Node\n  metadata: {name: x}\n", ["x"]),
        ("kind: List\nitems:\n- &a\n  kind: Node\n  metadata: {name: x}\n- *a\n", ["x", "x"]),
        ("kind: Node\nmetadata: {name: 节点-😀}\n", ["节点-😀"]),
        ("kind: Node\nmetadata: {name: a, name: b}\n", ["b"]),
    ],
)
def test_reads(parsers, text, expected):
    assert names(text) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_reads_encodings(encoding):
    text = yaml.safe_dump(listed([*HEALTHY, node("节点😀")]), allow_unicode=True).replace("\n", "\r\n")
    assert names(text, encoding) == [*NAMES, "节点😀"]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: -1\nc: 0x1F\nd: 010\ne: 1_000\nf: 1:30",
        "a: true\nb: off\nc: YES\nd: ~\ne: null\nf:\ng: Null",
        "a: 1.5\nb: 1e3\nc: 1.0e+3\nd: .5\ne: 12Ki\nf: 100m",
        "a: '1'\nb: \"true\"\nc: 'x'\nd: |\n  text\n  more\ne: >-\n  one\n  two",
        "a: [1, {b: c}]\nd: {}\ne: []\nf: [[], [[]]]",
        "a: !!str 5\nb: !!int '7'\nc: !!float '1.5'\nd: !!bool 'yes'\ne: !!null ''\nf: !!map {}\ng: !!seq []",
        "a: &x {b: [1, 2]}\nc: *x\nd: &y [*x, *x]\ne: *y\nf: &z 5\ng: *z",
        "a: nvidia.com/gpu=present:NoSchedule\nc: '#'\nd: a#b",
    ],
)
def test_means_what_safe_load_makes_of_it(parsers, text):
    assert spec_of(text) == yaml.safe_load(text)


def test_times_stay_text_and_keys_are_text():
    assert spec_of("a: 2024-01-01T10:00:00Z\nb: 2024-01-01\n1: a\ntrue: b\nnull: c") == {
        "a": "2024-01-01T10:00:00Z",
        "b": "2024-01-01",
        "1": "a",
        "true": "b",
        "null": "c",
    }


def nested(levels):
    """Return YAML of an object with so many levels in all."""
    return "kind: List\nitems: []\nx: " + "[" * (levels - 1) + "]" * (levels - 1)


def by_alias(levels):
    """Return the same, of which an alias is the last half."""
    half = levels // 2
    return f"kind: List\nitems: []\ny: &a {'[' * half}{']' * half}\nx: {'[' * (levels - half - 1)}*a{']' * (levels - half - 1)}"


def test_depth_is_exact(parsers):
    item = "kind: List\nitems:\n- kind: X\n  x: {}"
    for make in (nested, by_alias, lambda levels: item.format("[" * (levels - 3) + "]" * (levels - 3))):
        with pytest.raises(Unreadable, match="too deeply, more than 200 levels"):
            read(make(201))
        try:
            read(make(200))
        except Unreadable as error:
            assert "none of its 1 items" in str(error)


@pytest.mark.parametrize(
    "text, words",
    [
        (yaml.safe_dump(listed(HEALTHY))[:-40], "truncated"),
        (yaml.safe_dump(listed(HEALTHY)).split("kind: List")[0], "has items and no kind.*truncated"),
        ("kind: 'Li", "ends within the YAML.*truncated"),
        ("kind: [a, b", "ends within the YAML.*truncated"),
        ("kind: List\n  items: []", "no usable YAML at line 2"),
        ("kind: List\n\titems: []", "no usable YAML at line 2"),
        ("kind: {}", "no kind"),
        ("{}", "no kind"),
        ("- kind: Node", "no object"),
        ("hello", "no object"),
        ("", "no YAML document"),
        ("--- &a\nkind: List\nitems: *a", "alias of nothing, or of what it is in"),
        ("kind: List\nitems: [&a [*a]]", "alias of nothing, or of what it is in"),
        ("kind: List\nitems: []\nx: *nothing", "alias of nothing"),
        ("kind: List\nitems: []\nx: &a 1\n---\nkind: List\nitems: []\nx: *a", "alias of nothing"),
        ("kind: List\nitems: &a []", "an anchor"),
        ("kind: List\nitems: !!set {a}", 'tag "tag:yaml.org,2002:se'),
        ("!!python/object:os.system\nkind: List\nitems: []", "no plain data"),
        ("kind: List\nitems: []\nx: !!python/object/apply:os.system [id]", "no plain data"),
        ("kind: List\nitems: []\nx: !x 5", 'tag "!x"'),
        ("kind: List\nitems: []\nx: ! 5", 'tag "!"'),
        ("kind: List\nitems: []\nx: !!timestamp 2024-01-01", "no plain data"),
        ("kind: List\nitems: []\nx: !!int abc", 'has "abc" for a YAML int'),
        ("kind: List\nitems: []\nx: !!bool abc", 'has "abc" for a YAML bool'),
        ("kind: List\nitems: []\nx: .nan", "no JSON number"),
        ("kind: List\nitems: []\nx: -.inf", "no JSON number"),
        ("kind: List\nitems: []\nx:\n  <<: {a: b}", "merge key"),
        ("kind: List\nitems: []\n? [a]\n: b", "key that is no string"),
        ("kind: List\nitems: []\nx: a\0b", "no usable YAML"),
        (b"kind: List\nitems: []\nx: \xff", "can't decode"),
        ("kind: PodList\nitems: []", "of kind PodList, expected"),
        ("kind: List\nitems: [5]", r"items\[0\] must be an object, not a number"),
        ("kind: List\nitems: {}", "no array of items"),
        ("kind: Node\nmetadata: {name: 5}", "without a name"),
        (EMPTY + "---\n[1]\n", "no object"),
        ("kind: List\nitems: []\n--- x: y", "YAML"),
        ("kind: List\nitems: []\nx: " + "[" * 100000, "too deeply"),
    ],
)
def test_refuses(parsers, text, words):
    with pytest.raises((Unreadable, ValueError), match=words) as caught:
        read(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_alias_bombs_are_refused():
    """Spelled out it would be 10 to the 39th values: a reader that did so would never end."""
    layers = "\n".join("  a%d: &a%d [%s]" % (n, n, ", ".join(["*a%d" % (n - 1)] * 10)) for n in range(1, 40))
    with pytest.raises(Unreadable, match="more than 100,000 values"):
        read(f"kind: List\nitems: []\nx:\n  a0: &a0 [x, x]\n{layers}\n")


def test_the_number_of_repeated_values_is_exact():
    text = "kind: List\nitems: []\nx: &a [%s]\ny: [%s]\n" % (",".join("x" * 999), ",".join(["*a"] * 100))
    assert read(text) == []
    with pytest.raises(Unreadable, match="more than 100,000 values"):
        read(text + "z: *a\n")


@pytest.mark.parametrize(
    "begin, piece, count",
    [
        ("kind: List\nitems:\n- '", "a" * 100000, 90),
        ("kind: List\nitems:\n- |\n", "   a\n" * 10000, 900),
        ("kind: List\nitems:\n- [", "{}," * 10000, 45),
        ("kind: List\n", "".join("k%d: v\n" % n for n in range(10000)), 90),
    ],
)
def test_an_item_is_limited(begin, piece, count):
    with pytest.raises(Unreadable, match="larger than 8 MiB"):
        read(begin + piece * count)


def test_numbers_that_take_long_are_text():
    long = "1" + ":30" * 200000
    assert spec_of("a: " + long) == {"a": long}
    assert spec_of("a: " + "9" * 5000) == {"a": "9" * 5000}


def test_says_what_is_missing_without_pyyaml(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(Unreadable, match="no PyYAML: `pip install pyyaml`, or ask kubectl for JSON"):
        read(EMPTY)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("apiVersion: v1\nkind: Node\n", True),
        ("# made by hand\n---\napiVersion: v1\n", True),
        ("%YAML 1.1\n---\nkind: List\n", True),
        ("--- \n\nitems:\n- x", True),
        ('"kind": "List"\n', True),
        ("metadata:\r\n  name: x\r\nkind: Node\r\n", True),
        ("a: b\n", False),
        ("hello", False),
        ("", False),
        ("2024-01-01 10:00:00 kind: x\n", False),
        ("I0101 12:00:00 main.go:5] kind: Node\nkind: x", False),
        ("<html>\nkind: Node", False),
        ("Name:   x\nLabels: a=b\n", False),
    ],
)
def test_looks(text, expected):
    assert yaml_dump.looks_like_yaml(text) is expected
