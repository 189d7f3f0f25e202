# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that the offline checker proposes, run on a cluster: the finding is gone from the next dump."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import AUDIT, RULE_PAGES

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "roles" / "check" / "files" / "check-config.sh"

N = "nvidia.com/"
WORKLOAD = N + "gpu.workload.config"
CONTAINER_OPERANDS = (
    "driver",
    "container-toolkit",
    "device-plugin",
    "gpu-feature-discovery",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
)
PASSTHROUGH_OPERANDS = ("sandbox-device-plugin", "sandbox-validator", "vfio-manager")
VGPU_OPERANDS = ("sandbox-device-plugin", "sandbox-validator", "vgpu-manager", "vgpu-device-manager")
SANDBOX = {
    "sandboxWorkloads": {"enabled": True},
    "sandboxDevicePlugin": {"enabled": True},
    "vgpuManager": {"enabled": True},
    "vgpuDeviceManager": {"enabled": True},
}

# Rules whose remedy does not change the cluster, or changes what this cluster has no program for.
READ_ONLY = {
    "several-resources": "of the profile lab, whose remedies are words",
    "invalid-resource-quantity": "the API server takes no such quantity, so a cluster never has one",
    "no-resource": "shows the device plugin's Pod; only a plugin can register devices",
    "none-allocatable": "shows the device plugin's Pod; only a plugin can register devices",
    "unhealthy-device": "shows the device plugin's Pod; only a plugin can register devices",
    "unknown-resource": "the name is in another program's configuration",
    "companion-resource": "there is nothing to do",
    "sharing-not-applied": "shows the device plugin's Pod",
    "count-mismatch": "shows the device plugin's Pod",
    "mig-quantity-mismatch": "shows the device plugin's Pod",
    "vgpu-quantity-mismatch": "shows the vGPU device manager's Pod",
    "vgpu-change-pending": "there is nothing to do but to wait",
    "vgpu-change-failed": "shows the vGPU device manager's Pod, whose log has the reason",
    "mig-change-pending": "there is nothing to do but to wait",
    "mig-change-failed": "shows the MIG manager's Pod, whose log has the reason",
    "driver-upgrade-failed": "shows the driver's Pod, whose log has the reason",
    "driver-upgrade-pending": "there is nothing to do but to wait",
    "dra-node": "there is nothing to do",
}


def case(labels, resources, policy=None, operands=(), capacity=None, objects=(), **more):
    """What a cluster looks like that has a finding; keys without a prefix are nvidia.com's."""
    every = {"gpu.present": "true", **{f"gpu.deploy.{operand}": "true" for operand in operands}, **labels}
    return {
        "labels": {key if "/" in key else N + key: value for key, value in every.items() if value is not None},
        "allocatable": {N + name: value for name, value in resources.items()},
        "capacity": {N + name: value for name, value in (capacity or resources).items()},
        "policy": policy,
        "objects": objects,
        **more,
    }


GPU = {"gpu": "4"}
A10 = {"GA102GL_A10": "2"}
VGPU = {"NVIDIA_A10-12Q": "4"}
LABEL = "gpu.workload.config"
CASES = {
    "unknown-workload-label": case({LABEL: "vm-gpu"}, VGPU, operands=VGPU_OPERANDS),
    "wrong-resource": case({LABEL: "vm-passthrough"}, GPU, operands=CONTAINER_OPERANDS),
    "several-kinds": case({LABEL: "container"}, {**GPU, **VGPU}, operands=CONTAINER_OPERANDS),
    "sandbox-disabled": case({LABEL: "vm-passthrough"}, A10, {"sandboxWorkloads": {"enabled": False}}),
    "gpu-not-present": case({LABEL: "container", "gpu.present": "false"}, {}),
    "operands-disabled": case({LABEL: "container", "gpu.deploy.operands": "false"}, {}),
    "workload-by-default": case({}, GPU, SANDBOX, CONTAINER_OPERANDS),
    "default-uncertain": case(
        {},
        A10,
        {**SANDBOX, "sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}},
        PASSTHROUGH_OPERANDS,
    ),
    "left-over-resource": case(
        {LABEL: "vm-passthrough"}, {**A10, "gpu": "0"}, operands=PASSTHROUGH_OPERANDS, capacity={**A10, **GPU}
    ),
    "plugin-of-other-mode": case({LABEL: "vm-passthrough"}, {"pgpu": "2"}, SANDBOX, PASSTHROUGH_OPERANDS),
    "plugin-disabled": case(
        {LABEL: "vm-passthrough"}, {}, {**SANDBOX, "sandboxDevicePlugin": {"enabled": False}}, PASSTHROUGH_OPERANDS
    ),
    "operand-off": case({LABEL: "container", "gpu.deploy.dcgm": "false"}, GPU, operands=CONTAINER_OPERANDS),
    "operand-paused": case(
        {LABEL: "container", "gpu.deploy.dcgm": "paused-for-mig-change"}, GPU, operands=CONTAINER_OPERANDS
    ),
    "operand-blocked": case(
        {LABEL: "container", "mig.capable": "true", "gpu.deploy.mig-manager": ""}, GPU, operands=CONTAINER_OPERANDS
    ),
    "operand-label-invalid": case({LABEL: "container", "gpu.deploy.dcgm": "True"}, GPU, operands=CONTAINER_OPERANDS),
    "deploy-label-missing": case({LABEL: "container"}, GPU, operands=CONTAINER_OPERANDS[:-2]),
    "operator-behind": case({LABEL: "vm-vgpu"}, VGPU, operands=VGPU_OPERANDS + CONTAINER_OPERANDS[:3]),
    "host-driver": case({LABEL: "vm-vgpu", "gpu.deploy.driver": "pre-installed"}, VGPU, operands=VGPU_OPERANDS),
    "vgpu-config-mismatch": case({LABEL: "vm-vgpu", "vgpu.config": "A10-4Q"}, VGPU, operands=VGPU_OPERANDS),
    "vgpu-config-unknown": case({LABEL: "vm-vgpu", "vgpu.config": "halves"}, VGPU, operands=VGPU_OPERANDS),
    "mig-strategy-mismatch": case(
        {LABEL: "container"}, {"mig-1g.10gb": "7"}, {**SANDBOX, "mig": {"strategy": "single"}}, CONTAINER_OPERANDS
    ),
    "mig-config-mismatch": case(
        {LABEL: "container", "mig.config": "all-1g.10gb", "mig.config.state": "success"},
        {"mig-3g.40gb": "2"},
        {**SANDBOX, "mig": {"strategy": "mixed"}},
        (*CONTAINER_OPERANDS, "mig-manager"),
    ),
    "mig-layout-not-single": case(
        {LABEL: "container", "mig.config": "all-balanced"},
        {},
        {**SANDBOX, "mig": {"strategy": "single"}},
        (*CONTAINER_OPERANDS, "mig-manager"),
    ),
    "mig-config-without-manager": case({LABEL: "container", "mig.config": "mine"}, GPU, operands=CONTAINER_OPERANDS),
    "dra-and-plugin": case({LABEL: "container", "gpu.deploy.dra-driver": "true"}, GPU),
    "second-cluster-policy": case(
        {LABEL: "container"}, GPU, SANDBOX, CONTAINER_OPERANDS, objects=[("ClusterPolicy", "other")]
    ),
    "conflicting-gpu-cluster": case(
        {LABEL: "container"}, GPU, SANDBOX, CONTAINER_OPERANDS, objects=[("GPUCluster", "gpu-cluster")]
    ),
    "ignore-unknown-rule": case(
        {LABEL: "container"}, GPU, operands=CONTAINER_OPERANDS, annotations={"gpuwl.sandbox/ignore.typo": "because"}
    ),
    "ignore-without-reason": case(
        {LABEL: "container"}, GPU, operands=CONTAINER_OPERANDS, annotations={"gpuwl.sandbox/ignore.count-mismatch": ""}
    ),
}


@pytest.fixture(scope="module")
def operator_kinds(cluster):
    """The two kinds of the operator, without the operator; the fields that are not read are kept as they are."""
    kinds = (("ClusterPolicy", "clusterpolicies", "v1"), ("GPUCluster", "gpuclusters", "v1alpha1"))
    for kind, plural, version in kinds:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        one = {
            "name": version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.nvidia.com"},
            "spec": {"group": "nvidia.com", "scope": "Cluster", "names": names, "versions": [one]},
        }
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(crd))
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{plural}.nvidia.com")
    yield
    for _kind, plural, _version in kinds:
        cluster.kubectl("delete", "crd", f"{plural}.nvidia.com")


@pytest.fixture
def apply(cluster, operator_kinds):
    """Make a case's objects; afterwards none of them is left."""
    made = []

    def create(item):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(item))
        made.append(f"{item['kind']}/{item['metadata']['name']}".lower())

    def make(name, wanted):
        status = {"capacity": wanted["capacity"], "allocatable": wanted["allocatable"]}
        metadata = {"name": name, "labels": wanted["labels"], "annotations": wanted.get("annotations", {})}
        create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        others = [("ClusterPolicy", "cluster-policy", wanted["policy"])] if wanted["policy"] else []
        for kind, other, spec in [*others, *((*one, {}) for one in wanted["objects"])]:
            version = "nvidia.com/" + ("v1" if kind == "ClusterPolicy" else "v1alpha1")
            create({"apiVersion": version, "kind": kind, "metadata": {"name": other}, "spec": spec})
        if wanted["policy"]:
            ready = json.dumps({"status": {"state": "ready"}})
            cluster.kubectl(
                "patch", "clusterpolicy", "cluster-policy", "--subresource=status", "--type=merge", "-p", ready
            )

    yield make
    for one in reversed(made):
        cluster.kubectl("delete", one, "--ignore-not-found", "--wait=true")


def findings(cluster, name, folder):
    """What the script says about a dump of the cluster as a customer would make it."""
    dump = cluster.kubectl("get", "nodes,clusterpolicies,gpuclusters", "-o", "yaml")
    items = [
        item for item in yaml.safe_load(dump)["items"] if item["kind"] != "Node" or item["metadata"]["name"] == name
    ]
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "items": items, "kind": "List"}))
    command = [
        "sh",
        str(SCRIPT),
        "--profile",
        "operator",
        "--operator-version",
        "26.7.0",
        "--format",
        "json",
        str(path),
    ]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {found["rule"]: found for found in json.loads(done.stdout)["findings"]}


def run(cluster, remedy):
    """Run a proposed command as somebody would who copies it into a shell."""
    folder = str(cluster.kubectl_path.parent)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        ["bash", "-c", remedy], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{remedy}: {done.stderr}"


def test_every_rule_is_tried_or_changes_nothing():
    # Those of the audit of operands are tried with its module.
    of_profiles = {rule for rule, page in RULE_PAGES.items() if page.profiles != AUDIT}
    assert CASES.keys() | READ_ONLY.keys() == of_profiles
    assert not CASES.keys() & READ_ONLY.keys()


@pytest.mark.parametrize("rule", CASES)
def test_the_remedy_clears_the_finding(cluster, apply, tmp_path, rule):
    name = f"remedy-{rule}"
    apply(name, CASES[rule])
    before = findings(cluster, name, tmp_path)
    assert rule in before
    # Some say first when, or what else, to do.
    run(cluster, before[rule]["remedy"].rpartition(": ")[2])
    after = findings(cluster, name, tmp_path)
    assert rule not in after
    # No plugin is here to register devices where the remedy lets it run again.
    graver = {found["rule"] for found in after.values() if found["severity"] == "error"} - {"no-resource"}
    assert graver <= before.keys()


def test_one_command_for_many_nodes(cluster, operator_kinds, tmp_path):
    names = [f"many-{number:03d}" for number in range(1, 13)]
    labels = CASES["wrong-resource"]["labels"]
    status = {"capacity": {N + "gpu": "4"}, "allocatable": {N + "gpu": "4"}}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": one, "labels": labels}, "status": status}
        for one in names
    ]
    cluster.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    try:
        path = tmp_path / "dump.json"
        path.write_text(cluster.kubectl("get", "nodes", *names, "-o", "json"))
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = ["sh", str(SCRIPT), "--profile", "operator", str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert "12 nodes: many-[001:012]" in done.stdout
        (remedy,) = [line.partition("do ")[2].strip() for line in done.stdout.splitlines() if line.startswith("  do ")][
            :1
        ]
        run(cluster, remedy)
        listed = json.loads(cluster.kubectl("get", "nodes", *names, "-o", "json"))["items"]
        assert {one["metadata"]["labels"][WORKLOAD] for one in listed} == {"container"}
    finally:
        cluster.kubectl("delete", "nodes", *names)
