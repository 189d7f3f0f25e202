# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: a KWOK cluster as local processes, started and stopped safely.

kwokctl (binary runtime) trusts its pid files: with a number that now belongs to another process it skips a
component for ever, and on stop it kills that stranger. So what runs is read from /proc here, the pid files are
written from that before kwokctl starts anything, and stopping is done here.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any, Iterator

import yaml

# In the order in which they stop: nothing loses what it depends on.
PROGRAMS = ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
ALL_PROGRAMS = (*PROGRAMS, "kubectl", "kwokctl")
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


class ClusterError(Exception):
    """One line for the user: what is wrong and what to do."""


class KwokCluster:
    """One cluster below one folder.

    root: folder of everything the cluster owns (state, kubeconfig); programs: name -> path of the seven programs;
    port: of the API server, 0 for any free one.
    """

    def __init__(self, root: str, name: str, kubeconfig: str, programs: dict[str, str], port: int = 0) -> None:
        self.root = Path(os.path.abspath(root))
        # Ansible tags its values, and PyYAML writes plain ones only.
        self.name = str(name)
        self.kubeconfig = Path(kubeconfig)
        self.programs = {str(key): str(path) for key, path in programs.items()}
        self.port = int(port)
        self.folder = self.root / "clusters" / name

    # -- what is there ---------------------------------------------------------------------------------------

    def components(self) -> list[dict[str, Any]]:
        """What kwokctl wrote down at creation; empty where a creation never came to its end."""
        try:
            config = next(yaml.safe_load_all((self.folder / "kwok.yaml").read_text("utf-8")), None)
        except FileNotFoundError:
            return []
        except (UnicodeDecodeError, yaml.YAMLError):
            config = None
        found = config.get("components") if isinstance(config, dict) else None
        return found if isinstance(found, list) else []

    def running(self) -> dict[str, list[int]]:
        """Program path -> pids of the live processes started from this cluster's bin folder.

        Pid files are not asked, nor need the folder still be there: its owner may have deleted it under the processes.
        """
        found: dict[str, list[int]] = {}
        prefix = os.fsencode(self.folder / "bin") + b"/"
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                # A zombie's command line is empty.
                command = Path(entry.path, "cmdline").read_bytes().split(b"\0", 1)[0]
                if not command.startswith(prefix) or entry.stat().st_uid != os.getuid():
                    continue
                executable = os.readlink(os.path.join(entry.path, "exe")).removesuffix(" (deleted)")
            except OSError:
                continue
            program = os.fsdecode(command)
            if os.path.basename(executable) == _program_name(program):
                found.setdefault(program, []).append(int(entry.name))
        return found

    def version(self) -> str | None:
        """Kubernetes version of the cluster that is there, such as v1.37.2."""
        for component in self.components():
            if component.get("name") == "kube-apiserver":
                return "v" + str(component.get("version", "")).removeprefix("v")
        return None

    def answers(self) -> bool:
        """Whether the API server calls itself ready."""
        pki = self.folder / "pki"
        try:
            context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
            context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
            # kwokctl's certificate authority lacks the key usage that newer Pythons insist on.
            context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(f"{self.server()}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError, ClusterError):
            return False

    def server(self) -> str:
        for component in self.components():
            if component.get("name") == "kube-apiserver":
                return f"https://127.0.0.1:{component['ports'][0]['port']}"
        raise ClusterError(f"{self.folder}/kwok.yaml names no kube-apiserver: remove the cluster and make it again")

    def is_up(self) -> bool:
        components = self.components()
        running = self.running()
        return bool(components) and all(c["binary"] in running for c in components) and self.answers()

    # -- start -----------------------------------------------------------------------------------------------

    def start(self, timeout: float) -> list[str]:
        """Create the cluster, or start what of it does not run; returns the names of the started components."""
        self._check_programs()
        components = self.components()
        if not components:
            self.stop()
            self._clear_unfinished()
        running = self.running()
        missing = [c for c in components if c["binary"] not in running]
        if not components:
            self._check_ports([self.port] if self.port else [])
            self._kwokctl(["create", "cluster", *self._create_options()], timeout)
            missing = self.components()
        elif missing:
            self._check_binaries(missing)
            self._check_ports([port["port"] for c in missing for port in c.get("ports", [])])
            self._write_pid_files(components, running)
            self._kwokctl(["start", "cluster"], timeout)
        self._wait(timeout)
        return [c["name"] for c in missing]

    def write_kubeconfig(self) -> bool:
        """Write the one kubeconfig of the cluster, mode 0600, certificates inside; True where it changed."""
        pki = self.folder / "pki"

        def encoded(name: str) -> str:
            return base64.b64encode((pki / name).read_bytes()).decode("ascii")

        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "clusters": [
                {"name": self.name, "cluster": {"server": self.server(), "certificate-authority-data": encoded("ca.crt")}}
            ],
            "users": [
                {
                    "name": self.name,
                    "user": {
                        "client-certificate-data": encoded("admin.crt"),
                        "client-key-data": encoded("admin.key"),
                    },
                }
            ],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": self.name}}],
        }
        text = yaml.safe_dump(config, sort_keys=False)
        path = self.kubeconfig
        with contextlib.suppress(OSError):
            if path.read_text("utf-8") == text and path.stat().st_mode & 0o777 == 0o600:
                return False
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
        return True

    def _clear_unfinished(self) -> None:
        """A creation that was cut off before it wrote down its components has started nothing and holds no data."""
        if (self.folder / "etcd" / "member").exists():
            raise ClusterError(
                f"{self.folder}/kwok.yaml is missing or damaged, so the cluster whose data lie beside it cannot be "
                "started: put the file back, or remove the cluster (playbooks/teardown.yml) and run again"
            )
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _check_programs(self) -> None:
        missing = [path for path in self.programs.values() if not os.access(path, os.X_OK)]
        if missing:
            raise ClusterError(
                f"missing programs of the control plane: {', '.join(missing)}. Build them (control_plane_source: go) "
                "or name their folder (control_plane_source: path, control_plane_path)"
            )

    def _check_binaries(self, components: list[dict[str, Any]]) -> None:
        """The cluster's bin folder links to the programs it was made from; mend links to programs that moved."""
        for component in components:
            link = Path(component["binary"])
            target = self.programs[_program_name(component["binary"])]
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.unlink(missing_ok=True)
                link.symlink_to(target)

    def _check_ports(self, ports: list[int]) -> None:
        for port in ports:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    raise ClusterError(
                        f"port {port} on 127.0.0.1, which the control plane needs, cannot be had ({error.strerror}): "
                        "stop the program that has it (ss -ltnp shows which), or give the cluster another port: "
                        "remove it (playbooks/teardown.yml) and set control_plane_port"
                    ) from error

    def _write_pid_files(self, components: list[dict[str, Any]], running: dict[str, list[int]]) -> None:
        pids = self.folder / "pids"
        pids.mkdir(exist_ok=True)
        for component in components:
            file = pids / (Path(component["binary"]).name + ".pid")
            if component["binary"] in running:
                file.write_text(str(running[component["binary"]][0]), "utf-8")
            else:
                file.unlink(missing_ok=True)

    def _create_options(self) -> list[str]:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        ports = _free_ports(6)
        config = {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokctlConfiguration",
            "options": {
                # Without this every component listens on all interfaces, etcd without authentication.
                "bindAddress": "127.0.0.1",
                # kwokctl takes the highest port that is free just then, so that two starts at once share ports, and one
                # API server talks to the other's etcd.
                "kubeApiserverPort": self.port or ports.pop(),
                "etcdPort": ports.pop(),
                "etcdPeerPort": ports.pop(),
                "kubeControllerManagerPort": ports.pop(),
                "kubeSchedulerPort": ports.pop(),
                "kwokControllerPort": ports.pop(),
                # Without this kwokctl looks for kubectl on PATH, then tries to download one.
                "kubectlBinary": self.programs["kubectl"],
                "etcdBinary": self.programs["etcd"],
                "kubeApiserverBinary": self.programs["kube-apiserver"],
                "kubeControllerManagerBinary": self.programs["kube-controller-manager"],
                "kubeSchedulerBinary": self.programs["kube-scheduler"],
                "kwokControllerBinary": self.programs["kwok"],
            },
        }
        path = self.root / "kwokctl.yaml"
        path.write_text(yaml.safe_dump(config), "utf-8")
        # kwokctl insists on adding a context to some kubeconfig: not to the user's own.
        return ["--runtime=binary", f"--config={path}", f"--kubeconfig={self.root / 'kwokctl-kubeconfig'}"]

    def _kwokctl(self, arguments: list[str], timeout: float) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KWOK_")}
        environment["KWOK_WORKDIR"] = str(self.root)
        try:
            done = subprocess.run(
                [self.programs["kwokctl"], *arguments, f"--name={self.name}"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout,
                check=False,
                preexec_fn=_die_with_parent,
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"the control plane did not start within {timeout:g} s: {self._trouble('')}") from error
        if done.returncode:
            raise ClusterError(f"kwokctl {arguments[0]} cluster failed: {self._trouble(done.stdout)}")

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self.is_up():
            if time.monotonic() > deadline:
                raise ClusterError(f"the control plane did not get ready within {timeout:g} s: {self._trouble('')}")
            time.sleep(0.1)

    def _trouble(self, output: str) -> str:
        """What went wrong, in one line, from kwokctl's output and the log of the first component that is down."""
        running = self.running()
        down = [c for c in self.components() if c["binary"] not in running]
        log = self.folder / "logs" / (Path(down[0]["binary"]).name + ".log") if down else None
        tail = ""
        if log is not None and log.exists():
            with open(log, "rb") as file:
                file.seek(max(0, log.stat().st_size - 4000))
                tail = file.read().decode("utf-8", "replace")
        if NO_SPACE.search(output + tail):
            return f"the disk that holds {self.root} is full: make about 1 GiB free there and run again"
        lines = (tail or output).strip().splitlines()
        last = lines[-1][:400] if lines else "it gave no reason"
        return f"{down[0]['name'] if down else 'kwokctl'} says: {last}" + (f" (log: {log})" if log else "")

    # -- stop ------------------------------------------------------------------------------------------------

    def stop(self) -> list[str]:
        """End this cluster's processes and no others; returns the names of the programs that ran."""
        by_name = {_program_name(program): pids for program, pids in self.running().items()}
        stopped = [name for name in PROGRAMS if name in by_name]
        for name in stopped:
            for pid in by_name[name]:
                _end(pid)
        return stopped

    def remove(self) -> bool:
        """Stop the cluster and delete what it owns, nothing else in the folder; True where there was anything."""
        stopped = self.stop()
        owned = [self.root / "clusters", self.root / "cache", self.root / "kwokctl.yaml", self.kubeconfig]
        owned += [self.root / "kwokctl-kubeconfig"]
        existing = [path for path in owned if path.exists()]
        for path in existing:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with contextlib.suppress(OSError):
            self.root.rmdir()
        self._lock_file().unlink(missing_ok=True)
        return bool(stopped or existing)

    def _lock_file(self) -> Path:
        # Beside the folder, since it outlives it.
        return self.root.with_name(f".{self.root.name}.lock")

    @contextlib.contextmanager
    def lock(self, timeout: float) -> Iterator[None]:
        """One start or removal of this cluster at a time, also across a killed run whose worker still works."""
        path = self._lock_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + timeout
        while True:
            with open(path, "a", encoding="utf-8") as file:
                if _locked(file, path):
                    yield
                    return
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"another run has been working on the control plane below {self.root} for {timeout:g} s: "
                    "wait for it or end it, then run again"
                )
            time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has, below those that the kernel gives to outgoing connections, so that a restart finds them free."""
    found: list[int] = []
    while len(found) < count:
        port = random.randint(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


def _program_name(binary: str) -> str:
    """kwokctl starts kwok by the name kwok-controller, all others by their own."""
    name = os.path.basename(binary)
    return "kwok" if name == "kwok-controller" else name


def _locked(file: IO[str], path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one who held it may have removed the file, and a lock on a file without a name locks nobody.
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _die_with_parent() -> None:
    """In the child: a killed play takes kwokctl with it (PR_SET_PDEATHSIG, prctl(2)); its daemons have no such tie."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _end(pid: int) -> None:
    """SIGTERM, ten seconds, SIGKILL; by pidfd, so that a number that is given away meanwhile is safe."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                if _ended(pid):
                    return
                time.sleep(0.02)
    finally:
        os.close(handle)


def _ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in ("Z", "X")
