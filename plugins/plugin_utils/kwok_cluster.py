# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: a KWOK cluster as local processes, started and stopped safely.

kwokctl (binary runtime) trusts its pid files: with a number that now belongs to another process it skips a
component for ever, and on stop it kills that stranger. So what runs is read from /proc here, the pid files are
written from that before kwokctl starts anything, and stopping is done here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import yaml
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import kwok_kubeconfig
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.kwok_processes import (
    end,
    free_ports,
    port_trouble,
    prepare_child,
    program_name,
    running_below,
)
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.providers import ClusterError, foreign_kubeconfig, lock_path

# In the order in which they stop: nothing loses what it depends on.
PROGRAMS = ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
ALL_PROGRAMS = (*PROGRAMS, "kubectl", "kwokctl")
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
# A component that ends while the cluster starts is started so many times: on a busy machine some give up on the API server.
ATTEMPTS = 3


class KwokCluster:
    """One cluster below one folder.

    root: folder of everything the cluster owns (state, kubeconfig); programs: name -> path of the seven programs;
    port: of the API server, 0 for any free one.
    """

    def __init__(self, root: str, name: str, kubeconfig: str, programs: dict[str, str], port: int = 0) -> None:
        # Without links, so that a cluster is the same one by whichever path it is named.
        self.root = Path(os.path.realpath(root))
        # Ansible tags its values, and PyYAML writes plain ones only.
        self.name = str(name)
        self.kubeconfig = Path(kubeconfig)
        self.programs = {str(key): os.path.abspath(path) for key, path in programs.items()}
        self.port = int(port)
        # kwokctl cuts the path in KWOK_WORKDIR at the first blank. `.kwok` in its home folder it takes as it is.
        self.state = self.root / ".kwok"
        self.folder = self.state / "clusters" / self.name

    def components(self) -> list[dict[str, Any]]:
        """What kwokctl wrote down at creation; empty where a creation never came to its end."""
        try:
            config = next(yaml.safe_load_all((self.folder / "kwok.yaml").read_text("utf-8")), None)
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError, yaml.YAMLError):
            return []
        found = config.get("components") if isinstance(config, dict) else None
        if not isinstance(found, list) or {program_name(c.get("binary", "")) for c in found} != set(PROGRAMS):
            return []
        return found

    def running(self) -> dict[str, list[int]]:
        """Program path -> pids of this cluster's live processes."""
        return running_below(self.folder / "bin")

    def version(self) -> str | None:
        """Kubernetes version of the cluster that is there, such as v1.37.2."""
        for component in self.components():
            if component.get("name") == "kube-apiserver":
                return "v" + str(component.get("version", "")).removeprefix("v")
        return None

    def answers(self) -> bool:
        """Whether the API server calls itself ready."""
        try:
            return kwok_kubeconfig.is_ready(self.server(), self.folder / "pki")
        except ClusterError:
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

    def check(self) -> None:
        """Refuse what cannot work, before anything is done."""
        missing = [path for path in self.programs.values() if not (os.path.isfile(path) and os.access(path, os.X_OK))]
        if missing:
            raise ClusterError(
                f"missing or not executable: {', '.join(missing)}. Build them (control_plane_source: go) "
                "or name a folder that has them (control_plane_source: path, control_plane_path)"
            )
        # kwok reads its --config as a list with commas and quotes.
        if re.search(r'[,"\n]', str(self.root)):
            raise ClusterError(
                f"the path {self.root} has a comma, a double quote or a line break, which kwok cannot take: set lab_root to another"
            )
        if self._kubeconfig_is_foreign():
            raise foreign_kubeconfig(self.kubeconfig)

    def start(self, timeout: float) -> list[str]:
        """Create the cluster, or start what of it does not run; returns the names of the started components."""
        components = self.components()
        if not components:
            return self._create(timeout)
        self._check_not_moved(components)
        running = self.running()
        missing = [c for c in components if c["binary"] not in running]
        self._check_binaries(missing)
        self._check_ports([port["port"] for c in missing for port in c.get("ports", [])])
        try:
            self._bring_up("start", timeout)
        except ClusterError:
            self.stop({c["binary"] for c in missing})
            raise
        return [c["name"] for c in missing]

    def _create(self, timeout: float) -> list[str]:
        self._clear_unfinished()
        self._check_ports([self.port] if self.port else [])
        for folder in (self.root, self.state):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.state / "kwokctl.yaml").write_text(yaml.safe_dump(self._configuration()), "utf-8")
        try:
            self._bring_up("create", timeout)
        except ClusterError:
            # Nothing half done: only the logs stay to be read, and the next run makes the cluster anew.
            self.stop(patience=0)
            shutil.rmtree(self.folder / "etcd", ignore_errors=True)
            (self.folder / "kwok.yaml").unlink(missing_ok=True)
            raise
        return [c["name"] for c in self.components()]

    def write_kubeconfig(self) -> bool:
        """Write the one kubeconfig of the cluster, mode 0600, certificates inside; True where it changed."""
        return kwok_kubeconfig.write(
            self.kubeconfig, kwok_kubeconfig.compose(self.name, self.server(), self.folder / "pki")
        )

    def _kubeconfig_is_foreign(self) -> bool:
        at_home = os.path.realpath(self.kubeconfig) == str(self.root / "kubeconfig")
        return not at_home and kwok_kubeconfig.is_foreign(self.kubeconfig, self.name)

    def _clear_unfinished(self) -> None:
        """A creation that was cut off before it wrote down its components holds no data."""
        if (self.folder / "etcd" / "member").exists():
            raise ClusterError(
                f"{self.folder}/kwok.yaml is missing or damaged, so the cluster whose data lie beside it cannot be "
                "started: put the file back, or remove the cluster (playbooks/teardown.yml) and run again"
            )
        # Processes whose folder was deleted under them.
        self.stop(patience=0)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _check_not_moved(self, components: list[dict[str, Any]]) -> None:
        made = Path(components[0]["binary"]).parent
        if made != self.folder / "bin":
            raise ClusterError(
                f"the cluster below {self.root} was made at {made.parents[3]} and works only there: move the folder back, "
                "or remove the cluster (playbooks/teardown.yml) and run again"
            )

    def _check_binaries(self, components: list[dict[str, Any]]) -> None:
        """The cluster's bin folder links to the programs it was made from; mend links to programs that moved."""
        for component in components:
            link = Path(component["binary"])
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.unlink(missing_ok=True)
                link.symlink_to(self.programs[program_name(component["binary"])])

    def _check_ports(self, ports: list[int]) -> None:
        # A killed program's sockets may outlive it for a moment.
        deadline = time.monotonic() + 5
        for port in ports:
            while (trouble := port_trouble(port)) and time.monotonic() < deadline:
                time.sleep(0.1)
            if trouble:
                raise ClusterError(
                    f"port {port} on 127.0.0.1, which the control plane needs, cannot be had ({trouble}): "
                    "stop the program that has it (ss -ltnp shows which), or give the cluster another port: "
                    "remove it (playbooks/teardown.yml) and set control_plane_port"
                )

    def _write_pid_files(self) -> None:
        pids = self.folder / "pids"
        pids.mkdir(exist_ok=True)
        running = self.running()
        for component in self.components():
            file = self._pid_file(component)
            file.unlink(missing_ok=True)
            if component["binary"] in running:
                file.write_text(str(running[component["binary"]][0]), "utf-8")

    def _pid_file(self, component: dict[str, Any]) -> Path:
        return self.folder / "pids" / (Path(component["binary"]).name + ".pid")

    def _configuration(self) -> dict[str, Any]:
        ports = [port for port in free_ports(7) if port != self.port]
        # With an election a killed scheduler's successor waits 15 s, and both end when the API server is away for 10 s.
        alone = [{"key": "leader-elect", "value": "false"}]
        return {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokctlConfiguration",
            "options": {
                # Without this every component listens on all interfaces, etcd without authentication.
                "bindAddress": "127.0.0.1",
                # Otherwise the controller manager admits ten new nodes a second, and a thousand take two minutes.
                "disableQPSLimits": True,
                # kwokctl takes the highest port that is free just then, so that two starts at once share ports, and one
                # API server talks to the other's etcd.
                "kubeApiserverPort": self.port or ports.pop(),
                "etcdPort": ports.pop(),
                "etcdPeerPort": ports.pop(),
                "kubeControllerManagerPort": ports.pop(),
                "kubeSchedulerPort": ports.pop(),
                "kwokControllerPort": ports.pop(),
                # Without this kwokctl tries to download a kubectl where PATH has none.
                "kubectlBinary": self.programs["kubectl"],
                "etcdBinary": self.programs["etcd"],
                "kubeApiserverBinary": self.programs["kube-apiserver"],
                "kubeControllerManagerBinary": self.programs["kube-controller-manager"],
                "kubeSchedulerBinary": self.programs["kube-scheduler"],
                "kwokControllerBinary": self.programs["kwok"],
            },
            "componentsPatches": [
                {"name": "kube-controller-manager", "extraArgs": alone},
                {"name": "kube-scheduler", "extraArgs": alone},
            ],
        }

    def _bring_up(self, verb: str, timeout: float) -> None:
        """Run kwokctl until the cluster is up, and again where a component has ended meanwhile."""
        deadline = time.monotonic() + timeout
        for _attempt in range(ATTEMPTS):
            if self.components():
                verb = "start"
                self._write_pid_files()
            with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
                kwokctl = self._kwokctl(verb, output)
                try:
                    if self._await_up(kwokctl, deadline):
                        return
                finally:
                    kwokctl.kill()
                    kwokctl.wait()
                output.seek(0)
                said = output.read()
            if kwokctl.returncode > 0 or NO_SPACE.search(said + self._log_of_ended()):
                break
            if time.monotonic() > deadline:
                raise ClusterError(f"the control plane did not get ready within {timeout:g} s: {self._trouble(said)}")
        raise ClusterError(f"the control plane could not be started: {self._trouble(said)}")

    def _kwokctl(self, verb: str, output: IO[str]) -> subprocess.Popen[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KWOK_")}
        # It takes the first kubectl on PATH, whatever its configuration says.
        path = f"{os.path.dirname(self.programs['kubectl'])}:{os.environ.get('PATH', os.defpath)}"
        environment.update(HOME=str(self.root), KUBECACHEDIR=str(self.state / "cache"), PATH=path)
        command = [self.programs["kwokctl"], verb, "cluster", f"--name={self.name}"]
        if verb == "create":
            # kwokctl insists on adding a context to some kubeconfig: not to the user's own.
            command += [
                "--runtime=binary",
                f"--config={self.state / 'kwokctl.yaml'}",
                f"--kubeconfig={self.state / 'kubeconfig'}",
            ]
        return subprocess.Popen(
            command,
            env=environment,
            cwd=self.state,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=prepare_child,  # noqa: PLW1509 - this process has one thread
        )

    def _await_up(self, kwokctl: subprocess.Popen[str], deadline: float) -> bool:
        """True once the cluster is up; False when kwokctl failed, a component ended or the time is over."""
        while time.monotonic() < deadline:
            done = kwokctl.poll()
            # Not before kwokctl has ended by itself: it still writes a file or two then.
            if done == 0 and self.is_up():
                return True
            if done or self._ended():
                return False
            time.sleep(0.1)
        return False

    def _ended(self) -> list[dict[str, Any]]:
        """The components that were started, so that they have a pid file, and run no more."""
        started = [c for c in self.components() if self._pid_file(c).exists()]
        running = self.running()
        return [c for c in started if c["binary"] not in running]

    def _log_of_ended(self) -> str:
        """The end of the log of the first component that ended."""
        for component in self._ended():
            log = self.folder / "logs" / (Path(component["binary"]).name + ".log")
            with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
                return file.read().decode("utf-8", "replace")
        return ""

    def _trouble(self, said: str) -> str:
        """What went wrong, in one line, from kwokctl's output and the log of the first component that ended."""
        ended = self._ended()
        log = self._log_of_ended()
        if NO_SPACE.search(said + log):
            return f"the disk that holds {self.root} is full: make about 1 GiB free there and run again"
        lines = (log or said).strip().splitlines()
        last = _sentence(lines[-1])[:400] if lines else "nothing"
        logs = self.folder / "logs"
        if ended:
            return f"{ended[0]['name']} ended and says: {last} (its log is in {logs})"
        if len(self.running()) == len(PROGRAMS):
            return (
                f"everything runs, but kube-apiserver does not call itself ready (its log is in {logs}): "
                "remove the cluster (playbooks/teardown.yml) if another run does not help"
            )
        return f"kwokctl says: {last} (logs are in {logs})"

    def stop(self, binaries: set[str] | None = None, patience: float = 10.0) -> None:
        """End this cluster's processes, or those of `binaries`, and no others."""
        pids = {
            program_name(path): pids for path, pids in self.running().items() if binaries is None or path in binaries
        }
        for name in PROGRAMS:
            for pid in pids.get(name, []):
                end(pid, patience)

    def is_there(self) -> bool:
        """Whether there is anything to remove. Raises ClusterError where only clusters of other names are."""
        others = self._other_clusters()
        if others and not self.folder.exists() and not self.running():
            raise ClusterError(
                f"below {self.root} is no cluster {self.name!r} but {', '.join(others)}: set control_plane_name to the one that is meant"
            )
        return bool(self.running() or self._own_paths())

    def remove(self) -> bool:
        """Stop the cluster and delete what it owns, nothing else in the folder; True where there was anything."""
        was_there = self.is_there()
        # Their data go too, and an API server without etcd takes its time.
        self.stop(patience=0)
        for path in self._own_paths():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with contextlib.suppress(OSError):
            self.root.rmdir()
        lock_path(self.root).unlink(missing_ok=True)
        return was_there

    def _other_clusters(self) -> list[str]:
        clusters = self.folder.parent
        return sorted(path.name for path in clusters.iterdir() if path != self.folder) if clusters.is_dir() else []

    def _own_paths(self) -> list[Path]:
        # Clusters of other names may live below the same root.
        owned = [self.folder if self._other_clusters() else self.state]
        # The lab may have run on kind since, and its kubeconfig be there.
        if not self._kubeconfig_is_foreign() and not kwok_kubeconfig.is_of(self.kubeconfig, f"kind-{self.name}"):
            owned.append(self.kubeconfig)
        return [path for path in owned if path.exists()]


def _sentence(line: str) -> str:
    """What a line of kwokctl's or etcd's log says, without its time and place in the source."""
    try:
        entry = json.loads(line)
        parts = [str(entry[key]) for key in ("msg", "err", "error") if entry.get(key)]
    except (ValueError, AttributeError, TypeError):
        return line
    return ": ".join(parts) or line
