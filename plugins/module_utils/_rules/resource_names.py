# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
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

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.device_catalogue import device_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.slips import SlipFinder
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.vgpu_catalogue import vgpu_types

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
