# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the scheduler decided about Pods: waiting for it and telling it. Private to the collection."""

from __future__ import annotations

import time
from typing import Any, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client_errors import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._nodes import refuse
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_dns_subdomain
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.pod_requests import (
    is_extended,
    requested,
    scheduled_condition,
)

# Seconds after which a watch is opened anew, so that a connection that died unnoticed costs no more than this.
LONGEST_WATCH = 60

# Inside the class Waiting, `list` is its method.
Names = List[str]


def argument_spec() -> dict[str, Any]:
    """Options of placement_info besides authentication; the documentation in plugins/modules/placement_info.py mirrors it."""
    return {
        "namespace": {"type": "str", "required": True},
        "pods": {"type": "list", "elements": "str"},
        "label_selector": {"type": "str"},
        "wait_timeout": {"type": "int", "default": 60},
    }


def validate(params: dict[str, Any]) -> None:
    """Raise one ApiError that names everything wrong with the options."""
    wrong = invalid_dns_subdomain(params["namespace"])
    problems = [f"namespace {params['namespace']!r}: {wrong}"] if wrong else []
    for name in params["pods"] or []:
        wrong = invalid_dns_subdomain(name)
        problems += [f"pods: the name {name!r}: {wrong}"] if wrong else []
    if params["wait_timeout"] < 0:
        problems.append(f"wait_timeout {params['wait_timeout']}: expected a number of seconds from 0")
    refuse(problems, "these Pods can't be looked for")


def is_decided(pod: dict[str, Any] | None) -> bool:
    """Whether the scheduler has decided: assigned a node, or said Unschedulable. A Pod on its way out counts as gone."""
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return False
    condition = scheduled_condition(pod)
    return bool(pod["spec"].get("nodeName")) or (
        condition.get("status") == "False" and condition.get("reason") == "Unschedulable"
    )


def last_seen(pod: dict[str, Any] | None) -> str:
    """A few words on a Pod without a decision, for the message of a time-out."""
    if pod is None:
        return "does not exist"
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted"
    condition = scheduled_condition(pod)
    if condition:
        return one_line(
            f"PodScheduled={condition.get('status')} {condition.get('reason', '')} {condition.get('message', '')}"
        )
    return "exists, and no scheduler has looked at it: does the scheduler run, is spec.schedulerName right?"


def placement_of(pod: dict[str, Any]) -> dict[str, Any]:
    """One entry of RV(placements) from a Pod object."""
    node, condition = pod["spec"].get("nodeName"), scheduled_condition(pod)
    return {
        "pod": pod["metadata"]["name"],
        "namespace": pod["metadata"]["namespace"],
        "node": node,
        "scheduled": bool(node),
        "phase": (pod.get("status") or {}).get("phase", "Pending"),
        "requested": requested(pod, is_extended),
        "reason": "" if node else condition.get("reason", ""),
        "message": "" if node else one_line(condition.get("message", "")),
    }


class Waiting:
    """The Pods asked for as last seen: `seen` is {name: Pod}, `names` are the asked names, or None for a selector."""

    def __init__(self, api: Api, params: dict[str, Any]) -> None:
        self.api = api
        self.namespace = params["namespace"]
        self.names: Names | None = list(dict.fromkeys(params["pods"])) if params["pods"] is not None else None
        self.narrow = {"label_selector": params["label_selector"]} if params["label_selector"] else {}
        if self.names is not None and len(self.names) == 1:
            self.narrow = {"field_selector": f"metadata.name={self.names[0]}"}
        self.seen: dict[str, dict[str, Any]] = {}

    def order(self) -> Names:
        """The names to report on: as asked, or ascending for a selector."""
        return sorted(self.seen) if self.names is None else self.names

    def undecided(self) -> Names:
        """The names without a decision. A selector that matches nothing has one too: its text."""
        if self.names is None and not self.seen:
            return [f"any Pod with {self.narrow['label_selector']}"]
        return [name for name in self.order() if not is_decided(self.seen.get(name))]

    def list(self) -> str:
        """Take in the present state; returns the resourceVersion to watch from."""
        pods, version = self.api.list("pods", self.namespace, **self.narrow)
        self.seen = {}
        for pod in pods:
            self._take("ADDED", pod)
        return version

    def wait(self, end: float) -> None:
        """Watch until all is decided or the clock (monotonic) has reached `end`."""
        version = self.list()
        while self.undecided() and time.monotonic() < end:
            began = time.monotonic()
            try:
                version = self._watch_once(version, min(end - began, LONGEST_WATCH))
            except ApiError as error:
                # 410: that version is forgotten by now; 500 is how some proxies and old servers say the same.
                if error.status not in (410, 500):
                    raise
                version = self.list()
            if self.undecided() and time.monotonic() - began < 0.1:
                # Something closes watches at once; don't ask in a tight loop.
                time.sleep(0.2)

    def _watch_once(self, version: str, seconds: float) -> str:
        for kind, pod in self.api.watch("pods", version, seconds, self.namespace, **self.narrow):
            version = pod["metadata"]["resourceVersion"]
            self._take(kind, pod)
            if not self.undecided():
                break
        return version

    def _take(self, kind: str, pod: dict[str, Any]) -> None:
        name = pod["metadata"].get("name")
        if kind == "DELETED":
            self.seen.pop(name, None)
        elif kind in ("ADDED", "MODIFIED") and (self.names is None or name in self.names):
            self.seen[name] = pod


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Wait for the scheduler's decisions and return the module's result. In check mode it looks once and doesn't wait."""
    validate(params)
    waiting = Waiting(api, params)
    if waiting.names != []:
        waiting.wait(time.monotonic() + (0 if check_mode else params["wait_timeout"]))
    placements = [placement_of(waiting.seen[name]) for name in waiting.order() if name in waiting.seen]
    left = waiting.undecided()
    if left and not check_mode:
        told = "; ".join(f"{params['namespace']}/{name}: {last_seen(waiting.seen.get(name))}" for name in left)
        raise ApiError(
            f"no decision within {params['wait_timeout']} s for {len(left)} of {max(len(waiting.order()), 1)} Pods: {told}",
            placements=placements,
            undecided=left,
        )
    return {"changed": False, "placements": placements, "undecided": left}
