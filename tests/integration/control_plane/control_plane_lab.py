# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labs of the tests' own, started and removed by the playbooks as a user does it, each with a HOME of its own.

What runs is read from /proc here, not by the collection's code. Nothing survives a test: no process, no mount, no file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from combined_plays import messages, play_of, role

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "kwokctl")
# What the lab does with the tag control_plane, without the roles that it would read and leave out.
ROLE_ALONE = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [f"{CHECKOUT}/playbooks/vars/{name}.yml" for name in ("defaults", "lab")],
        "tasks": [
            {"import_tasks": f"{CHECKOUT}/playbooks/tasks/paths.yml"},
            {
                "import_role": {"name": "gpuwl.sandbox.control_plane"},
                "vars": {
                    "control_plane_nodes": "{{ lab_pools | gpuwl.sandbox.pool_nodes(['name']) | map(attribute='name') | list }}"
                },
            },
        ],
    }
]


@dataclass
class Run:
    """A play that ended, and what a user can tell from it."""

    code: int
    output: str

    def succeeded(self) -> Run:
        assert self.code == 0, self.output
        assert "Traceback" not in self.output, self.output
        return self

    @property
    def changed(self) -> int:
        return int(re.findall(r"changed=(\d+)", self.succeeded().output)[-1])

    @property
    def error(self) -> str:
        """The message of the one failed task, in one line."""
        assert self.code != 0, self.output
        assert "Traceback" not in self.output, self.output
        blocks = re.findall(r"^fatal: .*=>\s*\n((?:    .*\n|\n)+)", self.output, re.MULTILINE)
        assert len(blocks) == 1, self.output
        return " ".join(yaml.safe_load(blocks[0])["msg"].split())


@dataclass
class Lab:
    """A lab in the folder `base`, which holds its HOME, its root and its caches."""

    base: Path
    programs: Path
    root: Path = field(init=False)
    variables: dict = field(init=False)

    def __post_init__(self) -> None:
        self.root = self.base / "lab"
        self.variables = {"control_plane_source": "path", "control_plane_path": str(self.programs)}
        (self.base / "home").mkdir()
        (self.base / "role.yml").write_text(json.dumps(ROLE_ALONE))

    @property
    def control_plane(self) -> Path:
        return self.root / "control-plane"

    @property
    def kubeconfig(self) -> Path:
        return self.control_plane / "kubeconfig"

    def environment(self, **more: str) -> dict[str, str]:
        foreign = ("ANSIBLE_", "KUBE", "KWOK_", "XDG_", "GO")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        own = {
            "HOME": str(self.base / "home"),
            "XDG_CACHE_HOME": str(self.base / "cache"),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
        }
        return {**kept, **own, **more}

    def command(self, playbook: str, *arguments: str, **variables: object) -> list[str]:
        """One of the collection's playbooks; "role": the role control_plane alone; NAME.yml: one of a test's own."""
        tags = ["--tags", "control_plane"] if playbook == "lab" and "--tags" not in arguments else []
        if playbook.endswith(".yml"):  # whose variables stand in it
            return [str(PLAYBOOK), playbook, *arguments]
        values = json.dumps({"lab_root": str(self.root), **self.variables, **variables})
        file = self.base / "role.yml" if playbook == "role" else CHECKOUT / "playbooks" / f"{playbook}.yml"
        return [str(PLAYBOOK), str(file), *tags, "-e", values, *arguments]

    def launch(
        self, playbook: str, *arguments: str, environment: dict | None = None, **variables: object
    ) -> subprocess.Popen:
        """A play that goes on while the test does."""
        return subprocess.Popen(
            self.command(playbook, *arguments, **variables),
            cwd=CHECKOUT,
            env=self.environment(**environment or {}),
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def play(self, playbook: str, *arguments: str, environment: dict | None = None, **variables: object) -> Run:
        return finish(self.launch(playbook, *arguments, environment=environment, **variables))

    def cases(
        self,
        cases: dict[str, dict],
        tasks_from: str = "main",
        environments: dict[str, dict] | None = None,
        environment: dict | None = None,
        arguments: tuple[str, ...] = (),
        before: dict[str, dict] | None = None,
    ) -> Run:
        """One play of the role with the variables of one case after the other, which come on top of the lab's."""
        given = {"control_plane_root": str(self.control_plane), **self.variables}
        playbook = self.base / "cases.yml"
        playbook.write_text(
            play_of({name: {**given, **case} for name, case in cases.items()}, role(tasks_from), environments, before)
        )
        return self.play(str(playbook), *arguments, environment=environment)

    def refusals(self, cases: dict[str, dict], *more, **further) -> dict[str, str]:
        """Case -> the message with which the role refuses its variables; all in one play."""
        run = self.cases(cases, *more, **further)
        told = messages(run.output)
        assert list(told) == list(cases), run.output
        return told

    def start(self, *arguments: str, **variables: object) -> Run:
        """Have the control plane, or what of the lab --tags says."""
        return self.play("lab" if "--tags" in arguments else "role", *arguments, **variables)

    def teardown(self, *arguments: str, **variables: object) -> Run:
        return self.play("teardown", *arguments, **variables)

    def pids(self) -> dict[str, list[int]]:
        """Component -> its live processes."""
        found: dict[str, list[int]] = {}
        for pid, command in commands():
            if command[0].startswith(f"{self.base}/") and Path(command[0]).name in COMPONENTS:
                found.setdefault(Path(command[0]).name, []).append(pid)
        return found

    def one_set(self) -> dict[str, int]:
        """Component -> pid, where each of the five runs exactly once."""
        pids = self.pids()
        assert {name: len(numbers) for name, numbers in pids.items()} == dict.fromkeys(COMPONENTS, 1)
        return {name: numbers[0] for name, numbers in pids.items()}

    def kill(self, *names: str) -> None:
        killed = [pid for name in names for pid in self.pids()[name]]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(map(lives, killed)), 10, f"{names} to end")

    def pid_file(self, component: str) -> Path:
        return next(self.control_plane.rglob("pids")) / f"{component}.pid"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        command = [str(self.programs / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(
            command, input=stdin, env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def works(self) -> None:
        """All five do their part: a Pod on a new node is scheduled and runs."""
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"},
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "9"},
            },
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        }
        wait_for(
            lambda: "default" in self.kubectl("get", "serviceaccounts", "-o", "name"), 30, "the default service account"
        )
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, pod]}))
        self.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=120s")
        self.kubectl("delete", "pod/p", "node/n", "--now")

    def everything(self) -> list[int]:
        """All processes that were started for this lab, by its folder in their environment or command line."""
        mark = os.fsencode(f"{self.base}/")
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                except OSError:
                    continue
                if mark in told:
                    found.append(int(entry.name))
        return found

    def kill_runs(self) -> None:
        """Kill plays and all that works for them, at one blow; the cluster's processes go on."""
        components = {pid for pids in self.pids().values() for pid in pids}
        runs = set(self.everything()) - components
        # Stopped first, so that none acts on the end of another.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in runs:
                kill(pid, number)
        wait_for(
            lambda: set(self.everything()) <= {p for pids in self.pids().values() for p in pids}, 10, "the plays to end"
        )

    def destroy(self) -> None:
        def none_left() -> bool:
            left = self.everything()
            for pid in left:
                kill(pid)
            return not left

        wait_for(none_left, 20, "the lab's processes to end")
        # Where a blank stands as \040.
        table = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
        mounts = [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), where) for where in table]
        for mount in reversed([m for m in mounts if m.startswith(f"{self.base}/")]):
            subprocess.run(["umount", "--lazy", mount], check=True)
        shutil.rmtree(self.base)


def finish(play: subprocess.Popen) -> Run:
    try:
        output, _none = play.communicate(timeout=150)
    except subprocess.TimeoutExpired:
        os.killpg(play.pid, signal.SIGKILL)
        output, _none = play.communicate()
        pytest.fail(f"the play did not end within 150 s: {output}")
    return Run(play.returncode, output)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def lives(pid: int) -> bool:
    """Whether a thread of it runs: one of many may hold the sockets for a moment after the first has ended."""
    states = []
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(task.read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return not set(states) <= {"Z", "X"}


def commands() -> list[tuple[int, list[str]]]:
    """Pid and command line of every live process; a zombie has none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_text("utf-8", "surrogateescape").rstrip("\0").split("\0")
            except OSError:
                continue
            if command[0]:
                found.append((int(entry.name), command))
    return found


def wait_for(condition, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)  # most look through /proc, which is not for nothing


def mount(folder: Path, options: str) -> Path:
    """A small file system of memory, unmounted with the lab."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.fail(
            f"this test fills a file system of its own and may not mount one: {done.stderr.strip()} (run it as root)",
            pytrace=False,
        )
    return folder


def new_lab(programs: Path) -> Lab:
    return Lab(Path(tempfile.mkdtemp(prefix="gpuwl-cp-")).resolve(), programs)
