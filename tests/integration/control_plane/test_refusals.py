# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a control plane cannot be had from or with: one clear line each, and nothing half done."""

from __future__ import annotations

import os
import shutil
import socket

import pytest
from control_plane_lab import COMPONENTS, mount


def nothing_half_done(lab) -> None:
    assert lab.pids() == {}
    assert not lab.control_plane.exists() or list(lab.control_plane.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (
            {"control_plane_provider": "cloud", "control_plane_source": "magic", "control_plane_port": "many"},
            (
                "control_plane_provider",
                "kwok",
                "cloud",
                "control_plane_source",
                "auto, download, go, path",
                "magic",
                "control_plane_port",
                "many",
            ),
        ),
        ({"control_plane_port": 70000}, ("port 70000", "65535", "control_plane_port")),
        ({"control_plane_name": "../../etc"}, ("../../etc", "control_plane_name")),
        ({"control_plane_path": ""}, ("control_plane_path is empty", "kube-apiserver", "control_plane_source to auto")),
        ({"control_plane_path": "/nonexistent"}, ("/nonexistent", "kube-apiserver", "control_plane_source to auto")),
    ],
    ids=str,
)
def test_values_that_cannot_be(lab, variables, told):
    error = lab.start(**variables).error
    assert [part for part in told if part not in error] == []
    nothing_half_done(lab)


def test_a_port_that_somebody_has(lab):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        error = lab.start(control_plane_port=port).error
        assert f"port {port}" in error and "Address already in use" in error and "control_plane_port" in error
        nothing_half_done(lab)
    lab.start(control_plane_port=port).succeeded()
    assert f"127.0.0.1:{port}" in lab.kubeconfig.read_text()


@pytest.mark.parametrize("trouble", ["absent", "not executable"])
def test_a_program_that_is_missing(lab, trouble):
    folder = lab.base / "programs"
    shutil.copytree(lab.programs, folder, copy_function=os.symlink)
    etcd = folder / "etcd"
    etcd.unlink()
    if trouble == "not executable":
        etcd.write_text("")
    error = lab.start(control_plane_path=str(folder)).error
    assert "etcd" in error and "kube-apiserver" not in error
    assert str(folder) in error and "control_plane_source" in error
    nothing_half_done(lab)


def test_a_program_that_is_none(lab):
    folder = lab.base / "programs"
    shutil.copytree(lab.programs, folder, copy_function=os.symlink)
    (folder / "kube-scheduler").unlink()
    (folder / "kube-scheduler").write_text("#!/bin/sh\necho 'wrong library' >&2\nexit 1\n")
    (folder / "kube-scheduler").chmod(0o755)
    error = lab.start(control_plane_path=str(folder)).error
    assert "kube-scheduler" in error and "wrong library" in error
    assert lab.pids() == {}


def test_a_full_disk(lab):
    lab.root = mount(lab.base / "small", "size=20m") / "lab"
    error = lab.start().error
    assert "is full" in error and str(lab.control_plane) in error and "make about 1 GiB free" in error
    assert lab.pids() == {}


def test_a_disk_that_takes_nothing_at_all(lab):
    lab.root = mount(lab.base / "tiny", "nr_inodes=1")
    error = lab.start().error
    assert str(lab.root) in error and "No space left" in error and "free" in error
    assert lab.pids() == {}


def test_a_folder_that_cannot_be_written(lab):
    lab.root = mount(lab.base / "readonly", "ro") / "lab"
    error = lab.start().error
    assert str(lab.root) in error and "Read-only" in error and "lab_root" in error
    assert lab.pids() == {}
    assert lab.teardown().changed == 0


def test_a_file_in_the_way(lab):
    lab.root.write_text("the user's own\n")
    error = lab.start().error
    assert str(lab.root) in error and "lab_root" in error
    assert lab.root.read_text() == "the user's own\n"


@pytest.mark.parametrize("name", ["x/" * 2100, "a,b"], ids=["too long", "comma"])
def test_a_path_that_cannot_be(lab, name):
    lab.root = lab.base / name
    error = lab.start().error
    assert "lab_root" in error
    assert list(lab.base.iterdir()) == [lab.base / "home"]


def test_a_path_with_anything_else_in_it_and_programs_below_a_relative_one(lab):
    lab.root = lab.base / "with  two blanks ünï 日本 per%cent $dollar 'quote' [a]*{b}" / "/".join(["long" * 20] * 12)
    lab.start().succeeded()
    lab.works()
    before = lab.one_set()
    # The programs' folder counts from where the play was called.
    os.symlink(lab.programs, lab.base / "home" / "bin")
    assert lab.start(control_plane_path="~/bin").changed == 0
    lab.kill(*COMPONENTS)
    assert lab.start(control_plane_path=os.path.relpath(lab.programs)).changed == 1
    assert not set(lab.one_set().values()) & set(before.values())
    assert lab.teardown().changed == 1
    assert lab.pids() == {} and not lab.control_plane.exists()
