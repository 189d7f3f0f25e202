# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each rule of the checker means, why it is one, and where that is known from.

Private to the collection gpuwl.sandbox. `check-config.sh --explain` prints a page; the pages of the documentation are
made from the same texts. Files are named in the upstream repository; "seen running" means that unmodified
controllers of the operator, or a kubelet, did so on a real API server.
"""

from typing import Dict, NamedTuple

_STATE_MANAGER = "NVIDIA/gpu-operator controllers/state_manager.go"
_LABELING = "NVIDIA/gpu-operator controllers/nodelabeling_controller.go"
_RUNNING = "seen running, operator v25.10.1, v26.3.3 and v26.7.0"


class RulePage(NamedTuple):
    """A rule, explained."""

    severity: str  # what it can be: one severity, or several with "or"
    profiles: str
    what: str
    why: str
    source: str
    example: str  # what a node, or a ClusterPolicy, looks like that breaks it
    needs: str = ""  # a key of NEEDS: what must be in the dump beside the nodes


NEEDS = {
    "ClusterPolicy": "a ClusterPolicy in the dump, or --cluster-policy",
    "ResourceSlice": "the ResourceSlices in the dump; without them deploy labels alone tell",
    "version": "the operator's Deployment, a DaemonSet or a Pod of it in the dump, or --operator-version",
}

_BOTH, _LAB, _OPERATOR = "lab and operator", "lab", "operator"
# Rules that need Pods and DaemonSets, and are no part of a profile.
AUDIT = "operand_audit"
_DAEMONSET_CONTROLLER = "Kubernetes pkg/controller/daemon/daemon_controller.go"

RULE_PAGES: Dict[str, RulePage] = {
    "unknown-workload-label": RulePage(
        "error or warning",
        _BOTH,
        "The label nvidia.com/gpu.workload.config has a value that is none of container, vm-passthrough and vm-vgpu.",
        "The operator compares the value exactly, case included. With any other it silently takes its default, so the"
        " node gets the software of another use; no event and no condition says so. A warning where"
        " sandboxWorkloads is off and the label has no effect anyway.",
        f"{_STATE_MANAGER}, isValidWorkloadConfig; {_RUNNING}",
        'nvidia.com/gpu.workload.config: "vm-gpu"',
    ),
    "invalid-resource-quantity": RulePage(
        "error",
        _BOTH,
        "A quantity in the node's status is no whole number from 0.",
        "The kubelet and the API server write whole numbers for extended resources only, so something else has made or"
        " changed this dump.",
        "Kubernetes pkg/apis/core/validation, ValidateResourceQuantityValue",
        'status.allocatable: {nvidia.com/gpu: "1500m"}',
    ),
    "several-resources": RulePage(
        "error",
        _LAB,
        "The node advertises more than one nvidia.com/ name above 0.",
        "In the lab a node has one kind of GPU and one use, so a second name is a leftover. The profile operator knows"
        " nodes that rightly advertise several, such as MIG slices.",
        "The lab's step 8",
        'status.allocatable: {nvidia.com/gpu: "4", nvidia.com/GA102GL_A10: "2"}',
    ),
    "no-resource": RulePage(
        "error or warning",
        _BOTH,
        "The node advertises no GPU of the kind it is for.",
        "Requests for this node's GPUs wait for ever while its cards are idle: the device plugin of its use has not"
        " registered them, or a taint keeps its Pod away. A warning while the name of an earlier use is still in the"
        " capacity, as in the minutes after a change.",
        "NVIDIA/gpu-operator cmd/nvidia-validator/main.go, plugin-validation; issues 447, 527, 554 and 1375 there",
        "nvidia.com/gpu.workload.config: vm-vgpu, and no vGPU type in status.allocatable",
    ),
    "wrong-resource": RulePage(
        "error or warning",
        _BOTH,
        "The node advertises GPUs of another use than its own.",
        "What is requested by the name of the intended use never comes here, and what comes here by the other name gets"
        " a GPU that somebody has planned otherwise. In the profile operator only names that are positively known are"
        " compared. A warning where something else than the operator may advertise them on purpose: operands or"
        " sandboxWorkloads are off, or the plugin for Kata Containers may call GPUs so.",
        "NVIDIA/gpu-operator issue 468; names: NVIDIA/kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go,"
        " NVIDIA/k8s-device-plugin internal/rm/rm.go",
        'nvidia.com/gpu.workload.config: vm-passthrough, status.allocatable: {nvidia.com/gpu: "4"}',
    ),
    "several-kinds": RulePage(
        "error or info",
        _OPERATOR,
        "GPUs for several uses are above 0 at once: for containers, whole for VMs, or divided into vGPUs.",
        "A node has one use, and vfio-pci takes all its GPUs. Two live kinds mean that one plugin runs that should not,"
        " or that a status was written by hand. Names that stand at 0 are residue and no conflict. Information on a"
        " node with neither a workload label nor an operator, where KubeVirt's own plugin or Harvester may give VMs some of its GPUs.",
        "NVIDIA/cloud-native-docs gpu-operator/gpu-operator-kubevirt.rst; gpu-operator issues 550 and 1995",
        'status.allocatable: {nvidia.com/gpu: "4", nvidia.com/NVIDIA_A10-12Q: "4"}',
    ),
    "sandbox-disabled": RulePage(
        "error",
        _OPERATOR,
        "The workload label asks for VMs, and sandboxWorkloads.enabled is false in the ClusterPolicy.",
        "Then the operator takes every node for a container node and ignores the label, without a word.",
        f"{_STATE_MANAGER}, getWorkloadConfig; {_RUNNING}",
        "nvidia.com/gpu.workload.config: vm-vgpu, ClusterPolicy spec.sandboxWorkloads.enabled: false",
        "ClusterPolicy",
    ),
    "gpu-not-present": RulePage(
        "warning or info",
        _OPERATOR,
        "The node has a workload label, and the operator does not see a GPU in it.",
        "The operator looks only at nodes with nvidia.com/gpu.present=true, which it derives from Node Feature"
        " Discovery's labels of NVIDIA's PCI vendor id. Information where the node advertises GPUs all the same, as"
        " made-up nodes do.",
        f"{_LABELING}, reconcileCommonGPULabel; issues 78, 149, 423 and 1274 there; {_RUNNING}",
        'nvidia.com/gpu.workload.config: container, nvidia.com/gpu.present: "false"',
    ),
    "operands-disabled": RulePage(
        "info",
        _OPERATOR,
        "The node is taken out as a whole, so its workload label has no effect for now.",
        'nvidia.com/gpu.deploy.operands=false removes every deploy label; only the literal "false" counts.',
        f"{_STATE_MANAGER}, hasOperandsDisabled; {_RUNNING}",
        'nvidia.com/gpu.deploy.operands: "false"',
    ),
    "workload-by-default": RulePage(
        "info",
        _OPERATOR,
        "A GPU node has no workload label while sandboxWorkloads is on.",
        "It gets the default of the ClusterPolicy, so a change of that default moves the node to another use.",
        f"{_STATE_MANAGER}, getWorkloadConfig; issue 568 there; {_RUNNING}",
        "no nvidia.com/gpu.workload.config, ClusterPolicy spec.sandboxWorkloads.enabled: true",
        "ClusterPolicy",
    ),
    "default-uncertain": RulePage(
        "warning or info",
        _OPERATOR,
        "Operator 26.7 may not have given this node the default that the ClusterPolicy names.",
        "Since 26.7.0 the writer of the deploy labels and the reader of defaultWorkload are two controllers that race:"
        " after a change of the default, or a restart, nodes without a valid label can stay on the old one while the"
        " ClusterPolicy is ready. An explicit label was never affected.",
        f"{_LABELING} at v26.7.0; seen running: 4 of 8 changes left nodes behind",
        "no valid label, operator v26.7.0, ClusterPolicy spec.sandboxWorkloads.defaultWorkload: vm-passthrough",
        "ClusterPolicy",
    ),
    "none-allocatable": RulePage(
        "warning",
        _OPERATOR,
        "The node has GPUs of its kind, and offers none of them.",
        "The kubelet sets allocatable to 0 as soon as the device plugin is gone, and the capacity to 0 five minutes"
        " later. It is normal for moments after a restart.",
        "Kubernetes pkg/kubelet/cm/devicemanager/manager.go, GetCapacity; k8s-device-plugin issue 58;"
        " kubevirt-gpu-device-plugin issue 20",
        'status.capacity: {nvidia.com/gpu: "8"}, status.allocatable: {nvidia.com/gpu: "0"}',
    ),
    "unhealthy-device": RulePage(
        "warning",
        _OPERATOR,
        "The node offers fewer devices than it has.",
        "The device plugin has marked some unhealthy, mostly after an XID error, and takes them back only when it is"
        " restarted. Running Pods do not lower allocatable.",
        "NVIDIA/k8s-device-plugin internal/rm/health.go; issue 1065 there",
        'status.capacity: {nvidia.com/gpu: "8"}, status.allocatable: {nvidia.com/gpu: "7"}',
    ),
    "left-over-resource": RulePage(
        "info",
        _OPERATOR,
        "A name of an earlier use, or of an earlier layout, is still in the capacity and is not offered.",
        "After a change of use the kubelet keeps the old capacity for five minutes, then sets it to 0 and keeps the"
        " name. Both are normal.",
        "kubernetes/kubernetes issue 92396; k8snetworkplumbingwg/sriov-network-device-plugin issue 245",
        'nvidia.com/gpu.workload.config: vm-passthrough, status.capacity: {nvidia.com/gpu: "4"}, allocatable "0"',
    ),
    "unknown-resource": RulePage(
        "info",
        _OPERATOR,
        "An nvidia.com/ name is none that a plugin of NVIDIA is known to give.",
        "KubeVirt's own plugin advertises whatever name its configuration says, and other projects use the prefix too,"
        " so this is no fault by itself. Where a known name is near, it is named: VMs find a device only by the exact"
        " name.",
        "KubeVirt pkg/virt-handler/device-manager/device_controller.go; kubevirt issue 7547",
        'status.allocatable: {nvidia.com/TU104GL_Tesla_T4: "1"}',
    ),
    "companion-resource": RulePage(
        "info",
        _OPERATOR,
        "An audio, USB or bridge function of a card is advertised like a GPU.",
        "The KubeVirt plugin advertises every function of NVIDIA's that is bound to vfio-pci. Counting them as GPUs"
        " gives too many.",
        "NVIDIA/kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go; issue 67 there",
        'status.allocatable: {nvidia.com/GA102_HIGH_DEFINITION_AUDIO_CONTROLLER: "1"}',
    ),
    "plugin-of-other-mode": RulePage(
        "warning",
        _OPERATOR,
        "The name of a passthrough GPU comes from the plugin of the other sandbox mode.",
        "Mode kubevirt and mode kata have a plugin each, and the two call one card differently: pgpu or a model name"
        " with hyphens in kata, a model name without hyphens in kubevirt. VMs that name one never get the other.",
        "NVIDIA/sandbox-device-plugin cmd/main.go; NVIDIA/kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go",
        'ClusterPolicy spec.sandboxWorkloads.mode: kubevirt, status.allocatable: {nvidia.com/pgpu: "8"}',
        "ClusterPolicy",
    ),
    "plugin-disabled": RulePage(
        "warning",
        _OPERATOR,
        "The ClusterPolicy turns off the plugin that would advertise this node's GPUs.",
        "Then nothing of the operator advertises them. In mode kata no plugin advertises vGPUs at all. A warning and no"
        " error, because a plugin may be installed by other means.",
        f"{_STATE_MANAGER}, isStateEnabled; {_RUNNING}",
        "nvidia.com/gpu.workload.config: vm-passthrough, ClusterPolicy spec.sandboxDevicePlugin.enabled: false",
        "ClusterPolicy",
    ),
    "operand-off": RulePage(
        "warning or info",
        _OPERATOR,
        "A deploy label is false: the operand was taken off this node on purpose.",
        "The operator honours the value until the node changes its use, which forgets it. A warning where it is the"
        " container toolkit and the node still offers GPUs: unless the host has a toolkit of its own, Pods are placed"
        " there, get no device, and nothing reports it.",
        f"{_STATE_MANAGER}, addGPUStateLabels; {_RUNNING}",
        'nvidia.com/gpu.deploy.dcgm-exporter: "false"',
    ),
    "operand-paused": RulePage(
        "warning or info",
        _OPERATOR,
        "A deploy label is paused-for-mig-change, paused-for-vgpu-change or paused-for-driver-upgrade.",
        "A manager pauses its clients while it works. Information while the state label says so; a warning when no"
        " change is under way, because then nobody takes the pause back.",
        "NVIDIA/mig-parted pkg/mig/reconfigure/reconfigure.go and issue 485; NVIDIA/k8s-driver-manager"
        " cmd/driver-manager/main.go; gpu-operator issues 316 and 2833",
        "nvidia.com/gpu.deploy.device-plugin: paused-for-mig-change, nvidia.com/mig.config.state: success",
    ),
    "operand-blocked": RulePage(
        "error or warning",
        _OPERATOR,
        "A deploy label is empty, so the operand never starts.",
        "The driver manager stamps an empty value on operands that never ran on a node. Before 26.7 the operator took"
        " any existing value for a wish; since then it replaces the empty one, except for mig-manager. A warning where"
        " the version is not known, or where GPUs work without the operand.",
        f"{_STATE_MANAGER}, addGPUStateLabels; gpu-operator issue 2272; {_RUNNING}",
        'nvidia.com/gpu.deploy.sandbox-device-plugin: "", operator v26.3.3',
        "version",
    ),
    "operand-label-invalid": RulePage(
        "warning",
        _OPERATOR,
        'A deploy label has a text that is neither "true" nor one that the operator or its managers write.',
        'The DaemonSet selects "true" and nothing else, and the operator keeps whatever text it finds.',
        f"{_STATE_MANAGER}, addGPUStateLabels; {_RUNNING}",
        'nvidia.com/gpu.deploy.device-plugin: "True"',
    ),
    "deploy-label-missing": RulePage(
        "warning",
        _OPERATOR,
        "Deploy labels that the operator sets for this use are not on the node.",
        "Without its label an operand has no Pod there, and the ClusterPolicy stays ready. Versions before 26.7 put a"
        " lost label back within seconds; 26.7 does not until something else makes it look.",
        f"{_STATE_MANAGER}, gpuStateLabels; {_RUNNING}",
        "nvidia.com/gpu.present: true, and no nvidia.com/gpu.deploy.container-toolkit",
    ),
    "operator-behind": RulePage(
        "warning",
        _OPERATOR,
        "The node carries deploy labels of another use than the one it is for.",
        "The operator exchanges them within seconds of a change of the workload label. If they stay, it does not run,"
        " does not look at this label (sandboxWorkloads), or is held up.",
        f"{_STATE_MANAGER}, removeGPUStateLabels; {_RUNNING}",
        "nvidia.com/gpu.workload.config: vm-vgpu, nvidia.com/gpu.deploy.device-plugin: true",
    ),
    "host-driver": RulePage(
        "warning",
        _OPERATOR,
        "A node for VMs brings an NVIDIA driver of the host's own.",
        "The driver holds the GPUs, which vfio-pci or the vGPU manager needs.",
        "NVIDIA/gpu-operator issue 1018",
        "nvidia.com/gpu.workload.config: vm-passthrough, nvidia.com/gpu.deploy.driver: pre-installed",
    ),
    "driver-upgrade-failed": RulePage(
        "error",
        _OPERATOR,
        "The driver's upgrade failed on this node.",
        "The upgrade controller leaves the node cordoned, and waits for a person.",
        "NVIDIA/k8s-operator-libs pkg/upgrade/consts.go",
        "nvidia.com/gpu-driver-upgrade-state: upgrade-failed",
    ),
    "driver-upgrade-pending": RulePage(
        "info",
        _OPERATOR,
        "The driver is being exchanged, so a node that offers no GPU is not judged.",
        "The upgrade controller cordons the node, takes its GPU Pods off and restarts the driver's Pod; the device plugin"
        " comes back last. A node in upgrade-required waits for its turn and works on.",
        "NVIDIA/k8s-operator-libs pkg/upgrade/consts.go; seen running",
        "nvidia.com/gpu-driver-upgrade-state: pod-restart-required",
    ),
    "vgpu-change-pending": RulePage(
        "info",
        _OPERATOR,
        "vGPU devices are being made anew, so names and quantities are not judged.",
        "The vGPU device manager removes all devices before it makes the new ones.",
        "NVIDIA/vgpu-device-manager cmd/nvidia-k8s-vgpu-dm/main.go",
        "nvidia.com/vgpu.config.state: pending",
    ),
    "vgpu-change-failed": RulePage(
        "error",
        _OPERATOR,
        "The vGPU configuration could not be applied.",
        "Mostly its name is not in the ConfigMap, VMs still use the devices, or there is no vGPU driver.",
        "NVIDIA/vgpu-device-manager cmd/nvidia-k8s-vgpu-dm/main.go",
        "nvidia.com/vgpu.config: A10-5Q, nvidia.com/vgpu.config.state: failed",
    ),
    "vgpu-config-mismatch": RulePage(
        "error",
        _OPERATOR,
        "The node offers vGPU types that its configuration does not make.",
        "The resource name carries the type, so requests for the configured one wait for ever.",
        "NVIDIA/vgpu-device-manager examples/config-example.yaml, 711 configurations",
        'nvidia.com/vgpu.config: A10-4Q, status.allocatable: {nvidia.com/NVIDIA_A10-12Q: "4"}',
    ),
    "vgpu-quantity-mismatch": RulePage(
        "warning",
        _OPERATOR,
        "The number of vGPUs is no multiple of what the configuration makes of each GPU.",
        "Some devices could not be made, or the configuration was applied to some GPUs only.",
        "NVIDIA/vgpu-device-manager examples/config-example.yaml, 711 configurations",
        'nvidia.com/vgpu.config: A10-4Q (6 of each GPU), status.capacity: {nvidia.com/NVIDIA_A10-4Q: "7"}',
    ),
    "vgpu-config-unknown": RulePage(
        "info",
        _OPERATOR,
        "The vGPU configuration is none of NVIDIA's own, so types and quantities are not judged.",
        "A ConfigMap of one's own may define it. If none does, the device manager sets the state failed.",
        "NVIDIA/vgpu-device-manager examples/config-example.yaml",
        "nvidia.com/vgpu.config: half-and-half",
    ),
    "mig-change-pending": RulePage(
        "info",
        _OPERATOR,
        "GPUs are being divided anew, so names and quantities are not judged.",
        "The MIG manager stops the device plugin first; even nvidia.com/gpu.product may be gone for a while.",
        "NVIDIA/mig-parted pkg/mig/reconfigure/reconfigure.go; gpu-operator issue 2495",
        "nvidia.com/mig.config.state: rebooting",
    ),
    "mig-change-failed": RulePage(
        "error",
        _OPERATOR,
        "The MIG configuration could not be applied.",
        "Mostly its name is not in the ConfigMap, a process still uses a GPU, or the layout does not fit.",
        "NVIDIA/mig-parted pkg/mig/reconfigure/reconfigure.go",
        "nvidia.com/mig.config: all-1g.5gb, nvidia.com/mig.config.state: failed",
    ),
    "mig-strategy-mismatch": RulePage(
        "error",
        _OPERATOR,
        "The node offers MIG profiles by name, and mig.strategy is not mixed.",
        "Only strategy mixed names profiles; single calls every slice nvidia.com/gpu, and none divides nothing.",
        "NVIDIA/k8s-device-plugin internal/rm/rm.go and README, MIG strategies",
        'nvidia.com/mig.strategy: single, status.allocatable: {nvidia.com/mig-1g.10gb: "7"}',
    ),
    "mig-config-mismatch": RulePage(
        "error",
        _OPERATOR,
        "The node offers other slices than its MIG configuration makes, or whole GPUs where all are divided.",
        "Requests for the configured profile wait for ever. Sizes in GB are compared loosely, because drivers round"
        " them differently.",
        "NVIDIA/gpu-operator assets/state-mig-manager/0400_configmap.yaml; issue 351 there",
        'nvidia.com/mig.config: all-1g.10gb, status.allocatable: {nvidia.com/mig-3g.40gb: "2"}',
    ),
    "mig-quantity-mismatch": RulePage(
        "warning",
        _OPERATOR,
        "The number of slices offered is not the one that GPU Feature Discovery counted.",
        "The device plugin has not taken notice of a change of the layout.",
        "NVIDIA/k8s-device-plugin internal/lm/resource.go",
        'nvidia.com/mig-1g.10gb.count: "7", status.capacity: {nvidia.com/mig-1g.10gb: "14"}',
    ),
    "mig-layout-not-single": RulePage(
        "error",
        _OPERATOR,
        "mig.strategy is single, and the MIG configuration makes slices of several sizes, or divides some GPUs only.",
        "Then the device plugin fails, and the node offers nothing.",
        "NVIDIA/k8s-device-plugin internal/lm/mig-strategy.go; gpu-operator issue 460",
        "nvidia.com/mig.config: all-balanced, nvidia.com/mig.strategy: single",
    ),
    "mig-config-without-manager": RulePage(
        "warning",
        _OPERATOR,
        "A MIG configuration is wished for, and no MIG manager runs on the node to apply it.",
        "The operator deploys it where mig.capable is true or, without that label, where the product is an A30, A100 or"
        " H100. Others need nvidia.com/mig.capable first.",
        f"{_STATE_MANAGER}, hasMIGCapableGPU; issues 287 and 652 there; {_RUNNING}",
        "nvidia.com/mig.config: all-1g.10gb, and no nvidia.com/gpu.deploy.mig-manager",
    ),
    "sharing-not-applied": RulePage(
        "warning",
        _OPERATOR,
        "The node's labels say that GPUs are shared, and it offers no more than it has.",
        "The device plugin runs with another configuration than GPU Feature Discovery.",
        "NVIDIA/k8s-device-plugin README, time-slicing; issues 321 and 990 there; gpu-operator issue 684",
        'nvidia.com/gpu.count: "2", nvidia.com/gpu.replicas: "4", status.capacity: {nvidia.com/gpu: "2"}',
    ),
    "count-mismatch": RulePage(
        "warning",
        _OPERATOR,
        "The node offers another number of GPUs than was discovered in it.",
        "A card was removed, has failed, or is bound to another driver; or one of the two has not noticed yet. Not"
        " compared where MIG is mixed, because gpu.count is wrong there.",
        "NVIDIA/k8s-device-plugin internal/lm/resource.go; issues 97 (kubevirt-gpu-device-plugin) and 1501",
        'nvidia.com/gpu.count: "8", status.capacity: {nvidia.com/gpu: "7"}',
    ),
    "dra-node": RulePage(
        "info",
        _OPERATOR,
        "The node's GPUs are given out by Dynamic Resource Allocation.",
        "Pods name them by ResourceClaim, and the scheduler reads ResourceSlices, so no nvidia.com/gpu is right. Such a"
        " node is recognised by its deploy labels, by ResourceSlices of gpu.nvidia.com, or by a GPUCluster in the dump.",
        "NVIDIA/gpu-operator v26.7.0, GPUCluster; kubernetes-sigs/dra-driver-nvidia-gpu",
        "nvidia.com/gpu.deploy.dra-driver: true",
        "ResourceSlice",
    ),
    "dra-and-plugin": RulePage(
        "warning",
        _OPERATOR,
        "The node's GPUs are given out by Dynamic Resource Allocation, and a device plugin offers GPUs too.",
        "The scheduler keeps two accounts that know nothing of each other, so a GPU can be given to two Pods. The"
        " GPU Operator deploys one of the two only.",
        "NVIDIA/gpu-operator v26.7.0, GPUCluster; kubernetes-sigs/dra-driver-nvidia-gpu, README",
        'a ResourceSlice of gpu.nvidia.com for the node, status.allocatable: {nvidia.com/gpu: "8"}',
        "ResourceSlice",
    ),
    "second-cluster-policy": RulePage(
        "warning",
        _OPERATOR,
        "There is more than one ClusterPolicy.",
        "The operator follows one and ignores the others without a word; their status stays empty.",
        f"NVIDIA/gpu-operator controllers/clusterpolicy_controller.go; {_RUNNING}",
        "two objects of kind ClusterPolicy",
        "ClusterPolicy",
    ),
    "conflicting-gpu-cluster": RulePage(
        "error",
        _OPERATOR,
        "There is a ClusterPolicy and a GPUCluster.",
        "They exclude each other. The operator reports a reconcile error and leaves every label and Pod as it was.",
        "NVIDIA/gpu-operator controllers/clusterpolicy_controller.go at v26.7.0; seen running",
        "objects of kind ClusterPolicy and GPUCluster",
        "ClusterPolicy",
    ),
    "toolkit-missing": RulePage(
        "error or warning",
        AUDIT,
        "The device plugin runs on a node without the container toolkit.",
        "The node advertises GPUs, Pods are scheduled there and get no device, and nothing reports an error: the worst"
        " broken chain of operands. A warning where the toolkit is held off on purpose, as the host may have one of its own."
        " A toolkit that the ClusterPolicy switches off counts as the host's.",
        "The lab's text on switching operands by node; NVIDIA/gpu-operator assets/state-device-plugin/0500_daemonset.yaml, init"
        " container toolkit-validation",
        "a Pod of device-plugin Running on the node, none of container-toolkit",
    ),
    "operand-out-of-order": RulePage(
        "warning or info",
        AUDIT,
        "An operand runs on a node without one that it needs.",
        "Operands wait for each other when they start, and not later: what was started before the needed one went, or was"
        " labelled by hand where no operator is, works only by chance. In a lab the chain is driver, container toolkit, device"
        " plugin, GPU Feature Discovery, validator; with an operator it is what the init containers wait for. Information where"
        " the needed one is held off on purpose. A driver that is off on purpose or in the host counts as met.",
        "The lab's text on switching operands by node; NVIDIA/gpu-operator cmd/nvidia-validator/main.go and assets",
        'nvidia.com/gpu.deploy.container-toolkit: "true", and no nvidia.com/gpu.deploy.driver',
    ),
    "operand-tainted-out": RulePage(
        "warning",
        AUDIT,
        "A taint that the operands' DaemonSets do not tolerate keeps their Pods off the node.",
        "The node is not counted in desiredNumberScheduled, so every DaemonSet looks complete and the ClusterPolicy stays"
        " ready. A list of tolerations in the ClusterPolicy replaces the default one of nvidia.com/gpu. A taint that came after the Pods leaves"
        " them running until they are replaced, and is no finding.",
        f"{_DAEMONSET_CONTROLLER}, NodeShouldRunDaemonPod; NVIDIA/gpu-operator controllers/object_controls.go; {_RUNNING}",
        "spec.taints: [{key: dedicated, value: training, effect: NoSchedule}]",
    ),
    "operand-not-running": RulePage(
        "error or warning or info",
        AUDIT,
        "An operand's DaemonSet takes the node, and its Pod does not run there with all containers ready.",
        "A warning while the Pod is being started; information where it waits for another operand that is missing, which is"
        " then the one to see to; an error where a container fails, the image cannot be had, the scheduler refuses it, or there is no"
        " Pod at all.",
        "Kubernetes documentation, Pod Lifecycle and Init Containers; NVIDIA/gpu-operator assets (init containers)",
        "a Pod of dcgm-exporter with a container that waits: CrashLoopBackOff",
    ),
    "daemonset-missing": RulePage(
        "error",
        AUDIT,
        "An operand is due, and no DaemonSet brings it to the node.",
        "The operator makes the DaemonSet of every operand that its ClusterPolicy has on as soon as there is a node with a GPU, and makes"
        " a deleted one anew at once, so it does not run or is held up. Where drivers come precompiled there may be none for the"
        " node's kernel. What the ClusterPolicy switches off is not due.",
        f"{_STATE_MANAGER}, isStateEnabled; {_RUNNING}",
        'nvidia.com/gpu.deploy.device-plugin: "true", and no DaemonSet that selects it',
    ),
    "daemonset-selector-edited": RulePage(
        "error",
        AUDIT,
        "An operand's DaemonSet asks nodes for something else than the deploy label, and so passes by nodes where it is due.",
        "The operator does not repair a selector that was edited by hand until something changes that operand's section, and"
        " the ClusterPolicy stays ready. A DaemonSet that has lost its deploy label is known by its owner and its label app.",
        f"{_RUNNING}",
        'spec.template.spec.nodeSelector: {nvidia.com/gpu.deploy.dcgm-exporter: "true", pool: a}',
    ),
    "ignore-unknown-rule": RulePage(
        "warning",
        _OPERATOR,
        "An annotation would silence a rule that there is not.",
        "A misspelt rule silences nothing, and the finding that was meant comes back.",
        "This collection",
        'gpuwl.sandbox/ignore.count-mismatches: "two GPUs are lent"',
    ),
    "ignore-without-reason": RulePage(
        "warning",
        _OPERATOR,
        "An annotation would silence a rule on this node, and gives no reason.",
        "A silenced finding must tell the next reader why, so without a reason it silences nothing.",
        "This collection",
        'gpuwl.sandbox/ignore.count-mismatch: ""',
    ),
}


def explain(rule: str) -> str:
    """Return a rule's page as text, without a newline at the end. Raises KeyError for a rule that there is not."""
    page = RULE_PAGES[rule]
    lines = [
        f"{rule} ({page.severity}; {'module' if page.profiles == AUDIT else 'profile'} {page.profiles})",
        "",
        page.what,
        "",
        "Why: " + page.why,
        "Example: " + page.example,
        "Source: " + page.source,
    ]
    if page.needs:
        lines.append("Needs: " + NEEDS[page.needs])
    return "\n".join(lines)
