# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab of operands with stages of a user's own: on kind too, kept, failing, and refused."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

import pytest
import yaml

LABEL = "nvidia.com/gpu.deploy.device-plugin"
TAINT = {"key": "example.com/maintenance", "effect": "NoSchedule"}
OWN = {
    "operands_daemonsets": [
        {"name": "device-plugin", "selector": {LABEL: "true"}},
        {"name": "everywhere", "selector": {"nvidia.com/gpu.present": "true"}, "tolerations": [{"operator": "Exists"}]},
    ],
    "operands_nodes": [{"name": "own-0", "labels": {"nvidia.com/gpu.present": "true", LABEL: "true"}}],
    "operands_stages": [
        {"name": "as-it-was"},
        {
            "name": "tainted",
            "taints": {"own-0": [TAINT]},
            "nodes": [{"name": "own-1", "labels": {LABEL: "true"}, "taints": [TAINT]}],
        },
        {"name": "mended", "taints": {"own-0": [], "own-1": []}, "labels": {"own-0": {LABEL: "false"}}},
    ],
}
RUNS = {
    "01-as-it-was": "own-0 device-plugin,everywhere\n",
    # A Pod that runs already stays where a NoSchedule taint would keep a new one away.
    "02-tainted": "own-0 device-plugin,everywhere\nown-1 none\n",
    "03-mended": "own-0 everywhere\nown-1 device-plugin\n",
}


@pytest.fixture(scope="module")
def lab(make_lab):
    """A lab whose cluster was kept."""
    made = make_lab()
    made.declared = OWN
    made.kept = made.run(operands_keep=True)
    return made


def runs(lab):
    return {path.stem: path.read_text() for path in lab.files() if path.stem[0].isdigit() and "-audit" not in path.stem}


def test_own_stages(lab):
    assert runs(lab) == RUNS
    stages = {stage["name"]: stage for stage in lab.json("out/run.json")["stages"]}
    assert stages["tainted"]["changes"] == [
        "own-1 joins with nvidia.com/gpu.deploy.device-plugin=true, tainted example.com/maintenance:NoSchedule",
        "own-0 is tainted example.com/maintenance:NoSchedule",
    ]
    # Kubernetes 1.37 does not count anew when a node with a Pod is tainted: the number is right by chance, for no Pod would start there now.
    assert stages["tainted"]["daemonsets"][0] == {
        "name": "device-plugin",
        "desired_number_scheduled": 1,
        "number_misscheduled": 0,
        "selected": 2,
        "running": 1,
    }


def test_a_cluster_is_kept_until_it_is_removed(lab):
    there = lab.kubectl_of_the_message(lab.kept)["items"]
    assert sorted(item["metadata"]["name"] for item in there if item["kind"] == "DaemonSet") == [
        "device-plugin",
        "everywhere",
    ]
    (context,) = yaml.safe_load((lab.root / "control-plane" / "kubeconfig").read_text())["contexts"]
    assert context["name"] == "gpuwl-operands"
    server = urlsplit(
        yaml.safe_load((lab.root / "control-plane" / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    )
    assert len(lab.processes()) == 5

    said = lab.run("--tags", "destroy", "--check")
    assert (said.changed, len(lab.processes())) == (["Remove the control plane"], 5)
    lab.run("--tags", "destroy")
    assert (lab.processes(), lab.left(), runs(lab)) == ([], [], RUNS)
    with socket.socket() as probe:
        assert probe.connect_ex((server.hostname, server.port)) != 0


def test_a_stage_that_fails_takes_the_cluster_down_and_says_what_was_awaited(lab):
    # Whether the one that was kept is there yet or not: each run begins without a cluster.
    full = [{"name": "full", "nodes": [{"name": "own-2", "labels": {LABEL: "true"}, "capacity": {"pods": "0"}}]}]
    played = lab.play(operands_stages=OWN["operands_stages"][:1] + full, operands_timeout=5)
    assert played.rc != 0 and "Traceback" not in played.output
    said = " ".join(played.output.split())
    assert "one Running Pod of device-plugin on own-2, last seen: Pending" in said
    # What the stages before saw stays, and the records of stages that are declared no more are gone.
    assert runs(lab) == {"01-as-it-was": RUNS["01-as-it-was"]}
    assert (lab.processes(), lab.left()) == ([], [])


def test_on_kind_the_same_is_seen(make_lab):
    lab = make_lab()
    lab.declared = OWN
    played = lab.run("--diff", control_plane_provider="kind", environment=lab.stand_in_for_kind())
    assert runs(lab) == RUNS, played.output[-3000:]
    # These are of the stand-in's kubectl, and of the module that asks kind's API server whose cluster it is.
    left = [name for name in lab.left() if not name.startswith(("home of mine/.kube", "tmp/k8srcp-"))]
    assert (lab.processes(), left) == ([], [])


def refused(lab, **variables):
    """What a run says that must end before it wrote anything."""
    before, times = sorted(lab.folder.rglob("*")), lab.times()
    played = lab.play(**variables)
    assert played.rc != 0 and "Traceback" not in played.output
    assert (sorted(lab.folder.rglob("*")), lab.times()) == (before, times)
    (said,) = played.output.split("\nfatal: ")[1:]
    return " ".join(said.partition("PLAY RECAP")[0].split())


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"operands_root": "somewhere"},
            'operands_root must be an absolute path, such as /home/me/gpuwl-operands; found: "somewhere"',
        ),
        ({"operands_root": 7}, "operands_root must be an absolute path, such as /home/me/gpuwl-operands; found: 7"),
        ({"operands_root": "FILE"}, "is no folder: move it away, or set operands_root to another folder."),
        ({"operands_root": "FILE/below"}, "is no folder: move it away, or set operands_root to another folder."),
        ({"operands_root": "/tmp/a,b"}, "kwok takes no path with a comma"),
        (
            {"operands_root": "/tmp/lab", "lab_root": "/tmp/lab"},
            "operands_root is /tmp/lab, and lab.yml keeps its records there",
        ),
        (
            {"control_plane_provider": "existing"},
            "control_plane_provider is existing, and this playbook makes and removes a whole cluster",
        ),
        (
            {"control_plane_provider": "kind", "environment": {"K8S_AUTH_HOST": "https://127.0.0.1:1"}},
            "K8S_AUTH_HOST in the environment would lead tasks to another cluster than kind's. Unset it.",
        ),
        ({"control_plane_root": "/tmp/elsewhere"}, "control_plane_root and control_plane_kubeconfig are for lab.yml"),
        (
            {"operands_stages": [{"name": "A b"}, {"name": "b", "typo": 1}]},
            "operands_stages[0]: name must be small letters, digits and inner dashes",
        ),
    ],
    ids=[
        "relative",
        "no-text",
        "file",
        "below-a-file",
        "comma",
        "the-labs",
        "existing",
        "kind-elsewhere",
        "control-plane",
        "stages",
    ],
)
def test_what_is_refused_is_refused_in_one_line(lab, variables, words):
    file = lab.folder / "a file"
    file.touch()
    given = {
        key: value.replace("FILE", str(file)) if isinstance(value, str) else value for key, value in variables.items()
    }
    assert words in refused(lab, **given)


def test_a_folder_that_cannot_be_written_is_refused(lab):
    closed = lab.folder / "closed"
    closed.mkdir(mode=0o555)
    if os.access(closed, os.W_OK):
        # root writes everywhere but where the file system itself is read-only.
        closed = next((path for path in ("/sys", "/proc/sys") if not os.access(path, os.W_OK)), None)
    if closed:
        assert "cannot be written: make it writable, or set operands_root" in refused(
            lab, operands_root=f"{closed}/operands"
        )
