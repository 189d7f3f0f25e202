# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many names in few words: as ranges to read, and as a shell expands them.

Private to the collection gpuwl.sandbox. Ranges to read are written as in Ansible
inventories: edge-[00:19].
"""

import re
from typing import Iterable, List, NamedTuple, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE

# A name, the last number in it, and what follows. No more digits than int() is quick with.
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)\Z", re.DOTALL)
# What a node can be called; only such names are safe in a command as they are.
_SAFE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")


class Run(NamedTuple):
    """Names that differ in one number alone, from first to last; both are "" in a name without a number."""

    prefix: str
    first: str
    last: str
    suffix: str

    def size(self) -> int:
        """Return how many names it stands for."""
        return int(self.last or 0) - int(self.first or 0) + 1


def ranges(names: Iterable[str], most: int = 3) -> str:
    """Return names in short: runs of numbers as ranges, and beyond `most` of those a count.

    Example: edge-[00:19], gpu-7 and 12 more.
    """
    runs = _runs(names)
    shown = [
        run.prefix + (run.first if run.first == run.last else f"[{run.first}:{run.last}]") + run.suffix
        for run in runs[:most]
    ]
    rest = sum(run.size() for run in runs[most:])
    return ", ".join(shown) + (" and %d more" % rest if rest else "")


def shell_names(names: Iterable[str]) -> str:
    """Return names as the arguments of a command, with ranges as bash and zsh expand them: gpu-{001..200} edge-7.

    What no node can be called is quoted: names come from other people's files.
    """
    words = []
    for run in _runs(names):
        if not _SAFE.match(run.prefix + run.first + run.suffix):
            numbers = range(int(run.first or 0), int(run.last or 0) + 1)
            singles = (
                run.prefix + (str(number).zfill(len(run.first)) if run.first else "") + run.suffix for number in numbers
            )
            words += [shell_word(name) for name in singles]
        elif run.first == run.last:
            words.append(run.prefix + run.first + run.suffix)
        else:
            words.append(f"{run.prefix}{{{run.first}..{run.last}}}{run.suffix}")
    return " ".join(words)


def shell_word(text: str) -> str:
    """Return any text as one word of a kubectl command, as it is if an object can be called so, else quoted.

    kubectl takes a word with a "-" in front for an option, and one with a "=" in it or a "-" behind for a label. Such get
    a space in front, which no name can have: the command then refuses them.
    """
    if _SAFE.match(text):
        return text
    space = " " if text.startswith("-") or text.endswith("-") or "=" in text else ""
    # What stands for the nodes' names in a remedy must not be replaced within a word.
    return "'" + space + text.replace("'", "'\\''").replace(NODE, "{''node}") + "'"


def _runs(names: Iterable[str]) -> List[Run]:
    runs: List[Run] = []
    for name in sorted(set(names), key=_by_number):
        prefix, number, suffix = _parts(name)
        if runs and number and runs[-1].last and runs[-1].prefix == prefix and runs[-1].suffix == suffix:
            first, last = runs[-1].first, runs[-1].last
            # The range counts on in the width of its first number: 8, 9, 10 and 08, 09, 10.
            if number == str(int(last) + 1).zfill(len(first)):
                runs[-1] = Run(prefix, first, number, suffix)
                continue
        runs.append(Run(prefix, number, number, suffix))
    return runs


def _parts(name: str) -> Tuple[str, str, str]:
    match = _NUMBERED.match(name)
    return (match.group(1), match.group(2), match.group(3)) if match else (name, "", "")


def _by_number(name: str) -> Tuple[str, str, int, str]:
    prefix, number, suffix = _parts(name)
    return prefix, suffix, int(number or 0), number
