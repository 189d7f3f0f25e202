# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.consistency: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.checking import check_objects, check_paths
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import settings_from


def consistency(nodes, profile="lab", cluster_policy=None, operator_version=None, ignore=()):
    """Return the findings about nodes, given as objects or as the path of a dump."""
    if nodes == "-":
        raise AnsibleFilterError("-: a filter has no standard input, expected the path of a file or folder")
    try:
        settings = settings_from(profile, cluster_policy, operator_version, ignore)
        outcome = check_paths([str(nodes)], settings) if isinstance(nodes, str) else check_objects(nodes, settings)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(one_line(str(error))) from None
    if outcome.errors:
        raise AnsibleFilterError(one_line("; ".join(outcome.errors)))
    return sorted(outcome.findings(), key=lambda found: found["subject"]["name"])


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"consistency": consistency}
