# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a running control plane shows to its user and to others on the machine."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import stat
from pathlib import Path

import pytest
import yaml
from control_plane_lab import COMPONENTS, finish


def listening(pid: int) -> list[tuple[str, int]]:
    """Address and port of every TCP and UDP socket at which a process takes what comes."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        inodes.update(re.findall(r"^socket:\[(\d+)\]$", target))
    found = []
    for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and fields[9] in inodes:
                address, port = fields[1].split(":")
                # Words of 32 bits in the machine's order, as the kernel prints them.
                packed = b"".join(bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8))
                found.append((str(ipaddress.ip_address(packed)), int(port, 16)))
    return found


def test_everything_listens_on_loopback_only(running):
    sockets = {name: listening(pid) for name, pid in running.one_set().items()}
    # Each of the five is seen to listen, so that an empty answer cannot pass.
    assert all(sockets[name] for name in COMPONENTS), sockets
    addresses = {address for found in sockets.values() for address, _port in found}
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses), sockets


def test_the_kubeconfig_is_private_and_needs_no_other_file(running):
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600
    config = yaml.safe_load(running.kubeconfig.read_text())
    assert len(config["clusters"]) == len(config["users"]) == 1
    assert {*config["clusters"][0]["cluster"], *config["users"][0]["user"]} == {
        "server",
        "certificate-authority-data",
        "client-certificate-data",
        "client-key-data",
    }
    assert "kube-system" in running.kubectl("get", "namespaces", "-o", "name")


def test_nobody_else_can_read_a_private_key_or_a_token(running):
    keys = [
        path
        for path in running.control_plane.rglob("*")
        if path.is_file() and not path.is_symlink() and b"PRIVATE KEY" in path.read_bytes()
    ]
    assert keys
    assert [str(path) for path in keys if path.stat().st_mode & 0o077] == []
    assert stat.S_IMODE(running.control_plane.stat().st_mode) == 0o700


def test_a_kubeconfig_of_the_users_is_neither_overwritten_nor_removed(lab):
    own = lab.base / "home" / "config"
    text = (
        "apiVersion: v1\nclusters: [{name: work, cluster: {server: https://work.example}}]\ncontexts: []\nusers: []\n"
    )
    own.write_text(text)
    error = lab.start(control_plane_kubeconfig=str(own)).error
    assert str(own) in error and "control_plane_kubeconfig" in error
    assert lab.pids() == {}
    lab.teardown(control_plane_kubeconfig=str(own)).succeeded()
    assert own.read_text() == text


def test_a_running_cluster_is_reused(running):
    before = running.one_set()
    assert running.start().changed == 0
    assert running.one_set() == before


@pytest.mark.parametrize("content", [None, "\x00{"], ids=["removed", "garbage that all can read"])
def test_the_kubeconfig_is_mended(running, content):
    before = running.one_set(), running.kubeconfig.read_bytes()
    running.kubeconfig.unlink()
    if content is not None:
        running.kubeconfig.write_text(content)
        running.kubeconfig.chmod(0o644)
    assert running.start().changed == 1
    assert (running.one_set(), running.kubeconfig.read_bytes()) == before
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600


def test_a_kubeconfig_that_all_can_read_is_closed(running):
    running.kubeconfig.chmod(0o644)
    assert running.start().changed == 1
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600


def test_a_cluster_of_another_version_is_refused(running):
    before = running.one_set()
    error = running.start(control_plane_kubernetes_version="v1.30.0").error
    assert "v1.37.2" in error and "v1.30.0" in error and "teardown" in error
    assert running.one_set() == before


def test_a_cluster_is_the_same_one_through_a_link(running):
    before = running.one_set()
    link = running.base / "link"
    link.symlink_to(running.root)
    assert running.start(lab_root=str(link)).changed == 0
    assert running.one_set() == before


def test_teardown_in_check_mode_says_what_it_would_do_and_does_nothing(running):
    before = running.one_set()
    assert running.teardown("--check").changed == 1
    assert running.one_set() == before and running.kubeconfig.exists()


def untouched(home: Path) -> None:
    files = sorted(
        str(path.relative_to(home)) for path in home.rglob("*") if path.is_file() and ".ansible" not in path.parts
    )
    assert files == [".kube/config", ".kwok/kwok.yaml", "bin/kubectl"]
    assert {(home / name).read_text() for name in files[:2]} == {"the user's own\n"}


def test_another_cluster_that_two_starts_at_once_make_and_that_leaves_the_first_and_the_users_own_alone(running, lab):
    """It has ports of its own, and does not touch the user's files nor ask the user's kubectl."""
    before = running.one_set()
    home = lab.base / "home"
    for name in (".kube", ".kwok", "bin"):
        (home / name).mkdir()
    (home / ".kube" / "config").write_text("the user's own\n")
    (home / ".kwok" / "kwok.yaml").write_text("the user's own\n")
    # Another version, or a program that asks who you are: the collection's own kubectl does the work.
    (home / "bin" / "kubectl").write_text("#!/bin/sh\ntouch ~/asked\nexit 1\n")
    (home / "bin" / "kubectl").chmod(0o755)

    plays = [lab.launch("lab", environment={"PATH": f"{home}/bin:{os.environ['PATH']}"}) for _play in range(2)]
    runs = [finish(play) for play in plays]
    assert sorted(run.changed for run in runs) == [0, 1]
    untouched(home)
    lab.one_set()
    lab.works()
    theirs = {port for pid in running.one_set().values() for _address, port in listening(pid)}
    ours = {port for pid in lab.one_set().values() for _address, port in listening(pid)}
    assert ours and not ours & theirs
    lab.kubectl("create", "namespace", "ours")
    assert "ours" not in running.kubectl("get", "namespaces", "-o", "name")
    # That is this test's own kubectl's.
    shutil.rmtree(home / ".kube" / "cache")
    lab.teardown().succeeded()
    assert lab.pids() == {}
    assert running.one_set() == before
    untouched(home)


def test_of_two_clusters_in_one_folder_one_is_removed(running):
    first = running.one_set()
    other = {"control_plane_name": "other", "control_plane_kubeconfig": str(running.base / "other")}
    running.start(**other).succeeded()
    assert {name: len(pids) for name, pids in running.pids().items()} == dict.fromkeys(COMPONENTS, 2)
    assert running.teardown(**other).changed == 1
    assert running.one_set() == first
    assert not (running.base / "other").exists()
    assert running.start().changed == 0


def test_a_check_before_there_is_a_cluster_ends_well_and_leaves_no_trace(lab):
    run = lab.start("--check", "--diff", "--tags", "all").succeeded()
    assert "There is no running control plane" in run.output
    assert not lab.root.exists()
    assert lab.pids() == {}
