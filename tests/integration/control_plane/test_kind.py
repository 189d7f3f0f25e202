# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Provider kind, with a docker and a kind that are stand-ins (fake_programs.py): what the lab asks of them, and what it makes
of their answers. The cluster behind them is a real one of KWOK's, so the API server, the scheduler and the play are real."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from combined_plays import changes, messages
from control_plane_lab import CHECKOUT, commands, finish, kill, wait_for
from kind_lab import Case, KindLab

AWAY = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
NO_IMAGE = """\
 • Ensuring node image (kindest/node:v9.9.9) 🖼  ...
 ✗ Ensuring node image (kindest/node:v9.9.9) 🖼
ERROR: failed to create cluster: failed to pull image "kindest/node:v9.9.9": command "docker pull kindest/node:v9.9.9" failed with error: exit status 1

Command Output: Error response from daemon: Get "https://me:geheim@mirror.example/v2/": no basic auth credentials

See 'docker run --help'."""
MARK = "gpuwl.sandbox/cluster"


def new_lab(programs) -> KindLab:
    return KindLab(Path(tempfile.mkdtemp(prefix="gpuwl-cp-")).resolve(), programs)


@pytest.fixture
def lab(programs):
    made = new_lab(programs)
    yield made
    made.destroy()


def kill_a_creation(lab) -> None:
    """Kill a play while kind makes its cluster; kind ends with it."""
    lab.want("create-hangs")
    play = lab.launch("role")
    wait_for(lambda: lab.cluster().exists(), 60, "kind to have containers")
    pid = next(pid for pid, command in commands() if str(lab.fakes) in command and "create" in command)
    worker = int(re.search(r"^PPid:\s*(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])
    kill(worker)
    wait_for(lambda: pid not in dict(commands()), 10, "kind to end with its play")
    lab.kill_runs()
    play.communicate()
    lab.want_no_more("create-hangs")


@pytest.fixture(scope="module")
def running(programs):
    """The whole lab, its cluster made by two runs at a time after one that was killed; each test leaves it running, but the last."""
    made = new_lab(programs)
    try:
        kill_a_creation(made)
        made.checked = made.start("--check")
        made.first = [finish(play) for play in [made.launch("lab") for _play in range(2)]]
        made.start("--tags", "all").succeeded()
        yield made
    finally:
        made.destroy()


def nothing_made(case) -> bool:
    return not case.cluster().exists() and not case.control_plane.exists()


def test_docker_and_kind_that_will_not_do_and_other_refusals(lab):
    """Each with a docker and a kind of its own; all in one play."""
    cases = {}

    def case(name: str, **variables: object) -> Case:
        cases[name] = Case(lab, name)
        cases[name].variables.update(variables)
        return cases[name]

    (case("docker is missing").bin / "docker").unlink()
    case("daemon is away").want("docker-fails", AWAY)
    case("daemon hangs").want("docker-hangs")
    (case("kind is missing").bin / "kind").unlink()
    case("kind is too old").want("kind-version", "kind v0.19.0 go1.20.4 linux/amd64")
    case("another program").want("kind-version", "a window manager")
    case("no image", control_plane_kind_image="kindest/node:v9.9.9").want("create-fails", NO_IMAGE)
    own = lab.base / "home" / "config"
    text = (
        "apiVersion: v1\nclusters: [{name: work, cluster: {server: https://work.example}}]\ncontexts: []\nusers: []\n"
    )
    own.write_text(text)
    case("in the way", control_plane_kubeconfig=str(own))
    case("name", control_plane_name="a_b")
    # A note of a cluster that was there before says nothing of this one.
    case("old note", control_plane_timeout=1).leave_containers()
    leave_note(cases["old note"], 2000)

    told = messages(lab.met(cases).succeeded().output)
    assert list(told) == list(cases)
    assert lab.everything() == []
    made = [name for name, case in cases.items() if not nothing_made(case)]
    assert made == ["no image", "old note"]
    assert told["docker is missing"] == (
        "provider kind needs docker, and PATH has no program of that name: install it as https://docs.docker.com/engine/install/ says"
    )
    assert told["daemon is away"] == (
        f"the docker daemon does not answer (docker version says: {AWAY}): start it (systemctl start docker, or Docker Desktop),"
        " and see that DOCKER_HOST and this user's rights let `docker version` show a server"
    )
    assert (
        "the docker daemon does not answer (docker version did not end within 15 s): start it" in told["daemon hangs"]
    )
    assert told["kind is missing"] == (
        "provider kind needs kind, and PATH has no program of that name: get it at https://kind.sigs.k8s.io/docs/user/quick-start/#installation"
    )
    assert (
        "kind v0.19.0 is too old, wanted is v0.20.0 or newer: get it at https://kind.sigs.k8s.io/"
        in told["kind is too old"]
    )
    assert (
        "kind does not tell its version (`kind version` says: a window manager); wanted is v0.20.0 or newer: get it at"
        in told["another program"]
    )
    assert told["no image"] == (
        'kind could not make the cluster gpuwl; kind says: failed to create cluster: failed to pull image "kindest/node:v9.9.9": command "docker pull'
        ' kindest/node:v9.9.9" failed with error: exit status 1: Error response from daemon: Get "https://...@mirror.example/v2/": no basic auth credentials'
    )
    (created,) = cases["no image"].calls("kind", "create")
    assert created[-2:] == ["--image", "kindest/node:v9.9.9"]
    assert [path.name for path in cases["no image"].control_plane.iterdir()] == ["kind.yaml"]
    assert told["in the way"] == (
        f"{own} is not this cluster's kubeconfig and is left alone: move it away, or set control_plane_kubeconfig to another file"
    )
    assert own.read_text() == text
    assert "'a_b' is not made of small letters" in told["name"]
    assert cases["name"].calls() == []
    assert cases["old note"].cluster().exists() and cases["old note"].calls("kind", "delete") == []


def leave_note(case, age: int = 0) -> Path:
    """Note that the lab made the cluster, so many seconds ago."""
    case.control_plane.mkdir(parents=True, exist_ok=True)
    note = case.control_plane / "kind-gpuwl.made"
    note.touch()
    os.utime(note, (note.stat().st_mtime - age,) * 2)
    return note


def test_teardowns_where_there_is_no_cluster_or_no_telling_whose_it_is(lab):
    """Each with a docker and a kind of its own; all in one play."""
    own = lab.base / "home" / "config"
    text = (
        "apiVersion: v1\nclusters: [{name: work, cluster: {server: https://work.example}}]\ncontexts: []\nusers: []\n"
    )
    own.write_text(text)
    names = ("in the way", "no docker", "no kind", "noted, no docker", "noted, no kind", "daemon is away", "by hand")
    cases = {name: Case(lab, name) for name in (*names, "not noted", "old note", "none")}
    cases["in the way"].variables["control_plane_kubeconfig"] = str(own)
    for missing in ("docker", "kind"):
        for name in (f"no {missing}", f"noted, no {missing}"):
            (cases[name].bin / missing).unlink()
        leave_note(cases[f"noted, no {missing}"])
    cases["daemon is away"].want("docker-fails", AWAY)
    # Files of a cluster that was deleted by hand go.
    leave_note(cases["by hand"])
    for name in ("kind.yaml", "notes.txt"):
        (cases["by hand"].control_plane / name).touch()
    for name in ("not noted", "old note"):
        cases[name].leave_containers()
        cases[name].variables["control_plane_timeout"] = 1
    # A note of one that was there before says nothing of this one.
    leave_note(cases["old note"], 2000)
    none = cases.pop("none")

    by_hand = cases["by hand"]
    run = lab.met({"by hand": by_hand, "none": none}, "--check", tasks_from="absent").succeeded()
    assert changes(run.output) == {"by hand": 1, "none": 0}
    assert nothing_made(none) and not none.control_plane.parent.exists()

    met = {**cases, "again": by_hand}
    run = lab.met(met, tasks_from="absent").succeeded()
    assert changes(run.output) == {**dict.fromkeys(met, 0), "by hand": 1}
    told = messages(run.output)
    assert list(told) == ["noted, no docker", "noted, no kind", "daemon is away", "not noted", "old note"]
    for missing in ("docker", "kind"):
        name = f"noted, no {missing}"
        assert told[name].startswith(
            f"the kind cluster gpuwl, which the lab made, cannot be deleted: provider kind needs {missing}, and PATH has no program"
        )
        assert (cases[name].control_plane / "kind-gpuwl.made").exists()
    assert f"the docker daemon does not answer (docker version says: {AWAY})" in told["daemon is away"]
    assert own.read_text() == text
    assert [path.name for path in cases["by hand"].control_plane.iterdir()] == ["notes.txt"]
    assert told["not noted"] == (
        f"nothing tells whether the lab made the kind cluster gpuwl: its API server does not answer, and {cases['not noted'].control_plane} holds no note"
        " of it as it is. If it is the lab's, delete it by `kind delete cluster --name gpuwl`; else start its containers and run again"
    )
    for name in ("not noted", "old note"):
        assert cases[name].cluster().exists() and cases[name].calls("kind", "delete") == []

    # With a note of this one it is clear, and no API server is needed.
    lab.leave_containers()
    leave_note(lab)
    assert lab.teardown().changed == 1
    assert not lab.cluster().exists() and not lab.control_plane.exists() and list(lab.root.iterdir()) == []


def test_a_check_before_there_is_a_cluster_leaves_no_trace(lab):
    run = lab.start("--check", "--diff", "--tags", "all").succeeded()
    assert "There is no running control plane" in run.output and run.changed == 1
    assert lab.calls("kind", "create") == lab.calls("kind", "delete") == []
    assert not lab.root.exists()


def test_after_a_creation_that_was_killed_two_runs_at_once_make_one_cluster(running):
    assert running.checked.changed == 1
    assert sorted(run.changed for run in running.first) == [0, 1]
    verbs = [call[1] for call in running.calls("kind") if call[1] in ("create", "delete")]
    assert verbs == ["create", "delete", "create"]


def test_the_whole_lab_runs_through_the_scheduler(running):
    text = (running.root / "out" / "07-cross.txt").read_text()
    assert text.startswith(
        "PHASE=Pending\nNODE=none\nMESSAGE=0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s)"
    )
    assert (
        running.root / "out" / "06-placement.txt"
    ).read_text() == "job-container lab-node-0\nvmi-passthrough lab-node-1\nvmi-vgpu lab-node-2\n"
    assert (running.root / "out" / "consistency.txt").read_text() == "OK=3\n"


def test_kind_is_asked_for_the_pools_nodes_and_keeps_off_the_users_kubeconfig(running):
    _killed, created = running.calls("kind", "create")
    configuration = running.control_plane / "kind.yaml"
    assert created[:7] == ["kind", "create", "cluster", "--name", "gpuwl", "--config", str(configuration)]
    assert created[7] == "--kubeconfig" and created[8].startswith(f"{running.control_plane}/.kind-")
    assert created[9:] == ["--wait", "120s"]
    nodes = yaml.safe_load(configuration.read_text())["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", "worker", "worker", "worker"]
    assert all(node["labels"] == {MARK: "gpuwl"} for node in nodes)


def test_the_kubeconfig_is_kinds_and_private_and_nothing_else_is_left(running):
    assert running.kubeconfig.read_text() == (running.cluster() / "kwok" / "kubeconfig").read_text() + "\n"
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600
    assert sorted(path.name for path in running.control_plane.iterdir()) == [
        "kind-gpuwl.made",
        "kind.yaml",
        "kubeconfig",
    ]


def test_a_cluster_that_is_there_is_reused_and_keys_do_not_stay_in_temporary_files(running):
    # The cluster alone; that the whole lab has nothing to do either is for the molecule scenario below.
    before = len(running.calls())
    folder = running.base / "tmp"
    folder.mkdir()
    assert running.play("lab", environment={"TMPDIR": str(folder)}).changed == 0
    asked = {tuple(call[:2]) for call in running.calls()[before:]}
    assert asked and not asked & {("kind", "create"), ("kind", "delete"), ("docker", "start")}
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert left and not [path for path in left if b"-----BEGIN" in path.read_bytes()]


def test_the_kubeconfig_is_mended(running):
    before = running.kubeconfig.read_bytes()
    running.kubeconfig.unlink()
    assert running.start("--check").changed == 1
    assert not running.kubeconfig.exists()
    assert running.start().changed == 1
    assert running.kubeconfig.read_bytes() == before


def test_check_mode_reads_only(running):
    before = len(running.calls())
    assert running.start("--check", "--diff", "--tags", "nodes").changed == 0
    assert running.teardown("--check").changed == 1
    verbs = {tuple(call[:2]) for call in running.calls()[before:]}
    assert verbs == {("docker", "version"), ("kind", "version"), ("kind", "get")}
    assert running.cluster().exists() and running.kubeconfig.exists()


def test_nodes_that_the_cluster_does_not_have_and_images(running):
    """The image may say another version than the cluster's, the same one, or none."""
    told = (
        "the kind cluster gpuwl has no node edge-1, edge-2, and a kind cluster's nodes are fixed when it is made:"
        " remove it (playbooks/teardown.yml -e control_plane_provider=kind) and run again"
    )
    pools = [{"name": "edge", "nodes": ["lab-node-0", "edge-[1:2]"], "workload": "container"}]
    assert running.start("--check", lab_pools=pools).error == told
    cases = {
        "nodes": {"control_plane_nodes": ["lab-node-0", "edge-1", "edge-2"]},
        "another": {"control_plane_kind_image": "kindest/node:v1.30.0@sha256:1"},
        "same": {"control_plane_kind_image": "kindest/node:v1.37.2"},
        "own": {"control_plane_kind_image": "registry.example:5000/mine:latest"},
    }
    run = running.cases(cases).succeeded()
    assert messages(run.output) == {
        "nodes": told,
        "another": "the kind cluster gpuwl runs Kubernetes v1.37.2, and control_plane_kind_image is kindest/node:v1.30.0@sha256:1:"
        " remove the cluster (playbooks/teardown.yml -e control_plane_provider=kind) and run again, or leave the image as it was",
    }
    assert changes(run.output) == dict.fromkeys(cases, 0)


def test_nodes_that_do_not_get_ready(running):
    taint = ("taint", "node", "lab-node-1", "node.kubernetes.io/not-ready:NoExecute")
    running.kubectl("annotate", "node/lab-node-1", "kwok.x-k8s.io/node-")
    running.kill("kwok-controller", "kube-controller-manager")
    running.kubectl(*taint)
    error = running.start(control_plane_timeout=2).error
    assert error == (
        "1 of 3 nodes are not Ready, or still tainted as not ready, and none got so for 2 s: lab-node-1;"
        " kubectl describe node, or docker logs of their containers, may tell why"
    )
    running.kubectl(*taint[:-1], f"{taint[-1]}-")
    running.kubectl("annotate", "node/lab-node-1", "kwok.x-k8s.io/node=fake")


def test_an_api_server_that_does_not_come_back_and_stopped_containers_that_are_started(running):
    before = running.kubectl("get", "pods", "-A", "-o", "name")
    running.kill("kube-apiserver")
    error = running.start(control_plane_timeout=2).error
    assert error.startswith(
        "the API server of the kind cluster gpuwl does not answer, and did not for 2 s with all its containers started (nothing"
    )
    assert error.endswith(
        " See docker logs gpuwl-control-plane, or remove the cluster (playbooks/teardown.yml -e control_plane_provider=kind) and run again"
    )

    running.stop_containers()
    assert running.start("--check").changed == 1
    assert running.pids() == {}
    assert running.calls("docker", "start") == []
    assert running.start().changed == 1
    names = ["gpuwl-control-plane", "gpuwl-worker", "gpuwl-worker2", "gpuwl-worker3"]
    assert running.calls("docker", "start") == [["docker", "start", *names]]
    assert running.kubectl("get", "pods", "-A", "-o", "name") == before
    # KWOK plays the kubelets here, and a new one takes no node over before the old one's lease of 200 s has run out.
    running.kubectl("delete", "leases", "--all", "--namespace", "kube-node-lease")


def test_the_molecule_scenario(lab):
    """On a docker daemon tests/integration/test_molecule.py runs it; here converge, idempotence and verify run on the stand-ins."""
    programs = Path(sys.executable).parent
    # molecule works below the folder that it is called in, where the other test may be at work.
    checkout = lab.base / "checkout"
    checkout.mkdir()
    for entry in CHECKOUT.iterdir():
        if entry.name != ".cache":
            (checkout / entry.name).symlink_to(entry)
    environment = lab.environment(
        PATH=f"{lab.bin}:{programs}:{lab.base / 'tools'}", MOLECULE_GLOB="molecule/*/molecule.yml", NO_COLOR="1"
    )
    done = subprocess.run(
        [programs / "molecule", "test", "--scenario-name", "kind"],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    verify = done.stdout[done.stdout.index("[kind > verify] Executing") :]
    assert re.search(r"localhost +: ok=[6-9] +changed=0 +unreachable=0 +failed=0", verify), verify
    (created,) = lab.calls("kind", "create")
    (deleted,) = lab.calls("kind", "delete")
    assert created[3:5] == deleted[3:5] == ["--name", "gpuwl-molecule"]
    assert deleted[:3] == ["kind", "delete", "cluster"] and deleted[5] == "--kubeconfig"
    assert deleted[6].startswith(f"{checkout}/.cache/molecule/kind/") and "/.kind-" in deleted[6]
    assert not (checkout / ".cache" / "molecule" / "kind").exists() and lab.pids() == {}


def test_teardown_leaves_what_the_lab_did_not_make_and_knows_its_own_without_notes(running):
    """The last test here, for it takes the lab away."""
    deleted = len(running.calls("kind", "delete"))
    running.kubectl("label", "nodes", "--all", f"{MARK}-")
    # A note of a killed creation is not believed of it, either.
    (running.control_plane / "kind-gpuwl.made").rename(running.control_plane / "kind-gpuwl.being-made")
    assert running.start().changed == 0
    assert not list(running.control_plane.glob("kind-*"))

    assert running.teardown("--check").changed > 0
    running.kubeconfig.unlink()
    running.teardown().succeeded()
    assert len(running.calls("kind", "delete")) == deleted
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600
    nodes = json.loads(running.kubectl("get", "nodes", "-o", "json"))["items"]
    assert len(nodes) == 4 and not [
        key for node in nodes for key in node["metadata"]["labels"] if key.startswith("nvidia.com/")
    ]

    running.kubectl("label", "nodes", "--all", f"{MARK}=gpuwl")
    shutil.rmtree(running.root)
    assert running.teardown().changed == 1
    assert len(running.calls("kind", "delete")) == deleted + 1
    assert running.pids() == {} and not running.root.exists()
