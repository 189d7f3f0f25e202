# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.kwok_cluster import ALL_PROGRAMS, KwokCluster
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.providers import ClusterError, check_name, explain, locked

ARGUMENTS = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "root": {"type": "path", "required": True},
    "name": {"type": "str", "default": "gpuwl"},
    "kubeconfig": {"type": "path", "required": True},
    "programs": {"type": "path"},
    "port": {"type": "int", "default": 0},
    "kubernetes_version": {"type": "str"},
    "timeout": {"type": "int", "default": 120},
}


class ActionModule(ActionBase):
    """The KWOK cluster of the lab on the controller; documented in plugins/modules/kwok_cluster.py."""

    supports_raw_params = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(
            argument_spec=ARGUMENTS, required_if=[("state", "present", ("programs", "kubernetes_version"))]
        )
        folder = args["programs"] or ""
        cluster = KwokCluster(
            root=args["root"],
            name=args["name"],
            kubeconfig=args["kubeconfig"],
            programs={name: os.path.join(folder, name) for name in ALL_PROGRAMS},
            port=args["port"],
        )
        try:
            check_name(args["name"])
            return self._absent(cluster, args) if args["state"] == "absent" else self._present(cluster, args)
        except ClusterError as error:
            message = str(error)
        except OSError as error:
            message = explain(error, cluster.root)
        # Outside of the except clauses: Ansible appends an error's cause to its message.
        raise AnsibleActionFail(message)

    def _present(self, cluster: KwokCluster, args: dict[str, Any]) -> dict[str, Any]:
        version = cluster.version()
        if version is not None and version != args["kubernetes_version"]:
            raise ClusterError(
                f"the cluster below {cluster.root} runs Kubernetes {version}, wanted is {args['kubernetes_version']}: "
                "remove it first (playbooks/teardown.yml), or set control_plane_kubernetes_version to what it runs"
            )
        if self._task.check_mode:
            up = cluster.is_up()
            return {"changed": not up, "running": up, "kubeconfig": str(cluster.kubeconfig)}
        cluster.check()
        started: list[str] = []
        with locked(cluster.root, args["timeout"]):
            if not cluster.is_up():
                started = cluster.start(args["timeout"])
            written = cluster.write_kubeconfig()
        return {
            "changed": bool(started) or written,
            "running": True,
            "started": started,
            "kubeconfig": str(cluster.kubeconfig),
            "kubernetes_version": cluster.version(),
        }

    def _absent(self, cluster: KwokCluster, args: dict[str, Any]) -> dict[str, Any]:
        if self._task.check_mode:
            return {"changed": cluster.is_there()}
        if not cluster.root.parent.exists():
            return {"changed": False}
        with locked(cluster.root, args["timeout"]):
            return {"changed": cluster.remove()}
