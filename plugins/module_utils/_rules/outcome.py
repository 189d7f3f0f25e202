# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check gives: findings by the nodes that have them, and what could not be read.

Private to the collection gpuwl.sandbox.
"""

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import Cluster
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE, SEVERITIES, Draft, finding
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inputs import Source
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import shell_names


class Group(NamedTuple):
    """One finding and all that have it: (name, source) pairs in the order of the dumps."""

    draft: Draft
    kind: str
    subjects: List[Tuple[str, str]]
    # Why it does not count: "" if it does, else "--ignore", or the annotation's reason.
    silenced: str = ""


class Outcome(NamedTuple):
    """What a check gives."""

    profile: str
    sources: List[Source]
    errors: List[str]  # why something could not be read, a line each
    checked: int  # nodes judged; one that stands in a dump twice counts twice
    names: Dict[str, List[str]]  # the nodes judged, by source
    groups: Iterable[Group]  # can be gone through more than once
    clusters: List[Cluster]
    cleared: Tuple[str, ...] = ()  # nodes that are bad by the profile lab alone, where that was asked for

    def counted(self) -> Iterator[Group]:
        """Give the groups that count."""
        return (group for group in self.groups if not group.silenced)

    def worst(self) -> str:
        """Return the gravest severity that counts, "" without a finding."""
        found = {group.draft.severity for group in self.counted()}
        return next((severity for severity in SEVERITIES if severity in found), "")

    def exit_code(self, fail_on: str = "error", require_nodes: bool = False) -> int:
        """Return 2 if something could not be read, 3 if a node is required and none was judged, 1 for a finding of this severity or a graver one, else 0."""
        if self.errors:
            return 2
        if require_nodes and not self.checked:
            return 3
        worst = self.worst()
        return int(bool(worst) and SEVERITIES.index(worst) <= SEVERITIES.index(fail_on))

    def faults(self) -> List[List[Group]]:
        """Return the groups that count, those together that differ in the evidence alone, such as the number of GPUs."""
        alike: Dict[Tuple[str, str, str, str], List[Group]] = {}
        for group in self.counted():
            draft = group.draft
            alike.setdefault((draft.severity, draft.rule, draft.message, draft.remedy), []).append(group)
        return list(alike.values())

    def judged(self) -> Iterator[Tuple[str, str]]:
        """Give (name, source) of each node judged."""
        return ((name, source) for source, names in self.names.items() for name in names)

    def findings(self) -> Iterator[Dict[str, Any]]:
        """Give each finding that counts for each node, in the form of finding.py."""
        for group in self.counted():
            yield from _expanded(group)

    def silenced(self) -> Iterator[Dict[str, Any]]:
        """Give each finding that does not count, with `by`, and `reason` where an annotation gives one."""
        for group in self.groups:
            if group.silenced:
                by = (
                    {"by": "--ignore"}
                    if group.silenced == "--ignore"
                    else {"by": "annotation", "reason": group.silenced}
                )
                for found in _expanded(group):
                    yield {**found, **by}


def _expanded(group: Group) -> Iterator[Dict[str, Any]]:
    """Give a group's finding once for each of its subjects."""
    draft = group.draft
    for name, source in group.subjects:
        yield finding(
            kind=group.kind,
            name=name,
            node=name if group.kind == "Node" else None,
            source=source or None,
            rule=draft.rule,
            severity=draft.severity,
            message=draft.message,
            remedy=draft.remedy.replace(NODE, shell_names([name])),
            evidence=dict(draft.evidence),
        )
