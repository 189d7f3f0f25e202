# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.inventory: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inventory import inventory as count
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.sources import collect_from


def inventory(nodes, pods, prefix="nvidia.com/"):
    """Return the inventory by resource name, from objects or from paths of dumps."""
    if not isinstance(prefix, str):
        raise AnsibleFilterError(f"prefix must be a string such as nvidia.com/, got {prefix!r}")
    subject = "nodes"
    try:
        counted_nodes = collect_from(nodes, "Node", dict)
        subject = "pods"
        counted_pods = collect_from(pods, "Pod", dict)
    except Unreadable as error:
        raise AnsibleFilterError(f"{subject}: {one_line(str(error))}") from None
    try:
        return count(counted_nodes, counted_pods, prefix)
    except (AttributeError, KeyError, TypeError) as error:
        # Deeper down, what an API server would never have accepted is not told apart.
        raise AnsibleFilterError(f"a Node or Pod has not the form that the Kubernetes API gives it: {error}") from None


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"inventory": inventory}
