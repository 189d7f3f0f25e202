# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as users get it: built, installed into an empty path, and its lab run by name from another folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
# What stands in the tarball, at its top level.
WANTED = {
    "CHANGELOG.rst",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "LICENSES",
    "MANIFEST.json",
    "README.md",
    "changelogs",
    "docs",
    "execution-environment.yml",
    "meta",
    "playbooks",
    "plugins",
    "requirements.txt",
    "roles",
}


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    """Built from a copy of the versioned and new files, beside what a worked-in checkout also holds."""
    folder = tmp_path_factory.mktemp("galaxy")
    checkout = folder / "checkout"
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_bytes(b"" if (ROOT / name).is_dir() else (ROOT / name).read_bytes())
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.endswith("/")]
    assert ".venv" in ignored
    for name in ignored:
        (checkout / name).mkdir(parents=True)
        (checkout / name / "left.pyc").write_text("of a run")
    galaxy(folder, "collection", "build", str(checkout), "--output-path", str(folder))
    (built,) = folder.glob("gpuwl-sandbox-*.tar.gz")
    return built


def galaxy(folder: Path, *arguments: str) -> None:
    environment = {"HOME": str(folder / "home"), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    subprocess.run([PROGRAMS / "ansible-galaxy", *arguments], cwd=folder, env=environment, check=True)


def test_the_tarball_holds_what_users_need_and_nothing_else(tarball):
    with tarfile.open(tarball) as archive:
        names = archive.getnames()
    assert {name.split("/")[0] for name in names} == WANTED
    assert not [name for name in names if re.search(r"\.pyc$|__pycache__|/\.|^\.", name)]
    # All that a role or plugin reads when it runs is there.
    there = {name for name in names if name.startswith(("roles/", "plugins/", "playbooks/", "meta/"))}
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "roles",
            "plugins",
            "playbooks",
            "meta",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {name for name in listed.split("\0") if name and (ROOT / name).exists()} <= there


def test_the_lab_runs_by_name_from_where_it_is_installed(tarball, tmp_path):
    installed = tmp_path / "installed"
    galaxy(tmp_path, "collection", "install", str(tarball), "-p", str(installed), "--offline", "--no-deps")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {
        "ANSIBLE_COLLECTIONS_PATH": str(installed),
        "HOME": str(tmp_path / "home"),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        # The programs of the control plane, which another HOME does not have.
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
    }

    def play(name: str) -> str:
        command = [PROGRAMS / "ansible-playbook", f"gpuwl.sandbox.{name}"]
        done = subprocess.run(
            command,
            cwd=elsewhere,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout

    try:
        assert re.search(r"localhost +: ok=\d+ +changed=[1-9]\d* .* failed=0", play("lab"))
        records = tmp_path / "home" / "gpuwl" / "out"
        assert (records / "06-placement.txt").read_text().splitlines()[0] == "job-container lab-node-0"
        assert re.search(r"localhost +: ok=\d+ +changed=0 .* failed=0", play("lab"))
    finally:
        play("teardown")
    assert not (tmp_path / "home" / "gpuwl" / "control-plane").exists()
    assert list(elsewhere.iterdir()) == []
