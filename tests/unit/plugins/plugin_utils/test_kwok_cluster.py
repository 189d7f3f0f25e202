# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import kwok_cluster, kwok_kubeconfig, kwok_processes

BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kwokctl", "kubectl")


@pytest.fixture
def cluster(tmp_path):
    for name in PROGRAMS:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    programs = {name: str(tmp_path / name) for name in PROGRAMS}
    return kwok_cluster.KwokCluster(str(tmp_path / "root"), "lab", str(tmp_path / "root" / "kubeconfig"), programs)


def write_down(cluster, binaries=BINARIES, version="1.37.2", port=4711):
    folder = cluster.folder
    (folder / "pids").mkdir(parents=True, exist_ok=True)
    components = [
        {"name": name, "binary": str(folder / "bin" / name), "version": version, "ports": [{"port": port + number}]}
        for number, name in enumerate(binaries)
    ]
    (folder / "kwok.yaml").write_text(yaml.safe_dump({"components": components}) + "---\nkind: Other\n")


def test_what_kwokctl_wrote_down_is_read(cluster):
    write_down(cluster)
    assert [component["name"] for component in cluster.components()] == list(BINARIES)
    assert cluster.version() == "v1.37.2"
    assert cluster.server() == "https://127.0.0.1:4712"
    assert not cluster.is_up()


@pytest.mark.parametrize("text", ["", "[", "components: [", "- a", "components: 3", "components: [{}]", "\x00"])
def test_notes_that_were_cut_off_name_no_cluster(cluster, text):
    cluster.folder.mkdir(parents=True)
    (cluster.folder / "kwok.yaml").write_text(text)
    assert cluster.components() == [] and cluster.version() is None


def test_notes_that_lack_a_component_name_no_cluster(cluster):
    write_down(cluster, BINARIES[:-1])
    assert cluster.components() == []


def test_every_component_has_a_port_of_its_own_on_loopback(cluster):
    cluster.port = 25000
    for _draw in range(20):
        options = cluster._configuration()["options"]
        ports = [value for key, value in options.items() if key.endswith("Port")]
        assert len(ports) == len(set(ports)) == 6 and all(0 < port < 32768 for port in ports)
        assert options["kubeApiserverPort"] == 25000 and options["bindAddress"] == "127.0.0.1"


def test_a_free_port_is_not_one_that_somebody_has():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert kwok_processes.port_trouble(port) == "Address already in use"
    assert kwok_processes.port_trouble(port) is None
    assert "65535" in kwok_processes.port_trouble(65536)


@pytest.mark.parametrize("root", ["a,b", 'a"b', "a\nb"])
def test_paths_that_kwok_would_split_are_refused(cluster, root):
    cluster.root = cluster.root / root
    with pytest.raises(kwok_cluster.ClusterError, match="lab_root"):
        cluster.check()


def test_all_missing_programs_are_named(cluster, tmp_path):
    (tmp_path / "etcd").chmod(0o644)
    (tmp_path / "kwok").unlink()
    with pytest.raises(kwok_cluster.ClusterError) as caught:
        cluster.check()
    told = str(caught.value)
    assert f"executable: {tmp_path}/etcd, {tmp_path}/kwok. " in told


def test_pid_files_say_what_runs_and_nothing_else(cluster, monkeypatch):
    write_down(cluster)
    for name in BINARIES:
        (cluster.folder / "pids" / f"{name}.pid").write_text("1")
    monkeypatch.setattr(cluster, "running", lambda: {str(cluster.folder / "bin" / "etcd"): [42]})
    cluster._write_pid_files()
    assert {file.name: file.read_text() for file in (cluster.folder / "pids").iterdir()} == {"etcd.pid": "42"}


def test_a_component_that_was_started_and_is_gone_has_ended(cluster, monkeypatch):
    write_down(cluster)
    monkeypatch.setattr(cluster, "running", lambda: {str(cluster.folder / "bin" / "etcd"): [42]})
    for name in ("etcd", "kube-scheduler"):
        (cluster.folder / "pids" / f"{name}.pid").write_text("42")
    assert [component["name"] for component in cluster._ended()] == ["kube-scheduler"]
    (cluster.folder / "logs").mkdir()
    (cluster.folder / "logs" / "kube-scheduler.log").write_text("first\nit broke\n")
    assert "kube-scheduler ended and says: it broke" in cluster._trouble("kwokctl's words")
    (cluster.folder / "logs" / "kube-scheduler.log").write_text("write: no space left on device\nlast\n")
    assert "is full" in cluster._trouble("")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"level":"ERROR","msg":"Failed","err":"no such file"}', "Failed: no such file"),
        ('{"level":"fatal","msg":"listen","error":"in use"}', "listen: in use"),
        ('{"other": 1}', '{"other": 1}'),
        ("F1130 plain text", "F1130 plain text"),
        ("[1]", "[1]"),
    ],
)
def test_a_line_of_a_log_is_read_as_a_sentence(line, told):
    assert kwok_cluster._sentence(line) == told


def kubeconfig(name="lab", server="https://127.0.0.1:1"):
    return {
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name}],
        "contexts": [{"name": name}],
    }


@pytest.mark.parametrize(
    ("content", "foreign"),
    [
        (kubeconfig(), False),
        (None, False),
        ("", False),
        (kubeconfig(name="work"), True),
        (kubeconfig(server="https://work.example"), True),
        ({**kubeconfig(), "users": [{"name": "lab"}, {"name": "work"}]}, True),
        ({**kubeconfig(), "clusters": []}, True),
        ({"clusters": None}, True),
        ("some text", True),
        ("[", True),
    ],
)
def test_a_kubeconfig_is_told_from_the_users_own(tmp_path, content, foreign):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    assert kwok_kubeconfig.is_foreign(path, "lab") is foreign


def test_a_kubeconfig_is_written_whole_and_private(tmp_path):
    path = tmp_path / "new" / "config"
    assert kwok_kubeconfig.write(path, "text")
    assert not kwok_kubeconfig.write(path, "text")
    path.chmod(0o644)
    assert kwok_kubeconfig.write(path, "text")
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["config"]


def test_a_process_is_told_by_where_its_program_was_started(tmp_path):
    program = tmp_path / "bin" / "etcd"
    program.parent.mkdir()
    shutil.copy("/bin/sleep", program)
    disguised = [str(tmp_path / "bin" / "kwok-controller"), "600"]
    with subprocess.Popen([program, "600"]) as ours, subprocess.Popen(disguised, executable="/bin/sleep") as stranger:
        try:
            assert kwok_processes.running_below(tmp_path / "bin") == {str(program): [ours.pid]}
            program.unlink()
            assert kwok_processes.running_below(tmp_path / "bin") == {str(program): [ours.pid]}
            assert kwok_processes.running_below(tmp_path / "b") == {}
        finally:
            ours.kill()
            stranger.kill()
    assert kwok_processes.running_below(tmp_path / "bin") == {}


def test_a_process_that_ignores_a_polite_end_is_killed():
    ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", ignoring], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        kwok_processes.end(process.pid, patience=0.1)
        assert process.wait(timeout=60) == -9
    kwok_processes.end(process.pid, patience=0.1)


def test_two_clusters_below_one_root_own_different_things(cluster):
    write_down(cluster)
    (cluster.folder.parent / "other").mkdir()
    assert cluster._own_paths() == [cluster.folder]
    (cluster.folder.parent / "other").rmdir()
    assert cluster._own_paths() == [cluster.state]


def test_the_kubeconfig_of_a_kind_cluster_in_the_labs_folder_stays(cluster):
    cluster.root.mkdir()
    cluster.kubeconfig.write_text(yaml.safe_dump(kubeconfig()))
    assert cluster._own_paths() == [cluster.kubeconfig]
    cluster.kubeconfig.write_text(yaml.safe_dump(kubeconfig("kind-lab")))
    assert cluster._own_paths() == []


def test_a_teardown_by_another_name_leaves_the_cluster_alone(tmp_path):
    root = tmp_path / "control-plane"
    theirs, kubeconfig = root / ".kwok" / "clusters" / "practice", root / "kubeconfig"
    theirs.mkdir(parents=True)
    kubeconfig.write_text("practice's")
    cluster = kwok_cluster.KwokCluster(str(root), "gpuwl", str(kubeconfig), {})
    for remove in (cluster.is_there, cluster.remove):
        with pytest.raises(
            kwok_cluster.ClusterError, match="is no cluster 'gpuwl' but practice: set control_plane_name"
        ):
            remove()
    assert theirs.is_dir() and kubeconfig.read_text() == "practice's"
