# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that the check's filters share, turned into what the rules want."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import (
    PROFILES,
    Settings,
    policy_in_file,
    read_ignore,
    read_version,
)


def settings_from(
    profile: str, cluster_policy: Any = None, operator_version: Any = None, ignore: Any = None
) -> Settings:
    """Return the settings of a check; raises AnsibleFilterError for an option that cannot be.

    cluster_policy: a ClusterPolicy, its spec alone, or the path of a file with one.
    """
    if profile not in PROFILES:
        raise AnsibleFilterError("profile {!r} is none of {}".format(profile, ", ".join(PROFILES)))
    try:
        policy = None
        if cluster_policy:
            policy = policy_in_file(cluster_policy) if isinstance(cluster_policy, str) else read_policy(cluster_policy)
        return Settings(
            profile=str(profile),
            policy=policy,
            version=read_version(str(operator_version)) if operator_version not in (None, "") else "",
            ignores=frozenset(read_ignore(str(one)) for one in ignore or ()),
        )
    except ValueError as error:
        raise AnsibleFilterError(one_line(str(error))) from None
