# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One report on a cluster from its dumps: what is told once, what counts, and what was not judged."""

import itertools
import json
from xml.etree import ElementTree

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import inventory
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.audit_reading import read_audit
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import settings_from
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
    CHAIN,
    FOUND,
    NOT_CHECKED,
    OPERATOR_SETS,
    cluster_policy,
    lab_pods,
    lab_sets,
    labels_of,
    operator_sets,
    pod,
    pods_on,
)


def test_what_both_parts_find_is_told_once(tmp_path):
    path = save(
        tmp_path, gpus(dcgm_exporter="True"), pods_on("gpu-1", ("dcgm-exporter",)), operator_sets(), cluster_policy()
    )
    report, document, text, junit = told(path)
    assert rules(document) == [("operand-label-invalid", "gpu-1")]
    assert text.count("WARNING operand-label-invalid  1 node: gpu-1\n") == 1
    assert [one["cause"] for one in document["operands"][0]["missing"]] == ["label-not-true"]
    assert document["findings"][0]["source"] == path
    # A warning alone fails nothing.
    assert (report["exit_code"], len(junit.findall(".//failure")), len(junit.findall(".//testcase"))) == (0, 0, 1)


def test_a_toolkit_that_was_taken_off_is_told_once(tmp_path):
    pods = pods_on("gpu-1", ("container-toolkit",))
    path = save(tmp_path, gpus(container_toolkit="false"), pods, operator_sets(), cluster_policy())
    report, document, text, _junit = told(path, fail_on="warning")
    assert rules(document) == [("toolkit-missing", "gpu-1")] and text.count("gpu.deploy.container-toolkit=true") == 1
    assert report["verdict"].startswith("findings (exit code 1): 1 node judged, 0 errors, 1 warning, 0 info")
    # Where that does not count, or nothing runs without it, the other one is told.
    assert rules(told(path, ignore=["toolkit-missing"])[1]) == [("operand-off", "gpu-1")]


def test_a_toolkit_whose_label_is_gone_is_told_once(tmp_path):
    pods = pods_on("gpu-1", ("container-toolkit",))
    path = save(tmp_path, gpus(container_toolkit=None), pods, operator_sets(), cluster_policy())
    assert rules(told(path)[1]) == [("toolkit-missing", "gpu-1")]
    # So it is where what needs the operand is another one than the device plugin.
    path = save(
        tmp_path, gpus(device_plugin=None), pods_on("gpu-1", ("device-plugin",)), operator_sets(), cluster_policy()
    )
    assert rules(told(path)[1]) == [("operand-out-of-order", "gpu-1")]
    # Another label that is gone is told all the same.
    pods = pods_on("gpu-1", ("container-toolkit", "dcgm-exporter"))
    path = save(tmp_path, gpus(container_toolkit=None, dcgm_exporter=None), pods, operator_sets(), cluster_policy())
    assert ("deploy-label-missing", "gpu-1") in rules(told(path)[1])


def test_an_operator_that_has_not_followed_is_told_once(tmp_path):
    """As in the profile: where what is offered says it too, that tells."""
    behind = gpus(labels={"nvidia.com/gpu.workload.config": "vm-passthrough"})
    policy = cluster_policy(sandboxWorkloads={"enabled": True})
    path = save(tmp_path, behind, pods_on("gpu-1"), operator_sets(), policy)
    assert rules(told(path)[1]) == [("wrong-resource", "gpu-1")]
    assert ("operator-behind", "gpu-1") in rules(told(path, ignore=["wrong-resource"])[1])


def test_what_keeps_the_plugin_away_explains_that_nothing_is_offered(tmp_path):
    bare = {**gpus(taints=[NOT_CHECKED]), "status": {}}
    path = save(tmp_path, bare, operator_sets(), cluster_policy(), builders.pod())
    report, document, _text, _junit = told(path)
    assert rules(document) == [("operand-tainted-out", "gpu-1")]
    (found,) = document["findings"]
    # It weighs as much as what follows from it.
    assert found["severity"] == "error" and found["message"].endswith("; the node offers no GPU")
    assert report["exit_code"] == 1
    assert ("no-resource", "gpu-1") in rules(told(path, ignore=["operand-tainted-out"])[1])


def test_what_keeps_another_operand_away_does_not(tmp_path):
    bare = {**gpus(), "status": {}}
    pods = [pod(one, "gpu-1", status=CRASHES if one == "gpu-feature-discovery" else None) for one in OPERATOR_SETS]
    document = told(save(tmp_path, bare, pods, operator_sets(), cluster_policy()))[1]
    assert rules(document) == [("no-resource", "gpu-1"), ("operand-not-running", "gpu-1")]
    assert all("the node offers no GPU" not in one["message"] for one in document["findings"])


def test_without_an_operator_only_what_there_is_is_due(tmp_path):
    path = save(
        tmp_path,
        {**gpus(), "metadata": {"name": "gpu-1", "labels": {**FOUND, **labels_of(CHAIN)}}},
        lab_sets(),
        lab_pods("gpu-1"),
    )
    assert "deploy-label-missing" not in [rule for rule, _name in rules(told(path)[1])]


def test_a_cluster_without_resource_slices_is_no_dump_without_them(tmp_path):
    bare = {**gpus(), "status": {}}
    path = save(tmp_path, bare, pods_on("gpu-1"), operator_sets(), cluster_policy())
    assert "no ResourceSlice in the dump" in told(path)[2]
    assert "ResourceSlice" not in told(path, cluster=live())[2]
    assert "no ResourceSlice" in told(path, cluster=live(ResourceSlice="not allowed"))[2]


@pytest.mark.parametrize(
    ("labels", "codes"),
    [
        ({}, {"error": 0, "warning": 0, "info": 0, "never": 0}),
        ({"dcgm_exporter": "false"}, {"error": 0, "warning": 0, "info": 1, "never": 0}),
        ({"dcgm_exporter": "True"}, {"error": 0, "warning": 1, "info": 1, "never": 0}),
        ({"device_plugin": ""}, {"error": 1, "warning": 1, "info": 1, "never": 0}),
    ],
)
def test_exit_codes(tmp_path, labels, codes):
    off = [key.replace("_", "-") for key in labels]
    path = save(tmp_path, gpus(**labels), pods_on("gpu-1", off), operator_sets(), cluster_policy())
    for fail_on, code in codes.items():
        report, document, text, junit = told(path, fail_on=fail_on)
        assert (report["exit_code"], document["exit_code"]) == (code, code)
        assert f"(exit code {code})" in text.splitlines()[0]
        grave = sum(one["severity"] != "info" for one in document["findings"])
        assert ("(1 node with errors or warnings)" in text.splitlines()[0]) == bool(grave)
        if fail_on != "never":
            assert bool(junit.findall(".//failure")) == bool(code)


def test_no_node_and_unreadable(tmp_path):
    path = save(tmp_path, builders.pod())
    for options, code in (({}, 2), ({"fail_on": "never"}, 2)):
        report, document, text, junit = told(path, **options)
        assert (report["exit_code"], len(document["errors"])) == (code, 1)
        assert document["errors"][0] in text.splitlines()[0] and junit.find(".//error") is not None
    gone = [str(tmp_path / name) for name in ("a.json", "b.json", "c.json")]
    report, document, text, junit = told(gone)
    assert report["verdict"].endswith("a.json: cannot be read: No such file or directory, and 2 more")
    assert len(document["errors"]) == 3 and text.count("Cannot be read: ") == 3 == len(junit.findall(".//error"))
    path = save(tmp_path)
    assert [told(path, require_nodes=wanted)[0]["exit_code"] for wanted in (False, True)] == [0, 3]
    # What an API server would never have taken does not end the rest.
    broken = {**builders.pod("p", GPUS), "metadata": {"name": "p", "namespace": ["x"]}}
    report, document, _text, _junit = told(
        save(tmp_path, gpus(), broken, pods_on("gpu-1"), operator_sets(), cluster_policy())
    )
    assert report["exit_code"] == 2 and document["checked"] == 1 and document["operands"]
    assert document["errors"] == [
        f"{tmp_path}/dump.json: Pod p has not the form that the Kubernetes API gives it: save it anew, as kubectl prints it"
    ]


@pytest.mark.parametrize(
    ("spec", "told_of"),
    [
        ({"affinity": {"nodeAffinity": 7}}, "a Node or Pod has not the form"),
        ({"containers": [{"resources": 7}]}, "dump.json: Pod p has not the form"),
    ],
)
def test_odd_forms_are_not_told_in_words_of_python(tmp_path, spec, told_of):
    odd = builders.pod("p", GPUS)
    odd["spec"].update(spec)
    bad = [gpus(taints=[NOT_CHECKED]), odd, pods_on("gpu-1"), operator_sets(), cluster_policy()]
    report, document, _text, _junit = told(save(tmp_path, *bad))
    (error,) = document["errors"]
    assert report["exit_code"] == 2 and told_of in error and "object" not in error and document["operands"]
    # What is odd in the scheduler's word does not end the report.
    worded = builders.pod("p", GPUS, message=["x"])
    assert told(save(tmp_path, gpus(), worded))[1]["inventory"]["nvidia.com/gpu"]["pending"][0]["message"] == "['x']"
    _report, document, _text, _junit = told(save(tmp_path, gpus(), {**cluster_policy(), "metadata": 7}))
    assert document["checked"] == 1 and all("has no attribute" not in error for error in document["errors"])


def test_silenced_findings_of_operands_are_told_and_do_not_count(tmp_path):
    objects = [gpus("gpu-1", taints=[NOT_CHECKED]), gpus("gpu-2", taints=[NOT_CHECKED])]
    path = save(tmp_path, objects, operator_sets(("dcgm-exporter",)), cluster_policy(), builders.pod())
    every = {
        ("daemonset-missing", "nvidia-dcgm-exporter"),
        ("operand-tainted-out", "gpu-1"),
        ("operand-tainted-out", "gpu-2"),
    }
    assert set(rules(told(path)[1])) == every
    for ignore, silent in (
        (["operand-tainted-out@gpu-2"], {("operand-tainted-out", "gpu-2")}),
        (["operand-tainted-out", "daemonset-missing@nvidia-dcgm-exporter"], every),
    ):
        report, document, text, _junit = told(path, ignore=ignore, fail_on="info")
        assert set(rules(document)) == every - silent
        assert {(one["rule"], one["subject"]["name"]) for one in document["silenced"]} == silent
        assert f"Silenced: {len(silent)} finding" in text and report["exit_code"] == int(silent != every)


def test_a_cluster_is_named_and_what_it_has_not_got_is_judged(tmp_path):
    """In a dump nobody knows whether DaemonSets were saved; in a cluster there are none."""
    path = save(tmp_path, gpus(), cluster_policy(), builders.pod())
    _report, document, text, _junit = told(path)
    assert document["operands"] is None
    assert "Not judged: operands, because there is no DaemonSet in the dump" in text
    assert "Ask for: " in told(save(tmp_path, gpus()))[2]
    path = save(tmp_path, gpus(dcgm_exporter="True"), cluster_policy(), builders.pod())
    report, document, text, junit = told(path, cluster=live())
    found = [rule for rule, _name in rules(document)]
    assert (found.count("daemonset-missing"), found.count("operand-label-invalid"), len(found)) == (5, 1, 6)
    # The node that DaemonSets are missing for counts once.
    assert report["verdict"].endswith("5 errors, 1 warning, 0 info (1 node with errors or warnings)")
    assert path not in text + json.dumps(document) + ElementTree.tostring(junit, "unicode")
    assert (document["origin"], document["not_judged"]) == (
        {"cluster": "https://cluster:6443", "kubernetes": "v1.37.2"},
        [],
    )
    assert "Ask for" not in text and "https://cluster:6443, Kubernetes v1.37.2" in text
    # An empty cluster, without any Pod, has an inventory too.
    assert told(save(tmp_path, gpus(), cluster_policy()), cluster=live())[1]["inventory"]["nvidia.com/gpu"]["free"] == 4


def test_what_may_not_be_read(tmp_path):
    why = "the user u may not list it"
    path = save(tmp_path, gpus(), pods_on("gpu-1"), operator_sets())
    for kind in ("ClusterPolicy", "NVIDIADriver", "ResourceSlice"):
        report, document, text, _junit = told(path, cluster=live(**{kind: why}))
        # Without the operands the audit is none, so it does not end well.
        assert report["exit_code"] == (2 if kind == "ClusterPolicy" else 0)
        assert document["checked"] == 1 and document["inventory"]
        parts = [part for one in document["not_judged"] if one["kind"] == kind for part in one["rules"]]
        assert len(parts) == len(set(parts)) and (kind == "ResourceSlice") == (parts == ["dra-node", "dra-and-plugin"])
        assert next(one["why"] for one in document["not_judged"] if one["kind"] == kind) == why
        assert why in text
        assert (document["operands"] is None) == (kind == "ClusterPolicy")
    document = told(path, policy={"dcgm": {"enabled": False}}, cluster=live(ClusterPolicy=why))[1]
    assert [one["missing"] for one in document["operands"]] == [[]]
    report, document, text, junit = told(path, cluster={"msg": why, "changed": False})
    assert (report["exit_code"], document["errors"], document["checked"]) == (2, [why], 0)
    assert (
        text.splitlines() == [f"Something could not be read (exit code 2): {why}"]
        and junit.find(".//error") is not None
    )


def test_two_versions_are_compared(tmp_path):
    system = {f"feature.node.kubernetes.io/system-os_release.{key}": "x" for key in ("ID", "VERSION_ID")}
    objects = [gpus(f"gpu-{number}", labels=system) for number in range(3)]
    path = save(tmp_path, objects, pods_on("gpu-0"), operator_sets(), cluster_policy())
    _report, document, text, _junit = told(path, versions=("26.3", "26.7"))
    assert [one["node"] for one in document["comparison"]["nodes"]] == ["gpu-0", "gpu-1", "gpu-2"]
    section = text.partition("WHAT CHANGES FROM OPERATOR 26.3 TO 26.7\n")[2].partition("\n\n")[0].splitlines()
    assert section[0].startswith("gpu-[0:2]: labels: ") and "nvidia.com/gpu.deploy.client=true" in section[0]
    assert any("stays away" in line for line in section[1:])
    _report, document, text, _junit = told(save(tmp_path, objects), versions=("26.3", "26.7"))
    assert document["comparison"] is None and "Not judged: comparison of versions, because " in text


def test_alike_requests_are_explained_as_each_for_itself(tmp_path):
    """However Pods are grouped meanwhile, the inventory is that of the filter inventory."""
    nodes = [
        builders.node(f"n-{at}", None, {"nvidia.com/gpu": "2"}, spec={"taints": [NOT_CHECKED] if at % 2 else []})
        for at in range(4)
    ]
    nodes += [builders.node("vm", None, {"nvidia.com/GA102GL_A10": "2"}), builders.node("cpu", None, {"cpu": "4"})]
    limits = [
        {"nvidia.com/gpu": "1"},
        {"nvidia.com/gpu": "3"},
        {"nvidia.com/gpu": "1", "nvidia.com/GA102GL_A10": "1"},
        {"cpu": "1"},
    ]
    selectors = [{}, {"zone": "a"}, {"zone": "b"}]
    pods = [
        builders.pod(f"p-{at:02d}", asked, message=f"why {at % 2}", nodeSelector=selector)
        for at, (asked, selector, _again) in enumerate(itertools.product(limits, selectors, range(3)))
    ]
    # Of those that are placed none stands for another.
    pods += [builders.pod("runs", limits[0], "n-0"), builders.pod("runs-too", limits[0], "n-0")]
    pods += [builders.pod(phase, limits[0], "n-1", phase=phase) for phase in ("Succeeded", "Failed")]
    pods[4]["metadata"]["namespace"] = "other"
    path = save(tmp_path, nodes, pods)
    found = read_audit([path], settings_from("operator")).inventory
    expected = inventory.inventory(nodes, pods)
    assert {name: {**entry, "pending": None} for name, entry in found.items()} == {
        name: {**entry, "pending": None} for name, entry in expected.items()
    }
    for name, entry in expected.items():
        assert entry["pending"] == found[name]["pending"]
    queue = told(path)[1]["inventory"]["nvidia.com/gpu"]["pending"]
    alone = {f"{one['namespace']}/{one['name']}": one for one in expected["nvidia.com/gpu"]["pending"]}
    for one in queue:
        for each in (alone[name] for name in one["pods"]):
            assert (each["message"], each["quantity"]) == (one["message"], one["quantity"])
            kept = {
                (idle["resource"], *idle["reasons"], idle["detail"], name)
                for idle in one["idle"]
                for name in idle["nodes"]
            }
            assert kept == {
                (why["resource"], *why["reasons"], why["detail"], why["node"]) for why in each["cannot_use"]
            }
    assert sorted(name for one in queue for name in one["pods"]) == sorted(
        f"{one['namespace']}/{one['name']}" for one in expected["nvidia.com/gpu"]["pending"]
    )
    assert len(queue) < len(expected["nvidia.com/gpu"]["pending"]) / 1.4
    assert all(
        one["units"] == 2 * len(one["nodes"]) - 2 * ("n-0" in one["nodes"]) for entry in queue for one in entry["idle"]
    )


def test_a_node_in_two_files_of_a_folder_counts_once(tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    for name in ("a.json", "b.json"):
        (folder / name).write_text(
            json.dumps(builders.listed([gpus(), *pods_on("gpu-1"), *operator_sets(), cluster_policy()]))
        )
    _report, document, _text, _junit = told(str(folder))
    assert (document["checked"], len(document["operands"])) == (1, 1)
    assert document["inventory"]["nvidia.com/gpu"]["allocatable"] == 4
