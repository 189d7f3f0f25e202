#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: placement_info
short_description: Wait for the scheduler's decision on Pods and return it
version_added: 0.1.0
author:
  - gpuwl.sandbox contributors (@gpuwl)
description:
  - Watches Pods until the scheduler has decided on each. It has when the Pod is assigned to a node, or when its condition C(PodScheduled) is
    C(False) with reason C(Unschedulable). Other reasons, such as C(SchedulingGated), are no decision.
  - A Pod that does not exist yet, or that is being deleted, counts as undecided, so a Pod that is replaced under the same name is waited for.
  - When the time is up the task fails and names the Pods without a decision and what was last seen of each.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.reads_only
attributes:
  check_mode:
    support: full
    details: Looks once and does not wait, because the Pods of tasks before it were not created; those without a decision stand in RV(undecided).
options:
  namespace:
    description: The namespace of the Pods.
    type: str
    required: true
  pods:
    description:
      - Names of the Pods.
      - Exactly one of O(pods) and O(label_selector) is required. An empty list returns no placements.
    type: list
    elements: str
  label_selector:
    description:
      - A selector such as V(app=training,tier!=test). Waits until at least one Pod matches, and until every Pod that matches is decided.
        Pods that are created after that are not waited for; name them in O(pods) where the number is known.
    type: str
  wait_timeout:
    description: Seconds to wait for all decisions. V(0) looks once.
    type: int
    default: 60
seealso:
  - module: gpuwl.sandbox.lab_pods
  - module: kubernetes.core.k8s_info
  - plugin: gpuwl.sandbox.placement_records
    plugin_type: filter
    description: Makes records of the decisions.
"""

EXAMPLES = r"""
- name: See where two Pods went
  gpuwl.sandbox.placement_info:
    kubeconfig: ~/.kube/config
    namespace: gpu-vm
    pods:
      - job-container
      - job-cross
    wait_timeout: 30
  register: decisions

- name: See where all Pods of an application went
  gpuwl.sandbox.placement_info:
    namespace: gpu-vm
    label_selector: app=training
"""

RETURN = r"""
placements:
  description:
    - One entry per Pod, in the order of O(pods), or by name with O(label_selector).
    - Also part of a failed result after a time-out, with what was last seen.
  returned: success
  type: list
  elements: dict
  sample:
    - pod: job-container
      namespace: gpu-vm
      node: lab-node-0
      scheduled: true
      phase: Running
      requested:
        nvidia.com/gpu: 1
      reason: ""
      message: ""
    - pod: job-cross
      namespace: gpu-vm
      node:
      scheduled: false
      phase: Pending
      requested:
        nvidia.com/gpu: 1
      reason: Unschedulable
      message: >-
        0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are
        available: 3 Preemption is not helpful for scheduling.
  contains:
    pod:
      description: The name of the Pod.
      type: str
    namespace:
      description: Its namespace.
      type: str
    node:
      description: The node it was assigned to, or null.
      type: str
    scheduled:
      description: Whether it was assigned.
      type: bool
    phase:
      description: Its phase when it was last seen.
      type: str
    requested:
      description: The extended resources it asks for, as the scheduler counts them, name and whole number.
      type: dict
    reason:
      description: The reason of the condition C(PodScheduled), empty for an assigned Pod.
      type: str
    message:
      description: The message of the condition C(PodScheduled) in one line, empty for an assigned Pod.
      type: str
undecided:
  description: Names of the Pods without a decision; empty except in check mode and after a time-out.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _placement
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(
        _placement.argument_spec(),
        _placement.run,
        mutually_exclusive=[("pods", "label_selector")],
        required_one_of=[("pods", "label_selector")],
    )


if __name__ == "__main__":
    main()
