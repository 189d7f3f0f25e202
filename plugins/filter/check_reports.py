# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.check_reports: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.check_reports import FORMATS, reports_on
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import settings_from


def check_reports(
    paths,
    profile="lab",
    cluster_policy=None,
    operator_version=None,
    ignore=(),
    fail_on="error",
    formats=("text",),
):
    """Return what the offline checker says about dumps, in each of the formats."""
    try:
        settings = settings_from(profile, cluster_policy, operator_version, ignore)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(one_line(str(error))) from None
    if fail_on not in SEVERITIES:
        raise AnsibleFilterError("fail_on {!r} is none of {}".format(fail_on, ", ".join(SEVERITIES)))
    if not isinstance(formats, (list, tuple)) or not all(isinstance(one, str) for one in formats):
        raise AnsibleFilterError("formats {!r}: expected a list of {}".format(formats, ", ".join(FORMATS)))
    unknown = [one for one in formats if one not in FORMATS]
    if unknown:
        raise AnsibleFilterError("format {!r} is none of {}".format(unknown[0], ", ".join(FORMATS)))
    return reports_on(paths, settings, formats, fail_on)


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"check_reports": check_reports}
