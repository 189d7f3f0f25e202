# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Descriptions of nodes, of which the text below is what kubectl 1.37 printed."""

import io

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import describe_dump, json_dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import (
    Collector,
    Documents,
    NotObjects,
    Unreadable,
)

DESCRIBED = """\
Name:               n1
Roles:              worker
Labels:             a=b
                    empty=
                    nvidia.com/gpu.workload.config=vm-vgpu
Annotations:        empty:\x20
                    json:
                      {"a":
                       "b"}
                    long:
                      vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv...
                    multi:
                      line1
                      Name: other
                      key: v
                    short: x: y
CreationTimestamp:  Mon, 01 Jan 2024 00:00:00 +0000
Taints:             c:NoExecute
                    a=b:NoSchedule
Unschedulable:      true
Lease:
  HolderIdentity:  n1
  AcquireTime:     <unset>
Conditions:
  Type            Status   LastHeartbeatTime                 LastTransitionTime                Reason  Message
  ----            ------   -----------------                 ------------------                ------  -------
  MemoryPressure  False    Mon, 01 Jan 2024 00:00:00 +0000   Mon, 01 Jan 2024 00:00:00 +0000   K       fine
  Ready           Unknown  Mon, 01 Jan 2024 00:00:00 +0000   Mon, 01 Jan 2024 00:00:00 +0000   K       several
Name:   lines
of text
Addresses:
  Hostname:  n1
Capacity:
  cpu:                     64
  memory:                  1Gi
  nvidia.com/GA102GL_A10:  2
  nvidia.com/gpu:          0
Allocatable:
  cpu:                     63500m
  nvidia.com/GA102GL_A10:  2
System Info:
  Machine ID:                 m
  OS Image:\x20\x20\x20
PodCIDR:                      10.0.0.0/24
Non-terminated Pods:          (0 in total)
  Namespace                   Name    CPU Requests  CPU Limits  Memory Requests  Memory Limits  Age
  ---------                   ----    ------------  ----------  ---------------  -------------  ---
Allocated resources:
  (Total limits may be over 100 percent, i.e., overcommitted.)
  Resource                Requests  Limits
  --------                --------  ------
  cpu                     0 (0%)    0 (0%)
Events:
  Type     Reason  Age  From  Message
  ----     ------  ---  ----  -------
  Warning  R       5d   c     hello
Capacity:
  nvidia.com/gpu:  99
"""
BARE = """\
Name:               bare
Roles:              <none>
Labels:             <none>
Annotations:        <none>
CreationTimestamp:  Mon, 01 Jan 0001 00:00:00 +0000
Taints:             <none>
Unschedulable:      false
Lease:              Failed to get lease:\x20
Addresses:
System Info:
  Machine ID:                \x20
"""
POD = "Name:             p\nNamespace:        default\nPriority:         0\nNode:             n1/10.0.0.1\nContainers:\n  c:\n"
SECOND = DESCRIBED.replace("n1", "n2")


def read(text):
    documents = Documents(lambda: Collector("Node", dict))
    describe_dump.read_described(json_dump.Text(io.BytesIO(text.encode())), documents)
    return documents.results


def names(text):
    return [one["metadata"]["name"] for one in read(text)]


def test_reads_what_the_text_tells():
    assert read(DESCRIBED) == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "n1",
                "labels": {"a": "b", "empty": "", "nvidia.com/gpu.workload.config": "vm-vgpu"},
                "annotations": {
                    "empty": "",
                    "json": '{"a":\n"b"}',
                    "long": "v" * 46 + "...",
                    "multi": "line1\nName: other\nkey: v",
                    "short": "x: y",
                },
            },
            "spec": {
                "taints": [
                    {"key": "c", "effect": "NoExecute"},
                    {"key": "a", "effect": "NoSchedule", "value": "b"},
                ],
                "unschedulable": True,
            },
            "status": {
                "capacity": {"cpu": "64", "memory": "1Gi", "nvidia.com/GA102GL_A10": "2", "nvidia.com/gpu": "0"},
                "allocatable": {"cpu": "63500m", "nvidia.com/GA102GL_A10": "2"},
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}],
            },
        }
    ]


def test_reads_a_node_of_which_nothing_is_known():
    assert read(BARE) == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "bare", "labels": {}, "annotations": {}},
            "spec": {"taints": [], "unschedulable": False},
            "status": {"capacity": {}, "allocatable": {}, "conditions": []},
        }
    ]


@pytest.mark.parametrize("between", ["\n\n", "", "\n$ kubectl describe node n2\n"])
def test_reads_several(between):
    assert names(DESCRIBED + between + SECOND + between + BARE) == ["n1", "n2", "bare"]


def indented(before, text=DESCRIBED):
    return "".join(before + line for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    "text",
    [
        "$ kubectl describe node n1\nhello: x\n" + DESCRIBED,
        "Hello,\n\nhere it is:\n\n" + indented("    "),
        indented("> "),
        indented("\t"),
        indented("> > ").replace("> > \n", ">>\n"),
        DESCRIBED.replace("\n", "\r\n"),
        DESCRIBED.replace("\n", "   \t\n"),
        DESCRIBED.replace("                    ", "\t\t    ").replace("  nvidia", "\tnvidia"),
        POD + "\n" + DESCRIBED + "\n" + POD,
    ],
)
def test_reads_what_mail_and_terminals_make_of_it(text):
    assert describe_dump.looks_described(text)
    assert read(text) == read(DESCRIBED)


def test_every_cut_is_noticed_before_the_last_that_is_read():
    end = DESCRIBED.index("System Info:") + len("System Info:")
    for cut in range(DESCRIBED.index("Labels:"), end):
        with pytest.raises(Unreadable, match='"n1" ends before its end: is it truncated'):
            read(DESCRIBED[:cut])
        with pytest.raises(Unreadable, match='"n1" ends before its end: is it truncated'):
            read(SECOND + "\n" + DESCRIBED[:cut])
        with pytest.raises(Unreadable, match='"n1" ends before its end: is it truncated'):
            read(DESCRIBED[:cut] + "\n\n" + SECOND)
    assert read(DESCRIBED[:end]) == read(DESCRIBED)


@pytest.mark.parametrize(
    "text, words",
    [
        (POD, "it describes a Pod, not a node"),
        ("Name:  d\nSelector:  a=b\nLabels: x=y\nDesired Number of Nodes Scheduled: 1\n", "a DaemonSet, not a node"),
        ("Name:  d\nNamespace: x\nLabels: x=y\nReplicas: 1\n", "a Deployment, not a node"),
        (
            "Name:  c\nNamespace:\nLabels: <none>\nAPI Version: nvidia.com/v1\nKind: ClusterPolicy\n",
            "of kind ClusterPolicy",
        ),
        ("Name:  pv\nLabels: <none>\nCapacity: 5Gi\n", "something else, not a node"),
    ],
)
def test_other_objects_are_no_nodes(text, words):
    assert describe_dump.looks_described(text)
    with pytest.raises(NotObjects, match=words) as caught:
        read(text)
    assert not caught.value.suspicious


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("a=b\n", "a\n", 'has "a" among its labels'),
        ("  cpu:                     64\n", "  cpu\n", 'has "cpu" in Capacity'),
        ("of text\n", "Capacity:\n  nvidia.com/gpu:  9\n", "has two sections Capacity"),
        ("a=b\n", "a=%s\n" % ("b" * (9 << 20)), "larger than 8 MiB"),
        ("a=b\n", "a=b\n" * 200000, "larger than 8 MiB"),
    ],
)
def test_refuses(old, new, words):
    with pytest.raises(Unreadable, match=words):
        read(DESCRIBED.replace(old, new, 1))


@pytest.mark.parametrize(
    "text", ["", "hello", "Name: x", "Name: x\nversion: y\n", "kind: Node\n", "NAME  STATUS\nn1  Ready\n"]
)
def test_does_not_look_described(text):
    assert not describe_dump.looks_described(text)
