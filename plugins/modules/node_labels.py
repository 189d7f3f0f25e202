#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Set and remove labels of many nodes in one call
version_added: 0.1.0
author:
  - gpuwl.sandbox contributors (@gpuwl)
description:
  - Brings labels of Kubernetes nodes about. All nodes are read with one LIST (page by page), and only those that differ are written.
  - Everything is checked before the first write. Invalid names or values and unknown nodes are all named in one error.
  - A write holds only the labels that differ and the version of the node it was worked out from. When somebody else changed the node
    in between, it is read again and the difference is worked out anew, so nothing of theirs is lost.
  - When the API fails midway, the failed result holds RV(written) and RV(not_written). Running the task again does the rest.
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
    details: Shows the labels that change, by node, and no others.
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
      labels:
        description:
          - Labels of this node. They are added to the module's O(labels), and win where both have the same name.
        type: dict
      labels_state:
        description: As O(labels_state), for this node alone.
        type: str
        choices:
          - merge
          - replace
      labels_to_remove:
        description:
          - Names of labels to take away from this node, besides the module's O(labels_to_remove). What is removed here is not set by
            the module's O(labels).
        type: list
        elements: str
  labels:
    description:
      - Labels of every node in O(nodes), as name and value. A value is a string or a whole number. A boolean must be in quotes,
        because V(true) would become another text than was typed.
    type: dict
    default: {}
  labels_state:
    description:
      - V(merge) sets the labels given and leaves all others alone.
      - V(replace) also removes the labels that are not given, except those whose name begins with a domain that is reserved for
        Kubernetes (C(kubernetes.io), C(k8s.io) and the domains below them, such as C(node.kubernetes.io),
        C(topology.kubernetes.io) and C(node-role.kubernetes.io)). The kubelet and controllers own these, and without
        C(kubernetes.io/hostname) Pods of volumes and affinities don't find their node. Such a label goes only when
        O(labels_to_remove) names it.
    type: str
    default: merge
    choices:
      - merge
      - replace
  labels_to_remove:
    description:
      - Names of labels to take away from every node in O(nodes), except where a node's own O(nodes[].labels) sets them. Names that a
        node does not carry are fine.
    type: list
    elements: str
    default: []
  require_originals:
    description:
      - Change only what M(gpuwl.sandbox.node_originals) keeps on the node, and fail where it does not keep what was there before. So
        nothing is lost when another run puts nodes back at the same time.
    type: bool
    default: false
seealso:
  - module: gpuwl.sandbox.node_originals
  - module: gpuwl.sandbox.node_status
  - name: The module docker_node of the collection community.docker
    description: Has the same options for labels.
    link: https://docs.ansible.com/ansible/latest/collections/community/docker/docker_node_module.html
"""

EXAMPLES = r"""
- name: Say what three nodes are for
  gpuwl.sandbox.node_labels:
    kubeconfig: ~/.kube/config
    nodes:
      - name: lab-node-0
        labels:
          nvidia.com/gpu.workload.config: container
      - name: lab-node-1
        labels:
          nvidia.com/gpu.workload.config: vm-passthrough
      - name: lab-node-2
        labels:
          nvidia.com/gpu.workload.config: vm-vgpu

- name: Give two nodes the same label and take another away
  gpuwl.sandbox.node_labels:
    nodes:
      - name: lab-node-0
      - name: lab-node-1
    labels:
      example.com/rack: r7
    labels_to_remove:
      - example.com/spare

- name: Leave only this label, and Kubernetes' own
  gpuwl.sandbox.node_labels:
    nodes:
      - name: lab-node-0
    labels:
      nvidia.com/gpu.workload.config: container
    labels_state: replace
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
        app.kubernetes.io/managed-by: gpuwl.sandbox
        kubernetes.io/hostname: lab-node-0
        nvidia.com/gpu.workload.config: container
      after:
        app.kubernetes.io/managed-by: gpuwl.sandbox
        example.com/rack: r7
        kubernetes.io/hostname: lab-node-0
        nvidia.com/gpu.workload.config: container
  contains:
    name:
      description: The name of the node.
      type: str
    changed:
      description: Whether its labels changed (in check mode, would change).
      type: bool
    before:
      description: All its labels before, as the API server gave them.
      type: dict
    after:
      description: All its labels after, as the API server answered the write (in check mode, as worked out).
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

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_labels
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_node_labels.argument_spec(), _node_labels.run)


if __name__ == "__main__":
    main()
