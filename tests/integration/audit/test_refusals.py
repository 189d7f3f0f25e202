# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an audit cannot do: one line that says what and why, and a report with exit code 2, but never half a record."""

from __future__ import annotations

import json
import re

from audit_cluster import DAEMONSETS, RESOURCES, SPEC, daemonset, labels_of, node

POLICY = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": SPEC}


def flat(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


def write(path, *items) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, ensure_ascii=False), "utf-8")
    return str(path)


def test_a_cluster_that_cannot_be_read_is_told_in_the_report_and_replaces_an_older_one(audits, tmp_path):
    fine = write(tmp_path / "fine.json", node("n-0", labels_of("container"), RESOURCES["container"]))
    assert audits.run(audit_dump=fine, audit_require_nodes=True).rc == 0
    assert audits.report()["exit_code"] == 0
    gone = audits.run(audit_kubeconfig=str(tmp_path / "no such kubeconfig"))
    assert gone.rc == 2 and "the kubeconfig" in flat(gone.output)
    report = audits.report()
    assert (report["exit_code"], report["checked"], report["findings"]) == (2, 0, [])
    (error,) = report["errors"]
    assert str(tmp_path / "no such kubeconfig") in error and "does not exist" in error and "\n" not in error
    assert audits.junit().find(".//error").get("message") == error
    assert audits.text().splitlines()[0].startswith("Something could not be read (exit code 2): the kubeconfig ")
    server = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    away = audits.run(audit_kubeconfig=str(tmp_path / "config"))
    assert away.rc == 2 and audits.report()["exit_code"] == 2
    assert (
        len(audits.text().splitlines()) == 1
        and f"nothing listens at the server that the kubeconfig {tmp_path}" in audits.text()
    )
    assert "t0ken" not in away.output + json.dumps(audits.report())


def test_bad_values_are_refused_before_anything_is_read_or_written(audits, tmp_path):
    dump = str(tmp_path / "dump.json")
    for variables, words in (
        ({"audit_root": "here"}, 'audit_root must be an absolute path, such as /home/me/gpuwl-audit; found: "here"'),
        ({"audit_dump": dump, "audit_keep_dump": "/x"}, "Leave one of the two out"),
        ({"audit_dump": dump, "audit_fail_on": "worst"}, "worst"),
        ({"audit_dump": dump, "audit_ignore": ["no-such-rule"]}, "there is no rule 'no-such-rule'"),
        ({"audit_dump": dump, "audit_operator_version": "new"}, "operator version 'new'"),
        (
            {"audit_dump": dump, "audit_compare_versions": "26.3"},
            "compare_versions is ['26.3'], expected a list of two",
        ),
    ):
        played = audits.run(**variables)
        assert played.rc == 2 and words in flat(played.output), (variables, played.output)
        assert not audits.root.exists()


def test_dumps_of_any_kind(audits, tmp_path):
    """Odd and hostile content does not end the audit, and what can be judged is judged."""
    odd = node(
        "ä\u202e$(touch x)\n'; rm -rf ~'", {**labels_of("container"), "nvidia.com/gpu.workload.config": "vm-gpu"}, {}
    )
    owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "u"}
    sets = [daemonset(name, operand, owner) for name, operand in DAEMONSETS.items()]
    folder = tmp_path / "dumps ü"
    folder.mkdir()
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "ownerReferences": 7},
            "spec": {"containers": [{}]},
        }
    ]
    write(folder / "all {{ 7 * 7 }}.json", odd, POLICY, *sets, *pods)
    (folder / "cut.json").write_text('{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "x"')
    played = audits.run(audit_dump=str(folder))
    report = audits.report()
    assert played.rc == 2 and report["exit_code"] == 2
    assert any("cut.json" in error for error in report["errors"])
    rules = {one["rule"] for one in report["findings"]}
    assert {"unknown-workload-label", "operand-not-running"} <= rules
    assert {node["node"] for node in report["operands"]} == {odd["metadata"]["name"]}
    assert "\u202e" not in audits.text() and "{{ 7 * 7 }}" in audits.text()
    # A ClusterPolicy that cannot be, and one that can and is given.
    write(folder / "cut.json", {**POLICY, "spec": {"sandboxWorkloads": {"mode": "other"}}, "metadata": {"name": "b"}})
    assert audits.run(audit_dump=str(folder), audit_formats=["json"]).rc == 2
    assert any("mode" in error for error in audits.report()["errors"])
    (folder / "cut.json").unlink()
    audits.run(
        audit_dump=str(folder),
        audit_cluster_policy={"sandboxWorkloads": {"enabled": False}},
        audit_operator_version="25.10",
    )
    assert audits.report()["operator"]["operator_version"] == "25.10"


def test_what_is_not_in_a_dump_is_not_judged(audits, tmp_path):
    nodes = write(tmp_path / "nodes.json", node("n-0", labels_of("container"), RESOURCES["container"]))
    empty = write(tmp_path / "empty.json")
    assert audits.run(audit_dump=nodes).rc == 0
    report = audits.report()
    assert report["operands"] is None and report["inventory"] is None
    told = {rule: one["why"] for one in report["not_judged"] for rule in one["rules"]}
    assert told["operands"] and told["inventory"] == "there is no Pod in the dump"
    assert "Not judged: inventory, because there is no Pod in the dump" in audits.text()
    assert audits.run(audit_dump=empty).rc == 0
    assert audits.run(audit_dump=empty, audit_require_nodes=True).rc == 2
    assert audits.report()["exit_code"] == 3


def test_a_root_that_cannot_be_written(audits, tmp_path):
    """A file where the folder should be: mode bits would not keep root from writing."""
    dump = write(tmp_path / "nodes.json", node("n-0", labels_of("container"), RESOURCES["container"]))
    audits.root.write_text("mine")
    played = audits.run(audit_dump=dump)
    assert played.rc == 2 and "a file is where a folder should be" in flat(played.output)
    assert audits.root.read_text() == "mine"
