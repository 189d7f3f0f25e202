# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which nodes, operands and sections of a ClusterPolicy are meant; what is unknown gets the name that it is near.

Private to the collection gpuwl.sandbox. Every function that refuses raises ValueError, whose message names the value,
what was expected and what to do.
"""

import itertools
import re
import string
from typing import Any, Dict, Iterable, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import SECTIONS
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_dns_subdomain
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import OPERANDS
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.slips import SlipFinder
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX

# Operand -> section of the ClusterPolicy by which it is on or off in the whole cluster; "" for none.
SECTION_OF = {one.operand: one.section for one in OPERANDS}
_OPERAND_OF = {one.section: one.operand for one in OPERANDS if one.section}
_BY_DAEMONSET = {one.daemonset: one.operand for one in OPERANDS}

_SWITCH_SLIPS = SlipFinder(lambda: [*SECTIONS, *_OPERAND_OF.values()])

_RANGE = re.compile(r"\[([^\[\]]*)\]")
_BOUNDS = re.compile(r"([0-9]*|[A-Za-z]):([0-9]+|[A-Za-z])(?::([1-9][0-9]*))?\Z")
# More names than a cluster can have nodes.
_MOST_NAMES = 20000


def expand_ranges(pattern: str) -> List[str]:
    """Return the names that a pattern such as gpu-[00:19] stands for, as in Ansible's inventories; a plain name is itself.

    Ansible's own expansion is not at hand where a module runs.
    """
    # Texts and what stands in brackets, by turns.
    parts = _RANGE.split(pattern)
    choices = [_steps(part) if at % 2 else [part] for at, part in enumerate(parts)]
    count = 1
    for one in choices:
        count *= len(one)
    if not 0 < count <= _MOST_NAMES:
        raise ValueError(
            f"{pattern!r} has no range in its brackets: expected two numbers as long as each other if they begin with 0, or two letters,"
            f" of which the second is the higher, such as gpu-[00:19]; at most {_MOST_NAMES} names"
        )
    names = ["".join(chosen) for chosen in itertools.product(*choices)]
    for name in names:
        wrong = invalid_dns_subdomain(name)
        if wrong:
            raise ValueError(f"{name!r} is no node name: {wrong}; ranges are written as gpu-[00:19]")
    return names


def _steps(text: str) -> List[str]:
    """Return what a range without its brackets stands for, [] if it is none."""
    found = _BOUNDS.match(text)
    if not found:
        return []
    first, last, step = found.group(1), found.group(2), int(found.group(3) or 1)
    letters = string.ascii_letters
    if first and first in letters and last in letters:
        return list(letters[letters.index(first) : letters.index(last) + 1 : step])
    if not last.isdigit() or (first and not first.isdigit()):
        return []
    first = first or "0"
    width = len(first) if first[0] == "0" and len(first) > 1 else 0
    if (width and len(last) != width) or len(last) > 9 or int(last) - int(first) >= _MOST_NAMES * step:
        return []
    return [str(number).zfill(width) for number in range(int(first), int(last) + 1, step)]


def check_operand(name: str, known: Iterable[str]) -> None:
    """Refuse an operand that is none of the known ones."""
    known = sorted(known)
    if name in known:
        return
    if name == "operands":
        raise ValueError("operand 'operands' is the node as a whole: leave operands empty for that")
    plain = name[len(DEPLOY_PREFIX) :] if name.startswith(DEPLOY_PREFIX) else name
    meant = _OPERAND_OF.get(plain) or _BY_DAEMONSET.get(plain)
    near = plain if plain in known else meant or SlipFinder(lambda: known).nearest(plain)
    advice = f"did you mean {near}?" if near else f"the operator and the DaemonSets there know {', '.join(known)}"
    raise ValueError(f"unknown operand {name!r}: {advice}")


def read_sections(given: Dict[str, Any]) -> Dict[str, bool]:
    """Return {section of the ClusterPolicy: on or off} of {section or operand: bool}."""
    sections: Dict[str, bool] = {}
    for name, value in given.items():
        section = name if name in SECTIONS else SECTION_OF.get(name)
        if section is None:
            near = _SWITCH_SLIPS.nearest(str(name))
            raise ValueError(
                f"unknown section {name!r} of the ClusterPolicy: "
                + (f"did you mean {near}?" if near else f"expected one of {', '.join(SECTIONS)}, or an operand's name")
            )
        if not section:
            raise ValueError(
                f"{name!r} can't be switched off in the whole cluster: the ClusterPolicy has no switch for it"
            )
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}, expected true or false")  # noqa: TRY004 - one kind of error for all
        if sections.get(section, value) != value:
            raise ValueError(f"{section} is switched on and off: {name} names it as well, so drop one")
        sections[section] = value
    return sections
