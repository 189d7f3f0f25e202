# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the offline checker as fast as a bare json.load, and how do other tools do?

Makes a dump of 5,000 nodes (some 55 MB), then runs in turns: a python3 that only loads it, `sh check-config.sh` with the
profiles lab and operator, and, where they are installed, jq and conftest with the lab's simple rule alone. Prints the
medians, their ratios to the bare load and peak memory, also of a dump with one four-byte character and of one ten times
as large. Exits with 1 if lab takes more than 0.9 or operator more than 1.2 times the load, or either more than 100 MB.

    python tests/benchmarks/check_config.py [rounds, default 5]

conftest: go install github.com/open-policy-agent/conftest@latest
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "roles" / "check" / "files" / "check-config.sh"
NODES = 5000
LIMITS = {"lab": 0.9, "operator": 1.2}
MOST_MEMORY = 100  # MB
# The lab's rule as somebody would write it in jq; conftest has it in lab_rule.rego.
JQ_RULE = r"""
.items[] | select(.kind == "Node") | .metadata.labels["nvidia.com/gpu.workload.config"] as $use | select($use)
| [.status.allocatable | to_entries[] | select(.key | startswith("nvidia.com/")) | select(.value != "0") | .key] as $names
| select(($names | length) != 1 or ($names[0] | if . == "nvidia.com/gpu" then "container"
    elif test("-[0-9]+[A-Z]$") then "vm-vgpu" else "vm-passthrough" end) != $use)
| .metadata.name
"""
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


def write_dump(path, nodes=NODES, extra=""):
    """Write nodes as kubectl does, one by one: a child's peak memory counts what its parent held. extra: a last label."""
    with open(path, "w", encoding="utf-8") as stream:
        stream.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        for number in range(nodes):
            stream.write(",\n" if number else "")
            one = node(number)
            if extra and number == nodes - 1:
                one["metadata"]["annotations"]["note"] = extra
            stream.write(textwrap.indent(json.dumps(one, indent=4, ensure_ascii=False), 8 * " "))
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


def checker(profile, dump):
    return ["sh", str(SCRIPT), "--profile", profile, dump] if profile != "lab" else ["sh", str(SCRIPT), dump]


def commands(dump):
    """Return what is compared, by name."""
    compared = {
        "json.load": ["python3", "-c", "import json, sys; json.load(open(sys.argv[1]))", dump],
        "lab": checker("lab", dump),
        "operator": checker("operator", dump),
    }
    if shutil.which("jq"):
        compared["jq"] = ["jq", "-r", JQ_RULE, dump]
    if shutil.which("conftest"):
        compared["conftest"] = ["conftest", "test", "--policy", str(HERE / "lab_rule.rego"), dump]
    return compared


def main(rounds):
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "nodes.json")
        write_dump(dump)
        compared = commands(dump)
        rows = [{name: timed(command) for name, command in compared.items()} for _turn in range(rounds + 1)][1:]
        medians = {name: statistics.median(row[name] for row in rows) for name in compared}
        print("dump        %.1f MB, %d nodes, median of %d" % (os.path.getsize(dump) / 1e6, NODES, rounds))
        well = True
        for name, seconds in medians.items():
            ratio = seconds / medians["json.load"]
            limit = f" (at most {LIMITS[name]})" if name in LIMITS else ""
            well = well and ratio <= LIMITS.get(name, ratio)
            print(f"{name:11} {seconds:6.3f} s   ratio {ratio:5.2f}   {peak_memory(compared[name]):5.0f} MB{limit}")
        special = {"one four-byte character": (NODES, "\U0001f600"), "ten times as large": (10 * NODES, "")}
        for words, (nodes, extra) in special.items():
            write_dump(dump, nodes, extra)
            for profile in LIMITS:
                memory = peak_memory(checker(profile, dump))
                well = well and memory <= MOST_MEMORY
                print(f"{profile:11} {memory:5.0f} MB on a dump {words} (at most {MOST_MEMORY})")
        return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 5))
