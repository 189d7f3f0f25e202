# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prediction against every recorded first state, and what the records do not have."""

import copy
import random

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.expected_operands import (
    daemonsets_for,
    expected_operands,
    settle,
    surrounding,
)
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_records import (
    FIRST,
    RECORDS,
    STEADY,
    node_object,
    other_objects,
    title,
    without_hash,
)

GPU = "feature.node.kubernetes.io/pci-10de.present"
SYSTEM = {
    "feature.node.kubernetes.io/kernel-version.full": "6.8.0-60-generic",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}
CLIENT = "nvidia.com/gpu.deploy.client"
SANDBOX = {"sandboxWorkloads": {"enabled": True}}


def gpu_node(name="n", taints=(), system=None, **labels):
    """Return a Node with a GPU; in the names of labels _ stands for . and the prefix nvidia.com/ is left out."""
    own = {"nvidia.com/" + key.replace("_", "."): value for key, value in labels.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {GPU: "true", **(SYSTEM if system is None else system), **own}},
        "spec": {"taints": list(taints)},
    }


def one(policy=None, version=None, others=(), **node):
    return expected_operands([gpu_node(**node)], policy, version, others)[0]


def predict(record, nodes):
    return expected_operands(nodes, record["cluster_policy"], record["operator_version"], other_objects(record))


def answers(found):
    return {entry["node"]: (entry["labels"], entry["daemonsets"]) for entry in found}


def recorded(record):
    return {
        node["name"]: (node["labels_out"], sorted(without_hash(name) for name in node["pods"]))
        for node in record["nodes"]
    }


def test_only_what_depends_on_timing_is_left_out():
    assert len(RECORDS) == 207
    assert len(FIRST) == 96
    left_out = [record for record in RECORDS if record not in STEADY]
    assert len(left_out) == 15
    assert all(record["timing_dependent"] for record in left_out)


@pytest.mark.parametrize("record", FIRST, ids=title)
def test_a_recorded_state_is_predicted(record):
    found = predict(record, [node_object(node) for node in record["nodes"]])
    assert answers(found) == recorded(record)
    assert [entry["node"] for entry in found] == [node["name"] for node in record["nodes"]]


@pytest.mark.parametrize("record", FIRST, ids=title)
def test_the_daemonsets_have_the_recorded_selectors(record):
    around = surrounding(record["cluster_policy"], record["operator_version"], other_objects(record))
    made, _doubts = daemonsets_for(settle([node["labels_in"] for node in record["nodes"]], around), around)
    assert {one.name: one.node_selector for one in made} == {
        without_hash(one["name"]): one["node_selector"] for one in record["daemonsets"]
    }


def test_only_a_default_that_26_7_may_not_follow_is_uncertain():
    for record in FIRST:
        default = record["cluster_policy"].get("sandboxWorkloads", {}).get("defaultWorkload", "container")
        racing = record["operator_version"] == "v26.7.0" and default != "container"
        for entry in predict(record, [node_object(node) for node in record["nodes"]]):
            assert entry["certain"] == (
                not racing or entry["reason"] != "label-missing" and entry["reason"] != "label-invalid"
            )
            assert entry["certain"] or "label it" in " ".join(entry["notes"])


@pytest.mark.parametrize("record", FIRST, ids=title)
def test_names_order_and_other_labels_change_nothing(record):
    nodes = [node_object(node, **{"example.com/rack": "7"}) for node in record["nodes"]]
    random.Random(7).shuffle(nodes)
    for node in nodes:
        node["metadata"]["name"] = "x" + node["metadata"]["name"][::-1]
    wanted = {"x" + name[::-1]: answer for name, answer in recorded(record).items()}
    assert answers(predict(record, nodes)) == wanted


def test_the_input_stays_as_it_was():
    record = next(record for record in FIRST if record["id"].startswith("06"))
    nodes = [node_object(node) for node in record["nodes"]]
    policy = record["cluster_policy"]
    before = copy.deepcopy((nodes, policy))
    expected_operands(nodes, policy, "26.7")
    assert (nodes, policy) == before


@pytest.mark.parametrize("version", ["26.7.0", "v26.7.0", "26.7", 26.7, None, ""])
def test_ways_to_say_a_version(version):
    assert one(version=version) == one(version="v26.7.0")
    assert one(version=version)["notes"] == []


@pytest.mark.parametrize(
    "version, nearest, has_client",
    [("26.5.0", "26.3", False), ("99.1", "26.7", True), ("25.3.4", "25.10", False), ("26.8", "26.7", True)],
)
def test_an_unknown_version_is_predicted_as_the_nearest_known(version, nearest, has_client):
    found = one(version=version)
    assert found["notes"] == [f"operator {version} is not known; predicted as {nearest}, the nearest"]
    assert (CLIENT in found["labels"]) == has_client


@pytest.mark.parametrize("wrap", [lambda nodes: nodes, lambda nodes: {"kind": "List", "items": nodes}])
def test_nodes_come_as_a_list_or_a_list_object(wrap):
    other = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {}}
    found = expected_operands(wrap([gpu_node("a"), gpu_node("b")]), SANDBOX)
    assert [entry["node"] for entry in found] == ["a", "b"]
    assert [entry["node"] for entry in expected_operands({"kind": "List", "items": [other, gpu_node("a")]})] == ["a"]


def test_a_policy_is_an_object_or_its_spec_and_absent_fields_have_their_defaults():
    whole = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": SANDBOX}
    node = {"gpu_workload_config": "vm-passthrough"}
    assert one(whole, **node) == one(SANDBOX, **node)
    assert one(SANDBOX, **node)["workload"] == "vm-passthrough"
    # Without a word all the operator's own are on, DCGM too, which only the chart turns off.
    assert one({}) == one(None)
    assert "nvidia-dcgm" in one({})["daemonsets"]
    assert "nvidia-node-status-exporter" not in one({})["daemonsets"]


@pytest.mark.parametrize(
    "labels, policy, workload, reason",
    [
        ({"gpu_workload_config": "vm-vgpu"}, SANDBOX, "vm-vgpu", "label"),
        ({"gpu_workload_config": "vm-vgpu"}, {}, "container", "sandbox-disabled"),
        ({}, SANDBOX, "container", "label-missing"),
        ({"gpu_workload_config": "vm-gpu"}, SANDBOX, "container", "label-invalid"),
        ({"gpu_deploy_operands": "false"}, SANDBOX, "container", "operands-disabled"),
    ],
)
def test_the_workload_and_its_reason(labels, policy, workload, reason):
    found = one(policy, **labels)
    assert (found["workload"], found["reason"]) == (workload, reason)
    assert bool(found["daemonsets"]) == (reason != "operands-disabled")


def test_keys_that_yaml_takes_for_numbers_are_texts():
    numbered = gpu_node()
    numbered["metadata"]["labels"][7] = "x"
    assert expected_operands([numbered])[0]["workload"] == "container"


def test_a_node_without_a_gpu_has_no_workload():
    found = expected_operands([{"kind": "Node", "metadata": {"name": "cpu"}}, gpu_node()], SANDBOX)[0]
    assert (found["workload"], found["reason"], found["daemonsets"], found["certain"]) == (
        None,
        "gpu-not-present",
        [],
        True,
    )


def test_all_taints_must_be_tolerated_and_cordoning_is_no_obstacle():
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    other = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    assert one(taints=[cordon])["daemonsets"] == one()["daemonsets"] != []
    assert one(taints=[cordon, other])["daemonsets"] == []
    assert "dedicated=gpu:NoSchedule keep away gpu-feature-discovery, " in one(taints=[other])["notes"][0]
    assert one(taints=[cordon])["notes"] == []
    assert one(taints=[{**other, "effect": "PreferNoSchedule"}])["daemonsets"] != []
    tolerant = {"daemonsets": {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "gpu"}]}}
    assert one(tolerant, taints=[other])["daemonsets"] == one()["daemonsets"]
    assert one(tolerant, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])["daemonsets"] == []


@pytest.mark.parametrize("version", ["25.10", "26.3", "26.7"])
def test_nothing_is_made_where_no_gpu_node_tells_its_system(version):
    bare = {"system": {}}
    assert one(version=version, **bare)["daemonsets"] == []
    assert "nvidia.com/gpu.deploy.driver" in one(version=version, **bare)["labels"]
    assert "makes no DaemonSet" in one(version=version, **bare)["notes"][0]
    assert one(version=version, **bare)["certain"]
    # 25.10 looks only for the kernel, and only for the driver's sake.
    found = one({"driver": {"enabled": False}}, version, **bare)["daemonsets"]
    assert bool(found) == (version == "25.10")


def test_one_gpu_node_that_does_not_tell_its_system_makes_it_a_matter_of_chance():
    found = expected_operands([gpu_node("a"), gpu_node("b", system={})])
    assert [entry["certain"] for entry in found] == [False, False]
    assert all("operating system" in entry["notes"][0] for entry in found)


def test_a_kata_manager_without_a_config_stops_an_older_operator():
    kata = {"sandboxWorkloads": {"enabled": True, "mode": "kata"}, "kataManager": {"enabled": True}}
    kata["ccManager"] = {"enabled": True}
    node = {"gpu_workload_config": "vm-passthrough"}
    assert "nvidia-cc-manager" not in one(kata, "26.3", **node)["daemonsets"]
    assert "nvidia-cc-manager" in one(kata, "26.7", **node)["daemonsets"]
    assert "crash" in " ".join(one(kata, "26.3", **node)["notes"])
    assert one(kata, "26.7", **node)["notes"] == []
    kata["kataManager"]["config"] = {}
    assert one(kata, "26.3", **node)["notes"] == []
    found = one(kata, "26.3", **node)["daemonsets"]
    assert {"nvidia-cc-manager", "nvidia-kata-manager"} <= set(found)
    assert "nvidia-kata-manager" not in one(kata, "26.7", **node)["daemonsets"]


def test_a_driver_object_serves_the_nodes_that_it_selects():
    policy = {"driver": {"useNvidiaDriverCRD": True}}
    driver = {"kind": "NVIDIADriver", "metadata": {"name": "blue"}, "spec": {"nodeSelector": {"pool": "blue"}}}
    blue, red = gpu_node("blue-1"), gpu_node("red-1")
    blue["metadata"]["labels"]["pool"] = "blue"
    first, second = expected_operands([blue, red], policy, "26.7", [driver])
    assert "nvidia-gpu-driver-ubuntu24.04" in first["daemonsets"]
    assert first["labels"]["nvidia.com/gpu-operator.driver.owner"] == "blue"
    assert not [name for name in second["daemonsets"] if "driver" in name]
    assert "nvidia.com/gpu-operator.driver.owner" not in second["labels"]
    older = expected_operands([blue, red], policy, "26.3", [driver])[0]
    assert "nvidia-gpu-driver-ubuntu24.04" in older["daemonsets"]
    assert "nvidia.com/gpu-operator.driver.owner" not in older["labels"]
    # Without leave of the ClusterPolicy the object counts for nothing.
    assert "nvidia-driver-daemonset" in expected_operands([blue], {}, "26.7", [driver])[0]["daemonsets"]


def test_precompiled_drivers_have_a_daemonset_per_kernel():
    kernels = ("6.8.0-60-generic", "5.14.0-427.el9_4.x86_64")
    nodes = [
        gpu_node(f"n{at}", system={**SYSTEM, "feature.node.kubernetes.io/kernel-version.full": kernel})
        for at, kernel in enumerate(kernels)
    ]
    found = expected_operands(nodes, {"driver": {"usePrecompiled": True}})
    assert [[name for name in entry["daemonsets"] if "driver" in name] for entry in found] == [
        ["nvidia-driver-daemonset-6.8.0-60-generic-ubuntu24.04"],
        ["nvidia-driver-daemonset-5.14.0-427.el9.4-ubuntu24.04"],
    ]
    # A branch alone names precompiled drivers only, unless it is said that they are not.
    assert "branch" in expected_operands(nodes, {"driver": {"version": "595"}})[0]["notes"][0]
    plain = expected_operands(nodes, {"driver": {"version": "595", "usePrecompiled": False}})[0]
    assert "nvidia-driver-daemonset" in plain["daemonsets"]
    assert plain["notes"] == []


def test_a_gpu_cluster_beside_the_policy_freezes_26_7_alone():
    cluster = {"kind": "GPUCluster", "metadata": {"name": "dra"}}
    found = one(SANDBOX, "26.7", [cluster], gpu_deploy_driver="true")
    assert found["reason"] == "frozen"
    assert found["labels"] == {"nvidia.com/gpu.deploy.driver": "true"}
    assert found["daemonsets"] == ["nvidia-driver-daemonset"]
    assert "the GPUCluster dra conflicts" in found["notes"][0]
    assert one(SANDBOX, "26.3", [cluster]) == one(SANDBOX, "26.3")


def test_a_second_policy_changes_nothing_and_is_told():
    second = {"kind": "ClusterPolicy", "metadata": {"name": "b"}, "spec": {"driver": {"enabled": False}}}
    found = one(SANDBOX, "26.7", [second])
    assert found["daemonsets"] == one(SANDBOX, "26.7")["daemonsets"]
    assert found["notes"] == ["a second ClusterPolicy is ignored, whatever it says"]


@pytest.mark.parametrize(
    "default, written",
    [
        ({"config": {"default": "all-disabled"}}, True),
        ({"config": {}}, True),
        ({"config": {"default": ""}}, False),
        ({}, False),
        ({"enabled": False, "config": {}}, False),
    ],
)
def test_mig_config_is_written_where_the_policy_has_a_default(default, written):
    found = one({"migManager": default}, gpu_product="NVIDIA-A100-SXM4-80GB")["labels"]
    assert ("nvidia.com/mig.config" in found) == written


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("x.json",), "x.json: "),
        ((7,), "it is a number"),
        (([{"kind": "Node"}],), "metadata"),
        (([], {"sandboxWorkloads": {"mode": "xen"}}), "sandboxWorkloads.mode"),
        (([], {"driver": {"enabled": "yes"}}), 'driver.enabled is "yes", expected true or false'),
        (([], {"driver": {"usePrecompiled": 1}}), "driver.usePrecompiled is 1"),
        (([], []), "the ClusterPolicy is []"),
        (([], {"kind": "List", "items": []}), 'it is of kind "List", expected one ClusterPolicy'),
        (([], None, 26.1), "may have been 26.10"),
        (([], None, "newest"), "'newest', expected one such as 26.7.0"),
        (([], None, None, {"kind": "GPUCluster"}), "other_objects must be a list"),
        (([], None, None, ["GPUCluster"]), "other_objects[0]"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(arguments, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        expected_operands(*arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
