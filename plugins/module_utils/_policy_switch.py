# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ClusterPolicy that the operator follows, and switching sections of it. Private to the collection."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import CONFLICTS, FIELD_MANAGER, Api, ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import (
    Policy,
    PolicyError,
    read_policy,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_effects import (
    OperandSet,
    PodsThere,
    policy_effects,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_summary import WITHOUT_TOOLKIT

RESOURCE = "clusterpolicies.nvidia.com"
NOTHING = "Nothing was written."


class PolicySwitch(NamedTuple):
    """What is to be done to the ClusterPolicy."""

    item: dict[str, Any] | None  # the ClusterPolicy object
    sections: dict[str, bool]  # what is asked for
    changed: dict[str, bool]  # what of it differs
    acting: Policy | None  # as an operator reads it, None where no operator acts
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.item["metadata"]["name"]) if self.item else ""


def find(api: Api, sections: dict[str, bool], operator: str) -> PolicySwitch:
    """Read the ClusterPolicies and plan. operator: auto, present or absent. Raises ApiError."""
    items = api.list(RESOURCE)[0] if api.serves(RESOURCE) else []
    followed = [item for item in items if (item.get("status") or {}).get("state")]
    known = followed if followed or len(items) != 1 else items
    names = ", ".join(sorted(item["metadata"]["name"] for item in known or items))
    acts = bool(followed) if operator == "auto" else operator == "present"
    if not items and (sections or acts):
        raise ApiError(
            f"there is no ClusterPolicy at {api.host}: install the GPU Operator, or give the nodes without cluster and operator=present. {NOTHING}"
        )
    if (sections or acts) and len(known) != 1:
        raise ApiError(
            f"it can't be told which of the ClusterPolicies {names} the operator follows: {'several have' if followed else 'none has'} a status.state;"
            f" delete those that are not used. {NOTHING}"
        )
    notes = []
    if items and not acts and operator == "auto":
        notes.append(
            f"no operator has acted upon ClusterPolicy {names} (its status.state is empty), so it counts as not there; say operator=present if it is"
        )
    item = known[0] if len(known) == 1 else None
    policy = _read(item) if item and (sections or acts) else None
    changed = {name: value for name, value in sections.items() if policy and policy.is_enabled(name) != value}
    if policy and "driver" in changed and policy.driver_objects:
        notes.append(
            "driver.useNvidiaDriverCRD is true: the drivers of NVIDIADriver objects don't follow driver.enabled"
        )
    if policy and changed.get("toolkit") is False and sections.get("devicePlugin", policy.is_enabled("devicePlugin")):
        notes.append(WITHOUT_TOOLKIT)
    return PolicySwitch(item, sections, changed, policy if acts else None, tuple(notes))


def _read(item: dict[str, Any]) -> Policy:
    try:
        return read_policy(item)
    except PolicyError as error:
        raise ApiError(f"{error}. {NOTHING}") from error


def patch(api: Api, switch: PolicySwitch, dry_run: bool = False) -> None:
    """PATCH what differs, with the version that it was worked out from; when somebody was faster, work it out anew."""
    item = switch.item or {}
    path = f"/apis/{item['apiVersion']}/clusterpolicies/{quote(switch.name, safe='')}"
    attempt = 0
    while True:
        attempt += 1
        policy = _read(item)
        body: dict[str, Any] = {
            name: {"enabled": value} for name, value in switch.sections.items() if policy.is_enabled(name) != value
        }
        if not body:
            return
        try:
            api.request(
                "patch",
                path,
                ("patch", RESOURCE, None),
                body={"metadata": {"resourceVersion": item["metadata"]["resourceVersion"]}, "spec": body},
                content_type="application/merge-patch+json",
                field_manager=FIELD_MANAGER,
                **({"dry_run": "All"} if dry_run else {}),
            )
            return
        except ApiError as error:
            if error.status != 409 or attempt == CONFLICTS:
                raise ApiError(
                    f"ClusterPolicy {switch.name}: {error}" + (f". {NOTHING}" if dry_run else ""), error.status
                ) from error
            item = api.request("get", path, ("get", RESOURCE, None))


def result_of(
    switch: PolicySwitch | None, nodes: list[dict[str, Any]], sets: list[OperandSet], there: PodsThere
) -> dict[str, Any]:
    """The part of the module's result about the ClusterPolicy."""
    stops: list[dict[str, str]] = []
    starts: list[dict[str, str]] = []
    if switch and switch.changed and switch.item:
        spec = dict(switch.item.get("spec") or {})
        for section, value in switch.changed.items():
            spec[section] = {**(spec.get(section) or {}), "enabled": value}
        stops, starts = policy_effects(_read({**switch.item, "spec": spec}), switch.changed, nodes, sets, there)
    return {
        "policy": switch.name if switch and switch.sections else None,
        "changed": bool(switch and switch.changed),
        "switched": switch.changed if switch else {},
        "stops": stops,
        "starts": starts,
    }
