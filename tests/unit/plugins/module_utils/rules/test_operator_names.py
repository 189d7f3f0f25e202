# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that break naive rules: each as people have seen it on a node, and what the checker is to say."""

import pytest
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    NOTHING_BESIDE,
    PASSTHROUGH,
    SANDBOX_ON,
    VGPU,
    findings,
    node,
    operator,
    policy,
    verdict,
)

KATA = (policy(mode="kata"), operator())
GPU_ALIAS = (
    policy(mode="kata", kataSandboxDevicePlugin={"env": [{"name": "P_GPU_ALIAS", "value": "gpu"}]}),
    operator(),
)
MODEL_NAMES = (policy(mode="kata", kataSandboxDevicePlugin={"env": [{"name": "P_GPU_ALIAS", "value": ""}]}), operator())
MIXED = {"mig.strategy": "mixed"}

# The names, with where each is from, as they stand in the list of those that have broken a rule somewhere.
ROWS = {
    "SAS_5_IR_INTEGRATED_RAID_CONTROLLER": "NVIDIA/kubevirt-gpu-device-plugin issue 42",
    "802_11BG_WIRELESS_CARDBUS_ADAPTER": "NVIDIA/kubevirt-gpu-device-plugin issue 106",
    "ARIEL_DEVICE_24_FUNCTION_3": "NVIDIA/gpu-operator issue 556",
    "2571, 2235, 20b0": "gpu-operator issue 551, kubevirt-gpu-device-plugin issue 21, kubevirt issue 6459",
    "UNKNOWN_DEVICE": "NVIDIA/go-nvlib pull request 110",
    "A100": "gpu-operator issue 591",
    "A10-12Q and NVIDIA_A10-12Q": "kubevirt-gpu-device-plugin pull request 82",
    "NVIDIA_A100-1-5CME, DC-1-24QGFX, NVIDIA_RTX_Pro_6000_Blackwell_DC-1-24Q": "vgpu-device-manager's default configurations",
    "NVIDIA_RTX6000-Ada-24Q": "vgpu-device-manager's default configurations",
    "TU104GL_Tesla_T4 / TU104GL_TESLA_T4": "kubevirt issue 7547",
    "TU102_GeForce_RTX_2080_Ti_Rev_A, 1080ti-audio, A2-Q2": "KubeVirt's users, Harvester's tests",
    "GF100GL_TESLA_M2070Q, GH100_H20B, GK110GL_TESLA_K20C": "pci.ids",
    "GA102_HIGH_DEFINITION_AUDIO_CONTROLLER, TU106_USB_3_1_HOST_CONTROLLER, GA100_A100_NVSWITCH": "kubevirt-gpu-device-plugin 67",
    "GA107GL_A2___A16": "pci.ids",
    "GA100_A800-SXM4-80GB and GA100_A800SXM480GB": "the two plugins' sanitisers",
    "pgpu, nvswitch, gpu (alias)": "sandbox-device-plugin README",
    "gpu.shared, mig-1g.10gb.shared": "k8s-device-plugin",
    "mig-1g.24gb-me, mig-1g.24gb.me.all, mig-1g.5gb.me": "mig-parted, k8s-device-plugin",
    "NVIDIA_L40S-1A": "harvester",
    "hostdev, mlnxnics, sriov_resource, gpumem, gpucores": "NVIDIA's network operator, HAMi",
}

INFO = ["info unknown-resource"]
WRONG = ["error wrong-resource"]
NONE = ["error no-resource"]


def on(workload, *names, **more):
    return node(workload, dict.fromkeys(names, "1"), **more)


# row, node, what is beside it, verdict
CASES = [
    ("SAS_5_IR_INTEGRATED_RAID_CONTROLLER", on(PASSTHROUGH, "SAS_5_IR_INTEGRATED_RAID_CONTROLLER"), SANDBOX_ON, INFO),
    ("802_11BG_WIRELESS_CARDBUS_ADAPTER", on(PASSTHROUGH, "802_11BG_WIRELESS_CARDBUS_ADAPTER"), SANDBOX_ON, INFO),
    (
        "ARIEL_DEVICE_24_FUNCTION_3",
        node(PASSTHROUGH, {"ARIEL_DEVICE_24_FUNCTION_3": "1", "GM204GL_TESLA_M6": "0", "gpu": "0"}),
        SANDBOX_ON,
        INFO,
    ),
    ("2571, 2235, 20b0", on(PASSTHROUGH, "2571"), SANDBOX_ON, []),
    ("2571, 2235, 20b0", on(PASSTHROUGH, "2235"), SANDBOX_ON, []),
    ("2571, 2235, 20b0", on(PASSTHROUGH, "20b0"), SANDBOX_ON, []),
    ("2571, 2235, 20b0", on(CONTAINER, "20b0"), SANDBOX_ON, WRONG),
    ("UNKNOWN_DEVICE", on(PASSTHROUGH, "UNKNOWN_DEVICE", mode="kata"), MODEL_NAMES, []),
    ("UNKNOWN_DEVICE", on(PASSTHROUGH, "UNKNOWN_DEVICE"), NOTHING_BESIDE, []),
    ("A100", on(PASSTHROUGH, "A100"), SANDBOX_ON, INFO),
    ("A10-12Q and NVIDIA_A10-12Q", node(VGPU, {"A10-12Q": "0", "NVIDIA_A10-12Q": "4"}), SANDBOX_ON, []),
    ("A10-12Q and NVIDIA_A10-12Q", node(PASSTHROUGH, {"A10-12Q": "0", "NVIDIA_A10-12Q": "4"}), SANDBOX_ON, WRONG),
    ("A10-12Q and NVIDIA_A10-12Q", on(CONTAINER, "A10-12Q"), SANDBOX_ON, WRONG),
    *(
        (
            "NVIDIA_A100-1-5CME, DC-1-24QGFX, NVIDIA_RTX_Pro_6000_Blackwell_DC-1-24Q",
            on(workload, name),
            SANDBOX_ON,
            told,
        )
        for name in ("NVIDIA_A100-1-5CME", "DC-1-24QGFX", "NVIDIA_RTX_Pro_6000_Blackwell_DC-1-24Q")
        for workload, told in ((VGPU, []), (PASSTHROUGH, WRONG))
    ),
    ("NVIDIA_RTX6000-Ada-24Q", node(VGPU, {"NVIDIA_RTX6000-Ada-24Q": "4"}), SANDBOX_ON, []),
    ("NVIDIA_RTX6000-Ada-24Q", node(CONTAINER, {"NVIDIA_RTX6000-Ada-24Q": "4"}), SANDBOX_ON, WRONG),
    ("TU104GL_Tesla_T4 / TU104GL_TESLA_T4", on(PASSTHROUGH, "TU104GL_Tesla_T4"), SANDBOX_ON, INFO),
    ("TU104GL_Tesla_T4 / TU104GL_TESLA_T4", on(PASSTHROUGH, "TU104GL_TESLA_T4"), SANDBOX_ON, []),
    ("TU104GL_Tesla_T4 / TU104GL_TESLA_T4", on(VGPU, "TU104GL_TESLA_T4"), SANDBOX_ON, WRONG),
    *(
        ("TU102_GeForce_RTX_2080_Ti_Rev_A, 1080ti-audio, A2-Q2", on(workload, name), SANDBOX_ON, INFO)
        for name in ("TU102_GeForce_RTX_2080_Ti_Rev_A", "1080ti-audio", "A2-Q2")
        for workload in (PASSTHROUGH, VGPU)
    ),
    *(
        ("GF100GL_TESLA_M2070Q, GH100_H20B, GK110GL_TESLA_K20C", on(workload, name), SANDBOX_ON, told)
        for name in ("GF100GL_TESLA_M2070Q", "GH100_H20B", "GK110GL_TESLA_K20C")
        for workload, told in ((PASSTHROUGH, []), (VGPU, WRONG))
    ),
    *(
        (
            "GA102_HIGH_DEFINITION_AUDIO_CONTROLLER, TU106_USB_3_1_HOST_CONTROLLER, GA100_A100_NVSWITCH",
            on(PASSTHROUGH, *names),
            SANDBOX_ON,
            told,
        )
        for name in ("GA102_HIGH_DEFINITION_AUDIO_CONTROLLER", "TU106_USB_3_1_HOST_CONTROLLER", "GA100_A100_NVSWITCH")
        for names, told in (
            (("GA102GL_A10", name), ["info companion-resource"]),
            ((name,), ["error no-resource", "info companion-resource"]),
        )
    ),
    ("GA107GL_A2___A16", on(PASSTHROUGH, "GA107GL_A2___A16"), SANDBOX_ON, []),
    ("GA107GL_A2___A16", on(VGPU, "GA107GL_A2___A16"), SANDBOX_ON, WRONG),
    (
        "GA100_A800-SXM4-80GB and GA100_A800SXM480GB",
        on(PASSTHROUGH, "GA100_A800-SXM4-80GB", mode="kata"),
        MODEL_NAMES,
        [],
    ),
    (
        "GA100_A800-SXM4-80GB and GA100_A800SXM480GB",
        on(PASSTHROUGH, "GA100_A800-SXM4-80GB"),
        SANDBOX_ON,
        ["warning plugin-of-other-mode"],
    ),
    (
        "GA100_A800-SXM4-80GB and GA100_A800SXM480GB",
        on(PASSTHROUGH, "GA100_A800SXM480GB", mode="kata"),
        KATA,
        ["warning plugin-of-other-mode"],
    ),
    ("GA100_A800-SXM4-80GB and GA100_A800SXM480GB", on(PASSTHROUGH, "GA100_A800SXM480GB"), SANDBOX_ON, []),
    ("pgpu, nvswitch, gpu (alias)", node(PASSTHROUGH, {"pgpu": "8", "nvswitch": "4"}, mode="kata"), KATA, []),
    ("pgpu, nvswitch, gpu (alias)", node(PASSTHROUGH, {"pgpu": "8"}), SANDBOX_ON, ["warning plugin-of-other-mode"]),
    ("pgpu, nvswitch, gpu (alias)", node(PASSTHROUGH, {"nvswitch": "4"}, mode="kata"), KATA, NONE),
    ("pgpu, nvswitch, gpu (alias)", node(PASSTHROUGH, {"gpu": "8", "nvswitch": "4"}, mode="kata"), GPU_ALIAS, []),
    ("pgpu, nvswitch, gpu (alias)", node(CONTAINER, {"gpu": "8"}), GPU_ALIAS, []),
    ("pgpu, nvswitch, gpu (alias)", node(PASSTHROUGH, {"gpu": "8"}, mode="kata"), KATA, WRONG),
    (
        "pgpu, nvswitch, gpu (alias)",
        node(PASSTHROUGH, {"gpu": "8", "nvswitch": "4"}, mode="kata"),
        NOTHING_BESIDE,
        ["warning wrong-resource"],
    ),
    ("gpu.shared, mig-1g.10gb.shared", node(CONTAINER, {"gpu.shared": "32", "gpu": "0"}), SANDBOX_ON, []),
    ("gpu.shared, mig-1g.10gb.shared", node(CONTAINER, {"mig-1g.10gb.shared": "28"}, labels=MIXED), SANDBOX_ON, []),
    ("gpu.shared, mig-1g.10gb.shared", node(PASSTHROUGH, {"gpu.shared": "32"}), SANDBOX_ON, WRONG),
    ("gpu.shared, mig-1g.10gb.shared", node(VGPU, {"mig-1g.10gb.shared": "28"}), SANDBOX_ON, WRONG),
    *(
        (
            "mig-1g.24gb-me, mig-1g.24gb.me.all, mig-1g.5gb.me",
            node(workload, {name: "4"}, labels=labels),
            SANDBOX_ON,
            told,
        )
        for name in ("mig-1g.24gb-me", "mig-1g.24gb.me.all", "mig-1g.5gb.me")
        for workload, labels, told in ((CONTAINER, MIXED, []), (PASSTHROUGH, {}, WRONG))
    ),
    ("NVIDIA_L40S-1A", node(VGPU, {"NVIDIA_L40S-1A": "48"}), SANDBOX_ON, []),
    ("NVIDIA_L40S-1A", node(PASSTHROUGH, {"NVIDIA_L40S-1A": "48"}), SANDBOX_ON, WRONG),
    *(
        ("hostdev, mlnxnics, sriov_resource, gpumem, gpucores", node(workload, {**gpus, name: "8"}), SANDBOX_ON, [])
        for name in ("hostdev", "mlnxnics", "sriov_resource", "gpumem", "gpucores")
        for workload, gpus in (
            (CONTAINER, {"gpu": "8"}),
            (PASSTHROUGH, {"GA102GL_A10": "2"}),
            (VGPU, {"NVIDIA_A10-12Q": "4"}),
        )
    ),
    *(
        ("hostdev, mlnxnics, sriov_resource, gpumem, gpucores", on(CONTAINER, name), SANDBOX_ON, NONE)
        for name in ("hostdev", "mlnxnics", "sriov_resource")
    ),
    *(
        ("hostdev, mlnxnics, sriov_resource, gpumem, gpucores", on(CONTAINER, name), SANDBOX_ON, [])
        for name in ("gpumem", "gpucores")
    ),
]


@pytest.mark.parametrize("row, one, beside, told", CASES)
def test_a_name_that_breaks_naive_rules(row, one, beside, told):
    assert verdict(one, beside) == told


def test_every_name_is_a_case():
    assert {row for row, _node, _beside, _told in CASES} == ROWS.keys()
    offered = {name for _row, one, _beside, _told in CASES for name in one["status"]["capacity"]}
    for row in ROWS:
        for name in row.replace(" and ", ", ").replace(" / ", ", ").split(", "):
            assert "nvidia.com/" + name.split(" ")[0] in offered


@pytest.mark.parametrize(
    "name, near, why",
    [
        ("TU104GL_Tesla_T4", "TU104GL_TESLA_T4", "case only"),
        ("GA102GL-A10", "GA102GL_A10", "a hyphen where the plugin writes an underscore"),
        ("GA102GL_A1O", "GA102GL_A10", "one character"),
        ("NVIDIA_A10_12Q", "NVIDIA_A10-12Q", "an underscore where the plugin writes a hyphen"),
        ("PGPU", "pgpu", "case only"),
    ],
)
@pytest.mark.parametrize("workload", [CONTAINER, PASSTHROUGH, VGPU])
def test_an_unknown_name_is_told_with_what_it_is_near_to(name, near, why, workload):
    found = findings(on(workload, name))
    rules = ["no-resource", "unknown-resource"] if workload == CONTAINER else ["unknown-resource"]
    assert [one["rule"] for one in found] == rules
    assert why in found[-1]["message"] and f"nvidia.com/{near}" in found[-1]["message"]
    assert found[-1]["evidence"]["near"] == f"nvidia.com/{near}"


def test_the_other_plugins_spelling_is_told():
    (found,) = findings(on(PASSTHROUGH, "GA100_A800-SXM4-80GB"))
    assert "nvidia.com/GA100_A800SXM480GB" in found["message"]
