# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of an audit as text for people: the verdict, then what is wrong, then what there is.

Private to the collection gpuwl.sandbox.
"""

from typing import Any, Dict, Iterator, List, Optional

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inventory_table import inventory_table
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_table import comparison_lines, operand_table
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_report import (
    fault_lines,
    left_out_lines,
    silenced_lines,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line

# So many blocks are shown.
_MOST_FAULTS = 100


def audit_text(
    verdict: str,
    outcome: Outcome,
    operands: Optional[Dict[str, Any]],
    inventory: Optional[Dict[str, Any]],
    comparison: Optional[Dict[str, Any]],
    read: List[str],
    not_judged: List[Dict[str, Any]],
    ask_for: str,
) -> Iterator[str]:
    """Give the lines.

    outcome: all findings, nodes with one fault together. operands, inventory: as operand_audit and inventory give them, None where they
    could not be judged. comparison: as operand_comparison.compare_versions gives it, None for none.
    read: what was read and assumed. not_judged: [{kind, rules, why}]. ask_for: a command whose output would tell more, "" for none.
    """
    yield verdict[:1].upper() + one_line(verdict[1:])
    for error in outcome.errors if len(outcome.errors) > 1 else ():  # the verdict has the first
        yield "Cannot be read: " + one_line(error)
    faults = outcome.faults()
    if faults:
        yield from _heading("FINDINGS")
    several = len(outcome.names) > 1
    for at, groups in enumerate(faults[:_MOST_FAULTS]):
        yield from ([""] if at else [])
        yield from fault_lines(groups, False, several)
    if len(faults) > _MOST_FAULTS:
        yield from ["", f"and {len(faults) - _MOST_FAULTS} more kinds of findings; the JSON report has all of them"]
    if operands is not None:
        yield from _heading("OPERANDS")
        yield from operand_table(operands).split("\n")
    if inventory:
        yield from _heading("INVENTORY")
        yield from inventory_table(inventory).split("\n")
    if comparison is not None:
        yield from _heading(f"WHAT CHANGES FROM OPERATOR {comparison['from']} TO {comparison['to']}")
        yield from map(one_line, comparison_lines(comparison))
    rests_on = [*map(one_line, read), *silenced_lines(outcome), *left_out_lines(outcome)]
    rests_on += [one_line(f"Not judged: {', '.join(one['rules'])}, because {one['why']}") for one in not_judged]
    rests_on += [f"Ask for: {ask_for}"] if ask_for else []
    if rests_on:
        yield from _heading("WHAT THIS RESTS ON")
        yield from rests_on


def _heading(title: str) -> List[str]:
    return ["", title]
