# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Saved dumps, judged with no cluster and no kubeconfig about."""

from __future__ import annotations

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from lab_plays import ROOT, run_playbook

SCRIPT = ROOT / "roles" / "check" / "files" / "check-config.sh"
EXAMPLES = ROOT / "docs" / "docsite" / "examples"


def node(name, workload, resource):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.workload.config": workload}},
        "status": {"allocatable": {resource: "1"}, "capacity": {resource: "1"}},
    }


GOOD = [node("good", "container", "nvidia.com/gpu")]
BAD = [node("bad-1", "container", "nvidia.com/GA102GL_A10"), *GOOD, node("bad-2", "vm-vgpu", "nvidia.com/gpu")]


@pytest.fixture
def dumps(tmp_path):
    """A folder with two good dumps, a bad one, and four that can't be read."""
    folder = tmp_path / "saved dumps"
    (folder / "deep").mkdir(parents=True)
    contents = {"good.json": GOOD, "deep/good.json": GOOD, "deep/Knoten-ä.json": BAD}
    for name, items in contents.items():
        (folder / name).write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, ensure_ascii=False), "utf-8"
        )
    (folder / "empty.json").write_text("")
    (folder / "cut.json").write_text('{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "x"')
    (folder / "picture.png").write_bytes(bytes(range(256)))
    (folder / "pods.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [{"kind": "Pod", "metadata": {"name": "p"}}]})
    )
    return folder


class Checker:
    """Runs the play on dumps in a home of its own, where nothing points to a cluster."""

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "home" / "gpuwl"
        self.root.parent.mkdir()

    def judge(self, dump, *arguments):
        elsewhere = {
            "HOME": str(self.root.parent),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "KUBECONFIG": "/nowhere/at/all",
            "K8S_AUTH_KUBECONFIG": "/nowhere/at/all",
        }
        played = run_playbook("lab.yml", *arguments, variables={"check_dump": dump}, folder=self.folder, **elsewhere)
        assert "Traceback" not in played.output
        assert not (self.root / "control-plane").exists() and not (self.folder / "cache").exists()
        return played

    def reports(self):
        return {path.name: path.read_text("utf-8") for path in (self.root / "out/checks").iterdir()}


@pytest.fixture
def checker(tmp_path):
    return Checker(tmp_path)


def printed_by_the_script(path):
    done = subprocess.run(["sh", str(SCRIPT), str(path)], capture_output=True, text=True, check=False)
    return done.stdout or done.stderr.removeprefix("check-config.sh: ")


def name_of(path):
    return str(path).replace("/", "_") + ".txt"


def test_a_folder_names_every_bad_node_of_every_file_and_every_unreadable_one(checker, dumps):
    played = checker.judge(str(dumps), "--tags", "check")
    assert played.rc != 0
    for words in (
        "Knoten-ä.json: label and resources disagree on bad-1, bad-2",
        "empty.json",
        "cut.json",
        "picture.png",
        "pods.json",
    ):
        assert words in played.output
    assert "/good.json:" not in played.output.partition("Report nodes that are not what")[2]
    paths = [path for path in dumps.rglob("*") if path.is_file()]
    assert checker.reports() == {name_of(path): printed_by_the_script(path) for path in paths}
    assert len(paths) == 7
    assert checker.reports()[name_of(dumps / "good.json")] == "OK=1\n"
    # Nothing but the reports and the checker itself.
    assert sorted(
        str(path.relative_to(checker.root))
        for path in checker.root.rglob("*")
        if path.is_file() and path.parent.name != "checks"
    ) == ["bin/check-config.sh"]
    before = {path: path.stat().st_mtime_ns for path in checker.root.rglob("*")}
    again = checker.judge(str(dumps), "--tags", "check")
    assert (again.rc != 0, again.changes) == (True, 0)
    assert {path: path.stat().st_mtime_ns for path in checker.root.rglob("*")} == before


def test_all_good_ends_well_also_without_the_tag(checker, dumps):
    played = checker.judge([str(dumps / "good.json"), str(dumps / "deep/good.json")])
    assert played.rc == 0, played.output
    assert "All is well in 2 dumps" in played.output
    assert checker.reports() == {name_of(dumps / name): "OK=1\n" for name in ("good.json", "deep/good.json")}


def test_paths_that_share_a_name_have_a_report_each(checker, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.json").write_text(json.dumps({"kind": "List", "items": GOOD}))
    (tmp_path / "a_b.json").write_text(json.dumps({"kind": "List", "items": BAD}))
    played = checker.judge([str(tmp_path / "a/b.json"), str(tmp_path / "a_b.json")], "--tags", "check")
    assert played.rc != 0
    stem = name_of(tmp_path / "a_b.json").removesuffix(".txt")
    assert {name: text.partition("=")[0] for name, text in checker.reports().items()} == {
        f"{stem}.txt": "OK",
        f"{stem}-2.txt": "MISMATCH",
    }


def test_one_file_and_a_home_in_its_path(checker):
    (checker.root.parent / "nodes.json").write_text(json.dumps({"kind": "List", "items": GOOD}))
    played = checker.judge("~/nodes.json", "--tags", "check")
    assert played.rc == 0, played.output
    assert checker.reports() == {name_of(checker.root.parent / "nodes.json"): "OK=1\n"}


def test_a_path_that_is_not_there(checker):
    played = checker.judge("/no/such/dump.json", "--tags", "check")
    assert played.rc != 0
    assert "/no/such/dump.json" in played.output and "No such file" in played.output
    assert checker.reports() == {"_no_such_dump.json.txt": printed_by_the_script("/no/such/dump.json")}


@pytest.mark.parametrize("dump", ["folder", "", []])
def test_nothing_to_judge_says_what_to_give(checker, tmp_path, dump):
    if dump == "folder":
        (tmp_path / "folder/.hidden").mkdir(parents=True)
        (tmp_path / "folder/.hidden/nodes.json").write_text("{}")
        dump = str(tmp_path / "folder")
    played = checker.judge(dump, "--tags", "check")
    assert played.rc != 0
    assert "give a dump (kubectl get nodes -o json), a list or a folder of them" in " ".join(played.output.split())
    assert not (checker.root / "out").exists()


def test_check_mode_writes_nothing(checker, dumps):
    played = checker.judge(str(dumps / "good.json"), "--check", "--diff")
    assert played.rc == 0, played.output
    assert "+OK=1" in played.output
    assert not checker.root.exists()


def variables(**options):
    return ("--tags", "check", "-e", json.dumps({f"check_{name}": value for name, value in options.items()}))


def test_a_folder_is_one_dump_by_the_profile_operator_in_every_format(checker):
    dump = EXAMPLES / "must-gather"
    formats = ["text", "json", "junit", "github"]
    played = checker.judge(str(dump), *variables(profile="operator", formats=formats))
    assert played.rc != 0
    assert f"{dump}: sandbox-disabled on vmhost-[01:04]" in " ".join(played.output.split())
    stem = name_of(dump).removesuffix(".txt")
    reports = {name.removeprefix(stem): text for name, text in checker.reports().items()}
    assert sorted(reports) == [".github.txt", ".json", ".txt", ".xml"]
    for ending, form in ((".txt", "text"), (".json", "json")):
        # By this interpreter, which has PyYAML.
        command = [sys.executable, SCRIPT, "--profile", "operator", "--format", form, dump]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (reports[ending], done.returncode) == (done.stdout, 1)
    (suite,) = ElementTree.fromstring(reports[".xml"])
    assert (suite.get("tests"), suite.get("failures")) == ("4", "4")
    (annotation,) = reports[".github.txt"].splitlines()
    assert annotation.startswith(f"::error file={dump}/gpu_nodes.descr,title=sandbox-disabled::vmhost-[01:04]: ")


@pytest.mark.parametrize("fail_on, rc", [("error", 0), ("warning", 2)])
def test_the_mildest_severity_that_fails(checker, fail_on, rc):
    played = checker.judge(str(EXAMPLES / "described.txt"), *variables(profile="operator", fail_on=fail_on))
    assert played.rc == rc, played.output
    assert ("unhealthy-device on dgx-07" in played.output) == bool(rc)


@pytest.mark.parametrize("form", ["path", "object", "spec"])
def test_what_the_dump_does_not_tell(checker, form):
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    policy["spec"] = {"sandboxWorkloads": {"enabled": False}}
    (checker.root.parent / "policy.json").write_text(json.dumps(policy))
    given = {"path": "~/policy.json", "object": policy, "spec": policy["spec"]}[form]
    options = variables(profile="operator", cluster_policy=given, operator_version="25.10.1")
    played = checker.judge(str(EXAMPLES / "nodes.json"), *options)
    assert played.rc != 0
    (report,) = checker.reports().values()
    assert "sandbox-disabled  1 node: gpu-worker-3" in report
    assert "sandboxWorkloads off" in report and "operator 25.10.1" in report and "Assumed" not in report


def test_what_is_ignored_does_not_fail_and_is_told(checker):
    ignore = ["vgpu-config-mismatch@vdi-2", "vgpu-config-mismatch@vdi-3"]
    played = checker.judge(str(EXAMPLES / "cluster.dump"), *variables(profile="operator", ignore=ignore))
    assert played.rc == 0, played.output
    (report,) = checker.reports().values()
    assert "Silenced: 2 findings\n  vgpu-config-mismatch on vdi-[2:3] by --ignore" in report


@pytest.mark.parametrize(
    "options, words",
    [
        ({"profile": "operators"}, "value of check_profile must be one of: lab, operator"),
        ({"formats": ["text", "html"]}, "value of check_formats must be one or more of: text, json, junit, github"),
        ({"ignore": ["no-such-rule"]}, "there is no rule 'no-such-rule'"),
        ({"operator_version": "new"}, "operator version 'new'"),
        ({"cluster_policy": "/no/such/policy.yaml"}, "/no/such/policy.yaml: cannot be read: No such file"),
    ],
)
def test_options_that_cannot_be(checker, options, words):
    played = checker.judge(str(EXAMPLES / "nodes.json"), *variables(**options))
    assert played.rc != 0
    assert words in " ".join(played.output.split())
    assert not (checker.root / "out").exists()


@pytest.mark.parametrize("arguments, rc", [([], 2), (["--check"], 0)])
def test_the_tag_alone_makes_no_lab_to_judge(tmp_path, arguments, rc):
    root = tmp_path / "gpuwl"
    played = run_playbook("lab.yml", "--tags", "check", *arguments, variables={"lab_root": str(root)}, folder=tmp_path)
    assert played.rc == rc, played.output
    assert ("There is no lab below" if rc else "There is no running control plane below") in " ".join(
        played.output.split()
    )
    assert not root.exists()
