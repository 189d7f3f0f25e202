# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_originals against a real API server. Every test ends with the nodes as they were before, which is what it is for."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_originals, _nodes, _originals

GPU = "nvidia.com/gpu"
A10 = "nvidia.com/GA102GL_A10"
DONGLE = "example.com/dongle"
ANNOTATION = _originals.ANNOTATION


def seen(cluster, name):
    """What of a node could be changed: (labels, annotations, capacity, allocatable)."""
    node = cluster.get("node", name)
    extended = [
        {key: value for key, value in node["status"][field].items() if "/" in key}
        for field in ("capacity", "allocatable")
    ]
    return node["metadata"]["labels"], node["metadata"].get("annotations"), *extended


def settled(cluster, *names):
    """Nodes that KWOK has reported for, as seen()."""
    cluster.await_nodes(*names)
    return {name: seen(cluster, name) for name in names}


def step(modules, **options):
    """In check mode, for real, and again; returns the result."""
    foreseen = modules.run("node_originals", check=True, **options)
    done = modules.run("node_originals", **options)
    assert done["changed"] and done == foreseen
    again = modules.run("node_originals", **options)
    assert not again["changed"] and (again["kept"], again["put_back"], again["diff"]) == (
        {},
        {},
        {"before": {}, "after": {}},
    )
    return done


def test_kept_changed_and_put_back(modules, cluster):
    name = "originals-0"
    cluster.create_nodes(name, **{GPU: "8", DONGLE: "1"})
    before = settled(cluster, name)[name]
    declared = {
        "name": name,
        "labels": {"tier": "on", "kubernetes.io/hostname": name},
        "resources": {A10: 2, DONGLE: 5},
    }
    kept = step(modules, nodes=[declared])["kept"][name]
    # Not what is the same already, and what the prefix takes away although it is not named.
    assert kept == {
        "labels": {"tier": None},
        "resources": {
            GPU: {"capacity": "8", "allocatable": "8"},
            DONGLE: {"capacity": "1", "allocatable": "1"},
            A10: {},
        },
    }
    assert seen(cluster, name)[0] == before[0] and seen(cluster, name)[2:] == before[2:]
    modules.run("node_labels", nodes=[{"name": name, "labels": declared["labels"]}])
    modules.run(
        "node_status",
        nodes=[{"name": name, "resources": declared["resources"]}],
        resources_state="replace",
        resources_prefix="nvidia.com/",
    )
    # Another declaration: what is kept stays as it was before the first, what it does not name is put back.
    other = {"name": name, "labels": {"tier": "off"}, "resources": {A10: 3}}
    done = step(modules, nodes=[other])
    assert done["put_back"] == {name: {"labels": {}, "resources": {DONGLE: {"capacity": "1", "allocatable": "1"}}}}
    assert done["kept"][name] == {"labels": kept["labels"], "resources": {GPU: kept["resources"][GPU], A10: {}}}
    done = step(modules, nodes=[])
    assert done["put_back"][name]["labels"] == {"tier": None} and set(done["put_back"][name]["resources"]) == {GPU, A10}
    assert seen(cluster, name) == before


def test_one_scope_leaves_the_other_alone(modules, cluster):
    cluster.create_nodes("scope-0", "scope-1", **{GPU: "8"})
    before = settled(cluster, "scope-0", "scope-1")
    nodes = [{"name": name, "labels": {"tier": "on"}, "resources": {GPU: 4}} for name in before]
    assert step(modules, nodes=nodes, scope=["labels"])["kept"]["scope-0"] == {
        "labels": {"tier": None},
        "resources": {},
    }
    assert step(modules, nodes=nodes, scope=["resources"])["kept"]["scope-1"] == {
        "labels": {"tier": None},
        "resources": {GPU: {"capacity": "8", "allocatable": "8"}},
    }
    modules.run("node_labels", nodes=[{"name": name} for name in before], labels={"tier": "on"})
    modules.run("node_status", nodes=[{"name": name} for name in before], resources={GPU: 4})
    assert step(modules, nodes=nodes[:1], scope=["labels"])["put_back"] == {
        "scope-1": {"labels": {"tier": None}, "resources": {}}
    }
    assert seen(cluster, "scope-1")[2] == {GPU: "4"}
    step(modules, nodes=[])
    assert {name: seen(cluster, name) for name in before} == before


def test_an_interruption_forgets_nothing(modules, cluster, monkeypatch):
    """Cut off between the resources and the annotation: the next run does the rest."""
    cluster.create_nodes("cut-0", **{GPU: "8"})
    before = settled(cluster, "cut-0")["cut-0"]
    modules.run("node_originals", nodes=[{"name": "cut-0", "resources": {GPU: 4}, "labels": {"tier": "on"}}])
    modules.run("node_labels", nodes=[{"name": "cut-0"}], labels={"tier": "on"})
    modules.run("node_status", nodes=[{"name": "cut-0"}], resources={GPU: 4})
    true = _nodes.patch_until_current

    def cut(api, node, plan, subresource=None):
        if subresource is None:
            raise _node_originals.ApiError("cut off")
        return true(api, node, plan, subresource)

    with monkeypatch.context() as patched:
        patched.setattr(_nodes, "patch_until_current", cut)
        assert "cut off" in modules.run("node_originals", nodes=[])["msg"]
    assert seen(cluster, "cut-0")[2] == {GPU: "8"} and ANNOTATION in seen(cluster, "cut-0")[1]
    step(modules, nodes=[])
    assert seen(cluster, "cut-0") == before


def write_as_kubelet(cluster, name, **fields):
    cluster.kubectl(
        "patch",
        "node",
        name,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": fields}),
        "--field-manager=kubelet",
    )


def test_what_a_device_plugin_registered_meanwhile_stays(modules, cluster):
    cluster.create_nodes("registered-0", **{GPU: "8"})
    settled(cluster, "registered-0")
    modules.run("node_originals", nodes=[{"name": "registered-0", "resources": {A10: 2}}])
    modules.run("node_status", nodes=[{"name": "registered-0"}], resources={A10: 2}, resources_to_remove=[GPU])
    write_as_kubelet(cluster, "registered-0", capacity={GPU: "7"}, allocatable={GPU: "7"})
    assert step(modules, nodes=[])["put_back"] == {"registered-0": {"labels": {}, "resources": {A10: {}}}}
    assert seen(cluster, "registered-0")[2:] == ({GPU: "7"}, {GPU: "7"})


@pytest.mark.parametrize(
    ("module", "what"), [("node_labels", {"labels": {"tier": "on"}}), ("node_status", {"resources": {GPU: 4}})]
)
def test_whoever_comes_after_a_teardown_overwrites_nothing(modules, cluster, monkeypatch, module, what):
    """Another run puts the node back between a module's reading and its writing."""
    name = f"late-{module.replace('_', '-')}"
    cluster.create_nodes(name, **{GPU: "8"})
    before = settled(cluster, name)[name]
    nodes = [{"name": name, **what}]
    assert modules.run(module, nodes=nodes, require_originals=True)["msg"].startswith(f"node {name}: what ")
    modules.run("node_originals", nodes=nodes)
    true = _nodes.read_nodes

    def overtaken(*arguments, **keywords):
        found = true(*arguments, **keywords)
        assert modules.process("node_originals", nodes=[])["changed"]
        return found

    with monkeypatch.context() as patched:
        patched.setattr(_nodes, "read_nodes", overtaken)
        told = modules.run(module, nodes=nodes, require_originals=True)["msg"]
    assert f"is not kept on node {name}: another run has put the node back" in told and "run again" in told
    assert seen(cluster, name) == before
    modules.run("node_originals", nodes=nodes)
    assert modules.run(module, nodes=nodes, require_originals=True)["changed"]
    step(modules, nodes=[])
    assert seen(cluster, name) == before


def test_a_teardown_that_is_overtaken_puts_back_once_more(modules, cluster, monkeypatch):
    """Another run changes the resources again between their being put back and forgotten."""
    cluster.create_nodes("twice-0", **{GPU: "8"})
    before = settled(cluster, "twice-0")["twice-0"]
    modules.run("node_originals", nodes=[{"name": "twice-0", "resources": {GPU: 4}}])
    modules.run("node_status", nodes=[{"name": "twice-0"}], resources={GPU: 4})
    true, others = _nodes.patch_until_current, iter(["3", "2"])

    def overtaken(api, node, plan, subresource=None):
        if subresource is None and (quantity := next(others, None)):
            write_as_kubectl(cluster, "twice-0", {GPU: quantity})
        return true(api, node, plan, subresource)

    with monkeypatch.context() as patched:
        patched.setattr(_nodes, "patch_until_current", overtaken)
        assert modules.run("node_originals", nodes=[])["changed"]
    assert seen(cluster, "twice-0") == before


def write_as_kubectl(cluster, name, resources):
    patch = json.dumps({"status": {"capacity": resources, "allocatable": resources}})
    cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)


def test_nodes_that_cannot_be(modules, cluster):
    cluster.create_nodes("odd-0")
    before = settled(cluster, "odd-0")["odd-0"]
    nodes = [{"name": "odd-0", "labels": {"a": "b"}}]
    told = modules.run("node_originals", nodes=[*nodes, {"name": "nobody"}])["msg"]
    assert "1 of 2 nodes do not exist" in told and "nobody" in told and "Nothing was written" in told
    told = modules.run(
        "node_originals",
        nodes=[{"name": "odd-0", "labels": {"a b": "c", "d": None}, "resources": {"nvidia.com/gpu": "many", "cpu": 1}}],
    )["msg"]
    assert all(
        word in told
        for word in ("'a b'", "'d'", "'many'" if "'many'" in told else '"many"', "'cpu'", "Nothing was written")
    )
    assert "stands 2 times" in modules.run("node_originals", nodes=nodes * 2)["msg"]
    assert seen(cluster, "odd-0") == before


@pytest.mark.parametrize(
    "text",
    [
        '{"labels": {}, "resources": {}, "note": "hi"}',
        '{"labels": {}, "resources": {"cpu": {"capacity": "1"}}}',
        '{"labels": {}, "resources": {"a.b/c": {"capacity": 5}}}',
        '{"labels": {}, "resources": {"a.b/c": {"capacity": "-1"}}}',
        '{"labels": {}, "resources": {"a.b/c": {"capacity": {"a": 1}}}}',
        "",
        "{",
        "[]",
        "{}",
        '{"labels": {}, "resources": []}',
        '{"labels": {"a": 1}, "resources": {}}',
        '{"labels": {}, "resources": {"a.b/c": {"limits": "1"}}}',
    ],
)
def test_a_damaged_annotation_is_an_error_and_no_loss(text):
    with pytest.raises(_originals.ApiError, match="of node n is damaged.*Nothing was written"):
        _originals.originals_of({"metadata": {"name": "n", "annotations": {ANNOTATION: text}}})
