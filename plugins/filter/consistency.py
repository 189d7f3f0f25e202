# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.consistency: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import PROFILES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import in_order, one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.sources import collect_from


def consistency(nodes, profile="lab"):
    """Return the findings about nodes, given as objects or as the path of a dump."""
    if profile not in PROFILES:
        raise AnsibleFilterError("profile {!r} is none of {}".format(profile, ", ".join(PROFILES)))
    context = {"source": str(nodes) if isinstance(nodes, str) else None}
    try:
        judged = collect_from(nodes, "Node", lambda node: PROFILES[profile](node, context))
    except Unreadable as error:
        raise AnsibleFilterError(one_line(str(error))) from None
    return in_order([found for findings in judged for found in findings])


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"consistency": consistency}
