# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator's real controllers were seen to do, in data/operator_oracle.json: one record per settled state.

A record has the id, operator_version, cluster_policy (the spec as given), nodes with labels_in (given from outside),
labels_out (all nvidia.com/ labels afterwards), taints and pods (DaemonSets with a Pod Running there), and daemonsets with
node_selector. In sequences previous is the id of the state before, and changes or action say what was done.
timing_dependent: one outcome of a race.
"""

import json
import pathlib
import re

DATA = pathlib.Path(__file__).resolve().parents[3] / "data"
RECORDS = json.loads((DATA / "operator_oracle.json").read_text())
# What the words of `action` mean where a record has no `changes`.
ACTIONS = json.loads((DATA / "operator_actions.json").read_text())

BY_ID = {(record["operator_version"], record["id"]): record for record in RECORDS}
STEADY = [record for record in RECORDS if not record["timing_dependent"]]
FIRST = [record for record in STEADY if "previous" not in record]
STEPS = [record for record in STEADY if "previous" in record]


def title(record):
    """Return the name of a record's test."""
    return f"{record['operator_version']} {record['id']}"


def node_object(node, **labels):
    """Return the Node that a record's node was, before the operator saw it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["name"], "labels": {**node["labels_in"], **labels}},
        "spec": {"taints": node["taints"], "unschedulable": bool(node.get("unschedulable"))},
    }


def other_objects(record):
    """Return the objects beside the ClusterPolicy that a record's title tells of."""
    if "one NVIDIADriver object" in record["title"]:
        return [
            {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": "default"}, "spec": {}}
        ]
    return []


def without_hash(name):
    """Return the name of a DaemonSet; one that ends in a hash up to it."""
    return re.sub(r"^(nvidia-[a-z-]+-driver-.*)-[0-9a-f]{8,10}$", r"\1", name)
