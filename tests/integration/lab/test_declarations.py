# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Own declarations: any number of pools and requests, one after the other on the same cluster."""

from __future__ import annotations

import json

import pytest

WIDE = {
    "lab_namespace": "team-a",
    "lab_pools": [
        {
            "name": "edge",
            "nodes": ["edge-[00:19].site.example"],
            "workload": "container",
            "resources": {"nvidia.com/gpu": 2},
        },
        {
            "name": "big",
            "nodes": ["1.5", "007"],
            "workload": "vm-passthrough",
            "resources": {"nvidia.com/GA102GL_A10": "2k"},
            "capacity": {"cpu": "0.5", "memory": "1024Mi", "ephemeral-storage": "1Ti"},
            "labels": {"topology.kubernetes.io/zone": "z1", "tier": "on"},
        },
        {
            "name": "tainted",
            "nodes": ["t[a:b]"],
            "workload": "vm-vgpu",
            "resources": {"nvidia.com/A10-4Q": 12},
            "taints": [{"key": "gpu", "value": "vm", "effect": "NoSchedule"}],
        },
    ],
    "lab_requests": [
        {
            "name": "train",
            "count": 3,
            "resources": {"nvidia.com/gpu": 1},
            "record": {"file": "train.txt", "placements": ["train"]},
        },
        {
            "name": "123",
            "resources": {"nvidia.com/GA102GL_A10": 1500},
            "record": {"file": "digits.txt", "fields": ["NODE", "RESOURCE"]},
        },
        {
            "name": "true.a.b",
            "resources": {"nvidia.com/GA102GL_A10": 600},
            "record": {"file": "dots.txt", "fields": ["PHASE"]},
        },
        {
            "name": "tolerant",
            "resources": {"nvidia.com/A10-4Q": 1},
            "tolerations": [{"key": "gpu", "operator": "Equal", "value": "vm", "effect": "NoSchedule"}],
            "record": {"file": "tolerant.txt", "fields": ["NODE"]},
        },
        {
            "name": "timid",
            "resources": {"nvidia.com/A10-4Q": 1},
            "record": {"file": "timid.txt", "fields": ["NODE", "MESSAGE"]},
        },
        {
            "name": "greedy",
            "resources": {"nvidia.com/gpu": 3},
            "record": {"file": "greedy.txt", "fields": ["PHASE", "NODE", "MESSAGE"]},
        },
        {
            "name": "chosen",
            "manifest": "mine.yml",
            "resources": {"nvidia.com/gpu": 1},
            "node_selector": {"kubernetes.io/hostname": "edge-07.site.example"},
            "record": {"file": "chosen.txt", "fields": ["NODE"]},
        },
    ],
}
NARROW = {
    "lab_namespace": "team-a",
    "lab_pools": [
        {
            "name": "edge",
            "nodes": ["edge-07.site.example"],
            "workload": "container",
            "resources": {"nvidia.com/gpu": 2},
            "taints": [{"key": "new", "effect": "PreferNoSchedule"}],
        },
        {
            "name": "other",
            "nodes": ["1.5"],
            "workload": "vm-vgpu",
            "resources": {"nvidia.com/A10-4Q": 3},
            "labels": {"tier": "off"},
            "capacity": {"cpu": 64},
        },
        {"name": "tainted", "nodes": ["ta"], "workload": "vm-vgpu", "resources": {"nvidia.com/A10-4Q": 12}},
    ],
    "lab_requests": [
        {
            "name": "chosen",
            "manifest": "mine.yml",
            "resources": {"nvidia.com/gpu": 1},
            "node_selector": {"kubernetes.io/hostname": "edge-07.site.example"},
            "record": {"file": "chosen.txt", "fields": ["NODE"]},
        },
        {
            "name": "greedy",
            "resources": {"nvidia.com/gpu": 2},
            "record": {"file": "greedy.txt", "fields": ["PHASE", "NODE", "MESSAGE"]},
        },
    ],
}
THEIRS = "jsonpath={.metadata.uid} {.metadata.labels} {.spec.containers[0].image}"


@pytest.fixture(scope="module")
def lab(make_lab):
    made = make_lab()
    made.declared = WIDE
    made.run()
    made.wide = made.records()
    return made


def uids(lab):
    return {name: pod["metadata"]["uid"] for name, pod in lab.objects("pods", "-n", "team-a").items()}


def test_names_of_a_range_with_dots_and_digits(lab):
    nodes = [f"edge-{number:02}.site.example" for number in range(20)]
    assert lab.text("out/01-nodes.txt").splitlines() == [
        "007 vm-passthrough",
        "1.5 vm-passthrough",
        *(f"{node} container" for node in nodes),
        "ta vm-vgpu",
        "tb vm-vgpu",
    ]
    assert lab.text("out/03-resources.txt").splitlines()[:3] == [
        "007 nvidia.com/GA102GL_A10 2000",
        "1.5 nvidia.com/GA102GL_A10 2000",
        f"{nodes[0]} nvidia.com/gpu 2",
    ]
    assert lab.text("out/consistency.txt") == "OK=24\n"


def test_nodes_have_what_their_pool_declares(lab):
    nodes = lab.objects("nodes")
    assert nodes["007"]["status"]["allocatable"] == {
        "cpu": "500m",
        "memory": "1Gi",
        "ephemeral-storage": "1Ti",
        "pods": "110",
        "nvidia.com/GA102GL_A10": "2k",
    }
    assert nodes["007"]["metadata"]["labels"]["tier"] == "on"
    assert nodes["ta"]["spec"]["taints"] == [{"key": "gpu", "value": "vm", "effect": "NoSchedule"}]
    assert "taints" not in nodes["007"]["spec"]


def test_each_request_has_its_record_and_manifest(lab):
    assert [line.split()[0] for line in lab.text("out/train.txt").splitlines()] == ["train-0", "train-1", "train-2"]
    assert all(" edge-" in line for line in lab.text("out/train.txt").splitlines())
    assert lab.text("out/digits.txt").endswith("RESOURCE=nvidia.com/GA102GL_A10\n")
    assert lab.text("out/dots.txt") == "PHASE=Running\n"
    assert lab.text("out/tolerant.txt") in ("NODE=ta\n", "NODE=tb\n")
    assert lab.text("out/chosen.txt") == "NODE=edge-07.site.example\n"
    assert [pod["metadata"]["name"] for pod in lab.manifests("k8s/pod-train.yaml")] == ["train-0", "train-1", "train-2"]
    assert {pod["metadata"]["namespace"] for pod in lab.manifests("k8s/mine.yml")} == {"team-a"}
    assert len(uids(lab)) == 9


def test_those_that_wait_say_why(lab):
    assert lab.text("out/greedy.txt").startswith("PHASE=Pending\nNODE=none\nMESSAGE=0/24 nodes are available: ")
    assert "Insufficient nvidia.com/gpu" in lab.text("out/greedy.txt")
    assert "had untolerated taint" in lab.text("out/timid.txt")
    inventory = lab.json("out/run.json")["inventory"]
    (greedy,) = inventory["nvidia.com/gpu"]["pending"]
    assert {
        reason for entry in greedy["cannot_use"] if entry["node"].startswith("edge") for reason in entry["reasons"]
    } == {"quantity"}
    (timid,) = inventory["nvidia.com/A10-4Q"]["pending"]
    assert {entry["node"]: entry["reasons"] for entry in timid["cannot_use"] if entry["node"][0] == "t"} == {
        "ta": ["taint"],
        "tb": ["taint"],
    }


def test_pools_and_requests_follow_the_declaration(lab):
    before = uids(lab)
    lab.declared = NARROW
    lab.run()
    nodes = lab.objects("nodes")
    assert sorted(nodes) == ["1.5", "edge-07.site.example", "ta"]
    assert nodes["1.5"]["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "gpuwl.sandbox",
        "gpuwl.sandbox/pool": "other",
        "kubernetes.io/hostname": "1.5",
        "nvidia.com/gpu.workload.config": "vm-vgpu",
        "tier": "off",
    }
    assert nodes["1.5"]["status"]["capacity"] == {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "110",
        "nvidia.com/A10-4Q": "3",
    }
    assert nodes["edge-07.site.example"]["spec"]["taints"] == [{"key": "new", "effect": "PreferNoSchedule"}]
    assert "taints" not in nodes["ta"]["spec"]
    after = uids(lab)
    assert set(after) == {"chosen", "greedy"}
    # What did not change keeps its Pod; what did gets a new one, and its record follows.
    assert after["chosen"] == before["chosen"] and after["greedy"] != before["greedy"]
    assert lab.text("out/greedy.txt").startswith("PHASE=Pending\nNODE=none\nMESSAGE=0/3 nodes are available: ")
    assert lab.names() == {
        "bin/check-config.sh",
        "k8s/mine.yml",
        "k8s/pod-greedy.yaml",
        *(
            f"out/{name}"
            for name in (
                "01-nodes.txt",
                "03-resources.txt",
                "operands.txt",
                "pool-operands.json",
                "pool-operands.txt",
                "chosen.txt",
                "greedy.txt",
                "consistency.txt",
                "nodes.json",
                "pods.json",
                "requests.json",
                "run.json",
            )
        ),
    }


def test_bad_declarations_write_nothing(lab):
    lab.refused("lab_pools must be a list", lab_pools="edge")
    lab.refused(
        "pool p: resources: nvidia.com/gpu: -1 is negative",
        "the node name n stands 2 times",
        "labels: 1 of",
        "request r: count must be",
        "unknown key size",
        "Team_A",
        lab_namespace="Team_A",
        lab_pools=[{"name": "p", "nodes": ["n", "n"], "labels": {"a": 1}, "resources": {"nvidia.com/gpu": -1}}],
        lab_requests=[{"name": "r", "count": 0, "size": 1, "resources": {"nvidia.com/gpu": 1}}],
    )


def test_somebody_elses_node_is_not_taken_over(lab):
    lab.kubectl(
        "create",
        "-f",
        "-",
        stdin='{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs", "labels": {"nvidia.com/gpu.workload.config": "container"}}}',
    )
    pools = [*NARROW["lab_pools"], {"name": "more", "nodes": ["theirs"]}]
    lab.refused(
        "these nodes exist already and are not the lab's: theirs: choose other names in lab_pools",
        without="theirs",
        lab_pools=pools,
    )
    theirs = lab.objects("nodes")["theirs"]["metadata"]
    assert theirs["labels"] == {
        "nvidia.com/gpu.workload.config": "container"
    } and "kwok.x-k8s.io/node" not in theirs.get("annotations", {})
    lab.kubectl("delete", "node", "theirs")


def test_somebody_elses_pod_is_not_taken_over_nor_removed(lab):
    spec = {"containers": [{"name": "cuda", "image": "theirs"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs", "namespace": "team-a"}, "spec": spec}
    lab.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    lab.theirs = lab.kubectl("get", "pod", "-n", "team-a", "theirs", "-o", THEIRS)
    requests = [*NARROW["lab_requests"], {"name": "theirs", "resources": {"nvidia.com/gpu": 1}}]
    played = lab.play("--tags", "placement", lab_requests=requests)
    assert played.rc != 0
    assert (
        "these Pods exist already and are not the lab's: team-a/theirs: choose other names in lab_requests"
        in played.output
    )
    assert lab.kubectl("get", "pod", "-n", "team-a", "theirs", "-o", THEIRS) == lab.theirs


def test_going_back_gives_the_same_records(lab):
    """Nodes that were removed are picked up again under their old names, and every decision that is not a matter of chance is as before."""
    lab.declared = WIDE
    lab.run()
    now = lab.records()
    assert set(now) == set(lab.wide)
    chance = {"out/train.txt", "out/digits.txt", "out/dots.txt", "out/tolerant.txt", "out/run.json"}
    assert {path: text for path, text in now.items() if path not in chance} == {
        path: text for path, text in lab.wide.items() if path not in chance
    }
    # That a run behind one that took things away has nothing to do either is in test_killed_runs.py.
    lab.settled()
    # Somebody else's Pod has seen it all.
    assert lab.kubectl("get", "pod", "-n", "team-a", "theirs", "-o", THEIRS) == lab.theirs


def test_another_namespace_takes_the_pods_along(lab):
    lab.declared = {**NARROW, "lab_namespace": "team-b", "lab_requests": []}
    lab.run("--tags", "placement")
    assert list(lab.objects("pods", "-A")) == ["theirs"]
    lab.declared = {**NARROW, "lab_namespace": "team-b"}
    lab.run("--tags", "placement")
    assert {name: pod["metadata"]["namespace"] for name, pod in lab.objects("pods", "-A").items()} == {
        "theirs": "team-a",
        "chosen": "team-b",
        "greedy": "team-b",
    }
