# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.operand_audit: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import operand_audit as audit
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import operand_audit_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line


def operand_audit(objects, operator_version=None, cluster_policy=None, compare_versions=None):
    """Return what each node should run and does, from objects or from the paths of dumps."""
    paths = [objects] if isinstance(objects, str) else objects
    is_paths = isinstance(paths, list) and bool(paths) and all(isinstance(path, str) for path in paths)
    if is_paths and "-" in paths:
        raise AnsibleFilterError("-: a filter has no standard input, expected the path of a file or folder")
    try:
        if is_paths:
            return operand_audit_of([str(path) for path in paths], operator_version, cluster_policy, compare_versions)
        return audit(objects, operator_version, cluster_policy, compare_versions)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(one_line(str(error))) from None


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"operand_audit": operand_audit}
