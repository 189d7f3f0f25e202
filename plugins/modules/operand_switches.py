#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operand_switches
short_description: Take GPU operands out of nodes or the whole cluster, and bring them back
version_added: 0.1.0
author:
  - gpuwl.sandbox contributors (@gpuwl)
description:
  - Turns the three switches of the GPU Operator. A whole node goes out by the label C(nvidia.com/gpu.deploy.operands=false), one operand of a
    node by C(nvidia.com/gpu.deploy.OPERAND=false), and an operand of the whole cluster by its section of the ClusterPolicy.
  - Says before anything is written which Pods stop and start on which node, in check mode as well. They are found by the deploy labels that
    their DaemonSets select in C(nodeSelector) and in the required node affinity, not by name or namespace. That the Pods are gone is not waited for.
  - Nodes, DaemonSets, Pods and ClusterPolicies are each read with one LIST (page by page). Everything is worked out and checked before the
    first write, and only what differs is written, with the version it was worked out from. The ClusterPolicy is written last.
  - Where no operator acts, nobody but this module takes deploy labels off and puts them back, so it does. RV(nodes[].acts) says who does.
  - What a deploy label was is kept in annotations C(gpuwl.sandbox/operand-was.OPERAND), the reason in C(gpuwl.sandbox/operand.OPERAND); the
    operand's name is C(operands) there for a whole node. So opt-outs of single operands outlast a round trip of their node, which the operator alone
    forgets.
  - When the API fails midway, the message says what was written, and running the task again does the rest.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
attributes:
  check_mode:
    support: full
    details: Reads the cluster and says what stops and starts. Nothing is sent that could change anything.
  diff_mode:
    support: full
    details: Shows the labels and annotations that change, and the Pods that stop (before) and start (after), by node.
  idempotent:
    support: full
options:
  nodes:
    description:
      - Names of nodes, or ranges as in Ansible's inventories, such as V(gpu-[00:19]). An empty list switches no node.
    type: list
    elements: str
    default: []
  operands:
    description:
      - Operands to switch on these nodes, as their deploy labels call them, such as V(device-plugin). Without any the whole node is switched.
      - The operator's operands are known, and those that a DaemonSet of the cluster selects by a deploy label.
      - One that the operator does not start on a node anyway, because of its workload, is left alone there, with a note.
    type: list
    elements: str
    default: []
  state:
    description:
      - V(out) takes the O(nodes) or the O(operands) of them out, V(in) brings them back. Needed with O(nodes).
      - V(in) gives a label back what it was. Where an operator acts, an operand that it starts on this node is set to V(true), as operator
        26.7 does not restore a label that is gone. A value by which another program paused an operand is not put back, but V(true).
    type: str
    choices:
      - out
      - in
  reason:
    description:
      - Why, for those who find the operand missing. Needed to take single O(operands) out. It is not used with O(state=in).
    type: str
  force:
    description:
      - Whether single O(operands) are switched over values that other programs wrote, such as C(paused-for-driver-upgrade) or
        C(pre-installed). Without it V(out) is refused for all nodes where it meets one, and V(in) leaves it with a note.
    type: bool
    default: false
  cluster:
    description:
      - Sections of the ClusterPolicy to switch, such as V(driver), V(toolkit) or V(devicePlugin), or the operand's name, each with V(true)
        or V(false) for C(enabled).
      - Of several ClusterPolicies it is the one that the operator follows, which alone has a C(status.state).
    type: dict
    default: {}
  operator:
    description:
      - Whether an operator acts. V(auto) says so where a ClusterPolicy has a C(status.state).
      - An operator that is stopped leaves that behind; say V(absent) then. Say V(present) for one that has yet to begin.
    type: str
    choices:
      - auto
      - present
      - absent
    default: auto
seealso:
  - module: gpuwl.sandbox.node_labels
  - name: Preventing Installation of Operands on Some Nodes
    description: What NVIDIA documents of these labels.
    link: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html
"""

EXAMPLES = r"""
- name: Take the device plugin off a node, so that it advertises no GPUs
  gpuwl.sandbox.operand_switches:
    kubeconfig: ~/.kube/config
    nodes: [lab-node-0]
    operands: [device-plugin]
    state: out
    reason: GPU 3 reports Xid 79, ticket 4711

- name: Bring it back
  gpuwl.sandbox.operand_switches:
    kubeconfig: ~/.kube/config
    nodes: [lab-node-0]
    operands: [device-plugin]
    state: in

- name: Take three nodes out as a whole
  gpuwl.sandbox.operand_switches:
    kubeconfig: ~/.kube/config
    nodes: ["lab-node-[0:2]"]
    state: out
    reason: The rack is moved

- name: Bring them back
  gpuwl.sandbox.operand_switches:
    kubeconfig: ~/.kube/config
    nodes: ["lab-node-[0:2]"]
    state: in
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
      acts: role
      labels:
        nvidia.com/gpu.deploy.device-plugin: "false"
      annotations:
        gpuwl.sandbox/operand-was.device-plugin: "null"
        gpuwl.sandbox/operand.device-plugin: GPU 3 reports Xid 79, ticket 4711
      stops: []
      starts: []
  contains:
    name:
      description: The name of the node.
      type: str
    changed:
      description: Whether it changed (in check mode, would change).
      type: bool
    acts:
      description: >-
        Who takes deploy labels off this node and puts them back: V(operator) where it is told by C(operands), V(role) where this module
        writes them itself.
      type: str
    labels:
      description: The labels that are written. Null means that it is removed.
      type: dict
    annotations:
      description: The annotations that are written. Null means that it is removed.
      type: dict
    stops:
      description: Pods there now that go, each with C(node), C(daemonset) (with its namespace), C(operand) and C(pod).
      type: list
      elements: dict
    starts:
      description: DaemonSets that get a Pod there, each with C(node), C(daemonset) and C(operand).
      type: list
      elements: dict
cluster:
  description: What becomes of the ClusterPolicy.
  returned: success
  type: dict
  sample:
    policy: null
    changed: false
    switched: {}
    stops: []
    starts: []
  contains:
    policy:
      description: The name of the ClusterPolicy that is switched, null without O(cluster).
      type: str
    changed:
      description: Whether it changed (in check mode, would change).
      type: bool
    switched:
      description: The sections that change, each with what C(enabled) is then.
      type: dict
    stops:
      description: >-
        Pods of the operator's DaemonSets that go, in the form of RV(nodes[].stops). DaemonSets that no ClusterPolicy owns stay.
      type: list
      elements: dict
    starts:
      description: >-
        DaemonSets that the operator makes, and the nodes that get a Pod by the labels and taints that they have, in the form of
        RV(nodes[].starts), without a namespace.
      type: list
      elements: dict
operator:
  description: Whether an operator acts.
  returned: success
  type: bool
  sample: false
summary:
  description: The same in lines for people. Nodes to which the same happens share one.
  returned: success
  type: list
  elements: str
  sample:
    - "lab-node-[0:2]: the whole node out; this role changes the deploy labels; no Pod stops or starts"
notes:
  description:
    - What else to know, such as what was left alone and why, and when the operator forgets an opt-out. They are also given as warnings.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _operand_switches
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_operand_switches.argument_spec(), _operand_switches.run)


if __name__ == "__main__":
    main()
