# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG and vGPU configurations, quantities, sharing: what fits, and what does not."""

import json
import pathlib

import pytest
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    NOTHING_BESIDE,
    PASSTHROUGH,
    SANDBOX_ON,
    VGPU,
    bare,
    findings,
    node,
    operator,
    policy,
    verdict,
)

DATA = pathlib.Path(__file__).resolve().parents[3] / "data"
VGPU_CONFIGS = json.loads((DATA / "vgpu_default_counts.json").read_text())
MIG_CONFIGS = json.loads((DATA / "mig_default_config.json").read_text())["mig-configs"]

A100 = {"mig.capable": "true", "gpu.product": "NVIDIA-A100-SXM4-80GB", "gpu.deploy.mig-manager": "true"}
MIXED = {**A100, "mig.strategy": "mixed", "mig.config.state": "success"}
SINGLE = {**MIXED, "mig.strategy": "single"}
CUSTOM_MIG = (policy(migManager={"enabled": True, "config": {"name": "mine"}}), operator())
CUSTOM_VGPU = (
    policy(vgpuDeviceManager={"enabled": True, "config": {"name": "mine", "default": "default"}}),
    operator(),
)


def vgpu(offered, beside=SANDBOX_ON, **labels):
    labels = {f"vgpu.config.{key}" if key == "state" else f"vgpu.{key}": value for key, value in labels.items()}
    return verdict(node(VGPU, offered, labels=labels), beside)


def mig(offered, beside=SANDBOX_ON, labels=None, **more):
    return verdict(
        node(
            CONTAINER,
            offered,
            labels={
                **(MIXED if labels is None else labels),
                **{key.replace("_", "."): value for key, value in more.items()},
            },
        ),
        beside,
    )


# -- vGPU


def test_every_configuration_of_nvidia_fits_what_it_makes():
    assert len(VGPU_CONFIGS) == 711
    for name, entries in VGPU_CONFIGS.items():
        for entry in entries:
            for kind, count in entry["vgpu-devices"].items():
                for prefix in ("GRID_", "NVIDIA_"):
                    for gpus in (1, 2, 7):
                        assert vgpu({prefix + kind: str(count * gpus)}, config=name, state="success") == []
                if count > 1:
                    assert vgpu({"NVIDIA_" + kind: str(count * 2 + 1)}, config=name) == [
                        "warning vgpu-quantity-mismatch"
                    ]


def test_a_type_that_the_configuration_does_not_make():
    (found,) = findings(
        node(VGPU, {"NVIDIA_A10-12Q": "4"}, labels={"vgpu.config": "A10-4Q", "vgpu.config.state": "success"})
    )
    assert (found["rule"], found["severity"]) == ("vgpu-config-mismatch", "error")
    assert "vgpu.config=A10-12Q" in found["remedy"]
    assert vgpu({"NVIDIA_A10-4Q": "12", "NVIDIA_A10-12Q": "0"}, config="A10-4Q") == []
    # Left from before: counted still, and not offered.
    left = node(
        VGPU,
        {"NVIDIA_A10-4Q": "12", "NVIDIA_A10-12Q": "0"},
        {"NVIDIA_A10-4Q": "12", "NVIDIA_A10-12Q": "4"},
        labels={"vgpu.config": "A10-4Q"},
    )
    assert verdict(left) == ["info left-over-resource"]


def test_several_types_by_a_configuration_of_ones_own():
    both = {"NVIDIA_A10-4Q": "3", "NVIDIA_A10-6Q": "2"}
    assert vgpu(both, config="four-and-six", state="success") == ["info vgpu-config-unknown"]
    assert vgpu(both, CUSTOM_VGPU, config="four-and-six", state="success") == []
    assert vgpu(both, CUSTOM_VGPU, state="success") == []  # its own "default"
    assert vgpu(both, CUSTOM_VGPU, config="A10-4Q") == []  # which it may define anew


def test_the_default_is_judged_only_where_its_content_is_known():
    assert vgpu({"NVIDIA_A10-12Q": "4"}, config="default", state="success") == []
    assert vgpu({"NVIDIA_A10-4Q": "12"}, config="default", state="success") == ["error vgpu-config-mismatch"]
    assert vgpu({"NVIDIA_A10-4Q": "12"}, state="success") == ["error vgpu-config-mismatch"]
    # Nothing says that the device manager ever worked there: KubeVirt and Harvester make vGPUs too.
    assert vgpu({"NVIDIA_A10-4Q": "12"}) == []
    assert vgpu({"NVIDIA_L40S-1A": "48"}) == []
    # Without the ClusterPolicy nobody knows which configuration is the default, and whose.
    for config in ({}, {"config": "default"}):
        assert vgpu({"NVIDIA_A10-4Q": "12"}, NOTHING_BESIDE, state="success", **config) == []
    named = (policy(vgpuDeviceManager={"enabled": True, "config": {"default": "A10-4Q"}}), operator())
    assert vgpu({"NVIDIA_A10-4Q": "12"}, named, state="success") == []
    assert vgpu({"NVIDIA_A10-12Q": "4"}, named, state="success") == ["error vgpu-config-mismatch"]
    # A card that is newer than the list.
    assert vgpu({"NVIDIA_C900X-96C": "2"}, state="success") == []
    off = (policy(vgpuDeviceManager={"enabled": False}), operator())
    assert vgpu({"NVIDIA_A10-12Q": "4"}, off, config="A10-4Q") == []


@pytest.mark.parametrize("state", ["pending", "rebooting"])
def test_vgpus_that_are_being_made_are_not_judged(state):
    for offered in ({}, {"NVIDIA_A10-12Q": "4"}, {"NVIDIA_A10-4Q": "5"}):
        assert vgpu(offered, config="A10-4Q", state=state) == ["info vgpu-change-pending"]


def test_a_vgpu_node_offers_nothing_and_why():
    def why(*sections):
        off = {section: {"enabled": False} for section in sections}
        (found,) = findings(node(VGPU, {}), (policy(**off), operator()))
        assert found["rule"] == "no-resource"
        return found["message"]

    assert "vgpuManager.enabled is false" in why("vgpuManager")
    assert "vgpuDeviceManager.enabled is false" in why("vgpuDeviceManager")
    assert "enabled is false" not in why()
    (found,) = findings(node(PASSTHROUGH, {}), (policy(vfioManager={"enabled": False}), operator()))
    assert "vfioManager.enabled is false" in found["message"]


# -- MIG


def made_by(entries):
    """{profile as in resource names: how many on a GPU} for each kind of GPU that a configuration names."""
    for entry in entries:
        if entry["mig-enabled"] and entry.get("mig-devices"):
            yield {profile.replace("+", "."): count for profile, count in entry["mig-devices"].items()}


def test_every_configuration_of_the_operator_fits_what_it_makes():
    assert len(MIG_CONFIGS) == 81
    for name, entries in MIG_CONFIGS.items():
        for made in made_by(entries):
            slices = {"mig-" + profile: str(count * 8) for profile, count in made.items()}
            assert mig({**slices, "gpu": "0"}, mig_config=name) == []
            if len(made) == 1:
                divided = {**SINGLE, "gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-" + next(iter(made))}
                assert mig({"gpu": str(8 * sum(made.values()))}, labels=divided, mig_config=name) == []
            else:
                assert "error mig-layout-not-single" in mig({}, labels=SINGLE, mig_config=name)


@pytest.mark.parametrize(
    "config, offered, told",
    [
        ("all-1g.10gb", {"mig-3g.40gb": "2"}, ["error mig-config-mismatch"]),
        ("all-1g.10gb", {"mig-1g.10gb": "7", "mig-3g.40gb": "2"}, ["error mig-config-mismatch"]),
        ("all-1g.10gb", {"gpu": "8"}, ["error mig-config-mismatch"]),
        ("all-1g.10gb", {"mig-1g.10gb": "7", "mig-3g.40gb": "0"}, []),
        ("all-7g.80gb", {"mig-7g.79gb": "8"}, []),
        ("all-3g.95gb", {"mig-3g.93gb": "8"}, []),
        ("all-2g.20gb", {"mig-2g": "3"}, []),
        # Numbers against what the configuration makes of each GPU.
        ("all-1g.10gb", {"mig-1g.10gb": "56"}, []),
        ("all-1g.10gb", {"mig-1g.10gb": "50"}, ["warning mig-quantity-mismatch"]),
        ("all-balanced", {"mig-1g.10gb": "16", "mig-2g.20gb": "8", "mig-3g.40gb": "8"}, []),
        (
            "all-balanced",
            {"mig-1g.10gb": "16", "mig-2g.20gb": "8", "mig-3g.40gb": "5"},
            ["warning mig-quantity-mismatch"],
        ),
        ("all-balanced", {"mig-1g.10gb": "16", "mig-2g.20gb": "8"}, ["warning mig-quantity-mismatch"]),
        ("all-1g.10gb", {"mig-1g.10gb": "49", "gpu": "1"}, ["error mig-config-mismatch"]),
        ("all-1g.10gb.me", {"mig-1g.10gb": "7"}, ["error mig-config-mismatch"]),
        ("all-disabled", {"gpu": "8"}, []),
        ("all-disabled", {"mig-1g.10gb": "7"}, ["error mig-config-mismatch"]),
        ("all-enabled", {"mig-1g.10gb": "7"}, []),
        ("all-balanced", {"mig-1g.10gb": "2", "mig-2g.20gb": "1", "mig-3g.40gb": "1"}, []),
        ("all-balanced", {"mig-7g.80gb": "1"}, ["error mig-config-mismatch"]),
        ("seven-of-mine", {"mig-3g.40gb": "2"}, []),
    ],
)
def test_names_against_a_configuration(config, offered, told):
    assert mig(offered, mig_config=config) == told
    assert mig(offered, CUSTOM_MIG, mig_config=config) == []  # a ConfigMap of one's own may define the name anew


def test_mig_that_an_administrator_makes_by_hand():
    # The operator writes all-disabled on every GPU that can do MIG, also where its MIG manager is off.
    by_hand = {**MIXED, "mig.config": "all-disabled", "gpu.deploy.mig-manager": "false", "mig.config.state": ...}
    assert mig({"mig-1g.10gb": "7"}, labels=by_hand) == ["info operand-off"]
    assert mig({"mig-1g.10gb": "7"}, labels={**by_hand, "gpu.deploy.mig-manager": ...}) == []
    assert mig({"mig-1g.10gb": "7"}, NOTHING_BESIDE, labels={**by_hand, "mig.config": ...}) == ["info operand-off"]


@pytest.mark.parametrize("strategy", ["none", "single"])
def test_names_of_profiles_belong_to_strategy_mixed(strategy):
    labels = {**MIXED, "mig.strategy": strategy}
    assert mig({"mig-1g.10gb": "7"}, labels=labels) == ["error mig-strategy-mismatch"]
    assert mig({"mig-1g.10gb": "0", "gpu": "7"}, labels=labels) == []
    (found,) = findings(bare(None, {"mig-1g.10gb": "7"}, labels={"mig.strategy": strategy}), NOTHING_BESIDE)
    assert found["rule"] == "mig-strategy-mismatch" and "clusterpolicy" not in found["remedy"]
    # Without a label the ClusterPolicy's strategy counts.
    around = (policy(mig={"strategy": strategy}), operator())
    assert mig({"mig-1g.10gb": "7"}, around, labels=A100) == ["error mig-strategy-mismatch"]
    assert mig({"mig-1g.10gb": "7"}, NOTHING_BESIDE, labels=A100) == []


@pytest.mark.parametrize("state", ["pending", "rebooting"])
def test_slices_that_are_being_made_are_not_judged(state):
    labels = {**MIXED, "mig.config.state": state, "mig.config": "all-1g.10gb", "gpu.count": "8"}
    for offered in ({}, {"gpu": "8"}, {"mig-3g.40gb": "2"}, {"gpu": "3"}):
        assert mig(offered, labels=labels) == ["info mig-change-pending"]


def test_what_gpu_feature_discovery_has_counted():
    counted = {**MIXED, "mig-1g.10gb.count": "7", "mig-1g.10gb.replicas": "4"}
    assert mig({"mig-1g.10gb": "7"}, labels=counted) == []
    assert mig({"mig-1g.10gb": "28"}, labels=counted) == []
    assert mig({"mig-1g.10gb.shared": "28"}, labels=counted) == []
    assert mig({"mig-1g.10gb": "14"}, labels=counted) == ["warning mig-quantity-mismatch"]
    assert mig({"mig-1g.10gb": "14"}, labels={**counted, "mig-1g.10gb.count": "many"}) == []


@pytest.mark.parametrize("workload", [PASSTHROUGH, VGPU])
def test_mig_labels_mean_nothing_on_a_node_for_vms(workload):
    for config in ("all-disabled", "all-1g.10gb", "all-balanced"):
        for state in ("success", "failed", "pending"):
            labels = {"mig.capable": "true", "mig.config": config, "mig.config.state": state, "mig.strategy": "single"}
            assert verdict(node(workload, labels=labels)) == []


def test_a_configuration_that_nobody_applies():
    wish = {"mig.config": "all-1g.18gb", "gpu.product": "NVIDIA-H200"}
    (found,) = findings(node(labels=wish))
    assert "nothing says that its GPUs can do MIG" in found["message"]
    assert verdict(node(labels={**wish, "mig.capable": "true", "gpu.deploy.mig-manager": "true"})) == []
    off = (policy(migManager={"enabled": False}), operator())
    (found,) = findings(node(labels={**wish, "gpu.deploy.mig-manager": "true"}), off)
    assert found["rule"] == "mig-config-without-manager" and "migManager.enabled is false" in found["message"]
    # The deploy label's own finding tells enough.
    assert verdict(node(labels={**wish, "mig.capable": "true", "gpu.deploy.mig-manager": "false"})) == [
        "info operand-off"
    ]


# -- quantities and sharing


@pytest.mark.parametrize(
    "offered, labels, told",
    [
        ({"gpu": "8"}, {"gpu.count": "8"}, []),
        ({"gpu": "8"}, {"gpu.count": "8", "gpu.replicas": "1"}, []),
        ({"gpu": "8"}, {"gpu.count": "2", "gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing"}, []),
        (
            {"gpu": "8"},
            {"gpu.count": "2", "gpu.replicas": "4", "gpu.sharing-strategy": "mps", "mps.capable": "true"},
            [],
        ),
        ({"gpu.shared": "8"}, {"gpu.count": "2", "gpu.replicas": "4"}, []),
        ({"gpu": "2"}, {"gpu.count": "2", "gpu.replicas": "4"}, ["warning sharing-not-applied"]),
        ({"gpu": "3"}, {"gpu.count": "2", "gpu.replicas": "4"}, ["warning count-mismatch"]),
        ({"gpu": "7"}, {"gpu.count": "8"}, ["warning count-mismatch"]),
        ({"gpu": "16"}, {"gpu.count": "8"}, ["warning count-mismatch"]),
        ({"gpu": "8", "gpumem": "1"}, {"gpu.count": "2"}, []),
        ({"gpu": "3", "mig-1g.5gb": "7"}, {"gpu.count": "8"}, []),
        ({"gpu": "3"}, {"gpu.count": "8", "mig.strategy": "mixed"}, []),
        ({"gpu": "56"}, {"gpu.count": "56", "mig.strategy": "single", "gpu.product": "NVIDIA-A100-MIG-1g.5gb"}, []),
        ({"gpu": "8"}, {"gpu.count": "many"}, []),
        ({"gpu": "8"}, {"gpu.count": "-8"}, []),
        ({"gpu": "8"}, {"gpu.count": "0"}, []),
        ({"gpu": "8"}, {"gpu.count": "9" * 400}, []),
    ],
)
def test_counts(offered, labels, told):
    assert verdict(node(CONTAINER, offered, labels=labels), (policy(mig={"strategy": None}), operator())) == told


def test_a_plugin_of_another_project_may_offer_each_gpu_several_times():
    labels = {"gpu.count": "8", "gpu.deploy.device-plugin": "false"}
    assert verdict(node(CONTAINER, {"gpu": "80"}, labels=labels)) == ["info operand-off"]
    # Its own names stand for the node's GPUs.
    assert verdict(node(CONTAINER, {"vgpu": "80"}, labels={"gpu.count": "8"})) == []


def test_capacity_and_allocatable():
    def gpus(offered, capacity):
        return verdict(
            node(CONTAINER, {} if offered is None else {"gpu": offered}, {} if capacity is None else {"gpu": capacity})
        )

    assert gpus("8", "8") == gpus(8, "8") == gpus("8", 8.0) == []
    assert gpus("7", "8") == ["warning unhealthy-device"]
    assert gpus("0", "8") == ["warning none-allocatable"]
    # The kubelet follows a patched capacity within seconds; a lab without one shows either alone.
    assert gpus(None, "8") == gpus("8", None) == []
    assert gpus("8", "7") == []
    assert gpus("0", "0") == gpus(None, None) == ["error no-resource"]
    for wrong in ("1500m", "-1", "eight", True, None, [8], {"gpu": 8}, 1.5):
        assert verdict(node(CONTAINER, {"gpu": wrong})) == ["error invalid-resource-quantity"]
    # Where it is not a GPU's, unhealthy devices and leftovers are not this checker's business.
    nics = node(CONTAINER, {"gpu": "8", "hostdev": "0", "foo": "1"}, {"gpu": "8", "hostdev": "8", "foo": "2"})
    assert verdict(nics) == ["info unknown-resource"]


def test_the_change_of_a_layout_leaves_names_behind():
    left = node(CONTAINER, {"gpu": "0", "mig-1g.10gb": "56"}, {"gpu": "8", "mig-1g.10gb": "56"}, labels=MIXED)
    assert verdict(left) == ["info left-over-resource"]
