# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people have reported from real clusters: each report is a case, or stands here with why nodes cannot tell it."""

import pytest
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    NFD,
    NOTHING_BESIDE,
    PASSTHROUGH,
    SANDBOX_OFF,
    SANDBOX_ON,
    VGPU,
    bare,
    node,
    operator,
    policy,
    verdict,
)

# Issues and pull requests of these repositories, by the number that the tables below give.
GO, KGDP, KDP = "NVIDIA/gpu-operator#", "NVIDIA/kubevirt-gpu-device-plugin#", "NVIDIA/k8s-device-plugin#"
KV = "kubevirt/kubevirt#"
# A row for each report, several issues where they say the same.
ROWS = [
    GO + "468",
    GO + "1018",
    GO + "556",
    GO + "1995 550",
    GO + "568",
    GO + "1610",
    GO + "447 527 554 1375",
    GO + "2594",
    GO + "316",
    GO + "460",
    GO + "281",
    GO + "351",
    GO + "652 287",
    GO + "701",
    GO + "684",
    GO + "1141",
    GO + "78 423 149 1274",
    GO + "2495",
    GO + "693 1602 1399 2249 1945 2433 603 646 1187",
    KGDP + "42 106",
    KGDP + "67",
    KGDP + "97",
    KGDP + "20",
    KGDP + "141",
    KGDP + "191 192",
    KV + "4950",
    KV + "14423",
    KV + "6459 14387",
    KV + "11135",
    KV + "14024",
    KDP + "58",
    KDP + "1014 1228 1698",
    KDP + "1024",
    KDP + "1501",
    "Mellanox/network-operator#211",
    "harvester/harvester#11046",
    "kubectl-view-allocations#258",
]
UNDECIDABLE = {
    KGDP
    + "141": "how many GPUs share an IOMMU group stands in no object; one of several counted is right up to plugin 1.4",
    KV + "4950": "what VMs may use stands in the KubeVirt object",
    KV + "14423": "how many devices a plugin has discovered stands in its log; a VM node has no label with a count",
    KV + "6459 14387": "what a VM asks for stands in the VirtualMachine",
    KV + "11135": "externalResourceProvider stands in the KubeVirt object",
    KDP + "1024": "what a container asks for stands in the Pod",
}

SINGLE, MIXED = {"mig.strategy": "single"}, {"mig.strategy": "mixed"}
A100 = {"mig.capable": "true", "gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu.deploy.mig-manager": "true"}
T4 = {"gpu.count": "2", "gpu.product": "Tesla-T4-SHARED", "gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing"}
MIG_PENDING = {
    "mig.config": "all-1g.5gb",
    "mig.config.state": "pending",
    **{
        f"gpu.deploy.{one}": "paused-for-mig-change"
        for one in ("device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter")
    },
}
NO_VGPU_MANAGER = (policy(vgpuManager={"enabled": False}), operator())


def made(*more, **labels):
    """Put labels together; those that the operator's own labels are named alike go last."""
    found = {}
    for one in more:
        found.update(one)
    return {**found, **labels}


# row, node or nodes, what is beside them, verdict
CASES = [
    # The label of a live node was changed; right after, the kubelet still counts the old devices, and offers none.
    (
        GO + "468",
        node(PASSTHROUGH, {"gpu": "0"}, {"gpu": "4"}),
        SANDBOX_ON,
        ["warning no-resource", "info left-over-resource"],
    ),
    # Later it has the new devices beside, and at last the old name stands at 0.
    (
        GO + "468",
        node(PASSTHROUGH, {"gpu": "0", "GA102GL_A10": "4"}, {"gpu": "4", "GA102GL_A10": "4"}),
        SANDBOX_ON,
        ["info left-over-resource"],
    ),
    (GO + "468", node(PASSTHROUGH, {"gpu": "0", "GA102GL_A10": "4"}), SANDBOX_ON, []),
    (GO + "468", node(PASSTHROUGH, {"gpu": "4"}), SANDBOX_ON, ["error wrong-resource"]),
    (
        GO + "468",
        node(PASSTHROUGH, {"gpu": "4"}, deployed=CONTAINER),
        SANDBOX_ON,
        ["error wrong-resource"],
    ),
    (GO + "1018", node(VGPU, labels={"gpu.deploy.driver": "pre-installed"}), SANDBOX_ON, ["warning host-driver"]),
    (
        GO + "1018",
        node(PASSTHROUGH, labels={"gpu.deploy.driver": "pre-installed"}),
        SANDBOX_ON,
        ["warning host-driver"],
    ),
    (GO + "1018", node(CONTAINER, labels={"gpu.deploy.driver": "pre-installed"}), SANDBOX_ON, []),
    (
        GO + "556",
        node(
            PASSTHROUGH,
            {"gpu": "0", "GM204GL_TESLA_M6": "0", "ARIEL_DEVICE_24_FUNCTION_3": "1"},
            labels={"gpu.deploy.nvsm": ""},
        ),
        SANDBOX_ON,
        ["info unknown-resource"],
    ),
    (GO + "1995 550", node(CONTAINER, {"gpu": "2", "GA102GL_A10": "2"}), SANDBOX_ON, ["error several-kinds"]),
    (GO + "1995 550", bare(None, {"gpu": "2", "GA102GL_A10": "2"}), NOTHING_BESIDE, ["info several-kinds"]),
    (GO + "568", node(None, {"gpu": "8"}, deployed=CONTAINER), SANDBOX_ON, ["info workload-by-default"]),
    (GO + "568", node(None, {"gpu": "8"}, deployed=CONTAINER), SANDBOX_OFF, []),
    (GO + "1610", [node(CONTAINER), node(PASSTHROUGH, name="gpu-2"), node(VGPU, name="gpu-3")], SANDBOX_ON, []),
    (GO + "447 527 554 1375", node(VGPU, {}), SANDBOX_ON, ["error no-resource"]),
    (GO + "447 527 554 1375", node(VGPU, {}), NO_VGPU_MANAGER, ["error no-resource"]),
    (
        GO + "447 527 554 1375",
        node(VGPU, {}, labels={"vgpu.config": "A10-5Q", "vgpu.config.state": "failed"}),
        SANDBOX_ON,
        ["error vgpu-change-failed"],
    ),
    (
        GO + "447 527 554 1375",
        node(VGPU, {}, labels={"vgpu.config": "A10-4Q", "vgpu.config.state": "pending"}),
        SANDBOX_ON,
        ["info vgpu-change-pending"],
    ),
    # SR-IOV vGPUs are offered by KubeVirt's own plugin, by a name that an administrator chose.
    (GO + "2594", node(VGPU, {"NVIDIA_L40S-24Q": "2"}), SANDBOX_ON, []),
    (GO + "2594", node(VGPU, {"l40s-vf": "2"}), SANDBOX_ON, ["info unknown-resource"]),
    (
        GO + "316",
        node(labels={"gpu.deploy.dcgm": "paused-for-driver-upgrade", "gpu-driver-upgrade-state": "upgrade-done"}),
        SANDBOX_ON,
        ["warning operand-paused"],
    ),
    (GO + "316", node(labels={"gpu.deploy.dcgm": "paused-for-driver-upgrade"}), SANDBOX_ON, ["warning operand-paused"]),
    (
        GO + "316",
        node(
            CONTAINER,
            {"gpu": "0"},
            {"gpu": "8"},
            labels={
                "gpu.deploy.device-plugin": "true_paused-for-driver-upgrade",
                "gpu-driver-upgrade-state": "pod-restart-required",
            },
        ),
        SANDBOX_ON,
        ["info driver-upgrade-pending", "info operand-paused"],
    ),
    (
        GO + "460",
        node(
            CONTAINER,
            {"gpu": "0"},
            labels=made(A100, SINGLE, {"mig.config": "all-balanced", "mig.config.state": "success"}),
        ),
        SANDBOX_ON,
        ["error mig-layout-not-single", "error no-resource"],
    ),
    (
        GO + "281",
        node(
            CONTAINER,
            {"mig-1g.5gb": "4", "mig-3g.20gb": "1", "gpu": "0"},
            labels=made(A100, MIXED, {"mig.config": "four-and-one", "mig.config.state": "success", "gpu.count": "1"}),
        ),
        SANDBOX_ON,
        [],
    ),
    (
        GO + "351",
        node(
            CONTAINER,
            {"mig-7g.79gb": "8"},
            labels=made(A100, MIXED, {"mig.config": "all-7g.80gb", "mig.config.state": "success"}),
        ),
        SANDBOX_ON,
        [],
    ),
    (
        GO + "652 287",
        node(labels={"mig.config": "all-1g.18gb", "gpu.product": "NVIDIA-H200"}),
        SANDBOX_ON,
        ["warning mig-config-without-manager"],
    ),
    (GO + "652 287", node(labels={"mig.config": "all-disabled", "gpu.product": "NVIDIA-H200"}), SANDBOX_ON, []),
    # mig-manager's label stays where it is, also on a node that cannot do MIG.
    (GO + "701", node(labels={"gpu.deploy.mig-manager": "true", "mig.capable": "false"}), SANDBOX_ON, []),
    (GO + "684", node(CONTAINER, {"gpu": "2"}, labels=T4), SANDBOX_ON, ["warning sharing-not-applied"]),
    (GO + "684", node(CONTAINER, {"gpu": "8"}, labels=T4), SANDBOX_ON, []),
    (GO + "684", node(CONTAINER, {"gpu.shared": "8", "gpu": "0"}, labels=T4), SANDBOX_ON, []),
    # Pods do not lower allocatable: eight of eight are in use here, and nothing shows it.
    (GO + "1141", node(CONTAINER, {"gpu": "8"}, labels={"gpu.count": "8"}), SANDBOX_ON, []),
    (
        GO + "78 423 149 1274",
        node(CONTAINER, {}, labels={NFD: ..., "gpu.present": ...}, deployed=None),
        SANDBOX_ON,
        ["warning gpu-not-present"],
    ),
    (
        GO + "78 423 149 1274",
        node(VGPU, {}, labels={NFD: ..., "gpu.present": "false"}, deployed=None),
        SANDBOX_ON,
        ["warning gpu-not-present"],
    ),
    (
        GO + "2495",
        node(CONTAINER, {"gpu": "0"}, {"gpu": "8"}, labels=made(A100, MIG_PENDING, {"gpu.product": ...})),
        SANDBOX_ON,
        ["info mig-change-pending", "info operand-paused"],
    ),
    (
        GO + "693 1602 1399 2249 1945 2433 603 646 1187",
        node(CONTAINER, {"gpu": "0"}),
        SANDBOX_ON,
        ["error no-resource"],
    ),
    (GO + "693 1602 1399 2249 1945 2433 603 646 1187", node(CONTAINER, {}), SANDBOX_ON, ["error no-resource"]),
    (
        GO + "693 1602 1399 2249 1945 2433 603 646 1187",
        node(CONTAINER, {"gpu": "8"}, deployed=None),
        SANDBOX_ON,
        ["warning deploy-label-missing"],
    ),
    (
        KGDP + "42 106",
        node(PASSTHROUGH, {"GA102GL_A10": "2", "SAS_5_IR_INTEGRATED_RAID_CONTROLLER": "1"}),
        SANDBOX_ON,
        ["info unknown-resource"],
    ),
    (
        KGDP + "67",
        node(PASSTHROUGH, {"GA102GL_A10": "2", "GA102_HIGH_DEFINITION_AUDIO_CONTROLLER": "2"}),
        SANDBOX_ON,
        ["info companion-resource"],
    ),
    (KGDP + "97", node(CONTAINER, {"gpu": "8"}, labels={"gpu.count": "7"}), SANDBOX_ON, ["warning count-mismatch"]),
    (
        KGDP + "20",
        node(PASSTHROUGH, {"GA102GL_A10": "0"}, {"GA102GL_A10": "2"}),
        SANDBOX_ON,
        ["warning none-allocatable"],
    ),
    (KGDP + "191 192", node(VGPU, {"NVIDIA_L40S-1A": "48"}), SANDBOX_ON, []),
    (
        KV + "14024",
        node(PASSTHROUGH, {"AD102_HIGH_DEFINITION_AUDIO_CONTROLLER": "1"}),
        SANDBOX_ON,
        ["error no-resource", "info companion-resource"],
    ),
    (KDP + "58", node(CONTAINER, {"gpu": "0"}, {"gpu": "16"}), SANDBOX_ON, ["warning none-allocatable"]),
    (KDP + "58", bare(None, {"gpu": "0"}, {"gpu": "16"}), NOTHING_BESIDE, ["warning none-allocatable"]),
    (KDP + "1014 1228 1698", node(CONTAINER, {"gpu": "0"}, {"gpu": "0"}), SANDBOX_ON, ["error no-resource"]),
    (KDP + "1014 1228 1698", node(PASSTHROUGH, {"gpu": "0", "GA102GL_A10": "1"}), SANDBOX_ON, []),
    (
        KDP + "1501",
        node(
            CONTAINER,
            {"gpu": "3", "mig-1g.5gb": "7"},
            labels=made(A100, MIXED, {"gpu.count": "8", "mig-1g.5gb.count": "7"}),
        ),
        SANDBOX_ON,
        [],
    ),
    (
        "Mellanox/network-operator#211",
        node(
            CONTAINER,
            {"gpu": "0", "mig-1g.5gb": "4", "mig-2g": "2", "mig-3g": "2", "mlnxnics": "8"},
            labels=made(A100, MIXED),
        ),
        SANDBOX_ON,
        [],
    ),
    (
        "harvester/harvester#11046",
        node(labels={"gpu.deploy.dcgm": "false", "gpu.deploy.dcgm-exporter": "false"}),
        SANDBOX_ON,
        ["info operand-off"],
    ),
    (
        "harvester/harvester#11046",
        node(CONTAINER, {"gpu": "0"}, labels={"gpu.deploy.device-plugin": "false"}),
        SANDBOX_ON,
        ["info operand-off"],
    ),
    (
        "kubectl-view-allocations#258",
        node(CONTAINER, {"gpu": "0", "mig-1g.5gb": "56"}, labels=made(A100, MIXED)),
        SANDBOX_ON,
        [],
    ),
]


@pytest.mark.parametrize("row, nodes, beside, told", CASES)
def test_a_report(row, nodes, beside, told):
    assert verdict(nodes, beside) == told


def test_every_report_is_a_case_or_undecidable():
    decided = {row for row, _nodes, _beside, _told in CASES}
    assert decided | UNDECIDABLE.keys() == set(ROWS)
    assert not decided & UNDECIDABLE.keys()
    assert all(UNDECIDABLE.values())
