#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_pods
short_description: Have exactly these Pods ask for GPUs
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Creates Pods one after the other, in the order given, and removes those that it made earlier and that are no longer asked for, in
    whichever namespace they are. A namespace that is not there is created first, and one that it created goes when no Pod is asked for
    in it any more, unless something of somebody else's is in it. Secrets are looked for where they may be listed.
  - A Pod's resources cannot be edited in place, so a Pod whose nodeSelector, tolerations, image or limits changed is deleted and created
    again. So is one that has ended, whose node is gone or would not take it any more (resources, labels, taints), or that waits and was
    last looked at when there were other nodes or fewer free cards.
  - Pods that it did not make are never touched. What it makes carries the label C(app.kubernetes.io/managed-by=gpuwl.sandbox).
  - Does not wait for the scheduler; that is what M(gpuwl.sandbox.placement_info) is for.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows what each Pod asks for, before and after.
  idempotent:
    support: full
options:
  pods:
    description: The definitions of all the Pods that there shall be, each with its namespace.
    type: list
    elements: dict
    required: true
  wait_timeout:
    description: Seconds to wait for deleted Pods and namespaces to be gone, and for a new namespace to take Pods.
    type: int
    default: 60
seealso:
  - module: gpuwl.sandbox.placement_info
  - plugin: gpuwl.sandbox.request_pods
    plugin_type: filter
    description: Names the Pods of declared requests.
"""

EXAMPLES = r"""
- name: Ask for one GPU
  gpuwl.sandbox.lab_pods:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    pods:
      - apiVersion: v1
        kind: Pod
        metadata: {name: train-0, namespace: team-a}
        spec:
          containers:
            - name: cuda
              image: nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04
              resources:
                limits: {nvidia.com/gpu: 1}

- name: Ask for two instead
  gpuwl.sandbox.lab_pods:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    pods:
      - apiVersion: v1
        kind: Pod
        metadata: {name: train-0, namespace: team-a}
        spec:
          containers:
            - name: cuda
              image: nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04
              resources:
                limits: {nvidia.com/gpu: 2}

- name: Note in an annotation whose it is, which leaves the Pod where it is
  gpuwl.sandbox.lab_pods:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    pods:
      - apiVersion: v1
        kind: Pod
        metadata: {name: train-0, namespace: team-a, annotations: {example.com/owner: team-a}}
        spec:
          containers:
            - name: cuda
              image: nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04
              resources:
                limits: {nvidia.com/gpu: 2}

- name: Ask for nothing any more
  gpuwl.sandbox.lab_pods:
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    pods: []
"""

RETURN = r"""
created:
  description: The Pods that were not there and were created, as C(namespace/name).
  returned: success
  type: list
  elements: str
  sample: [team-a/train-0]
replaced:
  description: The Pods that were deleted and created again, each with the reason.
  returned: success
  type: dict
  sample: {team-a/train-0: its request changed}
removed:
  description: The Pods that are no longer asked for and were removed.
  returned: success
  type: list
  elements: str
  sample: [gpu-vm/job-container, gpu-vm/job-cross, gpu-vm/vmi-passthrough, gpu-vm/vmi-vgpu]
namespaces:
  description: The namespaces that were not there and were created.
  returned: success
  type: list
  elements: str
  sample: [team-a]
namespaces_removed:
  description: The namespaces that were created earlier and were removed.
  returned: success
  type: list
  elements: str
  sample: [gpu-vm]
annotated:
  description: The Pods whose annotations alone changed, such as their place in the order.
  returned: success
  type: list
  elements: str
  sample: [team-a/train-0]
"""

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _lab_pods
from ansible_collections.gpuwl.sandbox.plugins.module_utils._module import run_module


def main():
    run_module(_lab_pods.argument_spec(), _lab_pods.run)


if __name__ == "__main__":
    main()
