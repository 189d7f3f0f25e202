# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which use a node has, and the labels by which its operands are chosen: cases of each, the silent ones above all."""

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labels import nearest_workload
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    LABEL,
    NFD,
    NOTHING_BESIDE,
    OFFERED,
    PASSTHROUGH,
    SANDBOX_OFF,
    SANDBOX_ON,
    VGPU,
    findings,
    node,
    operator,
    policy,
    verdict,
)

WORKLOADS = (CONTAINER, PASSTHROUGH, VGPU)
NO_GPU = {NFD: ..., "gpu.present": ...}


def beside(version="v26.7.0", **more):
    return (policy(**more), operator(version))


@pytest.mark.parametrize("version", ["25.10.1", "26.3.3", "26.7.0"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_healthy_node_of_each_use_and_version(workload, version):
    one = node(workload, version=version)
    for around in (
        beside("v" + version),
        beside("v" + version, default=VGPU),
        (policy(),),
        (operator("v" + version),),
        (),
    ):
        assert verdict(one, around) == []


def test_a_healthy_node_of_mode_kata():
    one = node(PASSTHROUGH, {"pgpu": "8", "nvswitch": "4"}, mode="kata")
    assert verdict(one, beside(mode="kata")) == []
    assert verdict(one, NOTHING_BESIDE) == []
    assert (
        verdict(node(PASSTHROUGH, {"pgpu": "8"}, mode="kata", version="26.3.3"), beside("v26.3.3", mode="kata")) == []
    )


def test_vgpus_in_mode_kata_have_no_plugin():
    around = beside(mode="kata")
    (found,) = findings(node(VGPU, {}, mode="kata"), around)
    assert (found["rule"], found["severity"]) == ("plugin-disabled", "warning")
    assert "mode kata" in found["message"] and '"mode":"kubevirt"' in found["remedy"]
    assert verdict(node(VGPU, mode="kata"), around) == []  # another plugin offers them


@pytest.mark.parametrize("label", [*WORKLOADS, None])
def test_without_sandbox_every_node_is_a_container_node(label):
    told = ["error sandbox-disabled"] if label in (PASSTHROUGH, VGPU) else []
    assert verdict(node(label, {"gpu": "8"}, deployed=CONTAINER), SANDBOX_OFF) == told
    # An absent section is off too.
    absent = (policy(sandboxWorkloads={"enabled": None}), operator())
    assert verdict(node(label, {"gpu": "8"}, deployed=CONTAINER), absent) == told


def test_vm_resources_without_sandbox():
    a10 = {"GA102GL_A10": "2"}
    assert verdict(node(PASSTHROUGH, a10, deployed=None, labels=operand_labels()), SANDBOX_OFF) == [
        "error sandbox-disabled"
    ]
    for label, severity in ((CONTAINER, "error"), (None, "warning"), (VGPU, "warning")):
        found = findings(node(label, a10, deployed=CONTAINER), SANDBOX_OFF)
        (wrong,) = [one for one in found if one["rule"] == "wrong-resource"]
        assert wrong["severity"] == severity
        # Both are needed, for the label alone does nothing.
        assert '"enabled":true' in wrong["remedy"] and f"{LABEL}={PASSTHROUGH}" in wrong["remedy"]
    # A node that is taken out has its software from elsewhere.
    out = node(PASSTHROUGH, a10, deployed=None, labels={"gpu.deploy.operands": "false"})
    assert verdict(out, SANDBOX_OFF) == ["info operands-disabled"]
    without_label = node(None, a10, deployed=None, labels={"gpu.deploy.operands": "false"})
    for around in (SANDBOX_OFF, SANDBOX_ON, NOTHING_BESIDE):
        assert verdict(without_label, around) == []
        # Where a label says what it is for, that is compared still.
        other = node(CONTAINER, a10, deployed=None, labels={"gpu.deploy.operands": "false"})
        assert set(verdict(other, around)) == {"warning wrong-resource", "info operands-disabled"}


def operand_labels(workload=CONTAINER):
    return {key: value for key, value in node(workload)["metadata"]["labels"].items() if "gpu.deploy" in key}


@pytest.mark.parametrize("default", WORKLOADS)
@pytest.mark.parametrize("version", ["v25.10.1", "v26.3.3"])
def test_a_node_without_a_label_has_the_default(default, version):
    one = node(None, OFFERED[default], deployed=default, version=version[1:])
    assert verdict(one, beside(version, default=default)) == ["info workload-by-default"]
    other = PASSTHROUGH if default == CONTAINER else CONTAINER
    behind = node(None, OFFERED[other], deployed=other, version=version[1:])
    assert set(verdict(behind, beside(version, default=default))) == {
        "error wrong-resource",
    }


def test_in_26_7_a_node_without_any_deploy_label_is_judged_by_the_default():
    one = node(None, {}, deployed=None)
    assert sorted(verdict(one, beside(default=VGPU))) == [
        "error no-resource",
        "info default-uncertain",
        "warning deploy-label-missing",
    ]


@pytest.mark.parametrize("label", ["", "vm-gpu", "Container", None])
def test_a_node_with_an_invalid_label_has_the_default_too(label):
    told = ["info workload-by-default"] if label is None else ["error unknown-workload-label"]
    assert verdict(node(label, OFFERED[VGPU], deployed=VGPU, version="26.3.3"), beside("v26.3.3", default=VGPU)) == told


@pytest.mark.parametrize("actual", [CONTAINER, VGPU])
def test_in_26_7_the_deploy_labels_tell_what_became_of_the_default(actual):
    one = node(None, OFFERED[actual], deployed=actual)
    (found,) = findings(one, beside(default=VGPU))
    assert found["rule"] == "default-uncertain"
    assert found["severity"] == ("warning" if actual == CONTAINER else "info")
    assert found["remedy"].endswith(f"{LABEL}={VGPU} --overwrite")
    # What it offers is judged by what it became.
    wrong = node(None, OFFERED[PASSTHROUGH], deployed=actual)
    assert "error wrong-resource" in verdict(wrong, beside(default=VGPU))


def test_a_default_that_nobody_names_is_told_by_the_deploy_labels():
    for workload in WORKLOADS:
        assert verdict(node(None, OFFERED[workload], deployed=workload), NOTHING_BESIDE) == []
        other = VGPU if workload != VGPU else CONTAINER
        assert verdict(node(None, OFFERED[workload], deployed=other), NOTHING_BESIDE) == ["error wrong-resource"]


@pytest.mark.parametrize("value", ["False", "no", "", "true"])
def test_only_the_literal_false_takes_a_node_out(value):
    assert verdict(node(CONTAINER, {}, labels={"gpu.deploy.operands": value})) == ["error no-resource"]
    assert verdict(node(CONTAINER, {}, deployed=None, labels={"gpu.deploy.operands": "false"})) == [
        "info operands-disabled"
    ]
    assert verdict(node(None, {}, deployed=None, labels={"gpu.deploy.operands": "false"})) == []


@pytest.mark.parametrize(
    "label, meant",
    [
        ("Container", CONTAINER),
        ("containers", CONTAINER),
        ("contianer", CONTAINER),
        ("vm_passthrough", PASSTHROUGH),
        ("VM-Passthrough", PASSTHROUGH),
        ("vm-passthru", ""),
        ("vmpassthrough", PASSTHROUGH),
        ("passthrough", PASSTHROUGH),
        ("vm-passtrough", PASSTHROUGH),
        ("vgpu", VGPU),
        ("vm-gpu", VGPU),
        ("vm-vgpu ", VGPU),
        ("none", ""),
        ("", ""),
        ("vcuda", ""),
        (None, ""),
        (4, ""),
    ],
)
def test_a_misspelt_label_is_told_with_what_was_meant(label, meant):
    assert nearest_workload(label) == meant
    if label is not None:
        (found,) = [
            one
            for one in findings(node(label, {"gpu": "8"}, deployed=CONTAINER))
            if one["rule"] == "unknown-workload-label"
        ]
        assert (f"it is near {meant}" in found["message"]) == bool(meant)
        assert f"{LABEL}={meant or CONTAINER} " in found["remedy"]


@pytest.mark.parametrize(
    "operand", ["dcgm", "device-plugin", "kata-manager", "mig-manager", "nvsm", "sandbox-validator", "client"]
)
def test_an_empty_deploy_label(operand):
    """It blocks an operand of this use before 26.7; the driver manager puts it also where nothing is to run."""
    one = node(labels={f"gpu.deploy.{operand}": ""})
    here = operand in ("dcgm", "device-plugin")
    assert verdict(one, beside("v26.7.0")) == []
    assert verdict(one, beside("v27.1.0")) == []
    expected = {"dcgm": ["warning operand-blocked"], "device-plugin": ["error operand-blocked"]}.get(operand, [])
    for version in ("v26.3.3", "v25.10.1", "v25.3.0"):
        assert verdict(one, beside(version)) == expected
    assert verdict(one, (policy(),)) == (["warning operand-blocked"] if here else [])


def test_mig_manager_is_blocked_only_where_it_is_wanted():
    empty = {"gpu.deploy.mig-manager": ""}
    for version in ("v26.3.3", "v26.7.0"):
        around = beside(version)
        assert verdict(node(labels={**empty, "gpu.product": "Tesla-T4"}), around) == []
        assert verdict(node(labels={**empty, "gpu.product": "NVIDIA-A100-PCIE-40GB"}), around) == [
            "warning operand-blocked"
        ]
        assert verdict(node(PASSTHROUGH, labels={**empty, "mig.capable": "true"}), around) == []
        wish = {**empty, "mig.config": "all-1g.18gb", "gpu.product": "NVIDIA-H200"}
        assert verdict(node(labels=wish), around) == ["warning mig-config-without-manager"]


@pytest.mark.parametrize(
    "value, state, severity",
    [
        ("paused-for-mig-change", {"mig.config.state": "pending"}, "info"),
        ("paused-for-mig-change", {"mig.config.state": "rebooting"}, "info"),
        ("paused-for-mig-change", {"mig.config.state": "success"}, "warning"),
        ("paused-for-mig-change", {}, "warning"),
        ("paused-for-driver-upgrade", {"gpu-driver-upgrade-state": "pod-restart-required"}, "info"),
        ("true_paused-for-driver-upgrade", {"gpu-driver-upgrade-state": "validation-required"}, "info"),
        ("true_paused-for-driver-upgrade", {"gpu-driver-upgrade-state": "upgrade-done"}, "warning"),
        ("true_paused-for-driver-upgrade", {"gpu-driver-upgrade-state": "upgrade-failed"}, "warning"),
        ("paused-for-driver-upgrade", {}, "warning"),
        ("paused-for-something-new", {}, "warning"),
    ],
)
def test_a_pause_is_a_fault_where_no_change_is_under_way(value, state, severity):
    one = node(labels={"gpu.deploy.dcgm-exporter": value, **state})
    assert f"{severity} operand-paused" in verdict(one)
    # The same on the plugin explains why nothing is offered.
    plugin = node(CONTAINER, {"gpu": "0"}, {"gpu": "8"}, labels={"gpu.deploy.device-plugin": value, **state})
    assert not {"no-resource", "none-allocatable"} & {one["rule"] for one in findings(plugin)}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_labels_that_are_left_over_or_of_others_are_no_fault(workload):
    """What stays on a node after a change of use, or belongs to it in health."""
    left = {
        "gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "gpu.count": "8",
        "gpu.memory": "40960",
        "gpu.replicas": "1",
    }
    left.update({"vgpu.config": "A10-12Q", "vgpu.config.state": "success", "gpu-driver-upgrade-state": "upgrade-done"})
    left.update(
        {"gpu-operator.driver.owner": "gpu-driver", "gpu.deploy.nvsm": "paused-for-mig-change", "mps.capable": "false"}
    )
    left["mig.config"] = "all-disabled"
    assert verdict(node(workload, labels=left)) == []
    # Each kind of leftover of another use's change, whatever its state.
    for state in ("pending", "failed", "rebooting"):
        stale = {"vgpu.config.state": state} if workload != VGPU else {"mig.config.state": state}
        assert verdict(node(workload, labels=stale)) == []
        # It does not excuse a node that offers nothing.
        assert verdict(node(workload, {}, labels=stale)) == ["error no-resource"]


def test_a_state_of_a_manager_that_is_off_is_left_over():
    off = beside(migManager={"enabled": False}, vgpuDeviceManager={"enabled": False})
    for workload, what in ((CONTAINER, "mig"), (VGPU, "vgpu")):
        for state in ("pending", "failed"):
            assert verdict(node(workload, labels={f"{what}.config.state": state}), off) == []
            assert verdict(node(workload, {}, labels={f"{what}.config.state": state}), off) == ["error no-resource"]


def test_labels_in_the_midst_of_a_change():
    # The label is new, and the operator has not looked yet.
    fresh = node(PASSTHROUGH, {"gpu": "8"}, deployed=CONTAINER)
    (wrong,) = findings(fresh, SANDBOX_ON)
    assert wrong["rule"] == "wrong-resource" and "the operator has not followed the label" in wrong["message"]
    # Once the old resource is gone, the labels alone tell.
    behind = next(one for one in findings(node(PASSTHROUGH, deployed=CONTAINER), SANDBOX_ON) if "behind" in one["rule"])
    assert behind["rule"] == "operator-behind" and "nvidia.com/gpu.deploy.device-plugin-" in behind["remedy"]
    assert "nvidia.com/gpu.deploy.vfio-manager=true" in behind["remedy"]
    # Without a ClusterPolicy sandboxWorkloads may be off, and then the labels are right: nothing is to be changed.
    (wrong,) = findings(fresh, NOTHING_BESIDE)
    assert "or sandboxWorkloads is off" in wrong["message"]
    (behind,) = [
        one for one in findings(node(PASSTHROUGH, deployed=CONTAINER), NOTHING_BESIDE) if "behind" in one["rule"]
    ]
    assert behind["remedy"].startswith("See ") and "sandboxWorkloads" in behind["message"]
    # The operator has exchanged the labels, and Pods are starting.
    assert verdict(node(PASSTHROUGH, {"gpu": "0"}, {"gpu": "8"})) == ["warning no-resource", "info left-over-resource"]


def test_removed_deploy_labels():
    some = node(labels={"gpu.deploy.dcgm": ..., "gpu.deploy.container-toolkit": ...})
    (found,) = findings(some)
    assert "container-toolkit, dcgm" in found["message"] and "26.7 does not put them back" in found["message"]
    assert found["remedy"].count("=true") == 2
    assert "26.7" not in findings(some, beside("v26.3.3"))[0]["message"]
    (found,) = findings(node(deployed=None))
    assert "(all)" in found["message"]
    # Operands that not every version has, or that are off by default, are not asked for.
    assert (
        verdict(
            node(PASSTHROUGH, labels={f"gpu.deploy.{one}": ... for one in ("kata-manager", "cc-manager", "client")})
        )
        == []
    )
