# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dumps of a cluster with GPUs, and what an audit says of them."""

import json
from xml.etree import ElementTree

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.audit_report import AUDIT_FORMATS, audit_reports
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import settings_from
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules import builders
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operand_builders import gpu_node

KINDS = ("Node", "Pod", "DaemonSet", "ClusterPolicy", "NVIDIADriver", "GPUCluster", "ResourceSlice")
GPUS = {"nvidia.com/gpu": "4"}
CRASHES = {
    "phase": "Running",
    "containerStatuses": [{"name": "main", "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
}


def gpus(name="gpu-1", **options):
    """A node of the operator's that offers GPUs."""
    found = gpu_node(name, **{"dcgm": "true", "node_status_exporter": "true", **options})
    return {**found, "status": {"allocatable": GPUS, "capacity": GPUS}}


def save(folder, *objects):
    flat = [one for given in objects for one in (given if isinstance(given, list) else [given])]
    path = folder / "dump.json"
    path.write_text(json.dumps(builders.listed(flat)))
    return str(path)


def told(path, version="26.3.3", ignore=(), policy=None, **options):
    """(report, JSON document, text, JUnit)."""
    settings = settings_from("operator", policy, version, list(ignore))
    report = audit_reports([path] if isinstance(path, str) else path, settings, formats=AUDIT_FORMATS, **options)
    outputs = report["outputs"]
    return report, json.loads(outputs["json"]), outputs["text"], ElementTree.fromstring(outputs["junit"])


def live(**left_out):
    """What cluster_dump returns of a cluster; by kind, why one was left out."""
    dumps = [{"kind": kind, "left_out": left_out.get(kind, "")} for kind in KINDS]
    return {"host": "https://cluster:6443", "kubernetes_version": "v1.37.2", "dumps": dumps}


def rules(document):
    return sorted((one["rule"], one["subject"]["name"]) for one in document["findings"])
