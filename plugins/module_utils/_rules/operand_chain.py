# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which operand needs which: the chain of the lab, and what the operator's operands wait for.

Private to the collection gpuwl.sandbox. Sources: the lab's text on switching operands by node; NVIDIA/gpu-operator
assets/*/*daemonset.yaml (init containers, the files below /run/nvidia/validations that they wait for) and
cmd/nvidia-validator/main.go, which writes these files.
"""

from typing import Callable, Dict, List, Tuple

DRIVER, TOOLKIT, PLUGIN = "driver", "container-toolkit", "device-plugin"
LAB_CHAIN = (DRIVER, TOOLKIT, PLUGIN, "gpu-feature-discovery", "operator-validator")

Needs = Dict[str, Tuple[str, ...]]

# What comes to virtual machines needs the same in a lab as with an operator.
_OF_VMS: Needs = {
    "sandbox-validator": ("vfio-manager", "cc-manager", "vgpu-manager", "vgpu-device-manager"),
    "vgpu-device-manager": ("vgpu-manager",),
    "sandbox-device-plugin": ("sandbox-validator",),
    "kata-sandbox-device-plugin": ("sandbox-validator",),
}
LAB_NEEDS: Needs = {**{LAB_CHAIN[at]: (LAB_CHAIN[at - 1],) for at in range(1, len(LAB_CHAIN))}, **_OF_VMS}
OPERATOR_NEEDS: Needs = {
    TOOLKIT: (DRIVER,),
    PLUGIN: (TOOLKIT,),
    "gpu-feature-discovery": (TOOLKIT,),
    "dcgm": (TOOLKIT,),
    "dcgm-exporter": (TOOLKIT,),
    "mig-manager": (TOOLKIT,),
    "operator-validator": (DRIVER, TOOLKIT, PLUGIN),
    **_OF_VMS,
}


def unmet(operand: str, needs: Needs, runs: Callable[[str], bool], is_met: Callable[[str], bool]) -> List[str]:
    """Return what an operand needs and does not have on a node, in the order of the chain.

    runs: whether an operand runs there. is_met: whether one that does not run is not needed, as the host brings it or
    nobody wants it there; then what that one needs takes its place.
    """
    found: List[str] = []
    for needed in needs.get(operand, ()):
        if runs(needed):
            continue
        for one in unmet(needed, needs, runs, is_met) if is_met(needed) else [needed]:
            if one not in found:
                found.append(one)
    return found
