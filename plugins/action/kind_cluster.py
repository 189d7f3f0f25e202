# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError, forget_key_files
from ansible_collections.gpuwl.sandbox.plugins.module_utils._kwok_nodes import wait_until_ready
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.kind_cluster import CREATE_LIMIT, KindCluster
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.kind_programs import (
    ProgramMissing,
    check_docker,
    check_installed,
    check_kind,
)
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.providers import ClusterError, check_name, explain, locked

ARGUMENTS = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "root": {"type": "path", "required": True},
    "name": {"type": "str", "default": "gpuwl"},
    "kubeconfig": {"type": "path", "required": True},
    "nodes": {"type": "list", "elements": "str", "default": []},
    "image": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 120},
}


class ActionModule(ActionBase):
    """The kind cluster of the lab; documented in plugins/modules/kind_cluster.py."""

    supports_raw_params = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(argument_spec=ARGUMENTS)
        cluster = KindCluster(args["root"], args["name"], args["kubeconfig"])
        try:
            check_name(cluster.name)
            return self._absent(cluster) if args["state"] == "absent" else self._present(cluster, args)
        except (ClusterError, ApiError) as error:
            message = str(error)
        except OSError as error:
            message = explain(error, cluster.root)
        finally:
            forget_key_files()
        # Outside of the except clauses: Ansible appends an error's cause to its message.
        raise AnsibleActionFail(message)

    def _present(self, cluster: KindCluster, args: dict[str, Any]) -> dict[str, Any]:
        nodes, image = [str(name) for name in args["nodes"]], str(args["image"])
        check_docker()
        check_kind()
        cluster.check_kubeconfig()
        if self._task.check_mode:
            return self._would_be_present(cluster, nodes, image)
        # Another run may be fetching a node image.
        with locked(cluster.root, CREATE_LIMIT):
            api, started = self._bring_up(cluster, nodes, image, args["timeout"])
            written = cluster.write_kubeconfig()
            wait_until_ready(
                api,
                set(nodes),
                args["timeout"],
                "kubectl describe node, or docker logs of their containers, may tell why",
            )
        return {
            "changed": bool(started) or written,
            "running": True,
            "started": started,
            "kubeconfig": str(cluster.kubeconfig),
            "kubernetes_version": api.version,
        }

    def _would_be_present(self, cluster: KindCluster, nodes: list[str], image: str) -> dict[str, Any]:
        api = cluster.api() if cluster.is_there() else None
        if api is None or cluster.is_unfinished(api):
            return {"changed": True, "running": False, "kubeconfig": str(cluster.kubeconfig)}
        cluster.check_fits(api, nodes, image)
        return {"changed": not cluster.has_kubeconfig(), "running": True, "kubeconfig": str(cluster.kubeconfig)}

    def _bring_up(self, cluster: KindCluster, nodes: list[str], image: str, timeout: int) -> tuple[Api, list[str]]:
        """Make the cluster, or take the one that is there; returns a connection and the containers that were started."""
        there = cluster.is_there()
        api = cluster.api() if there else None
        if there and cluster.is_unfinished(api):
            cluster.delete()
            there = False
        if not there:
            cluster.create(nodes, image, timeout)
            return cluster.await_api(timeout), cluster.containers()
        if cluster.made_by_lab(api) is False:
            cluster.drop_notes()
        started = [] if api else cluster.start_containers()
        api = api or cluster.await_api(timeout)
        cluster.check_fits(api, nodes, image)
        return api, started

    def _absent(self, cluster: KindCluster) -> dict[str, Any]:
        usable = self._programs_are_there(cluster)
        # The folder's parent is not made for the lock alone.
        writing = not self._task.check_mode and cluster.root.parent.exists()
        # Another run may be fetching a node image.
        with locked(cluster.root, CREATE_LIMIT) if writing else contextlib.nullcontext():
            there = usable and cluster.is_there()
            changed, left = self._remove(cluster) if there else (self._forget(cluster), False)
        return {"changed": changed, "left": left, "kubeconfig": str(cluster.kubeconfig)}

    def _programs_are_there(self, cluster: KindCluster) -> bool:
        """Whether docker and kind can be asked. Without them there is no cluster, unless a note says that the lab made one."""
        try:
            check_docker()
            check_installed("kind")
        except ProgramMissing as error:
            if cluster.has_note():
                raise ClusterError(
                    f"the kind cluster {cluster.name}, which the lab made, cannot be deleted: {error}"
                ) from error
            return False
        return True

    def _forget(self, cluster: KindCluster) -> bool:
        return bool(cluster.own_paths()) if self._task.check_mode else cluster.forget()

    def _remove(self, cluster: KindCluster) -> tuple[bool, bool]:
        """Delete a cluster that the lab made, and leave any other; returns (changed, left)."""
        made = cluster.made_by_lab(cluster.api())
        if made is None:
            raise ClusterError(
                f"nothing tells whether the lab made the kind cluster {cluster.name}: its API server does not"
                f" answer, and {cluster.root} holds no note of it as it is."
                f" If it is the lab's, delete it by `kind delete cluster --name {cluster.name}`; else start its containers and run again"
            )
        if made:
            if not self._task.check_mode:
                cluster.delete()
                cluster.forget()
            return True, False
        cluster.check_kubeconfig()
        if self._task.check_mode:
            return False, True
        cluster.drop_notes()
        # By it the lab's changes can be taken back.
        return cluster.write_kubeconfig(), True
