#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operand_audit
short_description: Say which GPU operands each node should run, which run, and which are out of order
version_added: 0.1.0
author:
  - gpuwl.sandbox contributors (@gpuwl)
description:
  - Compares what is due on each node with a GPU with the Pods that are Running there, and says of each operand that is missing why.
    Then it names operands that run on a node without what they need, such as a device plugin without the container toolkit, where
    Pods are placed and get no device.
  - Operands are found by the label C(nvidia.com/gpu.deploy.OPERAND) that their DaemonSets ask nodes for, not by name or namespace, so
    DaemonSets of a lab and renamed ones count.
  - It never judges by C(desiredNumberScheduled), in which a node whose taint is not tolerated does not count, nor by the state of the
    ClusterPolicy, and says in RV(misleading) where these say that all is well and operands are missing.
  - With a ClusterPolicy, what is due follows from it, from the operator's version and from the node's labels. Without one, as in a lab,
    that is due which belongs to the node's workload label (V(container) without one) and has a DaemonSet, and what needs what is the
    lab's chain of driver, container toolkit, device plugin, GPU Feature Discovery and validator.
  - Reads Nodes, DaemonSets, Pods and, where the API server knows these kinds, ClusterPolicies, NVIDIADrivers and GPUClusters, each with one
    LIST (page by page). Needs the verb C(list) on them and no other. Nodes whose GPUs are given out by DRA are not judged.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.reads_only
options:
  operator_version:
    description:
      - The GPU Operator's version, such as V(26.3.3) or V(26.3).
      - Left out, the one that DaemonSets or the operator's own Pod tell, else the newest known one, see RV(version_source).
    type: str
  cluster_policy:
    description:
      - A ClusterPolicy, or its C(spec) alone, to judge by instead of the cluster's own.
    type: dict
  compare_versions:
    description:
      - Two versions of the operator, from and to, such as V([26.3, 26.7]). RV(comparison) then tells what changes for the nodes.
      - Fails where there is no ClusterPolicy to predict by.
    type: list
    elements: str
seealso:
  - plugin: gpuwl.sandbox.operand_audit
    plugin_type: filter
    description: The same from dumps.
  - plugin: gpuwl.sandbox.operand_table
    plugin_type: filter
    description: Shows the result as text.
  - module: gpuwl.sandbox.operand_switches
"""

EXAMPLES = r"""
- name: See what each node should run and does
  gpuwl.sandbox.operand_audit:
    kubeconfig: ~/.kube/config
  register: audit

- name: Show it line by line
  ansible.builtin.debug:
    msg: "{{ (audit | gpuwl.sandbox.operand_table).splitlines() }}"

- name: Stop where something is wrong
  ansible.builtin.assert:
    that: audit.findings | rejectattr('severity', 'eq', 'info') | length == 0
    fail_msg: "{{ audit.findings | map(attribute='message') }}"

- name: See what an upgrade of the operator changes for the nodes
  gpuwl.sandbox.operand_audit:
    kubeconfig: ~/.kube/config
    cluster_policy: {sandboxWorkloads: {enabled: true}}
    compare_versions: ["26.3", "26.7"]
  register: upgrade

- name: See what the cluster would lack if the driver came with the nodes
  gpuwl.sandbox.operand_audit:
    kubeconfig: ~/.kube/config
    operator_version: "26.7"
    cluster_policy: {driver: {enabled: false}}
"""

RETURN = r"""
nodes:
  description: One entry per node with a GPU, ascending by name.
  returned: success
  type: list
  elements: dict
  sample:
    - node: lab-node-0
      workload: container
      due: []
      running: []
      missing: []
      out_of_order: []
  contains:
    node:
      description: The node's name.
      type: str
    workload:
      description: What it is for - V(container), V(vm-passthrough) or V(vm-vgpu).
      type: str
    due:
      description: Operands that should run there. None on a node that is taken out as a whole, or whose GPUs are given out by DRA.
      type: list
      elements: str
    running:
      description: Operands of which a Pod is Running there with all containers ready, whether due or not.
      type: list
      elements: str
    missing:
      description:
        - Operands that are due and do not run, each with C(operand), C(cause) and C(detail).
        - >-
          The cause is V(label-absent), V(label-not-true) (V(false) is on purpose), V(label-empty) (where the operator leaves it so, as before
          26.7), V(paused), V(taint-not-tolerated), V(daemonset-absent) (or it passes the node by) or V(pod-not-running).
      type: list
      elements: dict
    out_of_order:
      description: >-
        Operands that run without one that they need, each with C(operand), C(needs) and C(detail), those without the container toolkit
        first. A driver that is off on purpose or in the host, and whatever is not due there, counts as met.
      type: list
      elements: dict
findings:
  description:
    - What is wrong, the gravest first, in the form of P(gpuwl.sandbox.consistency#filter). Rules that both know have the same names.
  returned: success
  type: list
  elements: dict
  sample: []
misleading:
  description:
    - Where the cluster's own word says that all is well and operands are missing, each with C(object), C(says) and C(but).
  returned: success
  type: list
  elements: dict
  sample: []
disabled:
  description:
    - Operands that the ClusterPolicy switches off in the whole cluster, which are not due, each with C(operand) and C(setting).
  returned: success
  type: list
  elements: dict
  sample: []
operator:
  description:
    - Whether there is a ClusterPolicy.
  returned: success
  type: bool
  sample: true
operator_version:
  description:
    - The operator's version as it was told or given, the newest known one where nothing tells it. Null without a ClusterPolicy.
  returned: success
  type: str
  sample: "26.7"
version_source:
  description:
    - Who told the version.
  returned: success
  type: str
  sample: as given
comparison:
  description:
    - What changes for the nodes from the first version in O(compare_versions) to the second, as P(gpuwl.sandbox.expected_operands#filter)
      predicts it for both.
  returned: with O(compare_versions)
  type: dict
  sample:
    from: "26.3"
    to: "26.7"
    nodes: []
    notes:
      - >-
        from 26.7 on a deploy label that is lost stays away until something else makes the operator look at the nodes;
        earlier versions put it back within seconds
      - >-
        from 26.7 on nodes without a valid workload label may not follow a change of defaultWorkload or a restart of the
        operator: label them
  contains:
    from:
      description: The first version.
      type: str
    to:
      description: The second version.
      type: str
    nodes:
      description:
        - Nodes for which something changes, each with C(node), C(workload) (before and after), C(labels) and C(daemonsets), and the C(notes)
          that only the second version gives rise to.
        - C(labels) has C(added) with the values, C(removed), and C(changed) with both values; C(daemonsets) has C(added) and C(removed).
      type: list
      elements: dict
    notes:
      description: How the second version behaves otherwise, which no single state shows.
      type: list
      elements: str
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _operand_audit
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_operand_audit.argument_spec(), _operand_audit.run)


if __name__ == "__main__":
    main()
