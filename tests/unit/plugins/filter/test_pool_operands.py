# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator would make of declared pools."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.filter.pools import FilterModule

pool_operands = FilterModule().filters()["pool_operands"]
table = FilterModule().filters()["pool_operands_table"]

SANDBOX = {"sandboxWorkloads": {"enabled": True}, "dcgm": {"enabled": False}, "vfioManager": {"enabled": True}}
POOLS = [
    {"name": "training", "nodes": ["t-[0:3]"], "workload": "container", "resources": {"nvidia.com/gpu": 8}},
    {"name": "vms", "nodes": ["v-0"], "workload": "vm-passthrough", "resources": {}},
    {"name": "unlabelled", "nodes": ["u-0"], "resources": {"nvidia.com/gpu": 1}},
    {"name": "plain", "nodes": ["p-0"]},
]


def test_each_pool_is_what_its_nodes_would_be():
    found = pool_operands(POOLS, SANDBOX, "26.7")
    assert [(entry["pool"], entry["nodes"], entry["workload"], entry["reason"]) for entry in found] == [
        ("training", 4, "container", "label"),
        ("vms", 1, "vm-passthrough", "label"),
        ("unlabelled", 1, "container", "label-missing"),
        ("plain", 1, None, "gpu-not-present"),
    ]
    assert "nvidia-driver-daemonset" in found[0]["daemonsets"]
    assert found[1]["daemonsets"] == ["nvidia-sandbox-validator", "nvidia-vfio-manager"]
    # Deployed by label, and switched off in the ClusterPolicy or without a DaemonSet of its own.
    assert found[0]["waiting"] == ["client", "dcgm", "node-status-exporter"]
    assert "sandbox-device-plugin" in found[1]["waiting"]
    assert found[3]["daemonsets"] == found[3]["waiting"] == []


def test_a_pool_says_itself_what_is_found_on_its_nodes():
    without = {**POOLS[0], "labels": {"feature.node.kubernetes.io/pci-10de.present": "false"}}
    assert pool_operands([without])[0]["workload"] is None
    tainted = {**POOLS[0], "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
    assert pool_operands([tainted])[0]["daemonsets"] == []
    assert "driver" in pool_operands([tainted])[0]["waiting"]


def test_a_driver_of_its_own_kernel_is_not_waited_for():
    assert "driver" not in pool_operands(POOLS, {"driver": {"usePrecompiled": True}})[0]["waiting"]


def test_the_table_is_for_people():
    lines = table(pool_operands(POOLS, SANDBOX, "25.3"), "25.3").splitlines()
    assert lines[0] == "GPU Operator 25.3"
    assert lines[1] == "training (4 nodes): container (label)"
    assert "  nvidia-driver-daemonset" in lines
    assert "plain (1 node): no GPU (gpu-not-present)" in lines
    assert "  no operand runs" in lines
    assert "  note: operator 25.3 is not known; predicted as 25.10, the nearest" in lines
    assert all(line.strip() == line.strip(" ") and line.strip() for line in lines)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("x",), "lab_pools must be a list"),
        ((POOLS, {"driver": {"enabled": "yes"}}), "driver.enabled"),
        ((POOLS, {}, "soon"), "'soon'"),
    ],
)
def test_what_is_wrong_is_told(arguments, words):
    with pytest.raises(AnsibleFilterError, match=words):
        pool_operands(*arguments)
