# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where desiredNumberScheduled and a ClusterPolicy's `ready` say that all is well, and operands are missing."""

import pytest
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operand_builders import (
    NOT_CHECKED,
    OPERATOR_SETS,
    audit,
    cluster_policy,
    daemonset,
    gpu_node,
    in_operator,
    only_node,
    operator_sets,
    pods_on,
    rules,
)

EXPORTER = ("dcgm-exporter",)  # needed by nothing


def misled(result):
    return {one["object"]: (one["says"], one["but"]) for one in result["misleading"]}


def test_a_tainted_out_node_is_not_counted_and_all_looks_well():
    result = audit(
        cluster_policy(), operator_sets(), gpu_node("gpu-1"), gpu_node("gpu-2", [NOT_CHECKED]), pods_on("gpu-1")
    )
    found = misled(result)
    assert len(found) == 1 + len(OPERATOR_SETS)
    assert found["ClusterPolicy cluster-policy"][0] == "state ready"
    assert "taint-not-tolerated: gpu-2" in found["ClusterPolicy cluster-policy"][1]
    says, but = found["DaemonSet gpu-operator/nvidia-driver-daemonset"]
    assert says == "desiredNumberScheduled 1, numberReady 1" and "gpu-2" in but


def test_a_daemonset_that_says_itself_that_pods_are_missing_does_not_mislead():
    sets = [*operator_sets(without=EXPORTER), daemonset("nvidia-dcgm-exporter", "dcgm-exporter", numbers=(1, 0))]
    result = in_operator(EXPORTER, sets=sets, policy=cluster_policy(state="notReady"))
    assert result["misleading"] == []


@pytest.mark.parametrize("values", [{"dcgm_exporter": None}, {"dcgm_exporter": "false"}], ids=["lost", "opt-out"])
def test_lost_labels_and_opt_outs_leave_all_ready(values):
    found = misled(in_operator(EXPORTER, **values))
    assert set(found) == {"ClusterPolicy cluster-policy", "DaemonSet gpu-operator/nvidia-dcgm-exporter"}


def test_a_second_cluster_policy_is_ignored_and_the_first_ready():
    result = audit(
        cluster_policy(),
        cluster_policy("second", state="", driver={"enabled": False}),
        operator_sets(),
        gpu_node(),
        pods_on("gpu-1"),
    )
    assert rules(result) == [("warning", "second-cluster-policy", None)]
    assert misled(result)["ClusterPolicy cluster-policy"][1].startswith("ClusterPolicy second is there too")
    assert "driver" in only_node(result)["due"], "the one that has a status counts"
