# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule of the profile `operator` has a case that fires it, with each severity that its page names.

A case is (rule, severity, nodes, what is beside them, all that is told).
"""

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES, explain
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    NFD,
    NOTHING_BESIDE,
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

MIG = {"mig.strategy": "mixed", "mig.capable": "true", "gpu.deploy.mig-manager": "true"}
OFF = {"gpu.deploy.operands": "false"}
VM_DEFAULT = (policy(default=PASSTHROUGH), operator())
OLD = (policy(), operator("v26.3.3"))
NEW_UNKNOWN_VERSION = (policy(),)
NO_GPU = {NFD: ..., "gpu.present": "false"}


def changed(name, *, value, **more):
    return {f"gpu.deploy.{name}": value, **more}


CASES = [
    ("unknown-workload-label", "error", node("vm-gpu", {"NVIDIA_A10-12Q": "4"}, deployed=VGPU), NOTHING_BESIDE, []),
    ("unknown-workload-label", "error", node("", {"gpu": "8"}, deployed=CONTAINER), SANDBOX_ON, []),
    ("unknown-workload-label", "warning", node("Container", {"gpu": "8"}, deployed=CONTAINER), SANDBOX_OFF, []),
    ("invalid-resource-quantity", "error", node(CONTAINER, {"gpu": "1500m"}), SANDBOX_ON, []),
    ("no-resource", "error", node(CONTAINER, {}), SANDBOX_ON, []),
    ("no-resource", "warning", node(VGPU, {"gpu": "0"}, {"gpu": "4"}), SANDBOX_ON, ["info left-over-resource"]),
    ("wrong-resource", "error", node(VGPU, {"gpu": "4"}), SANDBOX_ON, []),
    ("wrong-resource", "warning", node(PASSTHROUGH, {"gpu": "4"}, mode="kata"), NOTHING_BESIDE, []),
    (
        "wrong-resource",
        "warning",
        node(VGPU, {"gpu": "4"}, deployed=None, labels=OFF),
        SANDBOX_ON,
        ["info operands-disabled"],
    ),
    ("several-kinds", "error", node(CONTAINER, {"gpu": "4", "NVIDIA_A10-12Q": "4"}), SANDBOX_ON, []),
    ("several-kinds", "info", bare(None, {"gpu": "4", "GA102GL_A10": "1"}), NOTHING_BESIDE, []),
    ("sandbox-disabled", "error", node(VGPU, {"gpu": "8"}, deployed=CONTAINER), SANDBOX_OFF, []),
    ("gpu-not-present", "warning", node(CONTAINER, {}, deployed=None, labels=NO_GPU), SANDBOX_ON, []),
    ("gpu-not-present", "info", node(CONTAINER, {"gpu": "8"}, deployed=None, labels=NO_GPU), NOTHING_BESIDE, []),
    ("operands-disabled", "info", node(CONTAINER, {}, deployed=None, labels=OFF), SANDBOX_ON, []),
    ("workload-by-default", "info", node(None, {"gpu": "8"}, deployed=CONTAINER), SANDBOX_ON, []),
    ("default-uncertain", "info", node(None, {"GA102GL_A10": "2"}, deployed=PASSTHROUGH), VM_DEFAULT, []),
    ("default-uncertain", "warning", node(None, {"gpu": "8"}, deployed=CONTAINER), VM_DEFAULT, []),
    ("none-allocatable", "warning", node(CONTAINER, {"gpu": "0"}, {"gpu": "8"}), SANDBOX_ON, []),
    ("unhealthy-device", "warning", node(CONTAINER, {"gpu": "7"}, {"gpu": "8"}), SANDBOX_ON, []),
    (
        "left-over-resource",
        "info",
        node(PASSTHROUGH, {"gpu": "0", "GA102GL_A10": "2"}, {"gpu": "4", "GA102GL_A10": "2"}),
        SANDBOX_ON,
        [],
    ),
    ("unknown-resource", "info", node(PASSTHROUGH, {"TU104GL_Tesla_T4": "1"}), SANDBOX_ON, []),
    (
        "companion-resource",
        "info",
        node(PASSTHROUGH, {"2571": "1", "GA102_HIGH_DEFINITION_AUDIO_CONTROLLER": "1"}),
        SANDBOX_ON,
        [],
    ),
    ("plugin-of-other-mode", "warning", node(PASSTHROUGH, {"pgpu": "8"}), SANDBOX_ON, []),
    (
        "plugin-disabled",
        "warning",
        node(PASSTHROUGH, {}),
        (policy(sandboxDevicePlugin={"enabled": False}), operator()),
        [],
    ),
    ("operand-off", "info", node(labels=changed("dcgm", value="false")), SANDBOX_ON, []),
    ("operand-paused", "warning", node(labels=changed("dcgm", value="paused-for-mig-change")), SANDBOX_ON, []),
    (
        "operand-paused",
        "info",
        node(labels={**changed("dcgm", value="paused-for-mig-change"), **MIG, "mig.config.state": "pending"}),
        SANDBOX_ON,
        ["info mig-change-pending"],
    ),
    ("operand-blocked", "error", node(labels=changed("device-plugin", value=""), version="26.3.3"), OLD, []),
    ("operand-blocked", "warning", node(labels=changed("dcgm-exporter", value=""), version="26.3.3"), OLD, []),
    ("operand-blocked", "warning", node(labels=changed("device-plugin", value="")), NEW_UNKNOWN_VERSION, []),
    ("operand-blocked", "warning", node(labels={**MIG, **changed("mig-manager", value="")}), SANDBOX_ON, []),
    ("operand-label-invalid", "warning", node(labels=changed("device-plugin", value="True")), SANDBOX_ON, []),
    ("deploy-label-missing", "warning", node(labels=changed("container-toolkit", value=...)), SANDBOX_ON, []),
    ("operand-off", "warning", node(labels={"gpu.deploy.container-toolkit": "false"}), SANDBOX_ON, []),
    (
        "ignore-unknown-rule",
        "warning",
        node(annotations={"gpuwl.sandbox/ignore.typo": "because"}),
        SANDBOX_ON,
        [],
    ),
    ("operator-behind", "warning", node(VGPU, deployed=CONTAINER), SANDBOX_ON, []),
    ("host-driver", "warning", node(PASSTHROUGH, labels=changed("driver", value="pre-installed")), SANDBOX_ON, []),
    ("driver-upgrade-failed", "error", node(labels={"gpu-driver-upgrade-state": "upgrade-failed"}), SANDBOX_ON, []),
    (
        "driver-upgrade-pending",
        "info",
        node(CONTAINER, {"gpu": "0"}, {"gpu": "8"}, labels={"gpu-driver-upgrade-state": "drain-required"}),
        SANDBOX_ON,
        [],
    ),
    (
        "vgpu-change-pending",
        "info",
        node(VGPU, {}, labels={"vgpu.config": "A10-4Q", "vgpu.config.state": "pending"}),
        SANDBOX_ON,
        [],
    ),
    (
        "vgpu-change-failed",
        "error",
        node(VGPU, {}, labels={"vgpu.config": "A10-5Q", "vgpu.config.state": "failed"}),
        SANDBOX_ON,
        [],
    ),
    ("vgpu-config-mismatch", "error", node(VGPU, labels={"vgpu.config": "A10-4Q"}), SANDBOX_ON, []),
    (
        "vgpu-quantity-mismatch",
        "warning",
        node(VGPU, {"NVIDIA_A10-4Q": "7"}, labels={"vgpu.config": "A10-4Q"}),
        SANDBOX_ON,
        [],
    ),
    ("vgpu-config-unknown", "info", node(VGPU, labels={"vgpu.config": "half-and-half"}), SANDBOX_ON, []),
    (
        "mig-change-pending",
        "info",
        node(CONTAINER, {}, labels={**MIG, "mig.config.state": "rebooting"}),
        SANDBOX_ON,
        [],
    ),
    (
        "mig-change-failed",
        "error",
        node(CONTAINER, {}, labels={**MIG, "mig.config": "all-1g.5gb", "mig.config.state": "failed"}),
        SANDBOX_ON,
        [],
    ),
    (
        "mig-strategy-mismatch",
        "error",
        node(CONTAINER, {"mig-1g.10gb": "7"}, labels={**MIG, "mig.strategy": "single"}),
        SANDBOX_ON,
        [],
    ),
    (
        "mig-config-mismatch",
        "error",
        node(
            CONTAINER, {"mig-3g.40gb": "2"}, labels={**MIG, "mig.config": "all-1g.10gb", "mig.config.state": "success"}
        ),
        SANDBOX_ON,
        [],
    ),
    (
        "mig-quantity-mismatch",
        "warning",
        node(CONTAINER, {"mig-1g.10gb": "14"}, labels={**MIG, "mig-1g.10gb.count": "7"}),
        SANDBOX_ON,
        [],
    ),
    (
        "mig-layout-not-single",
        "error",
        node(CONTAINER, {}, labels={**MIG, "mig.config": "all-balanced", "mig.strategy": "single"}),
        SANDBOX_ON,
        ["error no-resource"],
    ),
    (
        "mig-config-without-manager",
        "warning",
        node(labels={"mig.config": "all-1g.18gb", "gpu.product": "NVIDIA-H200"}),
        SANDBOX_ON,
        [],
    ),
    (
        "sharing-not-applied",
        "warning",
        node(CONTAINER, {"gpu": "2"}, labels={"gpu.count": "2", "gpu.replicas": "4"}),
        SANDBOX_ON,
        [],
    ),
    ("count-mismatch", "warning", node(CONTAINER, {"gpu": "7"}, labels={"gpu.count": "8"}), SANDBOX_ON, []),
    ("dra-node", "info", node(CONTAINER, {}), (*SANDBOX_ON, resource_slice()), []),
    ("dra-and-plugin", "warning", node(CONTAINER, {"gpu": "8"}), (*SANDBOX_ON, resource_slice()), []),
    ("second-cluster-policy", "warning", node(), (*SANDBOX_ON, policy(name="other", state="")), []),
    ("conflicting-gpu-cluster", "error", node(), (*SANDBOX_ON, gpu_cluster()), []),
    (
        "ignore-without-reason",
        "warning",
        node(annotations={"gpuwl.sandbox/ignore.count-mismatch": " "}),
        SANDBOX_ON,
        [],
    ),
]


@pytest.mark.parametrize("rule, severity, nodes, beside, others", CASES)
def test_a_rule_fires_with_its_severity_and_little_else(rule, severity, nodes, beside, others):
    assert sorted(verdict(nodes, beside)) == sorted([f"{severity} {rule}", *others])


def test_every_rule_has_a_case_of_each_severity_that_its_page_names():
    pages = {
        (rule, severity)
        for rule, page in RULE_PAGES.items()
        if "operator" in page.profiles.split()
        for severity in page.severity.split(" or ")
    }
    assert {case[:2] for case in CASES} == pages


def test_every_page_can_be_read():
    for rule, page in RULE_PAGES.items():
        assert rule == rule.lower() and " " not in rule
        assert page.what.endswith(".") and page.why.endswith(".") and page.source and page.example
        text = explain(rule)
        assert text.startswith(f"{rule} (") and text.isprintable() == ("\n" not in text)
        assert page.needs in ("", "ClusterPolicy", "version", "ResourceSlice")


@pytest.mark.parametrize("rule, severity, nodes, beside, others", CASES)
def test_a_finding_can_be_understood_alone(rule, severity, nodes, beside, others):
    (found,) = [one for one in findings(nodes, beside) if one["rule"] == rule]
    assert found["message"] and found["remedy"] and "{node}" not in found["remedy"]
    assert found["evidence"]
    assert found["node"] == ("gpu-1" if found["subject"]["kind"] == "Node" else None)
    # A command, or a sentence that says what to do.
    assert found["remedy"].startswith(("kubectl ", "for n in ")) or found["remedy"][0].isupper()


@pytest.mark.parametrize("rule, severity, nodes, beside, others", CASES)
def test_an_annotation_with_a_reason_silences_a_rule_on_a_node(rule, severity, nodes, beside, others):
    if rule in ("second-cluster-policy", "conflicting-gpu-cluster", "ignore-without-reason", "ignore-unknown-rule"):
        return  # not about a node, or about the annotation
    key = f"gpuwl.sandbox/ignore.{rule}"
    with_reason = {**nodes, "metadata": {**nodes["metadata"], "annotations": {key: "being repaired"}}}
    found = outcome(with_reason, beside)
    assert rule not in [one["rule"] for one in found.findings()]
    silenced = [one for one in found.silenced() if one["rule"] == rule]
    assert [(one["by"], one["reason"], one["node"]) for one in silenced] == [("annotation", "being repaired", "gpu-1")]
    without = {**nodes, "metadata": {**nodes["metadata"], "annotations": {key: ""}}}
    assert {rule, "ignore-without-reason"} <= {one["rule"] for one in findings(without, beside)}


@pytest.mark.parametrize("rule, severity, nodes, beside, others", CASES)
def test_ignores_silence_a_rule_everywhere_or_on_a_node(rule, severity, nodes, beside, others):
    about = {"second-cluster-policy": "other", "conflicting-gpu-cluster": "gpu-cluster"}.get(rule, "gpu-1")
    for ignored in ("", about):
        found = outcome(nodes, beside, ignores=frozenset([(rule, ignored)]))
        assert rule not in [one["rule"] for one in found.findings()]
        assert [one["by"] for one in found.silenced() if one["rule"] == rule] == ["--ignore"]
    found = outcome(nodes, beside, ignores=frozenset([(rule, "gpu-2")]))
    assert rule in [one["rule"] for one in found.findings()]
    assert not list(found.silenced())
