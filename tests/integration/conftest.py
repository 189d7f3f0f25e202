# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control plane of the tests' own: the real etcd, API server, scheduler and KWOK, in a temporary folder, on loopback.

The binaries come from the folder that GPUWL_BIN names, else from the collection's cache. Without them tests fail; they
are never skipped.
"""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(number: int, frame: object) -> None:
    """End as by Ctrl-C, once: what comes while fixtures clean up must not keep them from it."""
    for ended_by in ENDED_BY:
        signal.signal(ended_by, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_configure() -> None:
    """A plain `kill` of pytest or a closed terminal, as well as Ctrl-C, must not leave a control plane behind."""
    for ended_by in ENDED_BY:
        signal.signal(ended_by, _interrupt)


BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kwokctl", "kubectl")
KWOKCTL_CONFIGURATION = """\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokctlConfiguration
options:
  bindAddress: 127.0.0.1
  kubectlBinary: {kubectl}
  kubeAuditPolicy: {audit}
  # kwokctl takes the highest port that is free just then: two clusters that start at once would share an etcd.
  kubeApiserverPort: {ports[0]}
  etcdPort: {ports[1]}
  etcdPeerPort: {ports[2]}
  kubeControllerManagerPort: {ports[3]}
  kubeSchedulerPort: {ports[4]}
  kwokControllerPort: {ports[5]}
# With an election these two end when the API server is away for ten seconds, as it is in some tests.
componentsPatches:
- name: kube-controller-manager
  extraArgs: [{{key: leader-elect, value: "false"}}]
- name: kube-scheduler
  extraArgs: [{{key: leader-elect, value: "false"}}]
"""
# What the ServiceAccounts of the namespace rbac ask for; the tests of the ClusterRoles read it.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:rbac"]
- level: None
"""


def binaries() -> Path:
    """The folder of the control plane's binaries; the test fails where one is missing."""
    # The role control_plane says the versions, and keeps what it built in a folder named by them.
    role = yaml.safe_load((ROOT / "roles" / "control_plane" / "defaults" / "main.yml").read_text())
    versions = "_".join(f"{name}-{role[f'control_plane_{name}_version']}" for name in ("kubernetes", "etcd", "kwok"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwl"
    folder = Path(os.environ.get("GPUWL_BIN") or cache / f"{versions}_{platform.machine()}").resolve()
    missing = [name for name in BINARIES if not os.access(folder / name, os.X_OK)]
    if missing:
        pytest.fail(
            f"no {', '.join(missing)} in {folder}: run `make programs`, or name a folder that has them in GPUWL_BIN",
            pytrace=False,
        )
    return folder


@dataclass
class Cluster:
    """A running cluster. `folder` holds all of its state, `bin` the binaries."""

    folder: Path
    bin: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def kubectl_path(self) -> Path:
        return self.bin / "kubectl"

    @property
    def pids(self) -> Path:
        """The folder of kwokctl's pid files, one per component."""
        return self.folder / "state" / "clusters" / "t" / "pids"

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl and return what it prints; fails the test when it fails, unless check is false."""
        command = [str(self.kubectl_path), "--kubeconfig", str(self.kubeconfig), *args]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        if check and done.returncode:
            pytest.fail(f"kubectl {' '.join(args)}: {done.stderr}")
        return done.stdout

    def get(self, *args: str) -> dict:
        """An object, or a List, as kubectl gives it, managedFields included."""
        return json.loads(self.kubectl("get", *args, "-o", "json", "--show-managed-fields"))

    @property
    def audit_log(self) -> Path:
        return self.folder / "state" / "clusters" / "t" / "logs" / "audit.log"

    def create_nodes(self, *names: str, **status: str) -> None:
        """Create KWOK nodes with room for Pods; status: further quantities of both capacity and allocatable."""
        quantities = {"cpu": "32", "memory": "64Gi", "pods": "110", **status}
        items = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name},
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                },
                "status": {"capacity": quantities, "allocatable": quantities},
            }
            for name in names
        ]
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def await_nodes(self, *names: str) -> None:
        """Wait until nodes are Ready and take Pods: a new one has a taint until KWOK has reported for it."""

        def ready() -> bool:
            items = self.get("nodes")["items"]
            return not any(item["spec"].get("taints") for item in items if item["metadata"]["name"] in names)

        self.kubectl("wait", "--for=condition=Ready", "--timeout=120s", *(f"node/{name}" for name in names))
        _await(ready, 30, f"the taints of {', '.join(names)} to go")

    def component(self, name: str) -> int:
        """The process id of a component such as kube-apiserver."""
        # Asked of /proc, because kwokctl's file is out of date after a restart by these tests.
        return next(pid for pid, command in _processes_of(self.folder) if Path(command[0]).name == name)

    def kill(self, name: str) -> list[str]:
        """Kill a component at once; returns the command line that starts it again."""
        pid = self.component(name)
        command = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        os.kill(pid, signal.SIGKILL)
        _await(lambda: not _alive(pid), 10, f"{name} to end")
        # The threads of a killed process may outlive its first one for a moment, and hold its sockets.
        ports = [int(argument.partition("=")[2]) for argument in command if argument.startswith("--secure-port=")]
        _await(lambda: all(_is_free(port) for port in ports), 30, f"the port of {name} to be free")
        return command

    def start(self, command: list[str], wait: bool = True) -> None:
        """Start a component with the command line that kill() returned."""
        with open(self.folder / "restarted.log", "a", encoding="utf-8") as log:
            subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        if wait:
            _await(
                lambda: self.kubectl("get", "--raw", "/readyz", check=False).strip() == "ok",
                60,
                f"the API server to be ready; see {log.name}",
            )

    def create(self) -> None:
        audit = self.folder / "audit.yaml"
        audit.write_text(AUDIT_POLICY)
        (self.folder / "kwokctl.yaml").write_text(
            KWOKCTL_CONFIGURATION.format(kubectl=self.kubectl_path, audit=audit, ports=_free_ports(6))
        )
        command = [
            str(self.bin / "kwokctl"),
            "create",
            "cluster",
            "--config",
            str(self.folder / "kwokctl.yaml"),
            "--name=t",
            "--runtime=binary",
        ]
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            command += [f"--{name}-binary", str(self.bin / name)]
        command += [
            "--kwok-controller-binary",
            str(self.bin / "kwok"),
            "--kubeconfig",
            str(self.kubeconfig),
            "--wait",
            "90s",
        ]
        environment = {**os.environ, "KWOK_WORKDIR": str(self.folder / "state"), "HOME": str(self.folder)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
        if done.returncode:
            pytest.fail(f"kwokctl could not create a cluster: {done.stderr[-2000:]}", pytrace=False)
        self.await_namespace("default")

    def await_namespace(self, name: str) -> None:
        """Wait until a namespace takes Pods, which is when the controller manager has made its service account."""
        _await(
            lambda: "default" in self.kubectl("get", "serviceaccount", "-n", name, "-o", "name", check=False),
            60,
            f"the service account of {name}",
        )

    def destroy(self) -> None:
        """End every process that has this cluster's folder in its command line, and remove the folder."""
        for pid, _command in _processes_of(self.folder):
            os.kill(pid, signal.SIGKILL)
        _await(lambda: not _processes_of(self.folder), 20, "the control plane to end")
        shutil.rmtree(self.folder, ignore_errors=True)


def _processes_of(folder: Path) -> list[tuple[int, list[str]]]:
    """The processes whose program lies in `folder`; its random name makes them ours beyond doubt."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_text().rstrip("\0").split("\0")
            except OSError:
                continue
            if command[0].startswith(f"{folder}/"):
                found.append((int(entry.name), command))
    return found


def _free_ports(count: int) -> list[int]:
    """Ports that stay ours while a component is down for a test: neither of the kernel's range nor of kwokctl's choice."""
    free = [port for port in random.sample(range(20000, 30000), 50) if _is_free(port)]
    if len(free) < count:
        pytest.fail(f"fewer than {count} free ports between 20000 and 30000")
    return free[:count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _await(condition, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)


@pytest.fixture(scope="session")
def cluster():
    """A running Cluster for the whole test session; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gpuwl-test-")).resolve()
    made = Cluster(folder, binaries())
    try:
        made.create()
        yield made
    finally:
        made.destroy()
