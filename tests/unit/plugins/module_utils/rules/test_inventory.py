# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inventory import inventory
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, LABEL, node, pod

GPU, MODEL, VGPU = "nvidia.com/gpu", "nvidia.com/GA102GL_A10", "nvidia.com/NVIDIA_A10-12Q"


def reasons(nodes, pods, resource=GPU):
    """Return {(node, resource): reasons} for the first pending request of a name."""
    pending = inventory(nodes, pods)[resource]["pending"][0]
    return {(one["node"], one["resource"]): one["reasons"] for one in pending["cannot_use"]}


def container(requests=None, limits=None, **more):
    return dict({"resources": {"requests": requests or {}, "limits": limits or {}}}, **more)


def requested(**spec):
    return inventory([], [pod("p", node_name="gone", **spec)]).get(GPU, {}).get("requested", 0)


def test_the_lab():
    pods = [
        pod("job-container", {GPU: "1"}, "lab-node-0"),
        pod("vmi-passthrough", {MODEL: "1"}, "lab-node-1"),
        pod("vmi-vgpu", {VGPU: "1"}, "lab-node-2"),
        pod("job-cross", {GPU: "1"}, message="0/3 ...", nodeSelector={LABEL: "vm-passthrough"}),
    ]
    result = inventory(HEALTHY, pods)
    assert list(result) == [MODEL, VGPU, GPU]
    assert {name: (entry["allocatable"], entry["requested"], entry["free"]) for name, entry in result.items()} == {
        MODEL: (2, 1, 1),
        VGPU: (4, 1, 3),
        GPU: (4, 1, 3),
    }
    assert result[GPU]["nodes"] == ["lab-node-0"]
    (pending,) = result[GPU]["pending"]
    assert (pending["namespace"], pending["name"], pending["quantity"], pending["message"]) == (
        "gpu-vm",
        "job-cross",
        1,
        "0/3 ...",
    )
    assert [(one["node"], one["resource"], one["free"], one["reasons"]) for one in pending["cannot_use"]] == [
        ("lab-node-0", GPU, 3, ["selector"]),
        ("lab-node-1", MODEL, 1, ["name"]),
        ("lab-node-2", VGPU, 3, ["name", "selector"]),
    ]
    assert "another name" in pending["cannot_use"][1]["detail"]
    assert LABEL + "=vm-passthrough" in pending["cannot_use"][0]["detail"]


def test_nothing_at_all():
    assert inventory([], []) == {}
    assert inventory([node("n", None, {"cpu": "8", GPU: "0"})], [pod("p", {"cpu": "1"})]) == {}


def test_another_prefix():
    nodes = [node("n", None, {"amd.com/gpu": "8", GPU: "1"})]
    assert list(inventory(nodes, [], prefix="amd.com/")) == ["amd.com/gpu"]


def test_requested_but_advertised_nowhere():
    entry = inventory([], [pod("p", {GPU: "2"})])[GPU]
    assert (entry["nodes"], entry["allocatable"], entry["free"], entry["pending"][0]["cannot_use"]) == ([], 0, 0, [])


def test_capacity_and_allocatable():
    result = inventory(
        [
            node("a", None, {GPU: "3"}, {GPU: "4"}),
            node("b", None, None, {GPU: "2"}),
            node("c", None, {GPU: "x"}, {GPU: "1"}),
        ],
        [],
    )
    # An absent allocatable is filled in by the API server; one that is no quantity counts as zero.
    assert (result[GPU]["capacity"], result[GPU]["allocatable"], result[GPU]["free"]) == (7, 5, 5)
    assert result[GPU]["nodes"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "phase, count", [("Running", 1), ("Pending", 1), ("Unknown", 1), ("Succeeded", 0), ("Failed", 0)]
)
def test_pods_that_have_ended_hold_nothing(phase, count):
    entry = inventory(HEALTHY, [pod("p", {GPU: "1"}, "lab-node-0", phase)])[GPU]
    assert (entry["requested"], entry["free"]) == (count, 4 - count)
    assert len(inventory(HEALTHY, [pod("p", {GPU: "1"}, None, phase)])[GPU]["pending"]) == count


def test_free_is_counted_per_node():
    nodes = [node("a", None, {GPU: "1"}), node("b", None, {GPU: "4"})]
    pods = [pod("p", {GPU: "3"}, "a"), pod("q", {GPU: "1"}, "b"), pod("r", {GPU: "1"}, "gone")]
    entry = inventory(nodes, pods)[GPU]
    assert (entry["allocatable"], entry["requested"], entry["free"]) == (5, 5, 3)


@pytest.mark.parametrize(
    "spec, number",
    [
        ({"containers": [container({GPU: "1"}), container({GPU: "2"})]}, 3),
        ({"containers": [container(limits={GPU: "2"})]}, 2),
        ({"containers": [container({GPU: "1"}, {GPU: "2"})]}, 1),
        ({"containers": [container({GPU: "x"})]}, 0),
        ({"containers": [{}], "initContainers": [container({GPU: "4"}), container({GPU: "5"})]}, 5),
        ({"containers": [container({GPU: "6"})], "initContainers": [container({GPU: "4"})]}, 6),
        ({"containers": [container({GPU: "1"})], "initContainers": [container({GPU: "2"}, restartPolicy="Always")]}, 3),
        (
            {
                "containers": [container({GPU: "1"})],
                "initContainers": [container({GPU: "2"}, restartPolicy="Always"), container({GPU: "4"})],
            },
            6,
        ),
        (
            {
                "containers": [container({GPU: "1"})],
                "initContainers": [container({GPU: "4"}), container({GPU: "2"}, restartPolicy="Always")],
            },
            4,
        ),
    ],
)
def test_what_a_pod_requests_in_all(spec, number):
    assert requested(**spec) == number


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def required(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    "one, matches",
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "b"), False),
        (expression("none", "In", "a"), False),
        (expression("zone", "NotIn", "a"), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("none", "NotIn", "a"), True),
        (expression("zone", "Exists"), True),
        (expression("none", "Exists"), False),
        (expression("zone", "DoesNotExist"), False),
        (expression("none", "DoesNotExist"), True),
        (expression("count", "Gt", "7"), True),
        (expression("count", "Gt", "8"), False),
        (expression("count", "Lt", "9"), True),
        (expression("count", "Lt", "8"), False),
        (expression("zone", "Gt", "1"), False),
        (expression("none", "Lt", "1"), False),
        (expression("zone", "odd"), False),
    ],
)
def test_affinity_operators(one, matches):
    target = node("n", None, {GPU: "1"})
    target["metadata"]["labels"]["count"] = "8"
    found = reasons([target], [pod("p", {GPU: "1"}, affinity=required({"matchExpressions": [one]}))])
    assert found == {("n", GPU): ["other" if matches else "selector"]}


@pytest.mark.parametrize(
    "terms, matches",
    [
        ([], False),
        ([{}], False),
        ([{"matchFields": [expression("metadata.name", "In", "n")]}], True),
        ([{"matchFields": [expression("metadata.name", "NotIn", "n")]}], False),
        (
            [
                {"matchExpressions": [expression("zone", "In", "b")]},
                {"matchExpressions": [expression("zone", "In", "a")]},
            ],
            True,
        ),
        ([{"matchExpressions": [expression("zone", "In", "a"), expression("x", "Exists")]}], False),
        (
            [
                {
                    "matchExpressions": [expression("zone", "In", "a")],
                    "matchFields": [expression("metadata.name", "In", "m")],
                }
            ],
            False,
        ),
    ],
)
def test_affinity_terms(terms, matches):
    found = reasons([node("n", None, {GPU: "1"})], [pod("p", {GPU: "1"}, affinity=required(*terms))])
    assert found == {("n", GPU): ["other" if matches else "selector"]}


def test_preferred_affinity_keeps_nothing_away():
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    assert reasons([node("n", None, {GPU: "1"})], [pod("p", {GPU: "1"}, affinity=affinity)]) == {("n", GPU): ["other"]}


@pytest.mark.parametrize(
    "toleration, tolerated",
    [
        (None, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k"}, False),
        ({"key": "j", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Equal", "value": "v"}, True),
    ],
)
def test_tolerations(toleration, tolerated):
    tainted = node("n", None, {GPU: "1"}, spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})
    asks = pod("p", {GPU: "1"}, tolerations=[toleration] if toleration else None)
    assert reasons([tainted], [asks]) == {("n", GPU): ["other" if tolerated else "taint"]}


@pytest.mark.parametrize(
    "spec, words",
    [
        ({"taints": [{"key": "k", "effect": "NoExecute"}]}, "k:NoExecute"),
        ({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, None),
        ({"unschedulable": True}, "node.kubernetes.io/unschedulable:NoSchedule"),
        ({"unschedulable": False}, None),
    ],
)
def test_taints(spec, words):
    (pending,) = inventory([node("n", None, {GPU: "1"}, spec=spec)], [pod("p", {GPU: "1"})])[GPU]["pending"]
    (obstacle,) = pending["cannot_use"]
    assert obstacle["reasons"] == (["taint"] if words else ["other"])
    assert words is None or words in obstacle["detail"]


def test_not_enough_on_one_node():
    nodes = [node("a", None, {GPU: "3"}), node("b", None, {GPU: "3"}), node("c", None, {MODEL: "2"})]
    assert reasons(nodes, [pod("p", {GPU: "4"})]) == {
        ("a", GPU): ["quantity"],
        ("b", GPU): ["quantity"],
        ("c", MODEL): ["name", "quantity"],
    }


def test_all_reasons_at_once():
    bad = node("n", None, {MODEL: "1"}, spec={"unschedulable": True})
    asks = pod("p", {GPU: "2"}, nodeSelector={"zone": "b"})
    assert reasons([bad], [asks]) == {("n", MODEL): ["name", "selector", "taint", "quantity"]}


def test_a_request_for_several_names_stands_below_each():
    nodes = [node("a", None, {GPU: "1"}), node("b", None, {MODEL: "1"}), node("c", None, {VGPU: "1"})]
    result = inventory(nodes, [pod("p", {GPU: "1", MODEL: "1"})])
    assert [len(result[name]["pending"]) for name in (GPU, MODEL, VGPU)] == [1, 1, 0]
    assert reasons(nodes, [pod("p", {GPU: "1", MODEL: "1"})]) == {("a", GPU): ["quantity"], ("c", VGPU): ["name"]}
    assert MODEL in result[GPU]["pending"][0]["cannot_use"][0]["detail"]


def test_what_nothing_here_explains_points_at_the_scheduler():
    asks = pod("p", {GPU: "1"}, message="0/1 nodes are available: 1 Insufficient cpu.")
    (pending,) = inventory([node("n", None, {GPU: "1"})], [asks])[GPU]["pending"]
    (obstacle,) = pending["cannot_use"]
    assert obstacle["reasons"] == ["other"] and "1 Insufficient cpu." in obstacle["detail"]


def test_order_of_input_does_not_matter():
    pods = [pod("q", {GPU: "9"}), pod("p", {GPU: "9"}), pod("r", {GPU: "1"}, "lab-node-0")]
    assert inventory(HEALTHY, pods) == inventory(HEALTHY[::-1], pods[::-1])
