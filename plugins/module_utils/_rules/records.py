# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of the lab's records, made from what the API answered.

Private to the collection gpuwl.sandbox. Source of the forms: the lab's steps 1 to 7.
"""

from typing import Any, Dict, List, Sequence, Set

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.check_reports import FORMATS
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.requests import record_names

# In bytes; with a number and .txt behind it a file name stays below the 255 that file systems take.
LONGEST_STEM = 240


def node_lines(nodes: List[Dict[str, Any]], coming: Sequence[Dict[str, Any]] = ()) -> List[str]:
    """A line `<node> <label value>` per node, ascending; `none` where the node has no such label or an empty one.

    nodes: as the module node_labels returns them, {name, after: {key: value}};
    coming: nodes that check mode does not make, as pool_nodes gives them, {name, labels: {key: value}}.
    """
    labels = {node["name"]: node["after"] for node in nodes}
    labels.update({node["name"]: node["labels"] for node in coming})
    return ["{} {}".format(name, labels[name].get(WORKLOAD_LABEL) or "none") for name in sorted(labels)]


def resource_lines(nodes: List[Dict[str, Any]], prefix: str, coming: Sequence[Dict[str, Any]] = ()) -> List[str]:
    """A line `<node> <resource> <quantity>` per node and allocatable resource of the prefix, ascending.

    nodes: as the module node_status returns them, {name, after: {allocatable: {name: whole number}}};
    coming: nodes that check mode does not make, as pool_nodes gives them, {name, resources: {name: whole number}}.
    """
    resources = {node["name"]: node["after"]["allocatable"] for node in nodes}
    resources.update({node["name"]: node["resources"] for node in coming})
    return [
        f"{node} {name} {quantity}"
        for node in sorted(resources)
        for name, quantity in sorted(resources[node].items())
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
            lines += [f"{field}={values[field]}" for field in record.get("fields") or []]
        listed = sorted({pod for name in record.get("placements") or [] for pod in names[name]})
        lines += ["{} {}".format(pod, answers[pod]["node"] or "none") for pod in listed if pod in answers]
        records.append({"path": "out/" + record["file"], "content": lines})
    return records


def _fields(request: Dict[str, Any], answer: Dict[str, Any]) -> Dict[str, str]:
    return {
        "NODE": answer["node"] or "none",
        "RESOURCE": ",".join(sorted(request["resources"])),
        "PHASE": answer["phase"],
        "MESSAGE": " ".join((answer["message"] or "none").split()),
    }


def request_files(requests: List[Dict[str, Any]]) -> List[str]:
    """The files that requests (as request_pods gives them) are written to, relative to the lab's root."""
    manifests = ["k8s/" + request["manifest"] for request in requests]
    return manifests + ["out/" + request["record"]["file"] for request in requests if request["record"]]


def check_records(reports: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """A record `out/checks/<path with / as _>.txt` per judged dump and format, with what the checker says about it.

    reports: as the filter check_reports returns them, {path, outputs: {format: text}}.
    Two paths that would share a name get -2, -3, ... ; a name too long for a file keeps its end.
    """
    records = []
    names: Set[str] = set()
    for report in reports:
        stem = report["path"].replace("/", "_").encode("utf-8", "replace")[-LONGEST_STEM:].decode("utf-8", "ignore")
        name, number = stem, 1
        while name in names:
            number += 1
            name = "%s-%d" % (stem, number)
        names.add(name)
        for form, text in report["outputs"].items():
            records.append({"path": f"out/checks/{name}{FORMATS[form]}", "content": text})
    return records


def check_failures(reports: List[Dict[str, Any]]) -> List[str]:
    """A line per dump that is not well, and by the profile operator per rule: its bad nodes, or why it cannot be read.

    reports: as the filter check_reports returns them.
    """
    lines = []
    for report in reports:
        path = one_line(report["path"])
        if report["error"]:
            lines.append(report["error"])
        elif report["exit_code"] and report["profile"] == "lab":
            nodes = ", ".join(one_line(found["subject"]["name"]) for found in report["findings"])
            lines.append(f"{path}: label and resources disagree on {nodes}")
        elif report["exit_code"]:
            failing = SEVERITIES[: SEVERITIES.index(report["fail_on"]) + 1]
            names: Dict[str, List[str]] = {}
            for found in report["findings"]:
                if found["severity"] in failing:
                    names.setdefault(found["rule"], []).append(found["subject"]["name"])
            lines += [f"{path}: {rule} on {one_line(ranges(names[rule], 8))}" for rule in sorted(names)]
    return lines
