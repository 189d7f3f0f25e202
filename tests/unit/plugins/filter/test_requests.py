# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared requests: the Pods they stand for, and what is said about wrong ones."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.filter.requests import request_pods

SURPRISES = [
    None,
    True,
    False,
    0,
    7,
    1.5,
    float("nan"),
    "",
    "x",
    [],
    [[]],
    [None],
    {},
    {1: 2},
    {None: None},
    {"a": {}},
    {"file": []},
]


def request(**more):
    return {"name": "r", "resources": {"nvidia.com/gpu": 1}, **more}


def errors(*requests):
    with pytest.raises(AnsibleFilterError) as caught:
        request_pods(list(requests))
    return str(caught.value)


def test_defaults_are_filled_in():
    assert request_pods([request()]) == [
        {
            "name": "r",
            "manifest": "pod-r.yaml",
            "resources": {"nvidia.com/gpu": 1},
            "node_selector": {},
            "tolerations": [],
            "record": None,
            "pods": ["r"],
            "first": 0,
        }
    ]


def test_no_requests_are_fine():
    assert request_pods([]) == []


def test_a_count_numbers_the_pods_and_keeps_the_order():
    asked = request_pods([request(count=3), request(name="s", count=1), request(name="t", count=2)])
    assert [one["pods"] for one in asked] == [["r-0", "r-1", "r-2"], ["s"], ["t-0", "t-1"]]
    assert [one["first"] for one in asked] == [0, 3, 4]


@pytest.mark.parametrize("quantity, number", [("2k", 2000), (4.0, 4), ("2000m", 2)])
def test_quantities_are_whole_numbers(quantity, number):
    assert request_pods([request(resources={"nvidia.com/gpu": quantity})])[0]["resources"] == {"nvidia.com/gpu": number}


@pytest.mark.parametrize("name", ["a.b.c", "1.5", "007", "10.0.0.1", "x" * 200])
def test_names_with_dots_and_digits(name):
    assert request_pods([request(name=name)])[0]["pods"] == [name]


@pytest.mark.parametrize(
    "more, words",
    [
        ({"resources": {"nvidia.com/gpu": 0}}, "resources: nvidia.com/gpu: 0 asks for nothing: give 1 or more"),
        ({"resources": {"nvidia.com/gpu": -1}}, "resources: nvidia.com/gpu: -1 is negative"),
        ({"resources": {"nvidia.com/gpu": 1.5}}, "resources: nvidia.com/gpu: 1.5 is not a whole number"),
        ({"resources": {"nvidia.com/gpu": True}}, "resources: nvidia.com/gpu: true is no quantity"),
        ({"resources": {"cpu": 1}}, 'resources: "cpu" is no resource name: an extended resource has a domain'),
        ({"resources": {}}, "resources must name at least one resource, such as {nvidia.com/gpu: 1}; found: {}"),
        ({"resources": None}, "resources must name at least one resource"),
        ({"resources": "x"}, 'resources must be a mapping; found: "x"'),
        ({"count": 0}, "count must be a whole number from 1 to 10000; found: 0"),
        ({"count": -1}, "found: -1"),
        ({"count": "2"}, 'found: "2"'),
        ({"count": True}, "found: true"),
        ({"count": None}, "found: null"),
        ({"count": 10001}, "found: 10001"),
        ({"count": 1.5}, "found: 1.5"),
        ({"manifest": "../x"}, 'manifest must be a file name such as pod-container.yaml; found: "../x"'),
        ({"manifest": ""}, 'manifest must be a file name such as pod-container.yaml; found: ""'),
        ({"manifest": 5}, "found: 5"),
        ({"manifest": ".hidden"}, "manifest must be"),
        ({"manifest": "x" * 241}, "has 241 characters, at most 240"),
        (
            {"node_selector": {"a": True}},
            'node_selector: true of "a" is no label value: it must be a string, not bool: put it in quotes',
        ),
        ({"node_selector": {"a b": "x"}}, 'node_selector: "a b" is no label key'),
        ({"node_selector": ["a"]}, "node_selector must be a mapping"),
        ({"tolerations": {"key": "a"}}, "tolerations must be a list"),
        ({"tolerations": ["a"]}, 'tolerations: "a" must be {key, operator'),
        (
            {"tolerations": [{"key": "a", "operator": "Exist"}]},
            'tolerations: operator "Exist"; allowed are Equal, Exists',
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            'tolerations: value "x": with the operator Exists leave value out',
        ),
        ({"tolerations": [{"operator": "Equal"}]}, "tolerations: without key the operator must be Exists"),
        ({"tolerations": [{"key": "a", "value": 1}]}, "tolerations: value 1: it must be a string"),
        ({"tolerations": [{"key": "a", "effect": "No"}]}, 'tolerations: effect "No"; allowed are NoSchedule'),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
            "tolerations: tolerationSeconds goes with the effect NoExecute only",
        ),
        (
            {"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": "5"}]},
            'tolerationSeconds must be a whole number; found: "5"',
        ),
        ({"record": "04.txt"}, 'record must be {file, fields} or {file, placements}; found: "04.txt"'),
        (
            {"record": {"file": "../x", "fields": ["NODE"]}},
            'record: file must be a file name such as 04-container.txt; found: "../x"',
        ),
        ({"record": {"file": "a/b", "fields": ["NODE"]}}, 'found: "a/b"'),
        ({"record": {"fields": ["NODE"]}}, "record: file must be a file name such as 04-container.txt; found: null"),
        ({"record": {"file": "x.txt"}}, "record: give fields or placements, or leave record out"),
        ({"record": {"file": "x.txt", "fields": "NODE"}}, 'record: fields must be a list; found: "NODE"'),
        (
            {"record": {"file": "x.txt", "fields": ["Node"]}},
            'record: field "Node" is unknown; known are NODE, RESOURCE, PHASE, MESSAGE',
        ),
        ({"record": {"file": "x.txt", "placements": "r"}}, "record: placements must be a list"),
        ({"record": {"file": "x.txt", "placements": ["q"]}}, 'record: placements name "q", which no request declares'),
        (
            {"record": {"file": "x.txt", "placements": [["r"], 5]}},
            'record: placements name ["r"], which no request declares',
        ),
        ({"image": "x"}, "unknown key image; known are name, manifest"),
    ],
)
def test_what_is_wrong_with_a_request(more, words):
    told = errors(request(**more))
    assert told.startswith("request r: ")
    assert words in told


@pytest.mark.parametrize(
    "name",
    [
        "01-nodes.txt",
        "03-resources.txt",
        "operands.txt",
        "pool-operands.json",
        "pool-operands.txt",
        "nodes.json",
        "pods.json",
        "consistency.txt",
        "requests.json",
        "run.json",
        "checks",
    ],
)
def test_records_of_other_steps_are_not_overwritten(name):
    assert f"file {name} is written by another step: choose another name" in errors(
        request(record={"file": name, "fields": ["NODE"]})
    )


@pytest.mark.parametrize(
    "name, words",
    [
        ("R", 'name "R" is no Pod name: only a-z'),
        ("", 'name "" is no Pod name: it is empty'),
        (None, "name null is no Pod name"),
        (5, "name 5 is no Pod name: it must be a string"),
        (True, "name true"),
        ("a_b", 'name "a_b"'),
        (["r"], 'name ["r"]'),
    ],
)
def test_wrong_names(name, words):
    assert words in errors(request(name=name))


def test_the_longest_name_of_a_count_must_fit():
    assert request_pods([request(name="x" * 249, manifest="m.yaml", count=100)])
    assert "has 254 characters, at most 253" in errors(request(name="x" * 249, manifest="m.yaml", count=1001))


def test_the_default_manifest_of_a_long_name_says_what_to_do():
    assert "manifest: the file name" in errors(request(name="x" * 250))


def test_what_stands_twice():
    told = errors(
        request(manifest="m.yaml", record={"file": "f", "fields": ["NODE"]}),
        request(manifest="m.yaml", record={"file": "f", "fields": ["NODE"]}),
        request(name="s", count=2),
        request(name="s-1"),
        request(name="t", manifest="pod-s.yaml"),
    )
    for words in (
        "the Pod name r stands 2 times",
        "the Pod name s-1 stands 2 times",
        "the manifest m.yaml stands 2 times",
        "the manifest pod-s.yaml stands 2 times",
        "the record file f stands 2 times",
    ):
        assert words in told


def test_everything_wrong_is_told_at_once():
    told = errors(
        request(count=0, node_selector=5, tolerations=5, record=5, manifest=5, extra=1, resources={"x": 0}),
        7,
        request(name="X"),
    )
    for words in (
        "count must",
        "node_selector must",
        "tolerations must",
        "record must",
        "manifest must",
        "unknown key extra",
        '"x" is no resource name',
        "0 asks for nothing",
        "lab_requests[1] must be a mapping with name and resources; found: 7",
        'request X: name "X"',
    ):
        assert words in told
    assert "\n" not in told


def test_placements_may_name_a_request_that_has_other_errors():
    told = errors(request(record={"file": "f", "placements": ["s"]}), request(name="s", count=0))
    assert "which no request declares" not in told and "count must" in told


@pytest.mark.parametrize("requests", [None, True, 5, "x", {}, {"name": "r"}])
def test_requests_must_be_a_list(requests):
    with pytest.raises(AnsibleFilterError, match="lab_requests must be a list of requests"):
        request_pods(requests)


@pytest.mark.parametrize("key", ["name", "manifest", "resources", "node_selector", "tolerations", "count", "record", 5])
@pytest.mark.parametrize("value", SURPRISES, ids=repr)
def test_no_value_ends_in_a_traceback(key, value):
    for wrapped in (
        value,
        [value],
        {"a/b": value},
        [{"key": value, "operator": value, "effect": value, "tolerationSeconds": value}],
        {"file": value, "fields": value},
        {"file": "f", "fields": [value], "placements": [value]},
    ):
        with pytest.raises(AnsibleFilterError, match=r"lab_requests\[1\]"):
            request_pods([request() | {key: wrapped}, wrapped if not isinstance(wrapped, dict) else None])


def test_thousands_of_requests():
    record = {"file": "f", "placements": ["r-%d" % number for number in range(5000)]}
    assert (
        len(
            request_pods(
                [request(name="r-%d" % number, record=record if not number else None) for number in range(5000)]
            )
        )
        == 5000
    )
    assert len(request_pods([request(count=10000)])[0]["pods"]) == 10000
    assert errors(*[request(name="r-%d" % (number // 2)) for number in range(5000)]).count("the Pod name") == 2500
