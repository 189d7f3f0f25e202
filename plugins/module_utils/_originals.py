# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nodes were before a declaration changed them, kept on the nodes themselves. Private to the collection.

One annotation per node holds, for each label and resource that is going to be changed, what was there. It is written
before the change, and a key that it holds is never overwritten, so it tells the state before the first run whatever
happens between. It lies on the node, so that any machine can put it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_resource_name
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

# Its value: {"labels": {key: value or null}, "resources": {name: {"capacity": quantity, "allocatable": quantity}}}, where
# null and a missing field mean that it was not there.
ANNOTATION = "gpuwl.sandbox/originals"
FIELDS = ("capacity", "allocatable")


def originals_of(node: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the node's annotation holds: {labels: {key: value or None}, resources: {name: {field: quantity}}}. Raises ApiError where it is damaged."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return {"labels": {}, "resources": {}}
    try:
        kept: dict[str, dict[str, Any]] = json.loads(text)
        if _is_whole(kept):
            return kept
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ApiError(
        f"the annotation {ANNOTATION} of node {node['metadata']['name']} is damaged, and without it nobody knows what the node was before: {text[:200]!r}."
        " Mend it, or remove it if the node shall stay as it is now. Nothing was written."
    )


def _is_whole(kept: dict[str, Any]) -> bool:
    if kept.keys() != {"labels", "resources"} or not all(
        value is None or isinstance(value, str) for value in kept["labels"].values()
    ):
        return False
    for name, fields in kept["resources"].items():
        if (
            invalid_resource_name(name)
            or not fields.keys() <= set(FIELDS)
            or not all(isinstance(value, str) for value in fields.values())
        ):
            return False
        for value in fields.values():
            parse_quantity(value)
    return True


def demand_kept(node: dict[str, Any], what: str, names: Iterable[str]) -> None:
    """Raise ApiError unless the originals of all these labels or resources are kept. what: "labels" or "resources".

    A play that was killed may leave its module behind, and another run may be at work: whoever comes after a teardown would
    overwrite what nobody remembers.
    """
    lost = sorted(set(names) - originals_of(node)[what].keys())
    if lost:
        raise ApiError(
            f"what {', '.join(lost)} was before is not kept on node {node['metadata']['name']}: another run has put the node back meanwhile, or changed"
            " it. It is left as it is; run again when nothing else runs"
        )
