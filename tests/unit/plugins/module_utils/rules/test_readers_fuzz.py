# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever bytes come in, reading ends soon, raises nothing and says one line."""

import gzip
import io
import json
import tarfile

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import describe_dump, inputs, json_dump, yaml_dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import (
    Collector,
    Documents,
    Unreadable,
    Unwanted,
    collect,
)
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, listed, node, pod
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.test_describe_dump import DESCRIBED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LIMITS = settings(max_examples=60, deadline=3000, suppress_health_check=[HealthCheck.function_scoped_fixture])


def tarred(files):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()


NODES = json.dumps(listed(HEALTHY)).encode()
YAML = yaml.safe_dump_all([listed([HEALTHY[0], pod()]), node("x", a=[{"b": None}, 1.5, True, "- x"])]).encode()
TAR = tarred({"a/%s.json" % ("x" * 120): NODES, "b.yaml": YAML, "c": gzip.compress(DESCRIBED.encode())})
VALID = {
    "json": NODES,
    "json lines": NODES + b"\n" + json.dumps(node()).encode(),
    "utf-16": NODES.decode().encode("utf-16"),
    "yaml": YAML,
    "yaml list": yaml.safe_dump(listed(HEALTHY)).encode(),
    "yaml with anchors": b"kind: List\nitems:\n- &a {kind: Node, metadata: &m {name: x}}\n- {kind: Node, metadata: *m}\n- *a\n",
    "describe": (DESCRIBED + "\n\n" + DESCRIBED).encode(),
    "gzip": gzip.compress(NODES, mtime=0),
    "tar": TAR,
    "tar.gz": gzip.compress(TAR, mtime=0),
}
TOKENS = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b":",
        b",",
        b"\n",
        b"\n\n",
        b"- ",
        b"&a ",
        b"*a",
        b"!!int ",
        b"---\n",
        b"? ",
        b"<<: ",
        b"|",
        b">",
        b"#",
        b"%",
    ]
    + [
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        "😀".encode(),
        b"\t",
        b"\\u",
        b"\\ud800",
        b"1e999",
        b"NaN",
        b"-",
        b"Name:  x\n",
        b"System Info:\n",
    ]
    + [
        b"Capacity:\n",
        b"kind: ",
        b'"items":',
        b'"kind":"Pod",',
        b"\x1f\x8b\x08\0",
        b"ustar\0",
        b"7777777",
        b"\x80",
        b"\r\n",
        b"[" * 300,
    ]
)


def check(path, data):
    """Read bytes from a file, by its own name and out of a folder."""
    path.write_bytes(data)
    for given_path in (path, path.parent):
        taken = []
        takers = {"Node": lambda item, source, taken=taken: taken.append(source), "Pod": lambda item, source: None}
        sources = inputs.read_inputs([str(given_path)], takers, max_size=1 << 24)
        for source in sources:
            assert sum([bool(source.error), bool(source.left_out), bool(source.complaint)]) <= 1
            assert "\n" not in source.left_out and "Traceback" not in source.error
            assert len(source.error) < 400
            assert not source.given or not source.left_out
        assert sum(source.counts.get("Node", 0) for source in sources) == len(taken)
    return sources


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "nodes.txt"


@LIMITS
@given(st.binary(max_size=600))
def test_any_bytes(path, data):
    check(path, data)


@LIMITS
@given(
    st.lists(TOKENS, max_size=40).map(b"".join), st.sampled_from([b"", b"{", b"kind: List\n", b"Name:  x\nRoles:  y\n"])
)
def test_any_tokens(path, data, begin):
    check(path, begin + data)


@st.composite
def damage(draw):
    """Damage a valid dump in some places."""
    data = VALID[draw(st.sampled_from(sorted(VALID)))]
    for _change in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 3) | st.integers(0, len(data)))
        data = data[:place] + draw(TOKENS | st.just(b"") | st.binary(max_size=4)) + data[place + removed :]
    return data


@settings(LIMITS, max_examples=250)
@given(damage())
def test_damaged_dumps(path, data):
    check(path, data)


@pytest.mark.parametrize("name", sorted(VALID))
def test_dumps_that_were_cut(path, name):
    """A dump that was cut is an error, or what is left of it can be told to be whole."""
    data = VALID[name]
    for cut in range(1, len(data), max(1, len(data) // 60)):
        sources = check(path, data[:cut])
        # An object in YAML, or a list that begins with its kind, may end after any line.
        if name in ("json", "utf-16", "yaml list"):
            assert sources[-1].error or sources[-1].complaint or sources[-1].left_out, cut


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(LIMITS, max_examples=100)
@given(st.lists(PLAIN, max_size=4), st.booleans(), st.sampled_from(["utf-8", "utf-16"]))
def test_yaml_means_what_was_written(values, flow, encoding):
    nodes = [node("n", spec={"value": value}) for value in values]
    text = yaml.safe_dump(listed(nodes), default_flow_style=flow, allow_unicode=True)
    documents = Documents(lambda: Collector("Node", dict))
    yaml_dump.read_yaml(json_dump.Text(io.BytesIO(text.encode(encoding))), documents)
    assert documents.results == yaml.safe_load(text)["items"]


def outcome(read, data):
    documents = Documents(lambda: Collector("Node", dict))
    try:
        read(json_dump.Text(io.BytesIO(data)), documents)
    except (Unreadable, ValueError):
        return None
    return documents.results


@settings(LIMITS, max_examples=150)
@given(st.data())
def test_yaml_that_was_changed_means_what_safe_load_makes_of_it(data):
    place = data.draw(st.integers(0, len(YAML)))
    piece = data.draw(st.text(alphabet="-: \n[]{}&*!#|>'\"a1,?", max_size=3)).encode()
    changed = YAML[:place] + piece + YAML[place + data.draw(st.integers(0, 2)) :]
    found = outcome(yaml_dump.read_yaml, changed)
    if found is None:
        return
    expected = []
    # libyaml, which reads where it is there, takes some forms that PyYAML's own scanner refuses.
    for loaded in yaml.load_all(changed, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        try:
            expected += collect(loaded, "Node", dict) if loaded is not None else []
        except Unwanted:
            continue
    if not all(
        isinstance(key, str)
        for one in expected
        for part in one["metadata"].values()
        if isinstance(part, dict)
        for key in part
    ):
        return  # a key is read as it is written, and SafeLoader may take it for a number or nothing
    assert [one["metadata"] for one in found] == [one["metadata"] for one in expected]


@settings(LIMITS, max_examples=100)
@given(st.data())
def test_descriptions_that_were_changed(data):
    lines = DESCRIBED.splitlines(keepends=True)
    for _change in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(lines)))
        lines[place : place + data.draw(st.integers(0, 3))] = (
            data.draw(st.lists(st.sampled_from(lines), max_size=2)) if lines else []
        )
    outcome(describe_dump.read_described, "".join(lines).encode())
