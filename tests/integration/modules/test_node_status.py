# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_status against a real API server. KWOK has no kubelet; kubectl writes in its name where one is needed."""

from __future__ import annotations

import json
import threading
import time

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_status, _nodes

GPU = "nvidia.com/gpu"
A10 = "nvidia.com/GA102GL_A10"


def status_of(cluster, name):
    status = cluster.get("node", name)["status"]
    return [{key: value for key, value in status[field].items() if "/" in key} for field in ("capacity", "allocatable")]


def write_status(cluster, name, manager, **fields):
    """Patch fields of the status in another manager's name: the kubelet's, say."""
    patch = json.dumps({"status": fields})
    cluster.kubectl(
        "patch", "node", name, "--subresource=status", "--type=merge", "-p", patch, f"--field-manager={manager}"
    )


def step(modules, cluster, expected, **options):
    """One change: in check mode, for real, and again both ways. `expected` is what capacity and allocatable hold then."""
    name = options["nodes"][0]["name"]
    before = status_of(cluster, name)
    foreseen = modules.run("node_status", check=True, **options)
    assert foreseen["changed"] and status_of(cluster, name) == before
    done = modules.run("node_status", **options)
    assert done["changed"] and status_of(cluster, name) == [expected, expected]
    assert done["nodes"] == foreseen["nodes"] and done["diff"] == foreseen["diff"]
    for check in (True, False):
        again = modules.run("node_status", check=check, **options)
        assert not again["changed"] and again["diff"] == {"before": {}, "after": {}}
    return done


def test_twelve_steps(modules, cluster):
    cluster.create_nodes("steps.status-0")
    nodes = [{"name": "steps.status-0"}]
    created = step(modules, cluster, {GPU: "4", A10: "2"}, nodes=nodes, resources={GPU: 4, A10: "2"})
    assert created["nodes"][0]["before"] == {"capacity": {}, "allocatable": {}}
    assert created["diff"]["after"] == {
        "steps.status-0": {"capacity": {A10: "2", GPU: "4"}, "allocatable": {A10: "2", GPU: "4"}}
    }
    modified = step(modules, cluster, {GPU: "8", A10: "2"}, nodes=nodes, resources={GPU: 8})
    changed = {"capacity": {GPU: "4"}, "allocatable": {GPU: "4"}}
    assert modified["diff"]["before"] == {"steps.status-0": changed}
    deleted = step(modules, cluster, {A10: "2"}, nodes=nodes, resources_to_remove=[GPU, "nvidia.com/never-there"])
    assert deleted["nodes"][0]["after"] == {"capacity": {A10: "2"}, "allocatable": {A10: "2"}}
    # What is no extended resource was never touched.
    assert cluster.get("node", "steps.status-0")["status"]["capacity"]["memory"] == "64Gi"


def test_replace_stays_within_its_prefix(modules, cluster):
    cluster.create_nodes(
        "prefix-0", **{GPU: "4", "nvidia.com/mig-1g.10gb": "7", "amd.com/gpu": "1", "nvidia.com.example/gpu": "1"}
    )
    options = {"nodes": [{"name": "prefix-0"}], "resources_state": "replace"}
    left = {"amd.com/gpu": "1", "nvidia.com.example/gpu": "1"}
    step(
        modules,
        cluster,
        {**left, GPU: "4", A10: "2"},
        resources={GPU: "4", A10: 2},
        resources_prefix="nvidia.com/",
        **options,
    )
    step(modules, cluster, left, resources_prefix="nvidia.com/", **options)
    refused = modules.run("node_status", resources_prefix="nvidia", **options)
    assert "resources_prefix 'nvidia'" in refused["msg"]
    assert "resources_prefix" in modules.run("node_status", **options)["msg"]


def test_quantities_are_numbers(modules, cluster):
    cluster.create_nodes("numbers-0")
    options = {"nodes": [{"name": "numbers-0"}]}
    done = modules.run("node_status", resources={GPU: 2000}, **options)
    assert status_of(cluster, "numbers-0")[0] == {GPU: "2k"}, "the API server writes it short"
    assert done["nodes"][0]["after"]["capacity"] == {GPU: "2000"}
    for same in ("2k", "2000", 2000, "2e3", "2000.0"):
        assert not modules.run("node_status", resources={GPU: same}, **options)["changed"], same
    assert modules.run("node_status", resources={GPU: "0"}, **options)["nodes"][0]["after"]["allocatable"] == {GPU: "0"}


def test_everything_wrong_is_named_before_any_write(modules, cluster):
    cluster.create_nodes("wrong.status-0")
    wrong = modules.run(
        "node_status",
        nodes=[
            {"name": "wrong.status-0", "resources": {"cpu": 4, GPU: "1500m"}},
            {"name": "other", "resources": {"nvidia.com/": 1, A10: -1}},
        ],
        resources={
            "kubernetes.io/x": 1,
            "a.b/half": 0.5,
            "a.b/text": "many",
            "a.b/yes": True,
            "a.b/none": None,
            "a.b/good": 1,
        },
        resources_to_remove=["memory"],
    )
    named = (
        "node wrong.status-0: resources",
        "'cpu'",
        "1500m",
        "node other: resources",
        "'nvidia.com/'",
        A10,
        "-1",
        "'kubernetes.io/x'",
        "'a.b/half'",
        "'a.b/text'",
        "'a.b/yes'",
    )
    for part in (*named, "'a.b/none'", "'memory'"):
        assert part in wrong["msg"], part
    unknown = modules.run(
        "node_status", nodes=[{"name": name} for name in ("wrong.status-0", "gone-1", "gone-2")], resources={GPU: 1}
    )
    assert "gone-1, gone-2" in unknown["msg"]
    assert status_of(cluster, "wrong.status-0") == [{}, {}]


def test_allocatable_is_made_equal_where_no_kubelet_runs(modules, cluster, monkeypatch):
    def waits(*_args, **_more):
        raise AssertionError("it waited for a kubelet where none is")

    monkeypatch.setattr(_node_status.Api, "watch", waits)
    cluster.create_nodes("uneven-0")
    write_status(cluster, "uneven-0", "somebody", capacity={GPU: "4", A10: "2"}, allocatable={GPU: "3"})
    options = {"nodes": [{"name": "uneven-0"}], "resources": {GPU: 4, A10: 2}}
    done = modules.run("node_status", **options)
    assert done["changed"]
    assert done["nodes"][0]["before"]["allocatable"] == {GPU: "3"}
    assert status_of(cluster, "uneven-0") == [{GPU: "4", A10: "2"}] * 2
    write_status(cluster, "uneven-0", "somebody", capacity={GPU: None})
    assert modules.run("node_status", nodes=[{"name": "uneven-0"}], resources_to_remove=[GPU])["changed"]
    assert status_of(cluster, "uneven-0") == [{A10: "2"}] * 2


def test_allocatable_may_follow_where_a_kubelet_runs(modules, cluster):
    cluster.create_nodes("follow-0")
    write_status(cluster, "follow-0", "kubelet", nodeInfo={"kubeletVersion": "v1.37.2"})
    write_status(cluster, "follow-0", "gpuwl", capacity={GPU: "4"})
    kubelet = threading.Timer(1, lambda: write_status(cluster, "follow-0", "kubelet", allocatable={GPU: "4"}))
    kubelet.start()
    done = modules.run("node_status", nodes=[{"name": "follow-0"}], resources={GPU: 4})
    kubelet.join()
    assert not done["changed"]
    assert done["nodes"][0]["after"]["allocatable"] == {GPU: "4"}


def test_allocatable_is_written_when_the_kubelet_does_not_follow(modules, cluster, monkeypatch):
    cluster.create_nodes("still-0")
    write_status(cluster, "still-0", "kubelet", nodeInfo={"kubeletVersion": "v1.37.2"})
    write_status(cluster, "still-0", "gpuwl", capacity={GPU: "4"}, allocatable={GPU: "5"})
    monkeypatch.setattr(_node_status, "SYNC_SECONDS", 2)
    began = time.monotonic()
    assert modules.run("node_status", nodes=[{"name": "still-0"}], resources={GPU: 4})["changed"]
    assert time.monotonic() - began > 1.9, "it did not wait for the kubelet"
    assert status_of(cluster, "still-0") == [{GPU: "4"}] * 2


def test_the_kubelets_resources_are_refused(modules, cluster):
    cluster.create_nodes("plugin-0", "plugin-1")
    write_status(
        cluster,
        "plugin-0",
        "kubelet",
        capacity={GPU: "4", "nvidia.com/old": "0"},
        allocatable={GPU: "4", "nvidia.com/old": "0"},
    )
    for options in (
        {"resources": {GPU: 5}},
        {"resources_to_remove": [GPU]},
        {"resources_state": "replace", "resources_prefix": "nvidia.com/"},
    ):
        nodes = [{"name": "plugin-1", "resources": {A10: 1}}, {"name": "plugin-0"}]
        for check in (True, False):
            refused = modules.run("node_status", check=check, nodes=nodes, **options)
            assert (
                refused["failed"] and f"node plugin-0: {GPU} (4)" in refused["msg"] and "force: true" in refused["msg"]
            )
    assert status_of(cluster, "plugin-1") == [{}, {}], "a refusal comes before any write"
    # The same value is no change, leftovers of zero may go, and others' names beside them may come.
    done = modules.run(
        "node_status",
        nodes=[{"name": "plugin-0"}],
        resources={GPU: 4, A10: 1},
        resources_state="replace",
        resources_prefix="nvidia.com/",
    )
    assert done["nodes"][0]["after"]["capacity"] == {GPU: "4", A10: "1"}
    assert modules.run("node_status", nodes=[{"name": "plugin-0"}], resources={GPU: 5}, force=True)["changed"]
    assert status_of(cluster, "plugin-0") == [{GPU: "5", A10: "1"}] * 2


def test_a_resource_set_when_the_node_was_created_is_free(modules, cluster):
    cluster.create_nodes("created-0", **{GPU: "4"})
    managers = {entry["manager"] for entry in cluster.get("node", "created-0")["metadata"]["managedFields"]}
    assert "kubelet" not in managers
    assert modules.run("node_status", nodes=[{"name": "created-0"}], resources_to_remove=[GPU])["changed"]
    assert status_of(cluster, "created-0") == [{}, {}]


def test_conflict_is_planned_anew(modules, cluster, monkeypatch):
    cluster.create_nodes("race-0", "race-1")
    read = _nodes.read_nodes

    def read_then_others_write(*args, **keywords):
        found = read(*args, **keywords)
        if "race-0" in found[0]:
            write_status(
                cluster, "race-0", "somebody", capacity={"theirs.com/x": "1"}, allocatable={"theirs.com/x": "1"}
            )
        else:
            write_status(cluster, "race-1", "kubelet", capacity={GPU: "9"}, allocatable={GPU: "9"})
        return found

    monkeypatch.setattr(_nodes, "read_nodes", read_then_others_write)
    done = modules.run("node_status", nodes=[{"name": "race-0"}], resources={GPU: 4})
    assert done["nodes"][0]["before"]["capacity"] == {"theirs.com/x": "1"}
    assert status_of(cluster, "race-0") == [{GPU: "4", "theirs.com/x": "1"}] * 2
    # A device plugin that registered meanwhile is respected too.
    refused = modules.run("node_status", nodes=[{"name": "race-1"}], resources={GPU: 4})
    assert f"{GPU} (9)" in refused["msg"] and refused["written"] == [] and refused["not_written"] == ["race-1"]
    assert "Nothing was written" not in refused["msg"]
    assert status_of(cluster, "race-1") == [{GPU: "9"}] * 2


def test_writes_as_gpuwl(modules, cluster):
    cluster.create_nodes("manager-0")
    modules.run("node_status", nodes=[{"name": "manager-0"}], resources={GPU: 4})
    entries = [
        entry for entry in cluster.get("node", "manager-0")["metadata"]["managedFields"] if entry["manager"] == "gpuwl"
    ]
    assert [entry["subresource"] for entry in entries] == ["status"]
    assert f"f:{GPU}" in entries[0]["fieldsV1"]["f:status"]["f:allocatable"]
