#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_originals
short_description: Keep what nodes were before they are changed, and put it back
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Run it before M(gpuwl.sandbox.node_labels) and M(gpuwl.sandbox.node_status) with the same declaration. For each label and extended
    resource that these are going to change, it keeps the value that is there, or that there is none, in the annotation
    C(gpuwl.sandbox/originals) of the node. What is kept already is never overwritten, so it is the state before the first run.
  - Whatever an earlier declaration changed and this one does not name is put back, and forgotten. With an empty list of O(nodes)
    everything is put back on every node, and the annotations are gone.
  - The annotation lies on the node, so this works from any machine. It can be interrupted and repeated.
  - A key that was not there is removed, a resource with null in capacity and allocatable alike. A resource that a device plugin has
    registered meanwhile is the kubelet's and stays.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the labels and resources that are put back, and what is kept before and after.
  idempotent:
    support: full
options:
  nodes:
    description:
      - The declaration, an entry per node. The nodes must exist. An empty list puts everything back.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      labels:
        description: The labels that it is going to have, name to value. Others are left alone.
        type: dict
        default: {}
      resources:
        description: The extended resources that it is going to advertise, name to whole number.
        type: dict
        default: {}
  scope:
    description: What the declaration speaks of. The other is neither kept nor put back.
    type: list
    elements: str
    choices: [labels, resources]
    default: [labels, resources]
  resources_prefix:
    description:
      - What the names begin with that are going to be taken away where they are not declared, as
        O(gpuwl.sandbox.node_status#module:resources_prefix) says it.
    type: str
    default: nvidia.com/
seealso:
  - module: gpuwl.sandbox.node_labels
  - module: gpuwl.sandbox.node_status
"""

EXAMPLES = r"""
- name: Keep what is going to be changed
  gpuwl.sandbox.node_originals:
    kubeconfig: ~/.kube/config
    nodes:
      - name: lab-node-0
        labels: {nvidia.com/gpu.workload.config: vm-vgpu}
        resources: {nvidia.com/NVIDIA_A10-12Q: 4}

- name: Change it
  gpuwl.sandbox.node_labels:
    kubeconfig: ~/.kube/config
    nodes:
      - name: lab-node-0
        labels: {nvidia.com/gpu.workload.config: vm-vgpu}
    require_originals: true

- name: Put everything back
  gpuwl.sandbox.node_originals:
    kubeconfig: ~/.kube/config
    nodes: []
"""

RETURN = r"""
kept:
  description:
    - What is kept from now on, for each node where that changed, by its name.
    - Each holds C(labels), name to value, and C(resources), name to the quantities in C(capacity) and C(allocatable). Null and a missing
      field mean that the node had none.
  returned: success
  type: dict
  sample:
    lab-node-0:
      labels:
        nvidia.com/gpu.workload.config: container
      resources:
        nvidia.com/NVIDIA_A10-12Q: {}
        nvidia.com/gpu: {allocatable: "4", capacity: "4"}
put_back:
  description:
    - The labels and resources that were put back, for each node where there were any, in the form of RV(kept). Null and a missing field
      mean removed.
  returned: success
  type: dict
  sample:
    lab-node-0:
      labels:
        nvidia.com/gpu.workload.config: container
      resources: {}
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_originals
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_node_originals.argument_spec(), _node_originals.run)


if __name__ == "__main__":
    main()
