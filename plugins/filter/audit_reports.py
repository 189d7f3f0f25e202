# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.audit_reports: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.audit_report import AUDIT_FORMATS
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.audit_report import audit_reports as audit
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_comparison import read_versions
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import settings_from


def audit_reports(
    paths,
    cluster_policy=None,
    operator_version=None,
    ignore=(),
    fail_on="error",
    formats=("text",),
    require_nodes=False,
    cluster=None,
    compare_versions=(),
):
    """Return the report on one cluster, from the paths of its dumps, in each of the formats."""
    paths = [paths] if isinstance(paths, str) else paths
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise AnsibleFilterError(f"paths {paths!r}: expected the path of a file or folder, or a list of them")
    if "-" in paths:
        raise AnsibleFilterError("-: a filter has no standard input, expected the path of a file or folder")
    if fail_on not in (*SEVERITIES, "never"):
        raise AnsibleFilterError("fail_on {!r} is none of {}, never".format(fail_on, ", ".join(SEVERITIES)))
    if not isinstance(formats, (list, tuple)) or [one for one in formats if one not in AUDIT_FORMATS]:
        raise AnsibleFilterError("formats {!r}: expected a list of {}".format(formats, ", ".join(AUDIT_FORMATS)))
    if cluster is not None and not isinstance(cluster, dict):
        raise AnsibleFilterError("cluster: expected what gpuwl.sandbox.cluster_dump returned")
    try:
        settings = settings_from("operator", cluster_policy, operator_version, ignore)
        versions = read_versions(compare_versions) if compare_versions else ()
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(one_line(str(error))) from None
    return audit([str(path) for path in paths], settings, str(fail_on), formats, bool(require_nodes), cluster, versions)


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"audit_reports": audit_reports}
