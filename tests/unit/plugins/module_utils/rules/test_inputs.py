# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import bz2
import gzip
import io
import json
import lzma
import os
import sys
import tarfile
import threading
import tracemalloc

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import inputs
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.dump import read_dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, listed, node, pod
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.test_describe_dump import DESCRIBED, POD

KINDS = ("Node", "Pod", "ClusterPolicy", "GPUCluster", "NVIDIADriver", "DaemonSet", "Deployment", "ResourceSlice")
POLICY = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "policy"}}
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "set"}}
NODES = json.dumps(listed(HEALTHY)).encode()
THREE = ["lab-node-0", "lab-node-1", "lab-node-2"]
COMPLAINT = "expected a List, NodeList or Node"


class Read:
    """What read_inputs made of paths."""

    def __init__(self, *paths, **more):
        self.taken = []
        takers = {kind: self._taker(kind) for kind in more.pop("kinds", KINDS)}
        self.sources = inputs.read_inputs([str(path) for path in paths], takers, **more)

    def _taker(self, kind):
        return lambda item, source: self.taken.append((kind, item["metadata"]["name"], source))

    @property
    def names(self):
        return [name for _kind, name, _source in self.taken]

    @property
    def only(self):
        (source,) = self.sources
        return source

    def by_name(self, attribute):
        return {one.place[-1]: getattr(one, attribute) for one in self.sources if getattr(one, attribute)}


@pytest.fixture
def write(tmp_path):
    def write_one(content, name="nodes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_one


def tarred(files, mode="w"):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()


YAML = yaml.safe_dump(listed(HEALTHY)).encode()
FORMS = [
    (NODES, "json", THREE),
    (NODES + b"\n" + json.dumps(node("x")).encode() + b"\r\n", "json", [*THREE, "x"]),
    (YAML, "yaml", THREE),
    (yaml.safe_dump_all([node("x"), node("y")]).encode("utf-16"), "yaml", ["x", "y"]),
    (DESCRIBED.encode(), "describe", ["n1"]),
    ("\ufeff".encode() + DESCRIBED.encode(), "describe", ["n1"]),
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("content, form, names", FORMS)
def test_forms_are_told_by_content(write, content, form, names, pack):
    read = Read(write(pack(content)))
    assert read.names == names
    only = read.only
    assert (only.form, only.counts, only.given) == (form, {"Node": len(names)}, True)
    assert (only.complaint, only.error, only.left_out) == ("", "", "")
    assert only.place == (only.path,)
    assert all(source is only for _kind, _name, source in read.taken)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["tar", "tar.gz"])
def test_archives(write, pack):
    files = {"./must-gather/%d" % number: one[0] for number, one in enumerate(FORMS)}
    files["must-gather/z.json.gz"] = gzip.compress(NODES)
    files["must-gather/.hidden/x"] = b"{"
    path = write(pack(tarred(files)))
    read = Read(path)
    assert read.names == [name for one in FORMS for name in one[2]] + THREE
    assert [one.form for one in read.sources] == [one[1] for one in FORMS] + ["json"]
    assert not any(one.given or one.error for one in read.sources)
    assert read.sources[0].path == f"{path}:./must-gather/0"
    assert read.sources[0].place == (str(path), "must-gather", "0")


@pytest.mark.parametrize("content, form, names", FORMS)
def test_standard_input(monkeypatch, write, content, form, names):
    with open(str(write(content)), "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        read = Read("-")
    assert (read.names, read.only.form, read.only.path, read.only.place) == (names, form, "-", ("-",))


def test_standard_input_that_is_no_file(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(YAML)))
    assert Read("-").names == THREE
    assert "it is empty" in Read("-").only.error


def test_without_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert Read("-").only.error == "there is no standard input"


def test_a_pipe():
    reading, writing = os.pipe()
    packed = gzip.compress(YAML)

    def trickle():
        with os.fdopen(writing, "wb", buffering=0) as stream:
            for place in range(len(packed)):
                stream.write(packed[place : place + 1])

    feeder = threading.Thread(target=trickle)
    feeder.start()
    try:
        assert Read("/dev/fd/%d" % reading).names == THREE
    finally:
        feeder.join()
        os.close(reading)


MIXED = listed([pod("p"), HEALTHY[0], POLICY, DAEMON_SET, {"kind": "Service"}, dict(POLICY, apiVersion="x/v1")])


@pytest.mark.parametrize(
    "content, counts, complaint",
    [
        (MIXED, {"Pod": 1, "Node": 1, "ClusterPolicy": 1, "DaemonSet": 1}, ""),
        (POLICY, {"ClusterPolicy": 1}, "it is of kind ClusterPolicy of nvidia.com/v1, " + COMPLAINT),
        (
            {"kind": "ClusterPolicy", "metadata": {"name": "x"}},
            {"ClusterPolicy": 1},
            "it is of kind ClusterPolicy, " + COMPLAINT,
        ),
        (dict(POLICY, apiVersion="x/v1"), {}, "it is of kind ClusterPolicy of x/v1, " + COMPLAINT),
        (pod(), {"Pod": 1}, "it is of kind Pod, " + COMPLAINT),
        (listed([pod("a"), pod("b")], "PodList"), {"Pod": 2}, "it is of kind PodList, " + COMPLAINT),
        (
            {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "x"}}]},
            {"Pod": 1},
            "it is of kind PodList, " + COMPLAINT,
        ),
        (listed([pod(), pod()]), {"Pod": 2}, "none of its 2 items is a Node"),
        (
            {"kind": "DaemonSetList", "apiVersion": "apps/v1", "items": [{"metadata": {"name": "x"}}]},
            {"DaemonSet": 1},
            "it is of kind DaemonSetList of apps/v1, " + COMPLAINT,
        ),
        (listed([]), {}, ""),
        (listed([], "NodeList"), {}, ""),
        ({"kind": "Status", "code": 403}, {}, "it is of kind Status, " + COMPLAINT),
    ],
)
def test_kinds(write, content, counts, complaint):
    for text in (json.dumps(content), yaml.safe_dump(content, sort_keys=False)):
        only = Read(write(text)).only
        assert (only.counts, only.complaint, only.error) == (counts, complaint, "")


def test_a_complaint_is_about_all_documents(write):
    texts = [json.dumps(one) for one in (pod(), node(), POLICY)]
    assert Read(write("\n".join(texts))).only.complaint == ""
    assert Read(write(texts[2] + texts[0])).only.complaint.startswith("it is of kind ClusterPolicy")


def test_one_kind_that_is_no_node(write):
    read = Read(write(listed([POLICY, pod()])), kinds=["ClusterPolicy"])
    assert (read.names, read.only.complaint) == (["policy"], "")
    assert (
        Read(write(listed([pod()])), kinds=["ClusterPolicy"]).only.complaint == "none of its 1 items is a ClusterPolicy"
    )


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("hello", 'it starts with "hello": expected JSON as `kubectl get nodes -o json` prints it, YAML'),
        ("<html>\n<body>", "it starts with"),
        ("a: b\n", "it starts with"),
        ("- kind: Node\n", "it starts with"),
        ("[]", "it starts with"),
        ("Unable to connect to the server: EOF", "it starts with"),
        (b"\0\1\2\3", "it starts with"),
        (b"a" * 5000 + b"\xff", "it is no text in UTF-8"),
        (b'{"kind": "\xed\xa0\x80"}', "it is no text in UTF-8"),
        (POD, "it describes a Pod, not a node"),
        (DESCRIBED[:900], "is it truncated"),
        (NODES[:-5], "is it truncated"),
        (YAML[:300], "is it truncated"),
        ("{}", "it has no kind"),
        ('{"level": "info"}\n{"level": "info"}', "it has no kind"),
        (NODES + b"x", "something follows the JSON object"),
        (NODES + b"{}", "it has no kind"),
        (gzip.compress(NODES)[:-9], "its gzip data ends before its end: is it truncated"),
        (gzip.compress(NODES) + b"x", "something follows its gzip data"),
        (gzip.compress(gzip.compress(NODES)), "an archive inside an archive"),
        (bz2.compress(NODES), "it is a bzip2 file; read are JSON, YAML"),
        (lzma.compress(NODES), "it is a xz file; read are"),
        (b"PK\3\4xxx", "it is a zip file; read are"),
        (tarred({"x": NODES})[:1000], "its archive is truncated"),
        (gzip.compress(tarred({}, "w")), "it starts with"),
        ('{"kind":"List","items":[%s],"items":[]}' % json.dumps(node()), "it has two arrays of items"),
        (
            '{"items":[%s],"kind":"PodList"}' % json.dumps(node()),
            "it is of kind PodList, expected a List, NodeList or Node",
        ),
        (
            '{"items":[%s],"kind":"Node"}' % json.dumps(node()),
            "it is of kind Node, yet it has items that are of kind Node",
        ),
        ('{"items":[%s],"kind":"Status"}' % json.dumps(node()), "it is of kind Status, expected"),
        ({"kind": "List", "items": [{"kind": "Pod"}]}, "is a Pod without a name"),
        (listed([node("x", status=5)]), "status must be an object"),
    ],
)
def test_refuses(write, text, words):
    read = Read(write(text))
    assert words in read.sources[-1].error
    assert len(read.sources[-1].error) < 200
    assert not any(one.complaint for one in read.sources)


def test_errors_of_paths(write):
    assert Read("/no/such/file").only.error == "cannot be read: No such file or directory"
    assert Read("").only.error == "expected the path of a file or folder"
    assert Read("a\0b").only.error == "cannot be read: its name has an embedded null byte"
    assert Read("a\ud800").only.error == "cannot be read: its name is no text"
    path = write(NODES)
    path.chmod(0)
    if not os.access(str(path), os.R_OK):
        assert Read(path).only.error == "cannot be read: Permission denied"


def must_gather(write, before=""):
    """Write what the GPU Operator's must-gather.sh leaves behind, and what else lies about."""
    one_yaml, cut = yaml.safe_dump(node("y")), json.dumps(node("c"))[:-9]
    for name, content in {
        "cluster_policy.yaml": yaml.safe_dump(listed([POLICY])),
        "gpu_nodes.descr": DESCRIBED,
        "gpu_nodes.labels": "NAME   STATUS   LABELS\nn1     Ready    a=b\n",
        "gpu_nodes.status": "NAME   STATUS   ROLES\nn1     Ready    <none>\n",
        "gpu_operator.log": '{"level":"info","kind":"x"}\n{"level":"info"}\nI0101 not JSON\n',
        "gpu_operand_pods.yaml": yaml.safe_dump(listed([pod("p")])),
        "gpu_operand_ds.yaml": yaml.safe_dump(listed([DAEMON_SET])),
        "gpu_operand_pod_x.descr": POD,
        "gpu_operand_pod_images.txt": "image: x\n",
        "nvidia-bug-report_n1.log.gz": gzip.compress(b"\n____\nStart of NVIDIA bug report\n" * 1000),
        "cut.log.gz": gzip.compress(b"some text")[:-12],
        "cluster_policy.missing": "",
        "empty.yaml": "",
        "values.yaml": "driver:\n  enabled: true\n",
        "package.json": '{"name": "x"}',
        "version": "v25.3.0\n",
        "binary": bytes(range(256)),
        "x.zip": b"PK\3\4",
        ".hidden.json": "{",
        ".git/x.json": "{",
        "sub/nodes.txt": NODES,
        "sub/y.yaml.gz": gzip.compress(one_yaml.encode()),
        "broken/cut.json": cut,
        "broken/cut.txt": cut,
        "broken/text.yml": "No resources found",
        "broken/a.json.gz": gzip.compress(NODES)[:-9],
        "broken/cut.descr": DESCRIBED[:900],
        "broken/bytes.txt": b'{"kind": "\xff"}',
        "broken/yaml.txt": b"kind: List\nitems: \xff",
        "broken/nodes.json.xz": lzma.compress(NODES),
    }.items():
        write(content, before + name)


BROKEN = {"cut.json", "cut.txt", "text.yml", "a.json.gz", "cut.descr", "bytes.txt", "yaml.txt", "nodes.json.xz"}
LEFT_OUT = {
    "gpu_nodes.labels": "no Kubernetes objects",
    "gpu_nodes.status": "no Kubernetes objects",
    "gpu_operator.log": "no Kubernetes objects",
    "gpu_operand_pod_x.descr": "describes a Pod",
    "gpu_operand_pod_images.txt": "no Kubernetes objects",
    "nvidia-bug-report_n1.log.gz": "no Kubernetes objects",
    "cut.log.gz": "its gzip data ends before its end: is it truncated?",
    "cluster_policy.missing": "empty",
    "empty.yaml": "empty",
    "values.yaml": "no Kubernetes objects",
    "package.json": "no Kubernetes objects",
    "version": "no Kubernetes objects",
    "binary": "no text",
    "x.zip": "a zip file",
}


def test_a_folder(tmp_path, write):
    must_gather(write)
    read = Read(tmp_path)
    assert [one[:2] for one in read.taken] == [
        ("ClusterPolicy", "policy"),
        ("Node", "n1"),
        ("DaemonSet", "set"),
        ("Pod", "p"),
        *(("Node", name) for name in THREE),
        ("Node", "y"),
    ]
    assert set(read.by_name("error")) == BROKEN
    assert read.by_name("left_out") == LEFT_OUT
    paths = [one.path for one in read.sources]
    assert paths == sorted(paths)
    assert not any(one.form for one in read.sources if one.left_out)
    assert read.taken[-1][2].place == (str(tmp_path), "sub", "y.yaml.gz")
    assert set(read.by_name("complaint")) == {"cluster_policy.yaml", "gpu_operand_ds.yaml", "gpu_operand_pods.yaml"}


def test_an_archive_of_a_folder_reads_the_same(tmp_path, write):
    must_gather(write, "mg/")
    names = Read(tmp_path).names
    with tarfile.open(str(tmp_path / "mg.tgz"), "w:gz") as tar:
        tar.add(str(tmp_path / "mg"), "mg")
    read = Read(tmp_path / "mg.tgz")
    assert sorted(read.names) == sorted(names)
    assert set(read.by_name("error")) == BROKEN
    assert read.by_name("left_out") == dict(LEFT_OUT, **{"x.zip": "an archive inside an archive"})
    # An archive in a folder is read too.
    assert sorted(Read(tmp_path).names) == sorted(names * 2)
    assert Read(tmp_path).taken[0][2].place[:3] == (str(tmp_path), "mg.tgz", "mg")


def test_an_archive_inside_an_archive(write):
    inner = tarred({"nodes.json": NODES})
    read = Read(write(tarred({"a.tar": inner, "b.tgz": gzip.compress(inner), "c": NODES})))
    assert read.names == THREE
    assert read.by_name("left_out") == {name: "an archive inside an archive" for name in ("a.tar", "b.tgz")}


def test_links_and_devices_of_a_folder(tmp_path, write):
    outside = write(NODES, "outside/nodes.json")
    write(NODES, "in/..data/nodes.json")
    write(json.dumps(node("b")), "in/b.json")
    folder = tmp_path / "in"
    for name, target in {
        "a.json": "..data/nodes.json",
        "c.json": "b.json",
        "loop": ".",
        "nothing": "nowhere",
        "self": "self",
        "out": outside,
        "zout": outside.parent,
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(str(folder / "fifo"))
    read = Read(folder)
    assert read.names == [*THREE, "b"]
    assert read.by_name("left_out") == {
        "c.json": "another name of what is read already",
        "loop": "another name of what is read already",
        "nothing": "a link to nothing",
        "self": "a link to nothing",
        "out": "a link out of the folder",
        "zout": "a link out of the folder",
        "fifo": "no regular file",
    }
    assert not read.by_name("error")
    # A link that was named itself is followed.
    assert Read(folder / "out").names == THREE
    assert Read(folder / "zout").names == THREE


def test_links_of_an_archive(tmp_path, write):
    write(NODES, "in/a.json")
    (tmp_path / "in" / "b.json").symlink_to("a.json")
    with tarfile.open(str(tmp_path / "x.tar"), "w") as tar:
        tar.add(str(tmp_path / "in"), "in")
        tar.add(str(write(NODES, "c")), "../c.json")
    read = Read(tmp_path / "x.tar")
    assert read.names == THREE
    assert read.by_name("left_out") == {"b.json": "a link", "c.json": 'a name with ".."'}


def test_an_empty_folder(tmp_path):
    assert Read(tmp_path).sources == []


def test_what_is_left_out_is_not_listed_without_end(write):
    read = Read(write(tarred({"f%d" % number: b"" for number in range(1500)})), write(NODES, "n"))
    assert read.names == THREE
    assert len([one for one in read.sources if one.left_out]) == 1001
    assert read.sources[-1].left_out == "500 more were left out"


def test_broken_files_end_the_reading(write):
    read = Read(write(tarred({"%d.json" % number: b"{" for number in range(1500)})), write(NODES, "n"))
    assert len(read.sources) == 1002
    assert read.sources[1000].error == "with it more than 1,000 files cannot be read, and no more are"
    assert read.names == THREE


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_limit_of_bytes_is_exact(write, pack):
    paths = [write(pack(NODES), "a"), write(pack(NODES), "b")]
    assert Read(*paths, max_size=2 * len(NODES)).names == THREE * 2
    read = Read(*paths, max_size=2 * len(NODES) - 1)
    assert not read.sources[0].error
    assert "more than %d bytes" % (2 * len(NODES) - 1) in read.sources[1].error
    assert "--max-size" in read.sources[1].error


def test_the_limit_of_bytes_ends_folders_and_archives(tmp_path, write):
    for name in "abcd":
        write(NODES, f"in/{name}.json")
    read = Read(tmp_path / "in", max_size=2 * len(NODES))
    assert [bool(one.error) for one in read.sources] == [False, False, True]
    path = write(tarred({f"{name}.json": NODES for name in "abcd"}), "x.tar")
    read = Read(path, tmp_path / "in", max_size=2 * len(NODES))
    assert ["--max-size" in one.error for one in read.sources] == [True, False, False, True]
    # What is unpacked counts, and reading ends within an archive.
    large = {f"{name}.json": NODES + b" " * (3 << 20) for name in "abcd"}
    path = write(gzip.compress(tarred(large)), "x.tgz")
    read = Read(path, tmp_path / "in", max_size=8 << 20)
    assert [one.path for one in read.sources if "--max-size" in one.error] == [
        f"{path}:c.json",
        str(tmp_path / "in" / "a.json"),
    ]
    assert read.names == THREE * 3


def test_bombs(write):
    path = write(gzip.compress(b'{"items":[' + b" " * (40 << 20)))
    tracemalloc.start()
    try:
        assert "--max-size" in Read(path, max_size=20 << 20).only.error
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "begin, piece, count, words",
    [
        ('{"items":["', "a" * 100000, 120, "larger than 8 MiB"),
        ('{"items":["', "😀" * 100000, 120, "larger than 8 MiB"),
        ('{"items":["', "\\n" * 100000, 120, "larger than 8 MiB"),
        ('{"items":[[', "{}," * 100000, 40, "more than 200,000 values"),
        ('{"items":[[', "0," * 100000, 40, "more than 200,000 values"),
        ("{", "".join('"k%06d":"%s",' % (one, "v" * 9000) for one in range(100)), 12, "larger than 8 MiB"),
        ("{", "".join('"k%d":{},' % one for one in range(20000)), 1, "more than 200,000 values"),
        ('{"kind":"', "a" * 100000, 120, "larger than 8 MiB"),
        ("Name:  x\nRoles:  y\nLabels:  ", "a" * 100000, 120, "larger than 8 MiB"),
    ],
)
def test_one_value_is_limited(write, begin, piece, count, words):
    path = write(begin + piece * count)
    tracemalloc.start()
    try:
        assert words in Read(path).only.error
        assert tracemalloc.get_traced_memory()[1] < 85 << 20
    finally:
        tracemalloc.stop()


def test_a_large_item_below_the_limit(write):
    item = node("x", annotations={"a": "b" * (7 << 20)})
    wide = node("x", annotations={"a": "😀" + "b" * (4 << 20)})
    assert Read(write(json.dumps(wide, ensure_ascii=False))).names == ["x"]
    assert Read(write(listed([item]))).names == ["x"]
    assert Read(write(json.dumps(item, indent=4))).names == ["x"]


def test_items_without_kind_wait_for_the_kind_of_their_list(tmp_path):
    deployment = {"metadata": {"name": "d"}, "spec": {}}
    for kind, version, item, taken in (
        ("DeploymentList", "apps/v1", deployment, ["d"]),
        ("NodeList", "v1", {"metadata": {"name": "n"}}, ["n"]),
        ("PodList", "v1", {"metadata": {"name": "p"}}, []),
    ):
        path = tmp_path / "sorted.json"
        path.write_text(json.dumps({"apiVersion": version, "items": [item], "kind": kind}))
        names = []
        takers = dict.fromkeys(
            ("Node", "Deployment"), lambda one, source, names=names: names.append(one["metadata"]["name"])
        )
        (source,) = inputs.read_inputs([str(path)], takers)
        assert (source.error, names) == ("", taken)
        assert bool(source.complaint) == (kind != "NodeList")


def test_a_node_list_may_hold_what_is_told_beside_nodes(tmp_path):
    path = tmp_path / "list.json"
    policy = {"kind": "ClusterPolicy", "apiVersion": "nvidia.com/v1", "metadata": {"name": "p"}}
    path.write_text(json.dumps({"kind": "NodeList", "items": [node(), policy]}))
    (source,) = inputs.read_inputs([str(path)], dict.fromkeys(("Node", "ClusterPolicy"), lambda one, source: None))
    assert source.error == "" and source.counts["Node"] == 1


def test_places_and_names_of_hostile_input_are_bounded(tmp_path):
    members = {"/".join(["a"] * 2000) + "/n.json": json.dumps(node()).encode()}
    path = tmp_path / "deep.tar"
    path.write_bytes(tarred(members, "w"))
    (source,) = inputs.read_inputs([str(path)], {"Node": lambda one, source: None})
    assert source.counts == {"Node": 1} and len(source.place) <= 32
    long = tmp_path / "long.json"
    long.write_text(json.dumps(node("x" * 10001)))
    (source,) = inputs.read_inputs([str(long)], {"Node": lambda one, source: None})
    assert source.error == "the object is a Node with a name of 10001 characters, of which 253 are allowed"


def deep(count):
    return "[" * count + "]" * count


def both(count):
    return '{"a":[' * (count // 2) + "[]" * (count % 2) + "]}" * (count // 2)


@pytest.mark.parametrize("levels, error", [(200, ""), (201, "it is nested too deeply, more than 200 levels")])
def test_depth_is_exact(write, levels, error):
    for text in (
        '{"kind":"List","items":[],"x":%s}' % deep(levels - 1),
        '{"kind":"List","items":[{"kind":"Service","x":%s}]}' % deep(levels - 3),
        '{"kind":"List","items":[%s]}' % both(levels - 2).replace("{", '{"kind":"x",', 1),
        '{"kind":"List","x":%s,"items":[]}' % both(levels - 1),
    ):
        assert Read(write(text)).only.error == error
    many = [node("x", many=[{} for _one in range(1000)], text="[{" * 1000)]
    assert Read(write(listed(many))).names == ["x"]


def test_progress(write):
    calls = []
    data = json.dumps(listed([node("n%d" % number) for number in range(30000)])).encode()
    path = write(data)
    read = Read(path, progress=lambda source, done, total: calls.append((source, done, total)))
    assert len(read.names) == 30000
    assert calls[-1][1:] == (len(data), len(data))
    assert [one[1] for one in calls] == sorted({one[1] for one in calls})
    assert len(calls) < len(data) / 100000 + 2
    assert all(one[0] is read.only for one in calls)


def test_read_dump_reads_what_a_path_stands_for(tmp_path, write):
    def names(path, kind="Node"):
        return read_dump(str(path), kind, lambda item: item["metadata"]["name"])

    write(NODES, "in/a.json")
    write(yaml.safe_dump(listed([pod("p"), node("y")])), "in/b.yaml")
    write("hello", "in/c.txt")
    assert names(tmp_path / "in") == [*THREE, "y"]
    assert names(tmp_path / "in" / "b.yaml", "Pod") == ["p"]
    assert names(tmp_path / "in", "Pod") == ["p"]
    with pytest.raises(Unreadable, match=r"a.json: none of its 3 items is a Pod"):
        names(tmp_path / "in" / "a.json", "Pod")
    with pytest.raises(Unreadable, match="of kind Node, expected a List, PodList or Pod"):
        names(write(DESCRIBED), "Pod")
    with pytest.raises(Unreadable, match="nothing in it is a dump"):
        names(write("x", "other/c.txt").parent)
    write("{", "in/d.json")
    with pytest.raises(Unreadable, match="in/d.json: it ends within the JSON"):
        names(tmp_path / "in")
