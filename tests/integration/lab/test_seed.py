# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as it is shipped: every record to the letter, and a second run that has nothing to do."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

MESSAGE = (
    "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector. "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)
RECORDS = {
    "out/01-nodes.txt": "lab-node-0 container\nlab-node-1 vm-passthrough\nlab-node-2 vm-vgpu\n",
    "out/operands.txt": (
        "container=datacenter-driver,container-toolkit,device-plugin,dcgm-exporter\n"
        "vm-passthrough=vfio-manager,sandbox-device-plugin\n"
        "vm-vgpu=vgpu-manager,vgpu-device-manager,sandbox-device-plugin\n"
        "NO_LABEL=container\n"
        "ENABLE_FLAG=sandboxWorkloads.enabled\n"
    ),
    "out/03-resources.txt": "lab-node-0 nvidia.com/gpu 4\nlab-node-1 nvidia.com/GA102GL_A10 2\nlab-node-2 nvidia.com/NVIDIA_A10-12Q 4\n",
    "out/04-container.txt": "NODE=lab-node-0\n",
    "out/05-passthrough.txt": "NODE=lab-node-1\nRESOURCE=nvidia.com/GA102GL_A10\n",
    "out/06-placement.txt": "job-container lab-node-0\nvmi-passthrough lab-node-1\nvmi-vgpu lab-node-2\n",
    "out/07-cross.txt": f"PHASE=Pending\nNODE=none\nMESSAGE={MESSAGE}\n",
    "out/consistency.txt": "OK=3\n",
}
PODS = {
    "pod-container.yaml": ("job-container", "nvidia.com/gpu"),
    "pod-passthrough.yaml": ("vmi-passthrough", "nvidia.com/GA102GL_A10"),
    "pod-vgpu.yaml": ("vmi-vgpu", "nvidia.com/NVIDIA_A10-12Q"),
    "pod-cross.yaml": ("job-cross", "nvidia.com/gpu"),
}
ELSEWHERE = {
    "K8S_AUTH_HOST": "https://127.0.0.1:1",
    "K8S_AUTH_CONTEXT": "nope",
    "K8S_AUTH_API_KEY": "nonsense",
    "K8S_AUTH_IMPERSONATE_USER": "nobody",
    "KUBECONFIG": "/nowhere/at/all",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}
IMAGE = "nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04"


@pytest.fixture(scope="module")
def lab(make_lab):
    made = make_lab()
    made.first = made.run()
    return made


@pytest.mark.parametrize("path", RECORDS)
def test_record_to_the_letter(lab, path):
    assert lab.text(path) == RECORDS[path]


@pytest.mark.parametrize("name", PODS)
def test_manifest_asks_for_what_the_lab_says_and_nothing_else(lab, name):
    pod, resource = PODS[name]
    (manifest,) = lab.manifests(f"k8s/{name}")
    assert (
        manifest["apiVersion"],
        manifest["kind"],
        manifest["metadata"]["name"],
        manifest["metadata"]["namespace"],
    ) == ("v1", "Pod", pod, "gpu-vm")
    spec = {"containers": [{"name": "cuda", "image": IMAGE, "resources": {"limits": {resource: 1}}}]}
    if pod == "job-cross":
        spec["nodeSelector"] = {"nvidia.com/gpu.workload.config": "vm-passthrough"}
    assert manifest["spec"] == spec
    running = lab.objects("pods", "-n", "gpu-vm")[pod]["spec"]
    assert running["containers"][0]["resources"]["limits"] == {resource: "1"}
    assert running.get("nodeSelector") == spec.get("nodeSelector")


def test_no_other_pod_or_node_is_there(lab):
    assert sorted(lab.objects("pods", "-A")) == ["job-container", "job-cross", "vmi-passthrough", "vmi-vgpu"]
    assert sorted(lab.objects("nodes")) == ["lab-node-0", "lab-node-1", "lab-node-2"]


def test_resources_are_in_capacity_and_allocatable(lab):
    for line in RECORDS["out/03-resources.txt"].splitlines():
        node, resource, quantity = line.split()
        status = lab.objects("nodes")[node]["status"]
        for field in ("capacity", "allocatable"):
            assert {name: value for name, value in status[field].items() if "/" in name} == {resource: quantity}


def test_nodes_json_is_what_kubectl_prints(lab):
    def steady(text):
        return re.sub(r'"(lastHeartbeatTime|lastTransitionTime|resourceVersion)": "[^"]*"', r'"\1": ""', text)

    assert steady(lab.text("out/nodes.json")) == steady(lab.kubectl("get", "nodes", "-o", "json"))


def test_text_has_one_newline_at_its_end_and_no_blanks(lab):
    texts = [path for path in lab.files() if path.suffix in (".txt", ".yaml", ".json")]
    assert len(texts) >= 15
    for path in texts:
        content = path.read_bytes()
        assert content.endswith(b"\n") and b"\r" not in content, path
        assert not [line for line in content[:-1].split(b"\n") if line != line.rstrip() or not line], path


def test_modes(lab):
    modes = {str(path.relative_to(lab.root)): path.stat().st_mode & 0o7777 for path in lab.files()}
    assert modes.pop("bin/check-config.sh") == 0o755
    # Pods may hold secrets in their environment.
    assert modes.pop("out/pods.json") in (0o600, 0o644)
    assert set(modes.values()) == {0o644}
    assert (lab.root / "control-plane/kubeconfig").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("start", [[], ["sh"], ["bash"]])
def test_the_checker_it_leaves_behind_judges_its_dump(lab, start):
    script = str(lab.root / "bin/check-config.sh")
    done = subprocess.run(
        [*start, script, str(lab.root / "out/nodes.json")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "OK=3\n", "")


def test_run_json(lab):
    run = lab.json("out/run.json")
    assert run["schema"] == 1
    assert re.fullmatch(r"gpuwl\.sandbox \d+\.\d+\.\d+", run["collection"])
    assert run["kubernetes"] == json.loads(lab.kubectl("get", "--raw", "/version"))["gitVersion"]
    assert run["verdict"] == {"profile": "lab", "checked": 3, "mismatches": 0} and run["findings"] == []
    assert [(entry["name"], entry["node"], entry["phase"], entry["message"]) for entry in run["decisions"]] == [
        ("job-container", "lab-node-0", "Running", None),
        ("vmi-passthrough", "lab-node-1", "Running", None),
        ("vmi-vgpu", "lab-node-2", "Running", None),
        ("job-cross", None, "Pending", MESSAGE),
    ]
    assert {
        name: (entry["allocatable"], entry["requested"], entry["free"]) for name, entry in run["inventory"].items()
    } == {"nvidia.com/gpu": (4, 1, 3), "nvidia.com/GA102GL_A10": (2, 1, 1), "nvidia.com/NVIDIA_A10-12Q": (4, 1, 3)}
    (waiting,) = run["inventory"]["nvidia.com/gpu"]["pending"]
    assert waiting["name"] == "job-cross" and waiting["message"] == MESSAGE
    assert {entry["node"]: entry["reasons"] for entry in waiting["cannot_use"]} == {
        "lab-node-0": ["selector"],
        "lab-node-1": ["name"],
        "lab-node-2": ["name", "selector"],
    }
    assert [pool["name"] for pool in run["pools"]] == ["containers", "passthrough", "vgpu"]
    assert [request["name"] for request in run["requests"]] == [
        "job-container",
        "vmi-passthrough",
        "vmi-vgpu",
        "job-cross",
    ]


def test_the_play_ends_with_who_waits_beside_what_is_idle(lab):
    for words in (
        "IDLE BESIDE THE QUEUE",
        "job-cross waits for 1 nvidia.com/gpu while",
        "3 nvidia.com/gpu on lab-node-0 are free: its node selector",
        "Label and advertised resources agree on 3 labelled nodes.",
    ):
        assert words in lab.first.output


@pytest.mark.parametrize("tag", ["nodes", "operands", "resources", "placement", "check"])
def test_each_tag_alone_has_nothing_to_do_whatever_cluster_and_proxy_the_environment_names(lab, tag):
    before, times = lab.state(), lab.times()
    played = lab.run("--tags", tag, environment=ELSEWHERE)
    assert (played.changes, played.changed) == (0, [])
    assert (lab.state(), lab.times()) == (before, times)


def test_check_mode_shows_what_another_declaration_would_change(lab):
    before = lab.state()
    played = lab.run(
        "--check",
        "--diff",
        lab_namespace="elsewhere",
        lab_pools=[
            {
                "name": "containers",
                "nodes": ["lab-node-0"],
                "workload": "container",
                "resources": {"nvidia.com/gpu": 8},
            },
            {"name": "more", "nodes": ["extra-[0:1]"], "workload": "vm-vgpu", "resources": {"nvidia.com/A10-4Q": 12}},
        ],
        lab_requests=[{"name": "job-container", "manifest": "pod-container.yaml", "resources": {"nvidia.com/gpu": 5}}],
    )
    assert lab.state() == before
    assert set(played.changed) >= {
        "Have the nodes of the pools",
        "Record each node's label as the API has it",
        "Advertise the resources",
        "Record the resources as the API has them",
        "Write the requests' manifests",
        "Ask for the Pods, in order",
    }
    for line in (
        "+extra-0 vm-vgpu",
        "-lab-node-1 vm-passthrough",
        "-lab-node-0 nvidia.com/gpu 4",
        "+lab-node-0 nvidia.com/gpu 8",
        "+extra-1 nvidia.com/A10-4Q 12",
        "+          nvidia.com/gpu: 5",
    ):
        assert f"\n{line}\n" in re.sub(r"(?m)^ +(?=[+-])", "", played.output), line


def test_what_was_changed_by_hand_comes_back(lab):
    records = lab.records()
    old = lab.objects("pods", "-n", "gpu-vm")["job-container"]["metadata"]["uid"]
    lab.kubectl("delete", "node", "lab-node-2", "--wait=true")
    lab.kubectl("delete", "pod", "-n", "gpu-vm", "job-container", "--wait=true")
    lab.kubectl(
        "label",
        "node",
        "lab-node-0",
        "nvidia.com/gpu.workload.config=vm-vgpu",
        "mine=1",
        "topology.kubernetes.io/zone=z",
        "--overwrite",
    )
    lab.kubectl(
        "patch",
        "node",
        "lab-node-1",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status": {"capacity": {"nvidia.com/GA102GL_A10": null, "nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/GA102GL_A10": null, "cpu": "1"}}}',
    )
    lab.kubectl("taint", "node", "lab-node-1", "mine=1:NoSchedule")
    (lab.root / "out/04-container.txt").write_text("NODE=none\r\n")
    (lab.root / "k8s/pod-cross.yaml").unlink()
    (lab.root / "bin/check-config.sh").chmod(0o644)
    played = lab.run()
    assert set(played.changed) >= {
        "Have the nodes of the pools",
        "Label the nodes",
        "Advertise the resources",
        "Ask for the Pods, in order",
        "Record the decisions",
        "Write the requests' manifests",
        "Leave the checker behind",
    }
    assert lab.records() == records
    nodes = lab.objects("nodes")
    assert set(nodes["lab-node-0"]["metadata"]["labels"]) == {
        "app.kubernetes.io/managed-by",
        "gpuwl.sandbox/pool",
        "kubernetes.io/hostname",
        "nvidia.com/gpu.workload.config",
    }
    assert nodes["lab-node-1"]["status"]["allocatable"] == {
        "cpu": "32",
        "memory": "256Gi",
        "pods": "110",
        "nvidia.com/GA102GL_A10": "2",
    }
    assert "taints" not in nodes["lab-node-1"]["spec"]
    assert lab.objects("pods", "-n", "gpu-vm")["job-container"]["metadata"]["uid"] != old


def test_a_namespace_by_hand_deleted_comes_back(lab):
    lab.kubectl("delete", "namespace", "gpu-vm", "--wait=true")
    lab.run("--tags", "placement,check")
    assert lab.objects("pods", "-n", "gpu-vm").keys() == {"job-container", "job-cross", "vmi-passthrough", "vmi-vgpu"}


def test_check_mode_on_a_lab_as_declared_announces_nothing(lab):
    """Also behind all this; that a whole run has nothing to do either is in test_declarations.py and molecule's idempotence."""
    before = lab.state()
    assert lab.run("--check", "--diff").changes == 0
    assert lab.state() == before
