# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every node, however strange, and for every healthy one."""

import json
import random

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import known_operands
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    LABEL,
    NFD,
    PASSTHROUGH,
    VGPU,
    gpu_cluster,
    node,
    operator,
    outcome,
    policy,
    prefixed,
    resource_slice,
)
from hypothesis import given
from hypothesis import strategies as st

N = "nvidia.com/"
WORKLOADS = (CONTAINER, PASSTHROUGH, VGPU)
STATES = ("pending", "rebooting", "success", "failed")
PAUSES = (
    "paused-for-mig-change",
    "paused-for-vgpu-change",
    "paused-for-driver-upgrade",
    "true_paused-for-driver-upgrade",
)
NAMES = (
    *(
        "gpu",
        "gpu.shared",
        "mig-1g.10gb",
        "mig-3g.40gb",
        "mig-1g.5gb.me",
        "mig-2g",
        "mig-1g.10gb.shared",
        "pgpu",
        "nvswitch",
    ),
    *("GA102GL_A10", "2571", "GA100_A100_PCIE_80GB", "NVIDIA_A10-12Q", "A10-4Q", "GRID_T4-1Q", "NVIDIA_A100-1-5CME"),
    *("GA102_HIGH_DEFINITION_AUDIO_CONTROLLER", "hostdev", "gpumem", "vgpu", "UNKNOWN_DEVICE", "GA100_A800-SXM4-80GB"),
    *("TU104GL_Tesla_T4", "GA102GL_A1O", "1080ti-audio", "", "x" * 70, "mig-", "\u0000", "é"),
)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def one_of(*values):
    return st.sampled_from(values) | anything


LABEL_VALUES = {
    LABEL: one_of(*WORKLOADS, "vm-gpu", "", "Container"),
    NFD: one_of("true", "false"),
    "gpu.present": one_of("true", "false"),
    "gpu.count": one_of("8", "2", "many"),
    "gpu.replicas": one_of("0", "1", "4"),
    "gpu.product": one_of("NVIDIA-A100-SXM4-40GB", "Tesla-T4"),
    "mig.capable": one_of("true", "false"),
    "mig.config": one_of("all-disabled", "all-1g.10gb", "all-balanced", "mine", ""),
    "mig.config.state": one_of(*STATES),
    "mig.strategy": one_of("none", "single", "mixed"),
    "mig-1g.10gb.count": one_of("7", "14"),
    "mig-1g.10gb.replicas": one_of("1", "4"),
    "vgpu.config": one_of("default", "A10-4Q", "mine"),
    "vgpu.config.state": one_of(*STATES),
    "vgpu.host-driver-version": one_of("570.1", ""),
    "gpu-driver-upgrade-state": one_of("upgrade-done", "upgrade-failed", "drain-required", "upgrade-required"),
    "gpu.deploy.operands": one_of("false", "False", "true"),
    "gpu.deploy.dra-driver": one_of("true", "false"),
    "gpu.deploy.nvsm": one_of("", "true"),
    **{
        f"gpu.deploy.{operand}": one_of("true", "false", "", "True", "pre-installed", *PAUSES)
        for operand in known_operands()
    },
}
labels = st.fixed_dictionaries({}, optional=LABEL_VALUES).map(prefixed)
quantities = one_of("0", "1", "4", "8", 7, "1500m", "-1", "2k", "1e400")
resources = st.dictionaries(st.sampled_from(NAMES).map(lambda name: N + name), quantities, max_size=4)
nodes = st.builds(
    lambda name, labels, annotations, capacity, allocatable: {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": allocatable},
    },
    st.sampled_from(["gpu-1", "gpu-2", "'; rm -rf ~", "é\n\x1b[31m"]),
    labels,
    st.dictionaries(
        st.sampled_from(sorted(RULE_PAGES)).map(lambda rule: "gpuwl.sandbox/ignore." + rule),
        one_of("because", ""),
        max_size=2,
    ),
    resources | st.none(),
    resources | st.none(),
)
policies = st.builds(
    policy,
    sandbox=st.booleans(),
    default=st.sampled_from(WORKLOADS),
    mode=st.sampled_from(["kubevirt", "kata"]),
    devicePlugin=st.fixed_dictionaries({"enabled": st.booleans()}),
    sandboxDevicePlugin=st.fixed_dictionaries({"enabled": st.booleans()}),
    kataSandboxDevicePlugin=st.sampled_from(
        [{}, {"env": [{"name": "P_GPU_ALIAS", "value": "gpu"}]}, {"enabled": False}]
    ),
    migManager=st.sampled_from([{}, {"enabled": False}, {"config": {"name": "mine"}}]),
    vgpuDeviceManager=st.sampled_from([{}, {"enabled": False}, {"config": {"name": "mine"}}]),
    mig=st.sampled_from([{}, {"strategy": "none"}, {"strategy": "mixed"}]),
)
besides = st.tuples(
    st.lists(policies, max_size=2),
    st.lists(st.sampled_from(["v25.3.4", "v25.10.1", "v26.3.3", "v26.7.0", "v27.1.0"]).map(operator), max_size=1),
    st.lists(st.sampled_from([resource_slice("gpu-1"), resource_slice("gpu-3"), gpu_cluster()]), max_size=2),
).map(lambda groups: [item for group in groups for item in group])


def told(found):
    """What is told but for the nodes' names."""
    groups = ((group.draft, group.kind, group.silenced, len(group.subjects)) for group in found.groups)
    return sorted(groups, key=repr)


def shuffled(pairs):
    items = list(pairs.items())
    random.Random(7).shuffle(items)
    return dict(items)


@given(st.lists(nodes, max_size=3), besides)
def test_no_node_is_too_strange(nodes, beside):
    found = outcome(nodes, beside)
    every = list(found.findings())
    json.dumps(every)
    json.dumps(list(found.silenced()))
    assert 0 <= found.checked <= len(nodes)
    for one in every:
        page = RULE_PAGES[one["rule"]]
        assert one["severity"] in page.severity.split(" or ")
        assert "operator" in page.profiles
        assert one["message"] and one["remedy"] and one["severity"] in SEVERITIES


@given(nodes, besides)
def test_names_order_and_the_labels_of_others_change_nothing(one, beside):
    metadata, status = one["metadata"], one["status"]
    others = {
        "zone": "a",
        "nvidia.com/cuda.driver.major": "570",
        "amd.com/gpu.present": "true",
        "run.ai/fake.gpu": "true",
    }
    changed = {
        **one,
        "metadata": {
            "annotations": shuffled(metadata["annotations"]),
            "labels": shuffled({**others, **metadata["labels"]}),
            # ResourceSlices name nodes, so these two keep theirs.
            "name": metadata["name"] if metadata["name"] == "gpu-1" else "another",
        },
        "status": {
            "allocatable": shuffled({"cpu": "8", "amd.com/gpu": "1", **status["allocatable"]})
            if status["allocatable"]
            else {},
            "capacity": shuffled({"amd.com/gpu": "2", **status["capacity"]}) if status["capacity"] else {},
            "conditions": [],
        },
    }
    assert told(outcome(changed, beside)) == told(outcome(one, beside))


@given(st.lists(nodes, min_size=2, max_size=4), besides)
def test_nodes_are_judged_one_by_one(nodes, beside):
    def of_nodes(found):
        return sorted(repr(one) for one in found.findings() if one["node"])

    together = outcome(nodes, beside)
    assert of_nodes(together) == of_nodes(outcome(nodes[::-1], beside))
    assert of_nodes(together) == sorted(line for one in nodes for line in of_nodes(outcome(one, beside)))


@given(nodes, besides, st.sampled_from(NAMES))
def test_a_name_that_stands_at_0_is_residue_and_changes_nothing(one, beside, name):
    listed = {**(one["status"]["capacity"] or {}), **(one["status"]["allocatable"] or {})}
    if N + name in listed:
        return
    residue = {field: {**(one["status"][field] or {}), N + name: "0"} for field in ("capacity", "allocatable")}
    plain, with_residue = (
        sorted((group.draft.severity, group.draft.rule, group.draft.message) for group in outcome(each, beside).groups)
        for each in (one, {**one, "status": residue})
    )
    assert plain == with_residue


# What a healthy node may carry beside.
HARMLESS_LABELS = {
    "gpu.product": st.sampled_from(["NVIDIA-A10", "Tesla-T4", "NVIDIA-H100-80GB-HBM3"]),
    "gpu.memory": st.just("23028"),
    "gpu.deploy.nvsm": st.sampled_from(["true", "", "paused-for-mig-change"]),
    "gpu-driver-upgrade-state": st.sampled_from(["upgrade-done", "upgrade-required"]),
    "gpu-operator.driver.owner": st.just("gpu-driver"),
    "mig.config": st.just("all-disabled"),
    "mps.capable": st.just("false"),
    "gpu.deploy.client": st.just("true"),
}
HARMLESS_RESOURCES = {
    "hostdev": st.sampled_from(["8", "0"]),
    "mlnxnics": st.just("8"),
    "gpumem": st.just("24576"),
    "GM204GL_TESLA_M6": st.just("0"),
    "NVIDIA_A10-4Q": st.just("0"),
    "mig-2g.20gb": st.just("0"),
    "GA102_HIGH_DEFINITION_AUDIO_CONTROLLER": st.sampled_from(["2", "0"]),
    "my-own-name": st.just("3"),
}
HEALTHY = [
    (CONTAINER, {"gpu": "8"}, {}, "kubevirt"),
    (CONTAINER, {"gpu": "8"}, {"gpu.count": "8"}, "kubevirt"),
    (CONTAINER, {"gpu.shared": "8"}, {"gpu.count": "2", "gpu.replicas": "4"}, "kubevirt"),
    (
        CONTAINER,
        {"mig-1g.10gb": "56"},
        {"mig.strategy": "mixed", "mig.capable": "true", "gpu.deploy.mig-manager": "true"},
        "kubevirt",
    ),
    (CONTAINER, {"gpu": "8"}, {"gpu.deploy.driver": "pre-installed"}, "kubevirt"),
    (PASSTHROUGH, {"GA102GL_A10": "2"}, {}, "kubevirt"),
    (PASSTHROUGH, {"2571": "1", "GA100_A100_PCIE_80GB": "1"}, {}, "kubevirt"),
    (PASSTHROUGH, {"pgpu": "8"}, {"gpu.count": "8"}, "kata"),
    (VGPU, {"NVIDIA_A10-12Q": "4"}, {}, "kubevirt"),
    (VGPU, {"NVIDIA_A10-4Q": "12"}, {"vgpu.config": "A10-4Q", "vgpu.config.state": "success"}, "kubevirt"),
    (
        VGPU,
        {"NVIDIA_A10-4Q": "3", "NVIDIA_A10-6Q": "2"},
        {"vgpu.config": "mine", "vgpu.config.state": "success"},
        "kubevirt",
    ),
]


@given(
    st.sampled_from(HEALTHY),
    st.fixed_dictionaries({}, optional=HARMLESS_LABELS),
    st.fixed_dictionaries({}, optional=HARMLESS_RESOURCES),
    st.sampled_from(["26.3.3", "26.7.0", "27.1.0"]),
    st.sampled_from(WORKLOADS),
    st.sampled_from(["all", "version", "policy", "nothing"]),
)
def test_a_healthy_node_has_neither_error_nor_warning(healthy, more_labels, more_resources, version, default, known):
    workload, offered, own, mode = healthy
    if "mig.strategy" in own:
        more_labels = {key: value for key, value in more_labels.items() if key != "mig.config"}
    one = node(workload, {**more_resources, **offered}, labels={**more_labels, **own}, version=version, mode=mode)
    beside = [policy(default=default, mode=mode)] if known in ("all", "policy") else []
    beside += [operator("v" + version)] if known in ("all", "version") else []
    found = outcome(one, beside)
    assert [group.draft for group in found.groups if group.draft.severity != "info"] == []
    assert found.checked == 1
    assert found.exit_code() == found.exit_code("warning") == 0
