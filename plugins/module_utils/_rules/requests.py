# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From declared requests to the Pods that ask.

Private to the collection gpuwl.sandbox. Source of the form: the role variable lab_requests of this collection.
"""

import re
from typing import Any, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.declared import (
    DeclarationError,
    label_errors,
    repeated,
    resource_errors,
    shown,
    wrong_type,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_dns_subdomain,
    invalid_label_value,
    invalid_qualified_name,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

REQUEST_KEYS = ("name", "manifest", "resources", "node_selector", "tolerations", "count", "record")
RECORD_FIELDS = ("NODE", "RESOURCE", "PHASE", "MESSAGE")
# Below out/ these are written by other steps.
RESERVED_RECORDS = (
    "01-nodes.txt",
    "03-resources.txt",
    "operands.txt",
    "pool-operands.json",
    "pool-operands.txt",
    "nodes.json",
    "pods.json",
    "consistency.txt",
    "requests.json",
    "run.json",
    "checks",
)
TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")
TOLERATION_OPERATORS = ("Equal", "Exists")
TOLERATED_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MOST_PODS = 10000
# File systems take 255 bytes, and a file gets a longer name while it is written.
LONGEST_FILE_NAME = 240
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def request_pods(requests: Any) -> List[Dict[str, Any]]:
    """The requests with their defaults filled in, in the order declared.

    requests: list of {name, manifest, resources, node_selector, tolerations, count, record}.
    Returns a list of {name, manifest, resources: {name: whole number}, node_selector, tolerations, record, pods: [names],
    first: the number of Pods asked for before}.
    A count above 1 gives Pods <name>-0, <name>-1, ...
    Raises DeclarationError, a ValueError, that lists all that is wrong.
    """
    if not isinstance(requests, list):
        raise DeclarationError(
            [f"lab_requests must be a list of requests, each {{name, resources, ...}}; found: {shown(requests)}"]
        )
    errors: List[str] = []
    for number, request in enumerate(requests):
        if not isinstance(request, dict):
            errors.append(
                "lab_requests[%d] must be a mapping with name and resources; found: %s" % (number, shown(request))
            )
            continue
        name = request.get("name")
        where = f"request {name}" if isinstance(name, str) and name else "lab_requests[%d]" % number
        errors += [f"{where}: {error}" for error in _request_errors(request)]
    errors += _clashes(
        [request for request in requests if isinstance(request, dict) and isinstance(request.get("name"), str)]
    )
    if errors:
        raise DeclarationError(errors)
    found: List[Dict[str, Any]] = []
    first = 0
    for request in requests:
        found.append(_filled(request, first))
        first += len(found[-1]["pods"])
    return found


def record_names(requests: List[Dict[str, Any]]) -> Dict[str, List[str]]:
    """What a placements record may name: a Pod, or a request for all of its Pods."""
    names = {pod: [pod] for request in requests for pod in request["pods"]}
    names.update({request["name"]: request["pods"] for request in requests})
    return names


def _filled(request: Dict[str, Any], first: int) -> Dict[str, Any]:
    return {
        "name": request["name"],
        "manifest": _manifest(request),
        "record": request.get("record"),
        "pods": _pods(request),
        "first": first,
        "resources": {name: parse_quantity(quantity) for name, quantity in request["resources"].items()},
        "node_selector": dict(request.get("node_selector") or {}),
        "tolerations": list(request.get("tolerations") or []),
    }


def _manifest(request: Dict[str, Any]) -> Any:
    manifest = request.get("manifest")
    return "pod-{}.yaml".format(request.get("name")) if manifest is None else manifest


def _pods(request: Dict[str, Any]) -> List[str]:
    count = request.get("count", 1)
    return (
        [request["name"]]
        if count == 1 or not _is_count(count)
        else ["%s-%d" % (request["name"], number) for number in range(count)]
    )


def _is_count(count: Any) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MOST_PODS


def _clashes(requests: List[Dict[str, Any]]) -> List[str]:
    """Errors between requests that have a name: what stands twice, and placements of Pods that nobody declares."""
    pods = [{"name": request["name"], "pods": _pods(request)} for request in requests]
    records = [(request["name"], request["record"]) for request in requests if isinstance(request.get("record"), dict)]
    errors = repeated((pod for request in pods for pod in request["pods"]), "Pod name")
    errors += repeated((_manifest(request) for request in requests), "manifest")
    errors += repeated((record["file"] for _name, record in records if record.get("file")), "record file")
    known = record_names(pods)
    for name, record in records:
        placements = record.get("placements")
        for pod in placements if isinstance(placements, list) else []:
            if not isinstance(pod, str) or pod not in known:
                errors.append(f"request {name}: record: placements name {shown(pod)}, which no request declares")
    return errors


def _request_errors(request: Dict[str, Any]) -> List[str]:
    errors = [
        "unknown key {}; known are {}".format(key, ", ".join(REQUEST_KEYS))
        for key in request
        if key not in REQUEST_KEYS
    ]
    if not _is_count(request.get("count", 1)):
        errors.append("count must be a whole number from 1 to %d; found: %s" % (MOST_PODS, shown(request.get("count"))))
    name = request.get("name")
    # The last Pod has the longest name.
    wrong = invalid_dns_subdomain(_pods(request)[-1] if isinstance(name, str) and name else name)
    errors += [f"name {shown(name)} is no Pod name: {wrong}"] if wrong else []
    errors += _file_errors("manifest", _manifest(request), "pod-container.yaml")
    if not request.get("resources"):
        errors.append(
            "resources must name at least one resource, such as {{nvidia.com/gpu: 1}}; found: {}".format(
                shown(request.get("resources"))
            )
        )
    else:
        errors += resource_errors(request["resources"], least=1)
    errors += label_errors("node_selector", request.get("node_selector"))
    return errors + _toleration_errors(request.get("tolerations")) + _record_errors(request.get("record"))


def _file_errors(key: str, name: Any, example: str) -> List[str]:
    if not isinstance(name, str) or not _FILE_NAME.match(name):
        return [f"{key} must be a file name such as {example}; found: {shown(name)}"]
    if len(name) > LONGEST_FILE_NAME:
        return [
            "%s: the file name %s has %d characters, at most %d are allowed"
            % (key, shown(name), len(name), LONGEST_FILE_NAME)
        ]
    return []


def _toleration_errors(tolerations: Any) -> List[str]:
    """What the API server would refuse (Kubernetes, pkg/apis/core/validation ValidateTolerations)."""
    errors = wrong_type("tolerations", tolerations, list)
    for entry in (tolerations or []) if not errors else []:
        if not isinstance(entry, dict) or set(entry) - set(TOLERATION_KEYS):
            errors.append("tolerations: {} must be {{{}}}".format(shown(entry), ", ".join(TOLERATION_KEYS)))
            continue
        key, operator, value = entry.get("key") or "", entry.get("operator") or "Equal", entry.get("value", "")
        wrong = []
        if operator not in TOLERATION_OPERATORS:
            wrong.append("operator {}; allowed are {}".format(shown(operator), ", ".join(TOLERATION_OPERATORS)))
        elif operator == "Exists" and value != "":
            wrong.append(f"value {shown(value)}: with the operator Exists leave value out")
        if key and invalid_qualified_name(key):
            wrong.append(f"key {shown(key)}: {invalid_qualified_name(key)}")
        elif not key and operator == "Equal":
            wrong.append("without key the operator must be Exists")
        if invalid_label_value(value):
            wrong.append(f"value {shown(value)}: {invalid_label_value(value)}")
        if entry.get("effect") not in TOLERATED_EFFECTS + (None, ""):
            wrong.append("effect {}; allowed are {}".format(shown(entry["effect"]), ", ".join(TOLERATED_EFFECTS)))
        wrong += _seconds_errors(entry)
        errors += [f"tolerations: {error}" for error in wrong]
    return errors


def _seconds_errors(toleration: Dict[str, Any]) -> List[str]:
    seconds = toleration.get("tolerationSeconds")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int)):
        return [f"tolerationSeconds must be a whole number; found: {shown(seconds)}"]
    if seconds is not None and toleration.get("effect") != "NoExecute":
        return ["tolerationSeconds goes with the effect NoExecute only"]
    return []


def _record_errors(record: Any) -> List[str]:
    if record is None:
        return []
    if not isinstance(record, dict) or set(record) - {"file", "fields", "placements"}:
        return [f"record must be {{file, fields}} or {{file, placements}}; found: {shown(record)}"]
    name = record.get("file")
    errors = _file_errors("record: file", name, "04-container.txt")
    if name in RESERVED_RECORDS:
        errors.append(f"record: file {name} is written by another step: choose another name")
    errors += wrong_type("record: fields", record.get("fields"), list)
    errors += wrong_type("record: placements", record.get("placements"), list)
    if errors:
        return errors
    unknown = [field for field in record.get("fields") or [] if field not in RECORD_FIELDS]
    errors += [
        "record: field {} is unknown; known are {}".format(shown(field), ", ".join(RECORD_FIELDS)) for field in unknown
    ]
    if not record.get("fields") and not record.get("placements"):
        errors.append("record: give fields or placements, or leave record out")
    return errors
