# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of operands as text, from dumps, and with two versions compared."""

import gzip
import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import operand_audit_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_table import operand_table
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operand_builders import (
    CHAIN,
    DEPLOY,
    FOUND,
    NOT_CHECKED,
    audit,
    cluster_policy,
    gpu_node,
    lab_pods,
    lab_sets,
    labels_of,
    node,
    operator_sets,
    pods_on,
)

SYSTEM = {
    "feature.node.kubernetes.io/kernel-version.full": "6.8.0-60-generic",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}


def test_the_table_of_a_lab():
    lost = labels_of(CHAIN, driver=None)
    result = audit(
        lab_sets(numbers=(2, 2)),
        [node(f"gpu-{number}", labels_of(CHAIN)) for number in (1, 2)],
        node("gpu-3", lost),
        node("gpu-4", labels_of(CHAIN), [NOT_CHECKED]),
        lab_pods("gpu-1"),
        lab_pods("gpu-2"),
        lab_pods("gpu-3", CHAIN[1:]),
    )
    assert operand_table(result, 90).splitlines()[:10] == [
        "4 nodes with GPUs, 2 with something missing or out of order; no operator",
        "",
        "NODES      WORKLOAD   DUE  RUN  MISSING",
        "gpu-[1:2]  container    5    5",
        "gpu-3      container    5    4  label-absent: driver",
        "gpu-4      container    5    0  taint-not-tolerated: container-toolkit, device-plugin,",
        "                                driver, gpu-feature-discovery, operator-validator",
        "",
        "OUT OF ORDER",
        "gpu-3: container-toolkit runs, and driver, which it needs, does not (no label",
    ]
    assert "DaemonSet lab/lab-driver says desiredNumberScheduled 2, numberReady 2, but" in operand_table(result, 200)


def test_the_table_names_operator_version_and_what_is_off():
    lines = operand_table(audit(cluster_policy(), operator_sets(), gpu_node(), pods_on("gpu-1")), 400).splitlines()
    assert lines[0].startswith(
        "1 node with GPUs, 0 with something missing or out of order; operator 26.7.0 (as given); "
    )
    assert "dcgm (dcgm.enabled)" in lines[0]
    assert len(lines) == 4, "nothing is out of order and nothing misleads"


def test_a_thousand_nodes_stay_a_screenful():
    nodes = [gpu_node(f"gpu-{number:04}", dcgm_exporter=None if number % 2 else "false") for number in range(1000)]
    text = operand_table(audit(cluster_policy(), operator_sets(), nodes))
    assert len(text.splitlines()) < 60 and max(map(len, text.splitlines())) <= 110


def test_what_comes_from_a_dump_begins_no_line():
    spoilt = gpu_node("gpu-1", dcgm_exporter="x\n\x1b[31mred")
    text = operand_table(audit(cluster_policy(), operator_sets(), spoilt, pods_on("gpu-1", ("dcgm-exporter",))), 400)
    assert "\x1b" not in text and not any(line.startswith("red") for line in text.splitlines())


def comparison(*nodes, versions=("26.3", "26.7"), others=(), **sections):
    result = audit(cluster_policy(**sections), list(nodes), list(others), compare_versions=list(versions))
    assert operand_table(result)
    return result["comparison"]


def test_what_changes_from_one_version_to_another():
    blocked = gpu_node("gpu-1", labels=SYSTEM, dcgm_exporter="")
    found = comparison(blocked)
    assert (found["from"], found["to"]) == ("26.3", "26.7")
    (changed,) = found["nodes"]
    assert changed["labels"]["changed"] == {DEPLOY + "dcgm-exporter": ["", "true"]}
    assert changed["labels"]["added"] == {DEPLOY + "client": "true"}
    assert changed["daemonsets"] == {"added": ["nvidia-dcgm-exporter"], "removed": []}
    assert any("lost" in note for note in found["notes"])


def test_nodes_for_which_nothing_changes_are_left_out():
    found = comparison(gpu_node("gpu-1", labels=SYSTEM), node("cpu-1", {}), versions=("25.10", "26.3"))
    assert found["nodes"] == [] and found["notes"] == []


def test_a_default_that_the_new_version_may_not_follow_is_noted():
    found = comparison(
        node("gpu-1", {**FOUND, **SYSTEM}), sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}
    )
    assert "another default" in found["nodes"][0]["notes"][0]


def test_a_version_that_takes_operands_away():
    """Before 26.7 an operator with a kataManager and a configuration makes its DaemonSet in mode kata."""
    sandbox = {"enabled": True, "mode": "kata"}
    labelled = node("gpu-1", {**FOUND, **SYSTEM, "nvidia.com/gpu.workload.config": "vm-passthrough"})
    found = comparison(labelled, sandboxWorkloads=sandbox, kataManager={"enabled": True, "config": {}})
    assert found["nodes"][0]["daemonsets"]["removed"] == ["nvidia-kata-manager"]


@pytest.mark.parametrize("versions", [["26.3"], ["26.3", "26.7", "26.8"], ["old", "26.7"], "26.3"])
def test_versions_that_cannot_be_compared(versions):
    with pytest.raises(ValueError, match="compare_versions|operator version"):
        audit(cluster_policy(), gpu_node(), compare_versions=versions)


def test_without_a_cluster_policy_there_is_nothing_to_compare_by():
    with pytest.raises(ValueError, match="no ClusterPolicy"):
        audit(gpu_node(), compare_versions=["26.3", "26.7"])


def written(folder, **files):
    for name, objects in files.items():
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        (folder / f"{name}.json").write_text(text)
    return str(folder)


def test_a_folder_a_file_and_an_archive_say_the_same(tmp_path):
    given = {
        "nodes": [gpu_node(dcgm_exporter=None)],
        "daemonsets": operator_sets(),
        "pods": pods_on("gpu-1", ("dcgm-exporter",)),
        "policy": [cluster_policy()],
    }
    expected = audit(*given.values(), version="26.3")
    assert operand_audit_of([written(tmp_path, **given)], "26.3") == expected
    whole = tmp_path / "whole.json.gz"
    every = [one for objects in given.values() for one in objects]
    whole.write_bytes(gzip.compress(json.dumps({"apiVersion": "v1", "kind": "List", "items": every}).encode()))
    assert operand_audit_of([str(whole)], "26.3") == expected
    paths = [str(tmp_path / f"{name}.json") for name in given]
    assert operand_audit_of(paths, "26.3") == expected
    assert operand_audit_of(paths[:3], "26.3", str(tmp_path / "policy.json")) == {
        **expected,
        "misleading": [expected["misleading"][-1]],
    }


@pytest.mark.parametrize("gone", ["nodes", "daemonsets", "pods"])
def test_a_dump_that_lacks_a_kind_is_refused_with_what_to_add(tmp_path, gone):
    given = {"nodes": [gpu_node()], "daemonsets": operator_sets(), "pods": pods_on("gpu-1")}
    del given[gone]
    with pytest.raises(Unreadable, match=f"add what `kubectl get {gone}"):
        operand_audit_of([written(tmp_path, **given)])


@pytest.mark.parametrize("text", ["{", "", '{"kind": "Node", "metadata": {}}'])
def test_what_cannot_be_read_is_named(tmp_path, text):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(Unreadable, match="broken.json"):
        operand_audit_of([str(path)])
