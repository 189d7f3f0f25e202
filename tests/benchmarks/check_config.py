# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the offline checker as fast as a bare json.load?

Makes a dump of 5,000 nodes (some 50 MB), then runs `sh check-config.sh` on it and a
python3 that only loads it, in turns. Prints both medians, their ratio and the checker's
peak memory; exits with 1 if the ratio is above 1.

    python tests/benchmarks/check_config.py [rounds, default 5]
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "roles" / "check" / "files" / "check-config.sh"
NODES = 5000
LIMIT = 1.0
POOLS = (
    ("container", "nvidia.com/gpu", 4),
    ("vm-passthrough", "nvidia.com/GA102GL_A10", 2),
    ("vm-vgpu", "nvidia.com/NVIDIA_A10-12Q", 4),
)


def node(number):
    """Return a node with what a kubelet, the discovery and the operator write into one."""
    workload, resource, quantity = POOLS[number % len(POOLS)]
    name = "edge-%04d" % number
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.workload.config": workload}
    labels.update({"feature.node.kubernetes.io/cpu-cpuid.FEATURE%02d" % flag: "true" for flag in range(40)})
    resources = {
        "cpu": "64",
        "memory": "527876516Ki",
        "pods": "110",
        "ephemeral-storage": "921498Mi",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        resource: str(quantity),
    }
    conditions = [
        {
            "lastHeartbeatTime": "2025-03-01T10:00:00Z",
            "lastTransitionTime": "2025-02-01T10:00:00Z",
            "message": f"kubelet has sufficient {kind} available",
            "reason": "KubeletHasSufficient" + kind,
            "status": "False",
            "type": kind,
        }
        for kind in ("Memory", "Disk", "PID", "Ready")
    ]
    images = [
        {
            "names": [
                "registry.example.com/team/image-%02d@sha256:%064x" % (image, image * 7**60 % 2**256),
                "registry.example.com/team/image-%02d:1.%d.0" % (image, image),
            ],
            "sizeBytes": 10**8 + image,
        }
        for image in range(12)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            "creationTimestamp": "2025-01-01T10:00:00Z",
            "labels": labels,
            "name": name,
            "resourceVersion": str(10**6 + number),
            "uid": f"{number:08x}-0000-4000-8000-000000000000",
        },
        "spec": {"podCIDR": "10.%d.%d.0/24" % (number // 256, number % 256), "providerID": "example://" + name},
        "status": {
            "addresses": [{"address": name, "type": "Hostname"}],
            "allocatable": resources,
            "capacity": resources,
            "conditions": conditions,
            "images": images,
            "nodeInfo": {"architecture": "amd64", "kubeletVersion": "v1.37.2", "operatingSystem": "linux"},
        },
    }


def write_dump(path):
    """Write the nodes as kubectl does, one by one: a child's peak memory counts what its parent held."""
    with open(path, "w", encoding="utf-8") as stream:
        stream.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        for number in range(NODES):
            stream.write(",\n" if number else "")
            stream.write(textwrap.indent(json.dumps(node(number), indent=4), 8 * " "))
        stream.write('\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')


def timed(command):
    """Run a command; return its seconds."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def peak_memory(command):
    """Run a command; return its peak resident memory in MB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    usage = os.wait4(process.pid, 0)[2]
    return usage.ru_maxrss / 1024


def main(rounds):
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "nodes.json")
        write_dump(dump)
        checker = ["sh", str(SCRIPT), dump]
        loader = ["python3", "-c", "import json, sys; json.load(open(sys.argv[1]))", dump]
        times = [(timed(checker), timed(loader)) for turn in range(rounds + 1)][1:]
        ours, theirs = (statistics.median(column) for column in zip(*times))
        print("dump              %6.1f MB, %d nodes" % (os.path.getsize(dump) / 1e6, NODES))
        print("check-config.sh   %6.3f s  (median of %d), peak memory %.0f MB" % (ours, rounds, peak_memory(checker)))
        print(f"json.load         {theirs:6.3f} s, peak memory {peak_memory(loader):.0f} MB")
        print(f"ratio             {ours / theirs:6.2f}    (at most {LIMIT:.2f})")
        return 0 if ours <= LIMIT * theirs else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 5))
