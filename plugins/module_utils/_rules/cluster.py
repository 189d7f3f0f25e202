# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dumps say about the cluster that a node stands in: ClusterPolicy, operator version, DRA.

Private to the collection gpuwl.sandbox. Sources: NVIDIA/gpu-operator deployments/gpu-operator/templates
(labels and images), kubernetes-sigs/dra-driver-nvidia-gpu (the driver's name in ResourceSlices).
"""

import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import Policy, read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    NEWEST_VERSION,
    nearest_version,
    parse_version,
)

Place = Tuple[str, ...]

# Kinds beside Node that tell something; with each the resource as kubectl names it.
CONTEXT_KINDS = {
    "ClusterPolicy": "clusterpolicies.nvidia.com",
    "GPUCluster": "gpuclusters.nvidia.com",
    "Deployment": "deployments.apps",
    "DaemonSet": "daemonsets.apps",
    "Pod": "pods",
    "ResourceSlice": "resourceslices.resource.k8s.io",
}
GPU_DRA_DRIVER = "gpu.nvidia.com"

_IMAGE = re.compile(r"(?:^|/)gpu-operator(?:-validator)?:(v?[0-9][^@]*)")
_CHART = re.compile(r"gpu-operator-(v?[0-9].*)\Z")
_BUNDLE = re.compile(r"gpu-operator-certified\.(v?[0-9].*)\Z")


# Of one kind so many objects are noted; ResourceSlices are one per node and pool.
_MOST_TOLD = 100
_MOST_SLICES = 100000


class Cluster(NamedTuple):
    """What is known, or assumed, about the cluster of a node."""

    policy: Optional[Policy]
    policy_source: str  # where it came from, "" without one
    other_policies: Tuple[str, ...]  # ClusterPolicies that the operator ignores
    is_policy_sure: bool  # whether their status tells which one the operator follows
    gpu_clusters: Tuple[str, ...]
    version: Tuple[int, int]  # one of workload.KNOWN_VERSIONS
    version_text: str  # as found, "" if assumed
    version_source: str
    slice_nodes: FrozenSet[str]  # nodes whose GPUs a DRA driver offers
    saw_slices: bool  # whether there were ResourceSlices at all

    @property
    def sandbox(self) -> bool:
        """Whether workload labels count; assumed where no ClusterPolicy says so, because somebody has set them."""
        return self.policy.sandbox if self.policy else True


class Surroundings:
    """Collects what is told beside the nodes, and finds what stands nearest to one.

    Nearest: in the node's own file, else in its folder or below, else in the folder above, up to everything that
    was given. So folders of several clusters can be judged in one go, and so can a cluster in several files.
    """

    def __init__(self, policy: Optional[Policy] = None, version: str = "", saw_slices: bool = False) -> None:
        """policy, version: given by the user, which stand above what dumps say.

        saw_slices: whether all ResourceSlices are there, so that none means that there are none.
        """
        self._policy = policy
        self._version = version
        self._saw_slices = saw_slices
        # What was told -> place or a folder above it -> the values, in the order in which they came.
        self._found: Dict[str, Dict[Place, Dict[Any, None]]] = {}
        self._clusters: Dict[Place, Cluster] = {}

    def take(self, kind: str, item: Dict[str, Any], source: str, place: Place) -> None:
        """Note what an object of a kind of CONTEXT_KINDS tells. Raises ValueError for a ClusterPolicy that cannot be."""
        name = str(_dig(item, "metadata.name") or "")
        if kind == "ClusterPolicy":
            # The status of a second, ignored one stays empty.
            self._note("policies", (not _dig(item, "status.state"), read_policy(item), source), place)
        elif kind == "GPUCluster":
            self._note("gpu_clusters", name, place)
        elif kind == "ResourceSlice":
            is_gpu = _dig(item, "spec.driver") == GPU_DRA_DRIVER
            self._note("slices", str(_dig(item, "spec.nodeName") or "") if is_gpu else "", place)
        else:
            version = version_told_by(item)
            if version:
                # In the midst of an upgrade the operands are still those of the old version.
                is_operand = kind != "Deployment" and _dig(item, "metadata.labels.app") != "gpu-operator"
                self._note("versions", (is_operand, version, f"{kind} {name}"), place)

    def cluster_at(self, place: Place) -> Cluster:
        """Return what is known about the cluster of the nodes in a file."""
        if place not in self._clusters:
            self._clusters[place] = self._gather(place)
        return self._clusters[place]

    def _gather(self, place: Place) -> Cluster:
        # By a fixed rule, so that the order of files tells nothing.
        policies = sorted(
            self._nearest("policies", place), key=lambda found: (found[0], found[1].name, repr(found[1:]))
        )
        versions = sorted(self._nearest("versions", place), key=_newest_first)
        policy, source = self._policy, "as given" if self._policy else ""
        if not policy and policies:
            policy, source = policies[0][1], policies[0][2]
        text, told_by = self._version, "as given" if self._version else ""
        if not text and versions:
            _rank, text, told_by = versions[0]
        parsed = parse_version(text)
        slices = self._nearest("slices", place)
        others = [] if self._policy else [found for found in policies if found[1] != policy]
        return Cluster(
            policy=policy,
            policy_source=source,
            other_policies=tuple(sorted({found[1].name for found in others})),
            is_policy_sure=all(found[0] != policies[0][0] for found in others),
            gpu_clusters=tuple(sorted(set(self._nearest("gpu_clusters", place)))),
            version=nearest_version(parsed) if parsed else NEWEST_VERSION,
            version_text=text,
            version_source=told_by,
            slice_nodes=frozenset(slices) - {""},
            saw_slices=self._saw_slices or bool(slices),
        )

    def _note(self, what: str, value: Any, place: Place) -> None:
        """Note a value for its place and all above; of a hostile dump not more than could be meant."""
        most = _MOST_SLICES if what == "slices" else _MOST_TOLD
        at = self._found.setdefault(what, {})
        for length in range(len(place) + 1):
            values = at.setdefault(place[:length], {})
            if len(values) < most:
                values[value] = None

    def _nearest(self, what: str, place: Place) -> List[Any]:
        at = self._found.get(what, {})
        for length in range(len(place), -1, -1):
            if place[:length] in at:
                return list(at[place[:length]])
        return []


def _newest_first(found: Tuple[bool, str, str]) -> Tuple[bool, int, int, str, str]:
    is_operand, version, told_by = found
    major, minor = parse_version(version) or (0, 0)
    return is_operand, -major, -minor, version, told_by


def version_told_by(item: Dict[str, Any]) -> str:
    """Return the GPU Operator's version that a Deployment, DaemonSet or Pod of it tells, such as "v26.3.3", or ""."""
    labels = _dig(item, "metadata.labels")
    labels = labels if isinstance(labels, dict) else {}
    version = labels.get("app.kubernetes.io/version")
    if "gpu-operator" in (labels.get("app.kubernetes.io/name"), labels.get("app")) and parse_version(version):
        return str(version)
    for key, pattern in (("helm.sh/chart", _CHART), ("olm.owner", _BUNDLE)):
        told = pattern.match(str(labels.get(key) or ""))
        if told and parse_version(told.group(1)):
            return told.group(1)
    for image in _images(item):
        told = _IMAGE.search(image)
        if told and parse_version(told.group(1)):
            return told.group(1)
    return ""


def _images(item: Dict[str, Any]) -> List[str]:
    spec = _dig(item, "spec.template.spec") or _dig(item, "spec") or {}
    images = []
    for field in ("containers", "initContainers"):
        containers = spec.get(field) if isinstance(spec, dict) else None
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict) and isinstance(container.get("image"), str):
                images.append(container["image"])
    return images


def _dig(item: Any, path: str) -> Any:
    """Return the value at a path of keys, None where there is none."""
    for key in path.split("."):
        item = item.get(key) if isinstance(item, dict) else None
    return item
