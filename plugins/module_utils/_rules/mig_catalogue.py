# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
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
