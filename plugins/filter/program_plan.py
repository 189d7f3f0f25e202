# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import releases


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"program_plan": releases.plan}
