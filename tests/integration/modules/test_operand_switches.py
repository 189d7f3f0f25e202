# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""operand_switches against a real API server and its DaemonSet controller: Pods go, and come back.

No operator runs here. Where a ClusterPolicy says that one does, a test plays its part, and says so.
"""

from __future__ import annotations

import pytest
from operand_lab import CHAIN, DEPLOY, GPU_NODE, ON, WAS, WHY, WORKLOAD, refused


def step(modules, lab, names, **options):
    """In check mode, for real, and again both ways; returns the result of the real one."""
    before = lab.state(*names)
    foreseen = modules.run("operand_switches", check=True, nodes=list(names), **options)
    assert foreseen["changed"], foreseen
    assert lab.state(*names) == before, "check mode wrote something"
    done = modules.run("operand_switches", nodes=list(names), **options)
    for key in ("changed", "nodes", "cluster", "summary", "notes", "diff"):
        assert done[key] == foreseen[key]
    for check in (True, False):
        again = modules.run("operand_switches", check=check, nodes=list(names), **options)
        assert not again["changed"] and again["diff"] == {"before": {}, "after": {}}, again
        assert not [node for node in again["nodes"] if node["stops"] or node["starts"]]
    return done


def stopped(result):
    return {(one["node"], one["daemonset"].partition("/")[2]) for node in result["nodes"] for one in node["stops"]}


def started(result):
    return {(one["node"], one["daemonset"].partition("/")[2]) for node in result["nodes"] for one in node["starts"]}


def test_without_an_operator_the_role_does_its_part(modules, lab):
    lab.nodes("alone-0", "alone-1")
    lab.daemonset("first", "driver")
    lab.daemonset("second", "device-plugin", affinity=True)
    lab.label("alone-1", **{DEPLOY + "driver": "false", DEPLOY + "nvsm": "true"})
    everything = {("alone-0", "first"), ("alone-0", "second"), ("alone-1", "second")}
    lab.await_running(*everything)
    original = lab.state("alone-0", "alone-1")

    out = step(modules, lab, ["alone-0", "alone-1"], state="out", reason="The rack is moved")
    assert stopped(out) == everything and not started(out)
    for node in out["nodes"]:
        told = out["diff"]["before"][node["name"]]["pods"]
        assert told == [f"{lab.namespace}/{one['pod']} on {node['name']}" for one in node["stops"]]
    assert {node["acts"] for node in out["nodes"]} == {"role"} and not out["operator"]
    assert any("this role changes the deploy labels" in line for line in out["summary"])
    lab.await_running()
    labels = lab.metadata("alone-1", "labels")
    assert {key: value for key, value in labels.items() if key.startswith(DEPLOY)} == {
        DEPLOY + "operands": "false",
        DEPLOY + "nvsm": "true",
    }
    assert lab.metadata("alone-0", "annotations")[WHY + "operands"] == "The rack is moved"

    back = step(modules, lab, ["alone-0", "alone-1"], state="in")
    assert started(back) == everything and not stopped(back)
    lab.await_running(*everything)
    assert lab.state("alone-0", "alone-1") == original, "the opt-out of alone-1 among it"


def test_one_operand_goes_and_comes_back(modules, lab):
    lab.nodes("one-0", "one-1")
    for number, operand in enumerate(CHAIN):
        lab.daemonset(f"set-{number}", operand)
    everything = {(f"one-{node}", f"set-{number}") for node in (0, 1) for number in range(3)}
    lab.await_running(*everything)
    original = lab.state("one-0", "one-1")
    options = {"operands": ["device-plugin"], "state": "out"}
    refused(modules, "reason is missing", "Nothing was written", nodes=["one-0"], **options)

    out = step(modules, lab, ["one-0"], **options, reason="Xid 79")
    assert stopped(out) == {("one-0", "set-2")}
    assert out["diff"]["before"]["one-0"]["labels"] == {DEPLOY + "device-plugin": "true"}
    assert out["diff"]["after"]["one-0"] == {
        "labels": {DEPLOY + "device-plugin": "false"},
        "annotations": {WAS + "device-plugin": '"true"', WHY + "device-plugin": "Xid 79"},
        "pods": [],
    }
    (line,) = out["diff"]["before"]["one-0"]["pods"]
    assert line == f"{lab.namespace}/{out['nodes'][0]['stops'][0]['pod']} on one-0"
    lab.await_running(*(everything - {("one-0", "set-2")}))
    assert step(modules, lab, ["one-0"], **options, reason="Xid 79, ticket 4711")["summary"] == [
        "one-0: device-plugin out; this role changes the deploy labels; no Pod stops or starts"
    ]

    back = step(modules, lab, ["one-0"], operands=["device-plugin"], state="in")
    assert started(back) == {("one-0", "set-2")}
    lab.await_running(*everything)
    assert lab.state("one-0", "one-1") == original
    # The toolkit alone leaves the worst of all combinations behind.
    worst = modules.run(
        "operand_switches", check=True, nodes=["one-0"], operands=["container-toolkit"], state="out", reason="x"
    )
    assert any("device-plugin goes on without container-toolkit" in note for note in worst["notes"])
    both = modules.run("operand_switches", check=True, nodes=["one-0"], operands=list(CHAIN), state="out", reason="x")
    assert not both["notes"]


def test_with_an_operator_a_label_is_enough_and_opt_outs_outlast_it(modules, lab, policies):
    lab.policy()
    lab.nodes("led-0")
    for number, operand in enumerate(CHAIN):
        lab.daemonset(f"set-{number}", operand)
    everything = {("led-0", f"set-{number}") for number in range(3)}
    lab.await_running(*everything)
    out = step(modules, lab, ["led-0"], operands=["driver"], state="out", reason="The driver is in the image")
    assert any("forgets" in note and "workload" in note for note in out["notes"])
    assert any("its upgrades are yours" in note for note in out["notes"])
    lab.await_running(("led-0", "set-1"), ("led-0", "set-2"))

    whole = step(modules, lab, ["led-0"], state="out")
    assert whole["operator"] and whole["nodes"][0]["acts"] == "operator"
    assert whole["nodes"][0]["labels"] == {DEPLOY + "operands": "false"}, "the rest is the operator's part"
    assert stopped(whole) == {("led-0", "set-1"), ("led-0", "set-2")}
    # The operator's part: all known deploy labels go, the opt-out too.
    lab.label("led-0", **dict.fromkeys(ON))
    lab.await_running()
    assert not modules.run("operand_switches", nodes=["led-0"], state="out")["changed"]
    refused(modules, "node led-0: it is out as a whole", nodes=["led-0"], operands=["driver"], state="in")

    back = step(modules, lab, ["led-0"], state="in")
    assert started(back) == {("led-0", "set-1"), ("led-0", "set-2")}, "not the driver"
    assert lab.metadata("led-0", "labels")[DEPLOY + "driver"] == "false"
    # The operator's part: it honours what is there, and sets the others.
    lab.label("led-0", **{key: "true" for key in ON if key != DEPLOY + "driver"})
    lab.await_running(("led-0", "set-1"), ("led-0", "set-2"))
    assert lab.metadata("led-0", "annotations")[WHY + "driver"] == "The driver is in the image"
    step(modules, lab, ["led-0"], operands=["driver"], state="in")
    lab.await_running(*everything)
    assert lab.state("led-0") == [(GPU_NODE, {})]


def test_a_lost_label_is_set_again_where_an_operator_does_not(modules, lab, policies):
    """Operator 26.7.0 does not restore a deploy label that is gone."""
    lab.policy(sandboxWorkloads={"enabled": True})
    lab.nodes("lost-0")
    lab.nodes("lost-1", labels={**GPU_NODE, WORKLOAD: "vm-passthrough", **dict.fromkeys(ON)})
    lab.daemonset("plugin", "device-plugin")
    lab.label("lost-0", **{DEPLOY + "device-plugin": None})
    lab.await_running()
    done = step(modules, lab, ["lost-0", "lost-1"], operands=["device-plugin"], state="in")
    assert [node["labels"] for node in done["nodes"]] == [{DEPLOY + "device-plugin": "true"}, {}]
    lab.await_running(("lost-0", "plugin"))
    # On a node for virtual machines there is nothing to take out, and a label would be taken off again.
    out = modules.run("operand_switches", nodes=["lost-1"], operands=["device-plugin"], state="out", reason="x")
    assert not out["changed"]
    assert any(note.startswith("lost-1: ") and "vm-passthrough" in note for note in out["notes"])


def test_values_of_other_programs_are_not_lost(modules, lab, policies):
    lab.policy()
    lab.nodes("paused-0", "paused-1", "paused-2")
    key = DEPLOY + "device-plugin"
    lab.label("paused-1", **{key: "paused-for-mig-change"})
    lab.label("paused-2", **{DEPLOY + "driver": "pre-installed"})
    options = {"operands": ["device-plugin"], "state": "out", "reason": "x"}
    before = lab.state("paused-0", "paused-1")
    refused(modules, "paused-1", '"paused-for-mig-change"', "mig change", "force", nodes=["paused-[0:1]"], **options)
    assert lab.state("paused-0", "paused-1") == before, "nothing half done"
    left = modules.run("operand_switches", nodes=["paused-1"], operands=["device-plugin"], state="in")
    assert not left["changed"] and "left so without force" in left["notes"][0]
    step(modules, lab, ["paused-1"], **options, force=True)
    assert lab.metadata("paused-1", "labels")[key] == "false"
    step(modules, lab, ["paused-1"], operands=["device-plugin"], state="in")
    assert lab.metadata("paused-1", "labels")[key] == "true", "nobody would end the pause"
    # What is no pause is put back.
    step(modules, lab, ["paused-2"], operands=["driver"], state="out", reason="x", force=True)
    step(modules, lab, ["paused-2"], operands=["driver"], state="in")
    assert lab.metadata("paused-2", "labels")[DEPLOY + "driver"] == "pre-installed"


def test_cluster_wide(modules, lab, policies):
    lab.policy(driver={"enabled": True, "version": "595.91.07"}, toolkit={})
    lab.nodes("wide-0", "wide-1")
    lab.label("wide-1", **{DEPLOY + "driver": "false"})
    lab.daemonset("nvidia-container-toolkit-daemonset", "container-toolkit", owner="cluster-policy")
    lab.daemonset("of-the-operator", "driver", owner="cluster-policy")
    lab.daemonset("by-hand", "driver")
    others = {("wide-0", "by-hand"), *((node, "nvidia-container-toolkit-daemonset") for node in ("wide-0", "wide-1"))}
    lab.await_running(("wide-0", "of-the-operator"), *others)

    def spec():
        return lab.cluster.get("clusterpolicy", "cluster-policy")["spec"]

    out = step(modules, lab, [], cluster={"driver": False, "container-toolkit": True})
    assert spec() == {"driver": {"enabled": False, "version": "595.91.07"}, "toolkit": {}}
    assert out["cluster"]["switched"] == {"driver": False}
    assert [(one["node"], one["daemonset"]) for one in out["cluster"]["stops"]] == [
        ("wide-0", f"{lab.namespace}/of-the-operator")
    ], "the one by hand stays"
    assert any("its upgrades are yours" in note for note in out["notes"])
    assert out["summary"] == [
        "ClusterPolicy cluster-policy: driver.enabled=false",
        f"wide-0: stops {lab.namespace}/of-the-operator",
    ]
    key = "ClusterPolicy cluster-policy"
    assert out["diff"]["before"][key]["enabled"] == {"driver": True}
    assert out["diff"]["after"][key] == {"enabled": {"driver": False}, "pods": []}
    # The operator's part.
    lab.cluster.kubectl("delete", "daemonset", "-n", lab.namespace, "of-the-operator")
    lab.await_running(*others)

    back = step(modules, lab, [], cluster={"driver": True})
    assert spec()["driver"] == {"enabled": True, "version": "595.91.07"}
    assert back["cluster"]["starts"] == [
        {"node": "wide-0", "daemonset": "nvidia-driver-daemonset", "operand": "driver"}
    ]


def test_the_policy_that_the_operator_follows(modules, lab, policies):
    lab.nodes("which-0")
    refused(modules, "there is no ClusterPolicy", cluster={"driver": False})
    lab.policy("first", state=None)
    # An operator that has not begun: the role acts, and says so.
    done = modules.run("operand_switches", check=True, nodes=["which-0"], state="out")
    assert not done["operator"] and "first" in done["notes"][0] and "operator=present" in done["notes"][0]
    present = modules.run("operand_switches", check=True, nodes=["which-0"], state="out", operator="present")
    assert present["operator"] and present["nodes"][0]["acts"] == "operator"
    lab.policy("second", state=None)
    refused(modules, "first, second", "status.state", cluster={"driver": False})
    lab.policy("third", state="notReady")
    done = modules.run("operand_switches", cluster={"driver": False})
    assert done["cluster"]["policy"] == "third"
    specs = {item["metadata"]["name"]: item["spec"] for item in lab.cluster.get("clusterpolicies")["items"]}
    assert specs == {"first": {}, "second": {}, "third": {"driver": {"enabled": False}}}
    gone = modules.run("operand_switches", check=True, nodes=["which-0"], state="out", operator="absent")
    assert gone["nodes"][0]["acts"] == "role" and not gone["notes"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"nodes": ["nobody-[0:2]"], "state": "out"}, ("no such node: nobody-0, nobody-1, nobody-2",)),
        ({"nodes": ["a-[2:1]"], "state": "out"}, ("'a-[2:1]'", "gpu-[00:19]")),
        ({"nodes": ["A_1"], "state": "out"}, ("'A_1' is no node name",)),
        ({"nodes": ["a"]}, ("without a state", "out or in")),
        ({"cluster": {"drivr": False}}, ("'drivr'", "did you mean driver?")),
        ({"cluster": {"operator-validator": False}}, ("has no switch for it",)),
        ({"cluster": {"driver": "no"}}, ("driver is 'no', expected true or false",)),
        ({"cluster": {"toolkit": True, "container-toolkit": False}}, ("toolkit is switched on and off",)),
    ],
)
def test_what_can_not_be_is_told_in_one_line(modules, options, parts):
    refused(modules, *parts, **options)


@pytest.mark.parametrize(
    ("operand", "part"),
    [
        ("device-plugn", "did you mean device-plugin?"),
        ("toolkit", "did you mean container-toolkit?"),
        ("operands", "leave operands empty"),
        ("quux", "know cc-manager, "),
    ],
    ids=["slip", "section", "whole", "unknown"],
)
def test_an_unknown_operand_gets_the_name_it_is_near(modules, lab, operand, part):
    lab.nodes("near-0")
    refused(modules, f"'{operand}'", part, nodes=["near-0"], operands=[operand], state="out", reason="x")
    lab.daemonset("own", "quux")
    done = modules.run("operand_switches", nodes=["near-0"], operands=["quux"], state="out", reason="x")
    assert done["changed"], "a DaemonSet selects it, so it is known"
