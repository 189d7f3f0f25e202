# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""tools/venv in a copy of the checkout: which Python it takes, and what it says when it cannot go on."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from control_plane_lab import CHECKOUT


@pytest.fixture
def checkout(tmp_path):
    """A copy of the versioned files, in a folder with a blank in its name; HOME is empty."""
    copy = tmp_path / "my checkout"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=False)
    names = [name for name in listed.stdout.decode().split("\0") if name and not (CHECKOUT / name).is_dir()]
    if listed.returncode or not names:  # an unpacked archive
        names = ["Makefile", "tools/venv", "requirements.txt", "meta/ee-requirements.txt", "requirements-dev.txt"]
    for name in names:
        if (CHECKOUT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, copy / name)
    (tmp_path / "home").mkdir()
    return copy


def run(checkout: Path, *command: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PIP_", "PYENV_", "PYTHON", "MAKE", "MFLAGS"))
    }
    own = {"HOME": str(checkout.parent / "home"), "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0", **environment}
    return subprocess.run(
        command,
        cwd=checkout,
        env={**kept, **own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def stand_in(path: Path, version: str | None) -> Path:
    """An interpreter that calls itself so; None: one that tools/venv's question fails on, as an old Python does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    making = 'mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo "$PWD/.venv" > .venv/bin/pip'
    works = f'case "$*" in "-c ") ;; -c*) echo {version};; "-m venv .venv") {making};; "-m pip"*) ;; *) exit 1;; esac'
    path.write_text(f"#!/bin/sh\n{works if version else 'exit 1'}\n")
    path.chmod(0o755)
    return path


def old_python() -> str | None:
    found = [path for minor in (8, 9, 10) for path in Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")]
    return str(found[0]) if found else None


@pytest.mark.parametrize("python", ["/nonexistent", "too old"])
def test_a_python_that_will_not_do(checkout, tmp_path, python):
    if python == "too old":
        python = old_python() or str(stand_in(tmp_path / "old" / "python3.8", None))
    done = run(checkout, "tools/venv", "requirements.txt", PYTHON=python)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1
    assert "no Python 3.11 or newer" in done.stderr and python in done.stderr and "PYTHON=" in done.stderr
    assert not (checkout / ".venv").exists()


def test_make_passes_the_message_on_and_fails(checkout):
    done = run(checkout, "make", "lab", "PYTHON=/nonexistent")
    assert done.returncode != 0
    assert "no Python 3.11 or newer with venv and ensurepip found at /nonexistent" in done.stderr


def test_the_newest_is_taken_and_named(checkout, tmp_path):
    path = tmp_path / "bin"
    stand_in(path / "python3", "3.11.10")
    stand_in(path / "python3.11", "3.11.9")
    stand_in(path / "python3.9", None)
    newest = stand_in(tmp_path / "pyenv" / "versions" / "3.99.10" / "bin" / "python", "3.99.10")
    stand_in(tmp_path / "pyenv" / "versions" / "3.99.9" / "bin" / "python", "3.99.9")
    environment = {"PATH": f"{path}:{os.environ['PATH']}", "PYENV_ROOT": str(tmp_path / "pyenv")}
    assert f"Using Python 3.99.10 ({newest})" in run(checkout, "tools/venv", "requirements.txt", **environment).stdout
    shutil.rmtree(tmp_path / "pyenv")
    only = {"PATH": f"{path}:/usr/bin:/bin", "PYTHON": str(path / "python3.11")}
    assert f"Using Python 3.11.9 ({path}/python3.11)" in run(checkout, "tools/venv", "requirements.txt", **only).stdout


def test_it_is_made_once_and_again_when_something_differs(checkout, tmp_path):
    first, second = (stand_in(tmp_path / version / "python3", version) for version in ("3.11.9", "3.12.1"))

    def said(where: Path = checkout, **environment: str) -> str:
        done = run(where, "tools/venv", "requirements.txt", **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Using Python 3.11.9" in said(PYTHON=str(first))
    assert said(PYTHON=str(first)) == ""
    assert said() == ""
    assert "Using Python 3.12.1" in said(PYTHON=str(second))
    with open(checkout / "requirements.txt", "a", encoding="utf-8") as file:
        file.write("# something\n")
    assert said(PYTHON=str(second)).startswith("Installing")
    assert run(checkout, "tools/venv", "requirements.txt", PYTHON="/nonexistent").returncode != 0
    assert said() == ""
    checkout.rename(tmp_path / "elsewhere")
    assert "Using Python 3.11.9" in said(tmp_path / "elsewhere", PYTHON=str(first))


def test_a_python_that_cannot_make_one(checkout, tmp_path):
    python = stand_in(tmp_path / "python3", "3.11.9")
    python.write_text(python.read_text().replace("-m venv .venv", "-m other"))
    done = run(checkout, "tools/venv", "requirements.txt", PYTHON=str(python))
    assert done.returncode != 0 and f"{python} could not make .venv" in done.stderr.splitlines()[-1]


def test_an_index_that_does_not_answer(checkout):
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    for _again in range(2):
        done = run(
            checkout,
            "make",
            "lab",
            PYTHON=sys.executable,
            PIP_INDEX_URL=f"http://127.0.0.1:{closed}/simple",
            PIP_EXTRA_INDEX_URL="",
        )
        assert done.returncode != 0
        closing = [line for line in done.stderr.splitlines() if line.startswith("tools/venv: ")]
        assert len(closing) == 1 and "network" in closing[0] and "requirements.txt" in closing[0]
        # After it comes nothing but make's own word.
        assert [
            line
            for line in done.stderr.splitlines()[done.stderr.splitlines().index(closing[0]) + 1 :]
            if not line.startswith("make")
        ] == []
        assert "Traceback" not in done.stdout + done.stderr
        assert not (checkout / ".venv" / "bin" / "ansible-playbook").exists()
    assert "Installing requirements.txt into .venv" in done.stdout


def test_make_help_in_a_folder_with_a_blank(checkout):
    done = run(checkout, "make", "help")
    assert done.returncode == 0 and done.stderr == ""
    targets = re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE)
    assert {"lab", "test", "unit", "clean", "distclean"} <= set(targets)
