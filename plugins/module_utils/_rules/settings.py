# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check is asked for, read from words and files.

Private to the collection gpuwl.sandbox. Every function raises ValueError, whose message names the thing, the value
and what was expected.
"""

import os
import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy, read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inputs import Source, read_inputs
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import parse_version, version_text

# lab: the lab's step 8 to the letter; operator: what the real GPU Operator makes of a label.
PROFILES = ("lab", "operator")

_SIZE = re.compile(r"([0-9]{1,15})([KMGT]i?)?\Z")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Settings(NamedTuple):
    """What a check is asked for."""

    profile: str = "lab"
    policy: Optional[Policy] = None  # stands above what the dumps say
    version: str = ""  # the operator's, stands above what the dumps say
    ignores: FrozenSet[Tuple[str, str]] = frozenset()  # (rule, node, or "" for every node)
    max_size: int = 4 << 30  # bytes, unpacked
    saw_slices: bool = False  # whether all ResourceSlices of the cluster are in the dumps, even if there are none


def settings_from(
    profile: str, cluster_policy: Any = None, operator_version: Any = None, ignore: Any = (), max_size: str = "4Gi"
) -> Settings:
    """Read what a check is asked for.

    cluster_policy: a ClusterPolicy, its spec alone, or the path of a file with one; None or empty for the dump's own.
    operator_version: such as 26.3.3; None or empty for what the dump tells.
    ignore: a list of RULE or RULE@NODE. max_size: bytes, such as 512Mi.
    """
    if profile not in PROFILES:
        raise ValueError("profile {!r} is none of {}".format(profile, ", ".join(PROFILES)))
    size = read_size(max_size)
    policy = None
    if cluster_policy:
        policy = (
            policy_in_file(cluster_policy, size) if isinstance(cluster_policy, str) else read_policy(cluster_policy)
        )
    if not isinstance(ignore, (list, tuple)):
        raise TypeError(f"ignore {ignore!r}: expected a list of RULE or RULE@NODE")
    return Settings(
        profile=str(profile),
        policy=policy,
        version=read_version(version_text(operator_version)) if operator_version not in (None, "") else "",
        ignores=frozenset(read_ignore(one) for one in ignore),
        max_size=size,
    )


def read_version(text: Any) -> str:
    """Accept an operator version such as 26.7.0, v26.7.0 or 26.7."""
    if not parse_version(text):
        raise ValueError(f"operator version {text!r}: expected one such as 26.3.3, v26.3.3 or 26.3")
    return str(text)


def read_ignore(text: Any) -> Tuple[str, str]:
    """Read RULE or RULE@NODE."""
    text = str(text)
    rule, _at, name = text.partition("@")
    if rule not in RULE_PAGES:
        raise ValueError(f"ignore {text}: there is no rule {rule!r}, only {', '.join(sorted(RULE_PAGES))}")
    if text.endswith("@"):
        raise ValueError(f"ignore {text}: expected a node's name after the @, or no @")
    return rule, name


def read_size(text: str) -> int:
    """Read a number of bytes such as 500000, 512Mi or 4G."""
    found = _SIZE.match(text)
    size = int(found.group(1)) * _UNITS[found.group(2) or ""] if found else 0
    if not size:
        raise ValueError(f"--max-size {text}: expected a number of bytes above 0 such as 500000, 512Mi or 4G")
    return size


def policy_in_file(path: str, max_size: int) -> Policy:
    """Read the one ClusterPolicy in a file."""
    found: List[Dict[str, Any]] = []
    count = 0

    def take(item: Dict[str, Any], source: Source) -> None:
        nonlocal count
        count += 1
        found[:] = [item]

    if os.path.isdir(path):
        raise ValueError(f"{path}: it is a folder, expected a file with a ClusterPolicy")
    errors = [source.error for source in read_inputs([path], {"ClusterPolicy": take}, max_size) if source.error]
    if errors:
        raise ValueError(f"{path}: {errors[0]}")
    if count != 1:
        raise ValueError(f"{path}: it holds {count} ClusterPolicies, expected one")
    try:
        return read_policy(found[0])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
