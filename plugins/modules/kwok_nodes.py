#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kwok_nodes
short_description: Have exactly these nodes on a KWOK cluster
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Creates Node objects without a machine behind them, brings their taints and native capacity up to date, and removes those that it
    made earlier and that are no longer asked for. kwok plays their kubelet.
  - Nodes that it did not make are never touched. What it makes carries the label C(app.kubernetes.io/managed-by=gpuwl.sandbox).
  - Ends when every node is Ready, so that the scheduler counts them all from then on.
  - Unlike M(kubernetes.core.k8s) it can change the capacity of a node that exists, which is part of its status.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows what changes, by node.
  idempotent:
    support: full
options:
  nodes:
    description: All the nodes that there shall be, in the order in which they are made.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      labels:
        description:
          - Labels that a new node gets. Those of a node that exists are the business of M(gpuwl.sandbox.node_labels), except that labels with
            a prefix of Kubernetes itself (C(kubernetes.io), C(k8s.io)) that are not named here are removed.
        type: dict
        default: {}
      taints:
        description: Taints, each with C(key), C(value) and C(effect). Kubernetes' own (C(node.kubernetes.io/...)) are left alone.
        type: list
        elements: dict
        default: []
      capacity:
        description: All native resources, such as C(cpu), C(memory) and C(pods), for capacity and allocatable alike. Others are removed.
        type: dict
        required: true
  wait_timeout:
    description: Seconds to wait for the nodes to be Ready.
    type: int
    default: 120
seealso:
  - module: gpuwl.sandbox.node_labels
  - module: gpuwl.sandbox.node_status
  - plugin: gpuwl.sandbox.pool_nodes
    plugin_type: filter
    description: Gives the nodes from declared pools.
"""

EXAMPLES = r"""
- name: Have two nodes, of which one takes no Pods but those that ask for GPUs
  gpuwl.sandbox.kwok_nodes:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    nodes:
      - name: lab-node-0
        capacity: {cpu: "32", memory: 256Gi, pods: "110"}
        taints:
          - {key: nvidia.com/gpu, effect: NoSchedule}
      - name: edge-0
        capacity: {cpu: "8", memory: 64Gi, pods: "110"}
        labels: {nvidia.com/gpu.workload.config: container}
"""

RETURN = r"""
created:
  description: Names of the nodes that were created.
  returned: success
  type: list
  elements: str
  sample: [edge-0]
updated:
  description: Names of the nodes whose taints, capacity or labels with a prefix of Kubernetes changed.
  returned: success
  type: list
  elements: str
  sample: [lab-node-0]
removed:
  description: Names of the nodes that were removed.
  returned: success
  type: list
  elements: str
  sample: [lab-node-1, lab-node-2]
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _kwok_nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_kwok_nodes.argument_spec(), _kwok_nodes.run)


if __name__ == "__main__":
    main()
