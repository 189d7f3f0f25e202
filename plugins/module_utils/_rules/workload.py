# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
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
