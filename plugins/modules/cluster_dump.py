#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_dump
short_description: Save objects of a cluster as kubectl would print them
version_added: 0.1.0
author:
  - gpuwl.sandbox contributors (@gpuwl)
description:
  - Lists objects and saves them as JSON files, byte by byte what C(kubectl get nodes -o json) prints, so that they can be judged
    later, elsewhere and by others, without the cluster.
  - A file is written only when it differs from what is there in something that does not change by itself. Differences in
    C(metadata.resourceVersion), C(metadata.managedFields) and the times of conditions never count. Of a Node's status
    C(images), C(volumesInUse) and C(volumesAttached) don't count either. Of a Pod's status only the condition V(PodScheduled)
    counts, and whether the Pod has ended (V(Succeeded) or V(Failed)), because a kubelet goes on reporting about a Pod that was placed.
  - Files are replaced whole, never left half written, those of nodes with mode C(0644), all others, because the environment of
    containers may hold secrets, with C(0600). Missing folders are made.
  - Secrets are never read.
  - The objects themselves never become part of a variable or a result.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuwl.sandbox._kubernetes
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.controller
attributes:
  check_mode:
    support: full
    details: Reads the cluster and says what would be written.
  diff_mode:
    support: full
    details: Names the objects that came, went or changed; never shows their content.
  idempotent:
    support: full
    details: Writes nothing when nothing differs but what changes by itself.
options:
  dumps:
    description: The files to write.
    type: list
    elements: dict
    required: true
    suboptions:
      kind:
        description:
          - V(Node), V(Pod), V(DaemonSet), V(ClusterPolicy), V(GPUCluster), V(NVIDIADriver) or V(ResourceSlice); V(nodes), V(pods)
            and so on mean the same.
          - Of a kind that the API server does not know, because its CRD is not there, the file is an empty List.
        type: str
        required: true
      namespace:
        description: The Pods or DaemonSets of this namespace only. All namespaces when left out.
        type: str
      path:
        description: The file on the controller.
        type: path
        required: true
      required:
        description:
          - Whether the task fails if the user may not list this kind.
          - With V(false) the others are saved all the same, RV(dumps[].left_out) says why this one is not, and a file of an earlier run is removed,
            as it would be taken for this one's.
        type: bool
        default: true
  environment:
    description:
      - Whether Pods and DaemonSets are saved with the environment, command and arguments of their containers, in which secrets may stand.
      - With V(false) these and the annotation C(kubectl.kubernetes.io/last-applied-configuration) are left out, and so is the environment
        that a ClusterPolicy or NVIDIADriver gives operands. All filters of this collection do without them.
    type: bool
    default: true
seealso:
  - plugin: gpuwl.sandbox.audit_reports
    plugin_type: filter
    description: Audits a cluster by all of its dumps.
  - plugin: gpuwl.sandbox.consistency
    plugin_type: filter
    description: Judges the saved nodes.
  - plugin: gpuwl.sandbox.decisions
    plugin_type: filter
    description: Reads the saved Pods.
  - plugin: gpuwl.sandbox.inventory
    plugin_type: filter
    description: Counts from both.
"""

EXAMPLES = r"""
- name: Save the nodes and one namespace's Pods for the offline checker
  gpuwl.sandbox.cluster_dump:
    kubeconfig: ~/.kube/config
    dumps:
      - kind: Node
        path: out/nodes.json
      - kind: Pod
        namespace: gpu-vm
        path: out/pods.json

- name: Save what there is of the GPU Operator
  gpuwl.sandbox.cluster_dump:
    kubeconfig: ~/.kube/config
    dumps:
      - kind: DaemonSet
        path: out/daemonsets.json
      - kind: ClusterPolicy
        path: out/clusterpolicies.json
        required: false
"""

RETURN = r"""
host:
  description: The URL of the API server; null when O(dumps) is empty.
  returned: success
  type: str
  sample: https://127.0.0.1:6443
kubernetes_version:
  description: The version of the API server; null when O(dumps) is empty.
  returned: success
  type: str
  sample: v1.37.2
dumps:
  description: One entry per file, in the order asked.
  returned: success
  type: list
  elements: dict
  sample:
    - {changed: true, count: 3, kind: Node, left_out: "", path: out/nodes.json, served: true}
  contains:
    path:
      description: The file.
      type: str
    kind:
      description: The kind of its objects.
      type: str
    count:
      description: How many objects it holds.
      type: int
    served:
      description: Whether the API server knows the kind at all.
      type: bool
    left_out:
      description: Why the kind was not saved, in one line; empty if it was.
      type: str
    changed:
      description: Whether the file was written or removed (in check mode, would be).
      type: bool
"""
