# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DaemonSets that the GPU Operator makes, and on which nodes their Pods are due.

Private to the collection gpuwl.sandbox. Sources: NVIDIA/gpu-operator assets/*/*daemonset.yaml (names, selectors),
controllers/state_manager.go (isStateEnabled, the order of the states), controllers/object_controls.go (tolerations,
precompiled drivers), internal/state/driver.go (NVIDIADriver), and what v25.10.1, v26.3.3 and v26.7.0 were seen to do on
a real API server; kubernetes pkg/controller/daemon/util/daemonset_util.go (AddOrUpdateDaemonPodTolerations).
"""

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import (
    DEFAULT_TOLERATIONS,
    Policy,
    Tolerations,
    is_tolerated,
    read_tolerations,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX, GPU_PRESENT

KERNEL = "feature.node.kubernetes.io/kernel-version.full"
OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
DRIVER_OWNER = "nvidia.com/gpu-operator.driver.owner"

# What the DaemonSet controller lets every DaemonSet's Pods tolerate. (key, operator, value, effect)
OF_EVERY_DAEMONSET: Tolerations = (
    ("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
    ("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "Exists", "", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "Exists", "", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "Exists", "", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
)

_KATA_MANAGER = "nvidia-kata-manager"


class Operand(NamedTuple):
    """A DaemonSet that the operator makes for a section of the ClusterPolicy."""

    daemonset: str
    operand: str  # its deploy label's name after nvidia.com/gpu.deploy.
    section: str  # of the ClusterPolicy; "" for what is always made
    for_sandbox: bool = False  # made only while sandboxWorkloads is on


# In the order in which the operator goes through them: what stops it keeps the later ones from being made.
OPERANDS = (
    Operand("nvidia-driver-daemonset", "driver", "driver"),
    Operand("nvidia-container-toolkit-daemonset", "container-toolkit", "toolkit"),
    Operand("nvidia-operator-validator", "operator-validator", ""),
    Operand("nvidia-device-plugin-daemonset", "device-plugin", "devicePlugin"),
    Operand("nvidia-device-plugin-mps-control-daemon", "device-plugin", "devicePlugin"),
    Operand("nvidia-dcgm", "dcgm", "dcgm"),
    Operand("nvidia-dcgm-exporter", "dcgm-exporter", "dcgmExporter"),
    Operand("gpu-feature-discovery", "gpu-feature-discovery", "gfd"),
    Operand("nvidia-mig-manager", "mig-manager", "migManager"),
    Operand("nvidia-node-status-exporter", "node-status-exporter", "nodeStatusExporter"),
    Operand("nvidia-vgpu-manager-daemonset", "vgpu-manager", "vgpuManager", True),
    Operand("nvidia-vgpu-device-manager", "vgpu-device-manager", "vgpuDeviceManager", True),
    Operand("nvidia-sandbox-validator", "sandbox-validator", "", True),
    Operand("nvidia-vfio-manager", "vfio-manager", "vfioManager", True),
    Operand("nvidia-sandbox-device-plugin-daemonset", "sandbox-device-plugin", "sandboxDevicePlugin", True),
    Operand(
        "nvidia-kata-sandbox-device-plugin-daemonset", "kata-sandbox-device-plugin", "kataSandboxDevicePlugin", True
    ),
    Operand(_KATA_MANAGER, "kata-manager", "kataManager", True),
    Operand("nvidia-cc-manager", "cc-manager", "ccManager", True),
)

# What a DaemonSet's selector asks for beside the deploy label.
_FURTHER_LABELS = {"nvidia-device-plugin-mps-control-daemon": {"nvidia.com/mps.capable": "true"}}


class DaemonSet(NamedTuple):
    """A DaemonSet, as far as it says where its Pods are due."""

    name: str
    node_selector: Dict[str, str]
    tolerations: Tolerations

    def is_due_on(self, labels: Dict[str, Any], taints: Iterable[Tuple[str, str, str]]) -> bool:
        """Say whether a Pod is due on a node with these labels and taints (key, value, effect)."""
        return self.selects(labels) and all(is_tolerated(taint, self.tolerations) for taint in taints)

    def selects(self, labels: Dict[str, Any]) -> bool:
        """Say whether the node selector matches a node's labels."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())


def is_made(operand: Operand, policy: Policy, version: Tuple[int, int]) -> bool:
    """Say whether the operator makes an operand's DaemonSet for a ClusterPolicy, once there is a node with a GPU.

    version: one of workload.KNOWN_VERSIONS. Drivers by NVIDIADriver objects are not looked at.
    """
    if (operand.section and not policy.is_enabled(operand.section)) or (operand.for_sandbox and not policy.sandbox):
        return False
    if operand.operand in ("driver", "vgpu-manager"):
        return not policy.driver_objects
    if version < (26, 3):
        return operand.operand != "kata-sandbox-device-plugin"
    if operand.operand == "sandbox-device-plugin":
        return policy.mode == "kubevirt"
    if operand.operand == "kata-manager":
        return policy.mode == "kata" and version < (26, 7)
    if operand.operand in ("kata-sandbox-device-plugin", "cc-manager"):
        return policy.mode == "kata"
    return True


def made_operands(policy: Policy, version: Tuple[int, int]) -> List[Operand]:
    """Return the operands whose DaemonSets the operator makes.

    Before 26.7 a kataManager without a config makes the operator panic, and what comes after it is never made.
    """
    made = []
    for operand in OPERANDS:
        if is_made(operand, policy, version):
            if operand.daemonset == _KATA_MANAGER and not policy.kata_config:
                break
            made.append(operand)
    return made


def operator_daemonsets(
    policy: Policy,
    version: Tuple[int, int],
    gpu_nodes: List[Dict[str, Any]],
    drivers: Iterable[Dict[str, Any]] = (),
) -> List[DaemonSet]:
    """Return the DaemonSets that the operator makes.

    gpu_nodes: the labels of each node with a GPU, after the operator has labelled it; without one nothing is made.
    drivers: NVIDIADriver objects, which count where the ClusterPolicy says so.
    A driver DaemonSet of an NVIDIADriver has a hash at the end of its name, which is left out.
    """
    if not gpu_nodes:
        return []
    made = []
    for operand in made_operands(policy, version):
        selector = {DEPLOY_PREFIX + operand.operand: "true", **_FURTHER_LABELS.get(operand.daemonset, {})}
        if operand.operand == "cc-manager" and version < (26, 3):
            selector["nvidia.com/cc.capable"] = "true"
        if operand.operand == "driver" and is_precompiled(policy):
            made += _precompiled(operand, selector, policy, gpu_nodes)
        else:
            made.append(DaemonSet(operand.daemonset, selector, policy.tolerations + OF_EVERY_DAEMONSET))
    if policy.driver_objects:
        for driver in drivers:
            made += _of_driver_object(driver, version, gpu_nodes)
    return made


def is_precompiled(policy: Policy) -> bool:
    """Say whether drivers come precompiled; a driver.version that is a branch alone, such as 595, only these have."""
    if policy.precompiled is None:
        return policy.driver_version.isdigit()
    return policy.precompiled


def _precompiled(
    operand: Operand, selector: Dict[str, str], policy: Policy, gpu_nodes: List[Dict[str, Any]]
) -> List[DaemonSet]:
    """Return one DaemonSet per kernel."""
    systems = {str(labels[KERNEL]): _system(labels) for labels in gpu_nodes if labels.get(KERNEL)}
    return [
        DaemonSet(
            f"{operand.daemonset}-{_plain_kernel(kernel)}-{systems[kernel]}",
            {**selector, KERNEL: kernel},
            policy.tolerations + OF_EVERY_DAEMONSET,
        )
        for kernel in sorted(systems)
    ]


def _plain_kernel(kernel: str) -> str:
    """Return a kernel's version as it stands in names: without the architecture (getSanitizedKernelVersion)."""
    return re.sub(r"(x86_64|aarch64)(_64k)?", "", kernel).replace("_", ".").rstrip(".").lower()


def _system(labels: Dict[str, Any]) -> str:
    return f"{labels.get(OS_ID) or ''}{labels.get(OS_VERSION) or ''}"


def driver_nodes(driver: Dict[str, Any], gpu_nodes: Iterable[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the labels of the nodes that an NVIDIADriver is for: spec.nodeSelector, and without one all with a GPU."""
    selector = _part(driver, "spec", "nodeSelector")
    return [labels for labels in gpu_nodes if all(labels.get(key) == value for key, value in selector.items())]


def driver_name(driver: Dict[str, Any]) -> str:
    """Return the name of an NVIDIADriver."""
    return str(_part(driver, "metadata").get("name") or "")


def _of_driver_object(
    driver: Dict[str, Any], version: Tuple[int, int], gpu_nodes: List[Dict[str, Any]]
) -> List[DaemonSet]:
    """Return one DaemonSet per operating system, and per kernel if the drivers come precompiled."""
    spec = _part(driver, "spec")
    kind = str(spec.get("driverType") or "gpu")
    own = {**_part(driver, "spec", "nodeSelector"), GPU_PRESENT: "true"}
    own[DEPLOY_PREFIX + ("vgpu-manager" if kind == "vgpu-host-manager" else "driver")] = "true"
    if version >= (26, 7):
        own[DRIVER_OWNER] = driver_name(driver)
    found = {}
    for labels in driver_nodes(driver, gpu_nodes):
        if not labels.get(OS_ID) or not labels.get(OS_VERSION):
            continue
        selector = {**own, OS_ID: str(labels[OS_ID]), OS_VERSION: str(labels[OS_VERSION])}
        name = f"nvidia-{kind}-driver-{_system(labels)}"
        if spec.get("usePrecompiled") is True:
            if not labels.get(KERNEL):
                continue
            selector[KERNEL] = str(labels[KERNEL])
            name += "-" + _plain_kernel(selector[KERNEL])
        tolerations = DEFAULT_TOLERATIONS + read_tolerations(spec.get("tolerations")) + OF_EVERY_DAEMONSET
        found[name] = DaemonSet(name, selector, tolerations)
    return [found[name] for name in sorted(found)]


def _part(item: Dict[str, Any], *path: str) -> Dict[str, Any]:
    value: Any = item
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
