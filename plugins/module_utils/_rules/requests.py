# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From declared requests to the Pods that ask.

Private to the collection gpuwl.sandbox. Source of the form: the role variable lab_requests of this collection.
"""

import hashlib
import json
import re
from typing import Any, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_dns_subdomain,
    invalid_label_value,
    invalid_qualified_name,
    invalid_resource_name,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

REQUEST_KEYS = ("name", "manifest", "resources", "node_selector", "tolerations", "count", "record")
RECORD_FIELDS = ("NODE", "RESOURCE", "PHASE", "MESSAGE")
# Below out/ these are written by other steps.
RESERVED_RECORDS = ("01-nodes.txt", "03-resources.txt", "operands.txt", "nodes.json", "pods.json", "consistency.txt", "run.json")
MOST_PODS = 10000
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def request_pods(requests: Any) -> List[Dict[str, Any]]:
    """The requests with their defaults filled in, in the order declared.

    requests: list of {name, manifest, resources, node_selector, tolerations, count, record}.
    Returns a list of {name, manifest, resources: {name: whole number}, node_selector, tolerations, record, pods: [names],
    declared: text that changes when a Pod's spec would}. A count above 1 gives Pods <name>-0, <name>-1, ...
    Raises ValueError that lists all that is wrong.
    """
    if not isinstance(requests, list):
        raise ValueError("lab_requests must be a list of requests, each {name, resources, ...}; found: %r" % (requests,))
    errors: List[str] = []
    found: List[Dict[str, Any]] = []
    for number, request in enumerate(requests):
        if not isinstance(request, dict):
            errors.append("lab_requests[%d] must be a mapping with name and resources; found: %r" % (number, request))
            continue
        name = request.get("name")
        where = "request %s" % name if isinstance(name, str) else "lab_requests[%d]" % number
        wrong = _request_errors(request)
        errors += ["%s: %s" % (where, error) for error in wrong]
        if not wrong:
            found.append(_filled(request))
    pods = [pod for request in found for pod in request["pods"]]
    errors += _repeated(pods, "Pod name")
    errors += _repeated([request["manifest"] for request in found], "manifest")
    errors += _repeated([request["record"]["file"] for request in found if request["record"]], "record file")
    for request in found:
        unknown = [pod for pod in (request["record"] or {}).get("placements", []) if pod not in record_names(found)]
        errors += ["request %s: record: placements name %s, which no request declares" % (request["name"], pod) for pod in unknown]
    if errors:
        raise ValueError("; ".join(errors))
    return found


def record_names(requests: List[Dict[str, Any]]) -> Dict[str, List[str]]:
    """What a placements record may name: a Pod, or a request for all of its Pods."""
    names = {pod: [pod] for request in requests for pod in request["pods"]}
    names.update({request["name"]: request["pods"] for request in requests})
    return names


def _filled(request: Dict[str, Any]) -> Dict[str, Any]:
    name, count = request["name"], request.get("count", 1)
    resources = {key: parse_quantity(value) for key, value in request["resources"].items()}
    spec = {
        "resources": resources,
        "node_selector": dict(request.get("node_selector") or {}),
        "tolerations": list(request.get("tolerations") or []),
    }
    declared = hashlib.sha256(json.dumps(spec, sort_keys=True).encode("utf-8")).hexdigest()[:16]
    return {
        "name": name,
        "manifest": request.get("manifest") or "pod-%s.yaml" % name,
        "record": request.get("record"),
        "pods": [name] if count == 1 else ["%s-%d" % (name, number) for number in range(count)],
        "declared": declared,
        **spec,
    }


def _request_errors(request: Dict[str, Any]) -> List[str]:
    errors = ["unknown key %s; known are %s" % (key, ", ".join(REQUEST_KEYS)) for key in request if key not in REQUEST_KEYS]
    count = request.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_PODS:
        errors.append("count must be a whole number from 1 to %d; found: %r" % (MOST_PODS, count))
    wrong = invalid_dns_subdomain(request.get("name"))
    errors += ["name %r is no Pod name: %s" % (request.get("name"), wrong)] if wrong else []
    manifest = request.get("manifest")
    if manifest is not None and not (isinstance(manifest, str) and _FILE_NAME.match(manifest)):
        errors.append("manifest must be a file name such as pod-container.yaml; found: %r" % (manifest,))
    resources = request.get("resources")
    if not isinstance(resources, dict) or not resources:
        return errors + ["resources must name at least one resource, such as {nvidia.com/gpu: 1}; found: %r" % (resources,)]
    for name, quantity in resources.items():
        wrong = invalid_resource_name(name)
        errors += ["resources: %s is no resource name: %s" % (name, wrong)] if wrong else []
        try:
            if parse_quantity(quantity) == 0:
                errors.append("resources: %s: 0 asks for nothing: give 1 or more" % name)
        except ValueError as error:
            errors.append("resources: %s: %s" % (name, error))
    return errors + _selector_errors(request) + _record_errors(request.get("record"))


def _selector_errors(request: Dict[str, Any]) -> List[str]:
    errors = []
    selector = request.get("node_selector") or {}
    if not isinstance(selector, dict):
        return ["node_selector must be a mapping of label to value; found: %r" % (selector,)]
    for key, value in selector.items():
        if invalid_qualified_name(key) or invalid_label_value(value):
            errors.append("node_selector: %s=%r is no label" % (key, value))
    tolerations = request.get("tolerations") or []
    if not isinstance(tolerations, list) or not all(isinstance(entry, dict) for entry in tolerations):
        errors.append("tolerations must be a list of {key, operator, value, effect}; found: %r" % (tolerations,))
    return errors


def _record_errors(record: Any) -> List[str]:
    if record is None:
        return []
    if not isinstance(record, dict) or set(record) - {"file", "fields", "placements"}:
        return ["record must be {file, fields} or {file, placements}; found: %r" % (record,)]
    errors = []
    name = record.get("file")
    if not isinstance(name, str) or not _FILE_NAME.match(name):
        errors.append("record: file must be a file name such as 04-container.txt; found: %r" % (name,))
    elif name in RESERVED_RECORDS:
        errors.append("record: file %s is written by another step: choose another name" % name)
    for key in ("fields", "placements"):
        if not isinstance(record.get(key, []), list):
            return errors + ["record: %s must be a list; found: %r" % (key, record[key])]
    unknown = [field for field in record.get("fields", []) if field not in RECORD_FIELDS]
    errors += ["record: field %s is unknown; known are %s" % (field, ", ".join(RECORD_FIELDS)) for field in unknown]
    if not record.get("fields") and not record.get("placements"):
        errors.append("record: give fields or placements, or leave record out")
    return errors


def _repeated(names: List[str], what: str) -> List[str]:
    repeated = sorted({name for name in names if names.count(name) > 1})
    return ["%s %s stands %d times: names must be unique" % (what, name, names.count(name)) for name in repeated]
