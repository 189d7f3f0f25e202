# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes a node, or single operands of it, out of the GPU Operator's hands and back: which labels that changes.

Private to the collection gpuwl.sandbox. Source: NVIDIA/gpu-operator controllers/state_manager.go (addGPUStateLabels,
removeGPUStateLabels) and what v25.10.1, v26.3.3 and v26.7.0 were seen to do on a real API server: of
nvidia.com/gpu.deploy.operands only "false" counts, and takes all known deploy labels off, opt-outs among them; any other
value than "" of a known deploy label is honoured; a removed one comes back by itself before 26.7 alone.
"""

import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labelling import (
    is_found,
    label_node,
    operands_known_to,
    workload_of,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    DEPLOY_PREFIX,
    NEWEST_VERSION,
    OPERANDS_SWITCH,
    operands_disabled,
)

# Annotations of a node: why an operand is out, as text, and what its deploy label was before, as JSON (null for none).
REASON_PREFIX = "gpuwl.sandbox/operand."
WAS_PREFIX = "gpuwl.sandbox/operand-was."
# In place of an operand's name: the node as a whole, whose deploy labels are kept as {operand: value}.
WHOLE_NODE = "operands"
_OFF, _ON = "false", "true"

FORGETFUL = (
    'the operator forgets a deploy label of "false" when the node\'s workload changes away and back, or when the node loses Node Feature'
    " Discovery's label of its GPU and gets it again: take the operand out again then"
)
HOST_DRIVER = "the operator does not manage a driver that is installed on the host: its upgrades are yours"


class SwitchError(ValueError):
    """A node that can't be switched as asked; the message names the label, its value and what to do."""


class SwitchWish(NamedTuple):
    """What is asked of nodes."""

    out: bool  # else back in
    operands: Tuple[str, ...] = ()  # none for the node as a whole
    reason: str = ""
    force: bool = False  # whether values that another program wrote give way


class NodeSwitch(NamedTuple):
    """What is to be done to one node."""

    labels: Dict[str, Optional[str]]  # what changes, None for one that goes
    annotations: Dict[str, Optional[str]]
    before: Dict[str, str]  # all labels now
    settled: Dict[str, str]  # all labels once the operator has done its part
    by_operator: bool  # whether it is the operator that takes deploy labels off or sets them
    notes: Tuple[str, ...]  # what else to know; the same words for every node in the same case

    def changes(self) -> bool:
        """Say whether there is anything to write."""
        return bool(self.labels or self.annotations)


def plan_switch(node: Dict[str, Any], wish: SwitchWish, policy: Optional[Policy]) -> NodeSwitch:
    """Work out what a node needs to be as asked.

    node: a Node object. policy: the ClusterPolicy that an operator acts upon, None where no operator acts, so that the
    deploy labels must be taken off and restored here.
    Raises SwitchError where the node is in a state that must be looked at first.
    """
    draft = _Draft(node, policy)
    before, annotations = dict(draft.labels), dict(draft.annotations)
    if not wish.operands:
        (_take_node_out if wish.out else _bring_node_in)(draft, wish)
    elif operands_disabled(draft.labels):
        raise SwitchError(
            f"it is out as a whole ({OPERANDS_SWITCH}=false), where labels of single operands do nothing: bring it in first"
        )
    for operand in wish.operands:
        (_take_operand_out if wish.out else _bring_operand_in)(draft, operand, wish)
    labels = _difference(before, draft.labels)
    settled = dict(draft.labels)
    if draft.policy and OPERANDS_SWITCH in labels:
        settled = label_node(settled, draft.policy, NEWEST_VERSION)
    return NodeSwitch(
        labels=labels,
        annotations=_difference(annotations, draft.annotations),
        before=before,
        settled=settled,
        by_operator=draft.policy is not None and not wish.operands,
        notes=tuple(draft.notes),
    )


class _Draft:
    """A node's labels and annotations, changed step by step until they are as wished."""

    def __init__(self, node: Dict[str, Any], policy: Optional[Policy]) -> None:
        metadata = node["metadata"]
        self.labels: Dict[str, str] = dict(metadata.get("labels") or {})
        self.annotations: Dict[str, str] = dict(metadata.get("annotations") or {})
        # Before 26.7 the operator leaves alone what was never a node with a GPU; later there is nothing to switch there.
        self.policy = policy if is_found(self.labels) else None
        self.is_unmanaged = policy is not None and self.policy is None
        self.notes: List[str] = []

    def set_label(self, key: str, value: Optional[str]) -> None:
        if value is None:
            self.labels.pop(key, None)
        else:
            self.labels[key] = value

    def keep(self, what: str, was: Any) -> None:
        self.annotations[WAS_PREFIX + what] = json.dumps(was, sort_keys=True)

    def explain(self, what: str, reason: str) -> None:
        if reason:
            self.annotations[REASON_PREFIX + what] = reason

    def forget(self, what: str) -> None:
        for prefix in (WAS_PREFIX, REASON_PREFIX):
            self.annotations.pop(prefix + what, None)

    def is_kept(self, what: str) -> bool:
        return WAS_PREFIX + what in self.annotations

    def kept(self, what: str) -> Any:
        """Return what was kept: a label's value, None for no label; of the whole node {operand: value}."""
        key = WAS_PREFIX + what
        text = self.annotations.get(key, "{}" if what == WHOLE_NODE else "null")
        try:
            was = json.loads(text)
            good = _is_values(was) if what == WHOLE_NODE else was is None or isinstance(was, str)
        except ValueError:
            good = False
        if not good:
            raise SwitchError(
                f"its annotation {key} is damaged, and without it nobody knows what was there: {text[:100]!r}; mend or remove it"
            )
        return was

    def operator_sees_to(self, operand: str) -> bool:
        """Say whether an operator is there that knows the operand's deploy label."""
        return self.policy is not None and operand in operands_known_to(NEWEST_VERSION)

    def belongs(self, operand: str) -> bool:
        """Say whether the operator would set the operand's deploy label on this node, or leave it there."""
        if self.policy is None:
            return False
        key = DEPLOY_PREFIX + operand
        there = key in self.labels
        # Where it is not certain what the operator takes the node for, the label that is there tells.
        if there and not workload_of(self.labels, self.policy, NEWEST_VERSION).certain:
            return True
        tried = {**self.labels, key: _OFF} if there else self.labels
        return key in label_node(tried, self.policy, NEWEST_VERSION)


def _is_values(was: Any) -> bool:
    return isinstance(was, dict) and all(isinstance(value, str) for value in was.values())


def _difference(before: Dict[str, str], after: Dict[str, str]) -> Dict[str, Optional[str]]:
    return {key: after.get(key) for key in sorted({*before, *after}) if before.get(key) != after.get(key)}


def _take_node_out(draft: _Draft, wish: SwitchWish) -> None:
    """The operator takes opt-outs off with all other deploy labels, so what there is is kept in any case."""
    present = {
        operand: draft.labels[DEPLOY_PREFIX + operand]
        for operand in sorted(operands_known_to(NEWEST_VERSION))
        if DEPLOY_PREFIX + operand in draft.labels
    }
    already = operands_disabled(draft.labels)
    if not already and OPERANDS_SWITCH in draft.labels:
        present[WHOLE_NODE] = draft.labels[OPERANDS_SWITCH]
    if not already:
        draft.keep(WHOLE_NODE, present)
    elif draft.policy is None and present:
        draft.keep(WHOLE_NODE, {**draft.kept(WHOLE_NODE), **present})
    draft.labels[OPERANDS_SWITCH] = _OFF
    if draft.policy is None:
        for operand in present:
            if operand != WHOLE_NODE:
                del draft.labels[DEPLOY_PREFIX + operand]
    draft.explain(WHOLE_NODE, wish.reason)
    paused = [operand for operand, value in present.items() if "paused-for-" in value]
    if paused and not already:
        draft.notes.append(
            f"{', '.join(paused)} paused by another program, which is in the midst of a change: that pause is lost with the label"
        )


def _bring_node_in(draft: _Draft, _wish: SwitchWish) -> None:
    was = draft.kept(WHOLE_NODE)
    if operands_disabled(draft.labels):
        nobody = draft.policy is None and not draft.is_unmanaged
        if nobody and not draft.is_kept(WHOLE_NODE) and not _deploy_labels(draft.labels):
            draft.notes.append(
                "it was not taken out by this role, so what its deploy labels were is not known: no operator is there to set them, and none is on it"
            )
        draft.set_label(OPERANDS_SWITCH, was.get(WHOLE_NODE))
    for operand, value in was.items():
        key = DEPLOY_PREFIX + operand
        value = _restorable(value)
        if key in draft.labels or (value == _ON and draft.belongs(operand)):
            continue  # it came meanwhile, or the operator sets it
        draft.labels[key] = value
        if draft.operator_sees_to(operand) and not draft.belongs(operand):
            del draft.labels[key]  # the workload changed meanwhile, so the operator would take it off
    draft.forget(WHOLE_NODE)


def _deploy_labels(labels: Dict[str, str]) -> List[str]:
    return [key for key in labels if key.startswith(DEPLOY_PREFIX) and key != OPERANDS_SWITCH]


def _restorable(value: str) -> str:
    """Return what to put back for a value: who paused an operand has gone on since and would never resume it."""
    return _ON if value == "" or "paused-for-" in value else value


def _take_operand_out(draft: _Draft, operand: str, wish: SwitchWish) -> None:
    key = DEPLOY_PREFIX + operand
    value = draft.labels.get(key)
    if draft.is_unmanaged and value is None:
        draft.notes.append(
            f"{operand} is left alone: Node Feature Discovery found no GPU there, so the operator starts none"
        )
        return
    if draft.policy and draft.operator_sees_to(operand) and not draft.belongs(operand):
        workload = workload_of(draft.labels, draft.policy, NEWEST_VERSION).value
        draft.notes.append(
            f"{operand} is left alone: the operator takes the node for {workload}, and starts none there"
        )
        return
    if value not in (None, "", _ON, _OFF) and not wish.force:
        raise SwitchError(
            f"{key} is {json.dumps(value)}, which {_writer(str(value))}; the operand does not run there by that already,"
            f" and false would lose it: {'wait until it is true again' if 'paused-for-' in str(value) else 'set it to true first'}, or set force"
        )
    if value != _OFF:
        if draft.is_kept(operand):
            draft.notes.append(f"{operand} had been taken out before, and its label was {json.dumps(value)} again")
        draft.keep(operand, value)
        draft.labels[key] = _OFF
    draft.explain(operand, wish.reason)


def _bring_operand_in(draft: _Draft, operand: str, wish: SwitchWish) -> None:
    key = DEPLOY_PREFIX + operand
    value = draft.labels.get(key)
    by_operator = draft.operator_sees_to(operand)
    belongs = draft.belongs(operand)
    target = value
    if value == _OFF:
        was = draft.kept(operand) if draft.is_kept(operand) else _ON
        target = None if was is None or was == _OFF else _restorable(was)
    elif value == "" or (value not in (None, _ON) and wish.force):
        target = _ON
    elif value not in (None, _ON):
        draft.notes.append(f"{key} is {json.dumps(value)}, which {_writer(str(value))}: it is left so without force")
    if by_operator and belongs and target is None:
        # 26.7.0 does not bring a label back that is gone, so it is set rather than removed.
        target = _ON
    elif by_operator and not belongs and value in (_OFF, ""):
        target = None
    draft.set_label(key, target)
    draft.forget(operand)


def _writer(value: str) -> str:
    if value == "pre-installed":
        return "says that the driver is on the host"
    if "paused-for-" in value:
        what = value.partition("paused-for-")[2].replace("-", " ")
        return f"another program wrote for the time of a {what}"
    return "somebody wrote, and the operator honours"
