# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control plane that died, as after a reboot or a crash, comes back with its data and harms nobody's processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from control_plane_lab import COMPONENTS, finish, wait_for


@pytest.fixture(scope="module")
def kept(running):
    """The running lab, with something in it that must not get lost."""
    running.kubectl("create", "namespace", "kept")
    return running


def is_intact(lab) -> None:
    lab.one_set()
    assert "namespace/kept" in lab.kubectl("get", "namespaces", "-o", "name")


def alive(process: subprocess.Popen) -> bool:
    return process.poll() is None


def test_all_killed_and_pid_files_that_name_other_processes_and_two_runs_at_once(kept, own_process):
    """A stranger's, one that passes itself off as this very etcd, a zombie, and one that is always there."""
    before = kept.one_set()
    binary = kept.pid_file("etcd").parents[1] / "bin" / "etcd"
    kept.kill(*COMPONENTS)
    stranger, disguised, zombie = (
        own_process("sleep", "600"),
        own_process("sleep", "600", name=str(binary)),
        own_process("true"),
    )
    wait_for(lambda: Path(f"/proc/{zombie.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", 10, "a zombie")
    for component, pid in zip(COMPONENTS, (stranger.pid, zombie.pid, disguised.pid, stranger.pid, 1), strict=True):
        kept.pid_file(component).write_text(str(pid))
    plays = [kept.launch("role") for _play in range(2)]
    assert sorted(finish(play).changed for play in plays) == [0, 1]
    assert alive(stranger) and alive(disguised)
    disguised.kill()
    disguised.wait()
    assert not set(kept.one_set().values()) & set(before.values())
    is_intact(kept)
    kept.works()


@pytest.mark.parametrize("component", COMPONENTS)
def test_one_killed(kept, component):
    before = kept.one_set()
    kept.kill(component)
    assert kept.start().changed == 1
    after = kept.one_set()
    assert {name for name in COMPONENTS if after[name] != before[name]} == {component}
    is_intact(kept)
    kept.works()


def test_pid_files_with_garbage(kept):
    before = kept.one_set()
    kept.kill("kube-scheduler", "kwok-controller")
    # 1 is a process that always lives, -1 and 0 would be all of them and this group.
    for component, content in zip(COMPONENTS, ("", "99999999999999999999", "-1", "no number", "1"), strict=True):
        kept.pid_file(component).write_text(content)
    kept.start().succeeded()
    after = kept.one_set()
    assert {name for name in COMPONENTS if after[name] != before[name]} == {"kube-scheduler", "kwok-controller"}


def test_a_port_was_taken_meanwhile(kept):
    config = next(yaml.safe_load_all((kept.pid_file("etcd").parents[1] / "kwok.yaml").read_text()))
    port = next(c for c in config["components"] if c["name"] == "kube-scheduler")["ports"][0]["port"]
    before = kept.one_set()
    kept.kill("kube-scheduler", "etcd")
    with socket.create_server(("127.0.0.1", port)):
        error = kept.start().error
        assert f"port {port}" in error and "Address already in use" in error and "teardown" in error
        assert set(kept.pids()) == set(COMPONENTS) - {"kube-scheduler", "etcd"}
    # And the programs have moved since.
    link = kept.pid_file("etcd").parents[1] / "bin" / "etcd"
    link.unlink()
    link.symlink_to("/nonexistent/etcd")
    kept.start().succeeded()
    assert kept.one_set()["kwok-controller"] == before["kwok-controller"]
    is_intact(kept)


def test_an_api_server_that_hangs_is_reported_in_the_time_that_was_given(kept):
    before = kept.one_set()
    pid = before["kube-apiserver"]
    os.kill(pid, signal.SIGSTOP)
    try:
        error = kept.start(control_plane_timeout=2).error
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "within 2 s" in error and "kube-apiserver" in error
    assert kept.one_set() == before


def test_damaged_notes_of_a_cluster_with_data_are_not_taken_for_no_cluster(kept):
    notes = kept.pid_file("etcd").parents[1] / "kwok.yaml"
    text = notes.read_text()
    notes.write_text("components: [")
    try:
        error = kept.start().error
    finally:
        notes.write_text(text)
    assert str(notes) in error and "teardown" in error
    is_intact(kept)


def test_a_cluster_whose_folder_was_moved_says_so(kept):
    moved = kept.base / "moved"
    kept.root.rename(moved)
    try:
        error = kept.start(lab_root=str(moved)).error
    finally:
        moved.rename(kept.root)
    assert str(kept.control_plane) in error and str(moved) in error
    # A component may have missed its files meanwhile and ended; the data are there all the same.
    kept.start().succeeded()
    is_intact(kept)
