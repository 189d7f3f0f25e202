# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import records, requests


def outdated_files(requests_file: str, asked: list[dict[str, Any]]) -> list[str]:
    """Files that the requests of an earlier run wrote and those asked for now do not; none where that file is unreadable."""
    try:
        earlier = requests.request_pods(json.loads(Path(requests_file).read_text("utf-8")))
    except (OSError, ValueError):
        return []
    current = set(records.request_files(asked))
    return [path for path in records.request_files(earlier) if path not in current]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "node_lines": records.node_lines,
            "resource_lines": records.resource_lines,
            "placement_records": records.placement_records,
            "outdated_files": outdated_files,
            "check_records": records.check_records,
            "check_failures": records.check_failures,
        }
