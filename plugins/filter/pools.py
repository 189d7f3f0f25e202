# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible.plugins.inventory import detect_range, expand_hostname_range

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import pools as rules


def _expand(pattern: str) -> list[str]:
    """Names of a range in Ansible's own inventory syntax."""
    return expand_hostname_range(pattern) if detect_range(pattern) else [pattern]


def pool_nodes(pools: Any, fields: list[str] | None = None) -> list[dict[str, Any]]:
    try:
        nodes = rules.pool_nodes(pools, _expand)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error
    return [{field: node[field] for field in fields} for node in nodes] if fields else nodes


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"pool_nodes": pool_nodes}
