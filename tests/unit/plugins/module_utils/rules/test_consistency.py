# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import copy

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.checking import check_objects
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import is_labelled
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import Settings
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, LABEL, node
from hypothesis import given, settings
from hypothesis import strategies as st

GPU, MODEL, VGPU = "nvidia.com/gpu", "nvidia.com/GA102GL_A10", "nvidia.com/NVIDIA_A10-12Q"


def judge_lab(*nodes):
    return list(check_objects(list(nodes), Settings()).findings())


def judge(*arguments, **more):
    """Return the rules and messages of a node's findings; there is one at most."""
    findings = judge_lab(node("n", *arguments, **more))
    assert len(findings) <= 1
    return [(found["rule"], found["message"]) for found in findings]


@pytest.mark.parametrize(
    "workload, resource",
    [
        ("container", GPU),
        ("vm-passthrough", MODEL),
        ("vm-passthrough", "nvidia.com/GF100GL_TESLA_M2070Q"),
        ("vm-passthrough", "nvidia.com/TU104GL_T4"),
        ("vm-passthrough", "nvidia.com/A10-12q"),
        ("vm-passthrough", "nvidia.com/A10-12QX"),
        ("vm-passthrough", "nvidia.com/gpu.shared"),
        ("vm-vgpu", VGPU),
        ("vm-vgpu", "nvidia.com/NVIDIA_A10-4Q"),
        ("vm-vgpu", "nvidia.com/NVIDIA_A100-1-5C"),
        ("vm-vgpu", "nvidia.com/GRID_T4-16Q"),
    ],
)
def test_label_and_name_agree(workload, resource):
    assert judge(workload, {resource: "2", "cpu": "8"}) == []
    for other in {"container", "vm-passthrough", "vm-vgpu"} - {workload}:
        [(rule, message)] = judge(other, {resource: "2", "cpu": "8"})
        assert rule == "wrong-resource"
        assert other in message and resource in message


def test_the_prefix_is_exact():
    assert (
        judge(
            "container",
            {GPU: "4", "amd.com/gpu": "1", "nvidia.company/x": "1", "xnvidia.com/gpu": "1", "Nvidia.com/gpu": "1"},
        )
        == []
    )


def test_only_labelled_nodes_are_considered_and_an_empty_value_is_a_label():
    assert judge(None, {GPU: "4", MODEL: "1"}) == []
    assert not is_labelled(node("n", None))
    assert judge("", {GPU: "4"})[0][0] == "unknown-workload-label"
    assert is_labelled(node("n", ""))


@pytest.mark.parametrize("zero", ["0", 0, "0k", "0.0", 0.0])
def test_zero_is_absent(zero):
    assert judge("vm-vgpu", {VGPU: "4", GPU: zero, MODEL: zero}) == []
    assert judge("vm-vgpu", {VGPU: zero})[0][0] == "no-resource"


def test_allocatable_speaks_before_capacity():
    assert judge("container", {GPU: "4"}, {GPU: "0"}) == []
    assert judge("container", {GPU: "0"}, {GPU: "4"})[0][0] == "no-resource"
    assert judge("container", {"cpu": "8"}, {GPU: "4"}) == []
    assert judge("container", None, {GPU: "4"}) == []
    assert judge("container", {GPU: "4"}, {MODEL: "1"})[0][0] == "several-resources"
    assert judge("container", {GPU: "4"}, {GPU: "nonsense"}) == []


@pytest.mark.parametrize("label", ["", "Container", "vm-passthru", "container ", "vm_vgpu", "none", None, 5, {}])
def test_unknown_label(label):
    built = node("n", "x", {GPU: "4"})
    built["metadata"]["labels"][LABEL] = label
    (finding,) = judge_lab(built)
    assert finding["rule"] == "unknown-workload-label"
    assert "container, vm-passthrough and vm-vgpu" in finding["message"] and GPU in finding["message"]


@pytest.mark.parametrize("quantity", ["-1", "1500m", "four", "", None, True, [], -1, 2.5, "1 "])
def test_no_quantity(quantity):
    for workload in ("container", "vm-vgpu"):
        [(rule, message)] = judge(workload, {GPU: quantity})
        assert rule == "invalid-resource-quantity" and GPU in message
    assert judge("container", {GPU: "4", MODEL: quantity})[0][0] == "invalid-resource-quantity"


@pytest.mark.parametrize("quantity", ["2k", "2000m", 4, 4.0, "1e3", "1Ki", "+1"])
def test_quantities_of_kubernetes(quantity):
    assert judge("container", {GPU: quantity}) == []


def test_none_and_several():
    [(rule, message)] = judge("vm-passthrough", {"cpu": "8"})
    assert rule == "no-resource" and "vm-passthrough" in message and "no nvidia.com/ resource" in message
    assert judge("container", None) == judge("container", {}) == judge("container", status=None)
    [(rule, message)] = judge("container", {GPU: "4", MODEL: "2"})
    assert rule == "several-resources" and GPU in message and MODEL in message


def test_one_finding_names_all_that_is_wrong():
    [(rule, message)] = judge("typo", {GPU: "4", MODEL: "2", VGPU: "x"})
    assert rule == "unknown-workload-label"
    assert all(part in message for part in ("typo", GPU, MODEL, VGPU, '"x"'))


def test_a_finding_has_the_agreed_form():
    (finding,) = judge_lab(node("n", "container", {MODEL: "2", "cpu": "1"}))
    assert set(finding) == {"subject", "node", "source", "rule", "severity", "message", "remedy", "evidence"}
    assert finding["subject"] == {"kind": "Node", "namespace": None, "name": "n"}
    assert (finding["node"], finding["source"], finding["severity"]) == ("n", None, "error")
    assert finding["evidence"] == {"label": "container", "resources": {MODEL: "2"}}
    assert finding["remedy"].endswith(".")


def test_a_great_many_names_are_cut_short():
    message = judge("container", {"nvidia.com/x%03d" % number: "1" for number in range(500)})[0][1]
    assert "493 more" in message and len(message) < 600


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["container", "vm-passthrough", "vm-vgpu", "", "odd", None]),
    st.dictionaries(
        st.sampled_from([GPU, MODEL, VGPU, "cpu", "nvidia.com/X-1-5C"]),
        st.sampled_from(["0", "1", "2k", "-1", "x", 3]),
        max_size=4,
    ),
    st.randoms(),
)
def test_verdicts_ignore_names_order_and_other_labels(workload, resources, random):
    original = node("n", workload, resources)
    changed = copy.deepcopy(original)
    changed["metadata"]["name"] = "renamed"
    changed["metadata"]["labels"]["nvidia.com/gpu.present"] = "true"
    items = list(resources.items())
    random.shuffle(items)
    changed["status"]["allocatable"] = dict(items)
    verdicts = [[(found["rule"], found["message"]) for found in judge_lab(one)] for one in (original, changed)]
    assert verdicts[0] == verdicts[1]


def test_the_lab_is_healthy_and_the_input_is_left_alone():
    before = copy.deepcopy(HEALTHY)
    assert judge_lab(*HEALTHY) == []
    assert HEALTHY == before
