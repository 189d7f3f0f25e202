# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities of devices, as whole numbers.

Private to the collection gpuwl.sandbox. Source: the grammar in the comment of
k8s.io/apimachinery pkg/api/resource type Quantity; that extended resources are
whole and not negative: Kubernetes documentation, "Extended resources".
"""

import re
from typing import Any

# Kubernetes caps greater quantities at this value.
LARGEST = 2**63 - 1

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?\Z"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse_quantity(value: Any) -> int:
    """Return a number of devices, 0 to 2**63 - 1, from a Kubernetes quantity.

    value: a string such as "4", "2k" or "2000m", or a JSON number.
    Raises ValueError, with a message that names the value, if it is no
    quantity, is negative, or is not a whole number.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        wrong = f'{_shown(value)} is no quantity: expected a whole number such as "4"'
        raise ValueError(wrong)  # noqa: TRY004 - one kind of error for every value that is no quantity
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{_shown(value)} is negative: expected a whole number from 0")
        return min(value, LARGEST)
    match = _QUANTITY.match(value if isinstance(value, str) else repr(value))
    if match is None:
        raise ValueError(f'{_shown(value)} is no quantity: expected a whole number such as "4" or "2k"')
    part = match.group("part") or match.group("only_part") or ""
    digits = ((match.group("whole") or "") + part).lstrip("0")
    if not digits:
        return 0
    if match.group("sign") == "-":
        raise ValueError(f"{_shown(value)} is negative: expected a whole number from 0")
    suffix = match.group("suffix") or ""
    tens = _exponent(match.group("exponent") or "0") + _DECIMAL.get(suffix, 0) - len(part)
    result = _whole(digits, tens, _BINARY.get(suffix, 0))
    if result < 0:
        raise ValueError(f"{_shown(value)} is not a whole number of devices")
    return result


def _whole(digits: str, tens: int, twos: int) -> int:
    """Return digits * 10**tens * 2**twos, capped, or -1 where that is no whole number.

    Works on lengths before it works on numbers, so that neither 1e999999999
    nor a million digits cost time or memory.
    """
    significant = digits.rstrip("0")
    tens += len(digits) - len(significant)
    if tens < -twos:
        return -1  # not divisible by ten, so the twos cancel at most so many places
    if len(significant) + tens > 19:
        return LARGEST
    if tens >= 0:
        number: int = int(significant) * 10**tens << twos
        return min(number, LARGEST)
    result, rest = divmod(int(significant) << twos, 10**-tens)
    return -1 if rest else min(result, LARGEST)


def _exponent(text: str) -> int:
    """Return an exponent; a longer one than any sensible stands for a very great one."""
    digits = text.lstrip("+-").lstrip("0")
    size = int(digits or "0") if len(digits) <= 12 else 10**12
    return -size if text.startswith("-") else size


def _shown(value: Any) -> str:
    """Return a value for a message, as JSON would have it, cut to a length for reading."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number beyond 64 bits"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    if not isinstance(value, str):
        number = str(value)
        return number if len(number) <= 60 else number[:60] + "..."
    text = f'"{ascii(value[:60])[1:-1]}"'
    return text if len(value) <= 60 else text[:-1] + '..."'
