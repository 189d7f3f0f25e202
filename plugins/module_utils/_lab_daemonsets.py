# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's own DaemonSets: made, brought up to date, removed, and watched until their Pods are right. Private to the collection."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import FIELD_MANAGER, Api, ApiError, collection_path
from ansible_collections.gpuwl.sandbox.plugins.module_utils._kwok_nodes import MARK, is_own
from ansible_collections.gpuwl.sandbox.plugins.module_utils._nodes import refuse
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.daemonset_pods import (
    OPERATOR_TOLERATIONS,
    daemonset_numbers,
    daemonsets_awaited,
    daemonsets_by_node,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_dns_subdomain,
    invalid_label_value,
    invalid_qualified_name,
)

APPS = "/apis/apps/v1"
RESOURCE = "daemonsets.apps"
# Of each Pod, as a label; its value is the DaemonSet's name.
APP = "app.kubernetes.io/name"
# Three resources decide, so they are read again so often instead of being watched one by one.
PAUSE = 0.2


def argument_spec() -> dict[str, Any]:
    """Options of lab_daemonsets besides authentication; the documentation in plugins/modules/lab_daemonsets.py mirrors it."""
    return {
        "namespace": {"type": "str", "required": True},
        "daemonsets": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "selector": {"type": "dict", "required": True},
                "tolerations": {"type": "list", "elements": "dict", "default": OPERATOR_TOLERATIONS},
            },
        },
        "image": {"type": "str", "default": "registry.k8s.io/pause:3.10"},
        "wait_timeout": {"type": "int", "default": 60},
    }


def definition(entry: dict[str, Any], image: str) -> dict[str, Any]:
    """The DaemonSet for one entry of daemonsets."""
    label = {APP: entry["name"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": entry["name"], "labels": {**label, **MARK}},
        "spec": {
            "selector": {"matchLabels": label},
            "template": {
                # Not the lab's mark: by that lab_pods knows Pods of its own.
                "metadata": {"labels": label},
                "spec": {
                    "nodeSelector": entry["selector"],
                    "tolerations": entry["tolerations"],
                    "containers": [{"name": "main", "image": image}],
                    "terminationGracePeriodSeconds": 0,
                },
            },
        },
    }


def declared(daemonset: dict[str, Any]) -> dict[str, Any]:
    """What of a DaemonSet was declared, in a form that is equal for a definition and for what became of it."""
    spec = daemonset["spec"]["template"]["spec"]
    return {
        "selector": spec.get("nodeSelector") or {},
        "tolerations": [
            {"operator": "Equal", **{key: value for key, value in entry.items() if value not in ("", None)}}
            for entry in spec.get("tolerations") or []
        ],
        "images": [container["image"] for container in spec["containers"]],
    }


def problems_of(params: dict[str, Any]) -> list[str]:
    """A text for everything that is wrong with the options."""
    wrong = invalid_dns_subdomain(params["namespace"])
    problems = [f"namespace {params['namespace']!r}: {wrong}"] if wrong else []
    names = [entry["name"] for entry in params["daemonsets"]]
    problems += [f"the name {name!r} stands twice" for name in sorted(set(names)) if names.count(name) > 1]
    for entry in params["daemonsets"]:
        wrong = invalid_dns_subdomain(entry["name"]) or invalid_label_value(entry["name"])
        problems += [f"the name {entry['name']!r}: {wrong}"] if wrong else []
        if not entry["selector"]:
            problems.append(f"{entry['name']}: the selector is empty, and would put it on every node: name a label")
        for key, value in entry["selector"].items():
            wrong = invalid_qualified_name(key)
            problems += [f"{entry['name']}: selector: {key!r} is no label key: {wrong}"] if wrong else []
            wrong = invalid_label_value(value)
            problems += [f"{entry['name']}: selector: {value!r} of {key!r} is no label value: {wrong}"] if wrong else []
    return problems


class DaemonSets:
    """Those of one namespace, as last read."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.base = collection_path("daemonsets", namespace, APPS)

    def read(self) -> dict[str, dict[str, Any]]:
        """By name; none where the namespace is not there."""
        return {item["metadata"]["name"]: item for item in self.api.list(RESOURCE, self.namespace)[0]}

    def write(self, method: str, verb: str, path: str, body: dict[str, Any], **more: Any) -> None:
        self.api.request(
            method,
            path,
            (verb, RESOURCE, self.namespace),
            body=body,
            field_manager=FIELD_MANAGER,
            **{"content_type": "application/json", **more},
        )

    def create(self, body: dict[str, Any]) -> None:
        self.write("post", "create", self.base, body)

    def update(self, present: dict[str, Any], body: dict[str, Any]) -> None:
        """Lists are replaced by a merge patch; labels that are no longer in the nodeSelector are taken out of it."""
        wanted = body["spec"]["template"]["spec"]
        old = present["spec"]["template"]["spec"].get("nodeSelector") or {}
        spec = {**wanted, "nodeSelector": {**dict.fromkeys(old), **wanted["nodeSelector"]}}
        patch = {"metadata": {"labels": dict(MARK)}, "spec": {"template": {"spec": spec}}}
        self.write("patch", "patch", self._path(body), patch, content_type="application/merge-patch+json")

    def remove(self, present: dict[str, Any]) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        self.api.request("delete", self._path(present), ("delete", RESOURCE, self.namespace), body=options)

    def _path(self, item: dict[str, Any]) -> str:
        return f"{self.base}/{quote(item['metadata']['name'], safe='')}"


def run(api: Api, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the DaemonSets about, wait until their Pods are where they should be, and tell who runs what."""
    refuse(problems_of(params), "these DaemonSets can't be made")
    here = DaemonSets(api, params["namespace"])
    wanted = {entry["name"]: definition(entry, params["image"]) for entry in params["daemonsets"]}
    present = here.read()
    foreign = [name for name in wanted if name in present and not is_own(present[name])]
    refuse(
        [f"{', '.join(foreign)}: choose another namespace or other names"] if foreign else [],
        f"these DaemonSets exist already in namespace {params['namespace']} and are not the lab's",
    )
    created = sorted(wanted.keys() - present.keys())
    updated = sorted(
        name for name in wanted.keys() & present.keys() if declared(present[name]) != declared(wanted[name])
    )
    removed = sorted(name for name, item in present.items() if is_own(item) and name not in wanted)
    if not check_mode:
        if created:
            _have_namespace(api, params["namespace"])
        for name in created:
            here.create(wanted[name])
        for name in updated:
            here.update(present[name], wanted[name])
        for name in removed:
            here.remove(present[name])
    seen = _await(here, set(wanted), set(removed), 0 if check_mode else params["wait_timeout"], check_mode)
    return {
        "changed": bool(created or updated or removed),
        "created": created,
        "updated": updated,
        "removed": removed,
        **seen,
        "diff": {
            "before": {name: declared(present[name]) for name in [*updated, *removed]},
            "after": {name: declared(wanted[name]) for name in [*created, *updated]},
        },
    }


def _have_namespace(api: Api, name: str) -> None:
    if any(item["metadata"]["name"] == name for item in api.list("namespaces", metadata_only=True)[0]):
        return
    api.request(
        "post",
        collection_path("namespaces"),
        ("create", "namespaces", None),
        body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(MARK)}},
        content_type="application/json",
        field_manager=FIELD_MANAGER,
    )


def _await(here: DaemonSets, wanted: set[str], removed: set[str], seconds: float, check_mode: bool) -> dict[str, Any]:
    """Read nodes, DaemonSets and Pods until they agree; a time-out says what was awaited and what was seen last."""
    end = time.monotonic() + seconds
    while True:
        present = here.read()
        daemonsets = [present[name] for name in sorted(wanted & present.keys())]
        nodes = here.api.list("nodes")[0]
        # After the DaemonSets, so that what they say is never newer than the Pods.
        pods = here.api.list("pods", here.namespace)[0]
        awaited = [f"that {name} is gone" for name in sorted(removed & present.keys())]
        awaited += daemonsets_awaited(nodes, daemonsets, pods)
        seen: dict[str, Any] = {
            "nodes": daemonsets_by_node(nodes, daemonsets, pods),
            "daemonsets": daemonset_numbers(nodes, daemonsets, pods),
            "awaited": awaited,
        }
        if not awaited or check_mode:
            return seen
        if time.monotonic() > end:
            raise ApiError(
                f"after {seconds:g} s {len(awaited)} things are still awaited: {'; '.join(awaited[:10])}"
                "; do the controller manager, and kwok or the kubelets, run?",
                **seen,
            )
        time.sleep(PAUSE)
