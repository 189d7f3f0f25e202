# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels taking out and bringing in changes, and which Pods that stops; with and without an operator."""

import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_effects import (
    label_effects,
    operand_sets,
    pods_there,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_names import (
    check_operand,
    expand_ranges,
    read_sections,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_switches import (
    REASON_PREFIX,
    WAS_PREFIX,
    SwitchError,
    SwitchWish,
    plan_switch,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labelling import label_node
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import KNOWN_VERSIONS
from hypothesis import given, settings
from hypothesis import strategies as st

DEPLOY = "nvidia.com/gpu.deploy."
SWITCH = DEPLOY + "operands"
PLUGIN = DEPLOY + "device-plugin"
GPU = {"feature.node.kubernetes.io/pci-10de.present": "true"}
POLICY = read_policy({"sandboxWorkloads": {"enabled": True}})
OUT, IN = SwitchWish(out=True), SwitchWish(out=False)
PLUGIN_OUT = SwitchWish(True, ("device-plugin",), "Xid 79")
PLUGIN_IN = SwitchWish(False, ("device-plugin",))


def node(labels, annotations=None):
    return {"metadata": {"name": "n", "labels": labels, "annotations": annotations or {}}}


def switch(before, wish, policy=None, version=None):
    """The node after a switch and, with a version, after that operator has gone over it."""
    plan = plan_switch(before, wish, policy)

    def patched(field, changes):
        merged = {**before["metadata"][field], **changes}
        return {key: value for key, value in merged.items() if value is not None}

    labels = patched("labels", plan.labels)
    return node(label_node(labels, policy, version) if version else labels, patched("annotations", plan.annotations))


def deployed(found):
    return {key: value for key, value in found["metadata"]["labels"].items() if key.startswith(DEPLOY)}


VALUES = st.sampled_from(["true", "false", "pre-installed", "True"])
OPERANDS = st.sampled_from(["driver", "device-plugin", "dcgm", "mig-manager", "vfio-manager", "dra-driver"])
LABELS = st.dictionaries(OPERANDS.map(lambda name: DEPLOY + name), VALUES)


@given(LABELS)
def test_without_an_operator_a_node_comes_back_as_it_was(labels):
    original = node({**GPU, **labels, DEPLOY + "nvsm": "true"})
    out = switch(original, OUT)
    assert deployed(out) == {SWITCH: "false", DEPLOY + "nvsm": "true"}
    assert not plan_switch(out, OUT, None).changes()
    assert switch(out, IN) == original
    assert not plan_switch(original, IN, None).changes()


@settings(max_examples=50)
@given(LABELS.filter(lambda labels: DEPLOY + "dra-driver" not in labels), st.sampled_from(KNOWN_VERSIONS))
def test_with_an_operator_a_node_comes_back_as_it_was(labels, version):
    original = node(label_node({**GPU, **labels}, POLICY, version))
    out = switch(original, OUT, POLICY, version)
    assert not any(value == "true" for key, value in deployed(out).items() if key in deployed(original))
    assert not plan_switch(out, OUT, POLICY).changes()
    back = switch(out, IN, POLICY, version)
    assert back == original
    assert not plan_switch(back, IN, POLICY).changes()


@settings(max_examples=50)
@given(LABELS, st.sampled_from([None, *KNOWN_VERSIONS]))
def test_one_operand_comes_back_as_it_was(labels, version):
    policy = POLICY if version else None
    before = {**GPU, **labels, PLUGIN: "true"}
    original = node(label_node(before, POLICY, version) if version else before)
    out = switch(original, PLUGIN_OUT, policy, version)
    assert out["metadata"]["labels"] == {**original["metadata"]["labels"], PLUGIN: "false"}
    assert out["metadata"]["annotations"] == {
        REASON_PREFIX + "device-plugin": "Xid 79",
        WAS_PREFIX + "device-plugin": '"true"',
    }
    assert not plan_switch(out, PLUGIN_OUT, policy).changes()
    assert switch(out, PLUGIN_IN, policy, version) == original


@pytest.mark.parametrize(
    ("value", "policy", "expected"),
    [
        ("false", None, "true"),
        ("false", POLICY, "true"),
        ("", None, "true"),
        ("", POLICY, "true"),
        (None, None, None),
        (None, POLICY, "true"),
        ("paused-for-driver-upgrade", POLICY, "paused-for-driver-upgrade"),
        ("pre-installed", None, "pre-installed"),
    ],
)
def test_what_brings_in_an_operand_that_nobody_kept(value, policy, expected):
    found = node({**GPU, **({} if value is None else {PLUGIN: value})})
    assert deployed(switch(found, PLUGIN_IN, policy)).get(PLUGIN) == expected
    if value is not None:
        assert deployed(switch(found, PLUGIN_IN._replace(force=True), policy)) == {PLUGIN: "true"}


@pytest.mark.parametrize("value", ["paused-for-mig-change", "true_paused-for-driver-upgrade", "pre-installed", "True"])
def test_values_of_others_are_not_overwritten_unless_forced(value):
    found = node({**GPU, PLUGIN: value})
    with pytest.raises(SwitchError, match=f'device-plugin is "{value}".*force'):
        plan_switch(found, PLUGIN_OUT, POLICY)
    out = switch(found, PLUGIN_OUT._replace(force=True), POLICY)
    assert deployed(out) == {PLUGIN: "false"}
    assert deployed(switch(out, PLUGIN_IN, POLICY)) == {PLUGIN: "true" if "paused" in value else value}


def test_operands_of_other_workloads_are_left_alone():
    machines = node({**GPU, "nvidia.com/gpu.workload.config": "vm-passthrough"})
    plan = plan_switch(machines, PLUGIN_OUT, POLICY)
    assert not plan.changes() and "vm-passthrough" in plan.notes[0]
    plan = plan_switch(node({}), PLUGIN_OUT, POLICY)
    assert not plan.changes() and "found no GPU" in plan.notes[0]
    # Before 26.7 labels by hand on such a node are left, and Pods run there, which nobody else would stop.
    by_hand = node({PLUGIN: "true"})
    assert deployed(switch(by_hand, PLUGIN_OUT, POLICY)) == {PLUGIN: "false"}
    plan = plan_switch(by_hand, OUT, POLICY)
    assert plan.labels == {SWITCH: "false", PLUGIN: None} and not plan.by_operator
    # An opt-out from the time before the workload changed is taken off.
    machines["metadata"]["labels"][PLUGIN] = "false"
    assert deployed(switch(machines, PLUGIN_IN, POLICY)) == {}
    # Where it is not certain what the operator takes a node for, the label tells.
    unsure = read_policy({"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-vgpu"}})
    assert deployed(switch(node({**GPU, PLUGIN: "true"}), PLUGIN_OUT, unsure)) == {PLUGIN: "false"}


def test_a_forgotten_opt_out_is_told_and_made_again():
    """Observed of all versions: the workload changes to vm-passthrough and back, and "false" is "true"."""
    workload = "nvidia.com/gpu.workload.config"
    found = switch(node(label_node({**GPU, workload: "container"}, POLICY, (26, 7))), PLUGIN_OUT, POLICY, (26, 7))
    labels = found["metadata"]["labels"]
    for value in ("vm-passthrough", "container"):
        labels = label_node({**labels, workload: value}, POLICY, (26, 7))
    assert labels[PLUGIN] == "true"
    forgotten = node(labels, found["metadata"]["annotations"])
    assert "taken out before" in plan_switch(forgotten, PLUGIN_OUT, POLICY).notes[0]
    assert switch(forgotten, PLUGIN_OUT, POLICY) == found


def test_the_operator_never_takes_mig_manager_off_a_container_node():
    wish = SwitchWish(True, ("mig-manager",), "x")
    assert not plan_switch(node(GPU), wish, POLICY).changes()
    found = node({**GPU, DEPLOY + "mig-manager": "true"})
    assert deployed(switch(found, wish, POLICY)) == {DEPLOY + "mig-manager": "false"}


def test_single_operands_of_a_node_that_is_out_are_refused():
    for wish in (PLUGIN_OUT, PLUGIN_IN):
        with pytest.raises(SwitchError, match="out as a whole.*bring it in first"):
            plan_switch(node({SWITCH: "false"}), wish, POLICY)


def test_a_pause_from_before_does_not_come_back():
    found = node({**GPU, PLUGIN: "paused-for-mig-change"})
    assert deployed(switch(switch(found, OUT), IN)) == {PLUGIN: "true"}
    assert deployed(switch(switch(found, OUT, POLICY, (26, 7)), IN, POLICY)) == {}, "the operator sets it"


def test_an_opt_out_of_another_workload_does_not_come_back():
    out = switch(node({**GPU, PLUGIN: "false"}), OUT, POLICY, (26, 7))
    out["metadata"]["labels"]["nvidia.com/gpu.workload.config"] = "vm-passthrough"
    assert deployed(switch(out, IN, POLICY)) == {}


def test_labels_that_came_meanwhile_are_kept_and_win():
    out = switch(node({**GPU, PLUGIN: "true"}), OUT)
    out["metadata"]["labels"][DEPLOY + "driver"] = "true"
    again = switch(out, OUT)
    assert deployed(again) == {SWITCH: "false"}
    assert deployed(switch(again, IN)) == {PLUGIN: "true", DEPLOY + "driver": "true"}
    # Somebody else brought the node in and took the plugin out.
    others = switch(node({**GPU, PLUGIN: "true"}), OUT)
    others["metadata"]["labels"] = {**GPU, PLUGIN: "false"}
    assert deployed(switch(others, IN)) == {PLUGIN: "false"}


def test_a_node_taken_out_by_others_has_nothing_to_restore():
    assert "is not known" in plan_switch(node({SWITCH: "false"}), IN, None).notes[0]
    assert not plan_switch(node({SWITCH: "false", PLUGIN: "true"}), IN, None).notes
    assert not plan_switch(node({SWITCH: "false"}), IN, POLICY).notes


@pytest.mark.parametrize("text", ["?", "[]", '{"driver": 1}', "null"])
def test_a_damaged_annotation_is_refused(text):
    with pytest.raises(SwitchError, match="operand-was.operands is damaged"):
        plan_switch(node({SWITCH: "false"}, {WAS_PREFIX + "operands": text}), IN, None)


@pytest.mark.parametrize(
    "pattern", ["a-[2:1]", "a-[1:]", "a-[01:100]", "a-[0:99999]", "a-[0:999]-[0:999]", "a-[b:3]", "a-[", "", "A"]
)
def test_what_is_no_range_is_refused(pattern):
    with pytest.raises(ValueError, match=r"gpu-\[00:19\]"):
        expand_ranges(pattern)


def test_names_are_read():
    assert read_sections({"driver": False, "container-toolkit": True, "gfd": False}) == {
        "driver": False,
        "toolkit": True,
        "gfd": False,
    }
    check_operand("dcgm", {"dcgm", "driver"})
    for name, near in {
        "dcmg": "dcgm",
        "nvidia.com/gpu.deploy.dcgm": "dcgm",
        "nvidia-dcgm": "dcgm",
    }.items():
        with pytest.raises(ValueError, match=f"did you mean {near}"):
            check_operand(name, {"dcgm", "driver"})


def daemonset(name, key, tolerations=(), affinity=False):
    spec = {"nodeSelector": {key: "true"}, "tolerations": list(tolerations)}
    if affinity:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec = {"affinity": {"nodeAffinity": required}, "tolerations": list(tolerations)}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"template": {"spec": spec}}}


def pod(name, owner, phase="Running"):
    owners = [{"kind": "DaemonSet", "name": owner}]
    return {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": owners},
        "spec": {"nodeName": "n"},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize("affinity", [False, True])
def test_pods_stop_by_selector_and_start_past_taints(affinity):
    tolerated = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    every = [daemonset("x", PLUGIN, tolerated, affinity), daemonset("y", PLUGIN), daemonset("other", "rack")]
    sets = operand_sets(every)
    assert [one.name for one in sets] == ["ns/x", "ns/y"], "the other selects no deploy label"
    there = pods_there([pod("x-1", "x"), pod("x-0", "x", "Failed"), pod("other-1", "other")])
    tainted = {**node({}), "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule"}]}}
    told = {"node": "n", "daemonset": "ns/x", "operand": "device-plugin"}
    assert label_effects(tainted, {PLUGIN: "true"}, {}, sets, there) == ([{**told, "pod": "x-1"}], [])
    assert label_effects(tainted, {}, {PLUGIN: "true"}, sets, {}) == ([], [told])
    assert label_effects(tainted, {PLUGIN: "true"}, {PLUGIN: "true"}, sets, there) == ([], [])


def test_results_are_plain_data():
    plan = plan_switch(node({**GPU, PLUGIN: "true"}), OUT, None)
    assert json.loads(plan.annotations[WAS_PREFIX + "operands"]) == {"device-plugin": "true"}
