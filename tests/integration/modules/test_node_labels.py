# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_labels against a real API server."""

from __future__ import annotations

import json

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes

USE = "nvidia.com/gpu.workload.config"


def labels_of(cluster, name):
    return cluster.get("node", name)["metadata"]["labels"]


def step(modules, cluster, expected, **options):
    """One change as kubernetes.core tests it: in check mode, for real, and again both ways. `expected` is what the node carries then."""
    name = options["nodes"][0]["name"]
    before = labels_of(cluster, name)
    foreseen = modules.run("node_labels", check=True, **options)
    assert foreseen["changed"] and labels_of(cluster, name) == before
    done = modules.run("node_labels", **options)
    assert done["changed"] and labels_of(cluster, name) == expected
    assert done["nodes"] == foreseen["nodes"] and done["diff"] == foreseen["diff"]
    assert done["nodes"][0]["before"] == before and done["nodes"][0]["after"] == expected
    for check in (True, False):
        again = modules.run("node_labels", check=check, **options)
        assert not again["changed"] and again["diff"] == {"before": {}, "after": {}}
    return done


def test_twelve_steps(modules, cluster):
    cluster.create_nodes("steps.labels-0")
    own = labels_of(cluster, "steps.labels-0")
    nodes = [{"name": "steps.labels-0"}]
    created = step(
        modules, cluster, {**own, USE: "container", "rack": "7"}, nodes=nodes, labels={USE: "container", "rack": 7}
    )
    assert created["diff"] == {
        "before": {"steps.labels-0": {}},
        "after": {"steps.labels-0": {USE: "container", "rack": "7"}},
    }
    modified = step(modules, cluster, {**own, USE: "vm-vgpu", "rack": "7"}, nodes=nodes, labels={USE: "vm-vgpu"})
    assert modified["diff"] == {
        "before": {"steps.labels-0": {USE: "container"}},
        "after": {"steps.labels-0": {USE: "vm-vgpu"}},
    }
    deleted = step(modules, cluster, {**own, "rack": "7"}, nodes=nodes, labels_to_remove=[USE, "never-there"])
    assert deleted["diff"] == {"before": {"steps.labels-0": {USE: "vm-vgpu"}}, "after": {"steps.labels-0": {}}}


def test_replace_keeps_what_kubernetes_owns(modules, cluster):
    cluster.create_nodes("replace-0")
    kept = {
        "kubernetes.io/hostname": "replace-0",
        "topology.kubernetes.io/zone": "z1",
        "node-role.kubernetes.io/worker": "",
        "node.kubernetes.io/instance-type": "big",
        "sub.k8s.io/x": "1",
    }
    own = {key: value for key, value in labels_of(cluster, "replace-0").items() if key.endswith(("/os", "/arch"))}
    cluster.kubectl(
        "label",
        "node",
        "replace-0",
        "mine=1",
        "example.com/kubernetes.io=1",
        "xk8s.io/y=1",
        *(f"{key}={value}" for key, value in kept.items()),
        "--overwrite",
    )
    options = {"nodes": [{"name": "replace-0"}], "labels": {"new": "1"}, "labels_state": "replace"}
    step(modules, cluster, {**own, **kept, "new": "1"}, **options)
    # Named, even Kubernetes' own labels go.
    done = modules.run("node_labels", **options, labels_to_remove=["sub.k8s.io/x"])
    assert (
        "sub.k8s.io/x" not in done["nodes"][0]["after"]
        and done["nodes"][0]["after"]["kubernetes.io/hostname"] == "replace-0"
    )


def test_what_a_node_says_wins(modules, cluster):
    cluster.create_nodes("wins-0", "wins-1", "wins-2")
    cluster.kubectl("label", "node", "wins-0", "wins-1", "wins-2", "old=1")
    done = modules.run(
        "node_labels",
        labels={"a": "all", "b": "all"},
        labels_to_remove=["old"],
        nodes=[
            {"name": "wins-2", "labels": {"a": "own", "old": "kept"}},
            {"name": "wins-0", "labels_to_remove": ["b"]},
            {"name": "wins-1", "labels_state": "replace"},
        ],
    )
    assert [node["name"] for node in done["nodes"]] == ["wins-2", "wins-0", "wins-1"]
    found = {
        name: {key: value for key, value in labels_of(cluster, name).items() if "/" not in key}
        for name in ("wins-0", "wins-1", "wins-2")
    }
    assert found == {
        "wins-2": {"a": "own", "b": "all", "old": "kept"},
        "wins-0": {"a": "all"},
        "wins-1": {"a": "all", "b": "all"},
    }


def test_only_nodes_that_differ_are_written(modules, cluster):
    cluster.create_nodes("differ-0", "differ-1")
    cluster.kubectl("label", "node", "differ-0", "x=1")
    done = modules.run("node_labels", nodes=[{"name": "differ-0"}, {"name": "differ-1"}], labels={"x": "1"})
    assert [node["changed"] for node in done["nodes"]] == [False, True]
    writers = [
        entry for entry in cluster.get("node", "differ-0")["metadata"]["managedFields"] if entry["manager"] == "gpuwl"
    ]
    assert not writers


def test_everything_wrong_is_named_before_any_write(modules, cluster):
    cluster.create_nodes("wrong-0")
    wrong = modules.run(
        "node_labels",
        nodes=[
            {"name": "wrong-0", "labels": {"a/b/c": "x", "ok": "no value!"}},
            {"name": "wrong-1", "labels_to_remove": ["-x"]},
            {"name": "wrong-0"},
        ],
        labels={"flag": True, "none": None, "good": "1", "both": "1"},
        labels_to_remove=["both"],
    )
    assert wrong["failed"]
    for part in (
        "node wrong-0: labels: the name 'a/b/c'",
        "'no value!'",
        "node wrong-1: labels_to_remove: the name '-x'",
        "stands 2 times",
        "True",
        "None",
        "'both' also stands",
    ):
        assert part in wrong["msg"], part
    unknown = modules.run(
        "node_labels", nodes=[{"name": "wrong-0"}, {"name": "wrong-8"}, {"name": "wrong-9"}], labels={"good": "1"}
    )
    assert "wrong-8, wrong-9" in unknown["msg"] and "Nothing was written" in unknown["msg"]
    assert "good" not in labels_of(cluster, "wrong-0")


def test_conflict_loses_nobodys_label(modules, cluster, monkeypatch):
    cluster.create_nodes("conflict-0")
    read = _nodes.read_nodes

    def read_then_others_write(*args, **keywords):
        found = read(*args, **keywords)
        cluster.kubectl("label", "node", "conflict-0", "theirs=1", "shared=theirs")
        return found

    monkeypatch.setattr(_nodes, "read_nodes", read_then_others_write)
    done = modules.run("node_labels", nodes=[{"name": "conflict-0"}], labels={"shared": "ours"})
    assert labels_of(cluster, "conflict-0").items() >= {"theirs": "1", "shared": "ours"}.items()
    # The result tells of the node as it was when it was written, not as it was when it was listed.
    assert done["nodes"][0]["before"]["shared"] == "theirs" and done["diff"]["before"] == {
        "conflict-0": {"shared": "theirs"}
    }


def test_more_nodes_than_a_page(modules, cluster, monkeypatch):
    from ansible_collections.gpuwl.sandbox.plugins.module_utils import _client

    monkeypatch.setattr(_client, "PAGE", 3)
    names = [f"page-{index}" for index in range(10)]
    cluster.create_nodes(*names)
    done = modules.run("node_labels", nodes=[{"name": name} for name in names], labels={"paged": "1"})
    assert [node["after"]["paged"] for node in done["nodes"]] == ["1"] * 10


def test_no_nodes_is_nothing_to_do(modules):
    assert modules.run("node_labels", nodes=[], labels={"a": "b"}) == {
        "changed": False,
        "nodes": [],
        "diff": {"before": {}, "after": {}},
    }


def test_through_ansible_playbook(modules, cluster):
    cluster.create_nodes("play-0")
    tasks = [
        {"gpuwl.sandbox.node_labels": {"nodes": [{"name": "play-0"}], "labels": {"by": "play"}}},
        {"gpuwl.sandbox.node_status": {"nodes": [{"name": "play-0"}], "resources": {"nvidia.com/gpu": 4}}},
    ]
    planned = [{**task, "check_mode": True, "diff": True, "register": f"planned_{at}"} for at, task in enumerate(tasks)]
    done = [{**task, "register": f"done_{at}"} for at, task in enumerate(tasks)]
    again = [{**task, "register": f"again_{at}"} for at, task in enumerate(tasks)]
    names = [task["register"] for task in planned + done + again]
    told = {"ansible.builtin.debug": {"msg": f"RESULT {{{{ [{', '.join(names)}] | to_json }}}} END"}}
    code, text = modules.playbook([*planned, *done, *again, told])
    assert code == 0 and "by: play" in text, text
    results = json.loads(" ".join(text.split()).partition("RESULT ")[2].partition(" END")[0])
    assert [result["changed"] for result in results] == [True, True, True, True, False, False]
    # The check has written nothing.
    assert "by" not in results[2]["nodes"][0]["before"] and results[2]["nodes"][0]["after"]["by"] == "play"
    assert "nvidia.com/gpu" not in json.dumps(results[3]["nodes"][0]["before"])
    node = cluster.get("node", "play-0")
    assert node["metadata"]["labels"]["by"] == "play" and node["status"]["capacity"]["nvidia.com/gpu"] == "4", (
        json.dumps(node)
    )
