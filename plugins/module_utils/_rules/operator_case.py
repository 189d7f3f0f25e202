# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node as the profile `operator` looks at it, and what its rules answer.

Private to the collection gpuwl.sandbox.
"""

import json
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import Cluster
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import (
    DEFAULT_TOLERATIONS,
    Policy,
    is_tolerated,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE, Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_facts import FAKE_POOL, NodeFacts, NodeView
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import shell_word
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    DEPLOY_PREFIX,
    MODES,
    WORKLOADS,
    device_plugin_of,
    effective_workload,
    has_gpu,
    known_operands,
    operands_disabled,
    operands_of,
)

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
