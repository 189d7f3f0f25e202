# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter gpuwl.sandbox.declaration_errors: a door to the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpuwl.sandbox.plugins.filter.pools import expand_range
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.declared import DeclarationError, shown
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_dns_label
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.pools import beyond_labels_and_resources, pool_nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.requests import request_pods


def declaration_errors(pools: Any, requests: Any, namespace: Any = "default", existing: bool = False) -> list[str]:
    wrong = invalid_dns_label(namespace)
    if not wrong and namespace.startswith("kube-"):
        wrong = "names that start with kube- belong to Kubernetes itself"
    errors = [f"the namespace {shown(namespace)} cannot be: {wrong}"] if wrong else []
    for judge, arguments in ((pool_nodes, (pools, expand_range)), (request_pods, (requests,))):
        try:
            judge(*arguments)
        except DeclarationError as error:
            errors += error.errors
    return errors or (beyond_labels_and_resources(pools) if existing else [])


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"declaration_errors": declaration_errors}
