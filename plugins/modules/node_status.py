#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_status
short_description: Set extended resources in the status of many nodes in one call
version_added: 0.1.0
author:
  - gpuwl.sandbox contributors (@gpuwl)
description:
  - Brings extended resources such as C(nvidia.com/gpu) about in C(status.capacity) and C(status.allocatable) of Kubernetes nodes, both
    in one request to the C(status) subresource, which M(kubernetes.core.k8s) can't write.
  - All nodes are read with one LIST (page by page), and only those that differ are written. The API server's answer is compared with what
    was asked, and the task fails when it does not hold it.
  - Everything is checked before the first write. Invalid names, quantities that are not whole numbers, unknown nodes and resources that
    belong to the kubelet are all named in one error.
  - Quantities are compared as numbers, so C(2k) and C(2000) are the same.
  - When only allocatable differs on a node with a kubelet, the module waits up to ten seconds, because the kubelet makes allocatable
    equal to capacity at its next sync. Where no kubelet runs (KWOK), nobody would, and it is written at once.
  - Writes are made as field manager C(gpuwl), so that C(kubectl get node --show-managed-fields) tells them from a device plugin's.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
attributes:
  check_mode:
    support: full
    details: Reads the nodes. Nothing is sent that could change anything.
  diff_mode:
    support: full
    details: Shows the resources that change, by node, and no others.
  idempotent:
    support: full
options:
  nodes:
    description:
      - The nodes, one entry each. An empty list does nothing.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The name of the Node object.
        type: str
        required: true
      resources:
        description:
          - Resources of this node. They are added to the module's O(resources), and win where both have the same name.
        type: dict
      resources_to_remove:
        description:
          - Names to take away from this node, besides the module's O(resources_to_remove). What is removed here is not set by the
            module's O(resources).
        type: list
        elements: str
  resources:
    description:
      - Resources of every node in O(nodes), as name and quantity. A name is an extended resource's, so it has a domain
        that is not Kubernetes' own. A quantity is a whole number from 0, and may carry a suffix (C(2k)).
      - V(0) is kept as a quantity. To take a resource away, use O(resources_to_remove) or O(resources_state=replace).
    type: dict
    default: {}
  resources_state:
    description:
      - V(merge) sets the resources given and leaves all others alone.
      - V(replace) also removes the resources that are not given and whose name begins with O(resources_prefix).
    type: str
    default: merge
    choices:
      - merge
      - replace
  resources_prefix:
    description:
      - What the names begin with that O(resources_state=replace) may remove, such as V(nvidia.com/) or V(nvidia.com/mig-). It must
        hold a slash, so that it is a whole domain. It does not limit what may be set.
      - Required with O(resources_state=replace).
    type: str
  resources_to_remove:
    description:
      - Names to take away from every node in O(nodes), except where a node's own O(nodes[].resources) sets them. Names that a node does
        not have are fine.
    type: list
    elements: str
    default: []
  force:
    description:
      - Change resources above zero that the kubelet owns. A device plugin registered these, and the kubelet brings them back at its
        next sync, so without this the module refuses. Leftovers of zero may always go.
      - Whether the kubelet owns a resource is told by C(metadata.managedFields) and its manager C(kubelet). A resource that anybody
        else wrote is free to change.
    type: bool
    default: false
  require_originals:
    description:
      - Change only what M(gpuwl.sandbox.node_originals) keeps on the node, and fail where it does not keep what was there before. So
        nothing is lost when another run puts nodes back at the same time.
    type: bool
    default: false
seealso:
  - module: gpuwl.sandbox.node_originals
  - module: gpuwl.sandbox.node_labels
  - name: Advertise extended resources for a node
    description: The same by hand.
    link: https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
"""

EXAMPLES = r"""
- name: Give three nodes their GPUs
  gpuwl.sandbox.node_status:
    kubeconfig: ~/.kube/config
    nodes:
      - name: lab-node-0
        resources:
          nvidia.com/gpu: 4
      - name: lab-node-1
        resources:
          nvidia.com/GA102GL_A10: 2
      - name: lab-node-2
        resources:
          nvidia.com/NVIDIA_A10-12Q: 4

- name: Change a node's use, and leave no other name of NVIDIA's behind
  gpuwl.sandbox.node_status:
    nodes:
      - name: lab-node-2
    resources:
      nvidia.com/NVIDIA_A10-4Q: 12
    resources_state: replace
    resources_prefix: nvidia.com/

- name: Take a resource away
  gpuwl.sandbox.node_status:
    nodes:
      - name: lab-node-0
    resources_to_remove:
      - nvidia.com/gpu
"""

RETURN = r"""
nodes:
  description: One entry per node, in the order of O(nodes).
  returned: success
  type: list
  elements: dict
  sample:
    - name: lab-node-0
      changed: true
      before:
        capacity: {}
        allocatable: {}
      after:
        capacity:
          nvidia.com/gpu: "4"
        allocatable:
          nvidia.com/gpu: "4"
  contains:
    name:
      description: The name of the node.
      type: str
    changed:
      description: Whether its resources changed (in check mode, would change).
      type: bool
    before:
      description:
        - All its extended resources before, by RV(nodes[].before.capacity) and RV(nodes[].before.allocatable). Quantities are strings of
          whole numbers, V(2000) where the API answers C(2k).
      type: dict
      contains:
        capacity:
          description: Name and quantity in C(status.capacity).
          type: dict
        allocatable:
          description: Name and quantity in C(status.allocatable).
          type: dict
    after:
      description: The same after, as the API server answered the write (in check mode, as worked out).
      type: dict
      contains:
        capacity:
          description: Name and quantity in C(status.capacity).
          type: dict
        allocatable:
          description: Name and quantity in C(status.allocatable).
          type: dict
written:
  description: Names of the nodes written before the API failed.
  returned: when the API fails after the first write was begun
  type: list
  elements: str
  sample: [lab-node-0]
not_written:
  description:
    - Names of the nodes not written, or of which no answer came, when the API failed.
  returned: when the API fails after the first write was begun
  type: list
  elements: str
  sample: [lab-node-1]
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_status
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(
        _node_status.argument_spec(),
        _node_status.run,
        required_if=[("resources_state", "replace", ("resources_prefix",))],
    )


if __name__ == "__main__":
    main()
