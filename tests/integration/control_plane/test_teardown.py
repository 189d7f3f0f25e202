# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes with a teardown, and what stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from combined_plays import changes


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


def test_from_a_full_lab_to_nothing_but_what_is_not_the_labs(lab, cached, own_process):
    """Files beside the cluster's own, a link to the lab's folder, and a process whose number stands in a pid file."""
    target = lab.base / "elsewhere"
    target.mkdir()
    lab.root.symlink_to(target)
    own = {"notes.txt": b"a", "clusters/mine.txt": b"b", "cache/mine.txt": b"c", "kwokctl.yaml": b"d"}
    for name, text in own.items():
        (lab.control_plane / name).parent.mkdir(parents=True, exist_ok=True)
        (lab.control_plane / name).write_bytes(text)
    own = {f"control-plane/{name}": text for name, text in own.items()}

    # The cluster, and some records.
    lab.start("--tags", "operands,nodes").succeeded()
    records = {name: text for name, text in files(lab.root).items() if not name.startswith((".", "control-plane"))}
    assert any(name.startswith("out/") for name in records)

    stranger = own_process("sleep", "600")
    for file in lab.control_plane.rglob("*.pid"):
        file.write_text(str(stranger.pid))
    assert lab.teardown().changed == 1
    assert lab.pids() == {} and stranger.poll() is None
    assert files(lab.root) == {**records, **own}
    assert len(list(cached.iterdir())) >= 7

    assert lab.teardown().changed == 0
    assert files(lab.root) == {**records, **own}

    (lab.root / "out" / "mine.txt").write_text("the user's own\n")
    (lab.base / "cache" / "gpuwl" / "mine.txt").write_text("the user's own\n")
    assert lab.teardown(teardown_everything=True).changed > 0
    assert files(lab.root) == {"out/mine.txt": b"the user's own\n", **own}
    assert files(lab.base / "cache") == {"gpuwl/mine.txt": b"the user's own\n"}
    assert all(
        os.access(lab.programs / program, os.X_OK)
        for program in ("etcd", "kube-apiserver", "kubectl", "kwok", "kwokctl")
    )

    assert lab.teardown(teardown_everything=True).changed == 0
    assert lab.root.is_symlink()
    shutil.rmtree(target)
    assert lab.teardown().changed == 0


def test_no_lab_at_all(lab):
    """No folder, an empty one, or one with the user's files."""
    roots = {name: lab.base / name for name in ("none", "empty", "users")}
    roots["empty"].mkdir()
    (roots["users"] / "control-plane").mkdir(parents=True)
    (roots["users"] / "control-plane" / "notes.txt").write_text("the user's own\n")
    cases = {name: {"control_plane_root": str(root / "control-plane")} for name, root in roots.items()}
    for arguments in (("--check",), ()):
        run = lab.cases(cases, "absent", arguments=arguments)
        assert changes(run.succeeded().output) == dict.fromkeys(roots, 0)
        assert [name for name, root in roots.items() if root.exists()] == ["empty", "users"]
        assert files(roots["empty"]) == {}
        assert files(roots["users"]) == {"control-plane/notes.txt": b"the user's own\n"}
    assert lab.teardown().changed == 0
    assert not lab.root.exists()


def test_the_folder_was_deleted_under_the_running_processes(running):
    """The last test of all that share this lab, for it takes it away."""
    before = running.one_set()
    shutil.rmtree(running.root)
    running.start().succeeded()
    assert not set(running.one_set().values()) & set(before.values())
    shutil.rmtree(running.root)
    running.root.mkdir()
    assert running.teardown().changed == 1
    assert running.pids() == {}
