# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of the audit of operands as groups of an outcome: each for itself, or for people, one fault on many nodes as one.

Private to the collection gpuwl.sandbox.
"""

import re
from typing import Any, Dict, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE, SEVERITIES, Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import shell_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Group

# A finding about a DaemonSet names there the nodes that lack it.
NODES = "nodes"
# Which Pod it is, and what a kubelet, a runtime or a registry says of it that differs from node to node though the fault is one:
# the Pod with its UID, how long the next try is off, IDs, addresses, times.
_POD = re.compile(r"\bPod [^ /]+/[^ :]+: ")
_OF_ONE_POD = re.compile(
    r"(?<=\bpod=)[^\s()]+(?:\([^\s()]*\)?)?|(?<=\bback-off )\w+|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b[0-9a-f]{12,}\b"
    r"|\b\d{4}-\d\d-\d\dT[\d:.]+Z?|\b\d+(?:\.\d+){3}(?::\d+)?\b"
)
_POD_COMMAND = re.compile(r" pod \S+\Z")
# The message has both in short.
_TOLD_BY_MESSAGE = re.compile(NODES + r"\Z|Pod of ")


def by_weight(groups: List[Group]) -> List[Group]:
    """Return groups with the gravest first."""
    order = {severity: at for at, severity in enumerate(SEVERITIES)}
    return sorted(groups, key=lambda one: (order[one.draft.severity], one.draft.rule, one.draft.message))


def single_group(found: Dict[str, Any], at: Dict[str, str], silenced: str = "") -> Group:
    """Return a finding as a group of its own, as it stands. at: {node: the dump that it is from}."""
    subject = found["subject"]
    evidence = tuple(found["evidence"].items())
    drafted = Draft(found["rule"], found["severity"], found["message"], found["remedy"], evidence)
    return Group(drafted, subject["kind"], [(subject["name"], at.get(subject["name"], ""))], silenced)


def alike_groups(findings: List[Dict[str, Any]], at: Dict[str, str]) -> List[Group]:
    """Return findings as groups, those together that differ in nothing but in which Pod, and what is said of that one alone."""
    groups: Dict[str, List[Group]] = {}
    remedies: Dict[Tuple[str, str, str], str] = {}
    for found in findings:
        single = single_group(found, at)
        message = _POD.sub("its Pod: ", found["message"])
        of_all = _OF_ONE_POD.sub("...", message)
        remedy = found["remedy"].replace(f" node {shell_names([str(found['node'])])} ", f" node {NODE} ")
        # Of commands that differ in the Pod alone the first one is shown.
        remedy = remedies.setdefault((found["rule"], of_all, _POD_COMMAND.sub("", remedy)), remedy)
        evidence = tuple(one for one in single.draft.evidence if not _TOLD_BY_MESSAGE.match(one[0]))
        drafted = single.draft._replace(message=message, remedy=remedy, evidence=evidence)
        key = repr((drafted._replace(message=of_all), single.kind))
        groups.setdefault(key, []).append(single._replace(draft=drafted))
    return [_joined(members) for members in groups.values()]


def _joined(members: List[Group]) -> Group:
    """Return one group for all, whose message says nothing that is so of some of them alone."""
    first = members[0]
    message = first.draft.message
    if any(one.draft.message != message for one in members):
        message = _OF_ONE_POD.sub("...", message)
    subjects = [subject for one in members for subject in one.subjects]
    return first._replace(draft=first.draft._replace(message=message), subjects=subjects)
