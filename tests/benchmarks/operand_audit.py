# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of operands against fetching the same lists, on a cluster of its own with 1,000 KWOK nodes and six DaemonSets.

python tests/benchmarks/operand_audit.py [nodes]     at most twice as long; prints each round, the medians and their ratio

Fetching is what has to be done in any case: Nodes, DaemonSets and Pods as JSON in pages of 500 over one connection, each page parsed, as its
continue token is in it, and not kept; in a process of its own with nothing but the standard library. Its bytes alone, unparsed, are printed as
well. The audit is the module in a process of its own as Ansible runs it on the target: start of Python, imports, reading its options, the
connection, the lists, the judgement, the result. What ansible-playbook adds around every module is in neither. Of the audit the start alone,
Python and imports, is printed as well.

Run with .venv's Python, on a machine that is otherwise idle. The cluster is removed at the end.
"""

from __future__ import annotations

import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import conftest as control_plane  # noqa: E402 - the cluster of the tests

ROUNDS = 3
AT_MOST = 2.0
DEPLOY = "nvidia.com/gpu.deploy."
OPERANDS = (
    "driver",
    "container-toolkit",
    "device-plugin",
    "gpu-feature-discovery",
    "dcgm-exporter",
    "operator-validator",
)
MODULE = "ansible_collections.gpuwl.sandbox.plugins.modules.operand_audit"

# The plainest way to have the lists: what a shell script would do with curl.
FETCH = r"""
import http.client, json, re, ssl, sys
how, host, port, certificate, key, authority = sys.argv[1:]
context = ssl.create_default_context(cafile=authority) if authority else None
if certificate:
    context.load_cert_chain(certificate, key)
connection = http.client.HTTPSConnection(host, int(port), context=context) if context else http.client.HTTPConnection(host, int(port))
size = 0
for path in ("/apis/apps/v1/daemonsets", "/api/v1/nodes", "/api/v1/pods"):
    more = ""
    while True:
        connection.request("GET", f"{path}?limit=500" + (f"&continue={more}" if more else ""), headers={"Accept": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        size += len(text)
        if how == "parsed":
            more = json.loads(text)["metadata"].get("continue")
        else:
            found = re.search(rb'"continue":"([^"]+)"', text[:500])
            more = found[1].decode() if found else ""
        if not more:
            break
print(size)
"""


def objects(nodes: int) -> list[dict[str, object]]:
    """Nodes as a GPU cluster has them, and a DaemonSet per operand."""
    labels = {DEPLOY + operand: "true" for operand in OPERANDS}
    labels |= {"nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-10de.present": "true"}
    labels |= {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{number}": "true" for number in range(40)}
    quantities = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    made: list[dict[str, object]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"gpu-{number:04}", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": quantities, "allocatable": quantities},
        }
        for number in range(nodes)
    ]
    for operand in OPERANDS:
        container = {"name": "main", "image": f"nvcr.io/nvidia/{operand}:v1"}
        template = {
            "metadata": {"labels": {"app": operand}},
            "spec": {"nodeSelector": {DEPLOY + operand: "true"}, "containers": [container]},
        }
        made.append(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": operand, "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": {"app": operand}},
                    "template": template,
                    "updateStrategy": {"type": "RollingUpdate"},
                },
            }
        )
    return made


def fill(cluster: control_plane.Cluster, nodes: int) -> None:
    cluster.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects(nodes)})
    )
    began = time.monotonic()
    while True:
        text = cluster.kubectl("get", "daemonsets", "-o", "jsonpath={.items[*].status.numberReady}")
        if text.split() == [str(nodes)] * len(OPERANDS):
            return
        if time.monotonic() - began > 900:
            sys.exit(f"after 15 minutes the DaemonSets have {text} Pods ready, expected {nodes} each")
        time.sleep(2)


def fetch_arguments(cluster: control_plane.Cluster) -> list[str]:
    """Where and as whom to fetch, for a process that reads no kubeconfig."""
    made = yaml.safe_load(cluster.kubeconfig.read_text())
    server, user = made["clusters"][0]["cluster"], made["users"][0]["user"]
    address = server["server"].partition("://")[2].rstrip("/").partition(":")
    files = []
    for where, name in ((user, "client-certificate"), (user, "client-key"), (server, "certificate-authority")):
        path = cluster.folder / f"{name}.pem"
        if f"{name}-data" in where:
            path.write_bytes(base64.b64decode(where[f"{name}-data"]))
        files.append(str(path) if path.exists() else str(where.get(name) or ""))
    return [address[0], address[2], *files]


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    began = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took, done.stdout


def measure(cluster: control_plane.Cluster, nodes: int) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".collections")}
    arguments = cluster.folder / "arguments.json"
    options = {"kubeconfig": str(cluster.kubeconfig), "_ansible_check_mode": False}
    arguments.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": options}))
    audit = [sys.executable, "-m", MODULE, str(arguments)]
    where = fetch_arguments(cluster)
    fetch, unparsed = ([sys.executable, "-c", FETCH, how, *where] for how in ("parsed", "bytes"))
    start = [sys.executable, "-c", f"import {MODULE}"]
    seconds(audit, environment)  # so that bytecode and kubernetes.core's file of what the server knows are there
    rounds: dict[str, list[float]] = {"fetch": [], "audit": [], "start": [], "bytes": []}
    for _round in range(ROUNDS):
        took, size = seconds(fetch, environment)
        rounds["fetch"].append(took)
        took, output = seconds(audit, environment)
        rounds["audit"].append(took)
        rounds["start"].append(seconds(start, environment)[0])
        rounds["bytes"].append(seconds(unparsed, environment)[0])
        result = json.loads(output)
        assert len(result["nodes"]) == nodes
        assert all(len(node["running"]) == len(OPERANDS) for node in result["nodes"])
        assert result["findings"] == []
        times = ", ".join(f"{name} {values[-1]:.2f} s" for name, values in rounds.items())
        print(f"{times} ({int(size) / 1e6:.1f} MB of JSON)", flush=True)
    fetched, audited, started, unparsed_took = (statistics.median(values) for values in rounds.values())
    print(f"medians of {ROUNDS}: fetch {fetched:.2f} s, audit {audited:.2f} s, of it {started:.2f} s start")
    print(
        f"the bytes alone {unparsed_took:.2f} s, of which the audit takes {audited / unparsed_took:.2f} times as long"
    )
    print(f"ratio {audited / fetched:.2f}, at most {AT_MOST}")
    return audited / fetched


def hurry() -> None:
    """Let the controllers write as fast as they can: by default they make 20 Pods a second."""
    fast = '{{key: kube-api-qps, value: "2000"}}, {{key: kube-api-burst, value: "4000"}}'
    election = '{{key: leader-elect, value: "false"}}'
    assert election in control_plane.KWOKCTL_CONFIGURATION
    control_plane.KWOKCTL_CONFIGURATION = control_plane.KWOKCTL_CONFIGURATION.replace(election, f"{election}, {fast}")


def main() -> int:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    folder = Path(tempfile.mkdtemp(prefix="gpuwl-benchmark-")).resolve()
    cluster = control_plane.Cluster(folder, control_plane.binaries())
    hurry()
    try:
        cluster.create()
        fill(cluster, nodes)
        return int(measure(cluster, nodes) > AT_MOST)
    finally:
        cluster.destroy()


if __name__ == "__main__":
    sys.exit(main())
