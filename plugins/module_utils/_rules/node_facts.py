# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the profile `operator` reads in a Node, small and comparable.

Private to the collection gpuwl.sandbox. Nodes of one pool mostly have the same facts: each set of facts is judged
once, however many nodes share it, and only the names are kept of each.
"""

import json
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import RESOURCE_PREFIX, WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.resource_names import (
    CONTAINER,
    KATA,
    MIG,
    PASSTHROUGH,
    SHARED,
    VGPU,
    classify,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    CONTAINER_WORKLOAD,
    DEPLOY_PREFIX,
    PASSTHROUGH_WORKLOAD,
    PCI_LABELS,
    VGPU_WORKLOAD,
    has_gpu,
)

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
