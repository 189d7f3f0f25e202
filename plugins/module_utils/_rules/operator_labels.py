# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profile `operator`: does the workload label do anything, and do the deploy labels let the operands run?

Private to the collection gpuwl.sandbox. Sources: with each rule in rule_pages.py.
"""

import json
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_case import (
    UPGRADE_STATE,
    Case,
    draft,
    look_at,
    patch_policy,
    relabel,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.slips import SlipFinder
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    DEPLOY_PREFIX,
    GPU_PRESENT,
    OPERANDS_SWITCH,
    PASSTHROUGH_WORKLOAD,
    PCI_LABELS,
    WORKLOADS,
    can_do_mig,
    known_operands,
)

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
