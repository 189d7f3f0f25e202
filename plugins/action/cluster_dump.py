# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import (
    ApiError,
    auth_argument_spec,
    connect,
    forget_key_files,
)
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.record_files import Change, RecordError, remove, write


def argument_spec() -> dict[str, Any]:
    """Options of cluster_dump besides authentication; plugins/modules/cluster_dump.py documents them."""
    return {
        "dumps": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "kind": {"type": "str", "required": True},
                "namespace": {"type": "str"},
                "path": {"type": "path", "required": True},
                "required": {"type": "bool", "default": True},
            },
        },
        "environment": {"type": "bool", "default": True},
    }


class ActionModule(ActionBase):
    """Saves objects of a cluster as files on the controller; documented in plugins/modules/cluster_dump.py."""

    supports_raw_params = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(argument_spec={**argument_spec(), **auth_argument_spec()})
        dumps, environment = args.pop("dumps"), args.pop("environment")
        try:
            _validate(dumps)
            api = connect(**args) if dumps else None
            # All is read before the first file is touched.
            outcomes = [_compare(api, dump, environment) for dump in dumps]
            if not self._task.check_mode:
                remove([Path(outcome["path"]) for outcome in outcomes if outcome["left_out"]])
                write([outcome["change"] for outcome in outcomes if outcome["change"]])
        except (ApiError, RecordError) as error:
            raise AnsibleActionFail(str(error)) from None
        finally:
            forget_key_files()
        told = ("path", "kind", "count", "served", "left_out", "changed")
        result: dict[str, Any] = {
            "changed": any(outcome["changed"] for outcome in outcomes),
            "host": api.host if api else None,
            "kubernetes_version": api.version if api else None,
            "dumps": [{key: outcome[key] for key in told} for outcome in outcomes],
        }
        if self._task.diff:
            result["diff"] = [{"prepared": outcome["summary"]} for outcome in outcomes if outcome["changed"]]
        return result


def _validate(dumps: list[dict[str, Any]]) -> None:
    """Raise one ApiError for everything wrong with the entries, and put each one's kind in its proper form."""
    problems = []
    for index, dump in enumerate(dumps):
        kind = _dump.kind_of(dump["kind"])
        if kind is None:
            problems.append(f"dumps[{index}].kind {dump['kind']!r}: expected one of {', '.join(_dump.KINDS)}")
        elif dump["namespace"] and not _dump.KINDS[kind][1]:
            problems.append(
                f"dumps[{index}].namespace {dump['namespace']!r}: a {kind} is in no namespace; leave it out"
            )
        if os.path.isdir(dump["path"]):
            problems.append(f"dumps[{index}].path {dump['path']!r} is a folder: give the name of a file")
        dump["kind"] = kind
    paths = [os.path.abspath(dump["path"]) for dump in dumps]
    problems += [
        f"path {path!r} stands more than once in dumps"
        for path in sorted({path for path in paths if paths.count(path) > 1})
    ]
    if problems:
        raise ApiError("nothing can be saved: " + "; ".join(problems))


def _compare(api: Any, dump: dict[str, Any], environment: bool) -> dict[str, Any]:
    """LIST one kind and compare with the file: {path, kind, count, served, left_out, changed, change: Change or None, summary}."""
    kind, path = dump["kind"], Path(dump["path"])
    resource = _dump.KINDS[kind][0]
    outcome = {"path": str(path), "kind": kind, "count": 0, "served": api.serves(resource), "left_out": ""}
    before = _read(path)
    entries = []
    if outcome["served"]:
        keep = functools.partial(
            _dump.entry,
            kind,
            api.group_version(resource),
            with_digest=before is not None,
            environment=environment,
        )
        try:
            entries = api.list(resource, dump["namespace"], keep=keep)[0]
        except ApiError as error:
            if dump["required"] or error.status != 403:
                raise
            # What an earlier run has left would be taken for this one's.
            gone = path.is_file()
            summary = f"--- {path}: {error}\n"
            return {**outcome, "left_out": str(error), "changed": gone, "change": None, "summary": summary}
    found = _dump.differences(before, _dump.digests(entries)) if before is not None else None
    outcome.update(count=len(entries), summary=_dump.summary(str(path), found, len(entries)))
    if found is not None and not any(found.values()):
        return {**outcome, "changed": False, "change": None}
    # The environment of containers, in ClusterPolicies too, may hold secrets.
    mode = 0o644 if kind == "Node" else 0o600
    return {**outcome, "changed": True, "change": Change(path, None, _dump.render(entries), mode)}


def _read(path: Path) -> dict[str, bytes] | None:
    """What there is to compare with, None without a dump."""
    try:
        return _dump.parse(path.read_text("utf-8", errors="replace")) if path.is_file() else None
    except OSError as error:
        raise ApiError(
            f"{path} cannot be read to compare with ({error.strerror}): make it readable or remove it"
        ) from error
