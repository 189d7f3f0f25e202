# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""lab_daemonsets against the real DaemonSet controller: made, again, changed, removed, each in check mode before."""

from __future__ import annotations

import pytest

KEY = "lab-daemonsets.example.com/run"
NODES = ("ds-a", "ds-b")


@pytest.fixture
def nodes(cluster):
    """Two nodes, of which one has the label."""
    cluster.create_nodes(*NODES)
    cluster.await_nodes(*NODES)
    cluster.kubectl("label", "node", "ds-a", f"{KEY}=true")
    yield
    cluster.kubectl("delete", "node", *NODES)


def daemonset(name="one", value="true", **more):
    return {"name": name, "selector": {KEY: value}, **more}


def on(result):
    return {entry["node"]: entry["daemonsets"] for entry in result["nodes"] if entry["node"] in NODES}


def test_twelve_steps(cluster, modules, nodes):
    namespace = "lab-daemonsets"

    def run(*wanted, check=False):
        return modules.run("lab_daemonsets", check=check, namespace=namespace, daemonsets=list(wanted))

    def both(*wanted):
        """In check mode, which must announce the same and do nothing, and then for good, and once more."""
        announced = run(*wanted, check=True)
        done, again = run(*wanted), run(*wanted)
        for key in ("changed", "created", "updated", "removed", "diff"):
            assert announced[key] == done[key]
        assert (again["changed"], again["awaited"], again["nodes"]) == (False, [], done["nodes"])
        return done

    made = both(daemonset())
    assert (made["created"], on(made)) == (["one"], {"ds-a": ["one"], "ds-b": []})
    assert list(made["diff"]["after"]) == ["one"]

    cluster.kubectl("label", "node", "ds-b", f"{KEY}=true")
    cluster.kubectl("taint", "node", "ds-b", "nvidia.com/gpu=x:NoSchedule")
    cluster.kubectl("label", "node", "ds-a", f"{KEY}-")
    moved = run(daemonset())
    assert (moved["changed"], on(moved)) == (False, {"ds-a": [], "ds-b": ["one"]})

    changed = both(daemonset(tolerations=[]), daemonset("two", value="false"))
    assert (changed["created"], changed["updated"], on(changed)) == (["two"], ["one"], {"ds-a": [], "ds-b": []})
    assert changed["daemonsets"][0] == {
        "name": "one",
        "desired_number_scheduled": 0,
        "number_misscheduled": 0,
        "selected": 1,
        "running": 0,
    }

    gone = both()
    assert (gone["removed"], gone["daemonsets"]) == (["one", "two"], [])
    assert cluster.get("daemonsets,pods", "-n", namespace)["items"] == []


def test_what_is_not_the_labs_is_left_alone(cluster, modules, namespace):
    modules.run("lab_daemonsets", namespace=namespace, daemonsets=[daemonset()])
    cluster.kubectl("label", "daemonset", "one", "-n", namespace, "app.kubernetes.io/managed-by-")
    refused = modules.run("lab_daemonsets", namespace=namespace, daemonsets=[daemonset(value="x")])
    assert refused["failed"] and "are not the lab's: one: choose another namespace or other names" in refused["msg"]
    assert modules.run("lab_daemonsets", namespace=namespace, daemonsets=[])["removed"] == []
    assert len(cluster.get("daemonsets", "-n", namespace)["items"]) == 1


def test_a_time_out_says_what_is_awaited(cluster, modules, namespace, nodes):
    cluster.kubectl("patch", "node", "ds-a", "--subresource=status", "-p", '{"status": {"allocatable": {"pods": "0"}}}')
    late = modules.run("lab_daemonsets", namespace=namespace, daemonsets=[daemonset()], wait_timeout=3)
    assert late["failed"] and "after 3 s" in late["msg"]
    assert "one Running Pod of one on ds-a, last seen: Pending" in late["msg"]
    assert on(late) == {"ds-a": [], "ds-b": []}
    modules.run("lab_daemonsets", namespace=namespace, daemonsets=[])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([{"name": "A", "selector": {KEY: "true"}}], "the name 'A': only a-z"),
        ([{"name": "a", "selector": {}}], "a: the selector is empty, and would put it on every node"),
        ([{"name": "a", "selector": {"-": "x"}}], "a: selector: '-' is no label key"),
        ([daemonset(), daemonset()], "the name 'one' stands twice"),
    ],
)
def test_refused_before_anything_is_written(cluster, modules, wanted, words):
    refused = modules.run("lab_daemonsets", namespace="never-made", daemonsets=wanted)
    assert refused["failed"] and words in refused["msg"] and "Nothing was written" in refused["msg"]
    assert cluster.kubectl("get", "namespace", "never-made", check=False) == ""
