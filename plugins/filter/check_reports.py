# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.check_reports: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.check_config import check_file, unread
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import PROFILES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.sources import files_of


def check_reports(paths, profile="lab"):
    """Return what the offline checker says about each dump; a folder stands for its files."""
    if profile not in PROFILES:
        raise AnsibleFilterError("profile {!r} is none of {}".format(profile, ", ".join(PROFILES)))
    return [unread(path, error) if error else check_file(path, profile) for path, error in files_of(paths)]


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"check_reports": check_reports}
