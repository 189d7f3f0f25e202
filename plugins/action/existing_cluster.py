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
                raise ApiError(
                    f"the kubeconfig {args['kubeconfig']} {named}; {known}: set control_plane_existing_context"
                )
            if not args["read_only"] and args["confirm"] != context:
                given = f"it is {str(args['confirm'])!r}" if args["confirm"] else "it is not set"
                raise ApiError(
                    f"this run would write to the cluster of context {context!r}: labels, resources and Pods. If that is meant, set"
                    f" control_plane_existing_confirm to {context} ({given}). What only reads needs no confirmation, such as --check."
                )
            api = connect(kubeconfig=str(args["kubeconfig"]), context=context)
            check_user(api, context)
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


def check_user(api: Any, context: str) -> None:
    """Refuse credentials that are none, as of a kubeconfig whose credential program is missing: the client only logs that."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        access = ("create", "selfsubjectreviews.authentication.k8s.io", None)
        api.request(
            "post",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            access,
            body=body,
            content_type="application/json",
        )
    except ApiError as error:
        # Others may be without this right, or their server without this question.
        if "system:anonymous" in str(error):
            raise ApiError(
                f"the API server takes whoever uses the context {context!r} for system:anonymous, so its user gives no credentials: check the user that it"
                " names in the kubeconfig; a credential program (exec) must be on PATH here"
            ) from None


def contexts_of(kubeconfig: str) -> tuple[set[str], str]:
    """(names of the contexts, name of the current one or "") of a kubeconfig, or of several joined by `:` as in KUBECONFIG.

    The kubernetes client's own function for it fails where there is no current context.
    """
    names: set[str] = set()
    current = ""
    paths = [os.path.expanduser(path) for path in kubeconfig.split(os.pathsep) if path]
    # The modules that write run in another folder, where a relative path is another file.
    if relative := [path for path in paths if not os.path.isabs(path)]:
        raise ApiError(
            f"the path of the kubeconfig {', '.join(relative)} is not absolute: write it whole in control_plane_kubeconfig or KUBECONFIG"
        )
    # Of several, those that are missing don't count, as with kubectl.
    for path in [path for path in paths if os.path.exists(path)] or paths:
        try:
            with open(path, encoding="utf-8") as file:
                config = yaml.safe_load(file)
            names.update(str(entry["name"]) for entry in config.get("contexts") or [])
            current = current or str(config.get("current-context") or "")
        except OSError as error:
            raise ApiError(
                f"the kubeconfig {path} can't be read ({error.strerror}): give the path of the cluster's by control_plane_kubeconfig"
            ) from error
        except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
            raise ApiError(
                f"{path} is no kubeconfig: give the path of the cluster's by control_plane_kubeconfig"
            ) from error
    return names, current
