# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters of every kind: without an operator, made up, with DRA; and what is said of what was read and assumed."""

import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_report import assumed, not_judged, told
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    NFD,
    NOTHING_BESIDE,
    OFFERED,
    PASSTHROUGH,
    SANDBOX_OFF,
    SANDBOX_ON,
    VGPU,
    bare,
    findings,
    gpu_cluster,
    node,
    operator,
    outcome,
    policy,
    resource_slice,
    verdict,
)

WORKLOADS = (CONTAINER, PASSTHROUGH, VGPU)
NO_GPU = {NFD: ..., "gpu.present": ...}


def beside(version="v26.7.0", **more):
    return (policy(**more), operator(version))


def test_nodes_without_a_gpu_are_not_judged():
    plain = bare(None, {}, labels=NO_GPU)
    assert verdict(plain) == []
    assert outcome(plain).checked == 0
    assert verdict(bare(None, {"hostdev": "8"}, labels=NO_GPU)) == []
    assert outcome(bare(None, {"hostdev": "8"}, labels=NO_GPU)).checked == 0
    # A network card's name is an administrator's choice; only what is near to a GPU's name is told.
    assert verdict(bare(None, {"rail0": "8"}, labels=NO_GPU)) == []
    assert verdict(bare(None, {"TU104GL_Tesla_T4": "1"}, labels=NO_GPU)) == ["info unknown-resource"]


def test_gpu_present_is_derived_from_what_nfd_sees():
    # By hand, and about to be set back.
    assert verdict(node(labels={"gpu.present": "false"})) == []
    assert verdict(node(labels={"gpu.present": ...})) == []
    # Without Node Feature Discovery the operator's own label counts.
    assert verdict(node(labels={NFD: ...})) == []
    assert verdict(node(CONTAINER, {}, deployed=None, labels={NFD: ..., "gpu.present": "True"})) == [
        "warning gpu-not-present"
    ]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_made_up_nodes_without_gpu_present_are_compared_all_the_same(workload):
    lab = node(workload, deployed=None, labels=NO_GPU)
    assert verdict(lab, NOTHING_BESIDE) == ["info gpu-not-present"]
    for around in (SANDBOX_ON, SANDBOX_OFF):
        assert verdict(lab, around) == ["info gpu-not-present"]
    other = OFFERED[VGPU if workload != VGPU else CONTAINER]
    assert set(verdict(node(workload, other, deployed=None, labels=NO_GPU), ())) == {
        "error wrong-resource",
        "info gpu-not-present",
    }


def test_clusters_without_an_operator_are_judged_without_noise():
    gfd = {"gpu.count": "8", "gpu.product": "NVIDIA-A100-SXM4-40GB", "mig.capable": "true", "mig.strategy": "mixed"}
    for labels in ({}, gfd, {**gfd, NFD: ...}, {**gfd, "gpu.present": ...}):
        assert verdict(bare(None, {"gpu": "8"}, labels=labels), NOTHING_BESIDE) == []
        assert verdict(bare(None, {"mig-1g.5gb": "56", "gpu": "0"}, labels=labels), NOTHING_BESIDE) == []
        assert verdict(bare(CONTAINER, {"gpu": "8"}, labels=labels), NOTHING_BESIDE)[:1] in (
            [],
            ["info gpu-not-present"],
        )
    # Nothing tells that somebody wants a plugin here.
    assert verdict(bare(None, {}), NOTHING_BESIDE) == []
    # A plugin of another project offers each GPU ten times.
    assert verdict(bare(None, {"gpu": "80", "gpumem": "327680"}, labels=gfd), NOTHING_BESIDE) == []
    assert verdict(bare(None, {"gpu": "80"}, labels=gfd), NOTHING_BESIDE) == []
    # Faults that need no operator are told.
    assert verdict(bare(None, {"gpu": "7"}, {"gpu": "8"}, labels=gfd), NOTHING_BESIDE) == ["warning unhealthy-device"]
    assert verdict(bare(None, {"mig-1g.5gb": "7"}, labels={"mig.strategy": "single"}), ()) == [
        "error mig-strategy-mismatch"
    ]
    # KubeVirt's own plugin: names that an administrator chose.
    assert verdict(bare(None, {"TU104GL_Tesla_T4": "1"}), NOTHING_BESIDE) == ["info unknown-resource"]
    assert verdict(bare(PASSTHROUGH, {"GA102GL_A10": "1"}), NOTHING_BESIDE) == []
    # The fake GPU Operator sets two deploy labels of the real one's.
    fake = {
        **gfd,
        "run.ai/simulated-gpu-node-pool": "default",
        "gpu.deploy.dcgm-exporter": "true",
        "gpu.deploy.device-plugin": "true",
    }
    for around in (NOTHING_BESIDE, SANDBOX_OFF):
        assert verdict(bare(None, {"gpu": "8"}, labels={**fake, NFD: ...}), around) == []
    # What a key that no operator knows says is nobody's business.
    assert verdict(bare(None, {"gpu": "8"}, labels={"gpu.deploy.nvsm": ""}), NOTHING_BESIDE) == []


def test_dra_nodes_are_recognised_and_not_judged():
    dra = {
        f"gpu.deploy.{one}": "true"
        for one in ("driver", "dra-driver", "dra-validator", "dcgm-dra", "dcgm-exporter-dra")
    }
    one = node(None, {"gpu": "0"}, deployed=None, labels=dra)
    for around in (
        NOTHING_BESIDE,
        (gpu_cluster(),),
        (resource_slice(),),
        (gpu_cluster(), resource_slice(), operator()),
    ):
        assert verdict(one, around) == ["info dra-node"]
        assert outcome(one, around).checked == 0
    plain = node(CONTAINER, {}, deployed=None)
    assert verdict(plain, (resource_slice(),)) == ["info dra-node"]
    assert verdict(plain, (gpu_cluster(),)) == ["info dra-node"]
    # The driver for ComputeDomains gives out no GPUs, and another node's slices say nothing of this one.
    for slices in (resource_slice(driver="compute-domain.nvidia.com"), resource_slice("gpu-2")):
        assert verdict(plain, (slices,)) == ["error no-resource"]
    assert verdict(node(), (resource_slice("gpu-2"),)) == []
    # Nodes of both kinds in one cluster.
    both = [node(), node(CONTAINER, {}, name="gpu-2")]
    assert verdict(both, (*SANDBOX_ON, resource_slice("gpu-2"))) == ["info dra-node"]


def test_a_policy_and_a_gpu_cluster_exclude_each_other():
    found = findings(node(), (*SANDBOX_ON, gpu_cluster()))
    assert [(one["rule"], one["subject"]["kind"], one["node"]) for one in found] == [
        ("conflicting-gpu-cluster", "GPUCluster", None)
    ]
    # With both, the nodes stay as they were, so they are judged.
    assert "error no-resource" in verdict(node(CONTAINER, {}), (*SANDBOX_ON, gpu_cluster()))


@pytest.mark.parametrize(
    "version, words",
    [
        ("v27.1.0", "operator v27.1.0 (Deployment gpu-operator), judged as 26.7, the nearest known"),
        ("v25.3.4", "operator v25.3.4 (Deployment gpu-operator), judged as 25.10, the nearest known"),
        ("v26.7.0", "operator v26.7.0 (Deployment gpu-operator)"),
        ("v25.10.1", "operator v25.10.1 (Deployment gpu-operator)"),
    ],
)
def test_what_was_read_and_assumed_is_said(version, words):
    found = outcome(node(), beside(version))
    assert words in told(found.clusters)
    assert assumed(found.clusters) == []
    assert [one["kind"] for one in not_judged(found)] == ["ResourceSlice"]
    found = outcome(node(), NOTHING_BESIDE)
    assert [words.split()[0] for words in assumed(found.clusters)] == ["sandboxWorkloads.enabled", "operator"]
    assert {one["kind"] for one in not_judged(found)} == {"ClusterPolicy", "Deployment", "ResourceSlice"}


CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
DEDICATED = {"key": "dedicated", "value": "ml", "effect": "NoExecute"}
EXISTS = {"key": "dedicated", "operator": "Exists"}
EQUAL = {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoExecute"}


@pytest.mark.parametrize(
    "taint, tolerations, kept_out",
    [
        (CONTROL_PLANE, None, True),
        (DEDICATED, None, True),
        (DEDICATED, [EXISTS], False),
        (DEDICATED, [EQUAL], False),
        (DEDICATED, [{**EQUAL, "value": "web"}], True),
        (DEDICATED, [{"operator": "Exists"}], False),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, None, False),
        ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, [], False),
        # A list replaces the operator's own, and its own is for NoSchedule alone.
        ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, [EXISTS], True),
        ({"key": "nvidia.com/gpu", "effect": "NoExecute"}, None, True),
        ({"key": "dedicated", "effect": "PreferNoSchedule"}, None, False),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, None, False),
        ({"effect": "NoSchedule", "key": None}, [{"operator": "Exists"}], False),
    ],
)
def test_a_taint_tells_why_a_node_offers_nothing(taint, tolerations, kept_out):
    around = beside(daemonsets={"tolerations": tolerations})
    empty = node(CONTAINER, {})
    empty["spec"]["taints"] = [taint]
    (found,) = findings(empty, around)
    assert found["rule"] == "no-resource"
    assert ("a taint keeps" in found["message"]) == kept_out
    assert ("spec.taints" in found["evidence"]) == kept_out
    if kept_out:
        patch = json.loads(found["remedy"].partition(" -p ")[2].strip("'"))
        if isinstance(patch, list):
            assert {one["op"] + one["path"] for one in patch} == {"add/spec/daemonsets/tolerations/-"}
            patch = {"spec": {"daemonsets": {"tolerations": [*tolerations, *(one["value"] for one in patch)]}}}
        assert verdict(empty, beside(**patch["spec"])) == ["error no-resource"]
        assert "a taint keeps" not in findings(empty, beside(**patch["spec"]))[0]["message"]
        unknown = findings(empty, NOTHING_BESIDE)[0]["message"]
        assert ("unless the ClusterPolicy" in unknown) == (tolerations is None or taint is DEDICATED)
    # Pods that ran before the taint came stay.
    busy = node()
    busy["spec"]["taints"] = [taint]
    assert verdict(busy, around) == []
