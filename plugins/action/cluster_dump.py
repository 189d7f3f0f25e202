# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

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
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.record_files import Change, RecordError, write

# Pods may carry secrets in their containers' environment.
MODES = {"Node": 0o644, "Pod": 0o600}


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
            },
        },
    }


class ActionModule(ActionBase):
    """Saves objects of a cluster as files on the controller; documented in plugins/modules/cluster_dump.py."""

    supports_raw_params = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(argument_spec={**argument_spec(), **auth_argument_spec()})
        dumps = args.pop("dumps")
        try:
            _validate(dumps)
            api = connect(**args) if dumps else None
            # All is read before the first file is touched.
            outcomes = [_compare(api, dump) for dump in dumps]
            if not self._task.check_mode:
                write([outcome["change"] for outcome in outcomes if outcome["change"]])
        except (ApiError, RecordError) as error:
            raise AnsibleActionFail(str(error)) from None
        finally:
            forget_key_files()
        result: dict[str, Any] = {
            "changed": any(outcome["change"] for outcome in outcomes),
            "kubernetes_version": api.version if api else None,
            "dumps": [
                {
                    "path": outcome["path"],
                    "kind": outcome["kind"],
                    "count": outcome["count"],
                    "changed": bool(outcome["change"]),
                }
                for outcome in outcomes
            ],
        }
        if self._task.diff:
            result["diff"] = [{"prepared": outcome["summary"]} for outcome in outcomes if outcome["change"]]
        return result


def _validate(dumps: list[dict[str, Any]]) -> None:
    """Raise one ApiError for everything wrong with the entries, and put each one's kind in its proper form."""
    problems = []
    for index, dump in enumerate(dumps):
        kind = _dump.kind_of(dump["kind"])
        if kind is None:
            problems.append(f"dumps[{index}].kind {dump['kind']!r}: expected {' or '.join(_dump.KINDS)}")
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


def _compare(api: Any, dump: dict[str, Any]) -> dict[str, Any]:
    """LIST one kind and compare with the file: {path, kind, count, change: Change or None, summary}."""
    items, _version = api.list(_dump.KINDS[dump["kind"]][0], dump["namespace"])
    new = _dump.as_list(dump["kind"], items)
    path = Path(dump["path"])
    try:
        old = _dump.parse(path.read_text("utf-8", errors="replace")) if path.is_file() else None
    except OSError as error:
        raise ApiError(
            f"{path} cannot be read to compare with ({error.strerror}): make it readable or remove it"
        ) from error
    found = _dump.differences(old, new) if old else None
    outcome = {
        "path": str(path),
        "kind": dump["kind"],
        "count": len(items),
        "summary": _dump.summary(str(path), found, len(items)),
    }
    same = found is not None and not any(found.values())
    return {**outcome, "change": None if same else Change(path, None, _dump.render(new), MODES[dump["kind"]])}
