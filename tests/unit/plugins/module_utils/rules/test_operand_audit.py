# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of operands: what is due, what runs, what is missing and why, and what is out of order."""

import copy

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_table import operand_table
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import AUDIT, RULE_PAGES
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operand_builders import (
    CHAIN,
    DEPLOY,
    FOUND,
    NOT_CHECKED,
    ON,
    audit,
    causes,
    cluster_policy,
    daemonset,
    gpu_node,
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


def test_a_whole_node_has_nothing_missing_and_says_what_it_runs():
    result = in_operator()
    assert result["nodes"] == [
        {
            "node": "gpu-1",
            "workload": "container",
            "due": sorted(ON),
            "running": sorted(ON),
            "missing": [],
            "out_of_order": [],
        }
    ]
    assert result["findings"] == result["misleading"] == []
    assert result["operator"] is True
    assert result["operator_version"] == "26.7.0" and result["version_source"] == "as given"
    assert {"operand": "dcgm", "setting": "dcgm.enabled"} in result["disabled"]


# What stands on or around the node, the cause, the findings. dcgm-exporter is needed by nothing.
EXPORTER = ("dcgm-exporter",)
CAUSES = [
    ("label-absent", {"dcgm_exporter": None}, "26.7.0", [("warning", "deploy-label-missing")]),
    ("label-not-true", {"dcgm_exporter": "false"}, "26.7.0", [("info", "operand-off")]),
    ("label-not-true", {"dcgm_exporter": "True"}, "26.7.0", [("warning", "operand-label-invalid")]),
    ("label-not-true", {"dcgm_exporter": ""}, "26.7.0", [("warning", "operand-label-invalid")]),
    ("label-empty", {"dcgm_exporter": ""}, "26.3.3", [("warning", "operand-blocked")]),
    ("paused", {"dcgm_exporter": "paused-for-mig-change"}, "26.7.0", [("warning", "operand-paused")]),
    ("paused", {"dcgm_exporter": "true_paused-for-driver-upgrade"}, "26.7.0", [("warning", "operand-paused")]),
    ("pod-not-running", {}, "26.7.0", [("error", "operand-not-running")]),
]


@pytest.mark.parametrize(("cause", "values", "version", "found"), CAUSES)
def test_each_cause_is_told_and_nothing_else(cause, values, version, found):
    result = in_operator(EXPORTER, version=version, **values)
    assert causes(only_node(result)) == {"dcgm-exporter": cause}
    assert only_node(result)["out_of_order"] == []
    assert rules(result) == [(severity, rule, "gpu-1") for severity, rule in found]


def test_a_taint_that_is_not_tolerated():
    result = in_operator(ON, taints=[NOT_CHECKED])
    assert set(causes(only_node(result)).values()) == {"taint-not-tolerated"}
    (found,) = result["findings"]
    assert (found["severity"], found["rule"]) == ("warning", "operand-tainted-out")
    assert "dedicated=training:NoSchedule" in found["message"]
    assert found["remedy"].startswith("kubectl patch clusterpolicy cluster-policy --type merge -p ")
    assert '"key":"dedicated"' in found["remedy"] and '"key":"nvidia.com/gpu"' in found["remedy"]


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "dedicated", "effect": "PreferNoSchedule"},
    ],
)
def test_taints_that_keep_no_daemonset_away_are_no_cause(taint):
    assert set(causes(only_node(in_operator(ON, taints=[taint]))).values()) == {"pod-not-running"}


def test_a_pod_that_runs_in_spite_of_a_later_taint_counts_as_running():
    result = in_operator(taints=[NOT_CHECKED])
    assert only_node(result)["missing"] == [] and result["findings"] == []


def test_what_uses_the_hosts_network_goes_where_there_is_none_yet():
    key = "node.kubernetes.io/network-unavailable"
    sets = operator_sets()
    sets[0]["spec"]["template"]["spec"]["hostNetwork"] = True
    found = causes(only_node(in_operator(ON, sets=sets, taints=[{"key": key, "effect": "NoSchedule"}])))
    assert found.pop("driver") == "pod-not-running"
    assert set(found.values()) == {"taint-not-tolerated"}


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node.cloudprovider.kubernetes.io/uninitialized"])
def test_a_taint_of_a_node_that_is_not_well_is_not_to_be_tolerated(key):
    (found,) = in_operator(ON, taints=[{"key": key, "effect": "NoSchedule"}])["findings"]
    assert found["rule"] == "operand-tainted-out"
    assert found["remedy"] == "See why the node is not healthy: kubectl describe node gpu-1"


def test_a_taint_that_the_policy_tolerates_already_is_the_operators_affair():
    policy = cluster_policy(daemonsets={"tolerations": [{"key": "dedicated", "operator": "Exists"}]})
    (found,) = in_operator(ON, taints=[NOT_CHECKED], policy=policy)["findings"]
    assert "see what holds the operator up" in found["remedy"]


def test_a_daemonset_that_is_not_there():
    result = in_operator(EXPORTER, sets=operator_sets(without=EXPORTER))
    assert causes(only_node(result)) == {"dcgm-exporter": "daemonset-absent"}
    (found,) = result["findings"]
    assert (found["rule"], found["severity"]) == ("daemonset-missing", "error")
    assert found["subject"] == {"kind": "DaemonSet", "namespace": None, "name": "nvidia-dcgm-exporter"}
    assert found["evidence"] == {"operand": "dcgm-exporter", "nodes": ["gpu-1"]}


@pytest.mark.parametrize(
    "selector",
    [{DEPLOY + "dcgm-exporter": "true", "pool": "a"}, {"pool": "a"}],
    ids=["a further label", "another label alone"],
)
def test_a_selector_edited_by_hand(selector):
    sets = [*operator_sets(without=EXPORTER), daemonset("nvidia-dcgm-exporter", "", selector=selector, numbers=(0, 0))]
    result = in_operator(EXPORTER, sets=sets)
    assert causes(only_node(result)) == {"dcgm-exporter": "daemonset-absent"}
    assert "pool=a" in only_node(result)["missing"][0]["detail"]
    assert [one["rule"] for one in result["findings"]] == ["daemonset-selector-edited"]
    assert result["findings"][0]["remedy"] == "kubectl delete daemonset -n gpu-operator nvidia-dcgm-exporter"
    objects = {one["object"] for one in result["misleading"]}
    assert objects == {"ClusterPolicy cluster-policy", "DaemonSet gpu-operator/nvidia-dcgm-exporter"}


def test_a_label_that_an_edited_selector_asks_for_and_the_node_has_is_no_fault():
    selector = {DEPLOY + "dcgm-exporter": "true", "pool": "a"}
    sets = [*operator_sets(without=EXPORTER), daemonset("nvidia-dcgm-exporter", "", selector=selector)]
    assert in_operator(sets=sets, labels={"pool": "a"})["findings"] == []


@pytest.mark.parametrize(("operator", "values"), [("DoesNotExist", []), ("NotIn", ["true"]), ("In", ["false"])])
def test_what_goes_where_an_operand_is_not_is_none(operator, values):
    term = {"matchExpressions": [{"key": DEPLOY + "driver", "operator": operator, "values": values}]}
    other = daemonset("watch", "", namespace="elsewhere", selector={}, owner="")
    other["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    without = ("driver",)
    lab = audit(
        lab_sets(CHAIN[1:]),
        other,
        gpu_node(driver=None),
        lab_pods("gpu-1", CHAIN[1:]),
        pod("watch", "gpu-1", "elsewhere"),
    )
    assert "driver" not in only_node(lab)["running"]
    result = in_operator(
        without,
        driver=None,
        sets=[*operator_sets(), other],
        pods=[*pods_on("gpu-1", without), pod("watch", "gpu-1", "elsewhere")],
    )
    assert causes(only_node(result))["driver"] == "label-absent"


def test_what_others_let_go_after_an_operands_label_is_not_the_operand():
    other = daemonset("watch", "driver", namespace="elsewhere", owner="")
    crashed = pod("watch", "gpu-1", "elsewhere", status={"phase": "Failed"})
    assert in_operator(sets=[*operator_sets(), other], pods=[*pods_on("gpu-1"), crashed])["findings"] == []
    result = in_operator(
        sets=[*operator_sets(), other], pods=[*pods_on("gpu-1", ("driver",)), pod("watch", "gpu-1", "elsewhere")]
    )
    assert causes(only_node(result)) == {"driver": "pod-not-running"}


def test_the_mps_daemon_does_not_stand_for_the_device_plugin():
    selector = {DEPLOY + "device-plugin": "true", "nvidia.com/mps.capable": "true"}
    mps = daemonset("nvidia-device-plugin-mps-control-daemon", "", selector=selector)
    gone = ("device-plugin",)
    sets = [*operator_sets(without=gone), mps]
    pods = [*pods_on("gpu-1", gone), pod("nvidia-device-plugin-mps-control-daemon", "gpu-1")]
    result = in_operator(sets=sets, pods=pods, labels={"nvidia.com/mps.capable": "true"})
    assert causes(only_node(result)) == {"device-plugin": "daemonset-absent"}


def test_a_node_whose_kernel_has_no_driver_is_no_edited_selector():
    kernel = "feature.node.kubernetes.io/kernel-version.full"
    driver = daemonset("nvidia-driver-daemonset-6.8", "", selector={DEPLOY + "driver": "true", kernel: "6.8"})
    sets = [*operator_sets(without=("driver",)), driver]
    result = in_operator(("driver",), sets=sets, labels={kernel: "5.15"})
    found = next(one for one in result["findings"] if one["subject"]["kind"] == "DaemonSet")
    assert found["rule"] == "daemonset-missing"
    assert "delete" not in found["remedy"]


def test_beside_a_dra_driver_the_operator_brings_driver_and_toolkit():
    piece = {
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "gpu-1"},
    }
    policy = cluster_policy(devicePlugin={"enabled": False})
    sets = operator_sets(without=("device-plugin",))
    result = audit(policy, sets, gpu_node(), pods_on("gpu-1", ("driver", "device-plugin")), piece)
    assert causes(only_node(result)) == {"driver": "pod-not-running"}
    assert {"dra-node", "operand-not-running"} <= {one["rule"] for one in result["findings"]}


def test_a_selector_by_required_affinity_counts_like_a_node_selector():
    term = {"matchExpressions": [{"key": DEPLOY + "dcgm-exporter", "operator": "In", "values": ["true"]}]}
    renamed = daemonset("metrics", "", namespace="elsewhere", selector={}, owner="")
    renamed["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    pods = [*pods_on("gpu-1", EXPORTER), pod("metrics", "gpu-1", "elsewhere")]
    result = in_operator(sets=[*operator_sets(without=EXPORTER), renamed], pods=pods)
    assert only_node(result)["running"] == sorted(ON)


def test_the_mps_daemon_is_judged_only_where_its_condition_holds():
    mps = daemonset(
        "nvidia-device-plugin-mps-control-daemon",
        "",
        selector={DEPLOY + "device-plugin": "true", "nvidia.com/mps.capable": "true"},
        numbers=(0, 0),
    )
    sets = [*operator_sets(), mps]
    result = in_operator(sets=sets)
    assert result["findings"] == result["misleading"] == []
    capable = in_operator(sets=sets, labels={"nvidia.com/mps.capable": "true"})
    assert causes(only_node(capable)) == {"device-plugin": "pod-not-running"}
    assert "mps-control-daemon" in only_node(capable)["missing"][0]["detail"]
    # The plugin itself runs, so the validator has what it needs.
    assert only_node(capable)["out_of_order"] == []


def test_a_pod_of_an_earlier_daemonset_of_the_same_name_is_none_of_this_one():
    old = pod("nvidia-dcgm-exporter", "gpu-1")
    old["metadata"]["ownerReferences"][0]["uid"] = "an-earlier-one"
    result = in_operator(pods=[*pods_on("gpu-1", EXPORTER), old])
    assert causes(only_node(result)) == {"dcgm-exporter": "pod-not-running"}


def test_a_bare_pod_of_the_same_name_does_not_count():
    bare = pod("nvidia-dcgm-exporter", "gpu-1", ownerReferences=[])
    assert causes(only_node(in_operator(pods=[*pods_on("gpu-1", EXPORTER), bare]))) == {
        "dcgm-exporter": "pod-not-running"
    }


def test_whole_node_out():
    labels = {DEPLOY + "operands": "false"}
    result = audit(cluster_policy(), operator_sets(numbers=(0, 0)), node("gpu-1", {**FOUND, **labels}))
    assert only_node(result)["due"] == [] and only_node(result)["missing"] == []
    assert rules(result) == [("info", "operands-disabled", "gpu-1")]
    assert result["misleading"] == []


def test_switched_off_in_the_cluster_is_not_due_but_listed():
    result = in_operator(
        EXPORTER,
        policy=cluster_policy(dcgmExporter={"enabled": False}),
        sets=operator_sets(without=EXPORTER),
    )
    assert "dcgm-exporter" not in only_node(result)["due"]
    assert {"operand": "dcgm-exporter", "setting": "dcgmExporter.enabled"} in result["disabled"]
    assert result["findings"] == []


def test_a_node_without_a_gpu_is_none_of_the_audit():
    assert audit(cluster_policy(), operator_sets(numbers=(0, 0)), node("cpu-1", {}))["nodes"] == []


def test_mig_manager_is_due_where_the_gpus_can_do_mig():
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", DEPLOY + "mig-manager": ""}
    sets = [*operator_sets(), daemonset("nvidia-mig-manager", "mig-manager")]
    # In every version an empty value blocks this one.
    result = in_operator(sets=sets, labels=labels)
    assert causes(only_node(result)) == {"mig-manager": "label-empty"}
    assert rules(result) == [("warning", "operand-blocked", "gpu-1")]
    assert "mig-manager" not in only_node(in_operator(sets=sets))["due"]


def test_nodes_for_virtual_machines():
    policy = cluster_policy(
        sandboxWorkloads={"enabled": True}, vfioManager={"enabled": True}, sandboxDevicePlugin={"enabled": True}
    )
    operands = ("vfio-manager", "sandbox-validator", "sandbox-device-plugin")
    sets = [daemonset(f"set-{one}", one) for one in operands]
    labels = {**FOUND, WORKLOAD: "vm-passthrough", **labels_of(operands)}
    pods = [pod(f"set-{one}", "gpu-1") for one in operands]
    result = audit(policy, sets, node("gpu-1", labels), pods)
    assert only_node(result)["due"] == only_node(result)["running"] == sorted(operands)
    assert result["findings"] == []
    result = audit(policy, sets, node("gpu-1", labels), pods[1:])
    assert pairs(only_node(result)) == [("sandbox-validator", "vfio-manager")]
    assert rules(result) == [
        ("error", "operand-not-running", "gpu-1"),
        ("warning", "operand-out-of-order", "gpu-1"),
    ]

    # What keeps Pods away is the plugin of this node's use.
    order = next(one for one in result["findings"] if one["rule"] == "operand-out-of-order")
    assert "nvidia.com/gpu.deploy.sandbox-device-plugin=false" in order["remedy"]


def test_what_lacks_a_paused_operand_is_paused_with_it():
    result = in_operator(("device-plugin",), device_plugin="paused-for-mig-change")
    assert pairs(only_node(result)) == [("operator-validator", "device-plugin")]
    assert [one["rule"] for one in result["findings"]] == ["operand-paused"]


def test_a_plugin_that_does_not_run_is_not_to_be_taken_off():
    waits = pod("nvidia-device-plugin-daemonset", "gpu-1", status={"phase": "Pending"})
    result = in_operator(pods=[*pods_on("gpu-1", ("device-plugin",)), waits])
    order = next(one for one in result["findings"] if one["rule"] == "operand-out-of-order")
    assert order["remedy"] == "See to device-plugin first, as the finding about it says"


def test_a_lost_node_is_one_fault_of_its_own():
    lost = gpu_node()
    lost["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}],
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    pods = [{**one, "status": status} for one in pods_on("gpu-1")]
    result = audit(cluster_policy(), operator_sets(), lost, pods)
    (found,) = result["findings"]
    assert (found["rule"], found["severity"]) == ("operand-not-running", "error")
    assert found["message"].startswith(
        "the node's condition Ready is Unknown, and operands do not run: container-toolkit,"
    )
    assert found["remedy"] == "See why the node is not Ready: kubectl describe node gpu-1"


def test_drivers_that_nobody_has_declared_are_missing():
    policy = cluster_policy(driver={"useNvidiaDriverCRD": True})
    result = in_operator(("driver",), sets=operator_sets(without=("driver",)), policy=policy)
    assert causes(only_node(result)) == {"driver": "daemonset-absent"}
    found = next(one for one in result["findings"] if one["rule"] == "daemonset-missing")
    assert "NVIDIADriver objects" in found["remedy"]


def test_a_drivers_daemonset_tells_that_it_is_due_though_its_object_was_not_seen():
    policy = cluster_policy(driver={"useNvidiaDriverCRD": True})
    assert causes(only_node(in_operator(("driver",), policy=policy))) == {"driver": "pod-not-running"}
    assert in_operator(policy=policy)["findings"] == []


def test_a_node_that_the_operator_has_not_followed_keeps_what_it_has():
    policy = cluster_policy(
        sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}, vfioManager={"enabled": True}
    )
    offering = gpu_node()
    offering["status"] = {"allocatable": {"nvidia.com/gpu": "4"}, "capacity": {"nvidia.com/gpu": "4"}}
    result = audit(policy, operator_sets(), offering, pods_on("gpu-1"), version="26.3")
    (found,) = result["findings"]
    assert found["rule"] == "operator-behind"
    assert found["remedy"].endswith("kubectl label node gpu-1 nvidia.com/gpu.workload.config=container --overwrite")


def test_a_pause_is_not_to_be_ended_for_the_sake_of_the_order():
    result = in_operator(("container-toolkit",), container_toolkit="paused-for-driver-upgrade")
    assert [one["rule"] for one in result["findings"] if "Nothing" in one["remedy"]] == ["toolkit-missing"]
    assert not any(
        "container-toolkit=true" in one["remedy"] for one in result["findings"] if one["rule"] == "toolkit-missing"
    )


def test_what_runs_on_a_node_that_is_not_the_operators_is_counted():
    labelled = node("cpu-1", labels_of(("driver",)))
    result = audit(
        cluster_policy(), operator_sets(), labelled, [pod("nvidia-driver-daemonset", "cpu-1")], version="26.3"
    )
    assert (only_node(result)["due"], only_node(result)["running"]) == ([], ["driver"])
    assert "cpu-1  container    0    1" in operand_table(result)


def test_dra_nodes_are_not_judged():
    labels = {**FOUND, DEPLOY + "dra-driver": "true"}
    result = audit(cluster_policy(), operator_sets(numbers=(0, 0)), node("gpu-1", labels))
    assert only_node(result)["due"] == [] and rules(result) == [("info", "dra-node", "gpu-1")]


def test_an_annotation_with_a_reason_silences_a_rule_on_its_node():
    tainted = gpu_node(taints=[NOT_CHECKED])
    tainted["metadata"]["annotations"] = {"gpuwl.sandbox/ignore.operand-tainted-out": "on loan until May"}
    result = audit(cluster_policy(), operator_sets(), tainted)
    assert result["findings"] == [] and only_node(result)["missing"]


def test_a_given_cluster_policy_stands_above_the_clusters_own():
    result = in_operator(policy=cluster_policy(), sets=operator_sets())
    given = audit(operator_sets(), gpu_node(), pods_on("gpu-1"), cluster_policy={"dcgmExporter": {"enabled": False}})
    assert "dcgm-exporter" in only_node(result)["due"] and "dcgm-exporter" not in only_node(given)["due"]


@pytest.mark.parametrize(
    ("objects", "version", "source"),
    [
        ([], "26.7", "assumed, as nothing tells it"),
        (
            [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": "gpu-operator-1",
                        "labels": {"app": "gpu-operator", "app.kubernetes.io/version": "v26.3.3"},
                    },
                }
            ],
            "v26.3.3",
            "Pod gpu-operator-1",
        ),
    ],
)
def test_who_told_the_version(objects, version, source):
    result = audit(cluster_policy(), operator_sets(), gpu_node(), pods_on("gpu-1"), objects, version=None)
    assert (result["operator_version"], result["version_source"]) == (version, source)


def test_a_daemonset_tells_the_version():
    validator = daemonset("nvidia-operator-validator", "operator-validator")
    image = "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.10.1"
    validator["spec"]["template"]["spec"]["initContainers"] = [{"name": "driver-validation", "image": image}]
    result = in_operator(sets=[*operator_sets(without=("operator-validator",)), validator], version=None)
    assert result["operator_version"] == "v25.10.1"


def test_neither_order_nor_names_nor_labels_of_others_count():
    objects = [cluster_policy(), *operator_sets(), gpu_node("gpu-1", dcgm_exporter=None), *pods_on("gpu-1", EXPORTER)]
    straight = audit(objects)
    assert audit(list(reversed(objects))) == straight
    labelled = copy.deepcopy(objects)
    next(one for one in labelled if one["kind"] == "Node")["metadata"]["labels"]["example.com/x"] = "y"
    assert audit(labelled) == straight


TOOLKIT, PLUGIN = ("container-toolkit",), ("device-plugin",)
STARTING = {
    "phase": "Pending",
    "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}],
}
WAITING = {"phase": "Pending", "initContainerStatuses": [{"name": "toolkit-validation", "state": {"running": {}}}]}
# (severity, rule): a cluster that breaks it.
FIRES = {
    ("error", "toolkit-missing"): lambda: in_operator(TOOLKIT, container_toolkit=None),
    ("warning", "toolkit-missing"): lambda: in_operator(TOOLKIT, container_toolkit="false"),
    ("warning", "operand-out-of-order"): lambda: in_operator(PLUGIN, device_plugin=None),
    ("info", "operand-out-of-order"): lambda: in_operator(PLUGIN, device_plugin="false"),
    ("warning", "operand-tainted-out"): lambda: in_operator(ON, taints=[NOT_CHECKED]),
    ("error", "operand-not-running"): lambda: in_operator(EXPORTER),
    ("warning", "operand-not-running"): lambda: in_operator(
        pods=[*pods_on("gpu-1", EXPORTER), pod("nvidia-dcgm-exporter", "gpu-1", status=STARTING)]
    ),
    ("info", "operand-not-running"): lambda: in_operator(
        pods=[*pods_on("gpu-1", TOOLKIT + EXPORTER), pod("nvidia-dcgm-exporter", "gpu-1", status=WAITING)],
        container_toolkit=None,
    ),
    ("error", "daemonset-missing"): lambda: in_operator(EXPORTER, sets=operator_sets(without=EXPORTER)),
    ("error", "daemonset-selector-edited"): lambda: in_operator(
        EXPORTER,
        sets=[*operator_sets(without=EXPORTER), daemonset("nvidia-dcgm-exporter", "", selector={"pool": "a"})],
    ),
}


@pytest.mark.parametrize(("severity", "rule"), FIRES)
def test_each_rule_of_the_audit_fires_and_can_be_understood_alone(severity, rule):
    (found,) = [one for one in FIRES[severity, rule]()["findings"] if one["rule"] == rule]
    assert found["severity"] == severity
    assert found["message"] and found["remedy"] and found["evidence"]
    assert "{node}" not in found["remedy"] and found["message"].isprintable()


def test_every_rule_of_the_audit_has_a_case_of_each_severity_that_its_page_names():
    pages = {
        (severity, rule)
        for rule, page in RULE_PAGES.items()
        if page.profiles == AUDIT
        for severity in page.severity.split(" or ")
    }
    assert set(FIRES) == pages


def test_of_what_an_operator_does_only_a_cluster_with_one_is_told():
    lab = [node("gpu-1", {**FOUND, **labels_of(CHAIN[:-1])}), lab_sets(), lab_pods("gpu-1", CHAIN[:-1])]
    without = audit(*lab)
    assert "deploy-label-missing" in {one["rule"] for one in without["findings"]}
    assert not any("operator 26.7" in one["message"] for one in without["findings"])
    operated = in_operator(without=("dcgm-exporter",), dcgm_exporter=None)["findings"]
    assert any("operator 26.7 does not put them back" in one["message"] for one in operated)
