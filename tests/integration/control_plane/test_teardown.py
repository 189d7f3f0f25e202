# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes with a teardown, and what stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def cached(lab):
    """The programs as `source: go` keeps them, in a cache of the test's own."""
    shown = lab.play("programs", "--check", control_plane_source="go").succeeded().output
    folder = Path(shown[shown.index(f"{lab.base}/cache") :].split()[0])
    folder.mkdir(parents=True)
    for program in lab.programs.glob("k*"):
        os.symlink(program, folder / program.name)
    os.symlink(lab.programs / "etcd", folder / "etcd")
    lab.variables = {"control_plane_source": "go"}
    return folder


def test_from_a_full_lab_to_nothing(lab, cached):
    # The cluster, and some records.
    lab.start("--tags", "operands,nodes").succeeded()
    records = {name: text for name, text in files(lab.root).items() if not name.startswith((".", "control-plane"))}
    assert any(name.startswith("out/") for name in records)

    assert lab.teardown().changed == 1
    assert lab.pids() == {} and not lab.control_plane.exists()
    assert files(lab.root) == records
    assert len(list(cached.iterdir())) >= 7

    assert lab.teardown().changed == 0
    assert files(lab.root) == records

    (lab.root / "out" / "mine.txt").write_text("the user's own\n")
    (lab.base / "cache" / "gpuwl" / "mine.txt").write_text("the user's own\n")
    assert lab.teardown(teardown_everything=True).changed > 0
    assert files(lab.root) == {"out/mine.txt": b"the user's own\n"}
    assert files(lab.base / "cache") == {"gpuwl/mine.txt": b"the user's own\n"}
    assert all(
        os.access(lab.programs / program, os.X_OK)
        for program in ("etcd", "kube-apiserver", "kubectl", "kwok", "kwokctl")
    )

    assert lab.teardown(teardown_everything=True).changed == 0


@pytest.mark.parametrize("there", ["no folder", "an empty folder", "the user's files"])
def test_no_lab_at_all(lab, there):
    if there != "no folder":
        lab.root.mkdir()
    if there == "the user's files":
        lab.control_plane.mkdir()
        (lab.control_plane / "notes.txt").write_text("the user's own\n")
    before = files(lab.base)
    assert lab.teardown("--check").changed == 0
    assert lab.teardown().changed == 0
    ours = {name: text for name, text in files(lab.base).items() if not name.startswith("home/")}
    assert ours == {name: text for name, text in before.items() if not name.startswith("home/")}
    assert lab.root.exists() == (there != "no folder")


def test_what_is_not_the_clusters_stays(lab, own_process):
    """Files beside its own, a link to its folder, and a process whose number stands in a pid file."""
    target = lab.base / "elsewhere"
    target.mkdir()
    lab.root.symlink_to(target)
    own = {"notes.txt": "a", "clusters/mine.txt": "b", "cache/mine.txt": "c", "kwokctl.yaml": "d"}
    for name, text in own.items():
        (lab.control_plane / name).parent.mkdir(parents=True, exist_ok=True)
        (lab.control_plane / name).write_text(text)
    lab.start().succeeded()
    stranger = own_process("sleep", "600")
    for file in lab.control_plane.rglob("*.pid"):
        file.write_text(str(stranger.pid))
    assert lab.teardown().changed == 1
    assert lab.pids() == {}
    assert stranger.poll() is None
    assert {name: text.decode() for name, text in files(lab.control_plane).items()} == own
    assert lab.root.is_symlink()
    shutil.rmtree(target)
    assert lab.teardown().changed == 0
