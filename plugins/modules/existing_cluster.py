# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: existing_cluster
short_description: Have leave to write to a cluster that is there already
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Finds the context in a kubeconfig, makes sure that its cluster answers, and refuses to go on until the context's name has been
    given once more, so that made-up resources never end in a cluster by a slip.
requirements:
  - kubernetes >= 34
extends_documentation_fragment:
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.reads_only
  - gpuwl.sandbox._attributes.controller
options:
  kubeconfig:
    description: Path of the kubeconfig, or several joined by colons as in E(KUBECONFIG).
    type: str
    required: true
  context:
    description: Name of the context. Without it the kubeconfig's current one is meant.
    type: str
    default: ""
  confirm:
    description: The context's name once more.
    type: str
    default: ""
  read_only:
    description: Whether nothing will be written, so that O(confirm) is not needed.
    type: bool
    default: false
seealso:
  - module: gpuwl.sandbox.kwok_cluster
  - module: gpuwl.sandbox.kind_cluster
"""

EXAMPLES = r"""
- name: Go on with the practice cluster only
  gpuwl.sandbox.existing_cluster:
    kubeconfig: ~/.kube/config
    context: practice
    confirm: practice
"""

RETURN = r"""
running:
  description: Whether the cluster answers; a cluster that does not is an error.
  returned: success
  type: bool
  sample: true
kubeconfig:
  description: The O(kubeconfig) given.
  returned: success
  type: str
  sample: ~/.kube/config
context:
  description: Name of the context.
  returned: success
  type: str
  sample: practice
server:
  description: Address of its API server.
  returned: success
  type: str
  sample: https://127.0.0.1:6443
kubernetes_version:
  description: Version that the API server tells.
  returned: success
  type: str
  sample: v1.37.2
"""
