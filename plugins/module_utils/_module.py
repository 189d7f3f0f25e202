# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame that every module of this collection runs in. Private to the collection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError, auth_argument_spec, connect
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule


def run_module(
    argument_spec: dict[str, Any], run: Callable[[Api, dict[str, Any], bool], dict[str, Any]], **keywords: Any
) -> None:
    """Parse the options, connect, call run(api, params, check_mode) and hand its result to Ansible.

    An ApiError becomes a failed task with one line; its details become keys of the result.
    """
    module = AnsibleK8SModule(
        argument_spec={**argument_spec, **auth_argument_spec()}, supports_check_mode=True, **keywords
    )
    try:
        result = run(connect(module), module.params, module.check_mode)
    except ApiError as error:
        # What was written before the failure is a change.
        module.fail_json(msg=str(error), changed=bool(error.details.get("written")), **error.details)
    for warning in result.pop("warnings", []):
        module.warn(warning)
    if not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)
