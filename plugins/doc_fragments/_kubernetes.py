# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for every module that is told how to connect to a cluster. Private to the collection."""

from __future__ import annotations


class ModuleDocFragment:
    """Use it together with kubernetes.core.k8s_auth_options, which has the options."""

    DOCUMENTATION = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/gpuwl.sandbox.gpuwl) in C(module_defaults) to say once how to connect.
    support: full
    membership:
      - gpuwl.sandbox.gpuwl
requirements:
  - python >= 3.11
  - kubernetes >= 34
notes:
  - Where O(kubeconfig) or O(host) is given, the environment variables that begin with E(K8S_AUTH_) are not looked at, so that no part of
    another cluster's connection is mixed in.
"""
