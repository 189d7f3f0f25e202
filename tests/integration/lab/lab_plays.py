# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labs of the tests' own: the real play, as a user types it, with a root of its own below a temporary folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
CALLBACKS = Path(__file__).parent / "callbacks"
# What changes by itself in a cluster that is left alone.
HEARTBEATS = re.compile(r'"(lastHeartbeatTime|resourceVersion)": "[^"]*"')


@dataclass
class Played:
    """What a play did: its exit code, what it printed, and the names of the tasks that changed something."""

    rc: int
    output: str

    @property
    def changed(self) -> list[str]:
        """The tasks that say so, from `TASK [role : name]` and the lines below it."""
        found = []
        for block in self.output.split("\nTASK [")[1:]:
            if "\nchanged: " in block:
                found.append(block.partition("]")[0].rpartition(" : ")[2])
        return found

    @property
    def changes(self) -> int:
        return int(re.search(r"changed=(\d+)", self.output)[1])


def run_playbook(name: str, *arguments: str, variables: dict | None = None, folder: Path, **environment: str) -> Played:
    """Run one of the collection's playbooks, or another by its whole path; variables travel as JSON, as -e takes it."""
    command = [str(PLAYBOOK), str(ROOT / "playbooks" / name), "-e", json.dumps(variables or {}), *arguments]
    variables_of_the_caller = {
        key: value for key, value in os.environ.items() if not key.startswith(("K8S_", "KUBECONFIG", "ANSIBLE_"))
    }
    settings = {
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "ansible"),
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
    }
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=variables_of_the_caller | settings | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Played(done.returncode, done.stdout + done.stderr)


class Lab:
    """One lab: its root, its control plane, and the declaration that it was last run with."""

    def __init__(self, folder: Path, programs: Path):
        self.folder, self.root, self.programs = folder, folder / "gpuwl", programs
        self.declared: dict = {}

    def variables(self, more: dict) -> dict:
        own = {"lab_root": str(self.root), "control_plane_source": "path", "control_plane_path": str(self.programs)}
        return {**own, **self.declared, **more}

    def play(self, *arguments: str, environment: dict | None = None, **variables) -> Played:
        """Run the lab, whatever comes of it."""
        return run_playbook(
            "lab.yml", *arguments, variables=self.variables(variables), folder=self.folder, **(environment or {})
        )

    def run(self, *arguments: str, **variables) -> Played:
        """Run the lab, which must end well."""
        played = self.play(*arguments, **variables)
        if played.rc:
            pytest.fail(f"the lab failed:\n{played.output[-6000:]}")
        return played

    def settled(self, *arguments: str, **variables) -> None:
        """Run it once more: nothing may be left to do, and no file may be touched."""
        before = self.times()
        played = self.run(*arguments, **variables)
        assert (played.changes, played.changed) == (0, [])
        assert self.times() == before

    def refused(self, *words: str, without: str = "", **variables) -> str:
        """Run the lab, which must fail without having written anything, and say these words in one message."""
        before = self.state(without)
        played = self.play(**variables)
        assert played.rc != 0
        for word in words:
            assert word in played.output
        assert "Traceback" not in played.output
        assert self.state(without) == before
        return played.output

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        command = [
            str(self.programs / "kubectl"),
            "--kubeconfig",
            str(self.root / "control-plane" / "kubeconfig"),
            *arguments,
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.fail(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def objects(self, *arguments: str) -> dict[str, dict]:
        """Objects by name."""
        return {
            item["metadata"]["name"]: item
            for item in json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]
        }

    def text(self, path: str) -> str:
        """A record, byte for byte."""
        return (self.root / path).read_bytes().decode("utf-8")

    def json(self, path: str):
        return json.loads(self.text(path))

    def manifests(self, path: str) -> list[dict]:
        return list(yaml.safe_load_all(self.text(path)))

    def files(self) -> list[Path]:
        """Every record, but nothing of the control plane."""
        return sorted(
            path for folder in ("out", "bin", "k8s") for path in (self.root / folder).rglob("*") if path.is_file()
        )

    def names(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.files()}

    def times(self) -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in self.files()}

    def records(self) -> dict[str, str]:
        """The content of every file that must not depend on when or how often the lab ran."""
        return {
            str(path.relative_to(self.root)): path.read_text("utf-8")
            for path in self.files()
            if path.name not in ("nodes.json", "pods.json")
        }

    def state(self, without: str = "") -> tuple:
        """All that a run could change: objects, but for one that changes by itself, and files with their times."""
        kinds = "nodes,pods,namespaces"
        objects = json.loads(self.kubectl("get", kinds, "-A", "-o", "json"))["items"]
        seen = [
            (item["kind"], item["metadata"]["name"], item["metadata"]["uid"], _lasting(item))
            for item in objects
            if item["metadata"]["name"] != without
        ]
        return sorted(seen, key=lambda entry: entry[:3]), self.times()

    def processes(self) -> list[int]:
        """Every process that has this lab's folder in its command line; its random name makes them ours beyond doubt."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    command = (entry / "cmdline").read_bytes().decode(errors="replace")
                    ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                except OSError:
                    continue
                if not ended and f"{self.folder}/" in command:
                    found.append(int(entry.name))
        return found

    def destroy(self) -> None:
        """Nothing of it is left, whatever happened; that a teardown leaves nothing either is for the tests of it."""
        end = time.monotonic() + 60
        while (left := self.processes()) and time.monotonic() < end:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)


def _lasting(item: dict) -> str:
    """An object without heartbeats, which kwok sends all the time."""
    return HEARTBEATS.sub("", json.dumps(item, sort_keys=True))
