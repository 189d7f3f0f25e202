# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import io
import json
import os

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import dump, json_dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import (
    Collector,
    Documents,
    Unreadable,
    Unwanted,
    collect,
)
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, listed, node, pod
from hypothesis import given, settings
from hypothesis import strategies as st


def names(path, kind="Node"):
    return dump.read_dump(str(path), kind, lambda item: item["metadata"]["name"])


def bare(item):
    """Return an object without its kind."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def read_text(text):
    documents = Documents(lambda: Collector("Node", dict))
    if text.peek() != "{":
        raise Unreadable("no object")
    json_dump.read_json(text, documents)
    if documents.complaint:
        raise Unreadable(documents.complaint)
    return documents.results


def streamed(data, chunk=json_dump.CHUNK):
    """Read Nodes out of bytes; give them, or Unreadable itself."""
    try:
        return read_text(json_dump.Text(io.BytesIO(data), chunk))
    except (Unreadable, ValueError):
        return Unreadable


def loaded(text):
    """Do the same by way of json.loads."""
    try:
        return collect_strictly(text)
    except (Unreadable, ValueError):
        return Unreadable


def collect_strictly(text):
    """Collect from JSON objects, one after the other, as jq takes them."""
    found, problem, rest = [], "", text.lstrip(" \t\r\n")
    is_fine = False
    while rest:
        data, end = json.JSONDecoder().raw_decode(rest)
        rest = rest[end:].lstrip(" \t\r\n")
        if not isinstance(data, dict):
            raise Unreadable("no object")
        try:
            found += collect(data, "Node", dict)
            is_fine = True
        except Unwanted as error:
            problem = str(error)
    if not is_fine:
        raise Unreadable(problem)
    return found


@pytest.fixture
def write(tmp_path):
    def write_one(content, encoding="utf-8"):
        path = tmp_path / "dump.json"
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content, indent=4, ensure_ascii=False)
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write_one


NAMES = ["lab-node-0", "lab-node-1", "lab-node-2"]


@pytest.mark.parametrize(
    "content, expected",
    [
        (listed(HEALTHY), NAMES),
        (dict(listed(HEALTHY), kind="NodeList"), NAMES),
        (listed([bare(one) for one in HEALTHY], "NodeList"), NAMES),
        (listed([{"metadata": {"name": "x"}}], "NodeList"), ["x"]),
        (HEALTHY[0], NAMES[:1]),
        # Trimmed by hand or by jq.
        ({"items": HEALTHY}, NAMES),
        ({"items": [bare(one) for one in HEALTHY]}, NAMES),
        (listed([bare(one) for one in HEALTHY] + [bare(pod())]), NAMES),
        (bare(HEALTHY[0]), NAMES[:1]),
        (listed([pod("a"), HEALTHY[0], {"kind": "Service"}, HEALTHY[0]]), ["lab-node-0", "lab-node-0"]),
        (listed([HEALTHY[0], dict(HEALTHY[1], apiVersion="longhorn.io/v1beta2")]), NAMES[:1]),
        (listed([]), []),
        (listed([], "NodeList"), []),
        (listed(None), []),
        ({"kind": "List", "items": [], "metadata": {"items": [1]}}, []),
        (listed([node('"items": [')]), ['"items": [']),
        (listed([node("节点-é-😀")]), ["节点-é-😀"]),
        (
            f'{{"kind": "List", "items": [{json.dumps(HEALTHY[0])}], "items": [{json.dumps(HEALTHY[1])}]}}',
            NAMES[1:2],
        ),
        (f'{{"kind": "List", "items": [5], "items": [{json.dumps(HEALTHY[1])}]}}', NAMES[1:2]),
        (f'{{"kind": "List", "items": [{json.dumps(HEALTHY[1])}], "items": null}}', []),
        (f'{{"kind": "PodList", "items": [{json.dumps(HEALTHY[1])}], "kind": "List"}}', NAMES[1:2]),
        (' \r\n\t{"items":[ ] ,"kind":"List"}\r\n \n', []),
    ],
)
def test_reads(write, content, expected):
    assert names(write(content)) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_reads_encodings(write, encoding):
    text = json.dumps(listed(HEALTHY + [node("节点😀")]), indent=4, ensure_ascii=False).replace("\n", "\r\n")
    assert names(write(text, encoding)) == NAMES + ["节点😀"]


def test_reads_utf16_big_endian_with_mark(write):
    assert names(write(b"\xfe\xff" + json.dumps(listed(HEALTHY)).encode("utf-16-be"))) == NAMES


def test_reads_from_a_pipe():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        stream.write(json.dumps(listed(HEALTHY)).encode())
    try:
        assert names("/dev/fd/%d" % reading) == NAMES
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    "content, words",
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("\ufeff", "it is empty"),
        ("hello", 'starts with "hello.*kubectl get nodes -o json'),
        ("apiVersion: v1\nitems:\n", "truncated"),
        ("[]", "starts with"),
        ("5", "starts with"),
        ("null", "starts with"),
        ("\x00\x01\x02\x03", "starts with"),
        (b"\x1f\x8b\x08\x00\xff\xff", "gzip data ends before its end"),
        (b'{"kind": "\xff"}', "no text in UTF-8"),
        ('{"kind": "List", "items": [', "truncated"),
        ('{"kind": "List", "items": []', "truncated"),
        ('{"kind": "Li', "truncated"),
        ("{", "truncated"),
        ('{"kind"', "truncated"),
        ('{"kind": "List", "x": tru', "truncated"),
        (json.dumps(listed(HEALTHY))[:-40], "truncated"),
        ('{"kind": "List", "items": []} {}', "it has no kind"),
        ('{"kind": "List", "items": []} x', 'follows the JSON object, at character 30: "x"'),
        ('{"kind": "List", "items": []}]', "follows"),
        ('{"kind": "List", "items": [,]}', "no JSON at character 27"),
        ('{"kind": "List", "items": [{},]}', "no JSON"),
        ('{"kind": "List", "items": [{} {}]}', "no JSON"),
        ('{"kind": "List",}', "no JSON"),
        ("{'kind': 'List'}", "no JSON"),
        ('{"kind" "List"}', "no JSON"),
        ("{kind: List}", "no JSON"),
        ('{"kind": "a\nb"}', "no JSON"),
        ('{"kind": "List", "items": [{"kind": "Node" "metadata": 5}]}', "no JSON at character 43"),
        ('{"kind": "List", "items": [], "x": NaN}', "NaN is no JSON number"),
        ('{"kind": "List", "items": [-Infinity]}', "Infinity is no JSON number"),
        ('{"kind": "List", "items": [%s]}' % ("[" * 200000), "nested too deeply"),
        ('{"a":' * 200000, "nested too deeply"),
        ({}, "it has no kind"),
        ({"kind": 5}, "it has no kind"),
        ({"kind": ""}, "it has no kind"),
        ({"items": []}, "no kind"),
        (listed([], "PodList"), "of kind PodList, expected"),
        (listed([pod()], "PodList"), "of kind PodList"),
        (pod(), "of kind Pod, expected"),
        ({"kind": "Status", "code": 403}, "of kind Status"),
        (dict(HEALTHY[0], apiVersion="longhorn.io/v1"), "of kind Node of longhorn.io/v1, expected"),
        (listed([pod(), pod()]), "none of its 2 items is a Node"),
        ({"kind": "List"}, "no array of items"),
        ({"kind": "List", "items": {}}, "no array of items"),
        (listed("x"), "no array of items"),
        (listed([HEALTHY[0], 5]), r"items\[1\] must be an object, not a number"),
        (listed([None]), r"items\[0\].*null"),
        (listed([{"metadata": {"name": "x"}}]), r"items\[0\] of the List has no kind"),
        ({"items": [{}]}, r"items\[0\] of the List has no kind"),
        ({"items": [pod()]}, "none of its 1 items is a Node"),
        ({"items": [5]}, "must be an object"),
        ({"metadata": {"name": "x"}}, "no kind"),
        (bare(pod()), "of kind Pod, expected"),
        (listed([{"kind": 5}]), "kind must be a string"),
        (listed([dict(HEALTHY[0], apiVersion=1), *HEALTHY]), "apiVersion must be a string"),
        (listed([{"kind": "Node"}]), r"items\[0\] is a Node without a name"),
        (listed([node("")]), "without a name"),
        (listed([node(5)]), "without a name"),
        (listed([node(" ")]), "without a name"),
        (listed([{"kind": "Node", "metadata": []}]), "without a name"),
        ({"kind": "Node"}, "the object is a Node without a name"),
        (
            listed([{"kind": "Node", "metadata": {"name": "x", "labels": []}}]),
            "Node x: metadata.labels must be an object",
        ),
        (listed([node("x", status="Ready")]), "status must be an object, not a string"),
        (listed([node("x", "container", [1])]), "status.allocatable must be an object, not an array"),
        (listed([node("x", "container", {}, True)]), "status.capacity must be an object, not a boolean"),
    ],
)
def test_refuses(write, content, words):
    path = write(content)
    with pytest.raises(Unreadable, match=words) as caught:
        names(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < len(str(path)) + 250


def test_a_very_long_number_is_refused_or_read(write):
    # Python releases differ in whether they read numbers of more than 4300 digits.
    path = write('{"kind": "List", "items": [], "x": %s}' % ("9" * 10000))
    try:
        assert names(path) == []
    except Unreadable as error:
        assert "no usable JSON" in str(error)


@pytest.mark.parametrize(
    "path, words",
    [
        ("/no/such/file", "No such file"),
        ("a\0b", "null"),
    ],
)
def test_refuses_paths(path, words):
    with pytest.raises(Unreadable, match=words):
        names(path)


def test_refuses_what_it_may_not_read(write):
    path = write(listed(HEALTHY))
    path.chmod(0)
    if os.access(str(path), os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(Unreadable, match="Permission denied"):
        names(path)


def test_reads_pods(write):
    assert names(write(listed([pod("a"), pod("b")], "PodList")), "Pod") == ["a", "b"]
    with pytest.raises(Unreadable, match="expected a List, PodList or Pod"):
        names(write(HEALTHY[0]), "Pod")


def test_one_giant_item_is_not_quadratic():
    data = json.dumps(listed([node("x", annotations=["%08d" % number for number in range(50000)])])).encode()
    text = json_dump.Text(io.BytesIO(data), 1024)
    scan, scanned = text._scan, []

    def counting(held, start):
        scanned.append(len(held) - start)
        return scan(held, start)

    text._scan = counting
    assert len(read_text(text)) == 1
    assert sum(scanned) < 4 * len(data)


@pytest.mark.parametrize("chunk", range(1, 80))
def test_reads_values_that_chunks_cut(chunk):
    text = (
        '{{"a": 12345, "b": -1.25, "c": 1.5e-10, "d": 2E+5, "e": true, "f": null, "g": "\\ud83d\\ude00\\"\\\\", "h": "é",'
        ' "items": [{}, {}]   , "kind": "List"   }}   '.format(*tuple(json.dumps(one) for one in HEALTHY[:2]))
    )
    assert streamed(text.encode("utf-8"), chunk) == HEALTHY[:2]
    assert streamed(text.encode("utf-16"), chunk) == HEALTHY[:2]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ITEMS = VALUES | st.builds(node, st.text(max_size=4), st.sampled_from(["container", None]), x=VALUES) | st.just(pod())
PAIRS = st.lists(
    st.tuples(st.just("items"), st.lists(ITEMS, max_size=3) | VALUES)
    | st.tuples(st.text(max_size=3), VALUES)
    | st.tuples(st.just("kind"), st.sampled_from(["List", "NodeList", "PodList", "Node"])),
    max_size=5,
)


@st.composite
def documents(draw):
    """JSON objects with keys that repeat, in one of the forms people write."""
    indent = draw(st.sampled_from([None, 1, 4]))
    pairs = draw(PAIRS)
    if draw(st.booleans()):
        pairs.append(("kind", draw(st.sampled_from(["List", "NodeList"]))))
    ascii_only = draw(st.booleans()) or any("\ud800" <= one <= "\udfff" for one in repr(pairs))
    texts = [
        "{}: {}".format(*tuple(json.dumps(part, indent=indent, ensure_ascii=ascii_only) for part in pair))
        for pair in pairs
    ]
    return "{" + draw(st.sampled_from([",", " , ", ",\r\n"])).join(texts) + "}"


@settings(max_examples=120, deadline=None)
@given(documents(), st.integers(1, 40), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le"]))
def test_reads_what_json_load_reads_in_any_chunks(text, chunk, encoding):
    assert streamed(text.encode(encoding), chunk) == loaded(text)


@settings(max_examples=120, deadline=None)
@given(documents(), st.integers(1, 40), st.data())
def test_damaged_text_is_refused_where_json_load_refuses_it(text, chunk, data):
    place = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 2))
    damaged = text[:place] + data.draw(st.text(alphabet='{}[]",:0e-. \\utx', max_size=2)) + text[place + length :]
    if not damaged.startswith("{"):
        return
    assert streamed(damaged.encode("utf-8"), chunk) == loaded(damaged)
