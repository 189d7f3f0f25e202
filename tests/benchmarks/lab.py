# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The play against the same steps typed as a kubectl script, side by side on clusters of their own.

python tests/benchmarks/lab.py second     the lab's second run against the script's second run; at most 5, aim at 3
python tests/benchmarks/lab.py thousand   1,000 nodes in ten pools on an empty running cluster; at most 0.25

Prints each round, the medians and their ratio. Run with .venv's Python, on a machine that is otherwise idle.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
ROUNDS = 3
POOLS = 10
NODES_PER_POOL = 100


def play(root: Path, *arguments: str, playbook: str = "lab") -> None:
    command = [PLAYBOOK, ROOT / "playbooks" / f"{playbook}.yml", "-e", f"lab_root={root}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr}")


def script(text: str, root: Path) -> None:
    config = next((root / "control-plane").rglob("kwok.yaml"))
    kubectl = next(
        line.split()[1] for line in config.read_text().splitlines() if line.strip().startswith("kubectlBinary:")
    )
    environment = {
        **os.environ,
        "KUBECONFIG": str(root / "control-plane" / "kubeconfig"),
        "KUBECTL": kubectl,
        "ROOT": str(root / "typed"),
    }
    # From a file, since a thousand nodes are more than a command line takes, and kubectl may read standard input.
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(text)
        file.flush()
        subprocess.run(
            ["bash", "-euo", "pipefail", file.name],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )


@contextmanager
def control_plane() -> Iterator[Path]:
    """The root of a lab with an empty running cluster."""
    with tempfile.TemporaryDirectory(prefix="gpuwl-benchmark-") as folder:
        root = Path(folder) / "gpuwl"
        try:
            play(root, "--tags", "control_plane")
            yield root
        finally:
            play(root, playbook="teardown")


def seconds(work: object, *arguments: object) -> float:
    began = time.monotonic()
    work(*arguments)  # type: ignore[operator]
    return time.monotonic() - began


# The seed's steps as its reader would type them.
TYPED = r"""
k() { "$KUBECTL" "$@"; }
mkdir -p "$ROOT/out" "$ROOT/bin" "$ROOT/k8s"
k create namespace gpu-vm --dry-run=client -o yaml | k apply -f -
key=nvidia.com/gpu.workload.config
k label node lab-node-0 --overwrite $key=container
k label node lab-node-1 --overwrite $key=vm-passthrough
k label node lab-node-2 --overwrite $key=vm-vgpu
k get nodes -L $key --no-headers | awk '{print $1, $NF}' > "$ROOT/out/01-nodes.txt"
cat > "$ROOT/out/operands.txt" <<EOF
container=datacenter-driver,container-toolkit,device-plugin,dcgm-exporter
vm-passthrough=vfio-manager,sandbox-device-plugin
vm-vgpu=vgpu-manager,vgpu-device-manager,sandbox-device-plugin
NO_LABEL=container
ENABLE_FLAG=sandboxWorkloads.enabled
EOF
advertise() {
  k patch node "$1" --subresource=status --type=merge \
    -p "{\"status\":{\"capacity\":{\"$2\":\"$3\"},\"allocatable\":{\"$2\":\"$3\"}}}"
  echo "$1 $2 $(k get node "$1" -o "jsonpath={.status.allocatable.${2//./\\.}}")" >> "$ROOT/out/03-resources.txt"
}
: > "$ROOT/out/03-resources.txt"
advertise lab-node-0 nvidia.com/gpu 4
advertise lab-node-1 nvidia.com/GA102GL_A10 2
advertise lab-node-2 nvidia.com/NVIDIA_A10-12Q 4
pod() {
  cat > "$ROOT/k8s/$1" <<EOF
apiVersion: v1
kind: Pod
metadata: {name: $2, namespace: gpu-vm}
spec:
  ${4:-}
  containers:
    - name: cuda
      image: nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04
      resources: {limits: {$3: 1}}
EOF
  k apply -f "$ROOT/k8s/$1"
  k wait pod "$2" -n gpu-vm --for=condition=PodScheduled=${5:-True} --timeout=30s
}
node() { k get pod "$1" -n gpu-vm -o 'jsonpath={.spec.nodeName}'; }
pod pod-container.yaml job-container nvidia.com/gpu
echo "NODE=$(node job-container)" > "$ROOT/out/04-container.txt"
pod pod-passthrough.yaml vmi-passthrough nvidia.com/GA102GL_A10
printf 'NODE=%s\nRESOURCE=nvidia.com/GA102GL_A10\n' "$(node vmi-passthrough)" > "$ROOT/out/05-passthrough.txt"
pod pod-vgpu.yaml vmi-vgpu nvidia.com/NVIDIA_A10-12Q
k get pods -n gpu-vm -o custom-columns=N:.metadata.name,NODE:.spec.nodeName --no-headers | awk '{print $1, $2}' > "$ROOT/out/06-placement.txt"
pod pod-cross.yaml job-cross nvidia.com/gpu "nodeSelector: {$key: vm-passthrough}" False
k get pod job-cross -n gpu-vm -o 'jsonpath=PHASE={.status.phase}{"\n"}NODE=none{"\n"}MESSAGE={.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}' \
  > "$ROOT/out/07-cross.txt"
k get nodes -o json > "$ROOT/out/nodes.json"
sh "$ROOT/../bin/check-config.sh" "$ROOT/out/nodes.json" > "$ROOT/out/consistency.txt"
"""


def second() -> tuple[list[float], list[float]]:
    played, typed = [], []
    with control_plane() as root:
        play(root)
        # The lab's Pods would be adopted by the script, so it gets the same cluster, with the lab's own objects in place.
        script(TYPED, root)
        for _round in range(ROUNDS):
            played.append(seconds(play, root))
            typed.append(seconds(script, TYPED, root))
            print(f"play {played[-1]:.2f} s, script {typed[-1]:.2f} s", flush=True)
    return played, typed


def pools() -> list[dict[str, object]]:
    return [
        {
            "name": f"pool{number}",
            "nodes": [f"pool{number}-[000:{NODES_PER_POOL - 1:03}]"],
            "workload": ("container", "vm-passthrough", "vm-vgpu")[number % 3],
            "resources": {("nvidia.com/gpu", "nvidia.com/GA102GL_A10", "nvidia.com/NVIDIA_A10-12Q")[number % 3]: 4},
        }
        for number in range(POOLS)
    ]


def loop() -> str:
    """A script that creates the nodes in one apply, then labels and patches each."""
    lines = ['k() { "$KUBECTL" "$@"; }', "k apply -f - <<EOF"]
    for pool in pools():
        for number in range(NODES_PER_POOL):
            lines += [
                "---",
                "apiVersion: v1",
                "kind: Node",
                f"metadata: {{name: {pool['name']}-{number:03}, annotations: {{kwok.x-k8s.io/node: fake}}}}",
                "status:",
                "  capacity: {cpu: 32, memory: 256Gi, pods: 110}",
                "  allocatable: {cpu: 32, memory: 256Gi, pods: 110}",
            ]
    lines.append("EOF")
    for pool in pools():
        for number in range(NODES_PER_POOL):
            name = f"{pool['name']}-{number:03}"
            status = json.dumps({"status": {"capacity": pool["resources"], "allocatable": pool["resources"]}})
            lines.append(f"k label node {name} --overwrite nvidia.com/gpu.workload.config={pool['workload']}")
            lines.append(f"k patch node {name} --subresource=status --type=merge -p '{status}'")
    return "\n".join(lines)


def thousand() -> tuple[list[float], list[float]]:
    played, typed = [], []
    declaration = json.dumps({"lab_pools": pools()})
    for _round in range(ROUNDS):
        with control_plane() as root:
            played.append(seconds(play, root, "-e", declaration))
            print(f"play {played[-1]:.2f} s", flush=True)
        with control_plane() as root:
            typed.append(seconds(script, loop(), root))
        print(f"script {typed[-1]:.2f} s", flush=True)
    return played, typed


def main() -> None:
    benchmarks = {"second": second, "thousand": thousand}
    if len(sys.argv) != 2 or sys.argv[1] not in benchmarks:
        sys.exit(__doc__)
    played, typed = (statistics.median(times) for times in benchmarks[sys.argv[1]]())
    print(f"medians of {ROUNDS}: play {played:.2f} s, script {typed:.2f} s, ratio {played / typed:.2f}")


if __name__ == "__main__":
    main()
