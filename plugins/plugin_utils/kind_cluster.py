# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: a cluster that kind makes in docker, its configuration, and the lab's note that it made it.

kind keeps a cluster's state in its containers and has no command for one that is half made or stopped. So a note lies
in the root while a cluster is being made, and another once it is: with the first one a cluster is made anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError, connect
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import kwok_kubeconfig
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.kind_programs import demand, run
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.providers import ClusterError, foreign_kubeconfig, lock_path

# Every node of a cluster that the lab made carries it, with the cluster's name, so that a teardown without notes knows.
MARK = "gpuwl.sandbox/cluster"
# Seconds for making a cluster, which may have to fetch a node image of 1 GB first.
CREATE_LIMIT = 1200
DELETE_LIMIT = 300
# Seconds by which the clocks of docker and of this machine may differ.
CLOCKS = 60
SCRATCH = ".kind-"
REMOVE = "playbooks/teardown.yml -e control_plane_provider=kind"


def configuration(name: str, nodes: list[str]) -> str:
    """kind's configuration: one control-plane node, and a worker per name of `nodes`.

    Names stand in double quotes, as JSON writes them, since YAML would make numbers or booleans of some.
    """
    labels = f"    labels: {{{json.dumps(MARK)}: {json.dumps(name)}}}"
    lines = ["kind: Cluster", "apiVersion: kind.x-k8s.io/v1alpha4", "nodes:", "  - role: control-plane", labels]
    for node in nodes:
        patch = ["kind: JoinConfiguration", "nodeRegistration:", f"  name: {json.dumps(node)}"]
        lines += [
            "  - role: worker",
            labels,
            "    kubeadmConfigPatches:",
            "      - |",
            *(f"        {line}" for line in patch),
        ]
    return "\n".join(lines) + "\n"


def version_of_image(image: str) -> str | None:
    """The Kubernetes version that a node image's tag names, such as v1.37.2; None where it names none."""
    found = re.search(r":(v\d+\.\d+\.\d+)(@|$)", image)
    return found[1] if found else None


class KindCluster:
    """One cluster of kind's, and what the lab keeps of it: notes and configuration in `root`, and its kubeconfig."""

    def __init__(self, root: str, name: str, kubeconfig: str) -> None:
        self.root = Path(os.path.realpath(root))
        self.name = str(name)
        self.kubeconfig = Path(kubeconfig)
        self.configuration = self.root / "kind.yaml"
        self.being_made = self.root / f"kind-{self.name}.being-made"
        self.made = self.root / f"kind-{self.name}.made"

    def is_there(self) -> bool:
        """Whether docker has containers of it, running or not, complete or not."""
        return self.name in demand(["kind", "get", "clusters"], "listing kind's clusters").split()

    def check_kubeconfig(self) -> None:
        """Refuse to write over another cluster's kubeconfig. In the lab's own folder there is nobody else's."""
        at_home = os.path.realpath(self.kubeconfig) == str(self.root / "kubeconfig")
        if not at_home and kwok_kubeconfig.is_foreign(self.kubeconfig, f"kind-{self.name}"):
            raise foreign_kubeconfig(self.kubeconfig)

    def connect(self) -> Api:
        """A connection to its API server; raises ApiError where there is none."""
        try:
            return connect(kubeconfig=yaml.safe_load(self._kubeconfig_text()))
        except yaml.YAMLError as error:
            raise ApiError(f"what `kind get kubeconfig --name {self.name}` prints is no kubeconfig") from error

    def api(self) -> Api | None:
        """The same, or None where it does not answer."""
        with contextlib.suppress(ApiError):
            return self.connect()
        return None

    def _kubeconfig_text(self) -> str:
        # kind reads it in the control-plane container, which may be stopped or half made.
        answer = run(["kind", "get", "kubeconfig", "--name", self.name])
        if answer.code != 0:
            raise ApiError(f"kind has no kubeconfig of it and says: {answer.said}")
        return answer.output

    def made_by_lab(self, api: Api | None) -> bool | None:
        """Whether the lab made the cluster that is there; None where nothing tells. api: None where it does not answer."""
        nodes = api.list("nodes", metadata_only=True)[0] if api else []
        if nodes:
            # They know better than a note: the lab's cluster may be gone, and this another of the same name.
            return all((node["metadata"].get("labels") or {}).get(MARK) == self.name for node in nodes)
        return True if any(map(self._is_about_these, self._notes())) else None

    def _is_about_these(self, note: Path) -> bool:
        """Whether the containers that are there began when the note did, so that it is not about a cluster before them."""
        began, created = note.stat().st_mtime, self.created()
        return bool(created) and all(began - CLOCKS <= moment <= began + CREATE_LIMIT for moment in created)

    def created(self) -> list[float]:
        """When its containers were made, in seconds since 1970."""
        command = ["docker", "inspect", "--format", "{{.Created}}", *self.containers()]
        lines = demand(command, f"looking at the containers of the kind cluster {self.name}").split()
        return [datetime.fromisoformat(line).timestamp() for line in lines]

    def is_unfinished(self, api: Api | None) -> bool:
        """Whether what is there is left from a creation of the lab's that was cut off."""
        return self.being_made.exists() and bool(self.made_by_lab(api))

    def has_note(self) -> bool:
        return bool(self._notes())

    def drop_notes(self) -> None:
        for note in self._notes():
            note.unlink()

    def _notes(self) -> list[Path]:
        return [note for note in (self.being_made, self.made) if note.exists()]

    def create(self, nodes: list[str], image: str, timeout: int) -> None:
        """Have kind make the cluster. The user's own kubeconfig stays out of it."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.configuration.write_text(configuration(self.name, nodes), "utf-8")
        self.drop_notes()
        self.being_made.touch()
        with self._scratch() as scratch:
            command = ["kind", "create", "cluster", "--name", self.name, "--config", str(self.configuration)]
            command += ["--kubeconfig", str(scratch), "--wait", f"{timeout}s", *(["--image", image] if image else [])]
            answer = run(command, CREATE_LIMIT)
        if answer.code == 0:
            self.being_made.replace(self.made)
            return
        with contextlib.suppress(ClusterError):
            self._clear_failed(killed=answer.code is None, said=answer.said)
        why = (
            f"it did not end within {CREATE_LIMIT / 60:g} minutes and said last" if answer.code is None else "kind says"
        )
        raise ClusterError(f"kind could not make the cluster {self.name}; {why}: {answer.said}")

    def _clear_failed(self, killed: bool, said: str) -> None:
        """kind clears away what it could not make to the end, unless it was killed; the note goes with the last container."""
        if killed:
            self.delete()
        if "already exist" in said or not self.is_there():
            self.being_made.unlink(missing_ok=True)

    def delete(self) -> None:
        with self._scratch() as scratch:
            demand(
                ["kind", "delete", "cluster", "--name", self.name, "--kubeconfig", str(scratch)],
                f"deleting the kind cluster {self.name}",
                DELETE_LIMIT,
            )

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A kubeconfig for kind to write to, which it insists on."""
        self._clear_scratch()
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.root if self.root.is_dir() else None) as folder:
            yield Path(folder) / "kubeconfig"

    def _clear_scratch(self) -> None:
        """What a killed run left behind."""
        for folder in self.root.glob(f"{SCRATCH}*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _containers(self) -> dict[str, str]:
        """Name -> state, such as running or exited, of its containers."""
        command = [
            "docker",
            "ps",
            "-a",
            "--filter",
            f"label=io.x-k8s.kind.cluster={self.name}",
            "--format",
            "{{.Names}} {{.State}}",
        ]
        lines = demand(command, f"listing the containers of the kind cluster {self.name}").splitlines()
        return dict(sorted(line.split()[:2] for line in lines if line.strip()))

    def containers(self) -> list[str]:
        return list(self._containers())

    def start_containers(self) -> list[str]:
        """Start those that do not run, as after a restart of the machine; returns their names."""
        stopped = [name for name, state in self._containers().items() if state != "running"]
        if stopped:
            demand(["docker", "start", *stopped], f"starting the containers of the kind cluster {self.name}")
        return stopped

    def await_api(self, timeout: float) -> Api:
        """A connection to its API server, once there is one."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self.connect()
            except ApiError as error:
                last = error
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the API server of the kind cluster {self.name} does not answer, and did not for {timeout:g} s with all its containers started"
                    f" ({last}). See docker logs {self.name}-control-plane, or remove the cluster ({REMOVE}) and run again"
                )
            time.sleep(0.5)

    def check_fits(self, api: Api, nodes: list[str], image: str) -> None:
        """Refuse a cluster that was made for other nodes or another version."""
        present = {node["metadata"]["name"] for node in api.list("nodes", metadata_only=True)[0]}
        missing = [name for name in nodes if name not in present]
        if missing:
            raise ClusterError(
                f"the kind cluster {self.name} has no node {', '.join(missing)}, and a kind cluster's nodes are fixed when it is made:"
                f" remove it ({REMOVE}) and run again"
            )
        version = version_of_image(image)
        if version and api.version and version != api.version:
            raise ClusterError(
                f"the kind cluster {self.name} runs Kubernetes {api.version}, and control_plane_kind_image is {image}:"
                f" remove the cluster ({REMOVE}) and run again, or leave the image as it was"
            )

    def write_kubeconfig(self) -> bool:
        """Write the one kubeconfig, mode 0600; True where it changed."""
        return kwok_kubeconfig.write(self.kubeconfig, self._kubeconfig_text())

    def has_kubeconfig(self) -> bool:
        return kwok_kubeconfig.is_written(self.kubeconfig, self._kubeconfig_text())

    def own_paths(self) -> list[Path]:
        """The files that the lab has of it."""
        paths = [*self._notes(), self.configuration]
        if not kwok_kubeconfig.is_foreign(self.kubeconfig, f"kind-{self.name}"):
            paths.append(self.kubeconfig)
        return [path for path in paths if path.exists()]

    def forget(self) -> bool:
        """Remove the lab's own files of it; True where there was any."""
        paths = self.own_paths()
        for path in paths:
            path.unlink()
        self._clear_scratch()
        with contextlib.suppress(OSError):
            self.root.rmdir()
        lock_path(self.root).unlink(missing_ok=True)
        return bool(paths)
