# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of a check by the profile `lab`, as lines and as JSON.

Private to the collection gpuwl.sandbox. Source of the lines: the lab's step 8.
"""

from typing import Any, Dict, Iterator

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_lines import json_object
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line


def lab_text(outcome: Outcome) -> Iterator[str]:
    """Give the lines of the lab's checker: one per bad node, ascending by name, or the number of nodes judged."""
    bad = False
    for group in outcome.counted():
        bad = True
        for name, _source in group.subjects:
            # A space in a name would make it end too early for whoever splits the line.
            yield "MISMATCH={} {}".format(one_line(name).replace(" ", "\\x20"), one_line(group.draft.message))
    if not bad and not outcome.errors:
        yield "OK=%d" % outcome.checked


def lab_json(outcome: Outcome) -> Iterator[str]:
    """Give the lines of a JSON document: {checked, findings}, and silenced and errors where there are any."""
    members: Dict[str, Any] = {"checked": outcome.checked, "findings": outcome.findings()}
    if any(group.silenced for group in outcome.groups):
        members["silenced"] = outcome.silenced()
    if outcome.errors:
        members["errors"] = outcome.errors
    return json_object(members)
