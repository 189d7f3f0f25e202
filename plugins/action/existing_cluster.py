# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import ApiError, connect, forget_key_files

ARGUMENTS = {
    "kubeconfig": {"type": "str", "required": True},
    "context": {"type": "str", "default": ""},
    "confirm": {"type": "str", "default": ""},
    "read_only": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """A cluster that is there already, and leave to write to it; documented in plugins/modules/existing_cluster.py."""

    supports_raw_params = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(argument_spec=ARGUMENTS)
        try:
            contexts, current = contexts_of(args["kubeconfig"])
            context = str(args["context"]) or current
            if context not in contexts:
                named = f"has no context {context!r}" if context else "has no current context"
                known = f"it has {', '.join(sorted(contexts))}" if contexts else "it has none"
                raise ApiError(f"the kubeconfig {args['kubeconfig']} {named}; {known}: set control_plane_existing_context")
            if not args["read_only"] and args["confirm"] != context:
                given = f"it is {str(args['confirm'])!r}" if args["confirm"] else "it is not set"
                raise ApiError(
                    f"the lab would write labels, resources and Pods to the cluster of context {context!r}. If that is meant, set"
                    f" control_plane_existing_confirm to {context} ({given}). Reading needs no confirmation: --check, --tags check."
                )
            api = connect(kubeconfig=str(args["kubeconfig"]), context=context)
        except ApiError as error:
            raise AnsibleActionFail(str(error)) from None
        finally:
            forget_key_files()
        return {
            "changed": False,
            "running": True,
            "kubeconfig": str(args["kubeconfig"]),
            "context": context,
            "server": api.host,
            "kubernetes_version": api.version,
        }


def contexts_of(kubeconfig: str) -> tuple[set[str], str]:
    """(names of the contexts, name of the current one or "") of a kubeconfig, or of several joined by `:` as in KUBECONFIG.

    The kubernetes client's own function for it fails where there is no current context.
    """
    names: set[str] = set()
    current = ""
    for path in filter(None, kubeconfig.split(os.pathsep)):
        try:
            with open(os.path.expanduser(path), encoding="utf-8") as file:
                config = yaml.safe_load(file)
            names.update(str(entry["name"]) for entry in config.get("contexts") or [])
            current = current or str(config.get("current-context") or "")
        except OSError as error:
            raise ApiError(f"the kubeconfig {path} can't be read ({error.strerror}): give the path of the cluster's by control_plane_kubeconfig") from error
        except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
            raise ApiError(f"{path} is no kubeconfig: give the path of the cluster's by control_plane_kubeconfig") from error
    return names, current
