# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.record_files import (
    RecordError,
    below,
    compare,
    make_folders,
    remove,
    remove_empty,
    write,
)

ARGUMENTS = {
    "root": {"type": "path", "required": True},
    "records": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "content": {"type": "raw", "required": True},
            "mode": {"type": "str", "default": "0644"},
        },
    },
    "absent": {"type": "list", "elements": "str", "default": []},
    "folders": {"type": "list", "elements": "str", "default": []},
    "folders_absent": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(ActionBase):
    """Writes many records in one go; documented in plugins/modules/records.py."""

    supports_raw_params = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(argument_spec=ARGUMENTS)
        root = Path(args["root"])
        try:
            folders = [folder for name in args["folders"] if not (folder := below(root, name)).is_dir()]
            changes = [change for record in args["records"] if (change := compare(root, record))]
            leftovers = [path for name in args["absent"] if (path := below(root, name)).is_file() or path.is_symlink()]
            folders_absent = [below(root, name) for name in args["folders_absent"]]
            # Before anything is written or removed, so that it says the same with and without check mode.
            diff = [change.diff() for change in changes] + [_removal(path) for path in leftovers]
            if not self._task.check_mode:
                make_folders(folders)
                remove(leftovers)
                write(changes)
                remove_empty(folders_absent)
        except RecordError as error:
            raise AnsibleActionFail(str(error)) from None
        result: dict[str, Any] = {
            "changed": bool(folders or changes or leftovers),
            "written": [str(change.path) for change in changes],
            "removed": [str(path) for path in leftovers],
        }
        return {**result, "diff": diff} if self._task.diff else result


def _removal(path: Path) -> dict[str, str]:
    """A diff that shows a file going."""
    try:
        before = path.read_text("utf-8", "replace")
    except OSError as error:
        before = f"(cannot be read: {error.strerror})\n"
    return {"before": before, "after": "", "before_header": str(path), "after_header": "absent"}
