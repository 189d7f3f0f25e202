# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the GPU Operator makes of a node's labels when it goes through the nodes.

Private to the collection gpuwl.sandbox. Source: NVIDIA/gpu-operator controllers/state_manager.go (labelGPUNodes,
addGPUStateLabels, removeGPUStateLabels) at v25.10.1 and v26.3.3, controllers/nodelabeling_controller.go at v26.7.0, and
what these versions were seen to do on a real API server.
"""

from typing import Any, Dict, FrozenSet, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    CONTAINER_WORKLOAD,
    DEPLOY_PREFIX,
    GPU_PRESENT,
    MODES,
    PCI_LABELS,
    WORKLOADS,
    Workload,
    can_do_mig,
    effective_workload,
    operands_disabled,
    operands_of,
)

MIG_CONFIG = "nvidia.com/mig.config"
_MIG_MANAGER = "mig-manager"
# Deploy labels of the DRA stack, which came with 26.7 and is swept like the others.
_DRA_OPERANDS = frozenset(["dra-driver", "dra-validator", "dcgm-dra", "dcgm-exporter-dra"])


def workload_of(labels: Dict[str, Any], policy: Policy, version: Tuple[int, int]) -> Workload:
    """Return what the operator takes a node for, by its labels. version: one of workload.KNOWN_VERSIONS."""
    return effective_workload(labels.get(WORKLOAD_LABEL), policy.sandbox, policy.default, version)


def is_found(labels: Dict[str, Any]) -> bool:
    """Say whether Node Feature Discovery has found an NVIDIA GPU; only the literal "true" counts."""
    return any(labels.get(key) == "true" for key in PCI_LABELS)


def label_node(labels: Dict[str, Any], policy: Policy, version: Tuple[int, int]) -> Dict[str, Any]:
    """Return a node's labels after the operator has gone through the nodes.

    labels: all of the node's; version: one of workload.KNOWN_VERSIONS.
    """
    labels = dict(labels)
    was_present = labels.get(GPU_PRESENT) == "true"
    if is_found(labels):
        labels[GPU_PRESENT] = "true"
    elif was_present:
        labels[GPU_PRESENT] = "false"
    if not is_found(labels):
        # Before 26.7 only a node that was one with a GPU until now is swept.
        return _without(labels, version, frozenset()) if was_present or version >= (26, 7) else labels
    if operands_disabled(labels):
        labels = _without(labels, version, frozenset())
    else:
        workload = workload_of(labels, policy, version).value
        mode = policy.mode if version >= (26, 3) else MODES[0]
        wanted = operands_of(workload, mode, version)
        # The operator never takes mig-manager off a container node.
        kept = wanted | {_MIG_MANAGER} if workload == CONTAINER_WORKLOAD else wanted
        labels = _without(labels, version, kept)
        for operand in wanted:
            value = labels.get(DEPLOY_PREFIX + operand)
            if value is None or (value == "" and version >= (26, 7)):
                labels[DEPLOY_PREFIX + operand] = "true"
        if workload == CONTAINER_WORKLOAD and can_do_mig(labels):
            labels.setdefault(DEPLOY_PREFIX + _MIG_MANAGER, "true")
    if policy.is_enabled("migManager") and policy.mig_default and can_do_mig(labels) and not labels.get(MIG_CONFIG):
        labels[MIG_CONFIG] = policy.mig_default
    return labels


def operands_known_to(version: Tuple[int, int]) -> FrozenSet[str]:
    """Return the operands whose deploy labels a version sweeps; those that it does not know survive."""
    known = frozenset([_MIG_MANAGER]) | (_DRA_OPERANDS if version >= (26, 7) else frozenset())
    for workload in WORKLOADS:
        for mode in MODES:
            known |= operands_of(workload, mode, version)
    return known


def _without(labels: Dict[str, Any], version: Tuple[int, int], kept: FrozenSet[str]) -> Dict[str, Any]:
    """Sweep the deploy labels that a version knows, but for some."""
    swept = {DEPLOY_PREFIX + operand for operand in operands_known_to(version) - kept}
    return {key: value for key, value in labels.items() if key not in swept}
