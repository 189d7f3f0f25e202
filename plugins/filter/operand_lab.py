# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import operand_stages as rules


def operand_stages(stages: Any, nodes: Any, daemonsets: Any) -> list[dict[str, Any]]:
    try:
        return rules.operand_stages(stages, nodes, daemonsets)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from None


def outdated_stage_files(stages_file: str, stages: list[dict[str, Any]]) -> list[str]:
    """Records that the stages of an earlier run wrote and those of now do not; none where that file is unreadable."""
    try:
        earlier = json.loads(Path(stages_file).read_text("utf-8"))
        records = [str(stage["record"]) for stage in earlier["stages"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    now = {stage["record"] for stage in stages}
    return [f"out/{name}{end}" for name in records if name not in now for end in (".txt", "-audit.txt")]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "operand_stages": operand_stages,
            "outdated_stage_files": outdated_stage_files,
            "operand_lines": rules.operand_lines,
            "operand_stage_table": rules.operand_stage_table,
        }
