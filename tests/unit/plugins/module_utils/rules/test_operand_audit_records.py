# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit on what unmodified operators were seen to do: a settled cluster has what it should, but for what was put there."""

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import operand_audit
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_records import (
    STEADY,
    other_objects,
    title,
)

DEPLOY = "nvidia.com/gpu.deploy."
TOLERATED = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def objects_of(record):
    """The cluster that a record shows, as the API would give it."""
    policy = record["cluster_policy"]
    status = record["cluster_policy_status"]
    found = [
        {"kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": policy, "status": (status or [{}])[0]}
    ]
    tolerations = (policy.get("daemonsets") or {}).get("tolerations") or TOLERATED
    for one in record["daemonsets"]:
        spec = {"nodeSelector": one["node_selector"], "tolerations": tolerations}
        found.append(
            {
                "kind": "DaemonSet",
                "metadata": {"name": one["name"], "namespace": "o", "ownerReferences": [{"kind": "ClusterPolicy"}]},
                "spec": {"template": {"spec": spec}},
            }
        )
    for node in record["nodes"]:
        of_others = {key: value for key, value in node["labels_in"].items() if not key.startswith("nvidia.com/")}
        metadata = {"name": node["name"], "labels": {**of_others, **node["labels_out"]}}
        spec = {"taints": node["taints"], "unschedulable": bool(node.get("unschedulable"))}
        found.append({"kind": "Node", "metadata": metadata, "spec": spec})
        for name in node["pods"]:
            owners = [{"kind": "DaemonSet", "name": name}]
            metadata = {"name": f"{name}-{node['name']}", "namespace": "o", "ownerReferences": owners}
            status = {"phase": "Running"}
            found.append({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node["name"]}, "status": status})
    return found + other_objects(record)


@pytest.mark.parametrize("record", STEADY, ids=title)
def test_a_settled_cluster_lacks_only_what_was_held_back(record):
    """What is missing has a label that is not "true", or a taint; and what runs is what has Pods."""
    selectors = {one["name"]: one["node_selector"] for one in record["daemonsets"]}
    result = operand_audit(objects_of(record), operator_version=record["operator_version"])
    nodes = {node["name"]: node for node in record["nodes"]}
    for found in result["nodes"]:
        node = nodes[found["node"]]
        for one in found["missing"]:
            is_held = node["labels_out"].get(DEPLOY + one["operand"]) != "true"
            is_held = is_held or ("no NVIDIADriver object" in record["title"] and one["operand"] == "driver")
            assert is_held or (one["cause"] == "taint-not-tolerated" and node["taints"]), found
        keys = {key for name in node["pods"] for key in selectors[name] if key.startswith(DEPLOY)}
        assert {DEPLOY + operand for operand in found["running"]} == keys
    rules = {one["rule"] for one in result["findings"]}
    if "no NVIDIADriver object" in record["title"]:
        # The operator reports ready, and no node has a driver.
        assert {one["subject"]["name"] for one in result["findings"] if one["rule"] == "daemonset-missing"} == {
            "nvidia-driver-daemonset"
        }
        return
    assert not rules & {"operand-not-running", "daemonset-missing", "daemonset-selector-edited"}
