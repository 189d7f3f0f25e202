#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Set and remove labels of many nodes in one call
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_labels
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_node_labels.argument_spec(), _node_labels.run)


if __name__ == "__main__":
    main()
