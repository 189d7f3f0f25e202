# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of the lab's records, made from what the API answered.

Private to the collection gpuwl.sandbox. Source of the forms: the lab's steps 1 to 7.
"""

from typing import Any, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.requests import record_names


def node_lines(nodes: List[Dict[str, Any]]) -> List[str]:
    """A line `<node> <label value>` per node, ascending; `none` where the node has no such label.

    nodes: as the module node_labels returns them, {name, after: {key: value}}.
    """
    return ["%s %s" % (node["name"], node["after"].get(WORKLOAD_LABEL, "none")) for node in _ascending(nodes)]


def resource_lines(nodes: List[Dict[str, Any]], prefix: str) -> List[str]:
    """A line `<node> <resource> <quantity>` per node and allocatable resource of the prefix, ascending.

    nodes: as the module node_status returns them, {name, after: {allocatable: {name: whole number}}}.
    """
    return [
        "%s %s %s" % (node["name"], name, quantity)
        for node in _ascending(nodes)
        for name, quantity in sorted(node["after"]["allocatable"].items())
        if name.startswith(prefix)
    ]


def placement_records(requests: List[Dict[str, Any]], placements: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The record files of the requests: a list of {path: below out/, content: [lines]}.

    requests: as request_pods gives them; placements: as the module placement_info returns them.
    """
    answers = {placement["pod"]: placement for placement in placements}
    names = record_names(requests)
    records = []
    for request in requests:
        record = request["record"]
        if not record or any(pod not in answers for pod in request["pods"]):
            continue
        lines = []
        for pod in request["pods"]:
            values = _fields(request, answers[pod])
            lines += ["%s=%s" % (field, values[field]) for field in record.get("fields", [])]
        listed = sorted({pod for name in record.get("placements", []) for pod in names[name]})
        lines += ["%s %s" % (pod, answers[pod]["node"] or "none") for pod in listed if pod in answers]
        records.append({"path": "out/" + record["file"], "content": lines})
    return records


def _fields(request: Dict[str, Any], answer: Dict[str, Any]) -> Dict[str, str]:
    return {
        "NODE": answer["node"] or "none",
        "RESOURCE": ",".join(sorted(request["resources"])),
        "PHASE": answer["phase"],
        "MESSAGE": " ".join((answer["message"] or "none").split()),
    }


def _ascending(nodes: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    return sorted(nodes, key=lambda node: node["name"])
