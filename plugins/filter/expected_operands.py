# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.expected_operands: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.expected_operands import expected_operands as predict
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line


def expected_operands(nodes, cluster_policy=None, operator_version=None, other_objects=()):
    """Return what the GPU Operator will make of each node, given as objects or as the path of a dump."""
    try:
        return predict(nodes, cluster_policy, operator_version, other_objects)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(one_line(str(error))) from None


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"expected_operands": expected_operands}
