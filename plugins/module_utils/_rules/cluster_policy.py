# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules read in a ClusterPolicy, and what an absent field means.

Private to the collection gpuwl.sandbox. Source: NVIDIA/gpu-operator
api/nvidia/v1/clusterpolicy_types.go (types and enums; what nil means: IsEnabled of each section).
"""

import json
from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import CONTAINER_WORKLOAD, MODES, WORKLOADS

# Section -> what an absent `enabled` means.
SECTIONS = {
    "driver": True,
    "toolkit": True,
    "devicePlugin": True,
    "gfd": True,
    "dcgm": True,
    "dcgmExporter": True,
    "nodeStatusExporter": False,
    "migManager": True,
    "sandboxDevicePlugin": False,
    "kataSandboxDevicePlugin": False,
    "vfioManager": False,
    "vgpuManager": False,
    "vgpuDeviceManager": False,
    "kataManager": False,
    "ccManager": False,
}
# (key, operator, value, effect) of what the operands tolerate; a list in the ClusterPolicy replaces it.
Tolerations = Tuple[Tuple[str, str, str, str], ...]
DEFAULT_TOLERATIONS: Tolerations = (("nvidia.com/gpu", "Exists", "", "NoSchedule"),)
_MIG_STRATEGIES = ("none", "single", "mixed")


class PolicyError(ValueError):
    """A ClusterPolicy that the API server would not take; the message names the field, its value and what was expected."""


class Policy(NamedTuple):
    """A ClusterPolicy's spec, as far as the rules read it."""

    name: str
    sandbox: bool
    default: str
    mode: str
    mig_strategy: Optional[str]
    enabled: Tuple[Tuple[str, bool], ...]
    # Whether NVIDIADriver objects say which drivers run, and not the section driver.
    driver_objects: bool
    precompiled: Optional[bool]  # driver.usePrecompiled, None where it does not stand there
    driver_version: str
    kata_config: bool  # whether kataManager has a section config, without which operators before 26.7 crash
    mig_default: str  # the mig.config that a capable node gets which has none, "" for none
    # Names of ConfigMaps that may define configurations anew; "" where the operator's own hold.
    mig_config_map: str
    vgpu_config_map: str
    vgpu_default: str
    # Resource names that the kata plugin was told to use; whether it was told to use the cards' model names.
    kata_aliases: FrozenSet[str]
    kata_models: bool
    tolerations: Tolerations
    tolerations_are_set: bool  # whether the ClusterPolicy has a list of its own, and not the operator's default

    def is_enabled(self, section: str) -> bool:
        """Say whether a section such as devicePlugin is enabled."""
        return dict(self.enabled)[section]


def read_policy(given: Any) -> Policy:
    """Return what the rules read in a ClusterPolicy, or in its spec alone.

    Raises PolicyError.
    """
    if not isinstance(given, dict):
        raise PolicyError(f"the ClusterPolicy is {_words(given)}, expected an object or its spec")
    if given.get("kind", "ClusterPolicy") != "ClusterPolicy":
        raise PolicyError(f"it is of kind {_words(given['kind'])}, expected one ClusterPolicy or its spec")
    whole = "spec" in given or "kind" in given
    spec = _section(given, "spec", "") if whole else given
    metadata = _section(given, "metadata", "") if whole else {}
    sandbox = _section(spec, "sandboxWorkloads")
    driver = _section(spec, "driver")
    mig_config = _section(_section(spec, "migManager"), "config", "migManager.")
    vgpu_config = _section(_section(spec, "vgpuDeviceManager"), "config", "vgpuDeviceManager.")
    mig_map = _text(mig_config, "name", "migManager.config.name") or ""
    aliases, models = _kata_names(spec)
    return Policy(
        name=_text(metadata, "name", "metadata.name") or "cluster-policy",
        sandbox=_switch(sandbox, "sandboxWorkloads", False),
        default=_choice(sandbox, "sandboxWorkloads.defaultWorkload", WORKLOADS) or CONTAINER_WORKLOAD,
        mode=_choice(sandbox, "sandboxWorkloads.mode", MODES) or MODES[0],
        mig_strategy=_choice(_section(spec, "mig"), "mig.strategy", _MIG_STRATEGIES),
        enabled=tuple((name, _switch(_section(spec, name), name, absent)) for name, absent in SECTIONS.items()),
        driver_objects=bool(_truth(driver, "useNvidiaDriverCRD", "driver.useNvidiaDriverCRD")),
        precompiled=_truth(driver, "usePrecompiled", "driver.usePrecompiled"),
        driver_version=str(driver.get("version") or ""),
        kata_config=_section(spec, "kataManager").get("config") is not None,
        mig_default=_mig_default(_section(spec, "migManager")),
        mig_config_map="" if mig_map == "default-mig-parted-config" else mig_map,
        vgpu_config_map=_text(vgpu_config, "name", "vgpuDeviceManager.config.name") or "",
        vgpu_default=_text(vgpu_config, "default", "vgpuDeviceManager.config.default") or "default",
        kata_aliases=aliases,
        kata_models=models,
        tolerations=read_tolerations(_section(spec, "daemonsets").get("tolerations")) or DEFAULT_TOLERATIONS,
        tolerations_are_set=bool(_section(spec, "daemonsets").get("tolerations")),
    )


def is_tolerated(taint: Tuple[str, str, str], tolerations: Tolerations) -> bool:
    """Say whether one of some tolerations covers a taint (key, value, effect)."""
    key, value, effect = taint
    return any(
        other_key in (key, "")
        and other_effect in (effect, "")
        and (operator == "Exists" or (other_key == key and other_value == value))
        for other_key, operator, other_value, other_effect in tolerations
    )


def read_tolerations(listed: Any) -> Tolerations:
    """Return the tolerations of a list as the API has it; () for none."""
    found = []
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            key, operator, value, effect = (
                str(one.get(field) or "") for field in ("key", "operator", "value", "effect")
            )
            found.append((key, operator or "Equal", value, effect))
    return tuple(found)


def _kata_names(spec: Dict[str, Any]) -> Tuple[FrozenSet[str], bool]:
    """Read the aliases of NVIDIA/sandbox-device-plugin (cmd/main.go): an empty one stands for model names."""
    aliases, models = set(), False
    variables = _section(spec, "kataSandboxDevicePlugin").get("env")
    for variable in variables if isinstance(variables, list) else ():
        if isinstance(variable, dict) and variable.get("name") in ("P_GPU_ALIAS", "NVSWITCH_ALIAS"):
            value = variable.get("value")
            if value and isinstance(value, str):
                aliases.add("nvidia.com/" + value)
            elif variable["name"] == "P_GPU_ALIAS":
                models = True
    return frozenset(aliases), models


def _section(outer: Dict[str, Any], name: str, path: str = "") -> Dict[str, Any]:
    value = outer.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PolicyError(f"the ClusterPolicy's {path}{name} is {_words(value)}, expected an object")
    return value


def _switch(section: Dict[str, Any], name: str, absent: bool) -> bool:
    value = _truth(section, "enabled", f"{name}.enabled")
    return absent if value is None else value


def _truth(section: Dict[str, Any], key: str, path: str) -> Optional[bool]:
    value = section.get(key)
    if value is not None and not isinstance(value, bool):
        raise PolicyError(f"the ClusterPolicy's {path} is {_words(value)}, expected true or false")
    return value


def _mig_default(section: Dict[str, Any]) -> str:
    """Return migManager.config.default; the CRD fills it in where there is a config at all."""
    if section.get("config") is None:
        return ""
    default = _text(_section(section, "config", "migManager."), "default", "migManager.config.default")
    return "all-disabled" if default is None else default


def _choice(section: Dict[str, Any], path: str, choices: Tuple[str, ...]) -> Optional[str]:
    value = section.get(path.rpartition(".")[2])
    if value is None or value == "":
        return None
    if value not in choices:
        raise PolicyError(f"the ClusterPolicy's {path} is {_words(value)}, expected one of {', '.join(choices)}")
    return str(value)


def _text(section: Dict[str, Any], key: str, path: str) -> Optional[str]:
    value = section.get(key)
    if value is not None and not isinstance(value, str):
        raise PolicyError(f"the ClusterPolicy's {path} is {_words(value)}, expected a string")
    return value


def _words(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."
