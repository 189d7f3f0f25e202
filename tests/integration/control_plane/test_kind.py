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
from control_plane_lab import CHECKOUT, commands, finish, kill, wait_for
from kind_lab import KindLab

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


@pytest.fixture(scope="module")
def running(programs):
    """The whole lab, its cluster made once, by two runs at a time; each test leaves it running."""
    made = new_lab(programs)
    try:
        made.first = [finish(play) for play in [made.launch("lab") for _play in range(2)]]
        made.start("--tags", "all").succeeded()
        yield made
    finally:
        made.destroy()


def nothing_made(lab) -> None:
    assert not lab.cluster().exists() and not lab.control_plane.exists()


def test_docker_is_missing(lab):
    (lab.bin / "docker").unlink()
    assert lab.start().error == (
        "provider kind needs docker, and PATH has no program of that name: install it as https://docs.docker.com/engine/install/ says"
    )
    nothing_made(lab)


def test_the_docker_daemon_is_away(lab):
    lab.want("docker-fails", AWAY)
    assert lab.start().error == (
        f"the docker daemon does not answer (docker version says: {AWAY}): start it (systemctl start docker, or Docker Desktop),"
        " and see that DOCKER_HOST and this user's rights let `docker version` show a server"
    )
    nothing_made(lab)


def test_the_docker_daemon_hangs(lab):
    lab.want("docker-hangs")
    assert "the docker daemon does not answer (docker version did not end within 15 s): start it" in lab.start().error
    assert lab.everything() == []
    nothing_made(lab)


def test_kind_is_missing(lab):
    (lab.bin / "kind").unlink()
    assert lab.start().error == (
        "provider kind needs kind, and PATH has no program of that name: get it at https://kind.sigs.k8s.io/docs/user/quick-start/#installation"
    )
    nothing_made(lab)


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            "kind v0.19.0 go1.20.4 linux/amd64",
            "kind v0.19.0 is too old, wanted is v0.20.0 or newer: get it at https://kind.sigs.k8s.io/",
        ),
        (
            "a window manager",
            "kind does not tell its version (`kind version` says: a window manager); wanted is v0.20.0 or newer: get it at",
        ),
    ],
)
def test_kind_is_too_old_or_another_program(lab, printed, told):
    lab.want("kind-version", printed)
    assert told in lab.start().error
    nothing_made(lab)


def test_kind_cannot_make_the_cluster(lab):
    lab.want("create-fails", NO_IMAGE)
    error = lab.start(control_plane_kind_image="kindest/node:v9.9.9").error
    assert error == (
        'kind could not make the cluster gpuwl; kind says: failed to create cluster: failed to pull image "kindest/node:v9.9.9": command "docker pull'
        ' kindest/node:v9.9.9" failed with error: exit status 1: Error response from daemon: Get "https://...@mirror.example/v2/": no basic auth credentials'
    )
    (created,) = lab.calls("kind", "create")
    assert created[-2:] == ["--image", "kindest/node:v9.9.9"]
    assert [path.name for path in lab.control_plane.iterdir()] == ["kind.yaml"]


def test_another_clusters_kubeconfig_is_in_the_way(lab):
    own = lab.base / "home" / "config"
    text = (
        "apiVersion: v1\nclusters: [{name: work, cluster: {server: https://work.example}}]\ncontexts: []\nusers: []\n"
    )
    own.write_text(text)
    error = lab.start(control_plane_kubeconfig=str(own)).error
    assert (
        error
        == f"{own} is not this cluster's kubeconfig and is left alone: move it away, or set control_plane_kubeconfig to another file"
    )
    nothing_made(lab)
    assert lab.teardown(control_plane_kubeconfig=str(own)).changed == 0
    assert own.read_text() == text


def test_a_name_that_cannot_be(lab):
    assert "'a_b' is not made of small letters" in lab.start(control_plane_name="a_b").error
    assert lab.calls() == []


def test_two_runs_at_once_make_one_cluster(running):
    assert sorted(run.changed for run in running.first) == [0, 1]
    assert len(running.calls("kind", "create")) == 1


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
    (created,) = running.calls("kind", "create")
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


def test_a_cluster_that_is_there_is_reused(running):
    # The cluster alone; that the whole lab has nothing to do either is for the molecule scenario below.
    assert running.start().changed == 0
    assert (
        len(running.calls("kind", "create")) == 1
        and running.calls("kind", "delete") == []
        and running.calls("docker", "start") == []
    )


def test_keys_do_not_stay_in_temporary_files(running):
    folder = running.base / "tmp"
    folder.mkdir()
    running.play("lab", environment={"TMPDIR": str(folder)}).succeeded()
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


@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_nodes_that_the_cluster_does_not_have(running, arguments):
    pools = [{"name": "edge", "nodes": ["lab-node-0", "edge-[1:2]"], "workload": "container"}]
    assert running.start(*arguments, lab_pools=pools).error == (
        "the kind cluster gpuwl has no node edge-1, edge-2, and a kind cluster's nodes are fixed when it is made:"
        " remove it (playbooks/teardown.yml -e control_plane_provider=kind) and run again"
    )


def test_an_image_of_another_version(running):
    assert running.start(control_plane_kind_image="kindest/node:v1.30.0@sha256:1").error == (
        "the kind cluster gpuwl runs Kubernetes v1.37.2, and control_plane_kind_image is kindest/node:v1.30.0@sha256:1:"
        " remove the cluster (playbooks/teardown.yml -e control_plane_provider=kind) and run again, or leave the image as it was"
    )
    assert running.start(control_plane_kind_image="kindest/node:v1.37.2").changed == 0
    assert running.start(control_plane_kind_image="registry.example:5000/mine:latest").changed == 0


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


def test_stopped_containers_are_started(running):
    before = running.kubectl("get", "pods", "-A", "-o", "name")
    running.stop_containers()
    assert running.start("--check").changed == 1
    assert running.pids() == {}
    assert running.start().changed == 1
    names = ["gpuwl-control-plane", "gpuwl-worker", "gpuwl-worker2", "gpuwl-worker3"]
    assert running.calls("docker", "start") == [["docker", "start", *names]]
    assert running.kubectl("get", "pods", "-A", "-o", "name") == before
    assert running.start().changed == 0


def test_an_api_server_that_does_not_come_back(running):
    running.kill("kube-apiserver")
    error = running.start(control_plane_timeout=2).error
    assert error.startswith(
        "the API server of the kind cluster gpuwl does not answer, and did not for 2 s with all its containers started (nothing"
    )
    assert error.endswith(
        " See docker logs gpuwl-control-plane, or remove the cluster (playbooks/teardown.yml -e control_plane_provider=kind) and run again"
    )
    running.stop_containers()
    running.start().succeeded()


def test_a_check_before_there_is_a_cluster_leaves_no_trace(lab):
    run = lab.start("--check", "--diff", "--tags", "all").succeeded()
    assert "There is no running control plane" in run.output and run.changed == 1
    assert lab.teardown("--check").changed == 0
    assert lab.calls("kind", "create") == lab.calls("kind", "delete") == []
    assert not lab.root.exists()


def test_a_creation_that_was_killed_leaves_no_kind_running_and_is_made_anew_and_torn_down(lab):
    lab.want("create-hangs")
    play = lab.launch("lab")
    wait_for(lambda: lab.cluster().exists(), 60, "kind to have containers")
    pid = next(pid for pid, command in commands() if str(lab.fakes) in command and "create" in command)
    worker = int(re.search(r"^PPid:\s*(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])
    kill(worker)
    wait_for(lambda: pid not in dict(commands()), 10, "kind to end with its play")
    lab.kill_runs()
    play.communicate()
    lab.want_no_more("create-hangs")

    assert lab.start("--check").changed == 1
    assert lab.start().changed == 1
    assert [call[1] for call in lab.calls("kind") if call[1] in ("create", "delete")] == ["create", "delete", "create"]
    assert sorted(path.name for path in lab.control_plane.iterdir()) == ["kind-gpuwl.made", "kind.yaml", "kubeconfig"]

    # Teardown deletes what the lab made.
    assert lab.teardown().changed == 1
    _killed, deleted = lab.calls("kind", "delete")
    assert deleted[:5] == ["kind", "delete", "cluster", "--name", "gpuwl"]
    assert deleted[5] == "--kubeconfig" and deleted[6].startswith(f"{lab.control_plane}/.kind-")
    assert lab.pids() == {} and not lab.control_plane.exists() and list(lab.root.iterdir()) == []
    assert lab.teardown().changed == 0


def test_teardown_leaves_what_the_lab_did_not_make_and_knows_its_own_without_notes(lab):
    lab.start("--tags", "nodes").succeeded()
    lab.kubectl("label", "nodes", "--all", f"{MARK}-")
    # A note of a killed creation is not believed of it, either.
    (lab.control_plane / "kind-gpuwl.made").rename(lab.control_plane / "kind-gpuwl.being-made")
    assert lab.start().changed == 0
    assert not list(lab.control_plane.glob("kind-*"))

    assert lab.teardown("--check").changed > 0
    lab.kubeconfig.unlink()
    lab.teardown().succeeded()
    assert lab.calls("kind", "delete") == []
    assert stat.S_IMODE(lab.kubeconfig.stat().st_mode) == 0o600
    nodes = json.loads(lab.kubectl("get", "nodes", "-o", "json"))["items"]
    assert len(nodes) == 4 and not [
        key for node in nodes for key in node["metadata"]["labels"] if key.startswith("nvidia.com/")
    ]

    lab.kubectl("label", "nodes", "--all", f"{MARK}=gpuwl")
    shutil.rmtree(lab.root)
    assert lab.teardown().changed == 1
    assert len(lab.calls("kind", "delete")) == 1
    assert lab.pids() == {} and not lab.root.exists()


def test_a_cluster_of_which_nothing_tells_who_made_it(lab):
    lab.leave_containers()
    assert lab.teardown().error == (
        f"nothing tells whether the lab made the kind cluster gpuwl: its API server does not answer, and {lab.control_plane} holds no note of it as it is."
        " If it is the lab's, delete it by `kind delete cluster --name gpuwl`; else start its containers and run again"
    )
    assert lab.cluster().exists()
    # A note of one that was there before says nothing of this one.
    lab.control_plane.mkdir(parents=True)
    note = lab.control_plane / "kind-gpuwl.made"
    note.touch()
    long_ago = note.stat().st_mtime - 2000
    os.utime(note, (long_ago, long_ago))
    for play in (lab.teardown, lab.start):
        assert play(control_plane_timeout=1).code != 0
        assert lab.cluster().exists() and lab.calls("kind", "delete") == []
    # With a note of this one it is clear, and no API server is needed.
    note.touch()
    assert lab.teardown().changed == 1
    assert not lab.cluster().exists() and not lab.control_plane.exists()


@pytest.mark.parametrize("missing", ["docker", "kind"])
def test_teardown_without_docker_or_kind(lab, missing):
    (lab.bin / missing).unlink()
    assert lab.teardown().changed == 0
    lab.control_plane.mkdir(parents=True)
    (lab.control_plane / "kind-gpuwl.made").touch()
    error = lab.teardown().error
    assert error.startswith(
        f"the kind cluster gpuwl, which the lab made, cannot be deleted: provider kind needs {missing}, and PATH has no program"
    )
    assert (lab.control_plane / "kind-gpuwl.made").exists()


def test_teardown_while_the_docker_daemon_is_away(lab):
    lab.want("docker-fails", AWAY)
    assert f"the docker daemon does not answer (docker version says: {AWAY})" in lab.teardown().error


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
    assert not (checkout / ".cache" / "molecule" / "kind").exists() and lab.pids() == {}


def test_files_of_a_cluster_that_was_deleted_by_hand_go(lab):
    lab.control_plane.mkdir(parents=True)
    for name in ("kind-gpuwl.made", "kind.yaml", "notes.txt"):
        (lab.control_plane / name).touch()
    assert lab.teardown("--check").changed == 1
    assert lab.teardown().changed == 1
    assert [path.name for path in lab.control_plane.iterdir()] == ["notes.txt"]
    assert lab.teardown().changed == 0
