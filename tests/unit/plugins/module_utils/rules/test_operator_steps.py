# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every recorded sequence step by step, and the triggers that the records do not have one by one."""

import copy

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_steps import (
    DEFAULT_RACE,
    EDITED,
    FROZEN,
    NO_POLICY,
    STAYS,
    UNNOTICED,
    WAITS,
    next_state,
)
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_records import (
    ACTIONS,
    BY_ID,
    RECORDS,
    STEPS,
    other_objects,
    title,
)

PLUGIN, DCGM = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.dcgm"
PLUGIN_DAEMONSET = "nvidia-device-plugin-daemonset"
VERSIONS = ["25.10.1", "26.3.3", "26.7.0"]
GPU = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/kernel-version.full": "6.8.0-60-generic",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}
EMPTY = {"cluster_policy": {"dcgm": {"enabled": False}}, "nodes": [], "daemonsets": []}


def change_of(record):
    return record.get("changes") or ACTIONS[record["action"]]


def objects_before(record):
    """Return the objects that the steps before a record have added."""
    before = BY_ID[record["operator_version"], record["previous"]]
    if "previous" not in before:
        return other_objects(before)
    return objects_before(before) + change_of(before).get("(objects)", [])


def essence(state):
    """Return what is compared: labels and DaemonSets of each node, and the DaemonSets' selectors."""
    return (
        {node["name"]: (node["labels_out"], sorted(node["pods"])) for node in state["nodes"]},
        {one["name"]: one["node_selector"] for one in state["daemonsets"]},
        state["cluster_policy"],
    )


@pytest.mark.parametrize("record", STEPS, ids=title)
def test_a_recorded_step_leads_to_the_recorded_state(record):
    before = {**BY_ID[record["operator_version"], record["previous"]], "objects": objects_before(record)}
    untouched = copy.deepcopy(before)
    after = next_state(before, change_of(record), record["operator_version"])
    assert essence(after) == essence(record)
    assert after["moved"] or after["rules"]
    assert before == untouched


def test_every_action_stands_in_the_table():
    assert {record["action"] for record in STEPS if not record.get("changes")} == ACTIONS.keys()


def walk(version, *changes, state=None):
    """Return the state after some changes, one after the other."""
    state = state or EMPTY
    for change in changes:
        state = next_state(state, change, version)
    return state


def live(version, **labels):
    """Return a settled cluster of two container nodes."""
    return walk(version, {"a": {**GPU, **labels}, "b": dict(GPU)})


def node(state, name):
    return next(one for one in state["nodes"] if one["name"] == name)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_gpu_node_brings_the_daemonsets(version):
    without = walk(version, {"cpu": {}})
    assert without["daemonsets"] == []
    state = walk(version, {"a": GPU}, state=without)
    assert PLUGIN_DAEMONSET in node(state, "a")["pods"]
    assert node(state, "cpu")["pods"] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_deploy_label_heals_before_26_7_alone(version):
    state = walk(version, {"a": {PLUGIN: None}}, state=live(version))
    heals = version != "26.7.0"
    assert state["moved"] == heals
    assert (PLUGIN in node(state, "a")["labels_out"]) == heals
    assert (PLUGIN_DAEMONSET in node(state, "a")["pods"]) == heals
    assert state["rules"] == ([] if heals else [WAITS])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_label_without_a_daemonset_heals_with_the_next_occasion(version):
    state = walk(version, {"a": {DCGM: None}}, state=live(version))
    assert not state["moved"]
    assert state["rules"] == [WAITS if version == "26.7.0" else UNNOTICED]
    assert DCGM not in node(state, "a")["labels_out"]
    assert DCGM in node(walk(version, {"(operator)": "restarted"}, state=state), "a")["labels_out"]


WORKLOAD = "nvidia.com/gpu.workload.config"
OCCASIONS = {
    "a new GPU node": {"c": GPU},
    "the spec": {"(cluster policy)": {"driver": {"version": "596.00.01"}}},
    "a restart": {"(operator)": "restarted"},
    "a workload": {"b": {WORKLOAD: "vm-vgpu"}},
    "the switch": {"b": {"nvidia.com/gpu.deploy.operands": "false"}},
    "MIG": {"b": {"nvidia.com/mig.capable": "true"}},
    "a GPU that is gone": {"b": {"feature.node.kubernetes.io/pci-10de.present": None}},
    "gpu.present": {"b": {"nvidia.com/gpu.present": "false"}},
}


@pytest.mark.parametrize("occasion", OCCASIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_occasions_on_which_every_version_goes_through_all_nodes(version, occasion):
    lost = live(version)
    lost = walk(version, {"a": {DCGM: None, "nvidia.com/gpu.deploy.client": None}}, state=lost)
    state = walk(version, OCCASIONS[occasion], state=lost)
    assert state["moved"]
    assert node(state, "a")["labels_out"][DCGM] == "true"


def test_a_driver_pod_that_starts_is_an_occasion_for_26_7():
    tainted = {"b": {**GPU, "(taints)": [{"key": "x", "effect": "NoSchedule"}]}}
    state = walk("26.7.0", {"a": GPU}, tainted, {"a": {DCGM: None}})
    assert DCGM not in node(state, "a")["labels_out"]
    state = walk("26.7.0", {"b": {"(taints)": []}}, state=state)
    assert node(state, "a")["labels_out"][DCGM] == "true"


@pytest.mark.parametrize("other", [{"cpu": {}}, {"b": {"example.com/rack": "2"}}, {"b": {"(unschedulable)": True}}])
def test_what_is_no_occasion_for_26_7(other):
    lost = walk("26.7.0", {"a": {PLUGIN: None}}, state=live("26.7.0"))
    state = walk("26.7.0", other, state=lost)
    assert PLUGIN not in node(state, "a")["labels_out"]
    assert state["rules"] == [WAITS]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_round_trip_forgets_an_opt_out(version):
    off = walk(
        version,
        {"(cluster policy)": {"sandboxWorkloads": {"enabled": True}}},
        {"a": {PLUGIN: "false"}},
        state=live(version),
    )
    assert node(off, "a")["labels_out"][PLUGIN] == "false"
    back = walk(version, {"a": {WORKLOAD: "vm-passthrough"}}, {"a": {WORKLOAD: "container"}}, state=off)
    assert node(back, "a")["labels_out"][PLUGIN] == "true"


@pytest.mark.parametrize("version", VERSIONS)
def test_without_its_policy_all_labels_stay_and_all_daemonsets_go(version):
    before = live(version)
    state = walk(version, {"(cluster policy)": None}, state=before)
    assert state["daemonsets"] == []
    assert node(state, "a")["pods"] == []
    assert node(state, "a")["labels_out"] == node(before, "a")["labels_out"]
    assert state["rules"] == [NO_POLICY]
    assert essence(walk(version, {"(cluster policy)": EMPTY["cluster_policy"]}, state=state)) == essence(before)


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_gpu_node_the_daemonsets_stay(version):
    before = live(version)
    state = walk(version, {"a": None, "b": None}, state=before)
    assert state["daemonsets"] == before["daemonsets"]
    assert state["nodes"] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_edited_daemonset_stays_until_its_section_changes(version):
    selector = {PLUGIN: "true", "example.com/rack": "7"}
    edit = {"(daemonsets)": {PLUGIN_DAEMONSET: {"node_selector": selector}}}
    state = walk(version, edit, state=live(version))
    assert PLUGIN_DAEMONSET not in node(state, "a")["pods"]
    assert EDITED in state["rules"]
    state = walk(version, {"(cluster policy)": {"toolkit": {"version": "1"}}}, state=state)
    assert PLUGIN_DAEMONSET not in node(state, "a")["pods"]
    state = walk(version, {"(cluster policy)": {"devicePlugin": {"version": "1"}}}, state=state)
    assert PLUGIN_DAEMONSET in node(state, "a")["pods"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deleted_daemonset_is_made_again(version):
    before = live(version)
    state = walk(version, {"(daemonsets)": {PLUGIN_DAEMONSET: None}}, state=before)
    assert essence(state) == essence(before)
    # Before 26.7 that is an occasion to go through the nodes too.
    lost = walk(version, {"a": {DCGM: None}}, {"(daemonsets)": {PLUGIN_DAEMONSET: None}}, state=before)
    assert (DCGM in node(lost, "a")["labels_out"]) == (version != "26.7.0")


def test_a_deleted_driver_starts_anew_which_26_7_notices():
    lost = walk("26.7.0", {"a": {DCGM: None}}, state=live("26.7.0"))
    state = walk("26.7.0", {"(daemonsets)": {"nvidia-driver-daemonset": None}}, state=lost)
    assert node(state, "a")["labels_out"][DCGM] == "true"


def test_a_patch_that_changes_nothing_is_no_occasion():
    lost = walk("26.7.0", {"a": {DCGM: None}}, state=live("26.7.0"))
    state = walk("26.7.0", {"(cluster policy)": {"dcgm": {"enabled": False}}}, state=lost)
    assert DCGM not in node(state, "a")["labels_out"]


@pytest.mark.parametrize("effect, stays", [("NoSchedule", True), ("NoExecute", False), ("PreferNoSchedule", True)])
def test_a_taint_on_a_live_node(effect, stays):
    before = live("26.7.0")
    state = walk("26.7.0", {"a": {"(taints)": [{"key": "x", "effect": effect}]}}, state=before)
    assert (node(state, "a")["pods"] == node(before, "a")["pods"]) == stays
    assert bool(node(state, "a")["pods"]) == stays
    assert (STAYS in state["rules"]) == (effect == "NoSchedule")


@pytest.mark.parametrize("version", VERSIONS)
def test_only_26_7_may_leave_a_node_on_the_old_default(version):
    change = {"(cluster policy)": {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}}}
    state = walk(version, change, state=live(version))
    assert state["certain"] == (version != "26.7.0")
    assert (DEFAULT_RACE in state["rules"]) == (version == "26.7.0")
    back = walk(version, {"(cluster policy)": {"sandboxWorkloads": {"defaultWorkload": "container"}}}, state=state)
    assert back["certain"] == (version != "26.7.0")
    labelled = walk(version, {name: {WORKLOAD: "container"} for name in ("a", "b")}, change, state=live(version))
    assert labelled["certain"]


def test_a_conflicting_gpu_cluster_freezes_labels():
    state = walk("26.7.0", {"(objects)": [{"kind": "GPUCluster", "metadata": {"name": "x"}}]}, state=live("26.7.0"))
    assert state["rules"] == [FROZEN]
    frozen = walk("26.7.0", {"a": {WORKLOAD: "vm-vgpu"}}, {"(operator)": "restarted"}, state=state)
    assert not frozen["moved"]
    assert PLUGIN_DAEMONSET in node(frozen, "a")["pods"]


def test_what_depended_on_timing_is_not_called_certain():
    racing = [record for record in RECORDS if record["timing_dependent"] and "previous" in record]
    assert len(racing) > 10
    for record in racing:
        before = {**BY_ID[record["operator_version"], record["previous"]], "objects": []}
        change = record.get("changes") or ACTIONS[record["action"]]
        after = next_state(before, change, record["operator_version"])
        if essence(after) != essence(record):
            assert not after["certain"], title(record)
