# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs before what it needs: on a real operator, and by the chain of the lab."""

import pytest
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operand_builders import (
    CHAIN,
    DEPLOY,
    NOT_CHECKED,
    audit,
    causes,
    cluster_policy,
    in_operator,
    lab_pods,
    lab_sets,
    labels_of,
    node,
    only_node,
    operator_sets,
    pairs,
    pod,
    pods_on,
    rules,
)

WORKLOAD = "nvidia.com/gpu.workload.config"


# Out of order on a real operator.


def test_a_device_plugin_without_the_toolkit_is_an_error_and_comes_first():
    result = in_operator(("container-toolkit",), container_toolkit=None)
    assert pairs(only_node(result))[0] == ("device-plugin", "container-toolkit")
    # That the toolkit's label is gone is not told twice.
    assert rules(result) == [("error", "toolkit-missing", "gpu-1")]
    first = result["findings"][0]
    assert "nothing reports" in first["message"]
    assert first["remedy"] == "kubectl label node gpu-1 nvidia.com/gpu.deploy.container-toolkit=true --overwrite"


def test_a_toolkit_taken_off_on_purpose_may_be_the_hosts():
    result = in_operator(("container-toolkit",), container_toolkit="false")
    assert ("warning", "toolkit-missing", "gpu-1") in rules(result)
    found = next(one for one in result["findings"] if one["rule"] == "toolkit-missing")
    assert found["remedy"].startswith("Nothing if the host has a toolkit of its own; else: kubectl label node gpu-1 ")


@pytest.mark.parametrize(
    ("values", "policy"),
    [
        ({"driver": "false"}, None),
        ({"driver": "pre-installed"}, None),
        ({}, cluster_policy(driver={"enabled": False})),
    ],
    ids=["off on purpose", "in the host", "off in the cluster"],
)
def test_a_driver_that_is_met_otherwise(values, policy):
    sets = operator_sets(without=("driver",)) if policy else None
    result = in_operator(("driver",), policy=policy, sets=sets, **values)
    assert only_node(result)["out_of_order"] == []
    assert [one["rule"] for one in result["findings"]] in ([], ["operand-off"])


def test_a_toolkit_off_in_the_cluster_is_the_hosts_and_the_driver_still_needed():
    policy = cluster_policy(toolkit={"enabled": False})
    gone = ("container-toolkit",)
    result = in_operator(gone, policy=policy, sets=operator_sets(without=gone))
    assert only_node(result)["out_of_order"] == []
    result = in_operator((*gone, "driver"), policy=policy, sets=operator_sets(without=gone), driver=None)
    assert ("device-plugin", "driver") in pairs(only_node(result))


def test_the_needs_of_a_real_operator_are_not_the_labs():
    """GPU Feature Discovery waits for the toolkit and not for the device plugin; the validator waits for that."""
    result = in_operator(("device-plugin",), device_plugin=None)
    assert pairs(only_node(result)) == [("operator-validator", "device-plugin")]
    assert ("warning", "operand-out-of-order", "gpu-1") in rules(result)


def test_a_pod_that_waits_for_a_missing_operand_says_so():
    waiting = {
        "phase": "Pending",
        "initContainerStatuses": [
            {"name": "driver-validation", "state": {"terminated": {"exitCode": 0}}},
            {"name": "toolkit-validation", "state": {"running": {}}},
        ],
    }
    gone = ("container-toolkit", "operator-validator")
    pods = [*pods_on("gpu-1", gone), pod("nvidia-operator-validator", "gpu-1", status=waiting)]
    result = in_operator(pods=pods, container_toolkit=None)
    (found,) = [one for one in only_node(result)["missing"] if one["operand"] == "operator-validator"]
    assert found["cause"] == "pod-not-running"
    assert "Init:1/2" in found["detail"] and "it waits for container-toolkit" in found["detail"]
    assert ("info", "operand-not-running", "gpu-1") in rules(result)
    # By itself the same Pod is being started, which is a warning.
    alone = in_operator(pods=[*pods_on("gpu-1", ("operator-validator",)), pods[-1]])
    assert rules(alone) == [("warning", "operand-not-running", "gpu-1")]


# Without an operator: the lab.


def test_the_labs_two_nodes_of_which_one_has_the_driver():
    """A driver that nobody labelled is missing, and what runs before it is out of order."""
    without = labels_of(CHAIN, driver=None)
    result = audit(
        lab_sets(),
        node("gpu-1", labels_of(CHAIN)),
        node("gpu-2", without),
        lab_pods("gpu-1"),
        lab_pods("gpu-2", CHAIN[1:]),
        version=None,
    )
    first, second = result["nodes"]
    assert first["running"] == first["due"] == sorted(CHAIN) and not first["missing"]
    assert causes(second) == {"driver": "label-absent"} and pairs(second) == [("container-toolkit", "driver")]
    assert result["operator"] is False and result["operator_version"] is None
    assert rules(result) == [("warning", "operand-out-of-order", "gpu-2")]


def test_the_labs_driver_that_is_off_on_purpose():
    result = audit(lab_sets(), node("gpu-1", labels_of(CHAIN, driver="false")), lab_pods("gpu-1", CHAIN[1:]))
    assert only_node(result)["out_of_order"] == [] and causes(only_node(result)) == {"driver": "label-not-true"}
    assert rules(result) == [("info", "operand-off", "gpu-1")]


def test_a_hand_labelled_node_with_the_device_plugin_alone():
    result = audit(lab_sets(), node("gpu-3", labels_of(("device-plugin",))), lab_pods("gpu-3", ("device-plugin",)))
    assert pairs(only_node(result)) == [("device-plugin", "container-toolkit")]
    assert rules(result)[0] == ("error", "toolkit-missing", "gpu-3")


def test_the_labs_chain_goes_through_each_link():
    gone = "gpu-feature-discovery"
    running = [one for one in CHAIN if one != gone]
    result = audit(lab_sets(), node("gpu-1", labels_of(running)), lab_pods("gpu-1", running))
    assert pairs(only_node(result)) == [("operator-validator", gone)]


def test_a_link_that_the_lab_does_not_have_counts_as_met():
    operands = ("driver", "device-plugin")
    result = audit(lab_sets(operands), node("gpu-1", labels_of(operands)), lab_pods("gpu-1", operands))
    assert only_node(result)["due"] == sorted(operands) and result["findings"] == []
    # What that one would need takes its place.
    result = audit(lab_sets(operands), node("gpu-1", labels_of(operands)), lab_pods("gpu-1", operands[1:]))
    assert pairs(only_node(result)) == [("device-plugin", "driver")]


def test_a_label_that_asks_for_what_no_daemonset_brings():
    result = audit(lab_sets(CHAIN[:3]), node("gpu-1", labels_of(CHAIN[:4])), lab_pods("gpu-1", CHAIN[:3]))
    assert causes(only_node(result)) == {"gpu-feature-discovery": "daemonset-absent"}
    assert [one["rule"] for one in result["findings"]] == ["daemonset-missing"]


@pytest.mark.parametrize(
    ("labels", "resources", "is_gpu_node"),
    [
        ({}, {}, False),
        ({"nvidia.com/gpu.present": "true"}, {}, True),
        ({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, {}, True),
        ({DEPLOY + "driver": "false"}, {}, True),
        ({}, {"nvidia.com/gpu": "4"}, True),
        ({}, {"nvidia.com/gpu": "0"}, False),
        ({}, {"nvidia.com/anything": "1"}, True),
    ],
)
def test_what_makes_a_node_of_the_lab_one_with_gpus(labels, resources, is_gpu_node):
    result = audit(lab_sets(), node("gpu-1", labels, resources=resources))
    assert bool(result["nodes"]) == is_gpu_node


def test_an_operand_of_another_workload_is_not_due_in_the_lab():
    sets = [*lab_sets(), *lab_sets(("vfio-manager",))]
    result = audit(sets, node("gpu-1", labels_of(CHAIN)), lab_pods("gpu-1"))
    assert only_node(result)["due"] == sorted(CHAIN)
    result = audit(sets, node("vm-1", {WORKLOAD: "vm-passthrough"}))
    assert only_node(result)["due"] == ["vfio-manager"]


def test_an_operand_of_no_workload_is_due_where_it_is_asked_for():
    sets = [*lab_sets(), *lab_sets(("nvsm",))]
    assert "nvsm" not in only_node(audit(sets, node("gpu-1", labels_of(CHAIN)), lab_pods("gpu-1")))["due"]
    asked = audit(sets, node("gpu-1", labels_of((*CHAIN, "nvsm"))), lab_pods("gpu-1"))
    assert causes(only_node(asked)) == {"nvsm": "pod-not-running"}


def test_a_tainted_node_of_the_lab():
    result = audit(lab_sets(), node("gpu-1", labels_of(CHAIN), [NOT_CHECKED]))
    assert rules(result) == [("warning", "operand-tainted-out", "gpu-1")]
    assert result["findings"][0]["remedy"].endswith("kubectl taint node gpu-1 'dedicated:NoSchedule'-")
