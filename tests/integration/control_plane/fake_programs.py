# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins for docker and kind, run as `python fake_programs.py FOLDER PROGRAMS docker|kind ARGUMENTS...`.

A cluster that this kind makes is a real KWOK cluster, with a tainted control-plane node and the workers of the configuration
that it was given. FOLDER holds what the test wants of them, the calls, and the clusters; PROGRAMS is the folder of KWOK's.
What they print is what docker 28 and kind v0.33 print.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER, PROGRAMS = Path(sys.argv[1]), Path(sys.argv[2])
ROOM = {"cpu": "32", "memory": "64Gi", "pods": "110"}


def wanted(name: str) -> str | None:
    """What the test wants of the program, None where it wants nothing special."""
    file = FOLDER / name
    return file.read_text() if file.exists() else None


def fail(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.exit(1)


class Cluster:
    """One of kind's clusters: its folder is there as long as its containers are."""

    def __init__(self, name: str) -> None:
        self.name, self.folder = name, FOLDER / "clusters" / name
        self.root, self.kubeconfig = self.folder / "kwok", self.folder / "kwok" / "kubeconfig"

    def kwok(self, state: str) -> None:
        """Have its processes, by the collection's own module."""
        options = {
            "state": state,
            "root": str(self.root),
            "name": f"kind-{self.name}",
            "kubeconfig": str(self.kubeconfig),
            "programs": str(PROGRAMS),
            "kubernetes_version": "v1.37.2",
        }
        command = [
            str(Path(sys.executable).with_name("ansible")),
            "localhost",
            "-m",
            "gpuwl.sandbox.kwok_cluster",
            "-a",
            json.dumps(options),
        ]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode:
            fail(done.stdout + done.stderr)

    def make(self, text: str) -> None:
        # Here, since most calls need it not and it takes as long as all else.
        import yaml

        configuration = yaml.safe_load(text)
        self.folder.mkdir(parents=True)
        (self.folder / "nodes").write_text(str(len(configuration["nodes"])))
        if wanted("create-hangs") is not None:
            time.sleep(600)
        self.kwok("present")
        taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        items = []
        for entry in configuration["nodes"]:
            patches = [yaml.safe_load(text) for text in entry.get("kubeadmConfigPatches", [])]
            names = [patch["nodeRegistration"]["name"] for patch in patches]
            name = names[0] if names else f"{self.name}-control-plane"
            labels = {"kubernetes.io/hostname": name, **entry.get("labels", {})}
            items.append(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "status": {"capacity": ROOM, "allocatable": ROOM},
                    "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels},
                    "spec": {"taints": [taint]} if entry["role"] == "control-plane" else {},
                }
            )
        command = [str(PROGRAMS / "kubectl"), f"--kubeconfig={self.kubeconfig}", "create", "-f", "-"]
        subprocess.run(
            command,
            input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
            text=True,
            check=True,
            capture_output=True,
        )

    def runs(self) -> bool:
        return self.kubeconfig.exists() and not (self.folder / "stopped").exists()

    def containers(self) -> list[str]:
        count = int((self.folder / "nodes").read_text()) - 1
        return [
            f"{self.name}-control-plane",
            *(f"{self.name}-worker{number if number > 1 else ''}" for number in range(1, count + 1)),
        ]


def listed() -> list[str]:
    folder = FOLDER / "clusters"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def kind(command: list[str], options: dict[str, str]) -> None:
    cluster = Cluster(options.get("--name", "kind"))
    if command == ["version"]:
        print(wanted("kind-version") or "kind v0.33.0 go1.26.8 linux/amd64")
    elif command == ["get", "clusters"]:
        print("\n".join(listed())) if listed() else sys.stderr.write("No kind clusters found.\n")
    elif command == ["get", "kubeconfig"]:
        if not cluster.runs():
            container = f"{cluster.name}-control-plane"
            fail(
                f'ERROR: failed to get cluster internal kubeconfig: command "docker exec --privileged {container} cat /etc/kubernetes/admin.conf" '
                f"failed with error: exit status 1\n\nCommand Output: Error response from daemon: container {container} is not running"
            )
        print(cluster.kubeconfig.read_text())
    elif command == ["create", "cluster"]:
        sys.stderr.write(f'Creating cluster "{cluster.name}" ...\n')
        if (why := wanted("create-fails")) is not None:
            fail(why)
        if cluster.name in listed():
            fail(f'ERROR: failed to create cluster: node(s) already exist for a cluster with the name "{cluster.name}"')
        cluster.make(Path(options["--config"]).read_text())
        # As the true one does where nobody says otherwise.
        target = Path(options.get("--kubeconfig") or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(cluster.kubeconfig.read_text())
    elif command == ["delete", "cluster"]:
        if cluster.root.exists():
            cluster.kwok("absent")
        shutil.rmtree(cluster.folder, ignore_errors=True)
        Path(options.get("--kubeconfig") or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config").unlink(
            missing_ok=True
        )
    else:
        fail(f"ERROR: unknown command {command}")


def docker(command: list[str], options: dict[str, str]) -> None:
    if wanted("docker-hangs") is not None:
        time.sleep(600)
    if (why := wanted("docker-fails")) is not None:
        print("Client:\n Version: 28.2.2")
        fail(why)
    if command == ["version"]:
        print("Client:\n Version: 28.2.2\n\nServer:\n Engine:\n  Version: 28.2.2")
    elif command == ["ps"]:
        cluster = Cluster(options["--filter"].removeprefix("label=io.x-k8s.kind.cluster="))
        state = "exited" if (cluster.folder / "stopped").exists() else "running"
        print("\n".join(f"{name} {state}" for name in cluster.containers()))
    elif command[0] == "inspect":
        made = (Cluster(command[1].removesuffix("-control-plane")).folder / "nodes").stat().st_mtime
        print("\n".join([time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(made))] * len(command[1:])))
    elif command[0] == "start":
        cluster = Cluster(command[1].removesuffix("-control-plane"))
        (cluster.folder / "stopped").unlink()
        cluster.kwok("present")
    else:
        fail(f"docker: '{command[0]}' is not a docker command.\n\nRun 'docker --help' for more information")


def main() -> None:
    program, *arguments = sys.argv[3:]
    with open(FOLDER / "calls", "a", encoding="utf-8") as calls:
        calls.write(json.dumps([program, *arguments]) + "\n")
    command: list[str] = []
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "-a":
            continue
        if argument.startswith("--"):
            options[argument] = next(rest)
        else:
            command.append(argument)
    {"kind": kind, "docker": docker}[program](command, options)


if __name__ == "__main__":
    main()
