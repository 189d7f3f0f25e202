# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: kwok_cluster
short_description: Start or remove a KWOK cluster of local processes
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Runs etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok as processes of the controller, by kwokctl's
    binary runtime. Everything listens on loopback only.
  - What runs is read from C(/proc), never from pid files, so that a dead component is started again, a stale pid file harms
    nobody, and removal ends this cluster's processes alone.
  - A running cluster of the same version is reused; a stopped or half dead one is started again with its data.
extends_documentation_fragment:
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.controller
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: There is nothing to show but that the cluster starts or stops.
  idempotent:
    support: full
    details: A running cluster is left alone.
  platform:
    platforms: Linux
options:
  state:
    description: Whether the cluster shall run, or shall be gone with its processes, data and kubeconfig.
    type: str
    choices: [present, absent]
    default: present
  root:
    description: Folder that holds all of the cluster's state. Made where missing.
    type: path
    required: true
  name:
    description: Name of the cluster, its kubeconfig context and its user.
    type: str
    default: gpuwl
  kubeconfig:
    description: File to write the cluster's kubeconfig to, mode 0600, certificates inside.
    type: path
    required: true
  programs:
    description:
      - Folder of the seven programs C(etcd), C(kube-apiserver), C(kube-controller-manager), C(kube-scheduler), C(kubectl),
        C(kwok) and C(kwokctl). Required with O(state=present).
    type: path
  port:
    description: Port of the API server; V(0) takes a free one. Only used when the cluster is created.
    type: int
    default: 0
  kubernetes_version:
    description: Version that the cluster must have, such as V(v1.37.2). Required with O(state=present).
    type: str
  timeout:
    description: Seconds to wait for the cluster to be ready, and for another run that works on the same cluster.
    type: int
    default: 120
seealso:
  - module: gpuwl.sandbox.kwok_nodes
    description: Gives the cluster its nodes.
  - module: gpuwl.sandbox.kind_cluster
    description: Has nodes with real kubelets.
  - name: KWOK
    description: The program that plays the kubelets.
    link: https://kwok.sigs.k8s.io/
"""

EXAMPLES = r"""
- name: Have a control plane
  gpuwl.sandbox.kwok_cluster:
    root: ~/gpuwl/control-plane
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    programs: ~/.cache/gpuwl/programs
    kubernetes_version: v1.37.2

- name: Remove it with everything it owns
  gpuwl.sandbox.kwok_cluster:
    root: ~/gpuwl/control-plane
    kubeconfig: ~/gpuwl/control-plane/kubeconfig
    state: absent
"""

RETURN = r"""
running:
  description: Whether the cluster runs now; in check mode, whether it ran.
  returned: O(state=present)
  type: bool
  sample: true
started:
  description: Names of the components that had to be started.
  returned: O(state=present), not in check mode
  type: list
  elements: str
  sample: [etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok-controller]
kubeconfig:
  description: The kubeconfig's path.
  returned: O(state=present)
  type: str
  sample: /home/me/gpuwl/control-plane/kubeconfig
kubernetes_version:
  description: Version of the running cluster.
  returned: O(state=present), not in check mode
  type: str
  sample: v1.37.2
"""
