# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The audit of operands on a live cluster: one LIST per kind, of which only what counts is kept. Private to the collection."""

from __future__ import annotations

import functools
from typing import Any

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import (
    AUDIT_KINDS,
    OperandsSeen,
    seen_object,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_comparison import read_versions
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import read_version

# The few first: a ClusterPolicy that cannot be read ends it before the long lists.
KINDS = ("ClusterPolicy", "NVIDIADriver", "GPUCluster", "DaemonSet", "ResourceSlice", "Node", "Pod")


def argument_spec() -> dict[str, Any]:
    """Options of operand_audit besides authentication; the documentation in plugins/modules/operand_audit.py mirrors it."""
    return {
        "operator_version": {"type": "str"},
        "cluster_policy": {"type": "dict"},
        "compare_versions": {"type": "list", "elements": "str"},
    }


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Read the cluster and judge it; returns the module's result."""
    try:
        seen = OperandsSeen(
            read_policy(params["cluster_policy"]) if params["cluster_policy"] else None,
            read_version(params["operator_version"]) if params["operator_version"] else "",
        )
        if params["compare_versions"]:
            read_versions(params["compare_versions"])
        look(api, seen)
        return {"changed": False, **seen.result(params["compare_versions"])}
    except ValueError as error:
        raise ApiError(error) from error


def look(api: Api, seen: OperandsSeen) -> None:
    """One LIST per kind, of which no more than a page is held at a time."""
    for kind in KINDS:
        resource = AUDIT_KINDS[kind]
        if not api.serves(resource):
            continue
        try:
            found = api.list(resource, keep=functools.partial(seen_object, kind))[0]
        except ApiError as error:
            # They only tell which nodes are DRA's; deploy labels tell it too.
            if kind != "ResourceSlice" or error.status != 403:
                raise
            continue
        for one in found:
            seen.note(kind, one)
