# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab on a cluster that is somebody else's: it runs there, and afterwards nothing tells that it did.

A KWOK cluster with nodes, labels, resources, Pods and namespaces of its own stands for theirs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from combined_plays import messages, play_of, role
from lab_plays import PLAYBOOK, ROOT, run_playbook

# Behind "Advertise the resources" the cluster is as after `--tags nodes,resources`, and behind "Ask for the Pods, in order" as
# after a whole run; other tests take these two out.
KILLED_BEHIND = [
    "Keep the labels that the nodes had before",
    "Label the nodes",
    "Keep the resources that the nodes advertised before",
]
NODES = ("--tags", "nodes,resources")
PODS = ("--tags", "placement")
POOLS = [
    {
        "name": "a",
        "nodes": ["lab-node-0"],
        "workload": "container",
        "labels": {"tier": "on"},
        "resources": {"nvidia.com/gpu": 4, "example.com/dongle": 5},
    },
    {
        "name": "more",
        "nodes": ["lab-node-[1:2]"],
        "workload": "vm-passthrough",
        "resources": {"nvidia.com/GA102GL_A10": 2},
    },
]
# Another use, fewer nodes, and the pool without one label and one resource of another prefix than nvidia.com/.
FEWER = [
    {"name": "a", "nodes": ["lab-node-0"], "workload": "vm-vgpu", "resources": {"nvidia.com/A10-4Q": 3}},
    {"name": "b", "nodes": ["other"], "resources": {"nvidia.com/gpu": 1}},
]
LESS = {"lab_pools": FEWER, "lab_namespace": "theirs"}


def node(name: str, labels: dict, resources: dict) -> dict:
    quantities = {"cpu": "8", "memory": "64Gi", "pods": "110", **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "zone": "a", **labels},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": quantities, "allocatable": quantities},
    }


def lasting(mapping: dict) -> dict:
    return {key: value for key, value in mapping.items() if key not in ("resourceVersion", "lastHeartbeatTime")}


def pod(name: str, namespace: str, on: str, resources: dict) -> dict:
    container = {"name": "c", "image": "theirs", "resources": {"limits": resources}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": on, "containers": [container]},
    }


class Theirs:
    """Their cluster, and the lab run on it from a folder of its own."""

    def __init__(self, home, make_lab) -> None:
        home.run("--tags", "control_plane")
        self.home, self.lab = home, make_lab()
        self.kubeconfig = home.root / "control-plane" / "kubeconfig"
        self.lab.declared = {
            "control_plane_provider": "existing",
            "control_plane_kubeconfig": str(self.kubeconfig),
            "control_plane_existing_confirm": "gpuwl",
        }
        self.create(
            node(
                "lab-node-0",
                {"gpuwl.sandbox/pool": "theirs", "nvidia.com/gpu.workload.config": ""},
                {"nvidia.com/gpu": "8", "example.com/dongle": "1"},
            ),
            # As after a change of use: an old name left behind with 0.
            node("lab-node-1", {"nvidia.com/gpu.workload.config": "container"}, {"nvidia.com/GA102GL_A10": "0"}),
            node("lab-node-2", {"nvidia.com/gpu.workload.config": "vm-vgpu"}, {"nvidia.com/NVIDIA_A10-12Q": "2k"}),
            node("other", {"nvidia.com/gpu.workload.config": "container"}, {"nvidia.com/gpu": "2"}),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs", "labels": {"team": "a"}}},
        )
        self.home.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=120s")
        self.create(
            pod("training", "theirs", "lab-node-0", {"nvidia.com/gpu": "6"}), pod("plain", "default", "lab-node-1", {})
        )
        self.home.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod", "--all", "-A", "--timeout=120s")

    def create(self, *objects: dict) -> None:
        self.home.kubectl(
            "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        )

    def state(self) -> dict[tuple, dict]:
        """Every node, Pod and namespace, apart from resourceVersion, managedFields and heartbeats."""
        objects = json.loads(
            self.home.kubectl("get", "nodes,pods,namespaces", "-A", "-o", "json"), object_hook=lasting
        )["items"]
        return {(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item for item in objects}

    def teardown(self, *arguments: str, environment: dict | None = None, **variables):
        declared = {
            "control_plane_provider": "existing",
            "control_plane_kubeconfig": str(self.kubeconfig),
            "control_plane_existing_confirm": "gpuwl",
        }
        return run_playbook(
            "teardown.yml",
            *arguments,
            variables={**declared, "lab_root": str(self.lab.root), **variables},
            folder=self.lab.folder,
            **(environment or {}),
        )

    def refused(self, *words: str, **variables) -> None:
        """Run the lab, which must say these words and write nothing."""
        before = self.state(), self.lab.times()
        played = self.lab.play(**variables)
        said = " ".join(played.output.split())
        assert played.rc != 0 and "Traceback" not in said
        assert [word for word in words if word not in said] == [], played.output
        assert (self.state(), self.lab.times()) == before

    def tear_down(self, *arguments: str, **variables) -> int:
        """A teardown that must end well; returns how many tasks changed something."""
        played = self.teardown(*arguments, **variables)
        assert played.rc == 0, played.output[-6000:]
        return played.changes


@pytest.fixture(scope="module")
def theirs(make_lab):
    return Theirs(make_lab(), make_lab)


def contexts(theirs, path, current, *names) -> str:
    """A kubeconfig with these contexts of their cluster."""
    config = yaml.safe_load(theirs.kubeconfig.read_text())
    config["contexts"] = [{**config["contexts"][0], "name": name} for name in names]
    config["current-context"] = current
    path.write_text(yaml.safe_dump(config))
    return str(path)


def extended(node: dict) -> dict:
    return {name: quantity for name, quantity in node["status"]["allocatable"].items() if "/" in name}


@pytest.fixture(scope="module")
def original(theirs):
    """Their cluster before the lab ever ran on it."""
    return theirs.state()


# The tests down to test_afterwards_the_cluster_is_as_it_was are one history of the cluster: each begins with what the one before has left.


def test_the_same_records_there(theirs, original):
    lab = theirs.lab
    lab.run()
    assert lab.text("out/01-nodes.txt") == "lab-node-0 container\nlab-node-1 vm-passthrough\nlab-node-2 vm-vgpu\n"
    assert (
        lab.text("out/03-resources.txt")
        == "lab-node-0 nvidia.com/gpu 4\nlab-node-1 nvidia.com/GA102GL_A10 2\nlab-node-2 nvidia.com/NVIDIA_A10-12Q 4\n"
    )
    # Theirs hold 6 cards of the 4 that lab-node-0 now has, so ours goes to the other one that has this name.
    assert lab.text("out/06-placement.txt") == "job-container other\nvmi-passthrough lab-node-1\nvmi-vgpu lab-node-2\n"
    assert "Insufficient nvidia.com/gpu" in lab.text("out/07-cross.txt")


def test_another_declaration_in_a_context_that_is_not_the_current_one(theirs, original, tmp_path):
    kubeconfig = contexts(theirs, tmp_path / "mine", "", "practice", "prod")
    practice = {"control_plane_existing_context": "practice", "control_plane_existing_confirm": "practice"}
    theirs.lab.run(*NODES, lab_pools=POOLS, control_plane_kubeconfig=kubeconfig, **practice)
    now = theirs.home.objects("nodes")
    assert extended(now["lab-node-0"]) == {"nvidia.com/gpu": "4", "example.com/dongle": "5"}
    assert {"tier": "on", "zone": "a", "nvidia.com/gpu.workload.config": "container"}.items() <= now["lab-node-0"][
        "metadata"
    ]["labels"].items()
    assert extended(now["lab-node-2"]) == {"nvidia.com/GA102GL_A10": "2"}


def test_what_is_no_longer_declared_is_put_back_at_once(theirs, original):
    theirs.lab.run(**LESS)
    now = theirs.home.objects("nodes")
    for name in ("lab-node-1", "lab-node-2"):
        was = original["Node", None, name]
        assert (now[name]["metadata"]["labels"], now[name]["metadata"]["annotations"]) == (
            was["metadata"]["labels"],
            was["metadata"]["annotations"],
        )
        assert now[name]["status"]["capacity"] == was["status"]["capacity"]
    assert {"zone": "a", "nvidia.com/gpu.workload.config": "vm-vgpu"}.items() <= now["lab-node-0"]["metadata"][
        "labels"
    ].items()
    assert "tier" not in now["lab-node-0"]["metadata"]["labels"]
    assert now["lab-node-0"]["status"]["capacity"]["example.com/dongle"] == "1"
    assert extended(now["lab-node-0"]) == {"nvidia.com/A10-4Q": "3", "example.com/dongle": "1"}
    assert set(theirs.home.objects("pods", "-n", "theirs")) == {
        "training",
        "job-container",
        "vmi-passthrough",
        "vmi-vgpu",
        "job-cross",
    }


def test_a_second_run_on_the_kubeconfig_that_kubectl_finds_has_nothing_to_do(theirs, tmp_path):
    mine = contexts(theirs, tmp_path / "mine", "", "practice", "prod")
    current = contexts(theirs, tmp_path / "current", "practice", "practice")
    # As kubectl finds it, several files joined.
    paths = {"KUBECONFIG": f"{tmp_path}/missing:{current}:{mine}", "K8S_AUTH_KUBECONFIG": "/nonexistent"}
    del theirs.lab.declared["control_plane_kubeconfig"]
    try:
        theirs.lab.settled(environment=paths, control_plane_existing_confirm="practice", **LESS)
    finally:
        theirs.lab.declared["control_plane_kubeconfig"] = str(theirs.kubeconfig)


def test_reading_needs_no_confirmation(theirs):
    there = theirs.state()
    assert theirs.lab.run("--tags", "operands,check", control_plane_existing_confirm="", **LESS).changes == 0
    assert theirs.tear_down("--check", "--diff", control_plane_existing_confirm="") == 2
    assert theirs.state() == there


def test_afterwards_the_cluster_is_as_it_was(theirs, original):
    """And so are the namespace that was theirs and what they have in it."""
    # Another machine, and nothing left of the folder; and a teardown that is killed halfway is repeated.
    shutil.rmtree(theirs.lab.root)
    elsewhere = str(theirs.lab.folder / "elsewhere")
    killing = {"GPUWL_KILL_AFTER_CHANGE": "Remove the lab's Pods, and the namespaces that it made"}
    assert theirs.teardown(environment=killing, lab_root=elsewhere).rc == -signal.SIGKILL
    assert theirs.state() != original

    # Nor is anything written when somebody has damaged an annotation meanwhile.
    kept = theirs.home.objects("nodes")["lab-node-0"]["metadata"]["annotations"]["gpuwl.sandbox/originals"]
    theirs.home.kubectl("annotate", "--overwrite", "node", "lab-node-0", "gpuwl.sandbox/originals={oops")
    damaged = theirs.state()
    played = theirs.teardown(lab_root=elsewhere)
    assert played.rc != 0
    said = " ".join(played.output.split())
    assert "gpuwl.sandbox/originals of node lab-node-0 is damaged" in said and "Nothing was written" in said
    assert theirs.state() == damaged
    theirs.home.kubectl("annotate", "--overwrite", "node", "lab-node-0", f"gpuwl.sandbox/originals={kept}")

    assert theirs.tear_down(lab_root=elsewhere) == 1
    assert theirs.state() == original
    assert theirs.tear_down(lab_root=elsewhere) == 0
    assert not Path(elsewhere).exists()


@pytest.fixture
def before(theirs, original):
    """Their cluster as it was; and it must be so again in the end."""

    def put_back() -> None:
        if theirs.state() != original:
            theirs.tear_down()
        assert theirs.state() == original

    put_back()
    yield original
    put_back()


def test_a_check_where_nothing_of_the_lab_is_yet_says_what_it_would_do(theirs, before):
    assert theirs.tear_down("--check", "--diff", control_plane_existing_confirm="") == 0
    shutil.rmtree(theirs.lab.root, ignore_errors=True)
    played = theirs.lab.run("--check", "--diff", control_plane_existing_confirm="")
    assert {"Label the nodes", "Advertise the resources", "Ask for the Pods, in order"} <= set(played.changed)
    assert theirs.state() == before and not theirs.lab.root.exists()


@pytest.mark.parametrize("task", KILLED_BEHIND)
def test_a_lab_that_was_killed_is_taken_out_whole(theirs, before, task):
    played = theirs.lab.play(environment={"GPUWL_KILL_AFTER_CHANGE": task})
    shutil.rmtree(theirs.lab.root, ignore_errors=True)
    assert played.rc == -signal.SIGKILL and f"KILLED AFTER [{task}]" in played.output
    assert theirs.state() != before
    theirs.tear_down()
    assert theirs.state() == before


def test_what_a_killed_play_left_running_writes_no_more_and_all_but_what_is_others_goes(theirs, before):
    """Its module waits for a Pod to be gone, outlives it, and would go on behind the teardown."""
    theirs.lab.run(*PODS)
    finalizers = json.dumps({"metadata": {"finalizers": ["example.com/hold"]}})
    theirs.home.kubectl("patch", "pod", "job-container", "-n", "gpu-vm", "--type=merge", "-p", finalizers)
    command = [
        str(PLAYBOOK),
        "playbooks/lab.yml",
        "--tags",
        "placement",
        "-e",
        json.dumps(theirs.lab.variables({"lab_namespace": "late"})),
    ]
    play = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(
        lambda: "deletionTimestamp" in theirs.state()["Pod", "gpu-vm", "job-container"]["metadata"],
        "the Pod to be deleted",
    )
    left = descendants(play.pid)
    os.killpg(play.pid, signal.SIGKILL)
    play.wait()
    theirs.home.kubectl(
        "patch", "pod", "job-container", "-n", "gpu-vm", "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
    )
    wait_for(
        lambda: not [pid for pid in left if Path(f"/proc/{pid}/exe").exists()], "what the play left running to end"
    )
    assert ("Namespace", None, "late") not in theirs.state()

    # A namespace of the lab's with what is others' in it stays until that is gone.
    theirs.create(pod("guest", "gpu-vm", "other", {}))
    theirs.home.kubectl("create", "configmap", "settings", "-n", "gpu-vm")
    played = theirs.teardown()
    said = " ".join(played.output.split())
    assert played.rc == 0 and "the namespace gpu-vm was made by the lab and stays, because this is in it" in said
    assert "that is not the lab's: pods/guest, configmaps/settings" in said
    assert set(theirs.home.objects("pods", "-n", "gpu-vm")) == {"guest"}
    theirs.home.kubectl("delete", "pod", "guest", "-n", "gpu-vm", "--now")
    theirs.home.kubectl("delete", "configmap", "settings", "-n", "gpu-vm")
    assert theirs.tear_down() == 1
    assert theirs.state() == before


def descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        found += [
            int(child) for task in Path(f"/proc/{one}/task").glob("*/children") for child in task.read_text().split()
        ]
    return found[1:]


def wait_for(condition, what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds} s in vain for {what}")
        time.sleep(0.2)


@pytest.mark.parametrize("playbook", ["lab", "teardown"])
def test_without_the_contexts_name_nothing_is_written(theirs, before, playbook):
    play = theirs.lab.play if playbook == "lab" else theirs.teardown
    played = play(control_plane_existing_confirm="")
    assert played.rc != 0
    said = " ".join(played.output.split())
    assert (
        "the cluster of context ''gpuwl''" in said
        and "control_plane_existing_confirm to gpuwl" in said
        and "it is not set" in said
    )
    assert theirs.state() == before


def test_the_confirmation_cannot_be_skipped(theirs, before):
    for tags in ("--skip-tags=control_plane", "--skip-tags=control_plane,check", "--start-at-task=Label the nodes"):
        played = theirs.lab.play(tags, control_plane_existing_confirm="")
        assert played.rc != 0 and "Nothing is written before the role control_plane has found the cluster" in " ".join(
            played.output.split()
        )
        assert theirs.state() == before


def test_a_cluster_that_cannot_be_told_or_reached(theirs, before, tmp_path):
    """All of it is said by the role's one task, before any other; the test behind shows one through the play."""
    mine = {"control_plane_kubeconfig": contexts(theirs, tmp_path / "mine", "", "practice", "prod")}
    nothing, words, server, program = (tmp_path / name for name in ("nothing", "words", "server", "program"))
    words.write_text("just words")
    config = yaml.safe_load(theirs.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    server.write_text(yaml.safe_dump(config))
    config = yaml.safe_load(theirs.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "no-such-program",
            "interactiveMode": "Never",
        }
    }
    program.write_text(yaml.safe_dump(config))
    confirmed = {"control_plane_existing_confirm": "gpuwl"}
    cases = {
        "other letters": (
            {"control_plane_existing_confirm": "GPUWL"},
            ("the cluster of context 'gpuwl'", "control_plane_existing_confirm to gpuwl", "it is 'GPUWL'"),
        ),
        "not a name": (
            {"control_plane_existing_confirm": True},
            ("the cluster of context 'gpuwl'", "control_plane_existing_confirm to gpuwl", "it is 'True'"),
        ),
        "no current context": (
            {**mine, **confirmed},
            ("has no current context", "practice, prod", "control_plane_existing_context"),
        ),
        "no such context": (
            {**mine, **confirmed, "control_plane_existing_context": "lab"},
            ("has no context 'lab'", "practice, prod"),
        ),
        "another context": (
            {**mine, "control_plane_existing_context": "prod", "control_plane_existing_confirm": "practice"},
            ("the cluster of context 'prod'",),
        ),
        "no file": (
            {**confirmed, "control_plane_kubeconfig": str(nothing)},
            ("can't be read", str(nothing), "control_plane_kubeconfig"),
        ),
        "no kubeconfig": ({**confirmed, "control_plane_kubeconfig": str(words)}, ("is no kubeconfig", str(words))),
        "no server": (
            {**confirmed, "control_plane_kubeconfig": str(server)},
            (f"nothing listens at the server that the kubeconfig {server} names (connection refused)",),
        ),
        "no program": (
            {**confirmed, "control_plane_kubeconfig": str(program)},
            ("the context 'gpuwl' for system:anonymous", "must be on PATH"),
        ),
    }
    common = {"control_plane_provider": "existing", "control_plane_kubeconfig": str(theirs.kubeconfig)}
    playbook = tmp_path / "refusals.yml"
    playbook.write_text(play_of({name: {**common, **variables} for name, (variables, _words) in cases.items()}, role()))
    told = messages(run_playbook(str(playbook), folder=theirs.lab.folder).output)
    assert list(told) == list(cases)
    assert [(name, word) for name, (_case, words) in cases.items() for word in words if word not in told[name]] == [], (
        told
    )
    assert theirs.state() == before


def test_what_cannot_be_is_refused_before_anything_is_written(theirs, before, tmp_path):
    nothing = tmp_path / "nothing"
    theirs.refused("can't be read", str(nothing), "control_plane_kubeconfig", control_plane_kubeconfig=str(nothing))
    missing = [{"name": "p", "nodes": ["lab-node-0", "lab-node-[7:8]"], "workload": "container"}]
    theirs.refused("2 of 3 nodes do not exist", "lab-node-7, lab-node-8", lab_pools=missing)
    beyond = {"taints": [{"key": "a", "effect": "NoSchedule"}], "capacity": {"cpu": 4}}
    theirs.refused(
        "pool p: taints: nodes that are there already",
        "pool p: capacity: nodes",
        lab_pools=[{"name": "p", "nodes": ["lab-node-0"], **beyond}],
    )
    theirs.refused(
        "theirs/training: choose other names",
        lab_namespace="theirs",
        lab_requests=[{"name": "training", "resources": {"nvidia.com/gpu": 1}}],
    )
