# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The doors to the audit of operands: what they take, and errors of one line."""

import importlib
import json

import pytest
from ansible.errors import AnsibleFilterError

DEPLOY = "nvidia.com/gpu.deploy.driver"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": {DEPLOY: "true"}}}
DAEMONSET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "drivers", "namespace": "lab"},
    "spec": {"template": {"spec": {"nodeSelector": {DEPLOY: "true"}}}},
}


def load(name):
    module = importlib.import_module("ansible_collections.gpuwl.sandbox.plugins.filter." + name)
    return module.FilterModule().filters()[name]


operand_audit, operand_table = load("operand_audit"), load("operand_table")


def test_objects_a_list_and_a_path_give_the_same(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, DAEMONSET]}))
    expected = operand_audit([NODE, DAEMONSET])
    assert [one["cause"] for one in expected["nodes"][0]["missing"]] == ["pod-not-running"]
    assert operand_audit({"kind": "List", "items": [NODE, DAEMONSET]}) == expected
    assert operand_audit(str(path)) == operand_audit([str(path)]) == operand_audit(str(tmp_path)) == expected
    assert "pod-not-running: driver" in operand_table(expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-",), "no standard input"),
        (("/nowhere/dump.json",), "/nowhere/dump.json"),
        (([NODE], "newest"), "operator version 'newest'"),
        (([NODE], None, "/nowhere/policy.yaml"), "/nowhere/policy.yaml"),
        (([NODE], None, {"driver": {"enabled": 3}}), "driver.enabled"),
        (([NODE], None, None, ["26.3"]), "compare_versions"),
        ((17,), "items[0] must be an object"),
    ],
)
def test_bad_input_gives_one_line(arguments, words):
    with pytest.raises(AnsibleFilterError) as caught:
        operand_audit(*arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("audit", "width"), [({}, 100), ([], 100), ({"nodes": 3, "operator": True}, 100), ({}, 10), ({}, "x")]
)
def test_what_is_no_audit_is_not_drawn(audit, width):
    with pytest.raises(AnsibleFilterError, match="expected what gpuwl.sandbox.operand_audit returns|width must be"):
        operand_table(audit, width)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"paths": 7}, "paths 7: expected the path of a file or folder, or a list of them"),
        ({"paths": ["a", ""]}, "expected the path of a file or folder, or a list of them"),
        ({"paths": "-"}, "a filter has no standard input"),
        ({"fail_on": "worst"}, "fail_on 'worst' is none of error, warning, info, never"),
        ({"formats": "text"}, "formats 'text': expected a list of"),
        ({"formats": ["pdf"]}, "formats ['pdf']: expected a list of"),
        ({"cluster": "x"}, "cluster: expected what gpuwl.sandbox.cluster_dump returned"),
        ({"compare_versions": ["26.3"]}, "compare_versions"),
    ],
)
def test_the_report_refuses_in_one_line(tmp_path, given, words):
    with pytest.raises(AnsibleFilterError) as caught:
        load("audit_reports")(**{"paths": str(tmp_path), **given})
    assert words in str(caught.value) and "\n" not in str(caught.value)
