# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import importlib
import json
import os
import pathlib

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, listed, node, pod

FILTERS = ("consistency", "check_reports", "inventory", "inventory_table", "expected_operands")
FOLDER = pathlib.Path(__file__).resolve().parents[4] / "plugins" / "filter"
BAD = node("bad", "container", {"nvidia.com/GA102GL_A10": "1"})


def load(name):
    module = importlib.import_module("ansible_collections.gpuwl.sandbox.plugins.filter." + name)
    return module.FilterModule().filters()[name]


consistency, check_reports, inventory, inventory_table, expected_operands = map(load, FILTERS)


@pytest.fixture
def dumps(tmp_path):
    (tmp_path / "deep" / ".git").mkdir(parents=True)
    for name, content in [
        ("b.json", listed(HEALTHY)),
        ("a.json", listed([BAD] + HEALTHY)),
        ("deep/c", listed([])),
        (".hidden", "x"),
        ("deep/.git/config", "x"),
        ("pods.json", listed([pod("p")], "PodList")),
    ]:
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path


@pytest.mark.parametrize("name", FILTERS)
def test_documentation_names_the_arguments(name):
    documented = yaml.safe_load((FOLDER / (name + ".yml")).read_text())["DOCUMENTATION"]
    function = load(name)
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    assert set(documented["options"]) - {"_input"} == set(arguments[1:])
    values = [list(value) if isinstance(value, tuple) else value for value in function.__defaults__ or ()]
    defaults = dict(zip(arguments[::-1], values[::-1]))
    assert {key: option.get("default") for key, option in documented["options"].items() if key in defaults} == defaults


@pytest.mark.parametrize("wrap", [lambda nodes: nodes, listed, lambda nodes: listed(nodes, "NodeList")])
def test_consistency_takes_objects(wrap):
    assert [found["node"] for found in consistency(wrap(HEALTHY + [dict(BAD)] + [node("a", "")]))] == ["a", "bad"]
    assert consistency(wrap(HEALTHY)) == consistency(wrap([])) == []
    assert [found["source"] for found in consistency(BAD)] == [None]


def test_consistency_takes_a_path(dumps):
    (finding,) = consistency(str(dumps / "a.json"))
    assert (finding["node"], finding["source"]) == ("bad", str(dumps / "a.json"))
    assert dict(finding, source=None) == consistency([BAD])[0]


@pytest.mark.parametrize(
    "value, words",
    [
        ("/no/such", "/no/such: cannot be read: No such file"),
        (5, "it is a number"),
        (None, "it is null"),
        ([5], r"items\[0\] must be an object"),
        ({}, "no kind"),
        ([{"metadata": {}}], "without a name"),
        ([pod()], "none of its 1"),
        ([node("x\ny", status=5)], r"Node x\\ny: status must be an object"),
    ],
)
def test_consistency_refuses_in_one_line(value, words):
    with pytest.raises(AnsibleFilterError, match=words) as caught:
        consistency(value)
    assert "\n" not in str(caught.value)


def test_an_unknown_profile_is_refused(dumps):
    for judge in (consistency, check_reports):
        with pytest.raises(AnsibleFilterError, match="'strict' is none of lab"):
            judge([], profile="strict")


def test_check_reports(dumps):
    reports = check_reports([str(dumps / "b.json"), str(dumps / "a.json"), str(dumps / "pods.json")])
    assert [pathlib.Path(report["path"]).name for report in reports] == ["b.json", "a.json", "pods.json"]
    assert [(report["exit_code"], report["checked"], bool(report["error"])) for report in reports] == [
        (0, 3, False),
        (1, 4, False),
        (2, 0, True),
    ]
    assert reports[0]["text"] == "OK=3"
    assert reports[1]["text"].startswith("MISMATCH=bad ")
    assert [found["source"] for found in reports[1]["findings"]] == [str(dumps / "a.json")]
    assert reports[2]["text"] == "" and str(dumps / "pods.json") in reports[2]["error"]


def test_a_node_that_stands_twice_is_judged_twice(dumps):
    (dumps / "a.json").write_text(json.dumps(listed([BAD, HEALTHY[0], BAD, HEALTHY[0]])))
    (report,) = check_reports(str(dumps / "a.json"))
    assert (report["checked"], len(report["findings"]), report["text"].count("MISMATCH=bad ")) == (4, 2, 2)


def test_a_folder_stands_for_its_files(dumps):
    reports = check_reports(str(dumps))
    assert [report["path"] for report in reports] == [
        str(dumps / name) for name in ("a.json", "b.json", "deep/c", "pods.json")
    ]


def test_check_reports_lists_missing_files_and_refuses_what_is_no_path():
    assert [report["exit_code"] for report in check_reports("/no/such")] == [2]
    assert check_reports([]) == []
    for value in (5, None, {}, [5], [""], ""):
        [report] = check_reports(value)
        assert report["exit_code"] == 2 and "expected the path of a file or folder" in report["error"]


def test_nothing_in_a_folder_goes_unmentioned(dumps):
    (dumps / "gone.json").symlink_to("nowhere")
    os.mkfifo(dumps / "pipe")
    errors = {pathlib.Path(report["path"]).name: report["error"] for report in check_reports([str(dumps), 5])}
    assert "No such file" in errors["gone.json"] and "no regular file" in errors["pipe"] and "expected" in errors["5"]
    assert errors["b.json"] == ""


def test_inventory_takes_objects_and_paths(dumps):
    expected = inventory(HEALTHY, [pod("p")])
    assert expected["nvidia.com/gpu"]["free"] == 4
    assert inventory(str(dumps / "b.json"), str(dumps / "pods.json")) == expected
    assert inventory(listed(HEALTHY), listed([pod("p")], "PodList")) == expected
    assert list(inventory(HEALTHY, [], prefix="cpu")) == []


@pytest.mark.parametrize(
    "nodes, pods, words",
    [
        ("/no/such", [], "nodes: /no/such: cannot be read"),
        ([], "/no/such", "pods: /no/such"),
        (5, [], "nodes: it is a number"),
        ([], [HEALTHY[0]], "pods: none of its 1 items is a Pod"),
        ([], [pod("p", containers=5)], "spec.containers must be an array"),
        ([], [pod("p", containers=[5])], "spec.containers must hold objects"),
        ([], [pod("p", containers=[{"resources": 5}])], "not the form"),
    ],
)
def test_inventory_refuses_in_one_line(nodes, pods, words):
    with pytest.raises(AnsibleFilterError, match=words):
        inventory(nodes, pods)


def test_inventory_table():
    assert inventory_table(inventory(HEALTHY, [])).startswith("RESOURCE")
    for arguments in (({"a": 1},), ({}, [{}]), (None,), ({}, 5), ({}, None, "wide"), ({}, None, 5)):
        with pytest.raises(AnsibleFilterError, match="expected what|width must be"):
            inventory_table(*arguments)


def test_all_errors_of_a_declaration_at_once():
    judge = load("declaration_errors")
    pools = [{"name": "a", "nodes": ["n_1"], "resources": {"nvidia.com/gpu": 1.5}}]
    errors = judge(pools, [{"name": "r", "resources": {"gpu": 1}}], "Ab_c")
    assert len(errors) == 4
    assert [word for word in ("Ab_c", "n_1", "1.5", '"gpu"') if not any(word in error for error in errors)] == []
    assert judge([{"name": "a", "nodes": ["n-[0:2]"]}], [], "gpu-vm") == []


VM = node("vm", "vm-passthrough", {"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "2"})
VM["metadata"]["labels"]["nvidia.com/gpu.present"] = "true"
OFF = {
    "kind": "ClusterPolicy",
    "apiVersion": "nvidia.com/v1",
    "metadata": {"name": "p"},
    "spec": {"sandboxWorkloads": {}},
}


def rules(findings):
    return [found["rule"] for found in findings]


def test_consistency_by_the_profile_operator(tmp_path):
    assert "wrong-resource" in rules(consistency([VM], "operator"))
    assert "sandbox-disabled" in rules(consistency([VM], "operator", OFF))
    assert "sandbox-disabled" in rules(
        consistency([VM], "operator", OFF["spec"] | {"sandboxWorkloads": {"enabled": False}})
    )
    # A ClusterPolicy in a List among the nodes counts, as it does in a dump.
    assert rules(consistency(listed([VM, OFF]), "operator")) == rules(consistency([VM], "operator", OFF))
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(OFF))
    assert rules(consistency([VM], "operator", str(path))) == rules(consistency([VM], "operator", OFF))
    assert rules(consistency([VM], "operator", ignore=["wrong-resource", "deploy-label-missing@vm"])) == []


@pytest.mark.parametrize(
    "options, words",
    [
        ({"cluster_policy": {"spec": {"sandboxWorkloads": {"enabled": "yes"}}}}, 'sandboxWorkloads.enabled is "yes"'),
        ({"cluster_policy": 5}, "the ClusterPolicy is 5"),
        ({"cluster_policy": "/no/such"}, "/no/such: cannot be read"),
        ({"operator_version": "newest"}, "operator version 'newest'"),
        ({"ignore": ["typo"]}, "there is no rule 'typo'"),
        ({"ignore": "wrong-resource"}, "expected a list of RULE"),
        ({"profile": "strict"}, "'strict' is none of lab, operator"),
    ],
)
def test_options_that_cannot_be(options, words):
    for ask in (lambda: consistency([VM], **options), lambda: check_reports([], **options)):
        with pytest.raises(AnsibleFilterError) as caught:
            ask()
        assert words in str(caught.value) and "\n" not in str(caught.value)


def test_reports_in_several_formats(dumps):
    formats = ["text", "json", "junit", "github"]
    (report,) = check_reports(str(dumps / "a.json"), "operator", formats=formats, fail_on="info")
    assert list(report["outputs"]) == formats
    assert json.loads(report["outputs"]["json"])["profile"] == "operator"
    assert report["outputs"]["junit"].startswith("<?xml") and report["outputs"]["text"] == report["text"]
    for wrong in ({"formats": ["yaml"]}, {"fail_on": "never"}):
        with pytest.raises(AnsibleFilterError, match="is none of"):
            check_reports([], **wrong)


def test_a_folder_is_one_dump_by_the_profile_operator(dumps):
    assert len(check_reports(str(dumps), "lab")) > 1
    (report,) = check_reports(str(dumps), "operator")
    assert report["path"] == str(dumps)


@pytest.mark.parametrize("field", ["labels", "annotations", "capacity", "allocatable"])
def test_keys_that_are_no_texts_are_refused(field):
    odd = json.loads(json.dumps(VM))
    odd["metadata" if field in ("labels", "annotations") else "status"].setdefault(field, {})[1] = "2"
    for profile in ("lab", "operator"):
        with pytest.raises(AnsibleFilterError, match=rf"Node vm: a key of \w+\.{field} is 1, expected a string"):
            consistency([odd], profile)


def test_a_filter_has_no_standard_input():
    with pytest.raises(AnsibleFilterError, match="no standard input"):
        consistency("-")
    assert "no standard input" in check_reports("-")[0]["error"]


def test_expected_operands_take_objects_and_paths(dumps):
    found = expected_operands(str(dumps / "b.json"))
    assert [(entry["node"], entry["workload"]) for entry in found] == [
        ("lab-node-0", None),
        ("lab-node-1", None),
        ("lab-node-2", None),
    ]
    assert expected_operands(listed(HEALTHY)) == found
    for arguments, words in (
        ((str(dumps / "none.json"),), "none.json"),
        ((str(dumps / "pods.json"),), "Pod"),
        ((HEALTHY, {"driver": {"enabled": "yes"}}), "driver.enabled"),
        ((HEALTHY, {}, "newest"), "newest"),
        ((HEALTHY, {}, None, {}), "other_objects"),
    ):
        with pytest.raises(AnsibleFilterError, match=words):
            expected_operands(*arguments)
