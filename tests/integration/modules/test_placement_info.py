# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""placement_info against the real scheduler."""

from __future__ import annotations

import json
import threading
import time

GPU = "test.example/gpu"


def pod(name, namespace, gpus=1, selector=None, labels=None, **spec):
    container = {"name": "cuda", "image": "example.com/cuda:1", "resources": {"limits": {GPU: gpus}} if gpus else {}}
    # Every test's Pods go to that test's own node, or none.
    selector = selector or {"kubernetes.io/hostname": f"{namespace}-node"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"nodeSelector": selector, "tolerations": [{"operator": "Exists"}], "containers": [container], **spec},
    }


def create_node(cluster, namespace, gpus):
    cluster.create_nodes(f"{namespace}-node", **{GPU: gpus})
    cluster.await_nodes(f"{namespace}-node")


def create(cluster, *pods):
    cluster.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(pods)}))


def test_decisions_in_the_order_asked(modules, cluster, namespace):
    create_node(cluster, namespace, "2")
    create(
        cluster,
        pod("fits", namespace),
        pod("elsewhere", namespace, selector={"no": "node"}),
        pod("too.big", namespace, gpus=3),
    )
    done = modules.run("placement_info", namespace=namespace, pods=["too.big", "fits", "elsewhere"], wait_timeout=20)
    assert [placement["pod"] for placement in done["placements"]] == ["too.big", "fits", "elsewhere"]
    too_big, fits, elsewhere = done["placements"]
    assert not done["changed"] and done["undecided"] == []
    assert (
        fits["node"] == f"{namespace}-node"
        and fits["scheduled"]
        and fits["requested"] == {GPU: 1}
        and fits["message"] == ""
    )
    assert elsewhere["node"] is None and not elsewhere["scheduled"] and elsewhere["phase"] == "Pending"
    assert (
        elsewhere["reason"] == "Unschedulable" and "didn't match Pod's node affinity/selector" in elsewhere["message"]
    )
    assert (
        "Insufficient test.example/gpu" in too_big["message"]
        and too_big["requested"] == {GPU: 3}
        and "\n" not in too_big["message"]
    )
    # With no Pod in the way, one more look is a matter of milliseconds, in check mode too.
    again = modules.run("placement_info", check=True, namespace=namespace, pods=["elsewhere"])
    assert [placement["node"] for placement in again["placements"]] == [None]


def test_waits_by_watching_for_pods_that_come_later(modules, cluster, namespace):
    create_node(cluster, namespace, "2")
    later = threading.Timer(1, lambda: create(cluster, pod("later", namespace)))
    later.start()
    done = modules.run("placement_info", namespace=namespace, pods=["later"], wait_timeout=30)
    later.join()
    assert done["placements"][0]["node"] == f"{namespace}-node"


def test_time_out_names_the_pods_without_a_decision(modules, cluster, namespace):
    create_node(cluster, namespace, "2")
    create(
        cluster,
        pod("decided", namespace),
        pod("gated", namespace, schedulingGates=[{"name": "example.com/wait"}]),
        pod("ignored", namespace, schedulerName="nobody"),
    )
    began = time.monotonic()
    done = modules.run(
        "placement_info", namespace=namespace, pods=["decided", "gated", "ignored", "missing"], wait_timeout=2
    )
    assert time.monotonic() - began > 1.5, "it did not wait as long as it was told to"
    assert done["failed"] and done["undecided"] == ["gated", "ignored", "missing"]
    for part in (
        "within 2 s",
        "3 of 4 Pods",
        f"{namespace}/gated: PodScheduled=False SchedulingGated",
        f"{namespace}/ignored: exists, and no scheduler",
        f"{namespace}/missing: does not exist",
    ):
        assert part in done["msg"], done["msg"]
    assert f"{namespace}/decided" not in done["msg"] and done["placements"][0]["node"] == f"{namespace}-node"
    looked = modules.run(
        "placement_info", check=True, namespace=namespace, pods=["missing", "decided"], wait_timeout=60
    )
    assert looked["undecided"] == ["missing"] and [placement["pod"] for placement in looked["placements"]] == [
        "decided"
    ]


def test_a_pod_that_is_replaced_is_waited_for(modules, cluster, namespace):
    create_node(cluster, namespace, "2")
    create(cluster, pod("replaced", namespace, schedulerName="nobody"))

    def replace():
        cluster.kubectl("delete", "pod", "replaced", "-n", namespace, "--grace-period=0", "--force")
        create(cluster, pod("replaced", namespace, selector={"no": "node"}))

    later = threading.Timer(0.7, replace)
    later.start()
    done = modules.run("placement_info", namespace=namespace, pods=["replaced"], wait_timeout=30)
    later.join()
    assert done["placements"][0]["reason"] == "Unschedulable"


def test_a_pod_on_its_way_out_is_no_answer(modules, cluster, namespace):
    create_node(cluster, namespace, "2")
    going = pod("going", namespace)
    going["metadata"]["finalizers"] = ["example.com/hold"]
    create(cluster, going)
    assert modules.run("placement_info", namespace=namespace, pods=["going"], wait_timeout=20)["placements"][0][
        "scheduled"
    ]
    cluster.kubectl("delete", "pod", "going", "-n", namespace, "--wait=false")
    done = modules.run("placement_info", namespace=namespace, pods=["going"], wait_timeout=1)
    assert done["failed"] and "going: is being deleted" in done["msg"]
    cluster.kubectl(
        "patch", "pod", "going", "-n", namespace, "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
    )


def test_a_selector_takes_what_matches_by_name(modules, cluster, namespace):
    create_node(cluster, namespace, "9")
    names = ["sel-10", "sel-2", "sel-1"]
    create(cluster, *(pod(name, namespace, labels={"app": "sel"}) for name in names), pod("other", namespace))
    done = modules.run("placement_info", namespace=namespace, label_selector="app=sel", wait_timeout=20)
    assert [placement["pod"] for placement in done["placements"]] == sorted(names)
    nothing = modules.run("placement_info", namespace=namespace, label_selector="app=none", wait_timeout=1)
    assert nothing["failed"] and "app=none" in nothing["msg"]
    wrong = modules.run("placement_info", namespace=namespace, label_selector="not a selector!", wait_timeout=1)
    assert wrong["failed"] and "unable to parse" in wrong["msg"]


def test_bad_input(modules):
    assert (
        "mutually exclusive"
        in modules.run("placement_info", namespace="default", pods=["a"], label_selector="a=b")["msg"]
    )
    wrong = modules.run("placement_info", namespace="No", pods=["Not A Pod"], wait_timeout=-1)["msg"]
    assert "namespace 'No'" in wrong and "'Not A Pod'" in wrong and "wait_timeout -1" in wrong
    assert modules.run("placement_info", namespace="default", pods=[])["placements"] == []
