# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: kind_cluster
short_description: Make or remove a kind cluster
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Has kind make a cluster in docker, with a control-plane node and a worker per name in O(nodes). Its nodes are real kubelets.
  - A cluster that is there already is reused, and its stopped containers are started. One whose creation was cut off is deleted and
    made anew.
  - Every node of a cluster that this module made has the label C(gpuwl.sandbox/cluster), with the cluster's name. Only such a
    cluster, or one that a note in O(root) tells of, is ever deleted.
  - kind never writes to the user's own kubeconfig.
requirements:
  - docker on the controller, and its daemon
  - kind v0.20.0 or newer on the controller
  - kubernetes >= 34
extends_documentation_fragment:
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.controller
attributes:
  check_mode:
    support: full
    details: Runs only commands that read.
  diff_mode:
    support: none
    details: There is nothing to show but that the cluster comes or goes.
  idempotent:
    support: full
    details: A cluster that answers is left alone.
options:
  state:
    description:
      - V(present) makes or starts the cluster, writes O(kubeconfig), and waits until the nodes are Ready.
      - V(absent) deletes a cluster that this module made. Any other stays, see RV(left).
    type: str
    choices: [present, absent]
    default: present
  root:
    description: Folder for kind's configuration and for notes about the cluster. Made where missing.
    type: path
    required: true
  name:
    description: Name of the cluster, as C(kind get clusters) shows it. kind calls its context C(kind-) and this.
    type: str
    default: gpuwl
  kubeconfig:
    description: File to write the cluster's kubeconfig to, mode 0600, certificates inside. Another cluster's kubeconfig there is not overwritten.
    type: path
    required: true
  nodes:
    description: Names of the workers. They are fixed when the cluster is made; one that lacks some is refused.
    type: list
    elements: str
    default: []
  image:
    description:
      - Node image, such as V(kindest/node:v1.37.2), for a cluster that is made now. Without it kind takes its own default.
      - A cluster that is there is refused where the tag names another version of Kubernetes than it runs.
    type: str
    default: ""
  timeout:
    description:
      - Seconds to wait for the API server, and for nodes to get Ready.
      - Making a cluster may take twenty minutes besides, because kind may have to fetch the node image.
    type: int
    default: 120
seealso:
  - module: gpuwl.sandbox.kwok_cluster
    description: Needs no docker.
  - name: kind
    description: The program that makes the cluster.
    link: https://kind.sigs.k8s.io/
"""

EXAMPLES = r"""
- name: Have a cluster of three nodes, of which two are workers
  gpuwl.sandbox.kind_cluster:
    root: ~/gpuwl/kind
    kubeconfig: ~/gpuwl/kind/kubeconfig
    nodes: [lab-node-0, lab-node-1]
    image: kindest/node:v1.37.2

- name: Delete it
  gpuwl.sandbox.kind_cluster:
    root: ~/gpuwl/kind
    kubeconfig: ~/gpuwl/kind/kubeconfig
    state: absent
"""

RETURN = r"""
running:
  description: Whether the cluster runs now; in check mode, whether it ran.
  returned: O(state=present)
  type: bool
  sample: true
started:
  description: Names of the containers that had to be made or started.
  returned: O(state=present), not in check mode
  type: list
  elements: str
  sample: [gpuwl-control-plane, gpuwl-worker, gpuwl-worker2]
left:
  description: Whether a cluster of that name stays, because this module did not make it. Its kubeconfig is at RV(kubeconfig) then.
  returned: O(state=absent)
  type: bool
  sample: false
kubeconfig:
  description: The kubeconfig's path.
  returned: success
  type: str
  sample: /home/me/gpuwl/kind/kubeconfig
kubernetes_version:
  description: Version of the running cluster.
  returned: O(state=present), not in check mode
  type: str
  sample: v1.37.2
"""
