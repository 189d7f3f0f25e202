# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profile `operator`: do the resources that a node advertises fit what it is for?

Private to the collection gpuwl.sandbox. Only names that were positively classified are judged; an unknown one is
information. Sources: with each rule in rule_pages.py.
"""

import json
from typing import Any, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.near_names import near_miss, other_spelling
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_case import (
    Case,
    draft,
    look_at,
    patch_policy,
    relabel,
    tolerate,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.resource_names import (
    COMPANION,
    CONTAINER,
    KATA,
    MIG,
    PASSTHROUGH,
    SHARED,
    SHARING_SCHEDULER,
    UNKNOWN,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    DEPLOY_PREFIX,
    OPERANDS_SWITCH,
    WORKLOADS,
)

_PLUGIN_SECTIONS = {
    "device-plugin": "devicePlugin",
    "sandbox-device-plugin": "sandboxDevicePlugin",
    "kata-sandbox-device-plugin": "kataSandboxDevicePlugin",
}
_PLUGIN_APPS = {
    "device-plugin": "nvidia-device-plugin-daemonset",
    "sandbox-device-plugin": "nvidia-sandbox-device-plugin-daemonset",
    "kata-sandbox-device-plugin": "nvidia-kata-sandbox-device-plugin-daemonset",
}


def judge_quantities(case: Case) -> List[Draft]:
    """Quantities that are none, and devices that the node has but does not offer."""
    view = case.view
    drafts = []
    for name, problems in sorted(view.unusable.items()):
        message = f"the quantity of {name}: {'; '.join(problems)}"
        remedy = "Find out what wrote the node's status: kubectl get node {node} -o json --show-managed-fields"
        drafts.append(draft("invalid-resource-quantity", "error", message, remedy, view.evidence(name)))
    for name in sorted(view.capacity):
        total, offered = view.capacity[name], view.allocatable.get(name)
        if offered is None or total <= offered or total <= 0 or not view.use_of(name):
            continue
        evidence = view.evidence(name)
        if offered > 0:
            message = (
                f"not every device of {name} is offered: some are unhealthy, or the device plugin has just restarted"
            )
            drafts.append(draft("unhealthy-device", "warning", message, look_at(_app(case)), evidence))
        elif case.workload and view.use_of(name) != case.workload or _others_live(case, name):
            message = f"{name} is left over from an earlier use and is not offered any more; the kubelet sets it to 0 after five minutes"
            remedy = "Nothing; where no kubelet runs: " + clear_resources([name])
            drafts.append(draft("left-over-resource", "info", message, remedy, evidence))
        elif not case.changing() and not case.plugin_is_held():
            message = f"none of the devices of {name} is offered: the device plugin is down, or it or the kubelet has just restarted"
            drafts.append(draft("none-allocatable", "warning", message, look_at(_app(case)), evidence))
    return drafts


def _others_live(case: Case, name: str) -> bool:
    """Say whether other names of the same use are offered: MIG slices in place of the whole GPU, another vGPU type."""
    return any(other != name for other in case.uses.get(case.view.use_of(name) or "", ()))


def clear_resources(names: List[str]) -> str:
    """Return the command that takes names out of a node's status; what a device plugin registered comes back."""
    # As JSON writes it, so that a name can end neither the shell's quotes nor stand for the nodes.
    written = [json.dumps(name).replace("'", "\\u0027").replace("{", "\\u007b") for name in names]
    gone = "{" + ",".join(name + ":null" for name in written) + "}"
    patch = f'{{"status":{{"capacity":{gone},"allocatable":{gone}}}}}'
    return f"for n in {{node}}; do kubectl patch node \"$n\" --subresource=status --type=merge -p '{patch}'; done"


def judge_uses(case: Case) -> List[Draft]:
    """Compare what the node advertises with what it is for."""
    if len(case.uses) > 1:
        return [_several(case)]
    if case.workload is None:
        return []
    if case.uses and case.workload not in case.uses:
        return _wrong(case)
    if case.uses:
        return _wrong_plugin(case)
    return _nothing(case)


def _several(case: Case) -> Draft:
    view = case.view
    names = [name for use in WORKLOADS for name in case.uses.get(use, ())]
    kinds = " and ".join(f"{', '.join(case.uses[use])} ({use})" for use in WORKLOADS if use in case.uses)
    message = f"the node offers GPUs for several uses at once, and one GPU serves one: {kinds}"
    stay = case.workload if case.workload in case.uses else min(case.uses)
    remedy = clear_resources([name for name in names if name not in case.uses[stay or ""]])
    # Without label and operator, KubeVirt's own plugin or Harvester may give VMs some of the node's GPUs by NVIDIA's names.
    severity = "error" if view.label is not None or case.managed() else "info"
    if severity == "info":
        remedy = "Nothing, if another plugin than the operator's gives VMs some of the GPUs on purpose; else: " + remedy
    return draft("several-kinds", severity, message, remedy, view.evidence(WORKLOAD_LABEL, *names))


def _wrong(case: Case) -> List[Draft]:
    """One kind is offered, and it is that of another use."""
    view = case.view
    ((use, names),) = case.uses.items()
    if case.follows_sandbox_switch():
        return _wrong_without_sandbox(case, use, names)
    label = view.label if view.label in WORKLOADS else None
    what = f"label {label}" if label and case.effective.reason == "label" else f"it is for {case.workload}"
    message = f"{what}, and the node offers {_listed(names)}, which belongs to {use}"
    evidence = view.evidence(WORKLOAD_LABEL, *names)
    severity, remedy = "error", relabel(WORKLOAD_LABEL, use)
    if case.deployed_workload() == use:
        message += f"; the deploy labels are those of {use} too: the operator has not followed the label"
        message += "" if case.policy else ", or sandboxWorkloads is off"
    elif case.deployed_workload() == case.workload and not case.off:
        message += f"; the deploy labels are those of {case.workload} already, so the earlier plugin should be gone"
        remedy = "Drain the node of what uses the earlier name, wait five minutes, then: " + look_at(_app(case))
    if case.workload == WORKLOADS[1] and names == ["nvidia.com/gpu"] and case.mode == "kata" and not case.policy:
        severity = "warning"
        message += "; that is right only if the kata plugin was told to call GPUs so (P_GPU_ALIAS)"
    if case.off:
        severity = "warning"
        message += f" ({OPERANDS_SWITCH}=false: what runs there is not the operator's)"
        evidence.update(view.evidence(OPERANDS_SWITCH))
    return [draft("wrong-resource", severity, message, remedy, evidence)]


def _wrong_without_sandbox(case: Case, use: str, names: List[str]) -> List[Draft]:
    """Names of VMs on a node that the operator takes for a container node whatever its label says."""
    label = case.view.label
    if label == use:
        return []  # sandbox-disabled tells
    message = (
        f"the node offers {_listed(names)}, which belongs to {use}, and sandboxWorkloads.enabled is false:"
        " a plugin that is not the operator's advertises it"
    )
    # Somebody has said that it is for containers; else KubeVirt's own plugin may be meant to do so.
    severity = "error" if label == case.workload else "warning"
    evidence = case.view.evidence(WORKLOAD_LABEL, *names)
    evidence["ClusterPolicy spec.sandboxWorkloads.enabled"] = False
    remedy = patch_policy(case.policy, sandboxWorkloads={"enabled": True})
    remedy += "" if label == use else f" && {relabel(WORKLOAD_LABEL, use)}"
    return [draft("wrong-resource", severity, message, remedy, evidence)]


def _listed(names: List[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else ", ".join(names[:3]) + f" and {len(names) - 3} more"


def _wrong_plugin(case: Case) -> List[Draft]:
    """Passthrough by the plugin of the other mode; only where a ClusterPolicy tells the mode."""
    if case.workload != WORKLOADS[1] or not case.policy:
        return []
    view = case.view
    if case.mode == "kata":
        names = [] if case.policy.kata_models else view.live_of(PASSTHROUGH)
        other = "kubevirt"
    else:
        names, other = view.live_of(KATA), "kata"
    if not names:
        return []
    message = (
        f"{_listed(names)}: such a name comes from the plugin of mode {other}, and sandboxWorkloads.mode is {case.mode}"
    )
    spelled = other_spelling(names[0])
    message += (
        f"; the plugin of mode {case.mode} calls this card {spelled}" if spelled and case.mode == "kubevirt" else ""
    )
    evidence = view.evidence(WORKLOAD_LABEL, *names)
    evidence["ClusterPolicy spec.sandboxWorkloads.mode"] = case.mode
    remedy = patch_policy(case.policy, sandboxWorkloads={"mode": other})
    return [draft("plugin-of-other-mode", "warning", message, remedy, evidence)]


def _nothing(case: Case) -> List[Draft]:
    """No GPU is offered: why, and is that a fault?"""
    view = case.view
    if not case.present or case.off or case.changing() or _may_be_offered(case):
        return []
    plugin = case.plugin()
    if case.plugin_is_held() or "failed" in (case.state("mig"), case.state("vgpu")):
        return []  # other findings tell
    if case.policy and _plugin_is_off(case, case.policy, plugin):
        return [_no_plugin(case, case.policy, plugin)]
    held_back = [view.use_of(name) for name, number in view.capacity.items() if number > 0 and name not in view.live]
    if case.workload in held_back:
        return []  # none-allocatable says so
    left_over = any(held_back)
    message = f"it is for {case.workload}, and it offers no GPU of that kind"
    reasons = _reasons(case, plugin)
    if left_over:
        reasons.append("the name of an earlier use is still there, so the change may be under way")
    message += f" ({'; '.join(reasons)})" if reasons else ""
    names = sorted(view.classes)
    evidence = view.evidence(WORKLOAD_LABEL, DEPLOY_PREFIX + plugin, "nvidia.com/vgpu.config.state", *names)
    remedy = look_at(_app(case))
    if case.managed() and view.deploy(plugin) is None:
        remedy = relabel(DEPLOY_PREFIX + plugin, "true")
    if case.taints and case.managed():
        evidence["spec.taints"] = ", ".join(_taint_words(taint) for taint in case.taints)
        remedy = tolerate(case.policy, case.taints)
    severity = "warning" if left_over else "error"
    return [draft("no-resource", severity, message, remedy, evidence)]


def _taint_words(taint: Tuple[str, str, str]) -> str:
    key, value, effect = taint
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _may_be_offered(case: Case) -> bool:
    """Say whether a name that is not judged may be the node's GPUs.

    It may where its quantity cannot be read; where VMs are given any name; where a sharing scheduler has its own.
    """
    if case.view.unusable:
        return True
    return bool(case.view.live_of(SHARING_SCHEDULER if case.workload == WORKLOADS[0] else UNKNOWN))


def _plugin_is_off(case: Case, policy: Policy, plugin: str) -> bool:
    if case.workload == WORKLOADS[2] and case.mode == "kata":
        return True  # the label asks for sandbox-device-plugin, which mode kata does not have
    return not policy.is_enabled(_PLUGIN_SECTIONS[plugin])


def _no_plugin(case: Case, policy: Policy, plugin: str) -> Draft:
    evidence = case.view.evidence(WORKLOAD_LABEL)
    section = _PLUGIN_SECTIONS[plugin]
    if policy.is_enabled(section):
        message = "vGPUs are advertised by no plugin in mode kata"
        evidence["ClusterPolicy spec.sandboxWorkloads.mode"] = "kata"
        remedy = patch_policy(policy, sandboxWorkloads={"mode": "kubevirt"})
    else:
        message = f"no plugin of the operator advertises GPUs of {case.workload}: {section}.enabled is false"
        evidence[f"ClusterPolicy spec.{section}.enabled"] = False
        remedy = patch_policy(policy, **{section: {"enabled": True}})
    return draft("plugin-disabled", "warning", message, remedy, evidence)


def _reasons(case: Case, plugin: str) -> List[str]:
    reasons = []
    if case.managed() and case.view.deploy(plugin) is None:
        reasons.append(f"the deploy label of {plugin} is missing")
    if case.workload == WORKLOADS[2] and case.policy:
        if not case.policy.is_enabled("vgpuManager"):
            reasons.append("vgpuManager.enabled is false, so vGPUs need a vGPU driver of the host")
        if not case.policy.is_enabled("vgpuDeviceManager"):
            reasons.append("vgpuDeviceManager.enabled is false, so nothing makes vGPU devices")
    if case.workload == WORKLOADS[1] and case.policy and not case.policy.is_enabled("vfioManager"):
        reasons.append("vfioManager.enabled is false, so the host has to bind its GPUs to vfio-pci")
    if case.taints and case.managed():
        unless = "" if case.policy else ", unless the ClusterPolicy's daemonsets.tolerations name it"
        reasons.append("a taint keeps the operator's Pods away" + unless)
    if case.view.live_of(COMPANION):
        reasons.append("only companion functions of GPUs are offered: " + _listed(case.view.live_of(COMPANION)))
    if case.workload == WORKLOADS[0] and not case.cluster.saw_slices:
        reasons.append("or DRA gives the GPUs out; there is no ResourceSlice in the dump to tell")
    return reasons


def _app(case: Case) -> str:
    return _PLUGIN_APPS[case.plugin()]


def judge_names(case: Case) -> List[Draft]:
    """Names that say nothing about the use: unknown ones, with what they are near to, and companion functions."""
    view = case.view
    drafts = []
    for name in view.live_of(UNKNOWN):
        near = near_miss(name, kata=case.mode == "kata")
        if not near and not view.is_gpu_node():
            continue  # a network card's, by all appearances
        message = f"{name} is no name that a plugin of NVIDIA gives, so it is not judged"
        evidence = view.evidence(name)
        if near:
            message += f"; near to it is {near[0]}: {near[1]}"
            evidence["near"] = near[0]
        remedy = "If KubeVirt's own plugin or another one advertises it, nothing; else correct its name where it is configured."
        drafts.append(draft("unknown-resource", "info", message, remedy, evidence))
    companions = view.live_of(COMPANION)
    if companions:
        message = f"{_listed(companions)}: a companion function of a GPU and no GPU; do not count it as one"
        remedy = "Nothing; to have it not advertised, leave the function unbound from vfio-pci."
        drafts.append(draft("companion-resource", "info", message, remedy, view.evidence(*companions)))
    return drafts


def judge_counts(case: Case) -> List[Draft]:
    """Compare the count that GPU Feature Discovery saw with what the container plugin offers.

    Not where MIG slices are offered beside, and not where a sharing scheduler multiplies the GPUs.
    """
    view = case.view
    count, replicas = (
        _count_of(view.labels.get("nvidia.com/gpu.count")),
        _count_of(view.labels.get("nvidia.com/gpu.replicas")),
    )
    offered = {name: view.capacity.get(name, 0) for name in view.live_of(CONTAINER, SHARED)}
    if not count or len(offered) != 1 or case.uses.keys() != {WORKLOADS[0]} or case.changing():
        return []
    if view.live_of(MIG, SHARING_SCHEDULER) or view.labels.get("nvidia.com/mig.strategy") == "mixed":
        return []
    ((name, number),) = offered.items()
    expected = count * max(replicas, 1)
    if number == expected or not number:
        return []
    if number > expected and number % expected == 0 and case.view.deploy("device-plugin") != "true":
        return []  # a plugin of another project, such as HAMi's, offers each GPU several times
    keys = ("nvidia.com/gpu.count", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy", name)
    if replicas > 1 and number == count:
        message = f"sharing is not applied: gpu.replicas is {replicas}, and {name} stands at the number of GPUs itself"
        return [draft("sharing-not-applied", "warning", message, look_at(_app(case)), view.evidence(*keys))]
    message = f"{name} does not stand at the number of GPUs that was discovered"
    message += " times gpu.replicas" if replicas > 1 else ""
    return [draft("count-mismatch", "warning", message, look_at(_app(case)), view.evidence(*keys))]


def _count_of(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 7 else 0
