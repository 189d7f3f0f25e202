# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the name that a text was probably meant to be: one slip of the pen away.

Private to the collection gpuwl.sandbox.
"""

from typing import Callable, Dict, Iterable, List, Optional, Tuple

# So many different names are looked up for slips of the pen, no more: a hostile dump may hold any number of unknown
# names, and each costs a search. The names beyond count as near to nothing.
MOST_SEARCHES = 2000

# Characters taken for one another by those who type off a screen.
_LOOK_ALIKE = ("0O", "1I", "1L", "1l", "5S", "8B", "2Z")


class SlipFinder:
    """Finds those of some names that are one slip of the pen away from a text.

    A slip is one character put in, left out or replaced, or two neighbours exchanged.
    """

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        """Keep the function that gives the names; it is called at the first search."""
        self._names = names
        self._by_length: Dict[int, List[str]] = {}
        self.found: Dict[str, Optional[str]] = {}

    def nearest(self, text: str) -> Optional[str]:
        """Return the likeliest of the names one slip away from text, or None.

        The likeliest: two neighbours exchanged or a look-alike (O for 0) before one character put in or left out, then
        the replaced character closest in the alphabet, then the alphabetically first.
        """
        if text not in self.found:
            if len(self.found) >= MOST_SEARCHES:
                return None
            self.found[text] = self._search(text)
        return self.found[text]

    def _search(self, text: str) -> Optional[str]:
        if not self._by_length:
            for name in self._names():
                self._by_length.setdefault(len(name), []).append(name)
        # Wherever the slip is, what is before or what is behind the middle is the same in both.
        middle = len(text) // 2
        head, tail = text[: max(middle - 1, 0)], text[middle + 1 :]
        best: Optional[Tuple[int, str]] = None
        for length in (len(text) - 1, len(text), len(text) + 1):
            for name in self._by_length.get(length, ()):
                if name.startswith(head) or name.endswith(tail):
                    gap = _slip(text, name)
                    if gap is not None and (best is None or (gap, name) < best):
                        best = (gap, name)
        return best[1] if best else None


def _slip(text: str, name: str) -> Optional[int]:
    """Return how unlikely the slip is that makes text of name, None if it takes more than one or none at all."""
    start = 0
    for one, other in zip(text, name):
        if one != other:
            break
        start += 1
    one, other = text[start:], name[start:]
    if len(one) != len(other):
        same = one[1:] == other if len(one) > len(other) else one == other[1:]
        return 1 if same else None
    if not one:
        return None
    if one[1:] == other[1:]:
        pair = one[0] + other[0]
        return 0 if pair in _LOOK_ALIKE or pair[::-1] in _LOOK_ALIKE else abs(ord(one[0]) - ord(other[0]))
    return 0 if one[:2] == other[1::-1] and one[2:] == other[2:] else None
