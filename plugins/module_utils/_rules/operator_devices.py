# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profile `operator`: do MIG and vGPU configurations fit the names and quantities that a node advertises?

Private to the collection gpuwl.sandbox. Sources: with each rule in rule_pages.py.
"""

import json
from math import gcd
from typing import Any, Dict, List, Optional, Set

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.mig_catalogue import mig_config, same_mig_profile
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_case import (
    Case,
    draft,
    look_at,
    patch_policy,
    relabel,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.resource_names import (
    CONTAINER,
    MIG,
    VGPU,
    mig_profile,
    vgpu_type,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.vgpu_catalogue import vgpu_config
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import WORKLOADS

MIG_CONFIG, MIG_STATE, MIG_STRATEGY = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/mig.strategy"
GPU_PRODUCT = "nvidia.com/gpu.product"
VGPU_CONFIG, VGPU_STATE = "nvidia.com/vgpu.config", "nvidia.com/vgpu.config.state"


def judge_vgpu(case: Case) -> List[Draft]:
    """Judge the vGPU configuration of a vm-vgpu node; on others its labels are left over and mean nothing."""
    if case.workload != WORKLOADS[2] or case.off or (case.policy and not case.policy.is_enabled("vgpuDeviceManager")):
        return []
    view = case.view
    drafts = _state(case, "vgpu", VGPU_CONFIG, VGPU_STATE, "nvidia-vgpu-device-manager")
    name = _vgpu_wish(case)
    live = view.live_of(VGPU)
    if drafts or not live or not name:
        return drafts
    if case.policy and case.policy.vgpu_config_map not in ("", "default-vgpu-devices-config"):
        return []  # the ConfigMap may define the name anew
    entries = vgpu_config(name)
    if entries is None:
        message = f"vgpu.config {json.dumps(name)} is none of NVIDIA's default configurations: types and quantities are not judged"
        remedy = "Nothing, if the ConfigMap of vgpuDeviceManager.config.name defines it; else: " + relabel(
            VGPU_CONFIG, "default"
        )
        return [draft("vgpu-config-unknown", "info", message, remedy, view.evidence(VGPU_CONFIG, *live))]
    return _vgpu_types(case, str(name), entries, live)


def _vgpu_wish(case: Case) -> str:
    """Return the name of the configuration that the node should have, "" if nothing tells it.

    A node without the label has the default's, if the device manager has worked there at all: KubeVirt and Harvester
    make vGPUs too. What the default is, and that no ConfigMap of one's own defines it, only a ClusterPolicy tells.
    """
    label = case.view.labels.get(VGPU_CONFIG)
    if label and (label != "default" or case.policy):
        return str(label)
    return case.policy.vgpu_default if case.policy and not label and VGPU_STATE in case.view.labels else ""


def _vgpu_types(case: Case, name: str, entries: List[Any], live: List[str]) -> List[Draft]:
    view = case.view
    counts: Dict[str, Set[int]] = {}
    for _filters, types in entries:
        for kind, count in types.items():
            counts.setdefault(kind, set()).add(count)
    # Types that NVIDIA's list does not have are newer than it, and so may its default be.
    live = [one for one in live if vgpu_type(one)]
    wrong = [one for one in live if vgpu_type(one) not in counts]
    if wrong:
        message = f"vgpu.config {name} does not make {', '.join(wrong)}"
        remedy = relabel(VGPU_CONFIG, vgpu_type(wrong[0]) or "default")
        if len(wrong) < len(live):
            # The configured types are there, so what else there is is too much.
            remedy = look_at("nvidia-vgpu-device-manager")
        return [draft("vgpu-config-mismatch", "error", message, remedy, view.evidence(VGPU_CONFIG, VGPU_STATE, *live))]
    drafts = []
    for one in live:
        number = view.capacity.get(one, view.live[one])
        per_gpu = counts[vgpu_type(one)]
        if number % _common(per_gpu):
            shown = " or ".join(map(str, sorted(per_gpu)))
            message = f"{one} is not a multiple of the {shown} that vgpu.config {name} makes of each GPU"
            evidence = view.evidence(VGPU_CONFIG, VGPU_STATE, one)
            evidence["per GPU"] = shown
            look = look_at("nvidia-vgpu-device-manager")
            drafts.append(draft("vgpu-quantity-mismatch", "warning", message, look, evidence))
    return drafts


def _common(numbers: Set[int]) -> int:
    """Return what every sum of these numbers is a multiple of: GPUs of several models may stand in a node."""
    common = 0
    for number in numbers:
        common = gcd(common, number)
    return common or 1


def _state(case: Case, what: str, config: str, state: str, app: str) -> List[Draft]:
    """What the state label of a configuration says."""
    view = case.view
    value = case.state(what)
    wish = view.labels.get(config) or (case.policy.vgpu_default if case.policy and what == "vgpu" else "")
    change = f"the change to {what}.config {wish}" if wish else f"the change of {what}.config"
    if case.unfinished(what):
        message = f"{change} is under way ({value}): resources are not judged"
        remedy = "Nothing; if it stays so for more than some minutes: " + look_at(app)
        return [draft(f"{what}-change-pending", "info", message, remedy, view.evidence(config, state))]
    if value == "failed":
        message = f"{change} has failed"
        return [draft(f"{what}-change-failed", "error", message, look_at(app), view.evidence(config, state))]
    return []


def judge_mig(case: Case) -> List[Draft]:
    """Judge MIG on a container node; on a VM node mig.config is left over or the operator's default, and means nothing."""
    if case.workload != WORKLOADS[0] or case.off:
        return []
    drafts = _state(case, "mig", MIG_CONFIG, MIG_STATE, "nvidia-mig-manager")
    if drafts:
        return drafts
    strategy = case.view.labels.get(MIG_STRATEGY) or (case.policy.mig_strategy if case.policy else None)
    slices = case.view.live_of(MIG)
    if strategy in ("none", "single") and slices:
        message = f"mig.strategy is {strategy}, and the node offers {', '.join(slices)}: names of MIG profiles belong to mixed"
        evidence = case.view.evidence(MIG_STRATEGY, *slices)
        if MIG_STRATEGY not in case.view.labels:
            evidence["ClusterPolicy spec.mig.strategy"] = strategy
        return [draft("mig-strategy-mismatch", "error", message, _set_strategy(case, "mixed"), evidence)]
    return _mig_counts(case, slices) + _mig_layout(case, strategy, slices)


def _set_strategy(case: Case, strategy: str) -> str:
    if not case.managed():
        return f"Set the device plugin's MIG strategy to {strategy}: MIG_STRATEGY, or flags.migStrategy in its configuration"
    return patch_policy(case.policy, mig={"strategy": strategy})


def _mig_counts(case: Case, slices: List[str]) -> List[Draft]:
    """Compare mig-<profile>.count, times .replicas, with what is offered."""
    drafts = []
    for name in slices:
        plain = name[: -len(".shared")] if name.endswith(".shared") else name
        count, replicas = (str(case.view.labels.get(f"{plain}.{what}") or "") for what in ("count", "replicas"))
        if not (count.isascii() and count.isdigit()) or name not in case.view.capacity:
            continue
        times = int(replicas[:6]) if replicas.isascii() and replicas.isdigit() else 1
        if case.view.capacity[name] not in (int(count[:6]), int(count[:6]) * times):
            message = f"{name} does not stand at the number of slices that was discovered"
            evidence = case.view.evidence(f"{plain}.count", f"{plain}.replicas", name)
            look = look_at("nvidia-device-plugin-daemonset")
            drafts.append(draft("mig-quantity-mismatch", "warning", message, look, evidence))
    return drafts


def _mig_layout(case: Case, strategy: Optional[str], slices: List[str]) -> List[Draft]:
    """Compare the names with what mig.config stands for, if it is one of the operator's own configurations."""
    wish = case.view.labels.get(MIG_CONFIG)
    entries = mig_config(str(wish)) if wish else None
    if not entries or (case.policy and case.policy.mig_config_map) or case.view.deploy("mig-manager") == "false":
        return []
    if wish == "all-disabled" and MIG_STATE not in case.view.labels:
        return []  # the operator's own default, which nobody has applied
    if any(enabled and not made for _f, _d, enabled, made in entries):
        return []  # MIG is on, and what is made is left to others
    profiles = {profile for _f, _d, enabled, made in entries if enabled for profile in made}
    whole = any(not enabled for _f, _d, enabled, _m in entries)
    if strategy == "single":
        # GPUs of one node are of one model: only profiles that one entry makes together count as several.
        mixed = (whole and profiles) or any(len(made) > 1 for _f, _d, _e, made in entries)
        return [_not_single(case, str(wish))] if mixed else _not_divided(case, str(wish), bool(profiles))
    if strategy == "none" or not case.uses:
        return []
    wrong = [one for one in slices if not any(same_mig_profile(mig_profile(one), known) for known in profiles)]
    if wrong:
        return [_wrong_slices(case, str(wish), wrong, len(wrong) < len(slices))]
    if profiles and not whole and strategy == "mixed" and case.view.live_of(CONTAINER):
        return [_whole_gpus(case, str(wish))]
    return _per_gpu(case, str(wish), entries, slices) if slices and not whole else []


def _wrong_slices(case: Case, wish: str, wrong: List[str], right_ones: bool) -> Draft:
    """Slices that the configuration does not make; right_ones: whether those that it makes are there too."""
    message = f"mig.config {wish} does not make {', '.join(wrong)}"
    found = "all-" + mig_profile(wrong[0])
    evidence = case.view.evidence(MIG_CONFIG, MIG_STATE, MIG_STRATEGY, *sorted(case.view.live))
    # With those beside them that are wished for, these are too much.
    remedy = look_at("nvidia-mig-manager") if right_ones or not mig_config(found) else relabel(MIG_CONFIG, found)
    return draft("mig-config-mismatch", "error", message, remedy, evidence)


def _whole_gpus(case: Case, wish: str) -> Draft:
    message = f"mig.config {wish} divides every GPU, and the node offers whole ones"
    evidence = case.view.evidence(MIG_CONFIG, MIG_STATE, MIG_STRATEGY, *sorted(case.view.live))
    return draft("mig-config-mismatch", "error", message, look_at("nvidia-mig-manager"), evidence)


def _not_divided(case: Case, wish: str, divides: bool) -> List[Draft]:
    """With strategy single the name tells nothing; GPU Feature Discovery adds -MIG- to the product of divided GPUs."""
    product = case.view.labels.get(GPU_PRODUCT)
    if not divides or not case.uses or not product or "-MIG-" in str(product) or case.state("mig") != "success":
        return []
    found = _whole_gpus(case, wish)
    return [found._replace(evidence=(*found.evidence, *case.view.evidence(GPU_PRODUCT).items()))]


def _per_gpu(case: Case, wish: str, entries: List[Any], slices: List[str]) -> List[Draft]:
    """Compare the numbers of slices with what the configuration makes of each GPU, whichever model it is."""
    numbers: Dict[str, int] = {}
    for name in slices:
        if name.endswith(".shared"):
            return []
        numbers[mig_profile(name)] = case.view.capacity.get(name, case.view.live[name])
    for _filters, _devices, _enabled, made in entries:
        found = {
            profile: sum(number for one, number in numbers.items() if same_mig_profile(one, profile))
            for profile in made
        }
        times = {number / made[profile] for profile, number in found.items()}
        if sum(found.values()) == sum(numbers.values()) and len(times) == 1 and times.pop().is_integer():
            return []
    message = f"the numbers of slices are no multiple of what mig.config {wish} makes of a GPU"
    evidence = case.view.evidence(MIG_CONFIG, MIG_STATE, *slices)
    return [draft("mig-quantity-mismatch", "warning", message, look_at("nvidia-mig-manager"), evidence)]


def _not_single(case: Case, wish: str) -> Draft:
    message = f"mig.config {wish} gives a node slices of several sizes, which mig.strategy single cannot advertise: the device plugin fails"
    evidence = case.view.evidence(MIG_CONFIG, MIG_STRATEGY)
    if MIG_STRATEGY not in case.view.labels:
        evidence["ClusterPolicy spec.mig.strategy"] = "single"
    return draft("mig-layout-not-single", "error", message, _set_strategy(case, "mixed"), evidence)
