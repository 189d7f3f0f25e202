# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as people and programs read it: one fault is one block, each cluster is named, and JUnit keeps its form."""

import re
from pathlib import Path

import pytest
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules import builders
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.audit_builders import (
    CRASHES,
    GPUS,
    gpus,
    live,
    rules,
    save,
    told,
)
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operand_builders import (
    FOUND,
    NOT_CHECKED,
    OPERATOR_SETS,
    cluster_policy,
    operator_sets,
    pod,
    pods_on,
)


def test_what_is_not_judged_is_not_said_to_be_well(tmp_path):
    path = save(tmp_path, gpus(), cluster_policy(), builders.pod())
    assert told(path)[0]["verdict"].startswith("no fault in what could be judged (exit code 0)")


def test_what_counts_as_no_failure_is_not_said_to_be_well(tmp_path):
    path = save(tmp_path, gpus(dcgm_exporter=None), pods_on("gpu-1"), operator_sets(), cluster_policy())
    assert told(path)[0]["verdict"].startswith(
        "nothing that counts as a failure (exit code 0): 1 node judged, 0 errors, 1"
    )
    path = save(tmp_path, gpus(), pods_on("gpu-1"), operator_sets(), cluster_policy())
    assert told(path)[0]["verdict"].startswith("all is well (exit code 0)")


def test_nodes_with_one_fault_are_one_block_and_each_has_its_own_finding(tmp_path):
    names = [f"gpu-{number:03d}" for number in range(200)]
    pods = [
        pod(one, name, status=CRASHES if operand == "gpu-feature-discovery" else None)
        for name in names
        for one, operand in OPERATOR_SETS.items()
    ]
    path = save(tmp_path, [gpus(name) for name in names], pods, operator_sets(), cluster_policy())
    report, document, text, junit = told(path)
    assert text.count("operand-not-running") == 1 and "ERROR operand-not-running  200 nodes: gpu-[000:199]\n" in text
    assert "kubectl describe -n gpu-operator pod gpu-feature-discovery-gpu-000\n" in text
    assert rules(document) == [("operand-not-running", name) for name in names]
    assert all(one["node"] in one["message"] and one["node"] in one["remedy"] for one in document["findings"])
    failures = {case.get("name"): case.find("failure") for case in junit.iter("testcase")}
    assert all(name in failures[name].get("message") for name in names)
    assert (
        report["verdict"]
        == "findings (exit code 1): 200 nodes judged, 200 errors, 0 warnings, 0 info (200 nodes with errors or warnings)"
    )


# What kubelets and runtimes say of one fault, so that it differs from node to node.
WORDS = {
    "back-off {number}m{number}s restarting failed container=main pod=x-{name}_gpu-operator(7d0c2f6e-0000-4000-8000-00000000000{number})": (
        "back-off ... restarting failed container=main pod=...)"
    ),
    'failed to pull "r.io/x:1.2.3": dial tcp 10.0.0.{number}:4{number}21->10.0.0.9:53: i/o timeout': (
        'failed to pull "r.io/x:1.2.3": dial tcp ...->...: i/o timeout)'
    ),
    "context deadline exceeded: 8d7e1b0f4c2{number}aa at 2026-12-01T05:0{number}:00.5Z": (
        "context deadline exceeded: ... at ...)"
    ),
}


@pytest.mark.parametrize("words", WORDS)
def test_what_kubelets_say_of_each_pod_does_not_part_one_fault(tmp_path, words):
    """The back-off, UIDs, addresses and times differ everywhere, and a block per node would hide what else there is."""

    def waits(number):
        message = words.format(name=f"gpu-{number}", number=number)
        waiting = {"reason": "CrashLoopBackOff", "message": message}
        return {
            "phase": "Running",
            "containerStatuses": [{**CRASHES["containerStatuses"][0], "state": {"waiting": waiting}}],
        }

    def cluster(numbers):
        pods = [
            pod(one, f"gpu-{number}", status=waits(number) if operand == "gpu-feature-discovery" else None)
            for number in numbers
            for one, operand in OPERATOR_SETS.items()
        ]
        return save(tmp_path, [gpus(f"gpu-{number}") for number in numbers], pods, operator_sets(), cluster_policy())

    _report, document, text, _junit = told(cluster(range(1, 9)))
    assert text.count("ERROR operand-not-running") == 1 and "operand-not-running  8 nodes: gpu-[1:8]\n" in text
    block = text.partition("FINDINGS\n")[2].partition("\n\n")[0].splitlines()
    assert block[1].endswith(f"(its Pod: container main waits: CrashLoopBackOff: {WORDS[words]}")
    # The message has all of it, so there is no line on what was found.
    assert [line.split()[0] for line in block] == ["ERROR", "operands", "do"]
    for number, one in enumerate(document["findings"], start=1):
        assert words.format(name=f"gpu-{number}", number=number) in one["message"]
    # Of a single node nothing is left out.
    assert words.format(name="gpu-3", number=3) in told(cluster([3]))[2]


def test_faults_that_differ_are_blocks_of_their_own(tmp_path):
    pods = []
    for number, code in enumerate((1, 1, 137)):
        ended = {"terminated": {"exitCode": code, "reason": "Error"}}
        status = {"phase": "Running", "containerStatuses": [{**CRASHES["containerStatuses"][0], "state": ended}]}
        pods += [
            pod(one, f"gpu-{number}", status=status if operand == "gpu-feature-discovery" else None)
            for one, operand in OPERATOR_SETS.items()
        ]
    path = save(tmp_path, [gpus(f"gpu-{number}") for number in range(3)], pods, operator_sets(), cluster_policy())
    text = told(path)[2]
    assert "operand-not-running  2 nodes: gpu-[0:1]\n" in text and "operand-not-running  1 node: gpu-2\n" in text
    assert "exit code 137" in text


def test_a_cluster_without_nodes_is_named_and_not_said_to_be_well(tmp_path):
    """Another kubeconfig than was thought of may be the reason."""
    report, _document, text, _junit = told(save(tmp_path), cluster=live())
    assert text.startswith("No node to judge (exit code 0): 0 nodes judged")
    assert "Read: https://cluster:6443, Kubernetes v1.37.2: no object" in text and report["exit_code"] == 0
    assert "Ask for" not in text
    path = save(tmp_path)
    assert f"Read: {path}: no object" in told(path)[2]
    assert told(path, require_nodes=True)[0]["verdict"].startswith("no node to judge (exit code 3)")


def test_what_would_tell_more_is_asked_for_in_one_command(tmp_path):
    ask = "Ask for: kubectl get nodes,pods,daemonsets.apps,clusterpolicies.nvidia.com --all-namespaces -o json > "
    whole = [gpus(), *pods_on("gpu-1"), *operator_sets(), cluster_policy()]
    assert "Ask for" not in told(save(tmp_path, whole))[2]
    kinds = ("Node", "Pod", "DaemonSet", "ClusterPolicy")
    for kind in kinds:
        rest = [one for one in whole if one["kind"] != kind]
        assert told(save(tmp_path, rest))[2].count(ask) == 1, kind
    assert ask in told(save(tmp_path))[2]
    # A file that is none says itself what to do.
    assert "Ask for" not in told(str(tmp_path / "nowhere.json"))[2]


def test_pods_without_nodes_are_no_inventory(tmp_path):
    """Else they would wait beside no GPU at all."""
    report, document, text, _junit = told(save(tmp_path, builders.pod("p", GPUS)))
    assert (report["exit_code"], document["inventory"]) == (2, None) and "INVENTORY" not in text


def test_one_reason_is_told_once(tmp_path):
    why = "the user u may not list it"
    path = save(tmp_path, gpus(), pods_on("gpu-1"), operator_sets())
    _report, document, text, _junit = told(path, cluster=live(ClusterPolicy=why, NVIDIADriver=why))
    (operands,) = [one for one in document["not_judged"] if "operands" in one["rules"]]
    assert operands["kind"] == "ClusterPolicy" and len(operands["rules"]) > 1
    assert [one["kind"] for one in document["not_judged"]] == ["ClusterPolicy", "NVIDIADriver"]
    assert text.count(why) == 3, "the verdict, and a line for each kind"
    _report, document, text, _junit = told(save(tmp_path, gpus(), operator_sets(), cluster_policy()))
    assert "Not judged: operands, inventory, because there is no Pod in the dump" in text


def test_words_of_others_keep_to_their_line(tmp_path):
    name = "n\n\x1b[31m{node}"
    labels = {**FOUND, "nvidia.com/gpu.deploy.driver": "x\ny"}
    hostile = {**gpus(), "metadata": {"name": name, "labels": labels}}
    path = save(tmp_path, hostile, pods_on("x"), operator_sets(), cluster_policy())
    text = told(path)[2]
    assert "\x1b" not in text and not [line for line in text.splitlines() if line.startswith(("y", "{node}"))]


def assert_junit(root):
    """The form of Jenkins' junit-10.xsd, as far as it is used, with counts that are right."""
    assert (root.tag, root.attrib) == ("testsuites", {})
    (suite,) = root
    assert suite.tag == "testsuite" and suite.attrib.keys() == {"name", "tests", "failures", "errors"}
    cases = list(suite)
    assert all(case.tag == "testcase" and case.attrib.keys() == {"classname", "name"} for case in cases)
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    held = {tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error")}
    assert [int(suite.get(name)) for name in ("tests", "failures", "errors")] == [len(cases), *held.values()]
    for part in (part for case in cases for part in case):
        assert (
            part.attrib.keys() == {"failure": {"type", "message"}, "error": {"message"}, "system-out": set()}[part.tag]
        )
        assert not list(part) and all(part.attrib.values())
    for case in cases:
        # The order that the schema has them in.
        assert [part.tag for part in case] == sorted(
            (part.tag for part in case), key=["error", "failure", "system-out"].index
        )


@pytest.mark.parametrize("fail_on", ["error", "warning", "info", "never"])
def test_junit_keeps_its_form_whatever_it_holds(tmp_path, fail_on):
    hostile = "]]> <b>&\"' \x00\x0b\x1b[31m \ud800 \ufffe \u2028 ü"
    waiting = {"waiting": {"reason": "Odd", "message": hostile}}
    status = {"phase": "Running", "containerStatuses": [{**CRASHES["containerStatuses"][0], "state": waiting}]}
    odd = gpus(f"n {hostile}", dcgm_exporter=hostile, taints=[NOT_CHECKED])
    pods = [pod(one, "gpu-1", status=status) for one in OPERATOR_SETS]
    path = save(tmp_path, odd, gpus(), gpus("gpu-2", mig_manager="true"), pods, operator_sets(), cluster_policy())
    _report, document, text, junit = told([path, str(tmp_path / f"no {hostile[:3]}.json")], fail_on=fail_on)
    assert_junit(junit)
    names = {case.get("name") for case in junit.iter("testcase")}
    assert {"can be read", "gpu-1", "gpu-2"} < names and any(name.startswith("n ]]> <b>") for name in names)
    assert any("]]> <b>&\"' \\x00 \\x1b[31m \\ud800 \\ufffe" in one.get("message") for one in junit.iter("failure"))
    assert all(line.isprintable() for line in text.splitlines())
    told_of = {one["subject"]["name"] for one in document["findings"]}
    assert odd["metadata"]["name"] in told_of, "JSON has it as it is"


def test_the_schema_of_json_is_the_documented_one(tmp_path):
    path = save(tmp_path, gpus(), pods_on("gpu-1"), operator_sets(), cluster_policy())
    document = told(path)[1]
    guide = (Path(__file__).parents[5] / "docs" / "docsite" / "rst" / "guide_audit.rst").read_text("utf-8")
    section = guide.partition("For programs\n")[2].partition("The JUnit file")[0]
    listed = re.findall(r"^``.*``$", section, re.MULTILINE)
    assert f"``schema`` {document['schema']}" in section
    assert {"schema", *re.findall(r"``(\w+)``", " ".join(listed))} == document.keys()


def test_of_several_dumps_a_fault_names_its_own(tmp_path):
    folders = [tmp_path / name for name in ("east", "west")]
    for folder in folders:
        folder.mkdir()
    well = save(folders[0], gpus("east-1"), pods_on("east-1"), operator_sets(), cluster_policy())
    ill = save(folders[1], gpus("west-1", dcgm_exporter="False"), pods_on("west-1"))
    text = told([well, ill])[2]
    assert f"\n  in     {ill}\n" in text
    # Of one dump there is nothing to tell apart.
    alone = save(
        folders[1], gpus("west-1", dcgm_exporter="False"), pods_on("west-1"), operator_sets(), cluster_policy()
    )
    assert "operand-label-invalid" in told(alone)[2] and "\n  in     " not in told(alone)[2]


def test_kinds_of_faults_that_nobody_reads_to_the_end_are_counted(tmp_path):
    nodes = [gpus(f"gpu-{number}", dcgm_exporter=f"odd-{number}") for number in range(130)]
    pods = [one for node in nodes for one in pods_on(node["metadata"]["name"])]
    document, text = told(save(tmp_path, nodes, pods, operator_sets(), cluster_policy()))[1:3]
    shown = text.partition("OPERANDS")[0].count("operand-label-invalid")
    assert shown == 100 < len(document["findings"])
    assert f"and {len(document['findings']) - shown} more kinds of findings; the JSON report has all of them" in text
