# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter gpuwl.sandbox.decisions: a door to the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import decisions as rules
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.sources import collect_from


def decisions(pods: Any, prefix: str = "nvidia.com/") -> list[dict[str, Any]]:
    try:
        return rules.decisions(collect_from(pods, "Pod", dict), prefix)
    except Unreadable as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"decisions": decisions}
