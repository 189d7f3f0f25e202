# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which known resource name was probably meant by an unknown one?

Private to the collection gpuwl.sandbox. Names are compared with those of device_catalogue.py, vgpu_catalogue.py and
mig_catalogue.py and with the fixed names of NVIDIA's plugins. At most slips.MOST_SEARCHES different names
are searched for slips of the pen; spellings that differ by case or hyphens only are found however many there are.
"""

from functools import lru_cache
from typing import Dict, FrozenSet, List, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.device_catalogue import device_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.mig_catalogue import mig_profiles
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.resource_names import (
    GPU_DOMAIN,
    UNKNOWN,
    classify,
    is_model_of_kata,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.slips import SlipFinder
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.vgpu_catalogue import vgpu_types

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
