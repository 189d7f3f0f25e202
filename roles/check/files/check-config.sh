#!/bin/sh
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Judges a saved `kubectl get nodes -o json`, offline: sh check-config.sh FILE
# Needs a POSIX shell and Python 3.8 or newer, nothing else.
#
# Made by `make script` of the Ansible collection gpuwl.sandbox from
# plugins/module_utils/_rules: change it there.
#
# The shell reads only the lines up to the second row of quotes and hands this file to
# Python, for which they are one string. -I: a json.py beside a dump is not imported.
# A checker of shell scripts would take the Python for shell:
# shellcheck disable=all
''':'
command -v python3 >/dev/null 2>&1 && exec python3 -I "$0" "$@"
echo "check-config.sh: needs Python 3.8 or newer, found no python3" >&2
exit 2
'''

import sys

if sys.version_info < (3, 8):
    sys.stderr.write("check-config.sh: needs Python 3.8 or newer, python3 is %d.%d\n" % sys.version_info[:2])
    sys.exit(2)


# -------------------- finding.py
"""What a rule says about an object: a finding, as plain data.

Private to the collection gpuwl.sandbox. Every audit gives findings of this one
form, so that one reporter serves them all.
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple

SEVERITIES = ("error", "warning", "info")  # the gravest first

# In a Draft's remedy this stands for the node's name, or for the names of all nodes that have the finding.
NODE = "{node}"


class Draft(NamedTuple):
    """What a rule says about every node that is alike: a finding without the node's name."""

    rule: str
    severity: str
    message: str
    remedy: str
    evidence: Tuple[Tuple[str, Any], ...]  # (field, value as found)


def finding(
    kind: str,
    name: str,
    rule: str,
    message: str,
    remedy: str,
    evidence: Dict[str, Any],
    severity: str = "error",
    namespace: Optional[str] = None,
    node: Optional[str] = None,
    source: Optional[str] = None,
) -> Dict[str, Any]:
    """Return one finding.

    kind, namespace, name: the object it is about; namespace None for a cluster-wide one.
    node, source: the node it concerns, and the file or context it came from, or None.
    rule: the rule's id, lower-case words joined by hyphens.
    severity: one of SEVERITIES.
    message: what was found and what was expected; to be understood alone.
    remedy: what to do about it.
    evidence: the values the judgement rests on, as they were found.
    """
    if severity not in SEVERITIES:
        raise ValueError("severity {!r} is none of {}".format(severity, ", ".join(SEVERITIES)))
    return {
        "subject": {"kind": kind, "namespace": namespace, "name": name},
        "node": node,
        "source": source,
        "rule": rule,
        "severity": severity,
        "message": message,
        "remedy": remedy,
        "evidence": evidence,
    }


# -------------------- quantity.py
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


# -------------------- report.py
"""Makes text from other people's files fit to be shown.

Private to the collection gpuwl.sandbox.
"""


def one_line(text: str) -> str:
    """Return text in which newlines, terminal escapes and the like are written out.

    Names come from other people's files: none may begin a line of its own or steer a terminal.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


# -------------------- node_ranges.py
"""Many names in few words: as ranges to read, and as a shell expands them.

Private to the collection gpuwl.sandbox. Ranges to read are written as in Ansible
inventories: edge-[00:19].
"""

import re
from typing import Iterable, List, NamedTuple, Tuple


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


# -------------------- json_lines.py
"""Writes a JSON object in pieces, so that no list needs to be in memory as a whole.

Private to the collection gpuwl.sandbox.
"""

import json
from collections.abc import Iterator
from typing import Any, Dict
from typing import Iterator as Iterates


def json_object(members: Dict[str, Any]) -> Iterates[str]:
    """Give the lines of an object as json.dumps(..., indent=2, sort_keys=True) has them but for the order of these
    members: plain ASCII. A member that is an iterator becomes an array, of which one item is held at a time."""
    yield "{"
    last = len(members) - 1
    for at, (key, value) in enumerate(members.items()):
        comma = "," if at < last else ""
        if isinstance(value, Iterator):
            yield from _array(json.dumps(key), value, comma)
        else:
            yield _indented(f"{json.dumps(key)}: {json.dumps(value, indent=2, sort_keys=True)}", 2) + comma
    yield "}"


def _array(key: str, items: Iterates[Any], comma: str) -> Iterates[str]:
    held = ""
    for item in items:
        yield held + "," if held else f"  {key}: ["
        held = _indented(json.dumps(item, indent=2, sort_keys=True), 4)
    yield held if held else f"  {key}: []{comma}"
    if held:
        yield "  ]" + comma


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


# -------------------- slips.py
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


# -------------------- device_catalogue.py
"""Which names NVIDIA's KubeVirt device plugin gives to devices, by the list of PCI devices that it carries.

Private to the collection gpuwl.sandbox. Sources: pci.ids of 2025.07.11 (https://pci-ids.ucw.cz), vendor 10de, and the
plugin's way from there to a name: kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go (getDeviceName): upper
case, "_" for "/", "." and white space, all but letters, digits, "_" and "." dropped. Left out are the three names that
Kubernetes accepts for no resource: two that end in "_", one of 81 characters.
"""

from functools import lru_cache
from typing import FrozenSet, Set


@lru_cache(maxsize=None)
def device_names() -> FrozenSet[str]:
    """Return the names of devices, without nvidia.com/."""
    names: Set[str] = set()
    for line in _DEVICES.split("\n"):
        chip, _mark, rest = line.partition(" ")
        names.update(chip if model == "-" else chip + "_" + model for model in rest.split())
    return frozenset(names)


# One chip a line, then what follows it and "_" in the names of its devices; "-": the chip's code alone is a name.
_DEVICES = """
AD102 GEFORCE_RTX_4070_TI_SUPER GEFORCE_RTX_4090 GEFORCE_RTX_4090_D HIGH_DEFINITION_AUDIO_CONTROLLER PG137
AD102 RTX_TITAN_ADA
AD102GL L20 L30 L40 L40G L40S L40_CNX RTX_5000_ADA_GENERATION RTX_5880_ADA_GENERATION RTX_6000_ADA_GENERATION
AD103 GEFORCE_RTX_4070 GEFORCE_RTX_4070_TI_SUPER GEFORCE_RTX_4080 GEFORCE_RTX_4080_SUPER
AD103GLM RTX_5000_ADA_GENERATION_EMBEDDED_GPU RTX_5000_ADA_GENERATION_LAPTOP_GPU
AD103M __GN21X11_GEFORCE_RTX_4090_LAPTOP_GPU
AD104 AC_AD104_20GB GEFORCE_RTX_4060_TI GEFORCE_RTX_4070 GEFORCE_RTX_4070_SUPER GEFORCE_RTX_4070_TI
AD104 HIGH_DEFINITION_AUDIO_CONTROLLER
AD104GL L16 L2 L4 RTX_4000_ADA_GENERATION RTX_4000_SFF_ADA_GENERATION RTX_4500_ADA_GENERATION
AD104GLM RTX_3500_ADA_GENERATION_EMBEDDED_GPU RTX_3500_ADA_GENERATION_LAPTOP_GPU RTX_4000_ADA_GENERATION_EMBEDDED_GPU
AD104GLM RTX_4000_ADA_GENERATION_LAPTOP_GPU
AD104M GEFORCE_RTX_4080_MAXQ___MOBILE
AD106 GEFORCE_RTX_4060 GEFORCE_RTX_4060_TI GEFORCE_RTX_4060_TI_16GB
AD106GLM RTX_3000_ADA_GENERATION_EMBEDDED_GPU RTX_3000_ADA_GENERATION_LAPTOP_GPU
AD106M GEFORCE_RTX_3050_A_LAPTOP_GPU GEFORCE_RTX_4070_MAXQ___MOBILE HIGH_DEFINITION_AUDIO_CONTROLLER
AD107 GEFORCE_RTX_4060 HIGH_DEFINITION_AUDIO_CONTROLLER
AD107GL RTX_2000___2000E_ADA_GENERATION
AD107GLM RTX_1000_ADA_GENERATION_LAPTOP_GPU RTX_2000_ADA_GENERATION_EMBEDDED_GPU RTX_2000_ADA_GENERATION_LAPTOP_GPU
AD107GLM RTX_500_ADA_GENERATION_LAPTOP_GPU
AD107M GEFORCE_RTX_3050_A_LAPTOP_GPU GEFORCE_RTX_4050_MAXQ___MOBILE GEFORCE_RTX_4060_MAXQ___MOBILE
C51 GEFORCE_6150_LE GEFORCE_GO_6100 GEFORCE_GO_6150 HOST_BRIDGE MEMORY_CONTROLLER_0 MEMORY_CONTROLLER_1
C51 MEMORY_CONTROLLER_2 MEMORY_CONTROLLER_3 MEMORY_CONTROLLER_4 MEMORY_CONTROLLER_5 PCI_EXPRESS_BRIDGE
C51 QUADRO_NVS_210S_GEFORCE_6150LE
C51G GEFORCE_6100
C51PV GEFORCE_6150
C55 HOST_BRIDGE MEMORY_CONTROLLER PCI_EXPRESS_BRIDGE
C61 GEFORCE_6100_NFORCE_400 GEFORCE_6100_NFORCE_405 GEFORCE_6100_NFORCE_420 GEFORCE_6150SE_NFORCE_430
C61 GEFORCE_7025___NFORCE_630A
C67 GEFORCE_7000M___NFORCE_610M GEFORCE_7150M___NFORCE_630M
C68 GEFORCE_7025___NFORCE_630A GEFORCE_7050_PV___NFORCE_630A
C73 GEFORCE_7050___NFORCE_610I GEFORCE_7050___NFORCE_630I GEFORCE_7100___NFORCE_620I GEFORCE_7100___NFORCE_630I
C73 GEFORCE_7150___NFORCE_630I
C77 GEFORCE_8100___NFORCE_720A GEFORCE_8200 GEFORCE_8200M GEFORCE_8200M_G GEFORCE_8300 GEFORCE_9100M_G GEFORCE_9200
C77 NFORCE_730A NFORCE_750A_SLI NFORCE_780A_980A_SLI
C78 GEFORCE_9100
C79 GEFORCE_9100M_G GEFORCE_9200 GEFORCE_9300 GEFORCE_9300___ION GEFORCE_9300___NFORCE_730I GEFORCE_9400 GEFORCE_9400M
C79 GEFORCE_9400M_G GEFORCE_9400M___ION GEFORCE_G102M ION ION_LE NFORCE_760I_SLI
CK804 AC97_AUDIO_CONTROLLER AC97_MODEM ETHERNET_CONTROLLER IDE ISA_BRIDGE MEMORY_CONTROLLER PCIE_BRIDGE PCI_BRIDGE
CK804 SERIAL_ATA_CONTROLLER SMBUS USB_CONTROLLER
CK8S ETHERNET_CONTROLLER PARALLEL_ATA_CONTROLLER_V2_5 USB_CONTROLLER
G70 G71_GEFORCE_7800_GS_AGP GEFORCE_7800_GS GEFORCE_7800_GT GEFORCE_7800_GTX GEFORCE_7800_SLI GEFORCE_GTS_250
G70GL QUADRO_FX_4500
G70M GEFORCE_GO_7800 GEFORCE_GO_7800_GTX
G71 GEFORCE_7600_GS_AGP GEFORCE_7900_GS GEFORCE_7900_GS_AGP GEFORCE_7900_GTX GEFORCE_7900_GT_GTO GEFORCE_7900_GX2
G71 GEFORCE_7950_GT GEFORCE_7950_GT_AGP GEFORCE_7950_GX2
G71GL QUADRO_FX_1500 QUADRO_FX_3500 QUADRO_FX_4500_X2 QUADRO_FX_5500
G71GLM QUADRO_FX_1500M QUADRO_FX_2500M
G71M GEFORCE_GO_7900_GS GEFORCE_GO_7900_GTX GEFORCE_GO_7950_GTX
G72 - GEFORCE_7200_GS___7300_SE GEFORCE_7300_GS GEFORCE_7300_LE GEFORCE_7350_LE GEFORCE_7500_LE GEFORCE_7550_LE
G72GL QUADRO_FX_350
G72GLM QUADRO_FX_350M
G72M GEFORCE_GO_7200 GEFORCE_GO_7400 GEFORCE_GO_7450 QUADRO_NVS_110M QUADRO_NVS_110M_GEFORCE_GO_7300 QUADRO_NVS_120M
G73 - GEFORCE_7300_GT GEFORCE_7300_GT_AGP GEFORCE_7600_GS GEFORCE_7600_GS_AGP GEFORCE_7600_GT GEFORCE_7600_GT_AGP
G73 GEFORCE_7600_LE GEFORCE_7650_GS
G73GL QUADRO_FX_560
G73GLM QUADRO_FX_550M
G73M GEFORCE_GO_7600 GEFORCE_GO_7600_GT GEFORCE_GO_7700 GEFORCE_GO_7900_SE QUADRO_NVS_300M
G80 GEFORCE_8800_GTS GEFORCE_8800_GTS___8800_GTX GEFORCE_8800_GTX GEFORCE_8800_ULTRA
G80GL QUADRO_FX_4600 QUADRO_FX_5600 TESLA_C870
G84 GEFORCE_8300_GS GEFORCE_8400_GS GEFORCE_8600_GS GEFORCE_8600_GT GEFORCE_8600_GTS
G84GL QUADRO_FX_1700 QUADRO_FX_370 QUADRO_FX_570
G84GLM QUADRO_FX_1600M QUADRO_FX_570M QUADRO_NVS_320M
G84M GEFORCE_8600M_GT GEFORCE_8700M_GT GEFORCE_9500M_GS GEFORCE_9650M_GS
G86 GEFORCE_8300_GS GEFORCE_8400_GS GEFORCE_8400_SE GEFORCE_8500_GT GEFORCE_9400_GT QUADRO_NVS_290
G86GLM QUADRO_FX_360M
G86M GEFORCE_8400M_G GEFORCE_8400M_GS GEFORCE_8400M_GT GEFORCE_8600M_GS GEFORCE_9300M_G QUADRO_NVS_130M QUADRO_NVS_135M
G86M QUADRO_NVS_140M
G92 GEFORCE_8800_GS GEFORCE_8800_GT GEFORCE_8800_GTS_512 GEFORCE_9600_GSO GEFORCE_9800_GT GEFORCE_9800_GTX
G92 GEFORCE_9800_GTX___9800_GTX GEFORCE_9800_GX2 GEFORCE_GTS_240 GEFORCE_GTS_250 GEFORCE_GT_230_OEM GEFORCE_GT_330
G92 GEFORCE_GT_330_OEM
G92GL QUADRO_FX_3700 QUADRO_FX_4700_X2 QUADRO_VX_200
G92GLM QUADRO_FX_2800M QUADRO_FX_3600M QUADRO_FX_3700M QUADRO_FX_3800M
G92M GEFORCE_8800M_GTS GEFORCE_8800M_GTX GEFORCE_9800M_GT GEFORCE_9800M_GTX GEFORCE_GTX_260M GEFORCE_GTX_280M
G92M GEFORCE_GTX_285M
G94 GEFORCE_9600_GE GEFORCE_9600_GS GEFORCE_9600_GSO GEFORCE_9600_GSO_512 GEFORCE_9600_GT GEFORCE_9600_GT_GREEN_EDITION
G94 GEFORCE_9800_GT GEFORCE_9800_S GEFORCE_GT_130 GEFORCE_GT_140 GEFORCE_GT_220 GEFORCE_GT_230
G94GL QUADRO_FX_1800
G94GLM QUADRO_FX_2700M
G94M GEFORCE_9700M_GTS GEFORCE_9800M_GS GEFORCE_9800M_GTS GEFORCE_GTS_150M GEFORCE_GTS_160M
G96 D9M10 GEFORCE_9500_GA___9600_GT___GTS_250 GEFORCE_9500_GS GEFORCE_9500_GT GEFORCE_GT_120_MAC_EDITION
G96C GEFORCE_9400_GT GEFORCE_9500_GS GEFORCE_9500_GT GEFORCE_9600_GSO___9800_GT GEFORCE_G210 GEFORCE_GT_120
G96CGL QUADRO_FX_580
G96CM GEFORCE_9600M_GS GEFORCE_9600M_GT GEFORCE_9650M_GT GEFORCE_GT_120M GEFORCE_GT_130M GEFORCE_GT_220M GEFORCE_G_110M
G96GL QUADRO_FX_380
G96GLM QUADRO_FX_1700M QUADRO_FX_770M
G96M GEFORCE_9500M_G GEFORCE_9700M_GT
G98 GEFORCE_8300_GS GEFORCE_8400 GEFORCE_8400_GS_REV__2 GEFORCE_9300_GE GEFORCE_9300_GS GEFORCE_9300_SE
G98 GEFORCE_9600_GT___9800_GT GEFORCE_9600_GT___9800_GT___GT_240 GEFORCE_G_100 HICX16__GRAPHICS QUADRO_NVS_295
G98 QUADRO_NVS_420 QUADRO_NVS_450
G98GL QUADRO_FX_370_LP
G98GLM QUADRO_FX_370M
G98M GEFORCE_9200M_GS GEFORCE_9300M_GS GEFORCE_G_103M GEFORCE_G_105M QUADRO_NVS_150M QUADRO_NVS_160M
GA100 - A100PG506207 A100PG506217 A100SXM64GB A100X A100_NVSWITCH A100_PCIE_40GB A100_PCIE_80GB A100_SXM4_40GB
GA100 A100_SXM4_80GB A30X A800SXM480GB A800_40GB_PCIE A800_80GB_PCIE A800_SXM4_40GB AX800_CONVERGED_ACCELERATOR
GA100 CMP_170HX DRIVE_A100_PROD GRID_A100A GRID_A100B INITIAL_DEVID INT_SKU
GA100GL A30_PCIE PG506232
GA102 - CMP_90HX GEFORCE_RTX_3070_TI GEFORCE_RTX_3080 GEFORCE_RTX_3080_11GB___12GB_ENGINEERING_SAMPLE
GA102 GEFORCE_RTX_3080_12GB GEFORCE_RTX_3080_LITE_HASH_RATE GEFORCE_RTX_3080_TI GEFORCE_RTX_3080_TI_20GB
GA102 GEFORCE_RTX_3090 GEFORCE_RTX_3090_ENGINEERING_SAMPLE GEFORCE_RTX_3090_TI HIGH_DEFINITION_AUDIO_CONTROLLER
GA102GL - A10 A10G A10M A40 RTX_A4500 RTX_A5000 RTX_A5500 RTX_A6000
GA103 GEFORCE_RTX_3060_TI
GA103GLM RTX_A5500_LAPTOP_GPU
GA103M GEFORCE_RTX_3080_TI_LAPTOP_GPU GEFORCE_RTX_3080_TI_MOBILE
GA104 - CMP_70HX GEFORCE_RTX_3060 GEFORCE_RTX_3060_8GB GEFORCE_RTX_3060_ENGINEERING_SAMPLE GEFORCE_RTX_3060_TI
GA104 GEFORCE_RTX_3060_TI_GDDR6X GEFORCE_RTX_3060_TI_LITE_HASH_RATE GEFORCE_RTX_3070
GA104 GEFORCE_RTX_3070_ENGINEERING_SAMPLE GEFORCE_RTX_3070_GDDR6X GEFORCE_RTX_3070_LITE_HASH_RATE GEFORCE_RTX_3070_TI
GA104 GEFORCE_RTX_3070_TI_LAPTOP_GPU GEFORCE_RTX_30X0_ENGINEERING_SAMPLE HIGH_DEFINITION_AUDIO_CONTROLLER
GA104 INITIAL_DEV_ID_B RESERVED_DEV_ID_A
GA104GL RTX_A4000 RTX_A4000H
GA104GLM RTX_A3000_12GB_LAPTOP_GPU RTX_A3000_LAPTOP_GPU RTX_A3000_MOBILE RTX_A4000_MOBILE RTX_A4500_LAPTOP_GPU
GA104GLM RTX_A5000_MOBILE
GA104M - GEFORCE_RTX_3070_MOBILE___MAXQ GEFORCE_RTX_3070_TI_LAPTOP_GPU GEFORCE_RTX_3080_MOBILE___MAXQ_8GB_16GB
GA106 - GEFORCE_RTX_3050 GEFORCE_RTX_3050_OEM GEFORCE_RTX_3060 GEFORCE_RTX_3060_12GB_REV__2
GA106 GEFORCE_RTX_3060_ENGINEERING_SAMPLE GEFORCE_RTX_3060_LITE_HASH_RATE HIGH_DEFINITION_AUDIO_CONTROLLER RTX_A2000
GA106 RTX_A2000_12GB
GA106M GEFORCE_RTX_3050_TI_MOBILE___MAXQ GEFORCE_RTX_3060_LAPTOP_GPU GEFORCE_RTX_3060_MOBILE___MAXQ
GA107 - GEFORCE_RTX_2050 GEFORCE_RTX_3050_4GB GEFORCE_RTX_3050_6GB GEFORCE_RTX_3050_8GB
GA107 GEFORCE_RTX_3050_ENGINEERING_SAMPLE HIGH_DEFINITION_AUDIO_CONTROLLER RTX_A2000_EMBEDDED_GPU RTX_A500_EMBEDDED_GPU
GA107BM GEFORCE_RTX_3050_MOBILE GEFORCE_RTX_3050_TI_MOBILE __GN20P0RK2_GEFORCE_RTX_3050_6GB_LAPTOP_GPU
GA107GL A2___A16 RTX_A1000 RTX_A400
GA107GLM RTX_A1000_6GB_LAPTOP_GPU RTX_A1000_LAPTOP_GPU RTX_A2000_8GB_LAPTOP_GPU RTX_A2000_MOBILE RTX_A4_MOBILE
GA107GLM RTX_A500_LAPTOP_GPU
GA107M GEFORCE_MX570 GEFORCE_MX570_A GEFORCE_RTX_2050 GEFORCE_RTX_3050_4GB_LAPTOP_GPU GEFORCE_RTX_3050_MOBILE
GA107M GEFORCE_RTX_3050_TI_MOBILE
GB100 - B200 HGX_GB200 RESERVED_DEV_ID_A RESERVED_DEV_ID_B TS4___B100
GB102 - B100 RESERVED_DEV_ID_A RESERVED_DEV_ID_B
GB110 -
GB120 -
GB202 GEFORCE_RTX_5090 GEFORCE_RTX_5090_D
GB202GL RTX_PRO_5000_BLACKWELL RTX_PRO_6000_BLACKWELL_MAXQ_WORKSTATION_EDITION RTX_PRO_6000_BLACKWELL_SERVER_EDITION
GB202GL RTX_PRO_6000_BLACKWELL_WORKSTATION_EDITION
GB203 GEFORCE_RTX_5070_TI GEFORCE_RTX_5080
GB203GL RTX_PRO_4000_BLACKWELL RTX_PRO_4500_BLACKWELL
GB203GLM RTX_PRO_4000_BLACKWELL_GENERATION_LAPTOP_GPU RTX_PRO_5000_BLACKWELL_GENERATION_LAPTOP_GPU
GB203M __GN22X11_GEFORCE_RTX_5090_MAXQ___MOBILE __GN22X9_GEFORCE_RTX_5080_MAXQ___MOBILE
GB203M __GN22_GEFORCE_RTX_5080_MAXQ___MOBILE __GN22_GEFORCE_RTX_5090_MAXQ___MOBILE
GB205 GEFORCE_RTX_5070
GB205GLM RTX_PRO_3000_BLACKWELL_GENERATION_LAPTOP_GPU
GB205M GEFORCE_RTX_5070_TI_MOBILE
GB206 GEFORCE_RTX_5060 GEFORCE_RTX_5060_TI
GB206GLM RTX_PRO_2000_BLACKWELL_GENERATION_LAPTOP_GPU
GB206M GEFORCE_RTX_5060_MAXQ___MOBILE GEFORCE_RTX_5070_MAXQ___MOBILE
GB207 GEFORCE_RTX_5050
GB207GLM RTX_PRO_1000_BLACKWELL_GENERATION_LAPTOP_GPU RTX_PRO_500_BLACKWELL_GENERATION_LAPTOP_GPU
GB207M GEFORCE_RTX_5050_MAXQ___MOBILE
GB20B -
GB6128 N22YESA1
GB6256N22WESA1 -
GEFORCE 7100_NFORCE_630I_SATA
GF100 GEFORCE_GTX_465 GEFORCE_GTX_470 GEFORCE_GTX_480 HIGH_DEFINITION_AUDIO_CONTROLLER
GF100GL - QUADRO_4000 QUADRO_5000 QUADRO_6000 QUADRO_7000 TESLA_C2050___C2070 TESLA_M2070 TESLA_M2070Q
GF100GL TESLA_T20_PROCESSOR
GF100GLM QUADRO_5000M QUADRO_5010M
GF100M GEFORCE_GTX_480M
GF104 GEFORCE_GTX_460 GEFORCE_GTX_460_OEM GEFORCE_GTX_460_SE HIGH_DEFINITION_AUDIO_CONTROLLER
GF104GLM QUADRO_3000M QUADRO_4000M
GF104M GEFORCE_GTX_470M GEFORCE_GTX_485M
GF106 GEFORCE_GTS_450 GEFORCE_GTS_450_OEM GEFORCE_GT_440 HIGH_DEFINITION_AUDIO_CONTROLLER
GF106GL QUADRO_2000
GF106GLM QUADRO_2000M
GF106M GEFORCE_GTX_460M GEFORCE_GT_435M GEFORCE_GT_445M GEFORCE_GT_550M GEFORCE_GT_555M
GF108 GEFORCE_GT_420 GEFORCE_GT_430 GEFORCE_GT_440 GEFORCE_GT_520 GEFORCE_GT_530 GEFORCE_GT_610 GEFORCE_GT_620
GF108 GEFORCE_GT_630 GEFORCE_GT_730 HIGH_DEFINITION_AUDIO_CONTROLLER
GF108GL QUADRO_600
GF108GLM NVS_5200M QUADRO_1000M QUADRO_500M
GF108M GEFORCE_610M GEFORCE_GT_415M GEFORCE_GT_420M GEFORCE_GT_425M GEFORCE_GT_435M GEFORCE_GT_520M GEFORCE_GT_525M
GF108M GEFORCE_GT_540M GEFORCE_GT_550M GEFORCE_GT_555M GEFORCE_GT_620M GEFORCE_GT_620M_630M_635M_640M_LE
GF108M GEFORCE_GT_635M NVS_5400M
GF110 GEFORCE_GTX_560_OEM GEFORCE_GTX_560_TI_448_CORES GEFORCE_GTX_560_TI_OEM GEFORCE_GTX_570 GEFORCE_GTX_570_REV__2
GF110 GEFORCE_GTX_580 GEFORCE_GTX_580_REV__2 GEFORCE_GTX_590 HIGH_DEFINITION_AUDIO_CONTROLLER
GF110GL TESLA_C2050___C2075 TESLA_C2090 TESLA_M2075 TESLA_M2090
GF114 GEFORCE_GTX_460_SE_V2 GEFORCE_GTX_460_V2 GEFORCE_GTX_555 GEFORCE_GTX_560 GEFORCE_GTX_560_SE GEFORCE_GTX_560_TI
GF114 GEFORCE_GTX_560_TI_OEM GEFORCE_GT_645_OEM HDMI_AUDIO_CONTROLLER
GF114M GEFORCE_GTX_570M GEFORCE_GTX_580M GEFORCE_GTX_670M GEFORCE_GTX_675M
GF116 GEFORCE_GTS_450_REV__2 GEFORCE_GTS_450_REV__3 GEFORCE_GTX_550_TI GEFORCE_GT_545 GEFORCE_GT_545_OEM
GF116 GEFORCE_GT_640_OEM HIGH_DEFINITION_AUDIO_CONTROLLER
GF116M GEFORCE_GT_550M GEFORCE_GT_555M_635M GEFORCE_GT_560M
GF117M GEFORCE_610M_710M_810M_820M___GT_620M_625M_630M_720M
GF119 - GEFORCE_510 GEFORCE_605 GEFORCE_GT_520 GEFORCE_GT_610 GEFORCE_GT_620_OEM GEFORCE_GT_625_OEM GEFORCE_GT_705
GF119 GEFORCE_GT_710 HDMI_AUDIO_CONTROLLER NVS_310 NVS_315
GF119M GEFORCE_410M GEFORCE_610M GEFORCE_705M GEFORCE_GT_520M GEFORCE_GT_520MX NVS_4200M QUADRO_NVS_4200M
GH100 - GH10088KA1 GH200_120GB___480GB GH200_144G_HBM3E H100 H100L_94GB H100_96GB H100_CNX H100_NVSWITCH H100_PCIE
GH100 H100_SXM5_64GB H100_SXM5_80GB H100_SXM5_94GB H100_SXM5_96GB H20 H200_NVL H200_SXM_141GB H20B H20_HBM3E H20_NVL16
GH100 H800 H800L_94GB H800_PCIE SKINNY_JOE
GK104 GEFORCE_GTX_660_OEM GEFORCE_GTX_660_REV__2 GEFORCE_GTX_660_TI GEFORCE_GTX_670 GEFORCE_GTX_680 GEFORCE_GTX_690
GK104 GEFORCE_GTX_760 GEFORCE_GTX_760_OEM GEFORCE_GTX_760_REV__2 GEFORCE_GTX_760_TI GEFORCE_GTX_760_TI_OEM
GK104 GEFORCE_GTX_770 GK104CS GK104ESA GK104INT GRID_K2_NVS_USM HDMI_AUDIO_CONTROLLER
GK104GL GRID_K2 GRID_K200_VGPU GRID_K240Q___K260Q_VGPU GRID_K2_GEFORCE_USM GRID_K2_TESLA_USM GRID_K520 QUADRO_4100
GK104GL QUADRO_K4200 QUADRO_K5000 TESLA_K10 TESLA_K8
GK104GLM - GRID_ICECUBE QUADRO_K3000M QUADRO_K3100M QUADRO_K4000M QUADRO_K4100M QUADRO_K5000M QUADRO_K5100M
GK104M GEFORCE_GTX_670MX GEFORCE_GTX_675MX GEFORCE_GTX_675MX_MAC_EDITION GEFORCE_GTX_680M GEFORCE_GTX_680MX
GK104M GEFORCE_GTX_775M_MAC_EDITION GEFORCE_GTX_780M GEFORCE_GTX_780M_MAC_EDITION GEFORCE_GTX_860M GEFORCE_GTX_870M
GK104M GEFORCE_GTX_880M
GK106 D14P230 GEFORCE_GTX_645_OEM GEFORCE_GTX_650_OEM GEFORCE_GTX_650_TI GEFORCE_GTX_650_TI_BOOST
GK106 GEFORCE_GTX_650_TI_OEM GEFORCE_GTX_660 GEFORCE_GTX_750_TI GEFORCE_GT_740 GK106ES GK106INT232 GK106INT343
GK106 GK106INT353 HDMI_AUDIO_CONTROLLER NB1Q
GK106GL QUADRO_K4000
GK106GLM QUADRO_K2100M
GK106M - GEFORCE_GTX_760M GEFORCE_GTX_765M GEFORCE_GTX_770M
GK107 D14P115 EXK107 GEFORCE_GTX_650 GEFORCE_GT_1030 GEFORCE_GT_630_OEM GEFORCE_GT_640 GEFORCE_GT_640_OEM
GK107 GEFORCE_GT_720 GEFORCE_GT_730 GEFORCE_GT_740 GEFORCE_K340_USM GEN3_ESI GK107ESA1 GK107ESKAE1 GK107ESPA1 GK107GTX
GK107 GK107INT11A1 GK107INT22A1 GRID_K1_NVS_USM HDMI_AUDIO_CONTROLLER NB1G NB1Q NVS_1000 NVS_510
GK107GL GRID_K1 GRID_K100_VGPU GRID_K140Q_VGPU GRID_K1_TESLA_USM GRID_K340 QUADRO_410 QUADRO_K2000 QUADRO_K2000D
GK107GL QUADRO_K420 QUADRO_K600
GK107GLM QUADRO_K1000M QUADRO_K1100M QUADRO_K2000M QUADRO_K500M
GK107M GEFORCE_710A GEFORCE_810M GEFORCE_820M GEFORCE_GTX_660M GEFORCE_GTX_660M_MAC_EDITION GEFORCE_GT_640M
GK107M GEFORCE_GT_640M_LE GEFORCE_GT_640M_MAC_EDITION GEFORCE_GT_645M GEFORCE_GT_650M GEFORCE_GT_650M_MAC_EDITION
GK107M GEFORCE_GT_730M GEFORCE_GT_740M GEFORCE_GT_745M GEFORCE_GT_750M GEFORCE_GT_750M_MAC_EDITION GEFORCE_GT_755M
GK107M GEFORCE_GT_755M_MAC_EDITION N13PGSW N14PGS
GK110 GEFORCE_GTX_780 GEFORCE_GTX_780_REV__2 GEFORCE_GTX_780_TI_6GB GEFORCE_GTX_TITAN GEFORCE_GTX_TITAN_LE
GK110 HIGH_DEFINITION_AUDIO_CONTROLLER Q12U1
GK110B GEFORCE_GTX_780_TI GEFORCE_GTX_TITAN_BLACK GEFORCE_GTX_TITAN_Z
GK110BGL TESLA_K40D TESLA_K40M TESLA_K40S TESLA_K40ST TESLA_K40T TESLA_STELLA_SOLO TESLA_STELLA_SXM
GK110GL QUADRO_K5200 QUADRO_K6000 TESLA_K20 TESLA_K20C TESLA_K20M TESLA_K20S TESLA_K20X TESLA_K20XM
GK11X - GK11X_FPGA TEGRA_ON_X86_PEATRANS
GK180GL TESLA_K40C
GK208 - D15M210 GEFORCE_GT_630_REV__2 GEFORCE_GT_635 GEFORCE_GT_640_REV__2 GEFORCE_GT_710 GEFORCE_GT_720 GK208100
GK208 GK208CS1C GK208CSQ GK208ES GK208INT GK208_INT HDMI_DP_AUDIO_CONTROLLER
GK208B - GEFORCE_GT_710 GEFORCE_GT_720 GEFORCE_GT_730
GK208BM GEFORCE_910M GEFORCE_920M
GK208GLM QUADRO_K510M QUADRO_K610M
GK208M GEFORCE_710M GEFORCE_825M GEFORCE_GT_720M GEFORCE_GT_730M GEFORCE_GT_735M GEFORCE_GT_740M
GK210GL TESLA_K80
GM107 GEFORCE_940MX GEFORCE_GTX_745 GEFORCE_GTX_750 GEFORCE_GTX_750_TI HIGH_DEFINITION_AUDIO_CONTROLLER_GEFORCE_940MX
GM107GL GRID_M30 GRID_M33020 NVS_810 QUADRO_K1200 QUADRO_K2200 QUADRO_K620 TESLA_M10
GM107GLM QUADRO_K2200M QUADRO_M1000M QUADRO_M1200_MOBILE QUADRO_M2000M QUADRO_M600M QUADRO_M620_MOBILE
GM107M GEFORCE_840M GEFORCE_845M GEFORCE_940M GEFORCE_945M GEFORCE_GTX_750_TI GEFORCE_GTX_850M GEFORCE_GTX_860M
GM107M GEFORCE_GTX_950M GEFORCE_GTX_960M
GM108GLM QUADRO_K620M___QUADRO_M500M QUADRO_M520_MOBILE
GM108M GEFORCE_830M GEFORCE_840M GEFORCE_845M GEFORCE_920MX GEFORCE_930M GEFORCE_930MX GEFORCE_940A GEFORCE_940M
GM108M GEFORCE_940MX GEFORCE_945M___945A GEFORCE_MX110 GEFORCE_MX130
GM200 GEFORCE_GTX_980_TI GEFORCE_GTX_TITAN_X HIGH_DEFINITION_AUDIO
GM200GL QUADRO_M6000 QUADRO_M6000_24GB TESLA_M40
GM204 - D17U20 GEFORCE_GTX_970 GEFORCE_GTX_980 GM107_CS1 GM107_INT52 GRAPHICS_DEVICE_ESA
GM204 HIGH_DEFINITION_AUDIO_CONTROLLER
GM204GL GEFORCE_GTX_980_ENGINEERING_SAMPLE QUADRO_M4000 QUADRO_M5000 TESLA_M6 TESLA_M60
GM204GLM QUADRO_M3000M QUADRO_M4000M QUADRO_M5000M___M5000_SE QUADRO_M5500
GM204M GEFORCE_GTX_960_OEM___970M GEFORCE_GTX_965M GEFORCE_GTX_970M GEFORCE_GTX_980M GEFORCE_GTX_980_MOBILE
GM206 GEFORCE_GTX_750_V2 GEFORCE_GTX_950 GEFORCE_GTX_960 GEFORCE_GTX_960_FAKE GEFORCE_GTX_960_OEM
GM206 HIGH_DEFINITION_AUDIO_CONTROLLER
GM206GL QUADRO_M2000 TESLA_M4
GM206GLM QUADRO_M2200_MOBILE
GM206M GEFORCE_GTX_965M
GP100 - CMP_100100
GP100GL - DGX_STATION___PH402_SKU_200 GP100_SKU_15FF GP100_SKU_200 QUADRO_GP100 TESLA_P100DGXS16GB TESLA_P100_PCIE_12GB
GP100GL TESLA_P100_PCIE_16GB TESLA_P100_SXM2_16GB
GP102 - GEFORCE_GTX_1080_TI GEFORCE_GTX_1080_TI_10GB HDMI_AUDIO_CONTROLLER P102100 TITAN_XP TITAN_X_PASCAL
GP102GL - QUADRO_P6000 TESLA_P10 TESLA_P40
GP104 GEFORCE_GTX_1060_3GB GEFORCE_GTX_1060_6GB GEFORCE_GTX_1070 GEFORCE_GTX_1070_ENGINEERING_SAMPLE
GP104 GEFORCE_GTX_1070_TI GEFORCE_GTX_1080 HIGH_DEFINITION_AUDIO_CONTROLLER P104100 P104101
GP104BM GEFORCE_GTX_1070_MOBILE GEFORCE_GTX_1080_MOBILE
GP104GL QUADRO_P4000 QUADRO_P5000 TESLA_P4 TESLA_P6
GP104GLM QUADRO_P3000_MOBILE QUADRO_P3200_MOBILE QUADRO_P4000_MOBILE QUADRO_P4200_MOBILE QUADRO_P5000_MOBILE
GP104GLM QUADRO_P5200_MOBILE
GP104M - GEFORCE_GTX_1070_MOBILE GEFORCE_GTX_1080_MOBILE
GP106 - GEFORCE_GTX_1060_3GB GEFORCE_GTX_1060_5GB GEFORCE_GTX_1060_6GB GEFORCE_GTX_1060_6GB_REV__2
GP106 HIGH_DEFINITION_AUDIO_CONTROLLER P106090 P106100 P106M
GP106BM GEFORCE_GTX_1050_MOBILE GEFORCE_GTX_1050_TI_MOBILE GEFORCE_GTX_1060_MOBILE_6GB
GP106GL - QUADRO_P2000 QUADRO_P2200
GP106M - GEFORCE_GTX_1050_MOBILE GEFORCE_GTX_1050_TI_MOBILE GEFORCE_GTX_1060_MOBILE GEFORCE_GTX_1060_MOBILE_REV__2
GP106M QUADRO_P2000_MOBILE___DRIVE_PX_2_AUTOCHAUFFEUR
GP107 GEFORCE_GTX_1050 GEFORCE_GTX_1050_3GB GEFORCE_GTX_1050_TI
GP107BM GEFORCE_GTX_1050_MOBILE GEFORCE_GTX_1050_TI_MOBILE
GP107GL - HIGH_DEFINITION_AUDIO_CONTROLLER QUADRO_P1000 QUADRO_P2000 QUADRO_P400 QUADRO_P600 QUADRO_P620
GP107GLM QUADRO_P1000_MOBILE QUADRO_P2000_MOBILE QUADRO_P600_MOBILE QUADRO_P620
GP107M - GEFORCE_GTX_1050_3_GB_MAXQ GEFORCE_GTX_1050_MOBILE GEFORCE_GTX_1050_TI_MAXQ GEFORCE_GTX_1050_TI_MOBILE
GP107M GEFORCE_MX150 GEFORCE_MX350
GP108 GEFORCE_GT_1010 GEFORCE_GT_1030 HIGH_DEFINITION_AUDIO_CONTROLLER
GP108BM GEFORCE_MX250 GEFORCE_MX330
GP108GLM QUADRO_P500_MOBILE QUADRO_P520
GP108M GEFORCE_MX150 GEFORCE_MX230 GEFORCE_MX250 GEFORCE_MX330
GT200 GEFORCE_GTX_260 GEFORCE_GTX_280 GEFORCE_GTX_295
GT200B GEFORCE_GTX_275 GEFORCE_GTX_285 GEFORCE_GTX_295
GT200GL QUADRO_CX QUADRO_FX_3800 QUADRO_FX_4800 QUADRO_FX_5800 QUADRO_PLEX_2200_D2 QUADRO_PLEX_2200_S4
GT200GL TESLA_C1060___M1060
GT215 GEFORCE_GT_220 GEFORCE_GT_220_315 GEFORCE_GT_240 GEFORCE_GT_320 GEFORCE_GT_330 GEFORCE_GT_340
GT215GLM QUADRO_FX_1800M
GT215M GEFORCE_GTS_250M GEFORCE_GTS_260M GEFORCE_GTS_350M GEFORCE_GTS_360M GEFORCE_GT_335M
GT216 GEFORCE_210 GEFORCE_315 GEFORCE_405 GEFORCE_505 GEFORCE_GT_220 GEFORCE_GT_415 HDMI_AUDIO_CONTROLLER
GT216GL QUADRO_400
GT216GLM QUADRO_FX_880M
GT216M GEFORCE_GT_230M GEFORCE_GT_240M GEFORCE_GT_320M GEFORCE_GT_325M GEFORCE_GT_330M NVS_5100M
GT218 GEFORCE_205 GEFORCE_210 GEFORCE_310 GEFORCE_315 GEFORCE_405 GEFORCE_505 GEFORCE_8400_GS_REV__3
GT218 GEFORCE_9300_GS_REV__2 GEFORCE_G210 ION NVS_300
GT218GL QUADRO_FX_380_LP
GT218GLM QUADRO_FX_380M
GT218M GEFORCE_305M GEFORCE_310M GEFORCE_315M GEFORCE_G210M GEFORCE_G_105M ION ION_2 NVS_2100M NVS_3100M
GV100 CMP_100200 CMP_100210 ENGINEERING_SAMPLE TITAN_V
GV100GL QUADRO_GV100 TESLA_GV100_DGX1V TESLA_GV100_SXM216GB_SKU_890 TESLA_PG500216 TESLA_PG503216 TESLA_V100S_PCIE_32GB
GV100GL TESLA_V100_DGXS_16GB TESLA_V100_DGXS_32GB TESLA_V100_FHHL_16GB TESLA_V100_PCIE_16GB TESLA_V100_PCIE_32GB
GV100GL TESLA_V100_SXM2_16GB TESLA_V100_SXM2_32GB TESLA_V100_SXM3_32GB
HIGH DEFINITION_AUDIO DEFINITION_AUDIO_CONTROLLER
MCP04 AC97_AUDIO_CONTROLLER ETHERNET_CONTROLLER IDE PCI_BRIDGE SERIAL_ATA_CONTROLLER SMBUS USB_CONTROLLER
MCP2A ETHERNET_CONTROLLER IDE ISA_BRIDGE PCI_BRIDGE SMBUS USB_CONTROLLER
MCP2S AC97_AUDIO_CONTROLLER
MCP51 AC97_AUDIO_CONTROLLER ETHERNET_CONTROLLER HIGH_DEFINITION_AUDIO HOST_BRIDGE IDE LPC_BRIDGE MCI
MCP51 MEMORY_CONTROLLER_0 PCI_BRIDGE PMU SERIAL_ATA_CONTROLLER SMBUS USB_CONTROLLER
MCP55 ETHERNET HIGH_DEFINITION_AUDIO IDE LPC_BRIDGE MEMORY_CONTROLLER PCI_BRIDGE PCI_EXPRESS_BRIDGE SATA_CONTROLLER
MCP55 SMBUS_CONTROLLER SMU USB_CONTROLLER
MCP61 ETHERNET HIGH_DEFINITION_AUDIO HOST_BRIDGE IDE LPC_BRIDGE MEMORY_CONTROLLER PCI_BRIDGE PCI_EXPRESS_BRIDGE
MCP61 SATA_CONTROLLER SMBUS SMU USB_1_1_CONTROLLER USB_2_0_CONTROLLER
MCP65 AHCI_CONTROLLER ETHERNET HIGH_DEFINITION_AUDIO IDE LPC_BRIDGE MEMORY_CONTROLLER PCI_BRIDGE PCI_EXPRESS_BRIDGE
MCP65 SATA_CONTROLLER SMBUS SMU USB_1_1_OHCI_CONTROLLER USB_2_0_EHCI_CONTROLLER USB_CONTROLLER
MCP67 AHCI_CONTROLLER COPROCESSOR EHCI_USB_2_0_CONTROLLER ETHERNET HIGH_DEFINITION_AUDIO IDE_CONTROLLER ISA_BRIDGE
MCP67 MEMORY_CONTROLLER OHCI_USB_1_1_CONTROLLER PCI_BRIDGE PCI_EXPRESS_BRIDGE SATA_CONTROLLER SMBUS
MCP72XE MCP72P_MCP78U_MCP78S_HIGH_DEFINITION_AUDIO
MCP73 COPROCESSOR ETHERNET HIGH_DEFINITION_AUDIO HOST_BRIDGE IDE_CONTROLLER LPC_BRIDGE MEMORY_CONTROLLER
MCP73 NFORCE_630I_USB_2_0_CONTROLLER_EHCI OHCI_USB_1_1_CONTROLLER PCI_EXPRESS_BRIDGE SATA_CONTROLLER_IDE_MODE
MCP73 SATA_RAID_CONTROLLER SMBUS
MCP77 ETHERNET
MCP78S GEFORCE_8200_AHCI_CONTROLLER GEFORCE_8200_COPROCESSOR GEFORCE_8200_EHCI_USB_2_0_CONTROLLER GEFORCE_8200_IDE
MCP78S GEFORCE_8200_LPC_BRIDGE GEFORCE_8200_MEMORY_CONTROLLER GEFORCE_8200_OHCI_USB_1_1_CONTROLLER
MCP78S GEFORCE_8200_PCI_BRIDGE GEFORCE_8200_PCI_EXPRESS_BRIDGE GEFORCE_8200_SATA_CONTROLLER_NONAHCI_MODE
MCP78S GEFORCE_8200_SATA_CONTROLLER_RAID_MODE GEFORCE_8200_SMBUS
MCP79 AHCI_CONTROLLER COPROCESSOR EHCI_USB_2_0_CONTROLLER ETHERNET GEFORCE_8200M_G HIGH_DEFINITION_AUDIO HOST_BRIDGE
MCP79 LPC_BRIDGE MEMORY_CONTROLLER OHCI_USB_1_1_CONTROLLER PCI_BRIDGE PCI_EXPRESS_BRIDGE RAID_CONTROLLER
MCP79 SATA_CONTROLLER SMBUS
MCP7A GEFORCE_9400
MCP89 COPROCESSOR EHCI_USB_2_0_CONTROLLER ETHERNET GEFORCE_320M HIGH_DEFINITION_AUDIO HOST_BRIDGE LPC_BRIDGE
MCP89 MEMORY_CONTROLLER OHCI_USB_1_1_CONTROLLER PCI_EXPRESS_BRIDGE SATA_CONTROLLER SATA_CONTROLLER_AHCI_MODE
MCP89 SATA_CONTROLLER_RAID_MODE SMBUS
MCPX CPU_BRIDGE MEMORY_CONTROLLER
NF200 PCIE_2_0_SWITCH PCIE_2_0_SWITCH_FOR_GTX_295
NFORCE 220_420_MEMORY_CONTROLLER 220_420_NV1A_GEFORCE2_MX 250GB_PCI_SYSTEM_MANAGEMENT 420_MEMORY_CONTROLLER_DDR
NFORCE 610I_630I_MEMORY_CONTROLLER AC97_AUDIO_CONTROLLER AC97_MODEM_CONTROLLER AGP_TO_PCI_BRIDGE AUDIO_PROCESSING_UNIT
NFORCE CPU_BRIDGE ETHERNET_CONTROLLER IDE ISA_BRIDGE PCITOPCI_BRIDGE PCI_SYSTEM_MANAGEMENT USB_CONTROLLER
NFORCE2 AC97_AUDIO_CONTROLER_MCP AGP ETHERNET_CONTROLLER EXTERNAL_PCI_BRIDGE FIREWIRE_IEEE_1394_CONTROLLER IDE IGP2
NFORCE2 ISA_BRIDGE MEMORY_CONTROLLER_0 MEMORY_CONTROLLER_1 MEMORY_CONTROLLER_2 MEMORY_CONTROLLER_3 MEMORY_CONTROLLER_4
NFORCE2 MEMORY_CONTROLLER_5 PCI_BRIDGE SERIAL_ATA_CONTROLLER SMBUS_MCP USB_CONTROLLER
NFORCE3 250GB_AC97_AUDIO_CONTROLLER 250GB_AGP_HOST_TO_PCI_BRIDGE 250GB_HOST_BRIDGE 250GB_LPC_BRIDGE
NFORCE3 250GB_PCITOPCI_BRIDGE AGP_BRIDGE AUDIO EHCI_USB_2_0_CONTROLLER ETHERNET HOST_BRIDGE IDE LPC_BRIDGE PCI_BRIDGE
NFORCE3 SERIAL_ATA_CONTROLLER SERIAL_ATA_CONTROLLER_2 SMBUS USB_1_1 USB_2_0
NV0A ALADDIN_TNT2_IGP
NV1 NV1_SERIES STG2000XB_SERIES
NV10 GEFORCE_256_DDR GEFORCE_256_SDR
NV10GL QUADRO
NV11 GEFORCE2_MX200 GEFORCE2_MX_MX_400
NV11GL QUADRO2_MXR_EX_GO
NV11M GEFORCE2_GO
NV15 GEFORCE2_GTS_PRO GEFORCE2_TI GEFORCE2_ULTRA
NV15GL QUADRO2_PRO
NV17 - GEFORCE4_MX_420 GEFORCE4_MX_440 GEFORCE4_MX_440SE GEFORCE4_MX_460
NV17GL QUADRO4_500_GOGL QUADRO4_550_XGL QUADRO_NVS
NV17M GEFORCE4_420_GO GEFORCE4_420_GO_32M GEFORCE4_440_GO GEFORCE4_440_GO_64M GEFORCE4_460_GO
NV18 GEFORCE4_MX GEFORCE4_MX_4000 GEFORCE4_MX_420_AGP_8X GEFORCE4_MX_440SE_AGP_8X GEFORCE4_MX_440_AGP_8X
NV18 GEFORCE4_MX_WITH_AGP8X_MAC
NV18GL QUADRO4_380_XGL QUADRO4_580_XGL QUADRO_NVS_280_SD QUADRO_NVS_50_PCI
NV18M GEFORCE4_448_GO GEFORCE4_488_GO
NV19 GEFORCE_PCX_4300
NV1F C17_GEFORCE4_MX_IGP
NV20 GEFORCE3 GEFORCE3_TI_200 GEFORCE3_TI_500
NV20GL QUADRO_DCC
NV25 GEFORCE4_TI GEFORCE4_TI_4200 GEFORCE4_TI_4400 GEFORCE4_TI_4600
NV25GL QUADRO4_700_XGL QUADRO4_750_XGL QUADRO4_900_XGL
NV28 GEFORCE4_TI_4200_AGP_8X GEFORCE4_TI_4800 GEFORCE4_TI_4800_SE
NV28GL QUADRO4_780_XGL QUADRO4_980_XGL
NV28GLM QUADRO4_GO700
NV28M GEFORCE4_TI_4200_GO_AGP_8X
NV2A XGPU
NV3 RIVA_128 RIVA_128ZX
NV30 GEFORCE_FX GEFORCE_FX_5800 GEFORCE_FX_5800_ULTRA
NV30GL QUADRO_FX_1000 QUADRO_FX_2000
NV31 GEFORCE_FX_5600 GEFORCE_FX_5600XT GEFORCE_FX_5600_ULTRA
NV31GL -
NV31GLM QUADRO_FX_GO700
NV31M - GEFORCE_FX_GO5600 GEFORCE_FX_GO5650
NV34 - GEFORCE_FX_5100 GEFORCE_FX_5200 GEFORCE_FX_5200LE GEFORCE_FX_5200_ULTRA GEFORCE_FX_5500
NV34GL QUADRO_FX_500_600_PCI QUADRO_NVS_280_PCI
NV34M GEFORCE_FX_GO5100 GEFORCE_FX_GO5200 GEFORCE_FX_GO5200_32M_64M GEFORCE_FX_GO5200_64M GEFORCE_FX_GO5250
NV34M GEFORCE_FX_GO5300___GO5350
NV35 GEFORCE_FX_5900 GEFORCE_FX_5900XT GEFORCE_FX_5900ZT GEFORCE_FX_5900_ULTRA GEFORCE_PCX_5900
NV35GL QUADRO_FX_3000 QUADRO_FX_700
NV36 - GEFORCE_FX_5700 GEFORCE_FX_5700LE GEFORCE_FX_5700VE GEFORCE_FX_5700_ULTRA QUADRO_FX_GO1000
NV36GL QUADRO_FX_1100
NV36M GEFORCE_FX_GO5700
NV37GL QUADRO_FX_330_GEFORCE_PCX_5300 QUADRO_PCIE_SERIES
NV38 GEFORCE_FX_5950_ULTRA
NV38GL QUADRO_FX_1300
NV39 GEFORCE_PCX_5750
NV4 RIVA_TNT
NV40 GEFORCE_6800 GEFORCE_6800_GS GEFORCE_6800_GT GEFORCE_6800_GT_GTO_ULTRA GEFORCE_6800_LE GEFORCE_6800_ULTRA
NV40 GEFORCE_6800_XE GEFORCE_6800_XT
NV40GL QUADRO_FX_4000
NV41 - GEFORCE_6800 GEFORCE_6800_GS GEFORCE_6800_LE GEFORCE_6800_XT
NV41GL QUADRO_FX_1400
NV41GLM QUADRO_FX_GO1400
NV41M GEFORCE_GO_6800 GEFORCE_GO_6800_ULTRA
NV42GL QUADRO_FX_3450_4000_SDI
NV43 - GEFORCE_6200 GEFORCE_6600 GEFORCE_6600_GT GEFORCE_6600_LE GEFORCE_6600_VE GEFORCE_6610_XL GEFORCE_6700_XL
NV43 GEFORCE_6800_GS_XT QUADRO_NVS_440
NV43GL QUADRO_FX_540 QUADRO_FX_550
NV43M GEFORCE_GO6200_TE___6600_TE GEFORCE_GO_6600 GEFORCE_GO_6600_GT
NV44 - GEFORCE_6200_ALE GEFORCE_6200_LE GEFORCE_6200_SE_TURBOCACHE GEFORCE_6200_TURBOCACHE GEFORCE_6250 GEFORCE_6500
NV44 GEFORCE_7100_GS QUADRO_NVS_285
NV44A GEFORCE_6200
NV44M GEFORCE_GO_6200 GEFORCE_GO_6400
NV45GL QUADRO_FX_3400_4400
NV48 GEFORCE_6800 GEFORCE_6800_GT GEFORCE_6800_LE GEFORCE_6800_XT
NV5 RIVA_TNT2 RIVA_TNT2_MODEL_64___MODEL_64_PRO RIVA_TNT2_ULTRA RIVA_TNT2___TNT2_PRO VANTA___VANTA_LT
ORIN PCIE_X1_ROOT_COMPLEX PCIE_X4_X8_ENDPOINT_ROOT_COMPLEX PCIE_X8_ROOT_COMPLEX
PARKER PCIE_X1_ROOT_COMPLEX PCIE_X4_ROOT_COMPLEX
TA1090SA THOR
TEGRA PCIE_ENDPOINT_VIRTUAL_NETWORK PCIE_X1_ROOT_COMPLEX PCIE_X4_X8_ENDPOINT_ROOT_COMPLEX PCIE_X8_ENDPOINT
TEGRA X1_PCIE_X1_ROOT_COMPLEX X1_PCIE_X4_ROOT_COMPLEX
TEGRA2 PCIE_X2_BRIDGE PCIE_X4_BRIDGE
TEGRA3 PCIE_X2_BRIDGE PCIE_X4_BRIDGE
TEGRAK1 PCIE_X1_BRIDGE PCIE_X4_BRIDGE
THOR PROCESSOR_PCI_EXPRESS_ROOT_PORT PROCESSOR_PCI_EXPRESS_X16_CONTROLLER
TU102 CMP_50HX GEFORCE_RTX_2080_TI GEFORCE_RTX_2080_TI_12GB GEFORCE_RTX_2080_TI_12GB_ENGINEERING_SAMPLE
TU102 GEFORCE_RTX_2080_TI_ENGINEERING_SAMPLE GEFORCE_RTX_2080_TI_REV__A HIGH_DEFINITION_AUDIO_CONTROLLER TITAN_RTX
TU102 USB_3_1_HOST_CONTROLLER USB_TYPEC_UCSI_CONTROLLER
TU102GL - QUADRO_RTX_6000 QUADRO_RTX_6000_8000 TESLA_T10 TESLA_T10_16GB___GRID_RTX_T102_T104_T108 TESLA_T40_24GB
TU104 GEFORCE_RTX_2060 GEFORCE_RTX_2070_SUPER GEFORCE_RTX_2080 GEFORCE_RTX_2080_REV__A GEFORCE_RTX_2080_SUPER
TU104 HD_AUDIO_CONTROLLER USB_3_1_HOST_CONTROLLER USB_TYPEC_UCSI_CONTROLLER
TU104BM GEFORCE_RTX_2070_SUPER_MOBILE___MAXQ GEFORCE_RTX_2080_MOBILE GEFORCE_RTX_2080_SUPER_MOBILE___MAXQ
TU104GL - PG189_SKU600 QUADRO_RTX_4000 QUADRO_RTX_5000 T4G TESLA_T4
TU104GLM QUADRO_RTX_4000_MOBILE___MAXQ QUADRO_RTX_5000_MOBILE_REFRESH QUADRO_RTX_5000_MOBILE___MAXQ
TU104M - GEFORCE_GTX_2080_ENGINEERING_SAMPLE GEFORCE_RTX_2070_SUPER_MOBILE___MAXQ GEFORCE_RTX_2080_MOBILE
TU104M GEFORCE_RTX_2080_SUPER_MOBILE___MAXQ
TU106 - CMP_40HX GEFORCE_GTX_1650 GEFORCE_GTX_1660_SUPER GEFORCE_RTX_2060_12GB GEFORCE_RTX_2060_REV__A
TU106 GEFORCE_RTX_2060_SUPER GEFORCE_RTX_2070 GEFORCE_RTX_2070_REV__A HIGH_DEFINITION_AUDIO_CONTROLLER
TU106 USB_3_1_HOST_CONTROLLER USB_TYPEC_UCSI_CONTROLLER
TU106BM GEFORCE_RTX_2060_MOBILE GEFORCE_RTX_2070_MOBILE GEFORCE_RTX_2070_MOBILE___MAXQ
TU106GLM QUADRO_RTX_3000_MOBILE_REFRESH QUADRO_RTX_3000_MOBILE___MAXQ
TU106M - GEFORCE_RTX_2060_MAXQ GEFORCE_RTX_2060_MOBILE GEFORCE_RTX_2070_MOBILE GEFORCE_RTX_2070_MOBILE___MAXQ_REFRESH
TU116 - CMP_30HX GEFORCE_GTX_1650 GEFORCE_GTX_1650_SUPER GEFORCE_GTX_1660 GEFORCE_GTX_1660_SUPER GEFORCE_GTX_1660_TI
TU116 HIGH_DEFINITION_AUDIO_CONTROLLER USB_3_1_HOST_CONTROLLER USB_TYPEC_UCSI_CONTROLLER
TU116BM GEFORCE_GTX_1660_TI_MOBILE
TU116GL -
TU116M GEFORCE_GTX_1650_TI_MOBILE GEFORCE_GTX_1660_TI_MOBILE
TU117 - GEFORCE_GTX_1630 GEFORCE_GTX_1650
TU117BM GEFORCE_GTX_1650_MOBILE_REFRESH
TU117GL - T1000_8GB T400_4GB___T400E T600
TU117GLM QUADRO_T1000_MOBILE QUADRO_T2000_MOBILE___MAXQ QUADRO_T400_MOBILE QUADRO_T500_MOBILE T1200_LAPTOP_GPU
TU117GLM T550_LAPTOP_GPU T600_LAPTOP_GPU T600_MOBILE
TU117M - GEFORCE_GTX_1650_MOBILE GEFORCE_GTX_1650_MOBILE___MAXQ GEFORCE_GTX_1650_TI_MOBILE GEFORCE_MX450 GEFORCE_MX550
XAVIER SATA_CONTROLLER
"""


# -------------------- vgpu_catalogue.py
"""NVIDIA's default vGPU device configurations: which types, and how many of each on a GPU.

Private to the collection gpuwl.sandbox. Source: the ConfigMap default-vgpu-devices-config of the NVIDIA GPU Operator
(assets/state-vgpu-device-manager/0500_configmap.yaml, v26.7.0), which is vgpu-device-manager's
examples/config-example.yaml.
"""

from functools import lru_cache
from typing import Dict, FrozenSet, List, Optional, Tuple

VgpuEntry = Tuple[Tuple[str, ...], Dict[str, int]]

# The default configuration: PCI device id, type and how many of it on each such GPU. Two ids appear twice.
_VGPU_DEFAULT = """
1DB1:V100X-8Q=2 1DB3:V100L-8Q=2 1DB4:V100-8Q=2 1DB5:V100DX-16Q=2 1DB6:V100D-16Q=2 1DF6:V100S-16Q=2 1E78:RTX8000P-24Q=2
1E78:RTX6000P-12Q=2 1EB8:T4-8Q=2 20B0:A100X-20C=2 20B2:A100DX-40C=2 20B5:A100D-40C=2 20B8:A100D-40C=2 20B7:A30-12C=2
20B9:A30-12C=2 20F1:A100-20C=2 20F3:A800DX-40C=2 20F5:A800D-40C=2 20FD:A800D-40C=2 20F6:A800-20C=2 2230:RTXA6000-24Q=2
2231:RTXA5000-12Q=2 2233:RTXA5500-12Q=2 2235:A40-24Q=2 2236:A10-12Q=2 2321:H100L-47C=2 2322:H800-40C=2
2324:H800XM-40C=2 2329:H20-48C=2 232C:H20X-70C=2 2330:H100XM-40C=2 2336:H100XM-40C=2 2331:H100-40C=2 2335:H200X-70C=2
2337:H100XS-32C=2 2339:H100XL-47C=2 233A:H800L-47C=2 233B:H200-70C=2 2342:GH200-96C=1 2348:GH200L-144C=1 25B6:A16-8Q=2
25B6:A2-8Q=2 26B1:RTX6000-Ada-24Q=2 26B2:RTX5000-Ada-16Q=2 26B3:RTX5880-Ada-24Q=2 26B5:L40-24Q=2 26B9:L40S-24Q=2
26BA:L20-24Q=2 27B6:L2-12Q=2 27B8:L4-12Q=2 2901:B200X-180C=1 2941:GB200-189C=1 2BB5:DC-48Q=2 2BB9:6000D-84Q=1
2C3A:DC-16Q=2 3182:B300X-269C=1
"""

# A configuration of each type's own name makes as many of it as a GPU takes: a line has what comes before the last
# hyphen, then for each type what comes behind it, and the number.
_VGPU_COUNTS = """
6000D-1 42C=2 42Q=2 42CGFX=2 42QGFX=2
6000D-2 84C=1 84Q=1 84CGFX=1 84QGFX=1
6000D 84C=1 84Q=1
A2 1Q=16 2Q=8 4C=4 4Q=4 8C=2 8Q=2 16C=1 16Q=1
A10 1Q=24 2Q=12 3Q=8 4C=6 4Q=6 6C=4 6Q=4 8C=3 8Q=3 12C=2 12Q=2 24C=1 24Q=1
A16 1Q=16 2Q=8 4C=4 4Q=4 8C=2 8Q=2 16C=1 16Q=1
A30-1 6C=4 6CME=1
A30-2 12C=2 12CME=1
A30 4C=6 6C=4 8C=3 12C=2 24C=1
A30-4 24C=1
A40 1Q=32 2Q=24 3Q=16 4C=12 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
A100D-1 10C=7 10CME=1 20C=4
A100D-2 20C=3
A100D-3 40C=2
A100D 4C=20 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
A100D-4 40C=1
A100D-7 80C=1
A100DX-1 10C=7 10CME=1 20C=4
A100DX-2 20C=3
A100DX-3 40C=2
A100DX 4C=20 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
A100DX-4 40C=1
A100DX-7 80C=1
A100X-1 5C=7 5CME=1 10C=4
A100X-2 10C=3
A100X-3 20C=2
A100X 4C=10 5C=8 8C=5 10C=4 20C=2 40C=1
A100X-4 20C=1
A100X-7 40C=1
A100-1 5C=7 5CME=1 10C=4
A100-2 10C=3
A100-3 20C=2
A100 4C=10 5C=8 8C=5 10C=4 20C=2 40C=1
A100-4 20C=1
A100-7 40C=1
A800D-1 10C=7 10CME=1 20C=4
A800D-2 20C=3
A800D-3 40C=2
A800D 4C=20 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
A800D-4 40C=1
A800D-7 80C=1
A800DX-1 10C=7 10CME=1 20C=4
A800DX-2 20C=3
A800DX-3 40C=2
A800DX 4C=20 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
A800DX-4 40C=1
A800DX-7 80C=1
A800-1 5C=7 5CME=1 10C=4
A800-2 10C=3
A800-3 20C=2
A800 4C=10 5C=8 8C=5 10C=4 20C=2 40C=1
A800-4 20C=1
A800-7 40C=1
B200X-1 23C=7 23CME=1 45C=4
B200X-2 45C=3
B200X-3 90C=2
B200X-4 90C=1
B200X-7 180C=1
B200X 180C=1
DC-1 2Q=48 3Q=32 4Q=24 6Q=16 8C=12 8Q=12 12C=8 12Q=8 24C=4 24Q=4 2QGFX=48 3QGFX=32 4QGFX=24 6QGFX=16 8CGFX=12 8QGFX=12
DC-1 12CGFX=8 12QGFX=8 16C=2 16Q=2 24CGFX=4 24QGFX=4
DC-2 12C=8 12Q=8 16C=6 16Q=6 24C=4 24Q=4 48C=2 48Q=2 8C=4 8Q=4 12CGFX=8 12QGFX=8 16CGFX=6 16QGFX=6 24CGFX=4 24QGFX=4
DC-2 32C=1 32Q=1 48CGFX=2 48QGFX=2
DC 3Q=32 4Q=24 6Q=16 8C=12 8Q=12 12C=8 12Q=8 16C=6 16Q=6 24C=4 24Q=4 32C=3 32Q=3 48C=2 48Q=2 96C=1 96Q=1
DC-4 24C=4 24Q=4 32C=3 32Q=3 48C=2 48Q=2 96C=1 96Q=1 24CGFX=4 24QGFX=4 32CGFX=3 32QGFX=3 48CGFX=2 48QGFX=2 96CGFX=1
DC-4 96QGFX=1
GB200-1 24C=7 24CME=1 47C=4
GB200-2 47C=3
GB200-3 95C=2
GB200-4 95C=1
GB200-7 189C=1
GB200 189C=1
GH200L-1 18C=7 18CME=1 36C=4
GH200L-2 36C=3
GH200L-3 72C=2
GH200L-4 72C=1
GH200L-7 144C=1
GH200L 144C=1
GH200-1 12C=7 12CME=1 24C=4
GH200-2 24C=3
GH200-3 48C=2
GH200-4 48C=1
GH200-7 96C=1
GH200 96C=1
H20X-1 18C=7 18CME=1 35C=4
H20X-2 35C=3
H20X-3 71C=2
H20X 4C=32 7C=20 8C=16 14C=10 17C=8 28C=5 35C=4 70C=2 141C=1
H20X-4 71C=1
H20X-7 141C=1
H20-1 12C=7 12CME=1 24C=4
H20-2 24C=3
H20-3 48C=2
H20 4C=24 6C=16 8C=12 12C=8 16C=6 24C=4 32C=3 48C=2 96C=1
H20-4 48C=1
H20-7 96C=1
H100L-1 12C=7 12CME=1 24C=4
H100L-2 24C=3
H100L-3 47C=2
H100L 4C=23 6C=15 11C=8 15C=6 23C=4 47C=2 94C=1
H100L-4 47C=1
H100L-7 94C=1
H100XL-1 12C=7 12CME=1 24C=4
H100XL-2 24C=3
H100XL-3 47C=2
H100XL 4C=23 6C=15 11C=8 15C=6 23C=4 47C=2 94C=1
H100XL-4 47C=1
H100XL-7 94C=1
H100XM-1 10C=7 10CME=1 20C=4
H100XM-2 20C=3
H100XM-3 40C=2
H100XM 4C=20 5C=16 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
H100XM-4 40C=1
H100XM-7 80C=1
H100XS-1 8C=7 8CME=1 16C=4
H100XS-2 16C=3
H100XS-3 32C=2
H100XS 4C=16 8C=8 16C=4 32C=2 64C=1
H100XS-4 32C=1
H100XS-7 64C=1
H100-1 10C=7 10CME=1 20C=4
H100-2 20C=3
H100-3 40C=2
H100 4C=20 5C=16 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
H100-4 40C=1
H100-7 80C=1
H200X-1 18C=7 18CME=1 35C=4
H200X-2 35C=3
H200X-3 71C=2
H200X 4C=32 7C=20 8C=16 14C=10 17C=8 28C=5 35C=4 70C=2 141C=1
H200X-4 71C=1
H200X-7 141C=1
H200-1 18C=7 18CME=1 35C=4
H200-2 35C=3
H200-3 71C=2
H200 4C=32 7C=20 8C=16 14C=10 17C=8 28C=5 35C=4 70C=2 141C=1
H200-4 71C=1
H200-7 141C=1
H800L-1 12C=7 12CME=1 24C=4
H800L-2 24C=3
H800L-3 47C=2
H800L 4C=23 6C=15 11C=8 15C=6 23C=4 47C=2 94C=1
H800L-4 47C=1
H800L-7 94C=1
H800XM-1 10C=7 10CME=1 20C=4
H800XM-2 20C=3
H800XM-3 40C=2
H800XM 4C=20 5C=16 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
H800XM-4 40C=1
H800XM-7 80C=1
H800-1 10C=7 10CME=1 20C=4
H800-2 20C=3
H800-3 40C=2
H800 4C=20 5C=16 8C=10 10C=8 16C=5 20C=4 40C=2 80C=1
H800-4 40C=1
H800-7 80C=1
L2 1Q=24 2Q=12 3Q=8 4C=6 4Q=6 6C=4 6Q=4 8C=3 8Q=3 12C=2 12Q=2 24C=1 24Q=1
L4 1Q=24 2Q=12 3Q=8 4C=6 4Q=6 6C=4 6Q=4 8C=3 8Q=3 12C=2 12Q=2 24C=1 24Q=1
L20 1Q=32 2Q=24 3Q=16 4C=12 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
L40S 1Q=32 2Q=24 3Q=16 4C=12 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
L40 1Q=32 2Q=24 3Q=16 4C=12 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
RTX5000-Ada 1Q=32 2Q=16 4C=8 4Q=8 8C=4 8Q=4 16C=2 16Q=2 32C=1 32Q=1
RTX5880-Ada 1Q=32 2Q=24 3Q=16 4C=12 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
RTX6000P 1Q=24 2Q=12 3Q=8 4C=6 4Q=6 6C=4 6Q=4 8C=3 8Q=3 12C=2 12Q=2 24C=1 24Q=1
RTX6000-Ada 1Q=32 2Q=24 3Q=16 4C=12 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
RTX8000P 1Q=32 2Q=24 3Q=16 4C=8 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
RTXA5000 1Q=24 2Q=12 3Q=8 4C=6 4Q=6 6C=4 6Q=4 8C=3 8Q=3 12C=2 12Q=2 24C=1 24Q=1
RTXA5500 1Q=24 2Q=12 3Q=8 4C=6 4Q=6 6C=4 6Q=4 8C=3 8Q=3 12C=2 12Q=2 24C=1 24Q=1
RTXA6000 1Q=32 2Q=24 3Q=16 4C=12 4Q=12 6C=8 6Q=8 8C=6 8Q=6 12C=4 12Q=4 16C=3 16Q=3 24C=2 24Q=2 48C=1 48Q=1
T4 1Q=16 2Q=8 4C=4 4Q=4 8C=2 8Q=2 16C=1 16Q=1
V100D 1Q=32 2Q=16 4C=8 4Q=8 8C=4 8Q=4 16C=2 16Q=2 32C=1 32Q=1
V100DX 1Q=32 2Q=16 4C=8 4Q=8 8C=4 8Q=4 16C=2 16Q=2 32C=1 32Q=1
V100L 1Q=16 2Q=8 4C=4 4Q=4 8C=2 8Q=2 16C=1 16Q=1
V100S 1Q=32 2Q=16 4C=8 4Q=8 8C=4 8Q=4 16C=2 16Q=2 32C=1 32Q=1
V100X 1Q=16 2Q=8 4C=4 4Q=4 8C=2 8Q=2 16C=1 16Q=1
V100 1Q=16 2Q=8 4C=4 4Q=4 8C=2 8Q=2 16C=1 16Q=1
B300X-1 34C=7 34CME=1 67C=4
B300X-2 67C=3
B300X-3 135C=2
B300X-4 135C=1
B300X-7 269C=1
B300X 269C=1
"""


def vgpu_config(name: str) -> Optional[List[VgpuEntry]]:
    """Return the entries of a configuration, None for a name that is none of NVIDIA's default ones.

    name: as in the label nvidia.com/vgpu.config: a type's short name such as A10-12Q, or "default".
    An entry is (device filters, {type: how many on each GPU}). A filter is device and vendor id in hexadecimal, such as
    0x223610DE; no filter is every GPU. All entries are for all GPUs of a node that the filters leave.
    """
    if name == "default":
        return [_vgpu_entry(word) for word in _VGPU_DEFAULT.split()]
    count = _vgpu_counts().get(name)
    return None if count is None else [((), {name: count})]


def vgpu_types() -> FrozenSet[str]:
    """Return the short names of all types."""
    return _vgpu_type_names()


def _vgpu_entry(word: str) -> VgpuEntry:
    device, _mark, made = word.partition(":")
    name, _mark, count = made.partition("=")
    return ("0x" + device + "10DE",), {name: int(count)}


@lru_cache(maxsize=None)
def _vgpu_counts() -> Dict[str, int]:
    counts = {}
    for line in _VGPU_COUNTS.strip().split("\n"):
        family, *words = line.split()
        for word in words:
            size, _mark, count = word.partition("=")
            counts[family + "-" + size] = int(count)
    return counts


@lru_cache(maxsize=None)
def _vgpu_type_names() -> FrozenSet[str]:
    return frozenset(_vgpu_counts())


# -------------------- mig_catalogue.py
"""The GPU Operator's default MIG configurations, and when two MIG profiles are the same.

Private to the collection gpuwl.sandbox. Source: the ConfigMap default-mig-parted-config of the NVIDIA GPU Operator
(assets/state-mig-manager/0400_configmap.yaml, v26.7.0). Since 26.3 the MIG manager makes the configurations from what
the driver says, and falls back to these.
"""

import re
from functools import lru_cache
from typing import Dict, FrozenSet, List, Optional, Tuple, Union

MigEntry = Tuple[Tuple[str, ...], Union[str, List[int]], bool, Dict[str, int]]

# all-<profile>, a "+" written as ".": as many of the profile on each GPU as it takes.
_MIG_PLAIN = """
1g.5gb=7 1g.5gb+me=1 2g.10gb=3 3g.20gb=2 4g.20gb=1 7g.40gb=1 1g.24gb+gfx=4 1g.24gb+me.all=1 1g.24gb-me=4 2g.48gb=2
2g.48gb+gfx=2 2g.48gb+me.all=1 2g.48gb-me=2 4g.96gb=1 4g.96gb+gfx=1 1g.10gb+me=1 1g.20gb=4 1g.23gb=7 1g.23gb+me=1
1g.24gb+me=1 2g.20gb=3 3g.40gb=2 4g.40gb=1 7g.80gb=1 1g.6gb=4 1g.6gb+me=1 2g.12gb=2 2g.12gb+me=1 4g.24gb=1 1g.12gb=7
1g.12gb+me=1 1g.24gb=4 1g.45gb=4 1g.47gb=4 2g.24gb=3 2g.45gb=3 2g.47gb=3 3g.47gb=2 4g.47gb=1 7g.94gb=1 3g.48gb=2
3g.90gb=2 3g.93gb=2 3g.95gb=2 4g.48gb=1 4g.90gb=1 4g.93gb=1 4g.95gb=1 7g.96gb=1 7g.180gb=1 7g.186gb=1 7g.189gb=1
1g.18gb=7 1g.18gb+me=1 2g.35gb=3 3g.71gb=2 4g.71gb=1 7g.141gb=1 1g.36gb=4 2g.36gb=3 3g.72gb=2 4g.72gb=1 7g.144gb=1
1g.34gb=7 1g.34gb+me=1 1g.67gb=4 2g.67gb=3 3g.135gb=2 4g.135gb=1 7g.269gb=1 1g.35gb+me=1 1g.70gb=4 2g.70gb=3
3g.139gb=2 4g.139gb=1 7g.278gb=1
"""

# A line for each entry of the configurations that differ by device: name, PCI device ids, profiles with their number.
_MIG_BY_DEVICE = """
all-1g.10gb 2330,2331,2322,20B2,20B5,20F3,20F5,2324 1g.10gb=7
all-1g.10gb 20B0,20B1,20F1,20F6 1g.10gb=4
all-balanced 2941 1g.23gb=2 2g.47gb=1 3g.93gb=1
all-balanced 2BB5 1g.24gb=2 2g.48gb=1
all-balanced 2901 1g.23gb=2 2g.45gb=1 3g.90gb=1
all-balanced 2348 1g.18gb=2 2g.36gb=1 3g.72gb=1
all-balanced 2335,233B 1g.18gb=2 2g.35gb=1 3g.71gb=1
all-balanced 2321,233A 1g.12gb=2 2g.24gb=1 3g.47gb=1
all-balanced 2330,2331,2322,20B2,20B5,20F3,20F5,2324 1g.10gb=2 2g.20gb=1 3g.40gb=1
all-balanced 20B0,20B1,20F1,20F6 1g.5gb=2 2g.10gb=1 3g.20gb=1
all-balanced 20B7 1g.6gb=2 2g.12gb=1
all-balanced 2342,233D,20B6,2329 1g.12gb=2 2g.24gb=1 3g.48gb=1
all-balanced 3182 1g.34gb=2 2g.67gb=1 3g.135gb=1
all-balanced 31C2 1g.35gb=2 2g.70gb=1 3g.139gb=1
all-1g.35gb 2335 1g.35gb=4
all-1g.35gb 31C2 1g.35gb=7
"""

# [compute slices c.]slices g[.memory gb], then attributes: .me, .me.all, .gfx, -me.
_MIG_PROFILE = re.compile(r"((?:[0-9]c\.)?[0-9]g)(?:\.([0-9]{1,4})gb)?([.+-][-+.a-z]+)?\Z")


def mig_config(name: str) -> Optional[List[MigEntry]]:
    """Return the entries of a configuration, None for a name that is none of the default ones.

    name: as in the label nvidia.com/mig.config, such as all-1g.10gb or all-balanced.
    An entry is (device filters, devices, is MIG on, {profile: how many on each GPU}). A filter is device and vendor id
    in hexadecimal, such as 0x233010DE; no filter is every GPU. devices is "all" or a list of indices. A profile is
    written as in resource names, with "." for "+". An entry with MIG on and no profiles leaves the GPUs undivided.
    """
    return _mig_configs().get(name)


@lru_cache(maxsize=None)
def mig_profiles() -> FrozenSet[str]:
    """Return the profiles of all configurations, written as in resource names."""
    return frozenset(profile for entries in _mig_configs().values() for entry in entries for profile in entry[3])


@lru_cache(maxsize=1024)
def same_mig_profile(one: str, other: str) -> bool:
    """Say whether two profiles are the same but for how a driver rounds the memory.

    7g.79gb and 7g.80gb are, so are 3g.93gb and 3g.95gb: up to 1 GB or 3 % apart. Slices and attributes must be equal.
    A short name without the memory, mig-2g, may be any of that many slices.
    """
    first, second = _MIG_PROFILE.match(one), _MIG_PROFILE.match(other)
    if first is None or second is None:
        return one == other
    if first.group(1) != second.group(1) or _attributes(first.group(3)) != _attributes(second.group(3)):
        return False
    if first.group(2) is None or second.group(2) is None:
        return True
    memory, more = sorted((int(first.group(2)), int(second.group(2))))
    return (more - memory) * 100 <= max(100, 3 * more)


def _attributes(text: Optional[str]) -> str:
    return (text or "").replace("+", ".")


@lru_cache(maxsize=None)
def _mig_configs() -> Dict[str, List[MigEntry]]:
    configs: Dict[str, List[MigEntry]] = {
        "all-disabled": [((), "all", False, {})],
        "all-enabled": [((), "all", True, {})],
    }
    for word in _MIG_PLAIN.split():
        made = _mig_numbers([word])
        configs["all-" + "".join(made)] = [((), "all", True, made)]
    for line in _MIG_BY_DEVICE.strip().split("\n"):
        name, devices, *words = line.split()
        filters = tuple("0x" + device + "10DE" for device in devices.split(","))
        configs.setdefault(name, []).append((filters, "all", True, _mig_numbers(words)))
    return configs


def _mig_numbers(words: List[str]) -> Dict[str, int]:
    counts = {}
    for word in words:
        profile, _mark, count = word.partition("=")
        counts[profile.replace("+", ".")] = int(count)
    return counts


# -------------------- resource_names.py
"""What does a resource name below nvidia.com/ stand for?

Private to the collection gpuwl.sandbox. Only what is known for certain gets a kind; administrators may give any name,
through KubeVirt's own plugin for one, so all else is UNKNOWN. Sources, the programs that give the names:

* container: k8s-device-plugin internal/rm/rm.go, api/config/v1/{resources,consts}.go
* passthrough, vGPU: kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go (getDeviceName, readVgpuIDFromFile);
  vGPU types: vgpu-device-manager pkg/types/vgpu_type.go
* Kata Containers: sandbox-device-plugin cmd/main.go (P_GPU_ALIAS, NVSWITCH_ALIAS), pkg/device_plugin/device_plugin.go
* the others: NVIDIA Network Operator's deployment guide; HAMi's documentation
"""

import re
from functools import lru_cache
from typing import FrozenSet


CONTAINER = "container"
SHARED = "shared"
MIG = "mig"
PASSTHROUGH = "passthrough"
VGPU = "vgpu"
KATA = "kata"
COMPANION = "companion"
NETWORK = "network"
SHARING_SCHEDULER = "sharing-scheduler"
UNKNOWN = "unknown"

GPU_DOMAIN = "nvidia.com/"

_PLAIN_NAMES = {
    "gpu": CONTAINER,
    "gpu.shared": SHARED,
    "pgpu": KATA,
    "nvswitch": KATA,
    "UNKNOWN_DEVICE": KATA,
    "gpumem": SHARING_SCHEDULER,
    "gpucores": SHARING_SCHEDULER,
    "gpumem-percentage": SHARING_SCHEDULER,
    "vgpu": SHARING_SCHEDULER,
    "priority": SHARING_SCHEDULER,
}

# Some dumps show a slice without its memory: mig-2g.
_MIG_NAME = re.compile(
    r"mig-((?:[0-9]c\.)?[0-9]g(?:\.[0-9]{1,4}gb(?:\.me\.all|\.me|\.gfx|-me|-gfx)*)?)(?:\.shared)?\Z",
)
_VGPU_NAME = re.compile(r"(?:GRID|NVIDIA)_[A-Za-z0-9_.-]+-(?:[0-9]-)?[0-9]+[ABCQ](?:[0-9]|ME|NOME|MEALL|GFX)?\Z")

# The KubeVirt plugin's name for a device that its list does not have: the PCI device id.
_DEVICE_ID = re.compile(r"[0-9a-f]{4}\Z")
# A card newer than the list here, by the codes of NVIDIA's chips since 2010: GA102GL_..., TU104_..., AD107M_..., GB20B_...
_NEW_DEVICE = re.compile(r"(?:G[A-Z]|TU|AD)[0-9]{2}[0-9A-Z][A-Z]{0,3}_[A-Z0-9_]+\Z")

# Functions of a graphics card beside the GPU, and the switch between GPUs.
_COMPANION_FUNCTION = re.compile(r"(?:\A|_)(?:AUDIO|BRIDGE|NVSWITCH|UCSI|USB)(?:_|\Z)")
# Functions of NVIDIA's chipsets and systems on a chip. These count for names of the list only.
_CHIPSET_FUNCTION = re.compile(
    r"(?:\A|_)(?:AHCI|ATA|COMPLEX|CONTROLL?ER|COPROCESSOR|ENDPOINT|ETHERNET|FIREWIRE|IDE|MANAGEMENT|MCI|MEMORY|MODEM"
    r"|NETWORK|PMU|PORT|RAID|SATA|SMBUS|SMU|SWITCH)(?:_|\Z)|NFORCE2_AGP\Z"
)

_NETWORK_WORD = re.compile(
    r"(?:sriov|mlnx|mlx)[a-z0-9]*\Z|(?:connectx|bluefield)-?[0-9]*\Z"
    r"|(?:rdma|hostdevs?|roce|ib|ipoib|infiniband|nics?|mlnxnics|mlnxics|switchdev)\Z"
)
_BETWEEN_WORDS = re.compile(r"[-_.]+")

_NEW_DEVICE_SLIPS = SlipFinder(device_names)


@lru_cache(maxsize=4096)
def classify(name: str, aliases: FrozenSet[str] = frozenset()) -> str:
    """Return the kind of a resource name, UNKNOWN for one that no known program gives.

    name: the whole name, such as nvidia.com/gpu.
    aliases: names, also whole, that the plugin for Kata Containers was told to use; they come before all else.
    """
    if name in aliases:
        return KATA
    part = name[len(GPU_DOMAIN) :]
    # The name part of a resource has at most 63 characters.
    if not name.startswith(GPU_DOMAIN) or len(part) > 63:
        return UNKNOWN
    if part in _PLAIN_NAMES:
        return _PLAIN_NAMES[part]
    if _MIG_NAME.match(part):
        return MIG
    if _VGPU_NAME.match(part) or part in vgpu_types():
        return VGPU
    return _class_of_device(part)


def mig_profile(name: str) -> str:
    """Return the MIG profile in a resource name, 1g.10gb of nvidia.com/mig-1g.10gb.shared; "" if it is none of MIG."""
    match = _MIG_NAME.match(_without_domain(name))
    return match.group(1) if match else ""


def vgpu_type(name: str) -> str:
    """Return the short name of the vGPU type in a resource name, A10-12Q of nvidia.com/NVIDIA_A10-12Q.

    It is the longest known type behind a "_": DC-1-24Q of NVIDIA_RTX_Pro_6000_Blackwell_DC-1-24Q; "" if there is none,
    be it that the name is none of a vGPU or that NVIDIA's default configurations do not have its type.
    """
    part = _without_domain(name)
    if part in vgpu_types():
        return part
    if not _VGPU_NAME.match(part):
        return ""
    pieces = part.split("_")[1:]
    for number in range(len(pieces)):
        rest = "_".join(pieces[number:])
        if rest in vgpu_types():
            return rest
    return ""


def is_model_of_kata(part: str) -> bool:
    """Say whether a name without nvidia.com/ is a model as the plugin for Kata Containers writes it, with its hyphens.

    That plugin writes models if its alias is set empty: GA100_A800-SXM4-80GB.
    """
    # The chip's code has no hyphen, so one there is no spelling of this plugin: G-72 is no G72.
    return "-" in part and "-" not in part.split("_", 1)[0] and part.replace("-", "") in device_names()


def _class_of_device(part: str) -> str:
    if part in device_names():
        return COMPANION if _COMPANION_FUNCTION.search(part) or _CHIPSET_FUNCTION.search(part) else PASSTHROUGH
    if _DEVICE_ID.match(part):
        return PASSTHROUGH
    if _NEW_DEVICE.match(part):
        if _COMPANION_FUNCTION.search(part):
            return COMPANION
        # Rather a known name with a slip of the pen than a card nobody knows.
        return UNKNOWN if _NEW_DEVICE_SLIPS.nearest(part) else PASSTHROUGH
    if is_model_of_kata(part):
        return COMPANION if _COMPANION_FUNCTION.search(part) else KATA
    if any(_NETWORK_WORD.match(word) for word in _BETWEEN_WORDS.split(part.lower())):
        return NETWORK
    return UNKNOWN


def _without_domain(name: str) -> str:
    return name[len(GPU_DOMAIN) :] if name.startswith(GPU_DOMAIN) else name


# -------------------- near_names.py
"""Which known resource name was probably meant by an unknown one?

Private to the collection gpuwl.sandbox. Names are compared with those of device_catalogue.py, vgpu_catalogue.py and
mig_catalogue.py and with the fixed names of NVIDIA's plugins. At most slips.MOST_SEARCHES different names
are searched for slips of the pen; spellings that differ by case or hyphens only are found however many there are.
"""

from functools import lru_cache
from typing import Dict, FrozenSet, List, Optional, Tuple


CASE_ONLY = "they differ in case only"
HYPHEN_FOR_UNDERSCORE = "a hyphen where the plugin writes an underscore"
UNDERSCORE_FOR_HYPHEN = "an underscore where the plugin writes a hyphen"
OTHER_PLUGIN = "the other plugin's spelling of the same card"
ONE_CHARACTER = "one character differs"

# A name of fewer characters is near to too many: it is compared with these two only.
_SHORTEST_NAME = 4
_SHORT_NAMES = ("gpu", "pgpu")
_FIXED_NAMES = frozenset(["gpu", "gpu.shared", "pgpu", "nvswitch"])
# The driver writes the card's name in full before types of this card: NVIDIA_RTX_Pro_6000_Blackwell_DC-1-24Q.
_LONG_PREFIX = "NVIDIA_RTX_Pro_6000_Blackwell_"


def near_miss(name: str, kata: bool = False) -> Optional[Tuple[str, str]]:
    """Return the known name that was probably meant and why, None if nothing is near or the name is itself known.

    name: a whole name, such as nvidia.com/GA102GL-A10; so is the one returned.
    kata: whether the plugin for Kata Containers is in use, which keeps the hyphens of a card's model. Without it such a
    model is near to the KubeVirt plugin's name of the card.
    The reason is one of the constants above. Case goes before hyphens and underscores, these before one character; of
    several names as near as each other the alphabetically first is returned.
    """
    spelled = other_spelling(name)
    if spelled is not None:
        return None if kata else (spelled, OTHER_PLUGIN)
    if not name.startswith(GPU_DOMAIN) or classify(name) != UNKNOWN:
        return None
    part = name[len(GPU_DOMAIN) :]
    if len(part) < _SHORTEST_NAME:
        near = _near_short(part)
    else:
        near = _near_spelling(part) or _near_model(part, kata) or _near_slip(part, _SLIPS)
    return (GPU_DOMAIN + near[0], near[1]) if near else None


def other_spelling(name: str) -> Optional[str]:
    """Return the KubeVirt plugin's name of a card that is named as the plugin for Kata Containers does.

    nvidia.com/GA100_A800SXM480GB for nvidia.com/GA100_A800-SXM4-80GB. None for a name without a model's hyphens: where
    that plugin has some cannot be told from the KubeVirt plugin's name.
    """
    if name.startswith(GPU_DOMAIN) and is_model_of_kata(name[len(GPU_DOMAIN) :]):
        return GPU_DOMAIN + name[len(GPU_DOMAIN) :].replace("-", "")
    return None


def _near_short(part: str) -> Optional[Tuple[str, str]]:
    lower = part.lower()
    return (lower, CASE_ONLY) if lower in _SHORT_NAMES else _near_slip(part, _SHORT_SLIPS)


def _near_spelling(part: str) -> Optional[Tuple[str, str]]:
    """Find a name that differs in case, hyphens and underscores only."""
    best: Optional[Tuple[int, str, str]] = None
    for known in _spellings().get(_spelling_key(part), ()):
        changed = [one for one, other in zip(part.upper(), known.upper()) if one != other]
        reason = CASE_ONLY
        if changed:
            reason = HYPHEN_FOR_UNDERSCORE if changed[0] == "-" else UNDERSCORE_FOR_HYPHEN
        if best is None or (len(changed), known) < best[:2]:
            best = (len(changed), known, reason)
    return best[1:] if best else None


def _near_model(part: str, kata: bool) -> Optional[Tuple[str, str]]:
    """Find a model as the plugin for Kata Containers writes it, but for case."""
    upper = part.upper()
    if not is_model_of_kata(upper):
        return None
    return (upper, CASE_ONLY) if kata else (upper.replace("-", ""), OTHER_PLUGIN)


def _near_slip(part: str, slips: SlipFinder) -> Optional[Tuple[str, str]]:
    known = slips.nearest(part)
    return (known, ONE_CHARACTER) if known else None


def _spelling_key(part: str) -> str:
    return part.upper().replace("-", "_")


@lru_cache(maxsize=None)
def _spellings() -> Dict[str, List[str]]:
    spellings: Dict[str, List[str]] = {}
    for known in device_names() | _other_names():
        spellings.setdefault(_spelling_key(known), []).append(known)
    return spellings


@lru_cache(maxsize=None)
def _other_names() -> FrozenSet[str]:
    """Return the known names that are none of a device."""
    types = vgpu_types()
    slices = ["mig-" + profile for profile in mig_profiles()]
    return _FIXED_NAMES.union(
        types,
        ["GRID_" + name for name in types],
        ["NVIDIA_" + name for name in types],
        [_LONG_PREFIX + name for name in types if name.startswith("DC-")],
        slices,
        [name + ".shared" for name in slices],
    )


def _slip_names() -> FrozenSet[str]:
    # Without the chips' bare codes: each is one character from others, and A100 would pass for GA100.
    return _other_names().union(name for name in device_names() if "_" in name)


_SLIPS = SlipFinder(_slip_names)
_SHORT_SLIPS = SlipFinder(lambda: _SHORT_NAMES)


# -------------------- objects.py
"""Kubernetes objects out of dumps: which of them are wanted and what form they must have.

Private to the collection gpuwl.sandbox. Source: the Kubernetes API conventions
("Types (Kinds)", "Lists and simple kinds") and what kubectl prints with -o json.
"""

from typing import Any, Callable, Dict, List

MAX_DOCUMENTS = 1000000  # of one file
MAX_UNSURE = 1000  # items of a list that are kept because neither they nor the list tell their kind so far
MAX_OBJECT_NAME = 10000  # characters that a name may have and still be shown; Kubernetes allows 253

# What the rules rely on. None stands for absent, as it does in Kubernetes.
_SHAPES = {
    "Node": (
        ("metadata.labels", "metadata", "labels", dict),
        ("spec", "spec", "", dict),
        ("spec.taints", "spec", "taints", list),
        ("status", "status", "", dict),
        ("status.capacity", "status", "capacity", dict),
        ("status.allocatable", "status", "allocatable", dict),
    ),
    "Pod": (
        ("metadata.labels", "metadata", "labels", dict),
        ("spec", "spec", "", dict),
        ("spec.containers", "spec", "containers", list),
        ("spec.initContainers", "spec", "initContainers", list),
        ("spec.nodeSelector", "spec", "nodeSelector", dict),
        ("spec.tolerations", "spec", "tolerations", list),
        ("spec.affinity", "spec", "affinity", dict),
        ("status", "status", "", dict),
    ),
}
# The API groups of the kinds that rules ask for; what is not named here is of the core API.
_GROUPS = {
    "ClusterPolicy": "nvidia.com",
    "GPUCluster": "nvidia.com",
    "NVIDIADriver": "nvidia.com",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "ResourceSlice": "resource.k8s.io",
}
_JSON_TYPES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class Unreadable(ValueError):
    """Input that is no dump of the wanted objects; the message says why, on its own."""


class Unwanted(Unreadable):
    """Objects that could be read, of which none is of the wanted kind."""


class NotObjects(Unreadable):
    """Input that does not look like Kubernetes objects at all.

    reason: why it is left out where it was found in a folder, in few words.
    suspicious: whether that is a fault where its name promises objects, such as text in a.json.
    """

    def __init__(self, message: str, reason: str = "no Kubernetes objects", suspicious: bool = True) -> None:
        super().__init__(message)
        self.reason = reason
        self.suspicious = suspicious


class Collector:
    """Collects what a function makes of the objects of one kind in one document.

    Objects are given one at a time and none is kept, so that a dump may be
    larger than memory. Complaints about single items wait until finish():
    until then a second "items" may still replace the first.
    """

    def __init__(self, kind: str, take: Callable[[Dict[str, Any]], Any]) -> None:
        self.kind = kind
        self._takers = {kind: take}
        self.start_items({})

    def start_items(self, top: Dict[str, Any]) -> None:
        """Begin a list's items; a later "items" replaces an earlier one, as in json.load.

        top: what is known of the outermost object so far.
        """
        # The API names the kind of a list first and leaves it out in the items, kubectl does the reverse.
        self._items_kind = _kind_of_items(top.get("kind"))
        self._taken: List[Any] = []
        self._counts: Dict[str, int] = {}
        self._count = 0
        self._problem = ""
        self._without_kind = ""

    def add(self, item: Any) -> None:
        """Take the next item of a list, or leave it where it is of another kind."""
        where = "items[%d]" % self._count
        self._count += 1
        if self._problem:
            return
        try:
            kind = self._wanted_kind(item, where)
            if kind:
                self._take(item, kind, where)
        except Unreadable as error:
            self._problem = str(error)

    def finish(self, top: Dict[str, Any], has_items: bool) -> List[Any]:
        """Return what was taken, in the order of the dump.

        top: the outermost object without its items; has_items: whether it had a list of them.
        Raises Unreadable if these are no objects to rely on, its child Unwanted if none of them was asked for.
        """
        kind = top.get("kind") or ("List" if has_items and self._count else _likely_kind(top))
        if not isinstance(kind, str) or not kind:
            raise NotObjects("it is no Kubernetes object: it has no kind", suspicious=False)
        inner = _kind_of_items(kind)
        group = "" if _is_of_group(top, "") else " of {}".format(_brief(str(top["apiVersion"])))
        other = f"it is of kind {_brief(kind)}{group}, expected a List, {self.kind}List or {self.kind}"
        if kind in self._takers and _is_of_group(top, kind):
            self._check_items((), f"it is of kind {kind}, yet it has items that are of kind {self.kind}")
            self._take(top, kind, "the object")
        elif (kind == "List" and _is_of_group(top, "")) or (inner in self._takers and _is_of_group(top, inner)):
            self._finish_list(kind, has_items, other)
        else:
            self._check_items((), other)
        is_wanted = self.kind in (kind, inner) and _is_of_group(top, self.kind)
        if not is_wanted and not (kind == "List" and _is_of_group(top, "")):
            raise Unwanted(other)
        if kind != self.kind and self._count and not self._counts.get(self.kind):
            raise Unwanted("none of its %d items is a %s" % (self._count, self.kind))
        return self._taken

    def _finish_list(self, kind: str, has_items: bool, other: str) -> None:
        if not has_items:
            raise Unreadable(f"it is of kind {kind} and has no array of items")
        if kind == "List" and self._without_kind:
            raise Unreadable(f"{self._without_kind} of the List has no kind")
        if self._without_kind and self._items_kind not in ("", _kind_of_items(kind)):
            raise Unreadable(f"{self._without_kind} has no kind, and the list has two")
        if self._problem:
            raise Unreadable(self._problem)
        if kind != "List":
            self._check_items((_kind_of_items(kind),), other)

    def _check_items(self, allowed: Any, other: str) -> None:
        """Do away with items that the outermost object, as it turns out, should not have.

        other: what to say where that cannot be done.
        """
        self._counts = {one: count for one, count in self._counts.items() if one in allowed}
        if not self._counts:
            self._taken = []

    def _take(self, item: Dict[str, Any], kind: str, where: str) -> None:
        check_shape(item, kind, where)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._taken.append(self._takers[kind](item))

    def _wanted_kind(self, item: Any, where: str) -> str:
        """Return the kind of an item if that kind is asked for, or ""."""
        if not isinstance(item, dict):
            raise Unreadable(f"{where} must be an object, not {json_type(item)}")
        kind = item.get("kind")
        if kind is None or kind == "":
            likely = _likely_kind(item)
            if not likely:
                # The API leaves the kind out in the items of a NodeList, never in a List.
                self._without_kind = self._without_kind or where
            kind = likely if likely and self._items_kind == self.kind else self._items_kind or likely
            if not kind:
                return self.kind
        for field, value in (("kind", kind), ("apiVersion", item.get("apiVersion") or "")):
            if not isinstance(value, str):
                raise Unreadable(f"{where}: {field} must be a string, not {json_type(value)}")
        return kind if kind in self._takers and _is_of_group(item, kind) else ""


class Intake(Collector):
    """Hands objects of several kinds on at once.

    Nothing can be taken back here, so that a document is refused in which later text takes back
    what was handed on.
    """

    def __init__(self, takers: Dict[str, Callable[[Dict[str, Any]], Any]], counts: Dict[str, int]) -> None:
        """takers: by kind; counts: where objects that were taken are counted, by kind."""
        first = next(iter(takers), "Node")
        super().__init__("Node" if "Node" in takers else first, takers.get(first, id))
        self._takers = takers
        self._totals = counts

    def start_items(self, top: Dict[str, Any]) -> None:
        """Begin a list's items, for the first time."""
        if getattr(self, "_counts", None):
            raise Unreadable("it has two arrays of items")
        super().start_items(top)
        self._unsure: List[Any] = []

    def add(self, item: Any) -> None:
        """Take the next item of a list, or keep it until the list has told of which kind its items are."""
        if self._items_kind or not isinstance(item, dict) or item.get("kind") or _likely_kind(item):
            super().add(item)
        elif len(self._unsure) < MAX_UNSURE:
            self._unsure.append((self._count, item))
            self._without_kind = self._without_kind or "items[%d]" % self._count
            self._count += 1
        else:
            raise Unreadable("more than %d of its items have no kind, and the list's own comes after them" % MAX_UNSURE)

    def _finish_list(self, kind: str, has_items: bool, other: str) -> None:
        super()._finish_list(kind, has_items, other)
        inner = _kind_of_items(kind)
        for at, item in self._unsure if inner in self._takers else ():
            if _is_of_group(item, inner):
                self._take(item, inner, "items[%d]" % at)

    def _check_items(self, allowed: Any, other: str) -> None:
        # What is told beside the nodes may be told by any list.
        if self.kind not in allowed and self._counts.get(self.kind):
            raise Unreadable(other)

    def _take(self, item: Dict[str, Any], kind: str, where: str) -> None:
        check_shape(item, kind, where)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._totals[kind] = self._totals.get(kind, 0) + 1
        self._takers[kind](item)


class Documents:
    """The documents of one file, one after the other.

    results: what was taken of all of them; count: how many were read; complaint: why none
    has what is wanted, "" where one has.
    """

    def __init__(self, make: Callable[[], Collector]) -> None:
        self.results: List[Any] = []
        self.count = 0
        self._make = make
        self._is_fine = False
        self._complaint = ""

    def begin(self) -> Collector:
        """Return a collector for the next document."""
        return self._make()

    def end(self, collector: Collector, top: Dict[str, Any], has_items: bool) -> None:
        """Finish a document; raises Unreadable."""
        try:
            self.results += collector.finish(top, has_items)
            self._is_fine = True
        except Unwanted as error:
            self._complaint = self._complaint or str(error)
        self.count += 1
        if self.count > MAX_DOCUMENTS:
            raise Unreadable("it has more than 1,000,000 documents")

    @property
    def complaint(self) -> str:
        return "" if self._is_fine else self._complaint


def collect(data: Any, kind: str, take: Callable[[Dict[str, Any]], Any]) -> List[Any]:
    """Collect from objects in memory: a list of them, a List, or one object.

    Returns what `take` makes of each object of that kind; raises Unreadable.
    """
    collector = Collector(kind, take)
    if isinstance(data, list):
        data = {"kind": kind + "List", "items": data}
    if not isinstance(data, dict):
        raise Unreadable(f"it is {json_type(data)}, expected a list of {kind}s, a List or one {kind}")
    items = data.get("items")
    if isinstance(items, list):
        for item in items:
            collector.add(item)
    return collector.finish(data, isinstance(items, list) or ("items" in data and items is None))


def check_shape(item: Dict[str, Any], kind: str, where: str) -> None:
    """Raise Unreadable unless the object has the form the rules rely on, a Node and a Pod also a name."""
    if kind not in _SHAPES:
        return
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise Unreadable(f"{where} is a {kind} without a name (metadata.name)")
    if len(name) > MAX_OBJECT_NAME:
        raise Unreadable("%s is a %s with a name of %d characters, of which 253 are allowed" % (where, kind, len(name)))
    for path, outer, inner, expected in _SHAPES[kind]:
        value = item.get(outer)
        if inner:
            value = (value or {}).get(inner)
        if value is not None and not isinstance(value, expected):
            raise Unreadable(f"{kind} {_brief(name)}: {path} must be {_JSON_TYPES[expected]}, not {json_type(value)}")
        for entry in value if expected is list and value else ():
            if not isinstance(entry, dict):
                raise Unreadable(f"{kind} {_brief(name)}: {path} must hold objects, not {json_type(entry)}")


def json_type(value: Any) -> str:
    """Return what a value is in JSON, for messages, such as "an array"."""
    return next((words for known, words in _JSON_TYPES.items() if isinstance(value, known)), type(value).__name__)


def _likely_kind(item: Dict[str, Any]) -> str:
    """Return the kind of an object whose kind somebody's jq has trimmed off, or ""."""
    status, spec = item.get("status"), item.get("spec")
    # A PersistentVolumeClaim has a capacity too.
    if isinstance(status, dict) and ("allocatable" in status or ("capacity" in status and "accessModes" not in status)):
        return "Node"
    return "Pod" if isinstance(spec, dict) and "containers" in spec else ""


def _kind_of_items(kind: Any) -> str:
    """Return "Node" for "NodeList", and "" for what is no list or a List of anything."""
    return kind[:-4] if isinstance(kind, str) and kind.endswith("List") else ""


def _is_of_group(item: Dict[str, Any], kind: str) -> bool:
    # Other API groups have kinds of the same name, such as longhorn.io's Node.
    version = item.get("apiVersion")
    if version in (None, ""):
        return True
    group = _GROUPS.get(kind)
    return isinstance(version, str) and version.startswith(group + "/") if group else version == "v1"


def _brief(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


# -------------------- archives.py
"""Looks into folders, and into gzip and tar as streams: nothing is put on disk, and no header can ask for memory.

Private to the collection gpuwl.sandbox. Sources of the forms: RFC 1952 (gzip), and POSIX
pax with GNU tar's long names. Not tarfile, which keeps every member and reads
a header of any length into memory.
"""

import os
import stat
import zlib
from typing import Callable, Dict, Iterator, Set, Tuple


MAX_MEMBERS = 100000  # of one archive
MAX_NAME = 4096  # characters, as Linux has it
_BLOCK = 512
_PIECE = 1 << 18
_MAX_HEADER = 1 << 20
_TRUNCATED = "its archive is truncated"
_CORRUPT = "its archive is corrupt"
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\3\4", "zip"),
    (b"(\xb5/\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)
_LEFT_OUT_TYPES = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"5": "a folder", b"6": "a FIFO"}


class Stream:
    """Bytes that come in pieces of any size."""

    def __init__(self, pull: Callable[[], bytes]) -> None:
        """pull: gives the next piece, empty only at the end."""
        self._pull = pull
        self._held = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """Take some bytes, at most that many, none only at the end."""
        if self._at == len(self._held):
            self._held, self._at = self._pull(), 0
        taken = self._held[self._at : self._at + size]
        self._at += len(taken)
        if self._at == len(self._held):
            self._held, self._at = b"", 0
        return taken

    def put_back(self, taken: bytes) -> None:
        """Put the bytes that were taken last, or the end of them, back."""
        if taken and self._at >= len(taken):
            self._at -= len(taken)
        elif taken:
            self._held, self._at = taken + self._held[self._at :], 0

    def peek(self, size: int) -> bytes:
        """Return that many bytes without taking them, fewer only at the end."""
        while len(self._held) - self._at < size:
            more = self._pull()
            if not more:
                break
            self._held, self._at = self._held[self._at :] + more, 0
        return self._held[self._at : self._at + size]

    def exactly(self, size: int) -> bytes:
        """Take that many bytes, fewer only at the end. Meant for few."""
        taken = self.peek(size)
        self._at += len(taken)
        return taken

    def skip(self, size: int) -> bool:
        """Pass over that many bytes; return whether there were so many."""
        while size > 0:
            passed = len(self.read(min(size, _PIECE)))
            if not passed:
                return False
            size -= passed
        return True


def packed_form(head: bytes) -> str:
    """Return "gzip", "tar", "zip" and the like for the first 512 bytes of such a file, "" for others."""
    if head[257:262] == b"ustar":
        return "tar"
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def unzipped(packed: Stream) -> Stream:
    """Return what is in a gzip file of one or more parts. Reading it raises Unreadable."""
    pieces = _unzipped_pieces(packed)
    return Stream(lambda: next(pieces, b""))


def _unzipped_pieces(packed: Stream) -> Iterator[bytes]:
    for _part in range(MAX_MEMBERS):
        inflate = zlib.decompressobj(31)
        waiting = b""
        while not inflate.eof:
            waiting = waiting or packed.read(1 << 14)
            if not waiting:
                raise Unreadable("its gzip data ends before its end: is it truncated?")
            try:
                piece = inflate.decompress(waiting, _PIECE)
            except zlib.error:
                raise Unreadable("its gzip data is corrupt") from None
            waiting = inflate.unconsumed_tail
            if piece:
                yield piece
        rest = inflate.unused_data.lstrip(b"\0")  # zeros are padding, as tapes have it
        while not rest and packed.peek(1) == b"\0":
            rest = packed.read(1 << 14).lstrip(b"\0")
        packed.put_back(rest)
        if not packed.peek(1):
            return
        if packed.peek(2) != b"\x1f\x8b":
            raise Unreadable("something follows its gzip data")
    raise Unreadable("its gzip data has more than 100,000 parts")


def members(packed: Stream) -> Iterator[Tuple[str, str, Stream]]:
    """Give (name, why it is not to be read or "", content) for each member of a tar file but folders.

    The content must be read, as far as it is wanted, before the next member is asked for.
    Raises Unreadable where the archive is damaged.
    """
    more: Dict[str, str] = {}
    for _member in range(MAX_MEMBERS):
        header = packed.exactly(_BLOCK)
        if len(header) < _BLOCK:
            raise Unreadable(_TRUNCATED)
        if not header.strip(b"\0"):
            packed.skip(1 << 62)  # a sum at the end of gzip tells whether it was whole
            return
        kind, name, size = _parsed(header)
        padded = size + -size % _BLOCK
        if kind in (b"L", b"K", b"x", b"g"):
            if size > _MAX_HEADER:
                raise Unreadable(_CORRUPT)
            data = packed.exactly(padded)
            if len(data) < padded:
                raise Unreadable(_TRUNCATED)
            more.update(_more_of(kind, data[:size]))
            continue
        name, size = more.get("path", name), _pax_size(more, size)
        padded = size + -size % _BLOCK
        reason = "sparse" if kind == b"S" or "sparse" in more else _why_not(kind, name)
        more = {}
        content = _Part(packed, size)
        if kind != b"5":
            yield name[:MAX_NAME], reason, Stream(content.pull)
        if not packed.skip(content.left + padded - size):
            raise Unreadable(_TRUNCATED)
    raise Unreadable("its archive has more than 100,000 members")


class _Part:
    """The next bytes of a stream, to a number of them."""

    def __init__(self, whole: Stream, size: int) -> None:
        self._whole = whole
        self.left = size

    def pull(self) -> bytes:
        piece = self._whole.read(min(self.left, _PIECE)) if self.left else b""
        if self.left and not piece:
            raise Unreadable(_TRUNCATED)
        self.left -= len(piece)
        return piece


def _parsed(header: bytes) -> Tuple[bytes, str, int]:
    """Return type, name and size from a header of tar."""
    if _number(header[148:156]) != sum(header[:148]) + 8 * 32 + sum(header[156:]):
        raise Unreadable(_CORRUPT)
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0]
    if header[257:263] == b"ustar\0" and prefix:
        name = prefix + b"/" + name
    size = _number(header[124:136])
    # Links, devices and folders have no content, whatever their size says.
    kind = header[156:157]
    return kind, name.decode("utf-8", "surrogateescape"), 0 if kind in _LEFT_OUT_TYPES else size


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # GNU tar's way for large ones
        value = int.from_bytes(field[1:], "big")
        if field[0] != 0x80:
            raise Unreadable(_CORRUPT)
        return value
    try:
        digits = field.split(b"\0")[0].strip(b" ")
        return int(digits, 8) if digits else 0
    except ValueError:
        raise Unreadable(_CORRUPT) from None


def _more_of(kind: bytes, data: bytes) -> Dict[str, str]:
    """Return what a header before a header says of the next member: its path and its size."""
    if kind == b"L":
        return {"path": data.split(b"\0")[0].decode("utf-8", "surrogateescape")}
    found: Dict[str, str] = {}
    at = 0
    while kind == b"x" and at < len(data):
        length = data[at : at + 8].split(b" ")[0]
        if not length.isdigit() or not 4 < int(length) <= len(data) - at:
            raise Unreadable(_CORRUPT)
        record = data[at + len(length) + 1 : at + int(length) - 1].decode("utf-8", "surrogateescape")
        key, _equals, value = record.partition("=")
        if key.startswith("GNU.sparse"):
            found["sparse"] = value
        if key in ("path", "size"):
            found[key] = value
        at += int(length)
    return found


def _pax_size(more: Dict[str, str], size: int) -> int:
    given = more.get("size", "")
    if not given:
        return size
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise Unreadable(_CORRUPT)
    return int(given)


def _why_not(kind: bytes, name: str) -> str:
    if len(name) > MAX_NAME:
        return "a name longer than that of any file"
    if kind in _LEFT_OUT_TYPES:
        return _LEFT_OUT_TYPES[kind]
    if kind not in (b"0", b"\0", b"7"):
        return "no regular file"
    if name.startswith(("/", "\\")) or name[1:2] == ":":
        return "an absolute name"
    return 'a name with ".."' if ".." in name.replace("\\", "/").split("/") else ""


def files_below(folder: str) -> Iterator[Tuple[str, str, str]]:
    """Give (path, real path, why it is not read or "") for what is in a folder at any depth, ascending by path.

    Hidden files and folders are left out. A link counts as what it leads to, within the folder and once.
    """
    root = os.path.realpath(folder)
    seen: Set[Tuple[int, int]] = set()
    waiting = [(folder, root)]
    while waiting:
        path, real = waiting.pop()
        try:
            found = os.stat(real)
            is_folder = stat.S_ISDIR(found.st_mode)
            why_not = _why_left_out(root, real, found, seen)
            names = os.listdir(real) if is_folder and not why_not else []
        except (OSError, ValueError) as error:
            problem = "cannot be read: %s" % (getattr(error, "strerror", None) or error)
            yield path, real, "a link to nothing" if os.path.islink(path) else problem
            continue
        if not is_folder or why_not:
            yield path, real, why_not
        inner = [(name, os.path.join(path, name)) for name in names if not name.startswith(".")]
        # What lies in a folder has its place by the whole path, as if folders ended with a slash.
        inner.sort(key=lambda pair: pair[1] + (os.sep if os.path.isdir(pair[1]) else ""), reverse=True)
        waiting += [(below, os.path.realpath(os.path.join(real, name))) for name, below in inner]


def _why_left_out(root: str, real: str, found: os.stat_result, seen: Set[Tuple[int, int]]) -> str:
    if os.path.commonpath([root, real]) != root:
        return "a link out of the folder"
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return "no regular file"
    identity = (found.st_dev, found.st_ino)
    if identity in seen:
        return "another name of what is read already"
    seen.add(identity)
    return ""


# -------------------- json_dump.py
"""Reads Kubernetes objects from JSON, one object at a time.

Private to the collection gpuwl.sandbox. Source of the form: RFC 8259 (JSON) and
what `kubectl get nodes -o json` prints. A file means what json.load makes of it,
but NaN and Infinity are refused, and several objects may follow one another; its
memory is that of the largest item, not that of the file.
"""

import codecs
import gc
import json
import re
import sys
from typing import Any, Dict, Tuple


CHUNK = 1 << 20  # bytes read at once
MAX_ITEM = 8 << 20  # characters of one value; etcd takes objects of 1.5 MiB
MAX_WIDE = 5 << 20  # the same of text with an emoji in it, which takes four bytes of memory for each character
MAX_VALUES = 200000  # in one value: "[{},{},...]" takes thirty times the memory of its text
MAX_PROPERTIES = 10000  # of an outermost object
MAX_LEVELS = 200  # of objects and arrays within each other

TOO_LARGE = "an item of it is larger than 8 MiB, no Kubernetes object is"
TOO_MANY = "an item of it has more than 200,000 values, no Kubernetes object has"
TOO_DEEP = "it is nested too deeply, more than 200 levels"

_NO_SPACE = re.compile(r"[^ \t\n\r]")


def read_json(text: "Text", documents: Documents) -> None:
    """Read JSON objects until the text ends; it begins with one.

    Raises Unreadable, or what else _Text raises.
    """
    while True:
        collector = documents.begin()
        top, has_items = read_object(text, collector)
        follows = text.peek()
        if follows not in ("", "{"):
            # Before the object itself is judged: half of a file is no dump.
            raise Unreadable('something follows the JSON object, at character %d: "%s"' % (text.place(), text.sample()))
        documents.end(collector, top, has_items)
        if not follows:
            return


def read_object(text: "Text", collector: Collector) -> Tuple[Dict[str, Any], bool]:
    """Read an outermost object, its items singly; return it without them, and whether it had an array of them."""
    top: Dict[str, Any] = {}
    has_items = False
    size = 0
    text.expect("{")
    more = text.peek() != "}"
    text.at += 0 if more else 1
    while more:
        if text.peek() != '"':
            raise text.broken("a property name in double quotes")
        begun = text.place()
        key = text.value(0)
        text.expect(":")
        is_array = text.peek() == "["
        if key == "items":
            collector.start_items(top)
            has_items = is_array
        if key == "items" and is_array:
            _read_items(text, collector)
        else:
            top[key] = text.value(MAX_LEVELS - 1)
            has_items = has_items or (key == "items" and top[key] is None)
            size += text.place() - begun
        if size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        if len(top) > MAX_PROPERTIES:
            raise Unreadable(TOO_MANY)
        more = text.expect(",}") == ","
    return top, has_items


def _read_items(text: "Text", collector: Collector) -> None:
    """Read an array, handing over each element as soon as it is complete."""
    text.expect("[")
    if text.peek() == "]":
        text.expect("]")
        return
    more = True
    while more:
        text.peek()
        collector.add(text.value(MAX_LEVELS - 2))
        more = text.expect(",]") == ","


class Text:
    """The text of a file, of which no more is held than the value being read needs."""

    def __init__(self, stream: Any, chunk: int = CHUNK) -> None:
        """stream: has read(size), which gives bytes, as many as it likes, and none only at the end."""
        head = stream.read(4)
        while 0 < len(head) < 4:
            piece = stream.read(4 - len(head))
            if not piece:
                break
            head += piece
        self._stream = stream
        self._chunk = chunk
        self._decode = codecs.getincrementaldecoder(json.detect_encoding(head))().decode
        # Old Pythons take the square of its length for a number, newer ones limit it themselves.
        parse_int = None if hasattr(sys, "get_int_max_str_digits") else _parse_int
        self._scan = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=parse_int).raw_decode
        self._held = self._decode(head)
        self._dropped = 0
        self._usual = 0  # characters of the last value
        self._ended = False
        self.at = 0
        self._fill(chunk)

    def head(self, size: int) -> str:
        """Return the text that follows, without taking it: that much, unless it ends before."""
        while len(self._held) - self.at < size and not self._ended:
            self._fill(self._chunk)
        return self._held[self.at : self.at + size]

    def read(self, size: int) -> str:
        """Take text: at most that much, none only at the end."""
        while self.at == len(self._held) and not self._ended:
            self._fill(self._chunk)
        taken = self._held[self.at : self.at + size]
        self.at += len(taken)
        return taken

    def peek(self) -> str:
        """Skip white space; return the next character without taking it, or "" at the end."""
        self._skip_space()
        while self.at == len(self._held) and not self._ended:
            self._fill(self._chunk)
            self._skip_space()
        return self._held[self.at : self.at + 1]

    def expect(self, characters: str) -> str:
        """Skip white space and take the next character, which must be one of these."""
        found = self.peek()
        if not found or found not in characters:
            raise self.broken(" or ".join(f'"{one}"' for one in characters))
        self.at += 1
        return found

    def value(self, levels: int) -> Any:
        """Take the JSON value that begins here and has at most so many levels.

        Where it is cut off by the end of what is held, read on and try again, each
        time with twice as much, so that one giant value costs its size and not its square.
        """
        more = self._chunk
        if len(self._held) - self.at < self._usual and not self._ended:
            # Likely cut off: a failed try takes longer, for its error counts the lines before.
            self._fill(more)
        while True:
            try:
                result, end = self._scan(self._held, self.at)
                # A number may go on behind what is held: 1|2, 1|.5, 1.|5, 1e|5, 1e-|5.
                if end + 3 <= len(self._held) or self._ended:
                    self._check(result, end, levels)
                    self._usual = end - self.at
                    self.at = end
                    return result
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos + 16 > len(self._held)
                if self._ended or not cut:
                    self.at = len(self._held) if error.msg.startswith("Unterminated string") else error.pos
                    raise self.broken(f"valid JSON ({error.msg})") from None
            except RecursionError:
                raise Unreadable(TOO_DEEP) from None
            self._grow(more)
            if more > CHUNK:
                self._count_values()
            more *= 2

    def broken(self, expected: str) -> Unreadable:
        """Make the error for text that is no JSON at this place."""
        self.peek()
        rest = self.sample()
        if self._ended and any(word.startswith(rest) for word in ("true", "false", "null", "-")):
            return Unreadable("it ends within the JSON, after %d characters: is it truncated?" % self.place())
        return Unreadable('it is no JSON at character %d: "%s", expected %s' % (self.place(), rest, expected))

    def place(self) -> int:
        """Return the number of characters before this place."""
        return self._dropped + self.at

    def sample(self) -> str:
        """Return some of the text that follows, for a message."""
        return self._held[self.at : self.at + 20]

    def _skip_space(self) -> None:
        found = _NO_SPACE.search(self._held, self.at)
        self.at = found.start() if found else len(self._held)

    def _check(self, value: Any, end: int, levels: int) -> None:
        """Refuse the value that goes from here to an end if it is too large or nested too deeply."""
        if end - self.at > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        # Each level takes two characters at least.
        if end - self.at > 2 * levels and _levels_above(value, levels):
            raise Unreadable(TOO_DEEP)

    def _grow(self, size: int) -> None:
        """Read on within a value, up to the limits of one."""
        is_wide = sys.getsizeof(self._held) > 3 * len(self._held)
        left = (MAX_WIDE if is_wide else MAX_ITEM) + CHUNK - (len(self._held) - self.at)
        if left <= CHUNK:
            raise Unreadable(TOO_LARGE)
        self._fill(min(size, left))

    def _count_values(self) -> None:
        """Refuse what would take much more memory as a value than as text. Seldom called: it takes its time."""
        if sum(self._held.count(one, self.at) for one in ",[{") > MAX_VALUES:
            raise Unreadable(TOO_MANY)

    def _fill(self, size: int) -> None:
        """Drop what has been read and read on, half that much at least."""
        held = self._held[self.at :]
        self._dropped += self.at
        self.at = 0
        if size > CHUNK:
            self._held = ""  # with one name only, a text grows where it is: there is no memory for two large ones
        count = 0
        # About as much will do: the rest may lie in another buffer.
        while count * 2 < size and not self._ended:
            raw = self._stream.read(min(size, CHUNK))
            self._ended = not raw
            held += self._decode(raw, final=self._ended)
            count += len(raw)
        self._held = held


def _levels_above(value: Any, levels: int) -> bool:
    """Whether objects and arrays are nested deeper than that."""
    layer = [value]
    for _level in range(levels):
        # All that is in all of these, keys too: one call, where a loop would take as long as the parsing did.
        layer = gc.get_referents(*layer)
        if not layer:
            return False
    return any(isinstance(inner, (dict, list)) for inner in layer)


def _parse_int(digits: str) -> int:
    if len(digits) > 4300:
        raise ValueError("a number has more than 4,300 digits")
    return int(digits)


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


# -------------------- describe_dump.py
"""Reads nodes from the text of `kubectl describe node`, also as it comes out of a mail or a terminal.

Private to the collection gpuwl.sandbox. Source of the form: describeNode in kubectl's
pkg/describe/describe.go. It shortens long annotations and leaves out much of the status.
"""

import re
from typing import Any, Dict, Iterator, List, Optional


_FIRST = re.compile(r"^([ \t>|]*)Name:[ \t]+(\S.*)$")
_LOOKS_LIKE_DESCRIBED = re.compile(
    r"^[ \t>|]*Name:[ \t]+\S.*\n(?:[ \t>|]*\r?\n)*[ \t>|]*(?:Namespace|Roles|Labels|Selector|Priority|API Version):",
    re.MULTILINE,
)
_SECTION = re.compile(r"^([A-Z][A-Za-z()-]*(?: [A-Za-z()-]+){0,4}):(?:[ \t]+(.*))?$")
_ENTRY = re.compile(r"^[ \t]*([^\s:]+):[ \t]+(\S+)$")
_ANNOTATION = re.compile(r"^[ \t]*([A-Za-z0-9][\w./-]*):(?:[ \t]+(.*))?$")
_CONDITION = re.compile(r"^[ \t]+([A-Z]\w*)[ \t]+(True|False|Unknown)\b")
# What other kinds have and nodes do not, in the order in which a kind is told by it.
_OTHER_KINDS = (
    ("Containers", "a Pod"),
    ("Desired Number of Nodes Scheduled", "a DaemonSet"),
    ("Replicas", "a Deployment"),
    ("Namespace", "an object of a namespace"),
    ("Selector", "a workload"),
)
_LAST = "System Info"  # every node has this section, behind all that is read
_KEPT = ("Labels", "Annotations", "Taints", "Conditions", "Capacity", "Allocatable")


def looks_described(head: str) -> bool:
    """Whether text, maybe after some other lines, begins like what `kubectl describe` prints."""
    return bool(_LOOKS_LIKE_DESCRIBED.search(head))


def read_described(text: Text, documents: Documents) -> None:
    """Read the nodes of a text that looks described. Raises Unreadable."""
    block: Optional[_Described] = None
    other = line_before = ""
    for line in _lines_of(text):
        first = _FIRST.match(line)
        if first and (not block or block.may_end(line_before, first.group(1))):
            other = _finish(block, documents) or other
            block = _Described(first.group(1), first.group(2))
        elif block:
            block.add(line)
        line_before = line
    other = _finish(block, documents) or other
    if not documents.count:
        raise NotObjects(
            f"it describes {other or 'something else'}, not a node", f"describes {other or 'no node'}", False
        )


def _finish(block: "Optional[_Described]", documents: Documents) -> str:
    """Hand over a node; return what else was described, or ""."""
    if not block:
        return ""
    other = block.other_kind()
    if not other:
        documents.end(documents.begin(), block.node(), False)
    return other


def _lines_of(text: Text) -> Iterator[str]:
    """Give the lines of a text without what ends them; memory is that of a line."""
    rest: List[str] = []
    size = 0
    while True:
        piece = text.read(1 << 16)
        lines = piece.split("\n")
        rest.append(lines[0])
        size += len(lines[0])
        if size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        if len(lines) > 1:
            yield "".join(rest).rstrip()
            for line in lines[1:-1]:
                yield line.rstrip()
            rest, size = [lines[-1]], len(lines[-1])
        if not piece:
            yield "".join(rest).rstrip()
            return


class _Described:
    """One described object: the lines of the sections that matter.

    prefix: what the mail program put before each line.
    """

    def __init__(self, prefix: str, name: str) -> None:
        self.prefix = prefix
        self._name = name.strip()
        self._single: Dict[str, str] = {}
        self._lines: Dict[str, List[str]] = {}
        self._section = "Name"
        self._size = 0

    def may_end(self, line_before: str, prefix: str) -> bool:
        """Whether a line "Name:" behind another one begins the next object.

        The message of a condition may have several lines too. Between objects kubectl leaves lines
        empty, which may have got lost.
        """
        is_whole = _LAST in self._single or not self.is_likely_node()
        return prefix == self.prefix and (is_whole or not line_before.strip(" \t>|"))

    def add(self, line: str) -> None:
        """Take the next line."""
        if _LAST in self._single:
            return  # what follows are the node's pods and events, whose messages may say anything
        if line.startswith(self.prefix):
            line = line[len(self.prefix) :]
        line = line.expandtabs(8)
        found = _SECTION.match(line)
        if found:
            self._section = found.group(1)
            if self._section in self._single and self._section in _KEPT:
                raise Unreadable(f'node "{self._name[:20]}" has two sections {self._section}')
            self._single.setdefault(self._section, found.group(2) or "")
            line = " " * found.start(2) + (found.group(2) or "")
        self._size += len(self._section) + 100 if found else 0
        if self._section in _KEPT and line.strip():
            self._lines.setdefault(self._section, []).append(line)
            self._size += len(line) + 100
        if self._size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)

    def is_likely_node(self) -> bool:
        return "Roles" in self._single and "Namespace" not in self._single

    def other_kind(self) -> str:
        """Return what this is if it is no node, such as "a Pod"; else ""."""
        if self.is_likely_node():
            return ""
        kind = self._single.get("Kind", "")
        if kind:
            return f"an object of kind {kind[:20]}"
        found = next((words for section, words in _OTHER_KINDS if section in self._single), "")
        if found or "Allocatable" in self._single:
            return found
        # One line may be all that is left of a node.
        return "something else" if self._single else ""

    def node(self) -> Dict[str, Any]:
        """Return the Node, as far as its text tells; raises Unreadable."""
        if _LAST not in self._single:
            raise Unreadable(f'the description of node "{self._name[:20]}" ends before its end: is it truncated?')
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._name, "labels": self._labels(), "annotations": self._annotations()},
            "spec": {
                "taints": [_taint(line) for line in self._values("Taints")],
                "unschedulable": self._single.get("Unschedulable", "").strip() == "true",
            },
            "status": {
                "capacity": self._quantities("Capacity"),
                "allocatable": self._quantities("Allocatable"),
                "conditions": self._conditions(),
            },
        }

    def _values(self, section: str) -> List[str]:
        lines = [line.strip() for line in self._lines.get(section, [])]
        return [] if lines == ["<none>"] else lines

    def _labels(self) -> Dict[str, str]:
        pairs = [line.partition("=") for line in self._values("Labels")]
        for key, equals, _value in pairs:
            if not equals:
                raise Unreadable(f'node "{self._name[:20]}" has "{key[:20]}" among its labels, expected key=value')
        return {key: value for key, _equals, value in pairs}

    def _annotations(self) -> Dict[str, str]:
        """Read "key: value", the value maybe in the lines below and further right, maybe cut off with "..."."""
        found: Dict[str, str] = {}
        if not self._values("Annotations"):
            return found
        lines = self._lines["Annotations"]
        left = _indentation(lines[0])
        key = ""
        for line in lines:
            match = _ANNOTATION.match(line) if _indentation(line) <= left else None
            if match:
                key = match.group(1)
                found[key] = match.group(2) or ""
            elif key:
                found[key] = (found[key] + "\n" + line.strip()).lstrip("\n")
        return found

    def _quantities(self, section: str) -> Dict[str, str]:
        found = {}
        for line in self._values(section):
            entry = _ENTRY.match(line)
            if not entry:
                raise Unreadable(f'node "{self._name[:20]}" has "{line[:20]}" in {section}, expected name: quantity')
            found[entry.group(1)] = entry.group(2)
        return found

    def _conditions(self) -> List[Dict[str, str]]:
        matches = [_CONDITION.match(line) for line in self._lines.get("Conditions", [])]
        return [{"type": match.group(1), "status": match.group(2)} for match in matches if match]


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _taint(text: str) -> Dict[str, str]:
    """Read "key=value:Effect" or "key:Effect"."""
    pair, _colon, effect = text.rpartition(":")
    key, equals, value = pair.partition("=")
    taint = {"key": key, "effect": effect}
    if equals:
        taint["value"] = value
    return taint


# -------------------- yaml_dump.py
"""Reads Kubernetes objects from YAML, one object at a time.

Private to the collection gpuwl.sandbox. Source of the form: what `kubectl get nodes -o yaml`
prints, and YAML 1.1 as PyYAML's SafeLoader reads it, less what is not plain data. It is
built from the parser's events, so that neither a long List nor an alias bomb takes memory.
"""

import importlib
import math
import re
import sys
from typing import Any, Dict, Iterator, List, Tuple


MAX_REPEATED = 100000  # values that the aliases of one document may stand for

_TAG = "tag:yaml.org,2002:"
_LOOKS_LIKE = re.compile(
    r"""^[ \t]*(?:- )?["']?(?:apiVersion|kind|items|metadata)["']?[ \t]*:(?:[ \t\r]|$)""", re.MULTILINE
)
_BEGINS_LIKE = re.compile(
    r"""\A(?:[ \t]*(?:[#%].*|---[ \t]*(?:#.*)?|\.\.\.[ \t]*)?\r?\n)*(?:---[ \t]+)?[ \t]*["']?[A-Za-z][\w./-]*["']?[ \t]*:(?:[ \t\r\n]|\Z)"""
)
_VALUE_COST = 40  # characters that a value counts for besides its text, about what it takes in memory


def looks_like_yaml(head: str) -> bool:
    """Whether text begins like a Kubernetes object in YAML."""
    return begins_like_yaml(head) and bool(_LOOKS_LIKE.search(head))


def begins_like_yaml(head: str) -> bool:
    """Whether text begins with the key of a mapping in YAML."""
    return bool(_BEGINS_LIKE.match(head))


def read_yaml(text: Text, documents: Documents) -> None:
    """Read YAML documents until the text ends. Raises Unreadable."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise Unreadable(
            "it is YAML, and this Python has no PyYAML: `pip install pyyaml`, or ask kubectl for JSON (`-o json`)"
        ) from None
    feed = _Feed(text)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        reader = _YamlReader(yaml, yaml.parse(feed, Loader=loader), feed)
        reader.read(documents)
    except yaml.YAMLError as error:
        raise Unreadable(_yaml_problem(error, feed.end)) from None


def _yaml_problem(error: Any, end: int) -> str:
    """Put PyYAML's error, which has several lines, into one."""
    mark = getattr(error, "problem_mark", None)
    line = " at line %d" % (mark.line + 1) if mark else ""
    if "nesting depth" in str(error):  # libyaml has a limit too, and looks ahead
        return TOO_DEEP
    problem = " ".join(str(getattr(error, "problem", "") or getattr(error, "reason", "") or "").split())[:80]
    if mark and 0 <= end <= mark.index + 1:
        return f"it ends within the YAML{line}: is it truncated?"
    return f"it is no usable YAML{line}: {problem or 'it cannot be parsed'}"


class _Feed:
    """Gives text to the parser and stops it within a value that has no end.

    since: the bytes given since the parser's last event; end: those of the whole text, -1 until it ended.
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self._given = 0
        self.since = 0
        self.end = -1

    def read(self, size: int = 0) -> str:
        """Return some text, "" only at the end; the parser asks for so many characters and takes any."""
        if self.since > MAX_ITEM:
            raise Unreadable(TOO_LARGE)
        piece = self._text.read(1 << 14)
        self.since += sys.getsizeof(piece)  # the parser holds bytes, more than one for a character beyond ASCII
        self._given += len(piece)
        if not piece:
            self.end = self._given
        return piece


class _YamlReader:
    """Builds values from the events of a parser, within limits."""

    def __init__(self, yaml: Any, events: Iterator[Any], feed: _Feed) -> None:
        self._yaml = yaml
        self._events = events
        self._feed = feed
        self._numbers = yaml.constructor.SafeConstructor()
        self._resolvers = _plain_resolvers(yaml)
        self._forget()

    def _forget(self) -> None:
        """Begin a document: it knows no anchor of the one before."""
        # Name of an anchor -> value, number of values, levels; None while it is being built.
        self._anchors: Dict[str, Any] = {}
        self._anchored = 0  # what anchors keep in memory
        self._repeated = 0  # values that aliases stand for
        self._size = 0  # of the item, in characters
        self._values = 0  # of the document, with those that aliases stand for
        self._deepest = 0

    def read(self, documents: Documents) -> None:
        """Read all documents."""
        yaml = self._yaml
        for event in self._events:
            self._feed.since = 0
            if isinstance(event, yaml.DocumentStartEvent):
                self._forget()
            elif isinstance(event, yaml.MappingStartEvent):
                self._check_tag(event, "map")
                self._register(event, None, 0, 0)
                collector = documents.begin()
                top, has_items = self._object(collector)
                if "items" in top and not top.get("kind"):
                    raise Unreadable("it has items and no kind, which kubectl writes after them: is it truncated?")
                self._next_is(yaml.DocumentEndEvent)
                documents.end(collector, top, has_items)
            elif isinstance(event, yaml.ScalarEvent) and event.value == "" and event.implicit[0]:
                continue  # "---" with nothing after it
            elif isinstance(event, yaml.NodeEvent):
                raise NotObjects("its YAML is no object, expected what `kubectl get nodes -o yaml` prints")
        if not documents.count:
            raise NotObjects("it has no YAML document", "empty", suspicious=False)

    def _object(self, collector: Collector) -> Tuple[Dict[str, Any], bool]:
        """Read an outermost mapping, its items singly: in what is returned, () stands for them."""
        top: Dict[str, Any] = {}
        has_items = False
        size = 0
        while True:
            key, value = self._key()
            if key is None:
                return top, has_items
            is_list = isinstance(value, self._yaml.SequenceStartEvent)
            if key == "items":
                collector.start_items(top)
                has_items = is_list
            self._size = size
            if key == "items" and is_list:
                self._items(value, collector)
                top[key] = ()
            else:
                top[key] = self._value(value, 2)
                has_items = has_items or (key == "items" and top[key] is None)
                size = self._size + len(key) + _VALUE_COST

    def _items(self, start: Any, collector: Collector) -> None:
        self._check_tag(start, "seq")
        if start.anchor:
            raise Unreadable("its items have an anchor, in no dump of kubectl they have")
        for event in self._events:
            if isinstance(event, self._yaml.SequenceEndEvent):
                return
            self._size = 0
            collector.add(self._value(event, 3))

    def _key(self) -> Tuple[Any, Any]:
        """Return the next key of a mapping, None at its end, and the event with which its value begins."""
        event = next(self._events)
        self._feed.since = 0
        if isinstance(event, self._yaml.ScalarEvent):
            key: str = event.value
            if event.tag not in (None, _TAG + "str"):
                self._check_tag(event, "str")
            if key == "<<" and event.implicit[0]:
                raise Unreadable("it uses YAML's merge key <<, which is not read")
            self._count(len(key))
            self._register(event, key, 1, 0)
            return key, next(self._events)
        if isinstance(event, self._yaml.MappingEndEvent):
            return None, None
        raise Unreadable("it has a key that is no string")

    def _value(self, event: Any, level: int) -> Any:
        """Build the value that begins with an event, at a level of nesting."""
        self._feed.since = 0
        yaml = self._yaml
        if isinstance(event, yaml.ScalarEvent):
            self._count(len(event.value))
            value: Any = self._scalar(event)
            self._register(event, value, 1, 0, len(event.value))
            return value
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, level)
        if level > MAX_LEVELS:
            raise Unreadable(TOO_DEEP)
        values, size, deepest = self._values, self._size, self._deepest
        self._register(event, None, 0, 0)
        self._count(0)
        self._deepest = level
        if isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, "map")
            value = self._mapping(level)
        else:
            self._check_tag(event, "seq")
            value = self._sequence(level)
        self._register(event, value, self._values - values, self._deepest - level + 1, self._size - size)
        self._deepest = max(deepest, self._deepest)
        return value

    def _mapping(self, level: int) -> Dict[str, Any]:
        built: Dict[str, Any] = {}
        key, value = self._key()
        while key is not None:
            built[key] = self._value(value, level + 1)
            key, value = self._key()
        return built

    def _sequence(self, level: int) -> List[Any]:
        built = []
        for event in self._events:
            if isinstance(event, self._yaml.SequenceEndEvent):
                break
            built.append(self._value(event, level + 1))
        return built

    def _alias(self, name: str, level: int) -> Any:
        """Return what an alias stands for, which is counted as if it stood here."""
        if self._anchors.get(name) is None:
            raise Unreadable("its YAML has an alias of nothing, or of what it is in itself")
        value, values, levels = self._anchors[name]
        if levels and level + levels - 1 > MAX_LEVELS:
            raise Unreadable(TOO_DEEP)
        self._deepest = max(self._deepest, level + levels - 1)
        self._values += values
        self._repeated += values
        self._size += _VALUE_COST
        if self._repeated > MAX_REPEATED:
            raise Unreadable("its YAML aliases stand for more than 100,000 values")
        return value

    def _register(self, event: Any, value: Any, values: int, levels: int, size: int = 0) -> None:
        """Remember a value for aliases, if it has an anchor; no values say that it is being built."""
        if event.anchor:
            self._anchored += size + _VALUE_COST
            if self._anchored > MAX_ITEM:
                raise Unreadable("its YAML anchors hold more than 8 MiB")
            self._anchors[event.anchor] = (value, values, levels) if values else None

    def _count(self, length: int) -> None:
        self._values += 1
        self._size += length + _VALUE_COST
        if self._size > MAX_ITEM:
            raise Unreadable(TOO_LARGE)

    def _check_tag(self, event: Any, expected: str) -> None:
        if event.tag not in (None, _TAG + expected):
            raise Unreadable(f'it has the YAML tag "{event.tag[:20]}", which is no plain data')

    def _next_is(self, kind: Any) -> None:
        if not isinstance(next(self._events), kind):
            raise Unreadable("something follows the YAML object")

    def _scalar(self, event: Any) -> Any:
        """Return the string, number, boolean or None that a scalar stands for."""
        text: str = event.value
        tag = event.tag
        if tag is None:
            if not event.implicit[0] or len(text) > 1000:  # quoted, or longer than any number
                return text
            resolvers = self._resolvers.get(text[:1], ())
            tag = next((known for known, pattern in resolvers if pattern.match(text)), _TAG + "str")
        if tag == _TAG + "str":
            return text
        if tag == _TAG + "null":
            return None
        kind = tag[len(_TAG) :] if tag.startswith(_TAG) else ""
        if kind not in ("bool", "int", "float"):
            self._check_tag(event, "str")
            return text
        try:
            if len(text) > 1000:
                raise ValueError
            value = getattr(self._numbers, "construct_yaml_" + kind)(self._yaml.ScalarNode(tag, text))
        except (ValueError, LookupError, OverflowError):
            raise Unreadable(f'it has "{text[:20]}" for a YAML {kind}') from None
        if isinstance(value, float) and not math.isfinite(value) and text[-1:].isalpha():
            raise Unreadable(f"{text[:20]} is no JSON number")
        return value


def _plain_resolvers(yaml: Any) -> Dict[str, List[Tuple[str, Any]]]:
    """Return PyYAML's patterns of unquoted nulls, booleans and numbers, by first character."""
    wanted = [_TAG + kind for kind in ("null", "bool", "int", "float")]
    table = yaml.resolver.Resolver.yaml_implicit_resolvers
    return {first: [(tag, pattern) for tag, pattern in known if tag in wanted] for first, known in table.items()}


# -------------------- inputs.py
"""Reads Kubernetes objects out of files, folders, archives and standard input, whatever their form.

Private to the collection gpuwl.sandbox. Sources of the forms: what kubectl prints as
JSON, YAML and descriptions, and what the GPU Operator's must-gather.sh puts into its folder.
"""

import contextlib
import os
import re
import stat
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple


MAX_SIZE = 4 << 30
MAX_LEFT_OUT = 1000  # sources that only say that something was left out
MAX_DEPTH = 32  # folders below one another that a place tells apart
MAX_SOURCES = 1000  # sources with nothing to say that are kept
MAX_BROKEN = 1000  # sources in folders and archives that cannot be read, before reading ends

_HEAD = 1 << 16  # characters by which the form is told
_PROMISING = re.compile(r"\.(?:json|ya?ml)(?:\.(?:gz|bz2|xz|zip|zst))?$", re.IGNORECASE)
_LOOKS_LIKE_JSON = re.compile(r'\s*\{\s*"(?:apiVersion|kind|items|metadata|spec|status)"\s*:')
_READ = "read are JSON, YAML, the text of `kubectl describe node`, and these in gzip or tar"


class Source:
    """One file, or one member of an archive, that was looked at.

    path: as people know it: "dumps/a.json", "mg.tar.gz:must-gather/nodes.descr", "-" for standard input
    place: the path that was given, then the folders and the name below it
    given: it was named itself, not found in a folder or archive
    form: "json", "yaml", "describe" or "" where that is unknown
    counts: how many objects of each wanted kind were taken
    complaint: why it holds no object of the first wanted kind, though it could be read; "" if it has one
    error: why it could not be read, without the path; "" if it could
    left_out: why it was not read though it was found; "" if it was read
    """

    __slots__ = ("complaint", "counts", "error", "form", "given", "left_out", "path", "place")

    def __init__(self, path: str, place: Tuple[str, ...], given: bool = False) -> None:
        self.path = path
        # Every part is looked at for every object: the folders of a hostile archive may be very many.
        self.place = place if len(place) <= MAX_DEPTH else (*place[: MAX_DEPTH - 1], "/".join(place[MAX_DEPTH - 1 :]))
        self.given = given
        self.form = ""
        self.counts: Dict[str, int] = {}
        self.complaint = ""
        self.error = ""
        self.left_out = ""


Progress = Optional[Callable[[Source, int, int], None]]
Maker = Callable[[Source], Collector]


def read_inputs(
    paths: Sequence[str],
    takers: Dict[str, Callable[[Dict[str, Any], Source], None]],
    max_size: int = MAX_SIZE,
    progress: Progress = None,
) -> List[Source]:
    """Read all there is at some paths, and hand each object of the wanted kinds on as soon as it is read.

    paths: files, folders, archives, "-" for standard input. takers: by kind; "Node", if it is
    there, is what complaints are about. max_size: bytes, unpacked, of all paths together.
    progress: called with the source, the bytes read of its file and the file's size, 0 if unknown.
    Returns what was looked at, in the order of reading. Raises nothing for bad input.
    """

    bound: Dict[str, Callable[[Dict[str, Any]], None]] = {}
    bound_to: Optional[Source] = None

    def make(source: Source) -> Collector:
        nonlocal bound, bound_to
        if source is not bound_to:  # once for all documents of a file, of which there may be very many
            bound, bound_to = {kind: _bound(take, source) for kind, take in takers.items()}, source
        return Intake(bound, source.counts)

    return read_paths(paths, make, max_size, progress)[0]


def read_paths(paths: Sequence[str], make: Maker, max_size: int, progress: Progress) -> Tuple[List[Source], List[Any]]:
    """Do the same with collectors of one's own; return the sources and what the collectors gave."""
    reading = _Reading(make, max_size, progress)
    for path in paths:
        reading.path(path)
    return reading.sources + reading.last, reading.results


def _bound(take: Callable[[Dict[str, Any], Source], None], source: Source) -> Callable[[Dict[str, Any]], None]:
    return lambda item: take(item, source)


class _TooMuch(Unreadable):
    """More than may be read in all."""


class _Reading:
    """Reads paths, one after the other, within common limits.

    sources: what was looked at; last: one that stands for all that is left out beyond a number.
    """

    def __init__(self, make: Maker, max_size: int, progress: Progress) -> None:
        self.sources: List[Source] = []
        self.last: List[Source] = []
        self.results: List[Any] = []
        self._make = make
        self._max_size = max_size
        self._progress = progress
        self._unpacked = 0
        self._left_out = 0
        self._broken = 0
        self._has_stopped = False
        self._now: Optional[Source] = None

    def path(self, path: Any) -> None:
        """Read what is at a path that was given."""
        source = Source(path if isinstance(path, str) else repr(path)[:80], (str(path),), given=True)
        self._has_stopped = False
        if not isinstance(path, str) or not path:
            source.error = "expected the path of a file or folder"
            self._keep(source)
        elif path != "-" and os.path.isdir(path):
            for found, name, why_not in files_below(path):
                if self._has_stopped:
                    return
                inner = Source(found, (path, *found[len(path) :].strip(os.sep).split(os.sep)))
                if why_not.startswith("cannot be"):
                    inner.error = why_not
                else:
                    inner.left_out = why_not
                self._file(inner, name)
        else:
            self._file(source, path)

    def _file(self, source: Source, path: str) -> None:
        """Read a file, of which the name may differ from what the source is called."""
        if source.error or source.left_out:
            self._keep(source)
            return
        try:
            opened = _opened(path, source.given)
        except (OSError, ValueError) as error:
            is_known = isinstance(error, (OSError, Unreadable))
            source.error = _why_unreadable(error) if is_known else f"cannot be read: its name has an {error}"
            if isinstance(error, UnicodeError):
                source.error = "cannot be read: its name is no text"
            self._keep(source)
            return
        with opened as file:
            self._stream(source, self._raw(file), in_archive=False)

    def _raw(self, file: Any) -> Stream:
        """Return the bytes of a file, which are counted for who waits for it."""
        try:
            found = os.fstat(file.fileno())
            size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        except OSError:  # it has no number
            size = 0
        count = 0

        def pull() -> bytes:
            nonlocal count
            piece: bytes = file.read(CHUNK)
            count += len(piece)
            if count > self._max_size:
                raise self._too_much()
            if self._progress and piece and self._now:
                self._progress(self._now, count, size)
            return piece

        return Stream(pull)

    def _counted(self, packed: Stream) -> Stream:
        """Return the same bytes, which count for the limit."""

        def pull() -> bytes:
            piece = packed.read(CHUNK)
            self._unpacked += len(piece)
            if self._unpacked > self._max_size:
                raise self._too_much()
            return piece

        return Stream(pull)

    def _too_much(self) -> _TooMuch:
        self._has_stopped = True
        return _TooMuch("with it more than %d bytes would be read, the limit of --max-size" % self._max_size)

    def _stream(self, source: Source, raw: Stream, in_archive: bool) -> None:
        """Read what a source holds, which is kept with the outcome."""
        self._now = source
        is_named = source.given or bool(_PROMISING.search(source.path))
        documents = Documents(lambda: self._make(source))
        try:
            content = self._unpacked_stream(source, raw, in_archive)
            if content is None:
                return
            self._text(source, content, documents, is_named)
        except NotObjects as error:
            if source.given or documents.count or (is_named and error.suspicious):
                source.error = str(error)
            else:
                source.left_out = error.reason
        except _Doubtful as error:
            source.left_out = str(error)
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            source.error = _why_unreadable(error)
        if source.left_out:
            source.form = ""
        self.results += documents.results
        source.complaint = "" if source.error or source.left_out else documents.complaint
        self._keep(source)

    def _unpacked_stream(self, source: Source, raw: Stream, in_archive: bool) -> Optional[Stream]:
        """Return what is to be read as text, or None where it was an archive and is done."""
        form = packed_form(raw.peek(512))
        content = raw if in_archive and form != "gzip" else self._counted(unzipped(raw) if form == "gzip" else raw)
        try:
            inner = packed_form(content.peek(512)) if form in ("", "gzip", "tar") else form
        except Unreadable as error:
            if source.given or _PROMISING.search(source.path) or isinstance(error, _TooMuch):
                raise
            raise _Doubtful(str(error)) from None
        if inner == "tar" and not in_archive:
            self._archive(source, content)
            return None
        if inner:
            reason = "an archive inside an archive" if in_archive or form == "gzip" else f"a {inner} file"
            raise NotObjects(f"it is {reason}; {_READ}", reason, suspicious=form != "tar")
        return content

    def _archive(self, archive: Source, content: Stream) -> None:
        """Read the members of an archive, each for itself."""
        count = 0
        try:
            for name, why_not, inside in members(content):
                count += 1
                parts = [part for part in name.split("/") if part not in ("", ".")]
                if why_not == "" and any(part.startswith(".") for part in parts):
                    continue
                source = Source(f"{archive.path}:{name}", (*archive.place, *parts))
                source.left_out = why_not
                if why_not:
                    self._keep(source)
                else:
                    self._stream(source, inside, in_archive=True)
                if self._has_stopped:
                    return
            if not count:
                archive.error = "it is an archive without files"
        except (OSError, ValueError) as error:
            archive.error = _why_unreadable(error)
        if archive.error:
            self._keep(archive)

    def _text(self, source: Source, content: Stream, documents: Documents, is_named: bool) -> None:
        """Read a text by its form. Raises Unreadable, and what else reading raises."""
        begin = content.peek(512).decode("utf-8", "replace")
        try:
            text = Text(content)
            head = text.head(_HEAD)
        except UnicodeDecodeError as error:
            if _looks_like_objects(begin):
                raise
            raise NotObjects(_why_unreadable(error), "no text") from None
        source.form = _form(head)
        if source.form == "json":
            # Logs may begin with a brace too.
            if not is_named and not _looks_like_objects(head):
                raise NotObjects("")
            text.peek()
            read_json(text, documents)
        elif source.form == "yaml":
            read_yaml(text, documents)
        elif source.form == "describe":
            read_described(text, documents)
        elif not text.peek():
            raise NotObjects("it is empty: " + self._hint(source), "empty", suspicious=False)
        else:
            # A file of settings may be YAML too; what is no YAML at all was meant to be something else.
            is_settings = begins_like_yaml(head)
            raise NotObjects(f'it starts with "{text.sample()}": {self._hint(source)}', suspicious=not is_settings)

    def _hint(self, source: Source) -> str:
        kind = self._make(source).kind.lower()
        described = "" if kind != "node" else " or `kubectl describe nodes`"
        return f"expected JSON as `kubectl get {kind}s -o json` prints it, YAML{described}"

    def _keep(self, source: Source) -> None:
        """Keep a source; of those that were only left out, not more than anybody reads."""
        if source.left_out and not source.error:
            self._left_out += 1
            if self._left_out > MAX_LEFT_OUT:
                summary = Source(source.place[0], source.place[:1])
                summary.left_out = "%d more were left out" % (self._left_out - MAX_LEFT_OUT)
                self.last = [summary]
                return
        if source.error and not source.given:
            self._broken += 1
            if self._broken > MAX_BROKEN:
                source.error = "with it more than 1,000 files cannot be read, and no more are"
                self._has_stopped = True
        # Which other objects an archive of very many files has was told to who takes them.
        if len(self.sources) < MAX_SOURCES or source.given or source.error or source.counts.get("Node"):
            self.sources.append(source)


class _Doubtful(Unreadable):
    """What is broken and need not be a dump at all."""


def _form(head: str) -> str:
    """Return "json", "yaml" or "describe" for the beginning of a text, "" for others."""
    if head.lstrip(" \t\r\n")[:1] in ("{", ""):
        return "json" if head.strip(" \t\r\n") else ""
    if looks_like_yaml(head):
        return "yaml"
    return "describe" if looks_described(head) else ""


def _looks_like_objects(head: str) -> bool:
    """Whether text that nobody promised to be a dump begins like one."""
    form = _form(head)
    return bool(_LOOKS_LIKE_JSON.match(head)) if form == "json" else bool(form)


def _opened(path: str, is_given: bool) -> Any:
    """Open a file for reading; one that was only found must be a regular file, also by now."""
    if path == "-":
        buffer = getattr(sys.stdin, "buffer", None)
        if buffer is None:
            raise Unreadable("there is no standard input")
        return contextlib.nullcontext(buffer)  # it stays open
    if is_given:
        return open(path, "rb")
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("it is no regular file")
    return os.fdopen(descriptor, "rb")


def _why_unreadable(error: BaseException) -> str:
    """Put into words why a source could not be read."""
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, OSError):
        return "cannot be read: %s" % (error.strerror or error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is no text in {error.encoding.upper()}; {_READ}"
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, MemoryError):
        return "an item of it is larger than the memory"
    return f"it is no usable JSON: {error}"


# -------------------- workload.py
"""What the GPU Operator takes a node for, and the labels by which it chooses the node's software.

Private to the collection gpuwl.sandbox. Source: NVIDIA/gpu-operator
controllers/state_manager.go (getWorkloadConfig, gpuStateLabels) and
controllers/nodelabeling_controller.go at v25.10.1, v26.3.3 and v26.7.0, and what
these versions were seen to do on a real API server.
"""

import re
from functools import lru_cache
from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Tuple

CONTAINER_WORKLOAD, PASSTHROUGH_WORKLOAD, VGPU_WORKLOAD = WORKLOADS = ("container", "vm-passthrough", "vm-vgpu")
MODES = ("kubevirt", "kata")

GPU_PRESENT = "nvidia.com/gpu.present"
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
OPERANDS_SWITCH = DEPLOY_PREFIX + "operands"
# Node Feature Discovery's labels from which the operator derives gpu.present; only the literal "true" counts.
PCI_LABELS = tuple(
    f"feature.node.kubernetes.io/{one}.present" for one in ("pci-10de", "pci-0302_10de", "pci-0300_10de")
)

# The versions that were looked at; another is taken for the nearest of them that is not newer.
KNOWN_VERSIONS = ((25, 10), (26, 3), (26, 7))
NEWEST_VERSION = KNOWN_VERSIONS[-1]

_CONTAINER_OPERANDS = frozenset(
    [
        "driver",
        "container-toolkit",
        "device-plugin",
        "gpu-feature-discovery",
        "dcgm",
        "dcgm-exporter",
        "node-status-exporter",
        "operator-validator",
    ]
)
_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(\.[0-9]{1,6})?([-+.].{0,60})?\Z")


class Workload(NamedTuple):
    """What the operator takes a node for."""

    value: str  # one of WORKLOADS
    # "label", "sandbox-disabled", "label-missing" or "label-invalid"
    reason: str
    # Whether that follows from label and ClusterPolicy alone. In 26.7.0 two controllers race for the default.
    certain: bool


def parse_version(text: Any) -> Optional[Tuple[int, int]]:
    """Return (26, 7) of "26.7.0", "v26.7.0" or "26.7", None of what is no version."""
    found = _VERSION.match(text) if isinstance(text, str) else None
    return (int(found.group(1)), int(found.group(2))) if found else None


def version_text(given: Any) -> str:
    """Return a version given as text, or as the number that YAML makes of one without quotes.

    Raises ValueError for a number that may have been another version: YAML reads 26.10 as 26.1.
    """
    text = str(given)
    if isinstance(given, float) and text.endswith(".1"):
        raise ValueError(
            f"the operator version {text} may have been {text}0 before YAML read it as a number: give it in quotes"
        )
    return text


def nearest_version(version: Tuple[int, int]) -> Tuple[int, int]:
    """Return the newest known version that is not newer than this, or the oldest known one."""
    return max((known for known in KNOWN_VERSIONS if known <= version), default=KNOWN_VERSIONS[0])


def has_gpu(labels: Dict[str, Any]) -> bool:
    """Say whether the operator takes a node for one with an NVIDIA GPU: by its own label or those it is derived from."""
    return labels.get(GPU_PRESENT) == "true" or any(labels.get(key) == "true" for key in PCI_LABELS)


def operands_disabled(labels: Dict[str, Any]) -> bool:
    """Say whether a node is taken out as a whole; only the literal "false" counts."""
    return labels.get(OPERANDS_SWITCH) == "false"


def effective_workload(label: Any, sandbox: bool, default: str, version: Tuple[int, int]) -> Workload:
    """Return what the operator takes a node with a GPU for.

    label: the value of nvidia.com/gpu.workload.config, None if there is none.
    sandbox: spec.sandboxWorkloads.enabled; default: spec.sandboxWorkloads.defaultWorkload, one of WORKLOADS.
    version: one of KNOWN_VERSIONS.
    """
    if not sandbox:
        return Workload(CONTAINER_WORKLOAD, "sandbox-disabled", True)
    if label in WORKLOADS:
        return Workload(label, "label", True)
    certain = version < (26, 7) or default == CONTAINER_WORKLOAD
    return Workload(default, "label-missing" if label is None else "label-invalid", certain)


def operands_of(workload: str, mode: str, version: Tuple[int, int]) -> FrozenSet[str]:
    """Return the operands whose deploy label the operator sets for a workload, without mig-manager.

    mig-manager depends on whether the GPU can do MIG, see mig_manager_wanted.
    mode: one of MODES; version: one of KNOWN_VERSIONS.
    """
    if workload == CONTAINER_WORKLOAD:
        operands = set(_CONTAINER_OPERANDS)
    elif workload == PASSTHROUGH_WORKLOAD:
        plugin = "kata-sandbox-device-plugin" if mode == "kata" and version >= (26, 3) else "sandbox-device-plugin"
        operands = {plugin, "sandbox-validator", "vfio-manager", "kata-manager", "cc-manager"}
    else:
        operands = {"sandbox-device-plugin", "sandbox-validator", "vgpu-manager", "vgpu-device-manager", "cc-manager"}
    if version >= (26, 7):
        operands.add("client")
    return frozenset(operands)


def device_plugin_of(workload: str, mode: str) -> str:
    """Return the operand that advertises the GPUs of a node."""
    if workload == CONTAINER_WORKLOAD:
        return "device-plugin"
    if workload == PASSTHROUGH_WORKLOAD and mode == "kata":
        return "kata-sandbox-device-plugin"
    return "sandbox-device-plugin"


def can_do_mig(labels: Dict[str, Any]) -> bool:
    """Say whether the operator takes a node's GPUs for ones that can be divided (hasMIGCapableGPU)."""
    if labels.get("nvidia.com/vgpu.host-driver-version"):
        return False
    if "nvidia.com/mig.capable" in labels:
        return bool(labels["nvidia.com/mig.capable"] == "true")
    product = str(labels.get("nvidia.com/gpu.product") or "").lower()
    return any(model in product for model in ("h100", "a100", "a30"))


@lru_cache(maxsize=None)
def known_operands() -> FrozenSet[str]:
    """Return every operand that some version knows a deploy label of."""
    operands = {"mig-manager"}
    for workload in WORKLOADS:
        for mode in MODES:
            operands |= operands_of(workload, mode, NEWEST_VERSION)
    return frozenset(operands)


# -------------------- cluster_policy.py
"""What the rules read in a ClusterPolicy, and what an absent field means.

Private to the collection gpuwl.sandbox. Source: NVIDIA/gpu-operator
api/nvidia/v1/clusterpolicy_types.go (types and enums; what nil means: IsEnabled of each section).
"""

import json
from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Tuple


# Section -> what an absent `enabled` means.
SECTIONS = {
    "driver": True,
    "toolkit": True,
    "devicePlugin": True,
    "gfd": True,
    "dcgm": True,
    "dcgmExporter": True,
    "nodeStatusExporter": False,
    "migManager": True,
    "sandboxDevicePlugin": False,
    "kataSandboxDevicePlugin": False,
    "vfioManager": False,
    "vgpuManager": False,
    "vgpuDeviceManager": False,
    "kataManager": False,
    "ccManager": False,
}
# (key, operator, value, effect) of what the operands tolerate; a list in the ClusterPolicy replaces it.
Tolerations = Tuple[Tuple[str, str, str, str], ...]
DEFAULT_TOLERATIONS: Tolerations = (("nvidia.com/gpu", "Exists", "", "NoSchedule"),)
_MIG_STRATEGIES = ("none", "single", "mixed")


class PolicyError(ValueError):
    """A ClusterPolicy that the API server would not take; the message names the field, its value and what was expected."""


class Policy(NamedTuple):
    """A ClusterPolicy's spec, as far as the rules read it."""

    name: str
    sandbox: bool
    default: str
    mode: str
    mig_strategy: Optional[str]
    enabled: Tuple[Tuple[str, bool], ...]
    # Whether NVIDIADriver objects say which drivers run, and not the section driver.
    driver_objects: bool
    precompiled: Optional[bool]  # driver.usePrecompiled, None where it does not stand there
    driver_version: str
    kata_config: bool  # whether kataManager has a section config, without which operators before 26.7 crash
    mig_default: str  # the mig.config that a capable node gets which has none, "" for none
    # Names of ConfigMaps that may define configurations anew; "" where the operator's own hold.
    mig_config_map: str
    vgpu_config_map: str
    vgpu_default: str
    # Resource names that the kata plugin was told to use; whether it was told to use the cards' model names.
    kata_aliases: FrozenSet[str]
    kata_models: bool
    tolerations: Tolerations
    tolerations_are_set: bool  # whether the ClusterPolicy has a list of its own, and not the operator's default

    def is_enabled(self, section: str) -> bool:
        """Say whether a section such as devicePlugin is enabled."""
        return dict(self.enabled)[section]


def read_policy(given: Any) -> Policy:
    """Return what the rules read in a ClusterPolicy, or in its spec alone.

    Raises PolicyError.
    """
    if not isinstance(given, dict):
        raise PolicyError(f"the ClusterPolicy is {_words(given)}, expected an object or its spec")
    if given.get("kind", "ClusterPolicy") != "ClusterPolicy":
        raise PolicyError(f"it is of kind {_words(given['kind'])}, expected one ClusterPolicy or its spec")
    whole = "spec" in given or "kind" in given
    spec = _section(given, "spec", "") if whole else given
    metadata = _section(given, "metadata", "") if whole else {}
    sandbox = _section(spec, "sandboxWorkloads")
    driver = _section(spec, "driver")
    mig_config = _section(_section(spec, "migManager"), "config", "migManager.")
    vgpu_config = _section(_section(spec, "vgpuDeviceManager"), "config", "vgpuDeviceManager.")
    mig_map = _text(mig_config, "name", "migManager.config.name") or ""
    aliases, models = _kata_names(spec)
    return Policy(
        name=_text(metadata, "name", "metadata.name") or "cluster-policy",
        sandbox=_switch(sandbox, "sandboxWorkloads", False),
        default=_choice(sandbox, "sandboxWorkloads.defaultWorkload", WORKLOADS) or CONTAINER_WORKLOAD,
        mode=_choice(sandbox, "sandboxWorkloads.mode", MODES) or MODES[0],
        mig_strategy=_choice(_section(spec, "mig"), "mig.strategy", _MIG_STRATEGIES),
        enabled=tuple((name, _switch(_section(spec, name), name, absent)) for name, absent in SECTIONS.items()),
        driver_objects=bool(_truth(driver, "useNvidiaDriverCRD", "driver.useNvidiaDriverCRD")),
        precompiled=_truth(driver, "usePrecompiled", "driver.usePrecompiled"),
        driver_version=str(driver.get("version") or ""),
        kata_config=_section(spec, "kataManager").get("config") is not None,
        mig_default=_mig_default(_section(spec, "migManager")),
        mig_config_map="" if mig_map == "default-mig-parted-config" else mig_map,
        vgpu_config_map=_text(vgpu_config, "name", "vgpuDeviceManager.config.name") or "",
        vgpu_default=_text(vgpu_config, "default", "vgpuDeviceManager.config.default") or "default",
        kata_aliases=aliases,
        kata_models=models,
        tolerations=read_tolerations(_section(spec, "daemonsets").get("tolerations")) or DEFAULT_TOLERATIONS,
        tolerations_are_set=bool(_section(spec, "daemonsets").get("tolerations")),
    )


def is_tolerated(taint: Tuple[str, str, str], tolerations: Tolerations) -> bool:
    """Say whether one of some tolerations covers a taint (key, value, effect)."""
    key, value, effect = taint
    return any(
        other_key in (key, "")
        and other_effect in (effect, "")
        and (operator == "Exists" or (other_key == key and other_value == value))
        for other_key, operator, other_value, other_effect in tolerations
    )


def read_tolerations(listed: Any) -> Tolerations:
    """Return the tolerations of a list as the API has it; () for none."""
    found = []
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            key, operator, value, effect = (
                str(one.get(field) or "") for field in ("key", "operator", "value", "effect")
            )
            found.append((key, operator or "Equal", value, effect))
    return tuple(found)


def _kata_names(spec: Dict[str, Any]) -> Tuple[FrozenSet[str], bool]:
    """Read the aliases of NVIDIA/sandbox-device-plugin (cmd/main.go): an empty one stands for model names."""
    aliases, models = set(), False
    variables = _section(spec, "kataSandboxDevicePlugin").get("env")
    for variable in variables if isinstance(variables, list) else ():
        if isinstance(variable, dict) and variable.get("name") in ("P_GPU_ALIAS", "NVSWITCH_ALIAS"):
            value = variable.get("value")
            if value and isinstance(value, str):
                aliases.add("nvidia.com/" + value)
            elif variable["name"] == "P_GPU_ALIAS":
                models = True
    return frozenset(aliases), models


def _section(outer: Dict[str, Any], name: str, path: str = "") -> Dict[str, Any]:
    value = outer.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PolicyError(f"the ClusterPolicy's {path}{name} is {_words(value)}, expected an object")
    return value


def _switch(section: Dict[str, Any], name: str, absent: bool) -> bool:
    value = _truth(section, "enabled", f"{name}.enabled")
    return absent if value is None else value


def _truth(section: Dict[str, Any], key: str, path: str) -> Optional[bool]:
    value = section.get(key)
    if value is not None and not isinstance(value, bool):
        raise PolicyError(f"the ClusterPolicy's {path} is {_words(value)}, expected true or false")
    return value


def _mig_default(section: Dict[str, Any]) -> str:
    """Return migManager.config.default; the CRD fills it in where there is a config at all."""
    if section.get("config") is None:
        return ""
    default = _text(_section(section, "config", "migManager."), "default", "migManager.config.default")
    return "all-disabled" if default is None else default


def _choice(section: Dict[str, Any], path: str, choices: Tuple[str, ...]) -> Optional[str]:
    value = section.get(path.rpartition(".")[2])
    if value is None or value == "":
        return None
    if value not in choices:
        raise PolicyError(f"the ClusterPolicy's {path} is {_words(value)}, expected one of {', '.join(choices)}")
    return str(value)


def _text(section: Dict[str, Any], key: str, path: str) -> Optional[str]:
    value = section.get(key)
    if value is not None and not isinstance(value, str):
        raise PolicyError(f"the ClusterPolicy's {path} is {_words(value)}, expected a string")
    return value


def _words(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."


# -------------------- cluster.py
"""What dumps say about the cluster that a node stands in: ClusterPolicy, operator version, DRA.

Private to the collection gpuwl.sandbox. Sources: NVIDIA/gpu-operator deployments/gpu-operator/templates
(labels and images), kubernetes-sigs/dra-driver-nvidia-gpu (the driver's name in ResourceSlices).
"""

import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple


Place = Tuple[str, ...]

# Kinds beside Node that tell something; with each the resource as kubectl names it.
CONTEXT_KINDS = {
    "ClusterPolicy": "clusterpolicies.nvidia.com",
    "GPUCluster": "gpuclusters.nvidia.com",
    "Deployment": "deployments.apps",
    "DaemonSet": "daemonsets.apps",
    "Pod": "pods",
    "ResourceSlice": "resourceslices.resource.k8s.io",
}
GPU_DRA_DRIVER = "gpu.nvidia.com"

_IMAGE = re.compile(r"(?:^|/)gpu-operator(?:-validator)?:(v?[0-9][^@]*)")
_CHART = re.compile(r"gpu-operator-(v?[0-9].*)\Z")
_BUNDLE = re.compile(r"gpu-operator-certified\.(v?[0-9].*)\Z")


# Of one kind so many objects are noted; ResourceSlices are one per node and pool.
_MOST_TOLD = 100
_MOST_SLICES = 100000


class Cluster(NamedTuple):
    """What is known, or assumed, about the cluster of a node."""

    policy: Optional[Policy]
    policy_source: str  # where it came from, "" without one
    other_policies: Tuple[str, ...]  # ClusterPolicies that the operator ignores
    is_policy_sure: bool  # whether their status tells which one the operator follows
    gpu_clusters: Tuple[str, ...]
    version: Tuple[int, int]  # one of workload.KNOWN_VERSIONS
    version_text: str  # as found, "" if assumed
    version_source: str
    slice_nodes: FrozenSet[str]  # nodes whose GPUs a DRA driver offers
    saw_slices: bool  # whether there were ResourceSlices at all

    @property
    def sandbox(self) -> bool:
        """Whether workload labels count; assumed where no ClusterPolicy says so, because somebody has set them."""
        return self.policy.sandbox if self.policy else True


class Surroundings:
    """Collects what is told beside the nodes, and finds what stands nearest to one.

    Nearest: in the node's own file, else in its folder or below, else in the folder above, up to everything that
    was given. So folders of several clusters can be judged in one go, and so can a cluster in several files.
    """

    def __init__(self, policy: Optional[Policy] = None, version: str = "", saw_slices: bool = False) -> None:
        """policy, version: given by the user, which stand above what dumps say.

        saw_slices: whether all ResourceSlices are there, so that none means that there are none.
        """
        self._policy = policy
        self._version = version
        self._saw_slices = saw_slices
        # What was told -> place or a folder above it -> the values, in the order in which they came.
        self._found: Dict[str, Dict[Place, Dict[Any, None]]] = {}
        self._clusters: Dict[Place, Cluster] = {}

    def take(self, kind: str, item: Dict[str, Any], source: str, place: Place) -> None:
        """Note what an object of a kind of CONTEXT_KINDS tells. Raises ValueError for a ClusterPolicy that cannot be."""
        name = str(_dig(item, "metadata.name") or "")
        if kind == "ClusterPolicy":
            # The status of a second, ignored one stays empty.
            self._note("policies", (not _dig(item, "status.state"), read_policy(item), source), place)
        elif kind == "GPUCluster":
            self._note("gpu_clusters", name, place)
        elif kind == "ResourceSlice":
            is_gpu = _dig(item, "spec.driver") == GPU_DRA_DRIVER
            self._note("slices", str(_dig(item, "spec.nodeName") or "") if is_gpu else "", place)
        else:
            version = version_told_by(item)
            if version:
                # In the midst of an upgrade the operands are still those of the old version.
                is_operand = kind != "Deployment" and _dig(item, "metadata.labels.app") != "gpu-operator"
                self._note("versions", (is_operand, version, f"{kind} {name}"), place)

    def cluster_at(self, place: Place) -> Cluster:
        """Return what is known about the cluster of the nodes in a file."""
        if place not in self._clusters:
            self._clusters[place] = self._gather(place)
        return self._clusters[place]

    def _gather(self, place: Place) -> Cluster:
        # By a fixed rule, so that the order of files tells nothing.
        policies = sorted(
            self._nearest("policies", place), key=lambda found: (found[0], found[1].name, repr(found[1:]))
        )
        versions = sorted(self._nearest("versions", place), key=_newest_first)
        policy, source = self._policy, "as given" if self._policy else ""
        if not policy and policies:
            policy, source = policies[0][1], policies[0][2]
        text, told_by = self._version, "as given" if self._version else ""
        if not text and versions:
            _rank, text, told_by = versions[0]
        parsed = parse_version(text)
        slices = self._nearest("slices", place)
        others = [] if self._policy else [found for found in policies if found[1] != policy]
        return Cluster(
            policy=policy,
            policy_source=source,
            other_policies=tuple(sorted({found[1].name for found in others})),
            is_policy_sure=all(found[0] != policies[0][0] for found in others),
            gpu_clusters=tuple(sorted(set(self._nearest("gpu_clusters", place)))),
            version=nearest_version(parsed) if parsed else NEWEST_VERSION,
            version_text=text,
            version_source=told_by,
            slice_nodes=frozenset(slices) - {""},
            saw_slices=self._saw_slices or bool(slices),
        )

    def _note(self, what: str, value: Any, place: Place) -> None:
        """Note a value for its place and all above; of a hostile dump not more than could be meant."""
        most = _MOST_SLICES if what == "slices" else _MOST_TOLD
        at = self._found.setdefault(what, {})
        for length in range(len(place) + 1):
            values = at.setdefault(place[:length], {})
            if len(values) < most:
                values[value] = None

    def _nearest(self, what: str, place: Place) -> List[Any]:
        at = self._found.get(what, {})
        for length in range(len(place), -1, -1):
            if place[:length] in at:
                return list(at[place[:length]])
        return []


def _newest_first(found: Tuple[bool, str, str]) -> Tuple[bool, int, int, str, str]:
    is_operand, version, told_by = found
    major, minor = parse_version(version) or (0, 0)
    return is_operand, -major, -minor, version, told_by


def version_told_by(item: Dict[str, Any]) -> str:
    """Return the GPU Operator's version that a Deployment, DaemonSet or Pod of it tells, such as "v26.3.3", or ""."""
    labels = _dig(item, "metadata.labels")
    labels = labels if isinstance(labels, dict) else {}
    version = labels.get("app.kubernetes.io/version")
    if "gpu-operator" in (labels.get("app.kubernetes.io/name"), labels.get("app")) and parse_version(version):
        return str(version)
    for key, pattern in (("helm.sh/chart", _CHART), ("olm.owner", _BUNDLE)):
        told = pattern.match(str(labels.get(key) or ""))
        if told and parse_version(told.group(1)):
            return told.group(1)
    for image in _images(item):
        told = _IMAGE.search(image)
        if told and parse_version(told.group(1)):
            return told.group(1)
    return ""


def _images(item: Dict[str, Any]) -> List[str]:
    spec = _dig(item, "spec.template.spec") or _dig(item, "spec") or {}
    images = []
    for field in ("containers", "initContainers"):
        containers = spec.get(field) if isinstance(spec, dict) else None
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict) and isinstance(container.get("image"), str):
                images.append(container["image"])
    return images


def _dig(item: Any, path: str) -> Any:
    """Return the value at a path of keys, None where there is none."""
    for key in path.split("."):
        item = item.get(key) if isinstance(item, dict) else None
    return item


# -------------------- consistency.py
"""When do a node's label and the resource names it advertises not fit together?

Private to the collection gpuwl.sandbox. Source of the profile `lab`: the lab's
step 8, "a checker that judges whether label and advertised resources agree".

Nodes are expected in the form that objects.check_shape has accepted.
"""

import re
import sys
from typing import Any, Dict, List, Tuple


# A label's value, and pairs of resource name and quantity, as found.
LabFacts = Tuple[Any, Tuple[Tuple[str, Any], ...]]

WORKLOAD_LABEL = "nvidia.com/gpu.workload.config"
RESOURCE_PREFIX = "nvidia.com/"
CONTAINER_RESOURCE = "nvidia.com/gpu"

# A vGPU profile ends in a hyphen, digits and one capital letter: NVIDIA_A10-12Q.
# A device model may end alike but for the hyphen: GF100GL_TESLA_M2070Q.
_VGPU_PROFILE = re.compile(r"-[0-9]+[A-Z]\Z")

_EXPECTED = {
    "container": "exactly nvidia.com/gpu",
    "vm-passthrough": "one device model name (neither nvidia.com/gpu nor a vGPU profile),"
    " such as nvidia.com/GA102GL_A10",
    "vm-vgpu": "one vGPU profile name (it ends in a hyphen, digits and one capital letter),"
    " such as nvidia.com/NVIDIA_A10-12Q",
}
_REMEDIES = {
    "unknown-workload-label": f"Set the label {WORKLOAD_LABEL} to container, vm-passthrough or vm-vgpu.",
    "invalid-resource-quantity": "Find out what wrote the node's status: the kubelet writes whole numbers only.",
    "several-resources": "Leave one kind of GPU workload on the node; names left from an earlier use must stand at 0.",
    "no-resource": "Look at the device plugin that this label chooses: it has registered no device.",
    "wrong-resource": "Correct the label, or wait until the operator has exchanged the node's software for it.",
}


def is_labelled(node: Dict[str, Any]) -> bool:
    """Say whether a Node carries the workload label; an empty value is carrying it."""
    return WORKLOAD_LABEL in ((node.get("metadata") or {}).get("labels") or {})


def lab_facts(node: Dict[str, Any]) -> LabFacts:
    """Return what the profile `lab` reads in a labelled Node: the label's value and the NVIDIA resources."""
    return node["metadata"]["labels"][WORKLOAD_LABEL], tuple(_lab_resources(node).items())


def lab_is_healthy(facts: LabFacts) -> bool:
    """Say whether the profile `lab` has nothing to say about what lab_facts has returned."""
    label, listed = facts[0], dict(facts[1])
    advertised, unusable = _advertised(listed)
    return not unusable and len(advertised) == 1 and all(_fits_label(label, name) for name in advertised)


def lab_draft(facts: LabFacts) -> Draft:
    """Return what the profile `lab` says about a node that is not healthy, without the node's name.

    Its rule is the gravest reason, its message names them all.
    """
    label, listed = facts[0], dict(facts[1])
    reasons = _lab_reasons(label, *_advertised(listed))
    return Draft(
        rule=reasons[0][0],
        severity="error",
        message="; ".join(text for rule, text in reasons),
        remedy=_REMEDIES[reasons[0][0]],
        evidence=(("label", label), ("resources", listed)),
    )


def _lab_resources(node: Dict[str, Any]) -> Dict[str, Any]:
    """Return the NVIDIA resources a node lists: capacity speaks only where allocatable is silent.

    Names are kept once, however many nodes are bad.
    """
    status = node.get("status") or {}
    listed = {}
    for resources in (status.get("capacity") or {}, status.get("allocatable") or {}):
        # Compared by slices, which takes half the time: every node of a large dump comes by here.
        for name in resources:
            if name[:11] == RESOURCE_PREFIX:
                listed[name] = resources[name]
    return {sys.intern(name): listed[name] for name in sorted(listed)}


def _advertised(listed: Dict[str, Any]) -> Tuple[Dict[str, int], Dict[str, str]]:
    """Divide listed resources into those above zero and those whose quantity is none.

    "0" is absent: after a change of use the kubelet leaves the old name behind with "0".
    """
    advertised, unusable = {}, {}
    for name, quantity in listed.items():
        try:
            number = parse_quantity(quantity)
        except ValueError as error:
            unusable[name] = str(error)
        else:
            if number > 0:
                advertised[name] = number
    return advertised, unusable


def _lab_reasons(label: Any, advertised: Dict[str, int], unusable: Dict[str, str]) -> List[Tuple[str, str]]:
    """Return (rule, text) for each way in which a node fails, the gravest first, for one that does fail."""
    reasons = []
    known = isinstance(label, str) and label in _EXPECTED
    if not known:
        reasons.append(
            (
                "unknown-workload-label",
                f"label value {_quoted(label)} is none of container, vm-passthrough and vm-vgpu",
            )
        )
    for name, problem in unusable.items():
        reasons.append(("invalid-resource-quantity", f"resource {name}: {problem}"))
    expected = f"label {label} expects {_EXPECTED[label]}" if known else "expected one resource name"
    found = f"{expected}, the node advertises {_advertises(advertised)}"
    if len(advertised) > 1:
        reasons.append(("several-resources", found + ": a node runs one kind of GPU workload"))
    elif known and not advertised and not unusable:
        reasons.append(("no-resource", found))
    elif known and not all(_fits_label(label, name) for name in advertised):
        reasons.append(("wrong-resource", found))
    else:
        reasons.append((reasons[0][0], "the node advertises " + _advertises(advertised)))
    return reasons


def _fits_label(label: object, resource: str) -> bool:
    """Say whether a resource name has the form that a label value expects."""
    if resource == CONTAINER_RESOURCE:
        return label == "container"
    return label == ("vm-vgpu" if _VGPU_PROFILE.search(resource) else "vm-passthrough")


def _advertises(advertised: Dict[str, int]) -> str:
    """Put into words what a node advertises."""
    if not advertised:
        return "no nvidia.com/ resource above 0"
    shown = ["%s (%d)" % item for item in advertised.items()]
    if len(shown) > 8:
        shown[7:] = ["%d more" % (len(shown) - 7)]
    return " and ".join(shown)


def _quoted(label: Any) -> str:
    """Show a label's value, cut to a length for reading."""
    if not isinstance(label, str):
        return f"of the wrong type, {json_type(label)},"
    return '"%s"' % (label if len(label) <= 63 else label[:60] + "...")


# -------------------- rule_pages.py
"""What each rule of the checker means, why it is one, and where that is known from.

Private to the collection gpuwl.sandbox. `check-config.sh --explain` prints a page; the pages of the documentation are
made from the same texts. Files are named in the upstream repository; "seen running" means that unmodified
controllers of the operator, or a kubelet, did so on a real API server.
"""

from typing import Dict, NamedTuple

_STATE_MANAGER = "NVIDIA/gpu-operator controllers/state_manager.go"
_LABELING = "NVIDIA/gpu-operator controllers/nodelabeling_controller.go"
_RUNNING = "seen running, operator v25.10.1, v26.3.3 and v26.7.0"


class RulePage(NamedTuple):
    """A rule, explained."""

    severity: str  # what it can be: one severity, or several with "or"
    profiles: str
    what: str
    why: str
    source: str
    example: str  # what a node, or a ClusterPolicy, looks like that breaks it
    needs: str = ""  # a key of NEEDS: what must be in the dump beside the nodes


NEEDS = {
    "ClusterPolicy": "a ClusterPolicy in the dump, or --cluster-policy",
    "ResourceSlice": "the ResourceSlices in the dump; without them deploy labels alone tell",
    "version": "the operator's Deployment, a DaemonSet or a Pod of it in the dump, or --operator-version",
}

_BOTH, _LAB, _OPERATOR = "lab and operator", "lab", "operator"
# Rules that need Pods and DaemonSets, and are no part of a profile.
AUDIT = "operand_audit"
_DAEMONSET_CONTROLLER = "Kubernetes pkg/controller/daemon/daemon_controller.go"

RULE_PAGES: Dict[str, RulePage] = {
    "unknown-workload-label": RulePage(
        "error or warning",
        _BOTH,
        "The label nvidia.com/gpu.workload.config has a value that is none of container, vm-passthrough and vm-vgpu.",
        "The operator compares the value exactly, case included. With any other it silently takes its default, so the"
        " node gets the software of another use; no event and no condition says so. A warning where"
        " sandboxWorkloads is off and the label has no effect anyway.",
        f"{_STATE_MANAGER}, isValidWorkloadConfig; {_RUNNING}",
        'nvidia.com/gpu.workload.config: "vm-gpu"',
    ),
    "invalid-resource-quantity": RulePage(
        "error",
        _BOTH,
        "A quantity in the node's status is no whole number from 0.",
        "The kubelet and the API server write whole numbers for extended resources only, so something else has made or"
        " changed this dump.",
        "Kubernetes pkg/apis/core/validation, ValidateResourceQuantityValue",
        'status.allocatable: {nvidia.com/gpu: "1500m"}',
    ),
    "several-resources": RulePage(
        "error",
        _LAB,
        "The node advertises more than one nvidia.com/ name above 0.",
        "In the lab a node has one kind of GPU and one use, so a second name is a leftover. The profile operator knows"
        " nodes that rightly advertise several, such as MIG slices.",
        "The lab's step 8",
        'status.allocatable: {nvidia.com/gpu: "4", nvidia.com/GA102GL_A10: "2"}',
    ),
    "no-resource": RulePage(
        "error or warning",
        _BOTH,
        "The node advertises no GPU of the kind it is for.",
        "Requests for this node's GPUs wait for ever while its cards are idle: the device plugin of its use has not"
        " registered them, or a taint keeps its Pod away. A warning while the name of an earlier use is still in the"
        " capacity, as in the minutes after a change.",
        "NVIDIA/gpu-operator cmd/nvidia-validator/main.go, plugin-validation; issues 447, 527, 554 and 1375 there",
        "nvidia.com/gpu.workload.config: vm-vgpu, and no vGPU type in status.allocatable",
    ),
    "wrong-resource": RulePage(
        "error or warning",
        _BOTH,
        "The node advertises GPUs of another use than its own.",
        "What is requested by the name of the intended use never comes here, and what comes here by the other name gets"
        " a GPU that somebody has planned otherwise. In the profile operator only names that are positively known are"
        " compared. A warning where something else than the operator may advertise them on purpose: operands or"
        " sandboxWorkloads are off, or the plugin for Kata Containers may call GPUs so.",
        "NVIDIA/gpu-operator issue 468; names: NVIDIA/kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go,"
        " NVIDIA/k8s-device-plugin internal/rm/rm.go",
        'nvidia.com/gpu.workload.config: vm-passthrough, status.allocatable: {nvidia.com/gpu: "4"}',
    ),
    "several-kinds": RulePage(
        "error or info",
        _OPERATOR,
        "GPUs for several uses are above 0 at once: for containers, whole for VMs, or divided into vGPUs.",
        "A node has one use, and vfio-pci takes all its GPUs. Two live kinds mean that one plugin runs that should not,"
        " or that a status was written by hand. Names that stand at 0 are residue and no conflict. Information on a"
        " node with neither a workload label nor an operator, where KubeVirt's own plugin or Harvester may give VMs some of its GPUs.",
        "NVIDIA/cloud-native-docs gpu-operator/gpu-operator-kubevirt.rst; gpu-operator issues 550 and 1995",
        'status.allocatable: {nvidia.com/gpu: "4", nvidia.com/NVIDIA_A10-12Q: "4"}',
    ),
    "sandbox-disabled": RulePage(
        "error",
        _OPERATOR,
        "The workload label asks for VMs, and sandboxWorkloads.enabled is false in the ClusterPolicy.",
        "Then the operator takes every node for a container node and ignores the label, without a word.",
        f"{_STATE_MANAGER}, getWorkloadConfig; {_RUNNING}",
        "nvidia.com/gpu.workload.config: vm-vgpu, ClusterPolicy spec.sandboxWorkloads.enabled: false",
        "ClusterPolicy",
    ),
    "gpu-not-present": RulePage(
        "warning or info",
        _OPERATOR,
        "The node has a workload label, and the operator does not see a GPU in it.",
        "The operator looks only at nodes with nvidia.com/gpu.present=true, which it derives from Node Feature"
        " Discovery's labels of NVIDIA's PCI vendor id. Information where the node advertises GPUs all the same, as"
        " made-up nodes do.",
        f"{_LABELING}, reconcileCommonGPULabel; issues 78, 149, 423 and 1274 there; {_RUNNING}",
        'nvidia.com/gpu.workload.config: container, nvidia.com/gpu.present: "false"',
    ),
    "operands-disabled": RulePage(
        "info",
        _OPERATOR,
        "The node is taken out as a whole, so its workload label has no effect for now.",
        'nvidia.com/gpu.deploy.operands=false removes every deploy label; only the literal "false" counts.',
        f"{_STATE_MANAGER}, hasOperandsDisabled; {_RUNNING}",
        'nvidia.com/gpu.deploy.operands: "false"',
    ),
    "workload-by-default": RulePage(
        "info",
        _OPERATOR,
        "A GPU node has no workload label while sandboxWorkloads is on.",
        "It gets the default of the ClusterPolicy, so a change of that default moves the node to another use.",
        f"{_STATE_MANAGER}, getWorkloadConfig; issue 568 there; {_RUNNING}",
        "no nvidia.com/gpu.workload.config, ClusterPolicy spec.sandboxWorkloads.enabled: true",
        "ClusterPolicy",
    ),
    "default-uncertain": RulePage(
        "warning or info",
        _OPERATOR,
        "Operator 26.7 may not have given this node the default that the ClusterPolicy names.",
        "Since 26.7.0 the writer of the deploy labels and the reader of defaultWorkload are two controllers that race:"
        " after a change of the default, or a restart, nodes without a valid label can stay on the old one while the"
        " ClusterPolicy is ready. An explicit label was never affected.",
        f"{_LABELING} at v26.7.0; seen running: 4 of 8 changes left nodes behind",
        "no valid label, operator v26.7.0, ClusterPolicy spec.sandboxWorkloads.defaultWorkload: vm-passthrough",
        "ClusterPolicy",
    ),
    "none-allocatable": RulePage(
        "warning",
        _OPERATOR,
        "The node has GPUs of its kind, and offers none of them.",
        "The kubelet sets allocatable to 0 as soon as the device plugin is gone, and the capacity to 0 five minutes"
        " later. It is normal for moments after a restart.",
        "Kubernetes pkg/kubelet/cm/devicemanager/manager.go, GetCapacity; k8s-device-plugin issue 58;"
        " kubevirt-gpu-device-plugin issue 20",
        'status.capacity: {nvidia.com/gpu: "8"}, status.allocatable: {nvidia.com/gpu: "0"}',
    ),
    "unhealthy-device": RulePage(
        "warning",
        _OPERATOR,
        "The node offers fewer devices than it has.",
        "The device plugin has marked some unhealthy, mostly after an XID error, and takes them back only when it is"
        " restarted. Running Pods do not lower allocatable.",
        "NVIDIA/k8s-device-plugin internal/rm/health.go; issue 1065 there",
        'status.capacity: {nvidia.com/gpu: "8"}, status.allocatable: {nvidia.com/gpu: "7"}',
    ),
    "left-over-resource": RulePage(
        "info",
        _OPERATOR,
        "A name of an earlier use, or of an earlier layout, is still in the capacity and is not offered.",
        "After a change of use the kubelet keeps the old capacity for five minutes, then sets it to 0 and keeps the"
        " name. Both are normal.",
        "kubernetes/kubernetes issue 92396; k8snetworkplumbingwg/sriov-network-device-plugin issue 245",
        'nvidia.com/gpu.workload.config: vm-passthrough, status.capacity: {nvidia.com/gpu: "4"}, allocatable "0"',
    ),
    "unknown-resource": RulePage(
        "info",
        _OPERATOR,
        "An nvidia.com/ name is none that a plugin of NVIDIA is known to give.",
        "KubeVirt's own plugin advertises whatever name its configuration says, and other projects use the prefix too,"
        " so this is no fault by itself. Where a known name is near, it is named: VMs find a device only by the exact"
        " name.",
        "KubeVirt pkg/virt-handler/device-manager/device_controller.go; kubevirt issue 7547",
        'status.allocatable: {nvidia.com/TU104GL_Tesla_T4: "1"}',
    ),
    "companion-resource": RulePage(
        "info",
        _OPERATOR,
        "An audio, USB or bridge function of a card is advertised like a GPU.",
        "The KubeVirt plugin advertises every function of NVIDIA's that is bound to vfio-pci. Counting them as GPUs"
        " gives too many.",
        "NVIDIA/kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go; issue 67 there",
        'status.allocatable: {nvidia.com/GA102_HIGH_DEFINITION_AUDIO_CONTROLLER: "1"}',
    ),
    "plugin-of-other-mode": RulePage(
        "warning",
        _OPERATOR,
        "The name of a passthrough GPU comes from the plugin of the other sandbox mode.",
        "Mode kubevirt and mode kata have a plugin each, and the two call one card differently: pgpu or a model name"
        " with hyphens in kata, a model name without hyphens in kubevirt. VMs that name one never get the other.",
        "NVIDIA/sandbox-device-plugin cmd/main.go; NVIDIA/kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go",
        'ClusterPolicy spec.sandboxWorkloads.mode: kubevirt, status.allocatable: {nvidia.com/pgpu: "8"}',
        "ClusterPolicy",
    ),
    "plugin-disabled": RulePage(
        "warning",
        _OPERATOR,
        "The ClusterPolicy turns off the plugin that would advertise this node's GPUs.",
        "Then nothing of the operator advertises them. In mode kata no plugin advertises vGPUs at all. A warning and no"
        " error, because a plugin may be installed by other means.",
        f"{_STATE_MANAGER}, isStateEnabled; {_RUNNING}",
        "nvidia.com/gpu.workload.config: vm-passthrough, ClusterPolicy spec.sandboxDevicePlugin.enabled: false",
        "ClusterPolicy",
    ),
    "operand-off": RulePage(
        "warning or info",
        _OPERATOR,
        "A deploy label is false: the operand was taken off this node on purpose.",
        "The operator honours the value until the node changes its use, which forgets it. A warning where it is the"
        " container toolkit and the node still offers GPUs: unless the host has a toolkit of its own, Pods are placed"
        " there, get no device, and nothing reports it.",
        f"{_STATE_MANAGER}, addGPUStateLabels; {_RUNNING}",
        'nvidia.com/gpu.deploy.dcgm-exporter: "false"',
    ),
    "operand-paused": RulePage(
        "warning or info",
        _OPERATOR,
        "A deploy label is paused-for-mig-change, paused-for-vgpu-change or paused-for-driver-upgrade.",
        "A manager pauses its clients while it works. Information while the state label says so; a warning when no"
        " change is under way, because then nobody takes the pause back.",
        "NVIDIA/mig-parted pkg/mig/reconfigure/reconfigure.go and issue 485; NVIDIA/k8s-driver-manager"
        " cmd/driver-manager/main.go; gpu-operator issues 316 and 2833",
        "nvidia.com/gpu.deploy.device-plugin: paused-for-mig-change, nvidia.com/mig.config.state: success",
    ),
    "operand-blocked": RulePage(
        "error or warning",
        _OPERATOR,
        "A deploy label is empty, so the operand never starts.",
        "The driver manager stamps an empty value on operands that never ran on a node. Before 26.7 the operator took"
        " any existing value for a wish; since then it replaces the empty one, except for mig-manager. A warning where"
        " the version is not known, or where GPUs work without the operand.",
        f"{_STATE_MANAGER}, addGPUStateLabels; gpu-operator issue 2272; {_RUNNING}",
        'nvidia.com/gpu.deploy.sandbox-device-plugin: "", operator v26.3.3',
        "version",
    ),
    "operand-label-invalid": RulePage(
        "warning",
        _OPERATOR,
        'A deploy label has a text that is neither "true" nor one that the operator or its managers write.',
        'The DaemonSet selects "true" and nothing else, and the operator keeps whatever text it finds.',
        f"{_STATE_MANAGER}, addGPUStateLabels; {_RUNNING}",
        'nvidia.com/gpu.deploy.device-plugin: "True"',
    ),
    "deploy-label-missing": RulePage(
        "warning",
        _OPERATOR,
        "Deploy labels that the operator sets for this use are not on the node.",
        "Without its label an operand has no Pod there, and the ClusterPolicy stays ready. Versions before 26.7 put a"
        " lost label back within seconds; 26.7 does not until something else makes it look.",
        f"{_STATE_MANAGER}, gpuStateLabels; {_RUNNING}",
        "nvidia.com/gpu.present: true, and no nvidia.com/gpu.deploy.container-toolkit",
    ),
    "operator-behind": RulePage(
        "warning",
        _OPERATOR,
        "The node carries deploy labels of another use than the one it is for.",
        "The operator exchanges them within seconds of a change of the workload label. If they stay, it does not run,"
        " does not look at this label (sandboxWorkloads), or is held up.",
        f"{_STATE_MANAGER}, removeGPUStateLabels; {_RUNNING}",
        "nvidia.com/gpu.workload.config: vm-vgpu, nvidia.com/gpu.deploy.device-plugin: true",
    ),
    "host-driver": RulePage(
        "warning",
        _OPERATOR,
        "A node for VMs brings an NVIDIA driver of the host's own.",
        "The driver holds the GPUs, which vfio-pci or the vGPU manager needs.",
        "NVIDIA/gpu-operator issue 1018",
        "nvidia.com/gpu.workload.config: vm-passthrough, nvidia.com/gpu.deploy.driver: pre-installed",
    ),
    "driver-upgrade-failed": RulePage(
        "error",
        _OPERATOR,
        "The driver's upgrade failed on this node.",
        "The upgrade controller leaves the node cordoned, and waits for a person.",
        "NVIDIA/k8s-operator-libs pkg/upgrade/consts.go",
        "nvidia.com/gpu-driver-upgrade-state: upgrade-failed",
    ),
    "driver-upgrade-pending": RulePage(
        "info",
        _OPERATOR,
        "The driver is being exchanged, so a node that offers no GPU is not judged.",
        "The upgrade controller cordons the node, takes its GPU Pods off and restarts the driver's Pod; the device plugin"
        " comes back last. A node in upgrade-required waits for its turn and works on.",
        "NVIDIA/k8s-operator-libs pkg/upgrade/consts.go; seen running",
        "nvidia.com/gpu-driver-upgrade-state: pod-restart-required",
    ),
    "vgpu-change-pending": RulePage(
        "info",
        _OPERATOR,
        "vGPU devices are being made anew, so names and quantities are not judged.",
        "The vGPU device manager removes all devices before it makes the new ones.",
        "NVIDIA/vgpu-device-manager cmd/nvidia-k8s-vgpu-dm/main.go",
        "nvidia.com/vgpu.config.state: pending",
    ),
    "vgpu-change-failed": RulePage(
        "error",
        _OPERATOR,
        "The vGPU configuration could not be applied.",
        "Mostly its name is not in the ConfigMap, VMs still use the devices, or there is no vGPU driver.",
        "NVIDIA/vgpu-device-manager cmd/nvidia-k8s-vgpu-dm/main.go",
        "nvidia.com/vgpu.config: A10-5Q, nvidia.com/vgpu.config.state: failed",
    ),
    "vgpu-config-mismatch": RulePage(
        "error",
        _OPERATOR,
        "The node offers vGPU types that its configuration does not make.",
        "The resource name carries the type, so requests for the configured one wait for ever.",
        "NVIDIA/vgpu-device-manager examples/config-example.yaml, 711 configurations",
        'nvidia.com/vgpu.config: A10-4Q, status.allocatable: {nvidia.com/NVIDIA_A10-12Q: "4"}',
    ),
    "vgpu-quantity-mismatch": RulePage(
        "warning",
        _OPERATOR,
        "The number of vGPUs is no multiple of what the configuration makes of each GPU.",
        "Some devices could not be made, or the configuration was applied to some GPUs only.",
        "NVIDIA/vgpu-device-manager examples/config-example.yaml, 711 configurations",
        'nvidia.com/vgpu.config: A10-4Q (6 of each GPU), status.capacity: {nvidia.com/NVIDIA_A10-4Q: "7"}',
    ),
    "vgpu-config-unknown": RulePage(
        "info",
        _OPERATOR,
        "The vGPU configuration is none of NVIDIA's own, so types and quantities are not judged.",
        "A ConfigMap of one's own may define it. If none does, the device manager sets the state failed.",
        "NVIDIA/vgpu-device-manager examples/config-example.yaml",
        "nvidia.com/vgpu.config: half-and-half",
    ),
    "mig-change-pending": RulePage(
        "info",
        _OPERATOR,
        "GPUs are being divided anew, so names and quantities are not judged.",
        "The MIG manager stops the device plugin first; even nvidia.com/gpu.product may be gone for a while.",
        "NVIDIA/mig-parted pkg/mig/reconfigure/reconfigure.go; gpu-operator issue 2495",
        "nvidia.com/mig.config.state: rebooting",
    ),
    "mig-change-failed": RulePage(
        "error",
        _OPERATOR,
        "The MIG configuration could not be applied.",
        "Mostly its name is not in the ConfigMap, a process still uses a GPU, or the layout does not fit.",
        "NVIDIA/mig-parted pkg/mig/reconfigure/reconfigure.go",
        "nvidia.com/mig.config: all-1g.5gb, nvidia.com/mig.config.state: failed",
    ),
    "mig-strategy-mismatch": RulePage(
        "error",
        _OPERATOR,
        "The node offers MIG profiles by name, and mig.strategy is not mixed.",
        "Only strategy mixed names profiles; single calls every slice nvidia.com/gpu, and none divides nothing.",
        "NVIDIA/k8s-device-plugin internal/rm/rm.go and README, MIG strategies",
        'nvidia.com/mig.strategy: single, status.allocatable: {nvidia.com/mig-1g.10gb: "7"}',
    ),
    "mig-config-mismatch": RulePage(
        "error",
        _OPERATOR,
        "The node offers other slices than its MIG configuration makes, or whole GPUs where all are divided.",
        "Requests for the configured profile wait for ever. Sizes in GB are compared loosely, because drivers round"
        " them differently.",
        "NVIDIA/gpu-operator assets/state-mig-manager/0400_configmap.yaml; issue 351 there",
        'nvidia.com/mig.config: all-1g.10gb, status.allocatable: {nvidia.com/mig-3g.40gb: "2"}',
    ),
    "mig-quantity-mismatch": RulePage(
        "warning",
        _OPERATOR,
        "The number of slices offered is not the one that GPU Feature Discovery counted.",
        "The device plugin has not taken notice of a change of the layout.",
        "NVIDIA/k8s-device-plugin internal/lm/resource.go",
        'nvidia.com/mig-1g.10gb.count: "7", status.capacity: {nvidia.com/mig-1g.10gb: "14"}',
    ),
    "mig-layout-not-single": RulePage(
        "error",
        _OPERATOR,
        "mig.strategy is single, and the MIG configuration makes slices of several sizes, or divides some GPUs only.",
        "Then the device plugin fails, and the node offers nothing.",
        "NVIDIA/k8s-device-plugin internal/lm/mig-strategy.go; gpu-operator issue 460",
        "nvidia.com/mig.config: all-balanced, nvidia.com/mig.strategy: single",
    ),
    "mig-config-without-manager": RulePage(
        "warning",
        _OPERATOR,
        "A MIG configuration is wished for, and no MIG manager runs on the node to apply it.",
        "The operator deploys it where mig.capable is true or, without that label, where the product is an A30, A100 or"
        " H100. Others need nvidia.com/mig.capable first.",
        f"{_STATE_MANAGER}, hasMIGCapableGPU; issues 287 and 652 there; {_RUNNING}",
        "nvidia.com/mig.config: all-1g.10gb, and no nvidia.com/gpu.deploy.mig-manager",
    ),
    "sharing-not-applied": RulePage(
        "warning",
        _OPERATOR,
        "The node's labels say that GPUs are shared, and it offers no more than it has.",
        "The device plugin runs with another configuration than GPU Feature Discovery.",
        "NVIDIA/k8s-device-plugin README, time-slicing; issues 321 and 990 there; gpu-operator issue 684",
        'nvidia.com/gpu.count: "2", nvidia.com/gpu.replicas: "4", status.capacity: {nvidia.com/gpu: "2"}',
    ),
    "count-mismatch": RulePage(
        "warning",
        _OPERATOR,
        "The node offers another number of GPUs than was discovered in it.",
        "A card was removed, has failed, or is bound to another driver; or one of the two has not noticed yet. Not"
        " compared where MIG is mixed, because gpu.count is wrong there.",
        "NVIDIA/k8s-device-plugin internal/lm/resource.go; issues 97 (kubevirt-gpu-device-plugin) and 1501",
        'nvidia.com/gpu.count: "8", status.capacity: {nvidia.com/gpu: "7"}',
    ),
    "dra-node": RulePage(
        "info",
        _OPERATOR,
        "The node's GPUs are given out by Dynamic Resource Allocation.",
        "Pods name them by ResourceClaim, and the scheduler reads ResourceSlices, so no nvidia.com/gpu is right. Such a"
        " node is recognised by its deploy labels, by ResourceSlices of gpu.nvidia.com, or by a GPUCluster in the dump.",
        "NVIDIA/gpu-operator v26.7.0, GPUCluster; kubernetes-sigs/dra-driver-nvidia-gpu",
        "nvidia.com/gpu.deploy.dra-driver: true",
        "ResourceSlice",
    ),
    "dra-and-plugin": RulePage(
        "warning",
        _OPERATOR,
        "The node's GPUs are given out by Dynamic Resource Allocation, and a device plugin offers GPUs too.",
        "The scheduler keeps two accounts that know nothing of each other, so a GPU can be given to two Pods. The"
        " GPU Operator deploys one of the two only.",
        "NVIDIA/gpu-operator v26.7.0, GPUCluster; kubernetes-sigs/dra-driver-nvidia-gpu, README",
        'a ResourceSlice of gpu.nvidia.com for the node, status.allocatable: {nvidia.com/gpu: "8"}',
        "ResourceSlice",
    ),
    "second-cluster-policy": RulePage(
        "warning",
        _OPERATOR,
        "There is more than one ClusterPolicy.",
        "The operator follows one and ignores the others without a word; their status stays empty.",
        f"NVIDIA/gpu-operator controllers/clusterpolicy_controller.go; {_RUNNING}",
        "two objects of kind ClusterPolicy",
        "ClusterPolicy",
    ),
    "conflicting-gpu-cluster": RulePage(
        "error",
        _OPERATOR,
        "There is a ClusterPolicy and a GPUCluster.",
        "They exclude each other. The operator reports a reconcile error and leaves every label and Pod as it was.",
        "NVIDIA/gpu-operator controllers/clusterpolicy_controller.go at v26.7.0; seen running",
        "objects of kind ClusterPolicy and GPUCluster",
        "ClusterPolicy",
    ),
    "toolkit-missing": RulePage(
        "error or warning",
        AUDIT,
        "The device plugin runs on a node without the container toolkit.",
        "The node advertises GPUs, Pods are scheduled there and get no device, and nothing reports an error: the worst"
        " broken chain of operands. A warning where the toolkit is held off on purpose, as the host may have one of its own."
        " A toolkit that the ClusterPolicy switches off counts as the host's.",
        "The lab's text on switching operands by node; NVIDIA/gpu-operator assets/state-device-plugin/0500_daemonset.yaml, init"
        " container toolkit-validation",
        "a Pod of device-plugin Running on the node, none of container-toolkit",
    ),
    "operand-out-of-order": RulePage(
        "warning or info",
        AUDIT,
        "An operand runs on a node without one that it needs.",
        "Operands wait for each other when they start, and not later: what was started before the needed one went, or was"
        " labelled by hand where no operator is, works only by chance. In a lab the chain is driver, container toolkit, device"
        " plugin, GPU Feature Discovery, validator; with an operator it is what the init containers wait for. Information where"
        " the needed one is held off on purpose. A driver that is off on purpose or in the host counts as met.",
        "The lab's text on switching operands by node; NVIDIA/gpu-operator cmd/nvidia-validator/main.go and assets",
        'nvidia.com/gpu.deploy.container-toolkit: "true", and no nvidia.com/gpu.deploy.driver',
    ),
    "operand-tainted-out": RulePage(
        "warning",
        AUDIT,
        "A taint that the operands' DaemonSets do not tolerate keeps their Pods off the node.",
        "The node is not counted in desiredNumberScheduled, so every DaemonSet looks complete and the ClusterPolicy stays"
        " ready. A list of tolerations in the ClusterPolicy replaces the default one of nvidia.com/gpu. A taint that came after the Pods leaves"
        " them running until they are replaced, and is no finding.",
        f"{_DAEMONSET_CONTROLLER}, NodeShouldRunDaemonPod; NVIDIA/gpu-operator controllers/object_controls.go; {_RUNNING}",
        "spec.taints: [{key: dedicated, value: training, effect: NoSchedule}]",
    ),
    "operand-not-running": RulePage(
        "error or warning or info",
        AUDIT,
        "An operand's DaemonSet takes the node, and its Pod does not run there with all containers ready.",
        "A warning while the Pod is being started; information where it waits for another operand that is missing, which is"
        " then the one to see to; an error where a container fails, the image cannot be had, the scheduler refuses it, or there is no"
        " Pod at all.",
        "Kubernetes documentation, Pod Lifecycle and Init Containers; NVIDIA/gpu-operator assets (init containers)",
        "a Pod of dcgm-exporter with a container that waits: CrashLoopBackOff",
    ),
    "daemonset-missing": RulePage(
        "error",
        AUDIT,
        "An operand is due, and no DaemonSet brings it to the node.",
        "The operator makes the DaemonSet of every operand that its ClusterPolicy has on as soon as there is a node with a GPU, and makes"
        " a deleted one anew at once, so it does not run or is held up. Where drivers come precompiled there may be none for the"
        " node's kernel. What the ClusterPolicy switches off is not due.",
        f"{_STATE_MANAGER}, isStateEnabled; {_RUNNING}",
        'nvidia.com/gpu.deploy.device-plugin: "true", and no DaemonSet that selects it',
    ),
    "daemonset-selector-edited": RulePage(
        "error",
        AUDIT,
        "An operand's DaemonSet asks nodes for something else than the deploy label, and so passes by nodes where it is due.",
        "The operator does not repair a selector that was edited by hand until something changes that operand's section, and"
        " the ClusterPolicy stays ready. A DaemonSet that has lost its deploy label is known by its owner and its label app.",
        f"{_RUNNING}",
        'spec.template.spec.nodeSelector: {nvidia.com/gpu.deploy.dcgm-exporter: "true", pool: a}',
    ),
    "ignore-unknown-rule": RulePage(
        "warning",
        _OPERATOR,
        "An annotation would silence a rule that there is not.",
        "A misspelt rule silences nothing, and the finding that was meant comes back.",
        "This collection",
        'gpuwl.sandbox/ignore.count-mismatches: "two GPUs are lent"',
    ),
    "ignore-without-reason": RulePage(
        "warning",
        _OPERATOR,
        "An annotation would silence a rule on this node, and gives no reason.",
        "A silenced finding must tell the next reader why, so without a reason it silences nothing.",
        "This collection",
        'gpuwl.sandbox/ignore.count-mismatch: ""',
    ),
}


def explain(rule: str) -> str:
    """Return a rule's page as text, without a newline at the end. Raises KeyError for a rule that there is not."""
    page = RULE_PAGES[rule]
    lines = [
        f"{rule} ({page.severity}; {'module' if page.profiles == AUDIT else 'profile'} {page.profiles})",
        "",
        page.what,
        "",
        "Why: " + page.why,
        "Example: " + page.example,
        "Source: " + page.source,
    ]
    if page.needs:
        lines.append("Needs: " + NEEDS[page.needs])
    return "\n".join(lines)


# -------------------- settings.py
"""What a check is asked for, read from words and files.

Private to the collection gpuwl.sandbox. Every function raises ValueError, whose message names the thing, the value
and what was expected.
"""

import os
import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple


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


# -------------------- node_facts.py
"""What the profile `operator` reads in a Node, small and comparable.

Private to the collection gpuwl.sandbox. Nodes of one pool mostly have the same facts: each set of facts is judged
once, however many nodes share it, and only the names are kept of each.
"""

import json
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple


# An annotation gpuwl.sandbox/ignore.<rule> silences a rule on a node; its value is the reason.
IGNORE_PREFIX = "gpuwl.sandbox/ignore."

_READ_LABELS = frozenset(
    [
        *PCI_LABELS,
        "nvidia.com/gpu.workload.config",
        "nvidia.com/gpu.present",
        "nvidia.com/gpu.count",
        "nvidia.com/gpu.replicas",
        "nvidia.com/gpu.sharing-strategy",
        "nvidia.com/gpu.product",
        "nvidia.com/mig.capable",
        "nvidia.com/mig.config",
        "nvidia.com/mig.config.state",
        "nvidia.com/mig.strategy",
        "nvidia.com/vgpu.config",
        "nvidia.com/vgpu.config.state",
        "nvidia.com/vgpu.host-driver-version",
        "nvidia.com/gpu-driver-upgrade-state",
    ]
)

# The fake GPU Operator's nodes, by the label that puts them into one of its pools.
FAKE_POOL = "run.ai/simulated-gpu-node-pool"
_LABELS_OF_OTHERS = (*PCI_LABELS, FAKE_POOL)

_PREFIXES = (DEPLOY_PREFIX, "nvidia.com/mig-")

# The kinds of name that are GPUs, and the use that each belongs to.
_USE_OF_CLASS = {
    CONTAINER: CONTAINER_WORKLOAD,
    SHARED: CONTAINER_WORKLOAD,
    MIG: CONTAINER_WORKLOAD,
    PASSTHROUGH: PASSTHROUGH_WORKLOAD,
    KATA: PASSTHROUGH_WORKLOAD,
    VGPU: VGPU_WORKLOAD,
}
# The plugin of Kata Containers offers the switches between GPUs beside the GPUs.
_SWITCH = "nvidia.com/nvswitch"

Pairs = Tuple[Tuple[str, Any], ...]


class NodeFacts(NamedTuple):
    """The labels, annotations and resources of a node that rules read; pairs of name and value as found."""

    labels: Pairs
    discovered: bool  # whether Node Feature Discovery has left a label; only looked for on a node without a GPU's
    ignores: Pairs
    capacity: Pairs
    allocatable: Pairs
    # (key, value, effect) of those that keep Pods away.
    taints: Tuple[Tuple[str, str, str], ...] = ()


def facts_of(node: Dict[str, Any]) -> NodeFacts:
    """Return what the rules read in a Node, in the form that objects.check_shape has accepted.

    Called for every node of a dump, so it passes over the many labels of others as quickly as it can.
    """
    metadata, status = node["metadata"], node.get("status") or {}
    labels = metadata.get("labels") or {}
    read = [key for key in labels if key[:11] == RESOURCE_PREFIX and (key in _READ_LABELS or key.startswith(_PREFIXES))]
    read += [key for key in _LABELS_OF_OTHERS if key in labels]
    annotations = metadata.get("annotations")
    ignores = (
        [key for key in annotations if str(key).startswith(IGNORE_PREFIX)] if isinstance(annotations, dict) else []
    )
    return NodeFacts(
        tuple((sys.intern(key), _plain(labels[key])) for key in sorted(read)),
        has_gpu(labels) or any(key.startswith("feature.node.kubernetes.io/") for key in labels),
        tuple((key[len(IGNORE_PREFIX) :], _plain(annotations[key])) for key in sorted(ignores)),
        _resources(status.get("capacity")),
        _resources(status.get("allocatable")),
        _taints((node.get("spec") or {}).get("taints")),
    )


def _taints(listed: Any) -> Tuple[Tuple[str, str, str], ...]:
    """Return the taints that keep a DaemonSet's Pods away, but for those of the node's health, which such Pods tolerate."""
    found = set()
    for taint in listed or ():
        if isinstance(taint, dict) and taint.get("effect") in ("NoSchedule", "NoExecute"):
            key = str(taint.get("key") or "")
            if not key.startswith("node.kubernetes.io/"):
                found.add((key, str(taint.get("value") or ""), taint["effect"]))
    return tuple(sorted(found))


def _resources(listed: Any) -> Pairs:
    if not listed:
        return ()
    names = [name for name in listed if name[:11] == RESOURCE_PREFIX]
    return tuple((sys.intern(name), _plain(listed[name])) for name in sorted(names))


def _plain(value: Any) -> Any:
    """Make any value hashable, and such that equal values are the same: True and 1.0 are equal to 1.

    Texts are interned, as are the names before them: few are different, and a dump has many.
    """
    if isinstance(value, str):
        return sys.intern(value if len(value) <= 1000 else value[:997] + "...")
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return json.dumps(value, default=repr)[:60]


class NodeView:
    """The facts of a node, with quantities read and names classified, for the rules to look things up in."""

    def __init__(self, facts: NodeFacts, aliases: Any = frozenset()) -> None:
        self.labels: Dict[str, Any] = dict(facts.labels)
        self.discovered = facts.discovered
        self.ignores: Dict[str, Any] = dict(facts.ignores)
        self.raw = {"capacity": dict(facts.capacity), "allocatable": dict(facts.allocatable)}
        # What is wrong with a name's quantities: {name: problems}.
        self.unusable: Dict[str, List[str]] = {}
        self.capacity = self._numbers("capacity")
        self.allocatable = self._numbers("allocatable")
        self.classes = {name: classify(name, aliases) for name in sorted({*self.capacity, *self.allocatable})}
        # As the scheduler sees it; capacity speaks only for names that allocatable does not list.
        self.advertised = {name: self.allocatable.get(name, self.capacity.get(name, 0)) for name in self.classes}
        self.live = {name: number for name, number in self.advertised.items() if number > 0}

    def _numbers(self, field: str) -> Dict[str, int]:
        numbers = {}
        for name, quantity in self.raw[field].items():
            try:
                numbers[name] = parse_quantity(quantity)
            except ValueError as error:
                problems = self.unusable.setdefault(name, [])
                problems += [] if str(error) in problems else [str(error)]
        return numbers

    @property
    def label(self) -> Any:
        """The value of the workload label, None without one."""
        return self.labels.get(WORKLOAD_LABEL)

    def live_of(self, *classes: str) -> List[str]:
        """Return the names above zero of some classes, ascending."""
        return [name for name in self.live if self.classes[name] in classes]

    def use_of(self, name: str) -> Optional[str]:
        """Return the use that a name's GPUs belong to, None if it stands for no GPU or nobody knows."""
        return None if name == _SWITCH else _USE_OF_CLASS.get(self.classes[name])

    def live_uses(self) -> Dict[str, List[str]]:
        """Return the names above zero of GPUs by the use that they belong to."""
        uses: Dict[str, List[str]] = {}
        for name in self.live:
            use = self.use_of(name)
            if use:
                uses.setdefault(use, []).append(name)
        return uses

    def deploy(self, operand: str) -> Any:
        """Return the value of an operand's deploy label, None without one."""
        return self.labels.get(DEPLOY_PREFIX + operand)

    def evidence(self, *keys: str) -> Dict[str, Any]:
        """Return fields with their values as found: label keys and resource names."""
        found: Dict[str, Any] = {}
        for key in keys:
            if key in self.labels:
                found[sys.intern(f"metadata.labels['{key}']")] = self.labels[key]
            for field in ("capacity", "allocatable"):
                if key in self.raw[field]:
                    found[sys.intern(f"status.{field}['{key}']")] = self.raw[field][key]
        return found

    def is_gpu_node(self) -> bool:
        """Say whether the profile `operator` has anything to judge on this node."""
        labels = self.labels
        return bool(
            WORKLOAD_LABEL in labels
            or has_gpu(labels)
            or self.live_uses()
            or self.unusable
            or any(key.startswith(DEPLOY_PREFIX) for key in labels)
        )


# -------------------- operator_case.py
"""One node as the profile `operator` looks at it, and what its rules answer.

Private to the collection gpuwl.sandbox.
"""

import json
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple


_UNFINISHED = ("pending", "rebooting")
# Which use each kind of devices belongs to, and the section of the ClusterPolicy whose operand makes them.
_MADE_FOR = {"mig": (WORKLOADS[0], "migManager"), "vgpu": (WORKLOADS[2], "vgpuDeviceManager")}

UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
# Before it a node waits for its turn and works on.
_NO_UPGRADE = ("", "upgrade-required", "upgrade-done", "upgrade-failed")


def draft(rule: str, severity: str, message: str, remedy: str, evidence: Dict[str, Any]) -> Draft:
    """Return a Draft; its fields are those of a finding."""
    # Interned: where no node is like another, they still say the same of most.
    return Draft(rule, severity, sys.intern(message), sys.intern(remedy), tuple(evidence.items()))


def relabel(key: str, value: Optional[str] = None) -> str:
    """Return the command that sets a label of the node, or takes it away."""
    if value is None:
        return f"kubectl label node {NODE} {key}-"
    return f"kubectl label node {NODE} {key}={value} --overwrite"


def patch_policy(policy: Optional[Policy], **wish: Any) -> str:
    """Return the command that sets sections of the ClusterPolicy's spec."""
    return _patch(policy, "merge", {"spec": wish})


def tolerate(policy: Optional[Policy], taints: Iterable[Tuple[str, str, str]]) -> str:
    """Return how the operands come to tolerate taints (key, value, effect), beside those that they do already."""
    if not policy:
        return "Add a toleration of the taint to spec.daemonsets.tolerations of the ClusterPolicy, beside that of nvidia.com/gpu"
    wanted = [{"key": key, "operator": "Exists", "effect": effect} for key, _value, effect in taints if key]
    if policy.tolerations_are_set:
        # Added to the list, so that the commands for several nodes do not undo each other.
        path = "/spec/daemonsets/tolerations/-"
        return _patch(policy, "json", [{"op": "add", "path": path, "value": value} for value in wanted])
    fields = ("key", "operator", "value", "effect")
    every = [{field: word for field, word in zip(fields, one) if word} for one in policy.tolerations]
    return patch_policy(policy, daemonsets={"tolerations": every + wanted})


def _patch(policy: Optional[Policy], kind: str, patch: Any) -> str:
    name = shell_word(policy.name if policy else "cluster-policy")
    # As JSON writes it, so that no word of a dump ends the shell's quotes or stands for the nodes.
    text = json.dumps(patch, separators=(",", ":")).replace("'", "\\u0027").replace(NODE, "\\u007bnode}")
    return f"kubectl patch clusterpolicy {name} --type {kind} -p '{text}'"


def look_at(app: str) -> str:
    """Return the command that shows the Pods of an operand, whose logs tell more."""
    return f"Read the log of this Pod on the node: kubectl get pods -A -o wide -l app={app}"


class Case:
    """A node, its cluster, and what follows from the two."""

    def __init__(self, facts: NodeFacts, cluster: Cluster, offered_by_dra: bool) -> None:
        """offered_by_dra: whether a ResourceSlice of the node offers its GPUs."""
        self.cluster = cluster
        self.policy = cluster.policy
        self.view = NodeView(facts)
        labels = self.view.labels
        self.offered_by_dra = offered_by_dra
        tolerations = self.policy.tolerations if self.policy else DEFAULT_TOLERATIONS
        # Taints that keep the operands' Pods away; one that came later leaves those that ran already.
        self.taints = [taint for taint in facts.taints if not is_tolerated(taint, tolerations)]
        self.present = has_gpu(labels)
        self.off = operands_disabled(labels)
        self.uses = self.view.live_uses()
        self.mode = self._mode()
        default = self.policy.default if self.policy else WORKLOADS[0]
        self.effective = effective_workload(self.view.label, cluster.sandbox, default, cluster.version)
        self.workload = self._workload()
        if self.policy and self.policy.kata_aliases and self.workload == WORKLOADS[1] and self.mode == "kata":
            # Only here: an alias may be "gpu", which on the cluster's container nodes is what it always is.
            self.view = NodeView(facts, self.policy.kata_aliases)
            self.uses = self.view.live_uses()

    def _mode(self) -> str:
        """Return one of MODES; without a ClusterPolicy it shows in the labels of passthrough nodes, else it is ""."""
        if self.policy:
            return self.policy.mode if self.cluster.version >= (26, 3) else MODES[0]
        if self.view.deploy("kata-sandbox-device-plugin") is not None:
            return "kata"
        return "kubevirt" if self.view.deploy("sandbox-device-plugin") is not None else ""

    def _workload(self) -> Optional[str]:
        """What the node is for: None where nothing in the dump tells it.

        Where the operator leaves the node alone, its label alone tells. A default that no ClusterPolicy names, or that
        26.7.0 may not have followed, is told by what the operator did, and without an operator by what the node offers.
        """
        managed = self.present and self.managed()
        if self.off or not managed:
            use = self.view.label if self.view.label in WORKLOADS else self.deployed_workload()
            if not use and not self.off and len(self.uses) == 1:
                use = next(iter(self.uses))
            return use
        if self.effective.reason in ("label", "sandbox-disabled") or (self.policy and self.effective.certain):
            return self.effective.value
        if self.policy and not self.deployed_for():
            return self.effective.value
        return self.deployed_workload()

    def deployed_workload(self) -> Optional[str]:
        """Return the one workload that the node's deploy labels belong to; None if they tell none or several."""
        found = set(self.deployed_for())
        return found.pop() if len(found) == 1 else None

    def deployed_for(self) -> Dict[str, List[str]]:
        """Return the deploy labels that are "true" and belong to one workload alone: {workload: [operands]}.

        mig-manager is not looked at: the operator never takes it off a container node again.
        """
        every = {use: operands_of(use, self.mode or "kubevirt", self.cluster.version) for use in WORKLOADS}
        found: Dict[str, List[str]] = {}
        for key, value in sorted(self.view.labels.items()):
            operand = key[len(DEPLOY_PREFIX) :] if key.startswith(DEPLOY_PREFIX) and value == "true" else ""
            owners = [use for use in WORKLOADS if operand in every[use]]
            if len(owners) == 1:
                found.setdefault(owners[0], []).append(operand)
        return found

    def managed(self) -> bool:
        """Say whether a GPU Operator looks after the node: it has left deploy labels, or its ClusterPolicy is known.

        The fake one of Run:ai sets two of the labels, for its own DaemonSets.
        """
        if FAKE_POOL in self.view.labels:
            return False
        return self.policy is not None or any(self.view.deploy(operand) is not None for operand in known_operands())

    def follows_sandbox_switch(self) -> bool:
        """Say whether the operator takes this node for a container node because sandboxWorkloads is off."""
        return self.effective.reason == "sandbox-disabled" and self.present and self.managed() and not self.off

    def state(self, what: str) -> str:
        """Return what a state label says, "" where it says nothing or is left over from an earlier use.

        what: "mig" or "vgpu".
        """
        use, section = _MADE_FOR[what]
        if self.workload not in (use, None) or (self.policy and not self.policy.is_enabled(section)):
            return ""
        return str(self.view.labels.get(f"nvidia.com/{what}.config.state") or "")

    def unfinished(self, what: str) -> bool:
        """Say whether MIG ("mig") or vGPU devices ("vgpu") are being made anew."""
        return self.state(what) in _UNFINISHED

    def upgrading(self) -> bool:
        """Say whether the driver is being exchanged just now."""
        return (self.view.labels.get(UPGRADE_STATE) or "") not in _NO_UPGRADE and self.workload == WORKLOADS[0]

    def changing(self) -> bool:
        """Say whether devices or the driver are being made anew, so that resources come and go."""
        return self.unfinished("mig") or self.unfinished("vgpu") or self.upgrading()

    def plugin_is_held(self) -> bool:
        """Say whether the deploy label of the operand that advertises GPUs keeps it off, as another finding tells."""
        return self.view.deploy(self.plugin()) not in (None, "true")

    def plugin(self) -> str:
        """Return the operand that advertises the GPUs of this node."""
        return device_plugin_of(self.workload or WORKLOADS[0], self.mode)

    def wanted(self) -> List[str]:
        """Return the operands of the node's workload, ascending; none if the operator leaves the node alone."""
        if not self.present or self.off or not self.workload:
            return []
        operands = set(operands_of(self.workload, self.mode or "kubevirt", self.cluster.version))
        return sorted(operands)

    def is_left_to_dra(self) -> bool:
        """Say whether a ClusterPolicy's operands have nothing to do there: beside a DRA driver of its own they bring driver and toolkit."""
        return self.is_dra() and (self.policy is None or self._is_deployed_by_dra())

    def _is_deployed_by_dra(self) -> bool:
        return any(
            key.startswith(DEPLOY_PREFIX) and value == "true" and "dra" in key[len(DEPLOY_PREFIX) :].split("-")
            for key, value in self.view.labels.items()
        )

    def is_dra(self) -> bool:
        """Say whether the node's GPUs are given out by DRA, and not as extended resources."""
        if self.offered_by_dra or self._is_deployed_by_dra():
            return True
        # With a ClusterPolicy beside it the two conflict, and the operator leaves everything as it was.
        return bool(self.cluster.gpu_clusters) and self.policy is None and self.present and not self.uses


# -------------------- operator_labels.py
"""Profile `operator`: does the workload label do anything, and do the deploy labels let the operands run?

Private to the collection gpuwl.sandbox. Sources: with each rule in rule_pages.py.
"""

import json
from typing import Any, Dict, Iterable, List, Optional, Tuple


# Without these no GPU of the node can be used.
_VITAL = (
    "driver",
    "container-toolkit",
    "device-plugin",
    "sandbox-device-plugin",
    "kata-sandbox-device-plugin",
    "vfio-manager",
    "vgpu-manager",
    "vgpu-device-manager",
)
# Not every version sets these.
_LATER = ("client", "kata-manager", "cc-manager")


_WORKLOAD_SLIPS = SlipFinder(lambda: WORKLOADS)


def judge_workload_label(case: Case) -> List[Draft]:
    """Say what is wrong with the workload label, and when it has no effect."""
    drafts = []
    label = case.view.label
    evidence = case.view.evidence(WORKLOAD_LABEL, GPU_PRESENT, OPERANDS_SWITCH, *PCI_LABELS)
    if label is not None and label not in WORKLOADS:
        drafts.append(_unknown_label(case))
    if label is not None and case.off:
        message = f"the workload label has no effect: {OPERANDS_SWITCH}=false takes the node out as a whole"
        drafts.append(draft("operands-disabled", "info", message, relabel(OPERANDS_SWITCH), evidence))
    elif label is not None and not case.present:
        drafts.append(_without_gpu(case, evidence))
    elif case.follows_sandbox_switch():
        if label in WORKLOADS[1:]:
            drafts.append(_without_sandbox(case))
    elif case.present and not case.off and case.effective.reason != "label":
        drafts += _by_default(case)
    return drafts


def _unknown_label(case: Case) -> Draft:
    label = case.view.label
    meant = nearest_workload(label)
    message = f"the workload label's value {json.dumps(label)} is none of {', '.join(WORKLOADS)}"
    message += f" (it is near {meant})" if meant else ""
    if case.cluster.sandbox:
        takes = f"takes its default, {case.policy.default}," if case.policy else "takes its default"
        message += f": the operator {takes} and reports nothing"
    else:
        message += ", and it would have no effect: sandboxWorkloads.enabled is false"
    severity = "error" if case.cluster.sandbox else "warning"
    remedy = relabel(WORKLOAD_LABEL, meant or case.deployed_workload() or case.effective.value)
    return draft("unknown-workload-label", severity, message, remedy, case.view.evidence(WORKLOAD_LABEL))


def nearest_workload(label: object) -> str:
    """Return the valid value that a wrong one was probably meant to be, "" if none is near."""
    if not isinstance(label, str):
        return ""
    plain = label.strip().lower().replace("_", "-")
    if plain == "kata":
        return PASSTHROUGH_WORKLOAD  # for kata there is no value of its own, but sandboxWorkloads.mode
    for value in WORKLOADS:
        if plain == value or plain.replace("-", "") == value.replace("-", ""):
            return value
    for value in WORKLOADS:
        if plain and plain in (value[3:], value[:-1]):
            return value
    return _WORKLOAD_SLIPS.nearest(plain) or ""


def _without_gpu(case: Case, evidence: Dict[str, object]) -> Draft:
    where = f'{GPU_PRESENT} is not "true" and Node Feature Discovery has found no NVIDIA device'
    if not case.view.discovered:
        where = f'{GPU_PRESENT} is not "true", and no label of Node Feature Discovery, which would tell, is on the node'
    if case.uses:
        message = f"the operator does not manage this node, which advertises GPUs: {where}"
        return draft("gpu-not-present", "info", message, f"kubectl label node {{node}} {PCI_LABELS[0]}=true", evidence)
    message = f"the workload label has no effect: {where}"
    remedy = relabel(WORKLOAD_LABEL)
    if not case.view.discovered:
        remedy = (
            "If there is a GPU in it, let Node Feature Discovery run there (Helm value nfd.enabled); else: " + remedy
        )
    return draft("gpu-not-present", "warning", message, remedy, evidence)


def _without_sandbox(case: Case) -> Draft:
    message = (
        f"the workload label {case.view.label} has no effect: sandboxWorkloads.enabled is false,"
        " so the operator takes every node for a container node"
    )
    evidence = case.view.evidence(WORKLOAD_LABEL)
    evidence["ClusterPolicy spec.sandboxWorkloads.enabled"] = False
    remedy = patch_policy(case.policy, sandboxWorkloads={"enabled": True})
    return draft("sandbox-disabled", "error", message, remedy, evidence)


def _by_default(case: Case) -> List[Draft]:
    """Say that the node's use follows from a default, which 26.7 may not have followed."""
    if not case.policy or (case.uses and case.workload and case.workload not in case.uses):
        return []  # what is offered is not the default's: wrong-resource tells
    default = case.policy.default
    evidence = case.view.evidence(WORKLOAD_LABEL)
    evidence["ClusterPolicy spec.sandboxWorkloads.defaultWorkload"] = default
    remedy = relabel(WORKLOAD_LABEL, default)
    if not case.effective.certain:
        deployed = case.deployed_workload()
        message = (
            f"without a valid workload label the node's use is the default, {default}, which operator 26.7 may not have"
            " followed" + (f": its deploy labels are those of {deployed}" if deployed and deployed != default else "")
        )
        severity = "warning" if deployed and deployed != default else "info"
        return [draft("default-uncertain", severity, message, remedy, evidence)]
    if case.effective.reason == "label-missing":
        message = f"without a workload label the node's use is the default, {default}"
        return [draft("workload-by-default", "info", message, remedy, evidence)]
    return []


def judge_deploy_labels(case: Case) -> List[Draft]:
    """Say which operands the node's own labels keep from running, and which belong to another use."""
    if not case.present or case.off:
        return []
    drafts = _values(case)
    if case.managed() and case.workload:
        drafts += _missing(case) + _behind(case)
    return drafts + _driver(case)


def _values(case: Case) -> List[Draft]:
    """Judge deploy labels of this node's operands that are not "true"."""
    wanted = set(case.wanted()) if case.workload else set(known_operands())
    wanted |= {"mig-manager"} if case.workload == WORKLOADS[0] else set()
    return judge_held(case, wanted)


def judge_held(case: Case, operands: Iterable[str]) -> List[Draft]:
    """Judge deploy labels that are there and not "true"; operands of which the same is to say, together."""
    held: Dict[Tuple[str, str, str, str], List[str]] = {}
    for operand in sorted(operands):
        value = case.view.deploy(operand)
        if DEPLOY_PREFIX + operand in case.view.labels and value != "true":
            told = _held(case, operand, value)
            if told:
                held.setdefault(told, []).append(operand)
    drafts = []
    for (rule, severity, words, state), names in held.items():
        keys = [DEPLOY_PREFIX + operand for operand in names]
        remedy = "kubectl label node {node} " + " ".join(key + "=true" for key in keys) + " --overwrite"
        if rule == "operand-paused" and severity == "info":
            remedy = "Nothing while the change is under way; if it is over and this stays: " + remedy
        message = f"{words}: {', '.join(names)}"
        drafts.append(draft(rule, severity, message, remedy, case.view.evidence(*keys, state)))
    return drafts


def _held(case: Case, operand: str, value: Any) -> Optional[Tuple[str, str, str, str]]:
    """Return (rule, severity, words, label that tells of the state) for a deploy label; None if it is no fault."""
    if value == "false" and operand == "container-toolkit" and WORKLOADS[0] in case.uses:
        words = "taken off while GPUs are offered, so that Pods get no device unless the host has a toolkit of its own"
        return "operand-off", "warning", words, ""
    if value == "false":
        return "operand-off", "info", "taken off the node on purpose", ""
    if value == "":
        return _blocked(case, operand)
    if "paused-for-" in str(value):
        return _paused(case, str(value))
    if operand == "driver" and value == "pre-installed":
        return None
    words = f'not running, as the deploy label is {json.dumps(value)} and only "true" starts an operand'
    return "operand-label-invalid", "warning", words, ""


def _blocked(case: Case, operand: str) -> Optional[Tuple[str, str, str, str]]:
    """An empty value: before 26.7 the operator honours it for ever, since then only for mig-manager.

    The driver manager stamps it on all operands that never ran on a node, so also on those that have nothing to do there.
    """
    if operand in ("client", "kata-manager") or (operand == "mig-manager" and not can_do_mig(case.view.labels)):
        return None
    severity, when = ("error" if operand in _VITAL else "warning"), ""
    if case.cluster.version >= (26, 7) and operand != "mig-manager":
        if case.cluster.version_text:
            return None
        severity, when = "warning", ", if it is older than 26.7"
    words = f"never started, as the deploy label is empty and the operator leaves it so{when}"
    return "operand-blocked", severity, words, ""


def _paused(case: Case, value: str) -> Tuple[str, str, str, str]:
    reason = value.partition("paused-for-")[2].partition("-")[0]
    left = "the pause was left behind"
    if reason in ("mig", "vgpu"):
        state, under_way = f"nvidia.com/{reason}.config.state", case.unfinished(reason)
    else:
        state, under_way = (
            UPGRADE_STATE,
            case.view.labels.get(UPGRADE_STATE) not in (None, "upgrade-done", "upgrade-failed"),
        )
        left += ", unless the driver's Pod is starting just now"
    if under_way:
        return "operand-paused", "info", f"{value}, as {state} says too", state
    words = f"{value}, and {state} does not say that a change is under way ({left})"
    return "operand-paused", "warning", words, state


def _without_label(case: Case) -> List[str]:
    """Return the operands whose deploy labels the operator would set in every version, and that have none."""
    return [operand for operand in case.wanted() if case.view.deploy(operand) is None and operand not in _LATER]


def _missing(case: Case) -> List[Draft]:
    """Deploy labels that the operator would set."""
    missing = _without_label(case)
    if not missing or is_behind(case):
        return []
    is_partial = any(case.view.deploy(operand) is not None for operand in case.wanted())
    return [judge_absent(case, str(case.workload), missing, is_partial, True)]


def judge_absent(case: Case, workload: str, missing: List[str], is_partial: bool, managed: bool) -> Draft:
    """Say which operands have no deploy label; is_partial: whether others of the workload's have one.

    managed: whether an operator looks after the node.
    """
    keys = [DEPLOY_PREFIX + operand for operand in missing]
    shown = ", ".join(missing) if is_partial else "all"
    message = f"deploy labels of {workload} are missing ({shown}): these operands do not run here"
    if managed and case.cluster.version >= (26, 7):
        message += ", and operator 26.7 does not put them back by itself"
    remedy = "kubectl label node {node} " + " ".join(key + "=true" for key in keys)
    evidence = dict.fromkeys(f"metadata.labels['{key}']" for key in keys)
    return draft("deploy-label-missing", "warning", message, remedy, evidence)


def is_behind(case: Case) -> bool:
    """Say whether a node carries deploy labels of another use than its own."""
    return any(use != case.workload for use in case.deployed_for())


def _behind(case: Case) -> List[Draft]:
    """Deploy labels of another use: the operator has not followed the label."""
    others = {use: operands for use, operands in case.deployed_for().items() if use != case.workload}
    if not others or any(use in others for use in case.uses):
        return []  # what is offered belongs to them too: wrong-resource tells
    keys = [DEPLOY_PREFIX + operand for operands in others.values() for operand in operands]
    message = f"the operator has not followed: the node is for {case.workload}, and it carries deploy labels of {' and '.join(others)}"
    if not case.policy:
        message += " (it may be about to, or sandboxWorkloads may be off)"
    if not case.policy and case.deployed_workload():
        # Were sandboxWorkloads off, exchanging the labels would only stop what works.
        remedy = (
            "See what holds the operator up: kubectl get clusterpolicies.nvidia.com -o yaml (sandboxWorkloads.enabled)"
        )
    else:
        changes = [key + "-" for key in keys] + [DEPLOY_PREFIX + operand + "=true" for operand in _without_label(case)]
        remedy = "kubectl label node {node} " + " ".join(changes)
    evidence = case.view.evidence(WORKLOAD_LABEL, *keys)
    return [draft("operator-behind", "warning", message, remedy, evidence)]


def _driver(case: Case) -> List[Draft]:
    """A driver of the host on a node whose GPUs go to VMs, and an upgrade that failed."""
    drafts = []
    driver = DEPLOY_PREFIX + "driver"
    if case.view.labels.get(driver) == "pre-installed" and case.workload in WORKLOADS[1:]:
        message = f"the host brings a driver of its own, which holds the GPUs that {case.workload} needs"
        remedy = "Remove the NVIDIA driver from the node's image, then: " + relabel(driver)
        drafts.append(draft("host-driver", "warning", message, remedy, case.view.evidence(WORKLOAD_LABEL, driver)))
    state = case.view.labels.get(UPGRADE_STATE)
    if state == "upgrade-failed":
        message = "the driver's upgrade has failed on this node"
        remedy = look_at("nvidia-driver-daemonset")
        drafts.append(draft("driver-upgrade-failed", "error", message, remedy, case.view.evidence(UPGRADE_STATE)))
    elif case.upgrading():
        message = f"the driver is being exchanged ({state}): that no GPU is offered is not judged"
        remedy = "Nothing; if it stays so for more than half an hour: " + look_at("nvidia-driver-daemonset")
        drafts.append(draft("driver-upgrade-pending", "info", message, remedy, case.view.evidence(UPGRADE_STATE)))
    return drafts


def judge_mig_manager(case: Case) -> List[Draft]:
    """A MIG configuration that nobody applies."""
    wish = case.view.labels.get("nvidia.com/mig.config")
    if case.workload != WORKLOADS[0] or not case.present or case.off or not case.managed():
        return []
    if not wish or wish == "all-disabled" or case.view.labels.get("nvidia.com/mig.config.state") == "success":
        return []
    keys = ("nvidia.com/mig.config", "nvidia.com/mig.capable", "nvidia.com/gpu.product", DEPLOY_PREFIX + "mig-manager")
    evidence = case.view.evidence(*keys)
    remedy = relabel(DEPLOY_PREFIX + "mig-manager", "true")
    capable = can_do_mig(case.view.labels)
    if case.policy and not case.policy.is_enabled("migManager"):
        why = "migManager.enabled is false"
        evidence["ClusterPolicy spec.migManager.enabled"] = False
        remedy = patch_policy(case.policy, migManager={"enabled": True})
    elif case.view.deploy("mig-manager") not in ((None,) if capable else (None, "")):
        return []  # it runs, or the findings about its deploy label tell why not
    else:
        why = "the operand mig-manager does not run on this node"
        why += "" if capable else ", as nothing says that its GPUs can do MIG"
    return [
        draft("mig-config-without-manager", "warning", f"nobody applies mig.config {wish}: {why}", remedy, evidence)
    ]


# -------------------- operator_resources.py
"""Profile `operator`: do the resources that a node advertises fit what it is for?

Private to the collection gpuwl.sandbox. Only names that were positively classified are judged; an unknown one is
information. Sources: with each rule in rule_pages.py.
"""

import json
from typing import Any, List, Tuple


_PLUGIN_SECTIONS = {
    "device-plugin": "devicePlugin",
    "sandbox-device-plugin": "sandboxDevicePlugin",
    "kata-sandbox-device-plugin": "kataSandboxDevicePlugin",
}
_PLUGIN_APPS = {
    "device-plugin": "nvidia-device-plugin-daemonset",
    "sandbox-device-plugin": "nvidia-sandbox-device-plugin-daemonset",
    "kata-sandbox-device-plugin": "nvidia-kata-sandbox-device-plugin-daemonset",
}


def judge_quantities(case: Case) -> List[Draft]:
    """Quantities that are none, and devices that the node has but does not offer."""
    view = case.view
    drafts = []
    for name, problems in sorted(view.unusable.items()):
        message = f"the quantity of {name}: {'; '.join(problems)}"
        remedy = "Find out what wrote the node's status: kubectl get node {node} -o json --show-managed-fields"
        drafts.append(draft("invalid-resource-quantity", "error", message, remedy, view.evidence(name)))
    for name in sorted(view.capacity):
        total, offered = view.capacity[name], view.allocatable.get(name)
        if offered is None or total <= offered or total <= 0 or not view.use_of(name):
            continue
        evidence = view.evidence(name)
        if offered > 0:
            message = (
                f"not every device of {name} is offered: some are unhealthy, or the device plugin has just restarted"
            )
            drafts.append(draft("unhealthy-device", "warning", message, look_at(_app(case)), evidence))
        elif case.workload and view.use_of(name) != case.workload or _others_live(case, name):
            message = f"{name} is left over from an earlier use and is not offered any more; the kubelet sets it to 0 after five minutes"
            remedy = "Nothing; where no kubelet runs: " + clear_resources([name])
            drafts.append(draft("left-over-resource", "info", message, remedy, evidence))
        elif not case.changing() and not case.plugin_is_held():
            message = f"none of the devices of {name} is offered: the device plugin is down, or it or the kubelet has just restarted"
            drafts.append(draft("none-allocatable", "warning", message, look_at(_app(case)), evidence))
    return drafts


def _others_live(case: Case, name: str) -> bool:
    """Say whether other names of the same use are offered: MIG slices in place of the whole GPU, another vGPU type."""
    return any(other != name for other in case.uses.get(case.view.use_of(name) or "", ()))


def clear_resources(names: List[str]) -> str:
    """Return the command that takes names out of a node's status; what a device plugin registered comes back."""
    # As JSON writes it, so that a name can end neither the shell's quotes nor stand for the nodes.
    written = [json.dumps(name).replace("'", "\\u0027").replace("{", "\\u007b") for name in names]
    gone = "{" + ",".join(name + ":null" for name in written) + "}"
    patch = f'{{"status":{{"capacity":{gone},"allocatable":{gone}}}}}'
    return f"for n in {{node}}; do kubectl patch node \"$n\" --subresource=status --type=merge -p '{patch}'; done"


def judge_uses(case: Case) -> List[Draft]:
    """Compare what the node advertises with what it is for."""
    if len(case.uses) > 1:
        return [_several(case)]
    if case.workload is None:
        return []
    if case.uses and case.workload not in case.uses:
        return _wrong(case)
    if case.uses:
        return _wrong_plugin(case)
    return _nothing(case)


def _several(case: Case) -> Draft:
    view = case.view
    names = [name for use in WORKLOADS for name in case.uses.get(use, ())]
    kinds = " and ".join(f"{', '.join(case.uses[use])} ({use})" for use in WORKLOADS if use in case.uses)
    message = f"the node offers GPUs for several uses at once, and one GPU serves one: {kinds}"
    stay = case.workload if case.workload in case.uses else min(case.uses)
    remedy = clear_resources([name for name in names if name not in case.uses[stay or ""]])
    # Without label and operator, KubeVirt's own plugin or Harvester may give VMs some of the node's GPUs by NVIDIA's names.
    severity = "error" if view.label is not None or case.managed() else "info"
    if severity == "info":
        remedy = "Nothing, if another plugin than the operator's gives VMs some of the GPUs on purpose; else: " + remedy
    return draft("several-kinds", severity, message, remedy, view.evidence(WORKLOAD_LABEL, *names))


def _wrong(case: Case) -> List[Draft]:
    """One kind is offered, and it is that of another use."""
    view = case.view
    ((use, names),) = case.uses.items()
    if case.follows_sandbox_switch():
        return _wrong_without_sandbox(case, use, names)
    label = view.label if view.label in WORKLOADS else None
    what = f"label {label}" if label and case.effective.reason == "label" else f"it is for {case.workload}"
    message = f"{what}, and the node offers {_listed(names)}, which belongs to {use}"
    evidence = view.evidence(WORKLOAD_LABEL, *names)
    severity, remedy = "error", relabel(WORKLOAD_LABEL, use)
    if case.deployed_workload() == use:
        message += f"; the deploy labels are those of {use} too: the operator has not followed the label"
        message += "" if case.policy else ", or sandboxWorkloads is off"
    elif case.deployed_workload() == case.workload and not case.off:
        message += f"; the deploy labels are those of {case.workload} already, so the earlier plugin should be gone"
        remedy = "Drain the node of what uses the earlier name, wait five minutes, then: " + look_at(_app(case))
    if case.workload == WORKLOADS[1] and names == ["nvidia.com/gpu"] and case.mode == "kata" and not case.policy:
        severity = "warning"
        message += "; that is right only if the kata plugin was told to call GPUs so (P_GPU_ALIAS)"
    if case.off:
        severity = "warning"
        message += f" ({OPERANDS_SWITCH}=false: what runs there is not the operator's)"
        evidence.update(view.evidence(OPERANDS_SWITCH))
    return [draft("wrong-resource", severity, message, remedy, evidence)]


def _wrong_without_sandbox(case: Case, use: str, names: List[str]) -> List[Draft]:
    """Names of VMs on a node that the operator takes for a container node whatever its label says."""
    label = case.view.label
    if label == use:
        return []  # sandbox-disabled tells
    message = (
        f"the node offers {_listed(names)}, which belongs to {use}, and sandboxWorkloads.enabled is false:"
        " a plugin that is not the operator's advertises it"
    )
    # Somebody has said that it is for containers; else KubeVirt's own plugin may be meant to do so.
    severity = "error" if label == case.workload else "warning"
    evidence = case.view.evidence(WORKLOAD_LABEL, *names)
    evidence["ClusterPolicy spec.sandboxWorkloads.enabled"] = False
    remedy = patch_policy(case.policy, sandboxWorkloads={"enabled": True})
    remedy += "" if label == use else f" && {relabel(WORKLOAD_LABEL, use)}"
    return [draft("wrong-resource", severity, message, remedy, evidence)]


def _listed(names: List[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else ", ".join(names[:3]) + f" and {len(names) - 3} more"


def _wrong_plugin(case: Case) -> List[Draft]:
    """Passthrough by the plugin of the other mode; only where a ClusterPolicy tells the mode."""
    if case.workload != WORKLOADS[1] or not case.policy:
        return []
    view = case.view
    if case.mode == "kata":
        names = [] if case.policy.kata_models else view.live_of(PASSTHROUGH)
        other = "kubevirt"
    else:
        names, other = view.live_of(KATA), "kata"
    if not names:
        return []
    message = (
        f"{_listed(names)}: such a name comes from the plugin of mode {other}, and sandboxWorkloads.mode is {case.mode}"
    )
    spelled = other_spelling(names[0])
    message += (
        f"; the plugin of mode {case.mode} calls this card {spelled}" if spelled and case.mode == "kubevirt" else ""
    )
    evidence = view.evidence(WORKLOAD_LABEL, *names)
    evidence["ClusterPolicy spec.sandboxWorkloads.mode"] = case.mode
    remedy = patch_policy(case.policy, sandboxWorkloads={"mode": other})
    return [draft("plugin-of-other-mode", "warning", message, remedy, evidence)]


def _nothing(case: Case) -> List[Draft]:
    """No GPU is offered: why, and is that a fault?"""
    view = case.view
    if not case.present or case.off or case.changing() or _may_be_offered(case):
        return []
    plugin = case.plugin()
    if case.plugin_is_held() or "failed" in (case.state("mig"), case.state("vgpu")):
        return []  # other findings tell
    if case.policy and _plugin_is_off(case, case.policy, plugin):
        return [_no_plugin(case, case.policy, plugin)]
    held_back = [view.use_of(name) for name, number in view.capacity.items() if number > 0 and name not in view.live]
    if case.workload in held_back:
        return []  # none-allocatable says so
    left_over = any(held_back)
    message = f"it is for {case.workload}, and it offers no GPU of that kind"
    reasons = _reasons(case, plugin)
    if left_over:
        reasons.append("the name of an earlier use is still there, so the change may be under way")
    message += f" ({'; '.join(reasons)})" if reasons else ""
    names = sorted(view.classes)
    evidence = view.evidence(WORKLOAD_LABEL, DEPLOY_PREFIX + plugin, "nvidia.com/vgpu.config.state", *names)
    remedy = look_at(_app(case))
    if case.managed() and view.deploy(plugin) is None:
        remedy = relabel(DEPLOY_PREFIX + plugin, "true")
    if case.taints and case.managed():
        evidence["spec.taints"] = ", ".join(_taint_words(taint) for taint in case.taints)
        remedy = tolerate(case.policy, case.taints)
    severity = "warning" if left_over else "error"
    return [draft("no-resource", severity, message, remedy, evidence)]


def _taint_words(taint: Tuple[str, str, str]) -> str:
    key, value, effect = taint
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _may_be_offered(case: Case) -> bool:
    """Say whether a name that is not judged may be the node's GPUs.

    It may where its quantity cannot be read; where VMs are given any name; where a sharing scheduler has its own.
    """
    if case.view.unusable:
        return True
    return bool(case.view.live_of(SHARING_SCHEDULER if case.workload == WORKLOADS[0] else UNKNOWN))


def _plugin_is_off(case: Case, policy: Policy, plugin: str) -> bool:
    if case.workload == WORKLOADS[2] and case.mode == "kata":
        return True  # the label asks for sandbox-device-plugin, which mode kata does not have
    return not policy.is_enabled(_PLUGIN_SECTIONS[plugin])


def _no_plugin(case: Case, policy: Policy, plugin: str) -> Draft:
    evidence = case.view.evidence(WORKLOAD_LABEL)
    section = _PLUGIN_SECTIONS[plugin]
    if policy.is_enabled(section):
        message = "vGPUs are advertised by no plugin in mode kata"
        evidence["ClusterPolicy spec.sandboxWorkloads.mode"] = "kata"
        remedy = patch_policy(policy, sandboxWorkloads={"mode": "kubevirt"})
    else:
        message = f"no plugin of the operator advertises GPUs of {case.workload}: {section}.enabled is false"
        evidence[f"ClusterPolicy spec.{section}.enabled"] = False
        remedy = patch_policy(policy, **{section: {"enabled": True}})
    return draft("plugin-disabled", "warning", message, remedy, evidence)


def _reasons(case: Case, plugin: str) -> List[str]:
    reasons = []
    if case.managed() and case.view.deploy(plugin) is None:
        reasons.append(f"the deploy label of {plugin} is missing")
    if case.workload == WORKLOADS[2] and case.policy:
        if not case.policy.is_enabled("vgpuManager"):
            reasons.append("vgpuManager.enabled is false, so vGPUs need a vGPU driver of the host")
        if not case.policy.is_enabled("vgpuDeviceManager"):
            reasons.append("vgpuDeviceManager.enabled is false, so nothing makes vGPU devices")
    if case.workload == WORKLOADS[1] and case.policy and not case.policy.is_enabled("vfioManager"):
        reasons.append("vfioManager.enabled is false, so the host has to bind its GPUs to vfio-pci")
    if case.taints and case.managed():
        unless = "" if case.policy else ", unless the ClusterPolicy's daemonsets.tolerations name it"
        reasons.append("a taint keeps the operator's Pods away" + unless)
    if case.view.live_of(COMPANION):
        reasons.append("only companion functions of GPUs are offered: " + _listed(case.view.live_of(COMPANION)))
    if case.workload == WORKLOADS[0] and not case.cluster.saw_slices:
        reasons.append("or DRA gives the GPUs out; there is no ResourceSlice in the dump to tell")
    return reasons


def _app(case: Case) -> str:
    return _PLUGIN_APPS[case.plugin()]


def judge_names(case: Case) -> List[Draft]:
    """Names that say nothing about the use: unknown ones, with what they are near to, and companion functions."""
    view = case.view
    drafts = []
    for name in view.live_of(UNKNOWN):
        near = near_miss(name, kata=case.mode == "kata")
        if not near and not view.is_gpu_node():
            continue  # a network card's, by all appearances
        message = f"{name} is no name that a plugin of NVIDIA gives, so it is not judged"
        evidence = view.evidence(name)
        if near:
            message += f"; near to it is {near[0]}: {near[1]}"
            evidence["near"] = near[0]
        remedy = "If KubeVirt's own plugin or another one advertises it, nothing; else correct its name where it is configured."
        drafts.append(draft("unknown-resource", "info", message, remedy, evidence))
    companions = view.live_of(COMPANION)
    if companions:
        message = f"{_listed(companions)}: a companion function of a GPU and no GPU; do not count it as one"
        remedy = "Nothing; to have it not advertised, leave the function unbound from vfio-pci."
        drafts.append(draft("companion-resource", "info", message, remedy, view.evidence(*companions)))
    return drafts


def judge_counts(case: Case) -> List[Draft]:
    """Compare the count that GPU Feature Discovery saw with what the container plugin offers.

    Not where MIG slices are offered beside, and not where a sharing scheduler multiplies the GPUs.
    """
    view = case.view
    count, replicas = (
        _count_of(view.labels.get("nvidia.com/gpu.count")),
        _count_of(view.labels.get("nvidia.com/gpu.replicas")),
    )
    offered = {name: view.capacity.get(name, 0) for name in view.live_of(CONTAINER, SHARED)}
    if not count or len(offered) != 1 or case.uses.keys() != {WORKLOADS[0]} or case.changing():
        return []
    if view.live_of(MIG, SHARING_SCHEDULER) or view.labels.get("nvidia.com/mig.strategy") == "mixed":
        return []
    ((name, number),) = offered.items()
    expected = count * max(replicas, 1)
    if number == expected or not number:
        return []
    if number > expected and number % expected == 0 and case.view.deploy("device-plugin") != "true":
        return []  # a plugin of another project, such as HAMi's, offers each GPU several times
    keys = ("nvidia.com/gpu.count", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy", name)
    if replicas > 1 and number == count:
        message = f"sharing is not applied: gpu.replicas is {replicas}, and {name} stands at the number of GPUs itself"
        return [draft("sharing-not-applied", "warning", message, look_at(_app(case)), view.evidence(*keys))]
    message = f"{name} does not stand at the number of GPUs that was discovered"
    message += " times gpu.replicas" if replicas > 1 else ""
    return [draft("count-mismatch", "warning", message, look_at(_app(case)), view.evidence(*keys))]


def _count_of(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 7 else 0


# -------------------- operator_devices.py
"""Profile `operator`: do MIG and vGPU configurations fit the names and quantities that a node advertises?

Private to the collection gpuwl.sandbox. Sources: with each rule in rule_pages.py.
"""

import json
from math import gcd
from typing import Any, Dict, List, Optional, Set


MIG_CONFIG, MIG_STATE, MIG_STRATEGY = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/mig.strategy"
GPU_PRODUCT = "nvidia.com/gpu.product"
VGPU_CONFIG, VGPU_STATE = "nvidia.com/vgpu.config", "nvidia.com/vgpu.config.state"


def judge_vgpu(case: Case) -> List[Draft]:
    """Judge the vGPU configuration of a vm-vgpu node; on others its labels are left over and mean nothing."""
    if case.workload != WORKLOADS[2] or case.off or (case.policy and not case.policy.is_enabled("vgpuDeviceManager")):
        return []
    view = case.view
    drafts = _state(case, "vgpu", VGPU_CONFIG, VGPU_STATE, "nvidia-vgpu-device-manager")
    name = _vgpu_wish(case)
    live = view.live_of(VGPU)
    if drafts or not live or not name:
        return drafts
    if case.policy and case.policy.vgpu_config_map not in ("", "default-vgpu-devices-config"):
        return []  # the ConfigMap may define the name anew
    entries = vgpu_config(name)
    if entries is None:
        message = f"vgpu.config {json.dumps(name)} is none of NVIDIA's default configurations: types and quantities are not judged"
        remedy = "Nothing, if the ConfigMap of vgpuDeviceManager.config.name defines it; else: " + relabel(
            VGPU_CONFIG, "default"
        )
        return [draft("vgpu-config-unknown", "info", message, remedy, view.evidence(VGPU_CONFIG, *live))]
    return _vgpu_types(case, str(name), entries, live)


def _vgpu_wish(case: Case) -> str:
    """Return the name of the configuration that the node should have, "" if nothing tells it.

    A node without the label has the default's, if the device manager has worked there at all: KubeVirt and Harvester
    make vGPUs too. What the default is, and that no ConfigMap of one's own defines it, only a ClusterPolicy tells.
    """
    label = case.view.labels.get(VGPU_CONFIG)
    if label and (label != "default" or case.policy):
        return str(label)
    return case.policy.vgpu_default if case.policy and not label and VGPU_STATE in case.view.labels else ""


def _vgpu_types(case: Case, name: str, entries: List[Any], live: List[str]) -> List[Draft]:
    view = case.view
    counts: Dict[str, Set[int]] = {}
    for _filters, types in entries:
        for kind, count in types.items():
            counts.setdefault(kind, set()).add(count)
    # Types that NVIDIA's list does not have are newer than it, and so may its default be.
    live = [one for one in live if vgpu_type(one)]
    wrong = [one for one in live if vgpu_type(one) not in counts]
    if wrong:
        message = f"vgpu.config {name} does not make {', '.join(wrong)}"
        remedy = relabel(VGPU_CONFIG, vgpu_type(wrong[0]) or "default")
        if len(wrong) < len(live):
            # The configured types are there, so what else there is is too much.
            remedy = look_at("nvidia-vgpu-device-manager")
        return [draft("vgpu-config-mismatch", "error", message, remedy, view.evidence(VGPU_CONFIG, VGPU_STATE, *live))]
    drafts = []
    for one in live:
        number = view.capacity.get(one, view.live[one])
        per_gpu = counts[vgpu_type(one)]
        if number % _common(per_gpu):
            shown = " or ".join(map(str, sorted(per_gpu)))
            message = f"{one} is not a multiple of the {shown} that vgpu.config {name} makes of each GPU"
            evidence = view.evidence(VGPU_CONFIG, VGPU_STATE, one)
            evidence["per GPU"] = shown
            look = look_at("nvidia-vgpu-device-manager")
            drafts.append(draft("vgpu-quantity-mismatch", "warning", message, look, evidence))
    return drafts


def _common(numbers: Set[int]) -> int:
    """Return what every sum of these numbers is a multiple of: GPUs of several models may stand in a node."""
    common = 0
    for number in numbers:
        common = gcd(common, number)
    return common or 1


def _state(case: Case, what: str, config: str, state: str, app: str) -> List[Draft]:
    """What the state label of a configuration says."""
    view = case.view
    value = case.state(what)
    wish = view.labels.get(config) or (case.policy.vgpu_default if case.policy and what == "vgpu" else "")
    change = f"the change to {what}.config {wish}" if wish else f"the change of {what}.config"
    if case.unfinished(what):
        message = f"{change} is under way ({value}): resources are not judged"
        remedy = "Nothing; if it stays so for more than some minutes: " + look_at(app)
        return [draft(f"{what}-change-pending", "info", message, remedy, view.evidence(config, state))]
    if value == "failed":
        message = f"{change} has failed"
        return [draft(f"{what}-change-failed", "error", message, look_at(app), view.evidence(config, state))]
    return []


def judge_mig(case: Case) -> List[Draft]:
    """Judge MIG on a container node; on a VM node mig.config is left over or the operator's default, and means nothing."""
    if case.workload != WORKLOADS[0] or case.off:
        return []
    drafts = _state(case, "mig", MIG_CONFIG, MIG_STATE, "nvidia-mig-manager")
    if drafts:
        return drafts
    strategy = case.view.labels.get(MIG_STRATEGY) or (case.policy.mig_strategy if case.policy else None)
    slices = case.view.live_of(MIG)
    if strategy in ("none", "single") and slices:
        message = f"mig.strategy is {strategy}, and the node offers {', '.join(slices)}: names of MIG profiles belong to mixed"
        evidence = case.view.evidence(MIG_STRATEGY, *slices)
        if MIG_STRATEGY not in case.view.labels:
            evidence["ClusterPolicy spec.mig.strategy"] = strategy
        return [draft("mig-strategy-mismatch", "error", message, _set_strategy(case, "mixed"), evidence)]
    return _mig_counts(case, slices) + _mig_layout(case, strategy, slices)


def _set_strategy(case: Case, strategy: str) -> str:
    if not case.managed():
        return f"Set the device plugin's MIG strategy to {strategy}: MIG_STRATEGY, or flags.migStrategy in its configuration"
    return patch_policy(case.policy, mig={"strategy": strategy})


def _mig_counts(case: Case, slices: List[str]) -> List[Draft]:
    """Compare mig-<profile>.count, times .replicas, with what is offered."""
    drafts = []
    for name in slices:
        plain = name[: -len(".shared")] if name.endswith(".shared") else name
        count, replicas = (str(case.view.labels.get(f"{plain}.{what}") or "") for what in ("count", "replicas"))
        if not (count.isascii() and count.isdigit()) or name not in case.view.capacity:
            continue
        times = int(replicas[:6]) if replicas.isascii() and replicas.isdigit() else 1
        if case.view.capacity[name] not in (int(count[:6]), int(count[:6]) * times):
            message = f"{name} does not stand at the number of slices that was discovered"
            evidence = case.view.evidence(f"{plain}.count", f"{plain}.replicas", name)
            look = look_at("nvidia-device-plugin-daemonset")
            drafts.append(draft("mig-quantity-mismatch", "warning", message, look, evidence))
    return drafts


def _mig_layout(case: Case, strategy: Optional[str], slices: List[str]) -> List[Draft]:
    """Compare the names with what mig.config stands for, if it is one of the operator's own configurations."""
    wish = case.view.labels.get(MIG_CONFIG)
    entries = mig_config(str(wish)) if wish else None
    if not entries or (case.policy and case.policy.mig_config_map) or case.view.deploy("mig-manager") == "false":
        return []
    if wish == "all-disabled" and MIG_STATE not in case.view.labels:
        return []  # the operator's own default, which nobody has applied
    if any(enabled and not made for _f, _d, enabled, made in entries):
        return []  # MIG is on, and what is made is left to others
    profiles = {profile for _f, _d, enabled, made in entries if enabled for profile in made}
    whole = any(not enabled for _f, _d, enabled, _m in entries)
    if strategy == "single":
        # GPUs of one node are of one model: only profiles that one entry makes together count as several.
        mixed = (whole and profiles) or any(len(made) > 1 for _f, _d, _e, made in entries)
        return [_not_single(case, str(wish))] if mixed else _not_divided(case, str(wish), bool(profiles))
    if strategy == "none" or not case.uses:
        return []
    wrong = [one for one in slices if not any(same_mig_profile(mig_profile(one), known) for known in profiles)]
    if wrong:
        return [_wrong_slices(case, str(wish), wrong, len(wrong) < len(slices))]
    if profiles and not whole and strategy == "mixed" and case.view.live_of(CONTAINER):
        return [_whole_gpus(case, str(wish))]
    return _per_gpu(case, str(wish), entries, slices) if slices and not whole else []


def _wrong_slices(case: Case, wish: str, wrong: List[str], right_ones: bool) -> Draft:
    """Slices that the configuration does not make; right_ones: whether those that it makes are there too."""
    message = f"mig.config {wish} does not make {', '.join(wrong)}"
    found = "all-" + mig_profile(wrong[0])
    evidence = case.view.evidence(MIG_CONFIG, MIG_STATE, MIG_STRATEGY, *sorted(case.view.live))
    # With those beside them that are wished for, these are too much.
    remedy = look_at("nvidia-mig-manager") if right_ones or not mig_config(found) else relabel(MIG_CONFIG, found)
    return draft("mig-config-mismatch", "error", message, remedy, evidence)


def _whole_gpus(case: Case, wish: str) -> Draft:
    message = f"mig.config {wish} divides every GPU, and the node offers whole ones"
    evidence = case.view.evidence(MIG_CONFIG, MIG_STATE, MIG_STRATEGY, *sorted(case.view.live))
    return draft("mig-config-mismatch", "error", message, look_at("nvidia-mig-manager"), evidence)


def _not_divided(case: Case, wish: str, divides: bool) -> List[Draft]:
    """With strategy single the name tells nothing; GPU Feature Discovery adds -MIG- to the product of divided GPUs."""
    product = case.view.labels.get(GPU_PRODUCT)
    if not divides or not case.uses or not product or "-MIG-" in str(product) or case.state("mig") != "success":
        return []
    found = _whole_gpus(case, wish)
    return [found._replace(evidence=(*found.evidence, *case.view.evidence(GPU_PRODUCT).items()))]


def _per_gpu(case: Case, wish: str, entries: List[Any], slices: List[str]) -> List[Draft]:
    """Compare the numbers of slices with what the configuration makes of each GPU, whichever model it is."""
    numbers: Dict[str, int] = {}
    for name in slices:
        if name.endswith(".shared"):
            return []
        numbers[mig_profile(name)] = case.view.capacity.get(name, case.view.live[name])
    for _filters, _devices, _enabled, made in entries:
        found = {
            profile: sum(number for one, number in numbers.items() if same_mig_profile(one, profile))
            for profile in made
        }
        times = {number / made[profile] for profile, number in found.items()}
        if sum(found.values()) == sum(numbers.values()) and len(times) == 1 and times.pop().is_integer():
            return []
    message = f"the numbers of slices are no multiple of what mig.config {wish} makes of a GPU"
    evidence = case.view.evidence(MIG_CONFIG, MIG_STATE, *slices)
    return [draft("mig-quantity-mismatch", "warning", message, look_at("nvidia-mig-manager"), evidence)]


def _not_single(case: Case, wish: str) -> Draft:
    message = f"mig.config {wish} gives a node slices of several sizes, which mig.strategy single cannot advertise: the device plugin fails"
    evidence = case.view.evidence(MIG_CONFIG, MIG_STRATEGY)
    if MIG_STRATEGY not in case.view.labels:
        evidence["ClusterPolicy spec.mig.strategy"] = "single"
    return draft("mig-layout-not-single", "error", message, _set_strategy(case, "mixed"), evidence)


# -------------------- operator_profile.py
"""The rule profile `operator`: is a node what the real GPU Operator would make of its label?

Private to the collection gpuwl.sandbox. Source: the operator's own decisions, as they were read and seen running;
each rule names its own in rule_pages.py.
"""

from typing import Any, Callable, Dict, List, Tuple


_JUDGES: Tuple[Callable[[Case], List[Draft]], ...] = (
    judge_workload_label,
    judge_quantities,
    judge_uses,
    judge_vgpu,
    judge_mig,
    judge_mig_manager,
    judge_counts,
    judge_deploy_labels,
    judge_names,
)


def judge_operator(facts: NodeFacts, cluster: Cluster, offered_by_dra: bool) -> List[Draft]:
    """Judge the nodes that have these facts.

    cluster: what is known about their cluster; offered_by_dra: whether ResourceSlices offer their GPUs.
    Returns the findings without the nodes' names, in the order of the rules; none if all is well.
    """
    case = Case(facts, cluster, offered_by_dra)
    found = _reasonless(case)
    if case.is_dra():
        return [*found, _dra_and_plugin(case) if case.uses else _dra(case)]
    for judge in _JUDGES:
        found += judge(case)
    return found


def is_judged(facts: NodeFacts, cluster: Cluster, offered_by_dra: bool) -> bool:
    """Say whether the profile has anything to judge on such a node: it has to do with GPUs, and not by way of DRA."""
    case = Case(facts, cluster, offered_by_dra)
    return case.view.is_gpu_node() and not case.is_dra()


def _dra(case: Case) -> Draft:
    message = "DRA gives out this node's GPUs, so it rightly advertises no nvidia.com/gpu: not judged"
    return draft("dra-node", "info", message, "Nothing.", _dra_evidence(case))


def _dra_and_plugin(case: Case) -> Draft:
    names = [name for use in sorted(case.uses) for name in case.uses[use]]
    message = (
        f"DRA gives out this node's GPUs, and a device plugin offers {', '.join(names)}: one GPU can be given out twice"
    )
    evidence = {**_dra_evidence(case), **case.view.evidence(DEPLOY_PREFIX + "device-plugin", *names)}
    remedy = f"{relabel(DEPLOY_PREFIX + 'device-plugin', 'false')} && {clear_resources(names)}"
    return draft("dra-and-plugin", "warning", message, remedy, evidence)


def _dra_evidence(case: Case) -> Dict[str, Any]:
    evidence: Dict[str, Any] = {
        f"metadata.labels['{key}']": value for key, value in sorted(case.view.labels.items()) if "dra" in key
    }
    if case.offered_by_dra:
        evidence["ResourceSlice spec.driver"] = "gpu.nvidia.com"
    if case.cluster.gpu_clusters:
        evidence["GPUCluster"] = ", ".join(case.cluster.gpu_clusters)
    return evidence


def _reasonless(case: Case) -> List[Draft]:
    """Annotations that would silence a rule, but give no reason."""
    drafts = []
    for rule, reason in sorted(case.view.ignores.items()):
        if rule not in RULE_PAGES:
            key = f"{IGNORE_PREFIX}{rule}"
            message = f"the annotation {key} names no rule, so it silences nothing"
            remedy = f"kubectl annotate node {{node}} {shell_word(key)}-"
            evidence = {f"metadata.annotations['{key}']": reason}
            drafts.append(draft("ignore-unknown-rule", "warning", message, remedy, evidence))
            continue
        if not isinstance(reason, str) or not reason.strip():
            key = IGNORE_PREFIX + rule
            message = f"the annotation {key} gives no reason, so it silences nothing"
            remedy = f"kubectl annotate node {{node}} {key}='why this is right here' --overwrite"
            if rule not in RULE_PAGES:
                message = f"the annotation {key} names no rule and gives no reason, so it silences nothing"
                remedy = f"kubectl annotate node {{node}} {shell_word(key)}-"
            drafts.append(
                draft("ignore-without-reason", "warning", message, remedy, {f"metadata.annotations['{key}']": reason})
            )
    return drafts


def judge_cluster(cluster: Cluster) -> List[Draft]:
    """Judge what stands beside the nodes; these findings are about a ClusterPolicy or GPUCluster."""
    drafts = []
    if cluster.policy and cluster.gpu_clusters:
        names = ", ".join(cluster.gpu_clusters)
        message = f"ClusterPolicy {cluster.policy.name} and GPUCluster {names} exclude each other: since 26.7 the operator leaves every node as it is"
        remedy = "kubectl delete gpucluster " + " ".join(map(shell_word, cluster.gpu_clusters))
        drafts.append(draft("conflicting-gpu-cluster", "error", message, remedy, {"GPUCluster": names}))
    for name in cluster.other_policies:
        message = f"the operator ignores ClusterPolicy {name}: it follows one alone"
        remedy = f"kubectl delete clusterpolicy {shell_word(name)}"
        if not cluster.is_policy_sure and cluster.policy:
            message = (
                f"ClusterPolicy {name} is there beside {cluster.policy.name}, the operator follows one alone, and the dump"
                f" does not tell which: nodes are judged by {cluster.policy.name} ({cluster.policy_source})"
            )
            remedy = "See which one has a status, and delete the other: kubectl get clusterpolicies.nvidia.com -o yaml"
        drafts.append(draft("second-cluster-policy", "warning", message, remedy, {"ClusterPolicy metadata.name": name}))
    return drafts


def assumptions(cluster: Cluster) -> List[str]:
    """Put into words what was assumed because nothing in the dump tells it."""
    words = []
    if not cluster.policy:
        words.append(
            "sandboxWorkloads.enabled is true and defaultWorkload unknown (no ClusterPolicy): workload labels count,"
            " and a node without one is judged by its deploy labels"
        )
    if not cluster.version_text:
        words.append(
            "operator %d.%d, the newest known (no Deployment, DaemonSet or Pod tells its version)" % cluster.version
        )
    return words


# -------------------- outcome.py
"""What a check gives: findings by the nodes that have them, and what could not be read.

Private to the collection gpuwl.sandbox.
"""

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Tuple



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


# -------------------- checking.py
"""Judges all nodes of some dumps by a profile, in one pass and in little memory.

Private to the collection gpuwl.sandbox. Of each node only its name is kept; what the rules read of it is kept once
for all nodes that are alike, and judged once.
"""

import os
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Sequence, Set, Tuple


# So many different nodes are remembered by the profile lab, and by the hint at what the profile operator would say.
_MOST_DIFFERENT = 2000


class LabCheck:
    """Profile `lab`: keeps what bad nodes are like, in the order of the dumps, and puts it into words when asked."""

    def __init__(self, ignores: FrozenSet[Tuple[str, str]]) -> None:
        self.names: Dict[str, List[str]] = {}
        self._ignores = ignores
        self._bad: List[Tuple[LabFacts, str, str]] = []
        self._known: Dict[LabFacts, bool] = {}

    def take(self, node: Dict[str, Any], source: str) -> bool:
        """Judge a Node; say whether it is bad."""
        if not is_labelled(node):
            return False
        name, facts = node["metadata"]["name"], lab_facts(node)
        self.names.setdefault(source, []).append(name)
        if self._is_healthy(facts):
            return False
        self._bad.append((facts, name, source))
        return True

    def _is_healthy(self, facts: LabFacts) -> bool:
        """Judge the same only once: most nodes of a pool are alike."""
        # Other values may not be hashable, or equal and yet different: 1 and true.
        if not isinstance(facts[0], str) or not all(isinstance(quantity, str) for _name, quantity in facts[1]):
            return lab_is_healthy(facts)
        if facts not in self._known:
            if len(self._known) >= _MOST_DIFFERENT:
                self._known.clear()
            self._known[facts] = lab_is_healthy(facts)
        return self._known[facts]

    @property
    def checked(self) -> int:
        """The number of nodes judged."""
        return sum(map(len, self.names.values()))

    def forget(self, source: str) -> None:
        """Forget the nodes of a file that turned out unreadable."""
        self.names.pop(source, None)
        self._bad = [bad for bad in self._bad if bad[2] != source]

    def __iter__(self) -> Iterator[Group]:
        """Give a group per bad node, ascending by name."""
        for facts, name, source in sorted(self._bad, key=lambda bad: bad[1]):
            found = lab_draft(facts)
            yield Group(found, "Node", [(name, source)], "--ignore" if _is_ignored(self._ignores, found, name) else "")


class OperatorCheck:
    """Profile `operator`: keeps what nodes are like until all that surrounds them is known."""

    def __init__(self, settings: Settings) -> None:
        self.checked = 0
        self.names: Dict[str, List[str]] = {}
        self._ignores = settings.ignores
        self._surroundings = Surroundings(settings.policy, settings.version, settings.saw_slices)
        self._labels: Dict[Any, Any] = {}
        # Facts -> source's place -> (source's path, names)
        self._nodes: Dict[NodeFacts, Dict[Tuple[str, ...], Tuple[str, List[str]]]] = {}
        self._forgotten: Set[Tuple[str, ...]] = set()
        self._groups: Dict[Tuple[Draft, str, str], Group] = {}
        self._clusters: Dict[Cluster, None] = {}

    def take(self, node: Dict[str, Any], source: str, place: Tuple[str, ...]) -> None:
        """Note a Node."""
        facts = facts_of(node)
        if facts not in self._nodes:
            # Many nodes differ in a quantity alone: their labels are kept once.
            facts = facts._replace(labels=self._labels.setdefault(facts.labels, facts.labels))
        at = self._nodes.setdefault(facts, {})
        at.setdefault(place, (source, []))[1].append(node["metadata"]["name"])

    def forget(self, place: Tuple[str, ...]) -> None:
        """Forget the nodes of a file that turned out unreadable."""
        self._forgotten.add(place)

    def take_beside(self, kind: str, item: Dict[str, Any], source: str, place: Tuple[str, ...]) -> None:
        """Note an object of another kind; raises ValueError for one that cannot be."""
        self._surroundings.take(kind, item, source, place)

    def different(self) -> int:
        """Return how many nodes are noted, alike ones counted once."""
        return len(self._nodes)

    def judge(self) -> List[Group]:
        """Judge what was noted; return the groups, the gravest first, then by rule."""
        for facts in list(self._nodes):
            # The facts go as the findings come: a dump in which no node is like another needs no room for both.
            places = self._nodes.pop(facts)
            for place in self._forgotten & places.keys():
                del places[place]
            for place, source, names in _once(places):
                cluster = self._surroundings.cluster_at(place)
                self._clusters[cluster] = None
                by_dra = [name for name in names if name in cluster.slice_nodes] if cluster.slice_nodes else []
                if by_dra:
                    self._judge_alike(facts, cluster, True, by_dra, source)
                    names = [name for name in names if name not in cluster.slice_nodes]
                if names:
                    self._judge_alike(facts, cluster, False, names, source)
        for cluster in self._clusters:
            for found in judge_cluster(cluster):
                kind = "GPUCluster" if found.rule == "conflicting-gpu-cluster" else "ClusterPolicy"
                name = found.evidence[0][1]
                silent = "--ignore" if _is_ignored(self._ignores, found, name) else ""
                self._add(found, kind, [(name, cluster.policy_source)], silent)
        order = {severity: at for at, severity in enumerate(SEVERITIES)}
        return sorted(
            self._groups.values(),
            key=lambda one: (order[one.draft.severity], one.draft.rule, one.draft.message, one.silenced),
        )

    def clusters(self) -> List[Cluster]:
        """Return the clusters that nodes were judged in."""
        return list(self._clusters)

    def _judge_alike(self, facts: NodeFacts, cluster: Cluster, by_dra: bool, names: List[str], source: str) -> None:
        drafts = judge_operator(facts, cluster, by_dra)
        if is_judged(facts, cluster, by_dra):
            self.checked += len(names)
            self.names.setdefault(source, []).extend(names)
        reasons = {rule: str(reason).strip() for rule, reason in facts.ignores if isinstance(reason, str)}
        for found in drafts:
            subjects = [(name, source) for name in names if not _is_ignored(self._ignores, found, name)]
            silent = [(name, source) for name in names if _is_ignored(self._ignores, found, name)]
            self._add(found, "Node", silent, "--ignore")
            self._add(found, "Node", subjects, reasons.get(found.rule, ""))

    def _add(self, found: Draft, kind: str, subjects: List[Tuple[str, str]], silenced: str) -> None:
        if subjects:
            key = (found, kind, silenced)
            if key not in self._groups:
                self._groups[key] = Group(found, kind, [], silenced)
            self._groups[key].subjects.extend(subjects)


def _is_ignored(ignores: FrozenSet[Tuple[str, str]], found: Draft, name: str) -> bool:
    return bool(ignores) and ((found.rule, "") in ignores or (found.rule, name) in ignores)


def _once(places: Dict[Tuple[str, ...], Tuple[str, List[str]]]) -> Iterator[Tuple[Tuple[str, ...], str, List[str]]]:
    """Give (place, source, names), leaving out nodes that another file of the same folder shows just so.

    A must-gather has the same node as an object and as text. Within one file a node that stands twice is judged twice.
    """
    if len(places) == 1:
        for place, (source, names) in places.items():
            yield place, source, names
        return
    seen: Dict[Tuple[str, ...], Set[str]] = {}
    for place, (source, names) in places.items():
        known = seen.setdefault(place[:-1], set())
        fresh = [name for name in names if name not in known]
        known.update(fresh)
        if fresh:
            yield place, source, fresh


def check_paths(paths: Sequence[str], settings: Settings, progress: Progress = None, hint: bool = False) -> Outcome:
    """Judge the nodes in files, folders, archives or standard input ("-"). Nothing is raised for what they hold.

    hint: whether to say which nodes are bad by the profile `lab` and not by `operator`.
    """
    paths = list({path if path == "-" else os.path.normpath(path): path for path in paths}.values())
    operator = OperatorCheck(settings)
    wrong: List[str] = []
    takers = _takers(operator, wrong)
    if settings.profile == "operator":
        sources = read_inputs(paths, takers, settings.max_size, progress)
        for source in sources:
            if source.error:
                operator.forget(source.place)
        errors = _errors(sources) + wrong
        groups = operator.judge()
        return Outcome("operator", sources, errors, operator.checked, operator.names, groups, operator.clusters())
    lab = LabCheck(settings.ignores)

    def take(node: Dict[str, Any], source: Source) -> None:
        if lab.take(node, source.path) and hint and operator.different() <= _MOST_DIFFERENT:
            operator.take(node, source.path, source.place)

    # A Pod's form would be checked, and the lab's checker leaves other kinds alone.
    beside = {kind: takers[kind] for kind in CONTEXT_KINDS if kind != "Pod"} if hint else {}
    sources = read_inputs(paths, {**beside, "Node": take}, settings.max_size, progress)
    for source in sources:
        if source.error:
            lab.forget(source.path)
    outcome = Outcome("lab", sources, _errors(sources), lab.checked, lab.names, lab, [])
    return outcome._replace(cleared=tuple(_cleared(operator, lab))) if hint else outcome


def check_objects(nodes: Any, settings: Settings, beside: Sequence[Any] = ()) -> Outcome:
    """Judge nodes in memory: a list of them, a List or NodeList, or one Node.

    beside: further objects that tell about the cluster; those in a List among the nodes count too.
    Raises objects.Unreadable, and ValueError for a ClusterPolicy that cannot be.
    """
    lab, operator = LabCheck(settings.ignores), OperatorCheck(settings)

    def take(node: Dict[str, Any]) -> None:
        _check_keys(node)
        if settings.profile == "lab":
            lab.take(node, "")
        else:
            operator.take(node, "", ())

    for item in [*beside, *_items(nodes)]:
        if isinstance(item, dict) and item.get("kind") in CONTEXT_KINDS:
            operator.take_beside(item["kind"], item, "", ())
    collect(nodes, "Node", take)
    if settings.profile == "lab":
        return Outcome("lab", [], [], lab.checked, lab.names, lab, [])
    groups = operator.judge()
    return Outcome("operator", [], [], operator.checked, operator.names, groups, operator.clusters())


def _check_keys(node: Dict[str, Any]) -> None:
    """Refuse keys that are no texts; what was read from a file has none, variables of a play may."""
    status = node.get("status") or {}
    fields = {f"metadata.{field}": node["metadata"].get(field) for field in ("labels", "annotations")}
    fields.update({f"status.{field}": status.get(field) for field in ("capacity", "allocatable")})
    for field, found in fields.items():
        for key in found if isinstance(found, dict) else ():
            if not isinstance(key, str):
                raise Unreadable(f"Node {node['metadata']['name']}: a key of {field} is {key!r}, expected a string")


def _items(data: Any) -> List[Any]:
    items = data.get("items") if isinstance(data, dict) else data
    return items if isinstance(items, list) else []


def _cleared(operator: OperatorCheck, groups: Iterable[Group]) -> List[str]:
    """Return the bad nodes about which the profile operator has nothing but information.

    None where so many nodes are so different that a hint would take more memory than the check.
    """
    if operator.different() > _MOST_DIFFERENT:
        return []
    wrong = {
        name
        for group in operator.judge()
        if group.draft.severity != "info" and group.kind == "Node"
        for name, _source in group.subjects
    }
    return [name for group in groups for name, _source in group.subjects if name not in wrong]


def _takers(check: OperatorCheck, wrong: List[str]) -> Dict[str, Callable[[Dict[str, Any], Source], None]]:
    """Return what takes each kind; what is wrong with an object beside the nodes is added to `wrong`."""

    def beside(kind: str) -> Callable[[Dict[str, Any], Source], None]:
        def take(item: Dict[str, Any], source: Source) -> None:
            try:
                check.take_beside(kind, item, source.path, source.place)
            except ValueError as error:
                wrong.append(f"{source.path}: {error}")

        return take

    takers = {kind: beside(kind) for kind in CONTEXT_KINDS}
    takers["Node"] = lambda node, source: check.take(node, source.path, source.place)
    return takers


def _errors(sources: Sequence[Source]) -> List[str]:
    """Return why something could not be read, a line each; that there is no node in all of it counts too."""
    errors = [f"{source.path}: {source.error}" for source in sources if source.error]
    if errors or any(source.counts.get("Node") for source in sources):
        return errors
    read = [source for source in sources if not source.left_out]
    if any(not source.complaint for source in read):
        return []  # an empty List of nodes is a dump
    complaints = [f"{source.path}: {source.complaint}" for source in read]
    return (
        complaints[:1]
        or [f"{source.path}: {source.left_out}" for source in sources][:1]
        or ["there is nothing to read"]
    )


# -------------------- lab_report.py
"""The outcome of a check by the profile `lab`, as lines and as JSON.

Private to the collection gpuwl.sandbox. Source of the lines: the lab's step 8.
"""

from typing import Any, Dict, Iterator



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


# -------------------- operator_report.py
"""The outcome of a check by the profile `operator`, as text for people and as JSON.

Private to the collection gpuwl.sandbox. Nodes with one fault are one block.
"""

import json
from typing import Any, Dict, Iterator, List, Sequence


_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "info": "\x1b[36m"}
_PLAIN = "\x1b[0m"
# So many ranges of names, and values of one field, are shown; the rest is counted.
_MOST_RANGES = 40
_MOST_VALUES = 4


def operator_text(outcome: Outcome, colour: bool = False) -> Iterator[str]:
    """Give the lines: a block for each fault, the gravest first, then what was judged and what could not be.

    colour: whether to mark severities by the escape sequences of terminals.
    """
    several = len(outcome.names) > 1
    for groups in outcome.faults():
        yield from fault_lines(groups, colour, several)
        yield ""
    yield _summary(outcome)
    yield from silenced_lines(outcome)
    yield from left_out_lines(outcome)
    for words in told(outcome.clusters):
        yield "Read: " + one_line(words)
    for words in assumed(outcome.clusters):
        yield "Assumed: " + one_line(words)
    for missing in not_judged(outcome):
        yield "Not judged: {}, because {}".format(", ".join(missing["rules"]), missing["why"])
    ask = ask_for(outcome)
    if ask:
        yield "Ask for: " + ask


def fault_lines(groups: List[Group], colour: bool, several: bool) -> Iterator[str]:
    """Give the lines of one fault; several: whether nodes came from more than one file, so that it is to be told."""
    first = groups[0].draft
    subjects = [subject for group in groups for subject in group.subjects]
    severity = first.severity.upper()
    severity = f"{_COLOURS[first.severity]}{severity}{_PLAIN}" if colour else severity
    names = [name for name, _source in subjects]
    kind = groups[0].kind
    count = "" if kind != "Node" else "%d node%s: " % (len(names), "" if len(names) == 1 else "s")
    yield "{} {}  {}{}".format(severity, first.rule, count or kind + " ", one_line(ranges(names, _MOST_RANGES)))
    yield "  " + one_line(first.message)
    if several:
        sources = list(dict.fromkeys(source for _name, source in subjects))
        more = f" and {len(sources) - _MOST_VALUES} more" if len(sources) > _MOST_VALUES else ""
        yield "  in     " + one_line(", ".join(sources[:_MOST_VALUES]) + more)
    for line in _evidence(groups):
        yield "  found  " + line
    yield "  do     " + one_line(first.remedy.replace(NODE, shell_names(names)))
    if "kubectl patch clusterpolicy" in first.remedy:
        yield "  note   this changes the whole cluster, not these nodes alone"


def _evidence(groups: List[Group]) -> Iterator[str]:
    """Give a line per field: its value as found, or the values with the number of nodes that have each."""
    fields: Dict[str, Dict[str, int]] = {}
    for group in groups:
        for field, value in group.draft.evidence:
            shown = "(absent)" if value is None else value if isinstance(value, str) and value else json.dumps(value)
            counts = fields.setdefault(field, {})
            counts[shown] = counts.get(shown, 0) + len(group.subjects)
    for field, counts in fields.items():
        values = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
        if len(values) == 1:
            yield one_line(f"{field} = {values[0][0]}")
            continue
        words = ["%s (%d)" % value for value in values[:_MOST_VALUES]]
        words += ["%d more values" % (len(values) - _MOST_VALUES)] if len(values) > _MOST_VALUES else []
        yield one_line(f"{field} = {', '.join(words)}")


def _summary(outcome: Outcome) -> str:
    counts = {severity: 0 for severity in SEVERITIES}
    for group in outcome.counted():
        counts[group.draft.severity] += len(group.subjects)
    found = ", ".join("%d %s" % (count, plural(severity, count)) for severity, count in counts.items())
    return "%d %s judged by the profile operator: %s" % (outcome.checked, plural("node", outcome.checked), found)


def plural(word: str, count: int) -> str:
    """Return a word such as error, with an s unless there is one of it."""
    return word if count == 1 or word == "info" else word + "s"


def silenced_lines(outcome: Outcome) -> Iterator[str]:
    """Give the lines that tell which findings do not count, and why."""
    silent = [group for group in outcome.groups if group.silenced]
    if not silent:
        return
    yield "Silenced: %d %s" % (
        sum(len(group.subjects) for group in silent),
        plural("finding", sum(len(group.subjects) for group in silent)),
    )
    for group in silent:
        names = ranges([name for name, _source in group.subjects], _MOST_RANGES)
        why = "by --ignore" if group.silenced == "--ignore" else f'by annotation: "{group.silenced}"'
        yield one_line(f"  {group.draft.rule} on {names} {why}")


def left_out_lines(outcome: Outcome) -> Iterator[str]:
    """Give the line that says what of a folder or an archive was not read."""
    left_out = [f"{source.path} ({source.left_out})" for source in outcome.sources if source.left_out]
    if left_out:
        more = f" and {len(left_out) - _MOST_VALUES} more" if len(left_out) > _MOST_VALUES else ""
        yield "Left out: " + one_line(", ".join(left_out[:_MOST_VALUES]) + more)


def told(clusters: Sequence[Cluster]) -> List[str]:
    """Put into words what the dumps tell about each cluster, without repeating."""
    words = []
    for cluster in clusters:
        policy = cluster.policy
        if policy:
            sandbox = "on" if policy.sandbox else "off"
            words.append(
                f"ClusterPolicy {policy.name} ({cluster.policy_source}): sandboxWorkloads {sandbox},"
                f" default {policy.default}, mode {policy.mode}"
            )
        if cluster.version_text:
            is_known = parse_version(cluster.version_text) == cluster.version
            known = "" if is_known else ", judged as %d.%d, the nearest known" % cluster.version
            words.append(f"operator {cluster.version_text} ({cluster.version_source}){known}")
    return list(dict.fromkeys(words))


def assumed(clusters: Sequence[Cluster]) -> List[str]:
    """Put into words what was assumed for want of better, without repeating."""
    return list(dict.fromkeys(words for cluster in clusters for words in assumptions(cluster)))


def not_judged(outcome: Outcome) -> List[Dict[str, Any]]:
    """Return what could not be judged, for each kind that is missing: {kind, rules, why}."""
    missing = []
    clusters = outcome.clusters
    if any(cluster.policy is None and not cluster.gpu_clusters for cluster in clusters):
        missing.append(_lacking("ClusterPolicy", "there is no ClusterPolicy in the dump"))
    if any(not cluster.version_text for cluster in clusters):
        missing.append(_lacking("version", "no Deployment, DaemonSet or Pod in the dump tells the operator's version"))
    seen = {group.draft.rule for group in outcome.groups}
    if any(not cluster.saw_slices for cluster in clusters) and "dra-node" not in seen:
        missing.append(
            _lacking("ResourceSlice", "there is no ResourceSlice in the dump: DRA shows in deploy labels alone")
        )
    if any(source.form == "describe" for source in outcome.sources):
        why = "the text of kubectl describe tells no kind but Node, and cuts long annotations"
        missing.append({"kind": "Node", "rules": ["ignore-without-reason"], "why": why})
    return missing


def _lacking(needs: str, why: str) -> Dict[str, Any]:
    rules = [rule for rule, page in RULE_PAGES.items() if page.needs == needs]
    return {"kind": "Deployment" if needs == "version" else needs, "rules": rules, "why": why}


def ask_for(outcome: Outcome) -> str:
    """Return the one command whose output would tell what is missing, "" if nothing is."""
    kinds = [missing["kind"] for missing in not_judged(outcome)]
    if not set(kinds) - {"ResourceSlice"}:
        return ""
    resources = ["nodes"]
    for kind in kinds:
        resources += ["deployments.apps", "daemonsets.apps"] if kind == "Deployment" else []
        # Where DRA is not served, asking for ResourceSlices would make the whole command fail.
        resources += [CONTEXT_KINDS[kind]] if kind == "ClusterPolicy" else []
    return f"kubectl get {','.join(resources)} --all-namespaces -o yaml > dump.yaml"


def operator_json(outcome: Outcome) -> Iterator[str]:
    """Give the lines of a JSON document: {profile, checked, findings, silenced, read, assumed, not_judged, ask_for, errors}."""
    return json_object(
        {
            "profile": "operator",
            "checked": outcome.checked,
            "findings": outcome.findings(),
            "silenced": outcome.silenced(),
            "read": told(outcome.clusters),
            "assumed": assumed(outcome.clusters),
            "not_judged": not_judged(outcome),
            "ask_for": ask_for(outcome),
            "left_out": [
                {"path": source.path, "why": source.left_out} for source in outcome.sources if source.left_out
            ],
            "errors": outcome.errors,
        }
    )


# -------------------- check_config.py
"""The command line of the offline checker.

Private to the collection gpuwl.sandbox. Source: the lab's step 8, which one PATH without options follows to the letter.
"""

import os
import signal
import sys
import time
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple


USAGE = """\
usage: check-config.sh [--profile lab|operator] [--cluster-policy FILE] [--operator-version V]
                       [--format text|json] [--fail-on error|warning|info]
                       [--ignore RULE[@NODE]]... [--require-nodes] [--max-size SIZE] PATH...
       check-config.sh --explain RULE

Judges whether the nodes in saved output of kubectl are what their label nvidia.com/gpu.workload.config
says. No cluster is contacted. PATH is a file, a folder, an archive or - for standard input: JSON or
YAML as kubectl prints it, the text of `kubectl describe node`, the GPU Operator's must-gather folder,
also as .gz, .tar or .tar.gz.

One PATH and no option: prints OK=<nodes checked> and exits with 0, or a line MISMATCH=<node> <reason>
for each bad node and exits with 1.

  --profile P           lab: one resource name per node, to the letter (default)
                        operator: what the real GPU Operator makes of the label
  --cluster-policy FILE the ClusterPolicy, if it is not in a PATH
  --operator-version V  such as 26.3.3, if no Deployment, DaemonSet or Pod in a PATH tells it
  --format F            text (default) or json
  --fail-on S           the mildest severity that makes the exit code 1: error (default), warning, info
  --ignore RULE[@NODE]  do not count this rule's findings, on this node or on all; can be repeated
  --require-nodes       exit with 3 if there is no node that the profile judges
  --max-size SIZE       read at most so much, unpacked: 4Gi (default)
  --explain RULE        print what a rule means, why, and where it is known from

Exit codes: 0 all is well; 1 findings; 2 unreadable input or wrong usage; 3 no node, if one is required."""


class Usage(ValueError):
    """A wrong command line; the message says what is wrong with it."""


def main(arguments: List[str]) -> int:
    """Run the checker with its command line arguments; return the exit code."""
    lines: Iterator[str] = iter(())
    try:
        exit_code, lines, wrong = _run(arguments)
    except Usage as error:
        exit_code, wrong = 2, [f"{error}; see --help"]
    try:
        _write(1, lines)
    except OSError as error:
        exit_code, wrong = 2, [f"cannot write the result: {error.strerror}"]
    try:
        _write(2, ("check-config.sh: " + one_line(line) for line in wrong))
    except OSError:
        pass  # nobody is left to be told
    return exit_code


def _run(arguments: List[str]) -> Tuple[int, Iterator[str], List[str]]:
    """Return the exit code, the lines for standard output and those for standard error."""
    if arguments in (["-h"], ["--help"]):
        return 0, iter([USAGE]), []
    if len(arguments) == 1 and (not arguments[0].startswith("--") or os.path.exists(arguments[0])):
        return _one_path(arguments[0])
    options = _options(arguments)
    if options["explain"]:
        return 0, iter([explain(options["explain"])]), []
    progress = _Progress(False)
    outcome = check_paths(options["paths"], _settings(options), progress)
    progress.end()
    lines = text_of(outcome, options["format"], _in_colour())
    return outcome.exit_code(options["fail_on"], options["require_nodes"]), lines, outcome.errors


def _one_path(path: str) -> Tuple[int, Iterator[str], List[str]]:
    """Follow the lab's step 8 to the letter; only a hint is added, on standard error."""
    progress = _Progress(True)
    outcome = check_paths([path], Settings(), progress, hint=True)
    progress.end()
    wrong = outcome.errors
    if outcome.cleared and not wrong:
        bad = sum(len(group.subjects) for group in outcome.groups)
        names = ranges(outcome.cleared)
        wrong = [
            "hint: --profile operator sees nothing wrong with %d of these %d: %s" % (len(outcome.cleared), bad, names)
        ]
    return outcome.exit_code(), text_of(outcome, "text", False), wrong


def text_of(outcome: Outcome, form: str, colour: bool = False) -> Iterator[str]:
    """Give the lines that report an outcome; form: text or json."""
    if outcome.profile == "lab":
        return lab_json(outcome) if form == "json" else lab_text(outcome)
    return operator_json(outcome) if form == "json" else operator_text(outcome, colour)


def _options(arguments: List[str]) -> Dict[str, Any]:
    """Read the command line. Raises Usage."""
    import argparse  # here, because the usual call of one PATH does without

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise Usage(message)

    parser = Parser(prog="check-config.sh", add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", choices=PROFILES, default="lab")
    parser.add_argument("--cluster-policy")
    parser.add_argument("--operator-version", default="")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--fail-on", choices=SEVERITIES, default="error")
    parser.add_argument("--ignore", action="append", default=[])
    parser.add_argument("--require-nodes", action="store_true")
    parser.add_argument("--max-size", default="4Gi")
    parser.add_argument("--explain")
    parser.add_argument("paths", nargs="*")
    options = vars(parser.parse_intermixed_args(arguments))
    if options["explain"] and options["explain"] not in RULE_PAGES:
        raise Usage(
            "--explain {}: there is no such rule, only {}".format(options["explain"], ", ".join(sorted(RULE_PAGES)))
        )
    if options["explain"] and options["paths"]:
        raise Usage("--explain {}: expected no PATH beside it".format(options["explain"]))
    if options["cluster_policy"] == "":
        raise Usage("--cluster-policy: expected the path of a file")
    if options["profile"] == "lab" and (options["cluster_policy"] or options["operator_version"]):
        raise Usage("--cluster-policy and --operator-version belong to --profile operator; the profile is lab")
    if not options["paths"] and not options["explain"]:
        raise Usage("expected at least one PATH")
    return options


def _settings(options: Dict[str, Any]) -> Settings:
    """Turn the options into what a check is asked for. Raises Usage."""
    named = ("profile", "cluster_policy", "operator_version", "ignore", "max_size")
    try:
        return settings_from(**{name: options[name] for name in named})
    except ValueError as error:
        raise Usage(str(error)) from None


class _Progress:
    """Tells on standard error what is being read, once that takes more than two seconds."""

    def __init__(self, only_on_terminal: bool) -> None:
        self._terminal = _is_terminal(2)
        self._silent = only_on_terminal and not self._terminal
        self._next = time.monotonic() + 2
        self._shown = False

    def __call__(self, source: Source, read: int, total: int) -> None:
        """Note that so many bytes of a file are read; total: its size, 0 if that is not known."""
        now = time.monotonic()
        if self._silent or now < self._next:
            return
        self._next = now + (0.5 if self._terminal else 10)
        share = " (%d %%)" % (100 * read // total) if total else ""
        text = f"reading {one_line(source.path)}: {read // 1000000} MB{share}"
        self._shown = self._terminal
        self._tell(f"\r\x1b[K{text}" if self._terminal else text + "\n")

    def end(self) -> None:
        """Take the line off the terminal again."""
        if self._shown:
            self._tell("\r\x1b[K")

    def _tell(self, text: str) -> None:
        try:
            os.write(2, text.encode("utf-8", "backslashreplace"))
        except OSError:
            self._silent = True


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _in_colour() -> bool:
    """Say whether to mark severities: on a terminal that can, unless NO_COLOR (no-color.org) forbids it."""
    return _is_terminal(1) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "dumb")


def _write(descriptor: int, lines: Iterable[str]) -> None:
    """Write lines, in UTF-8 whatever the locale says.

    Not through sys.stdout, which may be None, and which Python flushes once more
    at exit, with a traceback if that fails.
    """
    stream: Optional[Any] = None
    try:
        for line in lines:
            stream = stream or os.fdopen(os.dup(descriptor), "wb")
            stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
    finally:
        if stream:
            stream.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    raise SystemExit(main(sys.argv[1:]))
