# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of the records, made from what the API answered."""

import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.filter.records import outdated_files
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.records import (
    check_failures,
    check_records,
    node_lines,
    placement_records,
    resource_lines,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.requests import request_pods

LABEL = "nvidia.com/gpu.workload.config"


def asked(name, **more):
    return {"name": name, "resources": {"nvidia.com/gpu": 1}, **more}


def answer(pod, node=None, phase="Running", message=""):
    return {"pod": pod, "node": node, "phase": phase, "message": message}


def contents(requests, *answers):
    return {record["path"]: record["content"] for record in placement_records(request_pods(requests), list(answers))}


def test_node_lines_ascend_and_say_none_without_a_label():
    nodes = [
        {"name": "b", "after": {LABEL: "vm-vgpu"}},
        {"name": "a", "after": {"zone": "x"}},
        {"name": "a.1", "after": {LABEL: ""}},
    ]
    assert node_lines(nodes) == ["a none", "a.1 none", "b vm-vgpu"]
    assert node_lines([]) == []


def test_node_lines_of_nodes_that_are_still_to_be_made():
    assert node_lines([{"name": "b", "after": {LABEL: "x"}}], [{"name": "a", "labels": {LABEL: "container"}}]) == [
        "a container",
        "b x",
    ]


def test_resource_lines_hold_one_prefix():
    nodes = [
        {
            "name": "b",
            "after": {"allocatable": {"nvidia.com/gpu": 2000, "amd.com/gpu": 1}, "capacity": {"nvidia.com/other": 1}},
        },
        {"name": "a", "after": {"allocatable": {"nvidia.com/b": 0, "nvidia.com/a": 1}}},
    ]
    assert resource_lines(nodes, "nvidia.com/") == ["a nvidia.com/a 1", "a nvidia.com/b 0", "b nvidia.com/gpu 2000"]
    assert resource_lines([], "nvidia.com/", [{"name": "c", "resources": {"nvidia.com/gpu": 4, "x.y/z": 1}}]) == [
        "c nvidia.com/gpu 4"
    ]


def test_fields_of_a_placed_pod():
    request = asked(
        "r",
        resources={"nvidia.com/b": 1, "nvidia.com/a": 2},
        record={"file": "f.txt", "fields": ["NODE", "RESOURCE", "PHASE", "MESSAGE"]},
    )
    assert contents([request], answer("r", "n")) == {
        "out/f.txt": ["NODE=n", "RESOURCE=nvidia.com/a,nvidia.com/b", "PHASE=Running", "MESSAGE=none"]
    }


def test_fields_of_a_waiting_pod_keep_the_message_on_one_line():
    request = asked("r", record={"file": "f.txt", "fields": ["PHASE", "NODE", "MESSAGE"]})
    assert contents([request], answer("r", None, "Pending", "0/3 nodes:\n 1  Insufficient")) == {
        "out/f.txt": ["PHASE=Pending", "NODE=none", "MESSAGE=0/3 nodes: 1 Insufficient"]
    }


def test_fields_of_several_pods_follow_each_other():
    assert contents(
        [asked("r", count=2, record={"file": "f", "fields": ["NODE"]})], answer("r-1", "b"), answer("r-0", "a")
    ) == {"out/f": ["NODE=a", "NODE=b"]}


def test_placements_ascend_and_name_pods_or_whole_requests():
    requests = [asked("z"), asked("r", count=2), asked("a", record={"file": "f", "placements": ["z", "r", "r-0", "a"]})]
    lines = contents(requests, answer("z", "n1"), answer("r-0", "n2"), answer("r-1"), answer("a", "n3"))["out/f"]
    assert lines == ["a n3", "r-0 n2", "r-1 none", "z n1"]


def test_no_record_for_pods_that_are_not_there_yet():
    assert contents([asked("r", record={"file": "f", "fields": ["NODE"]}), asked("s")], answer("s", "n")) == {}


def report(path, text="OK=1", error="", findings=(), **more):
    return {
        "path": path,
        "profile": "lab",
        "fail_on": "error",
        "exit_code": 2 if error else int(bool(findings)),
        "text": text,
        "error": error,
        "findings": [{"subject": {"name": name}, "severity": "error", "rule": "no-resource"} for name in findings],
        "outputs": {"text": error or text},
        **more,
    }


def test_check_records_are_named_after_the_path():
    records = check_records([report("/tmp/a b.json"), report("dumps/ä.json", "", "dumps/ä.json: is empty")])
    assert records == [
        {"path": "out/checks/_tmp_a b.json.txt", "content": "OK=1"},
        {"path": "out/checks/dumps_ä.json.txt", "content": "dumps/ä.json: is empty"},
    ]


def test_check_records_of_several_formats_end_by_their_format():
    outputs = {"text": "OK=1", "json": "{}", "junit": "<testsuites/>", "github": ""}
    assert [record["path"] for record in check_records([report("a", outputs=outputs)])] == [
        "out/checks/a.txt",
        "out/checks/a.json",
        "out/checks/a.xml",
        "out/checks/a.github.txt",
    ]


def test_check_records_of_paths_that_share_a_name():
    names = [record["path"] for record in check_records([report("a/b"), report("a_b"), report("a_b-2"), report("a/b")])]
    assert names == ["out/checks/a_b.txt", "out/checks/a_b-2.txt", "out/checks/a_b-2-2.txt", "out/checks/a_b-3.txt"]


@pytest.mark.parametrize("path", ["/" + "x/" * 300 + "end.json", "é" * 300 + "end.json"])
def test_a_long_name_keeps_its_end_and_fits_a_file_system(path):
    first, second = check_records([report(path), report(path)])
    name = first["path"].rpartition("/")[2]
    assert name.endswith("end.json.txt")
    assert max(len(record["path"].rpartition("/")[2].encode()) for record in (first, second)) <= 255
    assert first["path"] != second["path"]


def test_check_failures_name_every_bad_node_of_every_file():
    reports = [
        report("good"),
        report("bad", findings=["n1", "n2\x1b[31m"]),
        report("gone", error="gone: cannot be read"),
    ]
    assert check_failures(reports) == ["bad: label and resources disagree on n1, n2\\x1b[31m", "gone: cannot be read"]
    assert check_failures([report("good")]) == []


def test_check_failures_by_the_profile_operator_name_the_rule():
    findings = [
        {"subject": {"name": name}, "severity": severity, "rule": rule}
        for name, severity, rule in [
            ("n2", "error", "wrong-resource"),
            ("n1", "warning", "unhealthy-device"),
            ("n1", "error", "wrong-resource"),
            ("n3", "info", "operand-off"),
        ]
    ]
    bad = report("f", profile="operator", exit_code=1, findings=[])
    assert check_failures([{**bad, "findings": findings}]) == ["f: wrong-resource on n[1:2]"]
    assert check_failures([{**bad, "findings": findings, "fail_on": "warning"}]) == [
        "f: unhealthy-device on n1",
        "f: wrong-resource on n[1:2]",
    ]


def test_outdated_files_are_those_that_nobody_asks_for_any_more(tmp_path):
    earlier = tmp_path / "requests.json"
    earlier.write_text(
        json.dumps(
            [asked("a", record={"file": "a.txt", "fields": ["NODE"]}), asked("b", manifest="m.yaml"), asked("c")]
        )
    )
    assert outdated_files(str(earlier), request_pods([asked("d", manifest="m.yaml"), asked("c")])) == [
        "k8s/pod-a.yaml",
        "out/a.txt",
    ]
    assert outdated_files(str(earlier), []) == ["k8s/pod-a.yaml", "k8s/m.yaml", "k8s/pod-c.yaml", "out/a.txt"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "5", "null", "{}", "[5]", '[{"name": "../x", "resources": {"a/b": 1}}]', '[{"name": "x"}]', b"\xff\xfe"],
)
def test_an_unreadable_memory_removes_nothing(tmp_path, text):
    earlier = tmp_path / "requests.json"
    earlier.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert outdated_files(str(earlier), []) == []
    assert outdated_files(str(tmp_path / "none"), []) == outdated_files(str(tmp_path), []) == []
