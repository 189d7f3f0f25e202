# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies of the profile `operator` that must not do harm: none undoes another, none acts in the midst of a change."""

import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_report import operator_text
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    PASSTHROUGH,
    SANDBOX_ON,
    VGPU,
    findings,
    node,
    operator,
    outcome,
    policy,
)


def remedy(rule, nodes, beside=SANDBOX_ON):
    return next(found["remedy"] for found in findings(nodes, beside) if found["rule"] == rule)


@pytest.mark.parametrize(
    "labels",
    [
        {"mig.config.state": "pending", "gpu.deploy.device-plugin": "paused-for-mig-change"},
        {"gpu-driver-upgrade-state": "pod-restart-required", "gpu.deploy.dcgm": "paused-for-driver-upgrade"},
    ],
)
def test_nothing_is_started_in_the_midst_of_a_change(labels):
    assert remedy("operand-paused", node(CONTAINER, labels=labels)).startswith("Nothing while the change is under way")
    left = {key: value for key, value in labels.items() if "state" not in key}
    assert remedy("operand-paused", node(CONTAINER, labels=left)).startswith("kubectl label node ")


def test_what_is_too_much_is_not_made_the_wish():
    vgpu = node(VGPU, {"NVIDIA_A10-4Q": "12", "NVIDIA_A10-12Q": "4"}, labels={"vgpu.config": "A10-4Q"})
    assert "kubectl label" not in remedy("vgpu-config-mismatch", vgpu)
    labels = {
        "mig.config": "all-1g.10gb",
        "mig.config.state": "success",
        "mig.strategy": "mixed",
        "mig.capable": "true",
    }
    labels["gpu.deploy.mig-manager"] = "true"
    both = node(CONTAINER, {"mig-1g.10gb": "56", "mig-3g.40gb": "16"}, labels=labels)
    assert "kubectl label" not in remedy("mig-config-mismatch", both)
    other = node(CONTAINER, {"mig-3g.40gb": "16"}, labels=labels)
    assert "mig.config=all-3g.40gb" in remedy("mig-config-mismatch", other)


def test_tolerations_are_added_to_a_list_that_is_there():
    tainted = node(CONTAINER, {})
    tainted["spec"]["taints"] = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    own = [{"key": "dedicated", "operator": "Exists"}]
    command = remedy("no-resource", tainted, (policy(daemonsets={"tolerations": own}), operator()))
    patch = json.loads(command.partition(" -p ")[2].strip("'"))
    assert "--type json" in command and patch == [
        {
            "op": "add",
            "path": "/spec/daemonsets/tolerations/-",
            "value": {"key": "team", "operator": "Exists", "effect": "NoSchedule"},
        }
    ]


def test_what_changes_the_whole_cluster_is_told():
    note = "  note   this changes the whole cluster, not these nodes alone"
    off = outcome(node(PASSTHROUGH, deployed=CONTAINER), (policy(sandbox=False), operator()))
    assert note in list(operator_text(off))
    assert note not in list(operator_text(outcome(node(PASSTHROUGH, {"gpu": "4"}, deployed=CONTAINER))))
