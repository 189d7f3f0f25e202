# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a control plane cannot be had from or with: one clear line each, and nothing half done."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from control_plane_lab import mount


def nothing_half_done(lab) -> bool:
    return lab.pids() == {} and (not lab.control_plane.exists() or list(lab.control_plane.iterdir()) == [])


def with_other(lab, name: str, text: str | None = None, mode: int = 0o755) -> Path:
    """A folder of the programs in which one is another file, or missing."""
    folder = Path(tempfile.mkdtemp(prefix="programs", dir=lab.base))
    for program in lab.programs.iterdir():
        if program.name != name:
            (folder / program.name).symlink_to(program)
    if text is not None:
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    return folder


def test_values_and_programs_that_cannot_be(lab):
    absent, plain = with_other(lab, "etcd"), with_other(lab, "etcd", "", 0o644)
    broken = with_other(lab, "kube-scheduler", "#!/bin/sh\necho 'wrong library' >&2\nexit 1\n")
    before = sorted(path.name for path in lab.base.iterdir())
    in_the_way = lab.base / "file"
    full, tiny, readonly = (
        mount(lab.base / name, options)
        for name, options in (("full", "size=20m"), ("tiny", "nr_inodes=1"), ("readonly", "ro"))
    )
    in_the_way.write_text("the user's own\n")
    cases = {
        "values": (
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
        "port": ({"control_plane_port": 70000}, ("port 70000", "65535", "control_plane_port")),
        "name": ({"control_plane_name": "../../etc"}, ("../../etc", "control_plane_name")),
        "no path": (
            {"control_plane_path": ""},
            ("control_plane_path is empty", "kube-apiserver", "control_plane_source to auto"),
        ),
        "nonexistent": (
            {"control_plane_path": "/nonexistent"},
            ("/nonexistent", "kube-apiserver", "control_plane_source to auto"),
        ),
        "absent": ({"control_plane_path": str(absent)}, ("etcd", str(absent), "control_plane_source")),
        "not executable": ({"control_plane_path": str(plain)}, ("etcd", str(plain), "control_plane_source")),
        # It shows when the cluster's folder is there already.
        "no program": (
            {"control_plane_path": str(broken), "control_plane_root": str(lab.base / "other")},
            ("kube-scheduler", "wrong library"),
        ),
        "full": (
            {"control_plane_root": str(full / "lab" / "control-plane")},
            ("is full", str(full / "lab" / "control-plane"), "make about 1 GiB free"),
        ),
        "tiny": ({"control_plane_root": str(tiny / "control-plane")}, (str(tiny), "No space left", "free")),
        "read-only": (
            {"control_plane_root": str(readonly / "lab" / "control-plane")},
            (str(readonly / "lab"), "Read-only", "lab_root"),
        ),
        "in the way": ({"control_plane_root": str(in_the_way / "control-plane")}, (str(in_the_way), "lab_root")),
        "too long": ({"control_plane_root": str(lab.base / ("x/" * 2100) / "control-plane")}, ("lab_root",)),
        "comma": ({"control_plane_root": str(lab.base / "a,b" / "control-plane")}, ("lab_root",)),
    }
    told = lab.refusals({name: variables for name, (variables, _words) in cases.items()})
    assert [(name, word) for name, (_case, words) in cases.items() for word in words if word not in told[name]] == [], (
        told
    )
    assert "kube-apiserver" not in told["absent"] + told["not executable"]
    assert lab.pids() == {}
    made = {path.name for path in lab.base.glob("[!.]*")} - {
        *before,
        "full",
        "tiny",
        "readonly",
        "file",
        "cases.yml",
    }
    assert made <= {"lab", "other"} and nothing_half_done(lab)
    assert in_the_way.read_text() == "the user's own\n"
    assert lab.teardown(lab_root=str(readonly / "lab")).changed == 0


def test_a_port_that_somebody_has_and_a_path_with_anything_in_it_and_programs_below_a_relative_one(lab):
    lab.root = lab.base / "with  two blanks ünï 日本 per%cent $dollar 'quote' [a]*{b}" / "/".join(["long" * 20] * 12)
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        error = lab.start(control_plane_port=port).error
        assert f"port {port}" in error and "Address already in use" in error and "control_plane_port" in error
        assert nothing_half_done(lab)
    lab.start(control_plane_port=port).succeeded()
    assert f"127.0.0.1:{port}" in lab.kubeconfig.read_text()
    lab.works()
    before = lab.one_set()
    # The programs' folder counts from where the play was called.
    os.symlink(lab.programs, lab.base / "home" / "bin")
    assert lab.start(control_plane_path="~/bin").changed == 0
    # The two that are soonest up again; that all of them come back is for test_restart.py.
    lab.kill("kube-scheduler", "kwok-controller")
    assert lab.start(control_plane_path=os.path.relpath(lab.programs)).changed == 1
    assert {name for name, pid in lab.one_set().items() if before[name] != pid} == {"kube-scheduler", "kwok-controller"}
    assert lab.teardown().changed == 1
    assert lab.pids() == {} and not lab.control_plane.exists()
