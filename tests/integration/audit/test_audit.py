# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The audit of a cluster with eight planted faults, one per cause: it names exactly those, and changes nothing."""

from __future__ import annotations

import json
import stat

import pytest
from audit_cluster import NAMESPACE, SECRET, state_of

MIG_MANAGER = "nvidia-mig-manager"
# (rule, what it is about): the node, or the DaemonSet that the node bad-mig lacks.
FINDINGS = {
    ("deploy-label-missing", "bad-absent"),
    ("operand-label-invalid", "bad-not-true"),
    ("operand-blocked", "bad-empty"),
    ("operand-paused", "bad-paused"),
    ("operand-tainted-out", "bad-tainted"),
    ("daemonset-missing", MIG_MANAGER),
    ("operand-not-running", "bad-crashing"),
    ("toolkit-missing", "bad-stranger"),
}
ALL = {"driver", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm-exporter", "operator-validator"}
# What is missing on which node, and why; on all other nodes nothing is.
CAUSES = {
    ("bad-absent", "label-absent", "dcgm-exporter"),
    ("bad-not-true", "label-not-true", "gpu-feature-discovery"),
    ("bad-empty", "label-empty", "dcgm-exporter"),
    ("bad-paused", "paused", "gpu-feature-discovery"),
    *(("bad-tainted", "taint-not-tolerated", operand) for operand in ALL),
    ("bad-mig", "daemonset-absent", "mig-manager"),
    ("bad-crashing", "pod-not-running", "gpu-feature-discovery"),
}
TAINT = "dedicated=x:NoExecute"


@pytest.fixture(scope="module")
def before(operated, tmp_path_factory):
    """What an audit finds before anything is planted, on this cluster and by version 26.7."""
    from audit_plays import Audits

    first = Audits(operated.cluster, tmp_path_factory.mktemp("before"))
    played = first.run(audit_compare_versions="26.3,26.7", audit_require_nodes=True)
    return played, first


@pytest.fixture(scope="module")
def planted(operated, before):
    """The name of the Pod that crashes, once all eight faults are planted; a Pod waits beside idle GPUs."""
    operated.label("bad-absent", **{"dcgm-exporter": None})
    operated.label("bad-not-true", **{"gpu-feature-discovery": "True"})
    operated.label("bad-empty", **{"dcgm-exporter": ""})
    operated.label("bad-paused", **{"gpu-feature-discovery": "paused-for-mig-change"})
    operated.cluster.kubectl("taint", "node", "bad-tainted", TAINT)
    operated.cluster.kubectl("delete", "daemonset", "-n", NAMESPACE, MIG_MANAGER)
    operated.label("bad-stranger", **{"device-plugin": "true"})
    operated.await_operands()
    operated.queue("waiting", {"nvidia.com/GA102GL_A10": 3})
    return operated.break_pod("bad-crashing", "gpu-feature-discovery")


def missing(report):
    return {(node["node"], one["cause"], one["operand"]) for node in report["operands"] for one in node["missing"]}


def test_before_the_faults_nothing_is_found(before):
    played, audits = before
    report = audits.report()
    assert played.rc == 0, played.output
    assert (report["exit_code"], report["findings"], missing(report)) == (0, [], set())
    assert (report["checked"], len(report["operands"]), report["operator"]["operator_version"]) == (
        9,
        9,
        "v26.3.3",
    )
    assert audits.text().startswith("All is well (exit code 0): 9 nodes judged, 0 errors, 0 warnings, 0 info\n")
    # From 26.3 to 26.7 every node with a GPU gets one label more.
    changed = report["comparison"]["nodes"]
    assert {one["node"] for one in changed} == {node["node"] for node in report["operands"]}
    assert all("nvidia.com/gpu.deploy.client" in one["labels"]["added"] for one in changed)
    assert "FROM OPERATOR 26.3 TO 26.7" in audits.text() and "gpu.deploy.client=true" in audits.text()


def test_exactly_the_faults_are_found_and_a_second_run_changes_nothing(operated, audits, planted):
    state = state_of(operated.cluster)
    played = audits.run("--diff")
    assert played.rc == 2 and played.changed == ["Record the report"], played.output
    report, text = audits.report(), audits.text()
    assert audits.found() == FINDINGS and len(report["findings"]) == len(FINDINGS)
    assert missing(report) == CAUSES
    assert [(node["node"], one["needs"]) for node in report["operands"] for one in node["out_of_order"]] == [
        ("bad-stranger", "container-toolkit")
    ]
    assert (report["schema"], report["exit_code"], report["errors"], report["not_judged"]) == (1, 1, [], [])
    told = {one["rule"]: one for one in report["findings"]}
    assert told["daemonset-missing"]["evidence"]["nodes"] == ["bad-mig"]
    assert (
        planted in told["operand-not-running"]["message"]
        and "CrashLoopBackOff" in told["operand-not-running"]["message"]
    )
    # All is ready by the cluster's own word.
    assert {"ClusterPolicy cluster-policy"} < {one["object"] for one in report["misleading"]}
    # What is idle beside the queue, and why.
    (waiting,) = report["inventory"]["nvidia.com/GA102GL_A10"]["pending"]
    assert waiting["pods"] == ["default/waiting"] and "Insufficient" in waiting["message"]
    reasons = {(one["resource"], *one["reasons"]): (one["units"], one["nodes"]) for one in waiting["idle"]}
    assert reasons["nvidia.com/GA102GL_A10", "quantity"] == (2, ["fine-1"])
    assert reasons["nvidia.com/gpu", "name", "taint"] == (4, ["bad-tainted"])
    # The verdict goes first, and the whole report is printed once, line by line.
    assert text.startswith(
        "Findings (exit code 1): 10 nodes judged, 3 errors, 5 warnings, 0 info (8 nodes with errors or warnings)\n"
    )
    for line in filter(None, text.splitlines()):
        assert f"    {line}\n" in played.output
    assert played.output.count("OPERANDS\n") == played.output.split("Show the report")[1].count("OPERANDS\n") + 1
    parts = [
        text.index(word)
        for word in ("FINDINGS\n", "OPERANDS\n", "MISLEADS\n", "INVENTORY\n", "IDLE BESIDE THE QUEUE\n")
    ]
    assert parts == sorted(parts)
    # Nothing of a Pod's environment, and no trace of the folder in which the lists were.
    everything = text + json.dumps(report) + played.output
    assert SECRET not in everything and "a tmp" not in everything
    cases = {case.get("name"): case for case in audits.junit().iter("testcase")}
    failed = {(one.get("type"), name) for name, case in cases.items() for one in case.findall("failure")}
    assert failed == {
        ("daemonset-missing", f"DaemonSet {MIG_MANAGER}"),
        ("operand-not-running", "bad-crashing"),
        ("toolkit-missing", "bad-stranger"),
    }
    assert {"fine-0", "fine-1"} <= cases.keys()
    times = audits.times()
    again = audits.run()
    assert (again.rc, again.changes, audits.times()) == (2, 0, times), again.output
    assert state_of(operated.cluster) == state


def test_check_mode_judges_and_writes_nothing(audits, planted):
    played = audits.run("--check", "--diff", audit_keep_dump=str(audits.folder / "kept"))
    assert played.rc == 2 and "Findings (exit code 1): 10 nodes judged" in played.output
    assert "+Findings (exit code 1)" in played.output, "the diff shows what would be written"
    assert not audits.root.exists() and not (audits.folder / "kept").exists()


def test_a_folder_of_dumps_gives_the_same_and_only_errors_count_if_told_so(operated, audits, planted):
    """A dump that stays, judged with no cluster about; formats, severities and silenced findings."""
    kept = audits.folder / "kept dumps"
    played = audits.run(audit_keep_dump=str(kept), audit_formats="json")
    live = audits.report()
    assert set(played.changed) == {"Save its lists", "Record the report"} and audits.times().keys() == {"audit.json"}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()}
    assert modes.pop("nodes.json") == 0o644 and len(modes) == 6 and set(modes.values()) == {0o600}
    assert SECRET in (kept / "pods.json").read_text(), "else this test looks in vain for it elsewhere"
    elsewhere = {"KUBECONFIG": "/nowhere/at/all", "K8S_AUTH_KUBECONFIG": "/nowhere/at/all"}
    ignored = [f"{rule}@{name}" for rule, name in FINDINGS if rule in ("toolkit-missing", "operand-not-running")]
    played = audits.run(
        environment=elsewhere,
        audit_dump=str(kept),
        audit_ignore=[*ignored, "daemonset-missing"],
        audit_formats=["text", "json"],
    )
    assert played.rc == 0, played.output
    report = audits.report()
    silenced = {(one["rule"], one["subject"]["name"]) for one in report["silenced"]}
    assert audits.found() | silenced == FINDINGS and len(silenced) == 3 and not audits.found() & silenced
    for part in ("operands", "inventory", "counts"):
        assert report[part] == live[part]
    assert (report["exit_code"], report["origin"]) == (0, {"dumps": [str(kept)]})
    assert "Silenced: 3 findings" in audits.text() and audits.times().keys() == {"audit.json", "audit.txt"}
    played = audits.run(environment=elsewhere, audit_dump=[str(kept)], audit_fail_on="never")
    assert played.rc == 0 and audits.report()["exit_code"] == 0 and audits.found() == FINDINGS
