# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cluster_dump against kubectl's own output."""

from __future__ import annotations

import json
import os
from pathlib import Path


def task(**options):
    return {"gpuwl.sandbox.cluster_dump": options}


def dump_play(modules, dumps, *flags, before=(), **options):
    tasks = [
        *before,
        {**task(dumps=dumps, **options), "register": "saved"},
        {"ansible.builtin.debug": {"msg": "RESULT {{ saved | to_json }} END"}},
    ]
    code, text = modules.playbook(tasks, *flags)
    return code, text


def test_dumps(modules, cluster, namespace, tmp_path):
    cluster.create_nodes("dump-0", "dump-1")
    cluster.kubectl("annotate", "node", "dump-0", "note=<b>a & b</b> ü \u2028 end")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"nodeSelector": {"no": "node"}, "containers": [{"name": "c", "image": "x"}]},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    modules.run("placement_info", namespace=namespace, pods=["p"], wait_timeout=30)
    folder = tmp_path / "made"
    dumps = [
        {"kind": "nodes", "path": str(folder / "nodes.json")},
        {"kind": "Pod", "namespace": namespace, "path": str(folder / "pods.json")},
        {"kind": "pods", "namespace": "kube-public", "path": str(folder / "none.json")},
    ]
    check = [
        {**task(dumps=dumps), "check_mode": True, "register": "planned"},
        {"ansible.builtin.assert": {"that": ["planned is changed", f"'{folder}' is not exists"]}},
    ]
    code, text = dump_play(modules, dumps, "--diff", before=check)
    assert code == 0 and "changed=2" in text and "v1.37.2" in text, text
    assert "podCIDR" not in text and "containers" not in text, "objects must not travel through results"
    # A node's heartbeat may come between the two; nothing else differs.
    same = [
        (folder / "pods.json").read_text() == cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"),
        (folder / "none.json").read_text() == cluster.kubectl("get", "pods", "-n", "kube-public", "-o", "json"),
    ]
    assert same == [True, True]
    ours, theirs = (folder / "nodes.json").read_text(), cluster.kubectl("get", "nodes", "-o", "json")
    steady = [
        [line for line in text.splitlines() if "resourceVersion" not in line and "Time" not in line]
        for text in (ours, theirs)
    ]
    assert steady[0] == steady[1] and "\\u003cb\\u003ea \\u0026 b" in ours and "ü" in ours
    assert os.stat(folder / "nodes.json").st_mode & 0o777 == 0o644 and sorted(os.listdir(folder)) == [
        "nodes.json",
        "none.json",
        "pods.json",
    ]
    # Pods may carry secrets in their environment.
    assert os.stat(folder / "pods.json").st_mode & 0o777 == 0o600
    before = os.stat(folder / "nodes.json").st_mtime_ns
    code, text = dump_play(modules, dumps)
    assert code == 0 and "changed=0" in text and os.stat(folder / "nodes.json").st_mtime_ns == before, text
    cluster.kubectl("label", "node", "dump-1", "new=1")
    code, text = dump_play(modules, dumps, "--diff")
    assert "changed=1" in text and "~ dump-1" in text and "~ dump-0" not in text, text
    assert '"new": "1"' in (folder / "nodes.json").read_text()


def test_what_is_wrong_is_told_before_anything_is_written(modules, tmp_path):
    dumps = [
        {"kind": "Secret", "path": str(tmp_path / "a")},
        {"kind": "Node", "namespace": "x", "path": str(tmp_path)},
        {"kind": "Pod", "path": str(tmp_path / "b")},
    ]
    absent = task(dumps=dumps[2:], kubeconfig=str(tmp_path / "absent"))
    code, text = modules.playbook([{**task(dumps=dumps), "ignore_errors": True}, absent])
    flat = " ".join(text.split())
    assert code != 0 and "ignored=1" in text and "failed=1" in text and "Traceback" not in text
    for part in (
        "dumps[0].kind 'Secret': expected one of Node, Pod, DaemonSet",
        "dumps[1].namespace 'x'",
        "is a folder",
    ):
        assert part in flat, text
    assert not (tmp_path / "b").exists()
    assert "does not exist" in flat, text


def test_kinds_of_other_groups(modules, cluster, namespace, tmp_path):
    """A kind whose CRD is not there gives an empty List; one that may not be listed fails, or is left out if it need not be there."""
    spec = {"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "<b>"}]}]}
    labels = {"app": "dump"}
    item = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "dump", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**spec, "nodeSelector": {"no": "node"}}},
        },
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(item))
    sets, drivers = tmp_path / "sets.json", tmp_path / "drivers.json"
    dumps = [
        {"kind": "daemonsets", "namespace": namespace, "path": str(sets)},
        {"kind": "NVIDIADriver", "path": str(drivers)},
    ]
    first = {**task(dumps=dumps), "register": "first"}
    told = ["first is changed", "first.dumps[0].served and first.dumps[0].count == 1", "not first.dumps[1].served"]
    nobody = task(dumps=[{**dumps[0], "required": False}, dumps[1]], impersonate_user="nobody")
    steps = [
        first,
        {"ansible.builtin.assert": {"that": [*told, "first.host is match('https://127.0.0.1:')"]}},
        {**task(dumps=dumps, impersonate_user="nobody"), "register": "refused", "ignore_errors": True},
        {"ansible.builtin.assert": {"that": ["'nobody may not list daemonsets.apps' in refused.msg"]}},
        {**task(dumps=dumps), "register": "again"},
        {"ansible.builtin.assert": {"that": ["again is not changed"]}},
    ]
    code, text = modules.playbook(steps)
    assert code == 0, text
    # The controller may have looked at it in between.
    texts = [sets.read_text(), cluster.kubectl("get", "daemonsets", "-n", namespace, "-o", "json")]
    steady = [
        [line for line in one.splitlines() if "resourceVersion" not in line and "eneration" not in line]
        for one in texts
    ]
    assert steady[0] == steady[1] and "\\u003cb\\u003e" in texts[0]
    assert os.stat(sets).st_mode & 0o777 == 0o600 and json.loads(drivers.read_text())["items"] == []
    # What an earlier run has left would be taken for this one's.
    steps = [
        {**nobody, "check_mode": True, "register": "planned"},
        {"ansible.builtin.assert": {"that": ["planned is changed", f"'{sets}' is exists"]}},
        {**nobody, "register": "without"},
        {"ansible.builtin.assert": {"that": ["without is changed", "'may not list' in without.dumps[0].left_out"]}},
        {**nobody, "register": "same"},
        {"ansible.builtin.assert": {"that": ["same is not changed", f"'{sets}' is not exists"]}},
    ]
    code, text = modules.playbook(steps, "--diff")
    assert code == 0 and f"--- {sets}: " in text, text


def test_the_environment_of_containers_can_be_left_out(modules, cluster, namespace, tmp_path):
    container = {"name": "c", "image": "x", "env": [{"name": "A", "value": "SECRET-1"}], "args": ["--token=SECRET-2"]}
    template = {
        "metadata": {"labels": {"app": "e"}},
        "spec": {"nodeSelector": {"no": "node"}, "containers": [container]},
    }
    metadata = {"name": "e", "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    spec = {"selector": {"matchLabels": {"app": "e"}}, "template": template}
    daemonset = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}
    # kubectl apply leaves a copy of the object in an annotation.
    cluster.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, daemonset]})
    )
    for environment in (True, False):
        dumps = [
            {"kind": kind, "namespace": namespace, "path": str(tmp_path / f"{kind}-{environment}.json")}
            for kind in ("Pod", "DaemonSet")
        ]
        code, text = dump_play(modules, dumps, environment=environment)
        assert code == 0, text
        for dump in dumps:
            saved = Path(dump["path"]).read_text(encoding="utf-8")
            assert ("SECRET-1" in saved and "SECRET-2" in saved) == environment
            (item,) = json.loads(saved)["items"]
            assert (item.get("spec").get("template") or item)["spec"]["nodeSelector"] == {"no": "node"}
    cluster.kubectl("delete", "pod,daemonset", "e", "-n", namespace, "--wait=false")
