# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inventory import inventory
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inventory_table import inventory_table, ranges
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, LABEL, node, pod

GPU, MODEL = "nvidia.com/gpu", "nvidia.com/GA102GL_A10"


def decision(name, resource=GPU, target=None, message="", **more):
    return dict(
        {
            "namespace": "gpu-vm",
            "name": name,
            "node": target,
            "resource": resource,
            "quantity": 1,
            "reason": "",
            "message": message,
        },
        **more,
    )


def test_the_lab():
    pods = [
        pod("job-container", {GPU: "1"}, "lab-node-0"),
        pod("job-cross", {GPU: "1"}, message="0/3 no.", nodeSelector={LABEL: "vm-passthrough"}),
    ]
    table = inventory_table(
        inventory(HEALTHY, pods),
        [decision("job-container", target="lab-node-0"), decision("job-cross", message="0/3 no.")],
    )
    assert table.splitlines() == [
        "RESOURCE                   ALLOCATABLE  ASKED  FREE  NODES",
        "nvidia.com/GA102GL_A10               2      0     2      1  lab-node-1",
        "nvidia.com/NVIDIA_A10-12Q            4      0     4      1  lab-node-2",
        "nvidia.com/gpu                       4      2     3      1  lab-node-0",
        "",
        "REQUEST        ASKS FOR          NODE, OR WHY NONE",
        "job-container  1 nvidia.com/gpu  lab-node-0",
        "job-cross      1 nvidia.com/gpu  none: 0/3 no.",
        "",
        "IDLE BESIDE THE QUEUE",
        "job-cross waits for 1 nvidia.com/gpu while",
        "  2 nvidia.com/GA102GL_A10 on lab-node-1 are free: another name",
        "  4 nvidia.com/NVIDIA_A10-12Q on lab-node-2 are free: another name, its node selector",
        "  3 nvidia.com/gpu on lab-node-0 are free: its node selector",
    ]


def test_without_decisions_the_pending_requests_are_listed():
    table = inventory_table(inventory(HEALTHY, [pod("p", {GPU: "9"}, message="too few")]))
    assert "p        9 nvidia.com/gpu  none: too few" in table


def test_parts_that_have_nothing_to_say_are_left_out():
    assert inventory_table(inventory(HEALTHY, [])).count("\n") == 3
    assert inventory_table({}) == "RESOURCE  ALLOCATABLE  ASKED  FREE  NODES"


def test_long_messages_are_folded_below_their_column():
    lines = inventory_table({}, [decision("p", message="word " * 60)]).splitlines()[2:]
    assert max(map(len, lines)) <= 100
    assert {line[:27].strip() for line in lines[2:]} == {""}


def test_namespaces_show_where_there_are_several():
    table = inventory_table({}, [decision("p"), decision("p", namespace="other")])
    assert "gpu-vm/p" in table and "other/p" in table


def test_a_thousand_nodes_are_a_screenful():
    nodes = [
        node("pool%d-%03d" % (pool, number), None, {"nvidia.com/model_%d" % pool: "8"})
        for pool in range(10)
        for number in range(100)
    ]
    pods = [
        pod("job-%03d" % number, {"nvidia.com/model_0": "8"}, "pool0-%03d" % (number % 100)) for number in range(90)
    ]
    pods += [pod("wait-%03d" % number, {GPU: "1"}) for number in range(50)]
    decisions = [decision(one["metadata"]["name"], target=one["spec"].get("nodeName")) for one in pods]
    lines = inventory_table(inventory(nodes, pods), decisions).splitlines()
    assert len(lines) < 45 and max(map(len, lines)) <= 100
    assert "nvidia.com/model_9          800      0   800    100  pool9-[000:099]" in lines
    assert "job-[000:089]   1 nvidia.com/gpu each  90 on 90 nodes, pool0-[000:089]" in lines
    assert "wait-[000:049] wait for 1 nvidia.com/gpu each while" in lines


def test_many_different_requests_are_cut_short():
    decisions = [decision(f"{chr(97 + number % 26)}-job" * (1 + number // 26)) for number in range(200)]
    assert len(inventory_table({}, decisions).splitlines()) < 30


@pytest.mark.parametrize(
    "names, shown",
    [
        ([], ""),
        (["a"], "a"),
        (["b", "a"], "a, b"),
        (["n1", "n2", "n3"], "n[1:3]"),
        (["n8", "n9", "n10", "n11"], "n[8:11]"),
        (["n08", "n09", "n10"], "n[08:10]"),
        (["n1", "n3"], "n1, n3"),
        (["a1", "b2"], "a1, b2"),
        (["n01", "n2"], "n01, n2"),
        (["n1.x", "n2.x", "n3.y"], "n[1:2].x, n3.y"),
        (["n1", "n1", "n2"], "n[1:2]"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
        (["a", "b", "c", "d1", "d2", "d3", "e"], "a, b, c and 4 more"),
        (["n%d" % (10**30)], "n%d" % (10**30)),
        (["n9", "n09"], "n09, n9"),
    ],
)
def test_ranges(names, shown):
    assert ranges(names) == shown


def test_nothing_steers_the_terminal():
    assert "\x1b" not in inventory_table({}, [decision("p", message="\x1b[31m red")])


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["kind-worker", "kind-worker2", "kind-worker3"], "kind-worker, kind-worker[2:3]"),
        (["gpu", "gpu0", "gpu1"], "gpu, gpu[0:1]"),
        (["a", "a1", "b"], "a, a1, b"),
    ],
)
def test_a_name_without_a_number_before_the_same_with_one(names, shown):
    assert ranges(names) == shown
