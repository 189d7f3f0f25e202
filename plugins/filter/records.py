# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import records


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "node_lines": records.node_lines,
            "resource_lines": records.resource_lines,
            "placement_records": records.placement_records,
        }
