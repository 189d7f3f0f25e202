# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json
import pathlib
import re

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import resource_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.device_catalogue import device_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_qualified_name
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.near_names import near_miss
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.resource_names import (
    classify,
    mig_profile,
    vgpu_type,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.slips import SlipFinder
from hypothesis import given
from hypothesis import strategies as st

DATA = pathlib.Path(__file__).resolve().parents[3] / "data"
# PCI device id, the device in pci.ids, the name that the KubeVirt plugin makes of it.
DEVICES = [line.split("\t") for line in (DATA / "nv_names.tsv").read_text(encoding="utf-8").splitlines()]
LEGAL = sorted({name for _id, _device, name in DEVICES if invalid_qualified_name(name) is None})
TYPES = sorted(set(json.loads((DATA / "vgpu_default_counts.json").read_text(encoding="utf-8"))) - {"default"})
MIG_CONFIGS = json.loads((DATA / "mig_default_config.json").read_text(encoding="utf-8"))["mig-configs"]
SLICES = sorted(
    {
        profile.replace("+", ".")
        for entries in MIG_CONFIGS.values()
        for entry in entries
        for profile in entry.get("mig-devices", {})
    }
)


def test_the_facts_are_whole():
    assert (len(DEVICES), len(LEGAL), len(TYPES), len(MIG_CONFIGS)) == (1931, 1542, 710, 81)


def test_every_device_is_passthrough_or_a_companion():
    kinds = {name: classify("nvidia.com/" + name) for name in LEGAL}
    assert {kind: list(kinds.values()).count(kind) for kind in set(kinds.values())} == {
        "passthrough": 1263,
        "companion": 279,
    }


def test_no_gpu_is_a_companion():
    """What pci.ids calls a graphics card, in brackets."""
    companions = {name for name in LEGAL if classify("nvidia.com/" + name) == "companion"}
    bracketed = {
        name for _id, device, name in DEVICES if re.search(r"\[.*(GeForce|Quadro|Tesla|RTX|TITAN|NVS )", device)
    }
    # Functions of chipsets that have a graphics card's name, and of one card.
    assert {name for name in companions & bracketed if not re.search(r"^MCP78S_|_AUDIO_|_SATA$", name)} == set()


def test_no_companion_is_passthrough():
    function = re.compile(r"Audio|USB|Bridge|Ethernet|ATA|IDE|SMBus|Memory Cont|Modem|Controller|NVSwitch|Root|Switch$")
    assert [
        name
        for _id, device, name in DEVICES
        if name in device_names() and function.search(device) and classify("nvidia.com/" + name) != "companion"
    ] == []


@pytest.mark.parametrize("prefix", ["GRID ", "NVIDIA "])
def test_every_vgpu_type(prefix):
    full = {kind: "nvidia.com/" + (prefix + kind).replace(" ", "_") for kind in TYPES}
    assert {kind: (classify(name), vgpu_type(name)) for kind, name in full.items()} == {
        kind: ("vgpu", kind) for kind in TYPES
    }


def test_every_vgpu_type_without_prefix():
    assert {kind: (classify("nvidia.com/" + kind), vgpu_type(kind)) for kind in TYPES} == {
        kind: ("vgpu", kind) for kind in TYPES
    }


@pytest.mark.parametrize(
    "name, short",
    [
        ("nvidia.com/NVIDIA_A10-12Q", "A10-12Q"),
        ("nvidia.com/GRID_T4-1Q", "T4-1Q"),
        ("nvidia.com/NVIDIA_RTX6000-Ada-24Q", "RTX6000-Ada-24Q"),
        ("NVIDIA_RTX_Pro_6000_Blackwell_DC-1-24Q", "DC-1-24Q"),
        ("nvidia.com/NVIDIA_A100-1-5CME", "A100-1-5CME"),
        ("A10-12Q", "A10-12Q"),
        # A vGPU, but of a type that no default configuration has.
        ("nvidia.com/NVIDIA_L40S-1A", ""),
        ("nvidia.com/GH100_H20B", ""),
        ("nvidia.com/gpu", ""),
        ("", ""),
    ],
)
def test_vgpu_type(name, short):
    assert vgpu_type(name) == short


@pytest.mark.parametrize("config", sorted(MIG_CONFIGS))
def test_every_mig_configuration_under_strategy_mixed(config):
    for entry in MIG_CONFIGS[config]:
        for profile in entry.get("mig-devices", {}):
            dotted = profile.replace("+", ".")
            for name in ("nvidia.com/mig-" + dotted, "nvidia.com/mig-" + dotted + ".shared"):
                assert (classify(name), mig_profile(name)) == ("mig", dotted)


@pytest.mark.parametrize(
    "name, profile",
    [
        ("nvidia.com/mig-1g.10gb.shared", "1g.10gb"),
        ("mig-1g.24gb.me.all", "1g.24gb.me.all"),
        ("nvidia.com/mig-1g.24gb-me", "1g.24gb-me"),
        ("nvidia.com/mig-1c.3g.40gb", "1c.3g.40gb"),
        ("nvidia.com/mig-2g", "2g"),
        ("nvidia.com/mig-2g.shared", "2g"),
        ("nvidia.com/mig-1g.10g", ""),
        ("nvidia.com/mig-1g.10gb.sharde", ""),
        ("nvidia.com/mig-1g.10gb\n", ""),
        ("nvidia.com/mig-١g.10gb", ""),
        ("nvidia.com/gpu", ""),
    ],
)
def test_mig_profile(name, profile):
    assert mig_profile(name) == profile
    assert classify(name) == (
        "mig" if profile and "/" in name else "unknown" if name != "nvidia.com/gpu" else "container"
    )


def test_kinds_are_never_crossed():
    vgpus = {prefix + kind for kind in TYPES for prefix in ("", "GRID_", "NVIDIA_")}
    slices = {"mig-" + profile for profile in SLICES}
    assert not vgpus & set(LEGAL) and not slices & (vgpus | set(LEGAL))
    assert {classify("nvidia.com/" + name) for name in vgpus} == {"vgpu"}
    assert {classify("nvidia.com/" + name) for name in slices} == {"mig"}
    assert {classify("nvidia.com/" + name) for name in LEGAL} == {"passthrough", "companion"}
    assert {vgpu_type(name) + mig_profile(name) for name in LEGAL} == {""}


@pytest.mark.parametrize(
    "kind, names",
    [
        ("container", "gpu"),
        ("shared", "gpu.shared"),
        ("mig", "mig-1g.10gb.shared mig-1g.24gb-me mig-1g.24gb.me.all mig-1g.5gb.me mig-1g.24gb.gfx"),
        ("passthrough", "2571 2235 20b0 TU104GL_TESLA_T4 GF100GL_TESLA_M2070Q GH100_H20B GK110GL_TESLA_K20C"),
        (
            "passthrough",
            "GA107GL_A2___A16 GA100_A800SXM480GB GA102GL_A10 GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION",
        ),
        # Newer than the list.
        ("passthrough", "GB302_GEFORCE_RTX_6090 GR100_R200 GB20C_SPARK TU118M_SOME_CARD"),
        ("vgpu", "A10-12Q NVIDIA_A10-12Q NVIDIA_A100-1-5CME DC-1-24QGFX NVIDIA_RTX_Pro_6000_Blackwell_DC-1-24Q"),
        ("vgpu", "NVIDIA_RTX6000-Ada-24Q NVIDIA_L40S-1A GRID_M60-0Q GRID_T4-1B4 GRID_V100D-2B"),
        ("kata", "pgpu nvswitch UNKNOWN_DEVICE GA100_A800-SXM4-80GB GA100_A100-SXM-64GB"),
        ("companion", "GA102_HIGH_DEFINITION_AUDIO_CONTROLLER TU106_USB_3_1_HOST_CONTROLLER GA100_A100_NVSWITCH"),
        ("companion", "GH100_H100_NVSWITCH TU102_USB_TYPEC_UCSI_CONTROLLER MCP51_PCI_BRIDGE HIGH_DEFINITION_AUDIO"),
        ("companion", "GB302_HIGH_DEFINITION_AUDIO_CONTROLLER GR100_R200_NVSWITCH MCP79_RAID_CONTROLLER NFORCE2_AGP"),
        (
            "network",
            "hostdev sriov_resource sriov_resource_rail_0 switchdev mlnxnics mlnxics rdma_host_dev kubevirt_sriov",
        ),
        ("network", "sriovlegacy sriov_rdma roce_gdr mlnx_sriov_CX6 ib0.sriov"),
        ("sharing-scheduler", "gpumem gpucores gpumem-percentage vgpu priority"),
        ("unknown", "SAS_5_IR_INTEGRATED_RAID_CONTROLLER 802_11BG_WIRELESS_CARDBUS_ADAPTER ARIEL_DEVICE_24_FUNCTION_3"),
        (
            "unknown",
            "A100 TU104GL_Tesla_T4 TU102_GeForce_RTX_2080_Ti_Rev_A 1080ti-audio A2-Q2 NVIDIA_A10-12P NVIDIA_A10",
        ),
        # A known name with a slip, rather than a new card.
        ("unknown", "GA102GL_A1O GA102GL_A01 AD104GL_L44 TU104GL_TESLAT4"),
        ("unknown", "20B0 20b 20b0a GA102GL-A10 G-72 GPU gpus gpu-shared distribute nicely library GB302_Lower"),
    ],
)
def test_classify(kind, names):
    assert {name: classify("nvidia.com/" + name) for name in names.split()} == {name: kind for name in names.split()}


@pytest.mark.parametrize(
    "name", ["", "gpu", "nvidia.com", "nvidia.com/", "amd.com/gpu", "nvidia.com/gpu\n", "GPU/nvidia.com"]
)
def test_names_outside_the_domain(name):
    assert classify(name) == "unknown"


def test_aliases_come_first():
    aliases = frozenset(["nvidia.com/gpu", "example.com/h100"])
    assert classify("nvidia.com/gpu", aliases) == classify("example.com/h100", aliases) == "kata"
    assert classify("nvidia.com/gpu") == "container"
    assert classify("example.com/h100") == "unknown"


def test_longer_than_a_name_can_be():
    name = "nvidia.com/NVIDIA_" + "-1" * 100000 + "Q"
    assert classify(name) == "unknown" and near_miss(name) is None


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(resource_names, "_NEW_DEVICE_SLIPS", SlipFinder(device_names))
    classify.cache_clear()
    yield resource_names._NEW_DEVICE_SLIPS
    classify.cache_clear()


def test_a_hostile_dump_is_not_searched_for_ever(fresh):
    for number in range(2100):
        classify("nvidia.com/GZ900_CARD_%d" % number)
    assert len(fresh.found) == 2000
    assert classify("nvidia.com/GA102GL_A1O") == "passthrough"


@given(st.text(max_size=70))
def test_any_text(text):
    name = "nvidia.com/" + text
    kind = classify(name)
    assert bool(mig_profile(name)) == (kind == "mig")
    assert kind == "vgpu" or not vgpu_type(name) or len(text) > 63
    assert kind == "unknown" or near_miss(name, kata=True) is None
