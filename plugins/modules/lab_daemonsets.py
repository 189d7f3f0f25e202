#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_daemonsets
short_description: Have exactly these DaemonSets placed by labels, and tell which nodes run them
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Creates DaemonSets that choose their nodes by labels, as the operands of the GPU Operator do, brings them up to date, and removes those
    that it made earlier in the namespace and that are no longer asked for. The namespace is created where it is not there.
  - DaemonSets that it did not make are never touched. What it makes carries the label C(app.kubernetes.io/managed-by=gpuwl.sandbox).
  - Ends when the DaemonSet controller has seen them, a Pod is Running on every node whose labels and taints ask for one, and there is none
    elsewhere. It works out from nodes, DaemonSets and Pods where that is, and does not go by C(desiredNumberScheduled).
  - When the time is up the task fails and says what was awaited and what was seen last.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
attributes:
  check_mode:
    support: full
    details: Looks once and does not wait; what a run would wait for stands in RV(awaited).
  diff_mode:
    support: full
    details: Shows selector, tolerations and image of each DaemonSet that changes, before and after.
  idempotent:
    support: full
options:
  namespace:
    description: The namespace of the DaemonSets.
    type: str
    required: true
  daemonsets:
    description: All the DaemonSets that there shall be.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the DaemonSet.
        type: str
        required: true
      selector:
        description: The labels of the nodes that run it, name and exact value.
        type: dict
        required: true
      tolerations:
        description: Tolerations of its Pods, as Kubernetes has them. The default is what all DaemonSets of the GPU Operator have.
        type: list
        elements: dict
        default:
          - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
  image:
    description: Image of the Pods, which nobody pulls on KWOK nodes. It must run by itself.
    type: str
    default: registry.k8s.io/pause:3.10
  wait_timeout:
    description: Seconds to wait for the Pods.
    type: int
    default: 60
seealso:
  - module: gpuwl.sandbox.kwok_nodes
  - module: gpuwl.sandbox.node_labels
"""

EXAMPLES = r"""
- name: Place a device plugin by a label
  gpuwl.sandbox.lab_daemonsets:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    namespace: gpu-operands
    daemonsets:
      - name: device-plugin
        selector: {nvidia.com/gpu.deploy.device-plugin: "true"}

- name: Set the label on one node
  gpuwl.sandbox.node_labels:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    nodes:
      - name: lab-node-0
        labels: {nvidia.com/gpu.deploy.device-plugin: "true"}

- name: See where it runs now, with a driver beside it that no node asks for
  gpuwl.sandbox.lab_daemonsets:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    namespace: gpu-operands
    daemonsets:
      - name: device-plugin
        selector: {nvidia.com/gpu.deploy.device-plugin: "true"}
      - name: driver
        selector: {nvidia.com/gpu.deploy.driver: "true"}

- name: Take the label away
  gpuwl.sandbox.node_labels:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    nodes:
      - name: lab-node-0
        labels_to_remove: [nvidia.com/gpu.deploy.device-plugin]

- name: Have the device plugin tolerate every taint
  gpuwl.sandbox.lab_daemonsets:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    namespace: gpu-operands
    daemonsets:
      - name: device-plugin
        selector: {nvidia.com/gpu.deploy.device-plugin: "true"}
        tolerations:
          - {operator: Exists}

- name: Have none any more
  gpuwl.sandbox.lab_daemonsets:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    namespace: gpu-operands
    daemonsets: []
"""

RETURN = r"""
created:
  description: Names of the DaemonSets that were created.
  returned: success
  type: list
  elements: str
  sample: [driver]
updated:
  description: Names of those whose selector, tolerations or image changed.
  returned: success
  type: list
  elements: str
  sample: [device-plugin]
removed:
  description: Names of those that were removed.
  returned: success
  type: list
  elements: str
  sample: [driver]
nodes:
  description: Which of the DaemonSets have a Running Pod on each node of the cluster, by name. Also part of a failed result after a time-out.
  returned: success
  type: list
  elements: dict
  sample:
    - node: lab-node-0
      daemonsets: [device-plugin]
    - node: lab-node-1
      daemonsets: []
  contains:
    node:
      description: Name of the node.
      type: str
    daemonsets:
      description: Names of the DaemonSets.
      type: list
      elements: str
daemonsets:
  description: What each DaemonSet says of itself, beside what is so, by name. Also part of a failed result after a time-out.
  returned: success
  type: list
  elements: dict
  sample:
    - name: device-plugin
      desired_number_scheduled: 1
      number_misscheduled: 0
      selected: 1
      running: 1
  contains:
    name:
      description: Name of the DaemonSet.
      type: str
    desired_number_scheduled:
      description: On how many nodes its controller wants a Pod. Nodes with a taint that is not tolerated do not count.
      type: int
    number_misscheduled:
      description: On how many other nodes one runs all the same.
      type: int
    selected:
      description: How many nodes have the labels that it asks for, tainted or not.
      type: int
    running:
      description: On how many nodes a Pod of it is Running.
      type: int
awaited:
  description: What a run would wait for; empty except in check mode and after a time-out.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _lab_daemonsets
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_lab_daemonsets.argument_spec(), _lab_daemonsets.run)


if __name__ == "__main__":
    main()
