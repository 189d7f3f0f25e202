# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API server goes away while a module works.

The name of this file puts it behind the others: after an outage the scheduler takes up to half a minute to look again.
"""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _client

MANY = 400


def assert_one_line(result, *parts):
    assert result["failed"] and "\n" not in result["msg"] and "exception" not in result, result
    for part in parts:
        assert part in result["msg"], result["msg"]


@pytest.fixture(scope="module")
def many(cluster):
    names = [f"many-{index:03}" for index in range(MANY)]
    cluster.create_nodes(*names)
    return names


def kill_after_the_first_write(cluster, label):
    """Kill the API server as soon as a node carries the label; returns the command that starts it again."""
    api = _client.connect(kubeconfig=str(cluster.kubeconfig))
    _items, version = api.list("nodes", metadata_only=True)
    for _kind, node in api.watch("nodes", version, 30):
        if label in node["metadata"].get("labels", {}):
            return cluster.kill("kube-apiserver")
    raise AssertionError("no node was written")


def test_the_api_server_restarts_during_the_wait(modules, cluster, namespace):
    waiting = modules.start("placement_info", namespace=namespace, pods=["survivor"], wait_timeout=60)
    time.sleep(1.5)
    cluster.start(cluster.kill("kube-apiserver"))
    container = {"name": "c", "image": "example.com/cuda:1"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "survivor", "namespace": namespace},
        "spec": {"nodeSelector": {"no": "node"}, "containers": [container]},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    assert modules.finish(waiting)["placements"][0]["reason"] == "Unschedulable"


def test_the_api_server_restarts_midway(modules, cluster, many):
    process = modules.start(
        "node_status", nodes=[{"name": name} for name in many], resources={"restart.example/gpu": 1}
    )
    api = _client.connect(kubeconfig=str(cluster.kubeconfig))
    _items, version = api.list("nodes", metadata_only=True)
    next(
        node
        for _kind, node in api.watch("nodes", version, 30)
        if "restart.example/gpu" in node.get("status", {}).get("capacity", {})
    )
    cluster.start(cluster.kill("kube-apiserver"), wait=False)
    done = modules.finish(process)
    assert "failed" not in done, done["msg"]
    held = [
        node["status"]["allocatable"].get("restart.example/gpu")
        for node in cluster.get("nodes")["items"]
        if node["metadata"]["name"] in set(many)
    ]
    assert held == ["1"] * MANY


def test_the_api_server_dies_midway(modules, cluster, many):
    nodes = [{"name": name} for name in many]
    process = modules.start("node_labels", nodes=nodes, labels={"dies": "1"})
    command = kill_after_the_first_write(cluster, "dies")
    done = modules.finish(process)
    cluster.start(command)
    assert_one_line(done, "connection refused", f"of {MANY} nodes", "run it again")
    carrying = {node["metadata"]["name"] for node in cluster.get("nodes", "-l", "dies=1")["items"]}
    assert done["changed"] is True, "what was written before the failure is a change"
    assert 0 < len(done["written"]) < MANY and sorted(done["written"] + done["not_written"]) == many
    assert set(done["written"]) <= carrying, "what is said to be written is"
    assert len(carrying - set(done["written"])) <= 4, "only answers under way were lost"
    rest = modules.process("node_labels", nodes=nodes, labels={"dies": "1"})
    assert {node["name"] for node in rest["nodes"] if node["changed"]} == set(many) - carrying
    assert not modules.process("node_labels", nodes=nodes, labels={"dies": "1"})["changed"]
