#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: placement_info
short_description: Wait for the scheduler's decision on Pods and return it
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _placement
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(
        _placement.argument_spec(),
        _placement.run,
        mutually_exclusive=[("pods", "label_selector")],
        required_one_of=[("pods", "label_selector")],
    )


if __name__ == "__main__":
    main()
