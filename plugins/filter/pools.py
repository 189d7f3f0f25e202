# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.plugins.inventory import detect_range, expand_hostname_range
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import pool_operands as operands
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import pools as rules
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line

# More nodes than anybody simulates; a slip such as [0:99999999] would fill the memory.
MOST_NAMES = 100_000
_RANGE = re.compile(r"\[(?:([0-9]*):([0-9]+)|[A-Za-z]:[A-Za-z])(?::([1-9][0-9]*))?\]")


def expand_range(pattern: str) -> list[str]:
    """Names of a range in Ansible's own inventory syntax."""
    rest = _RANGE.sub("", pattern)
    if "[" in rest or "]" in rest:
        raise ValueError("brackets hold begin:end or begin:end:step, of digits or single letters")
    if not detect_range(pattern):
        return [pattern]
    sizes = [(int(end) - int(begin or 0)) // int(step or 1) + 1 for begin, end, step in _RANGE.findall(pattern) if end]
    if min(sizes, default=1) < 1:
        raise ValueError("begin must not be greater than end")
    if math.prod(sizes) > MOST_NAMES:
        raise ValueError(f"it stands for {math.prod(sizes)} names, at most {MOST_NAMES} are allowed")
    return expand_hostname_range(pattern)


def pool_nodes(pools: Any, fields: list[str] | None = None) -> list[dict[str, Any]]:
    try:
        nodes = rules.pool_nodes(pools, expand_range)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from None
    return [{field: node[field] for field in fields} for node in nodes] if fields else nodes


def pool_operands(
    pools: Any, cluster_policy: Any = None, operator_version: Any = None, other_objects: Any = ()
) -> list[dict[str, Any]]:
    try:
        return operands.pool_operands(pool_nodes(pools), cluster_policy, operator_version, other_objects)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(one_line(str(error))) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "pool_nodes": pool_nodes,
            "pool_operands": pool_operands,
            "pool_operands_table": operands.pool_operands_table,
        }
