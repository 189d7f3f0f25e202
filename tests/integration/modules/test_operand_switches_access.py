# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What operand_switches needs leave for, and what it does where leave, luck or the network runs out; and the role itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes, _policy_switch
from operand_lab import CHAIN, DEPLOY, ON, WHY, refused

ROOT = Path(__file__).resolve().parents[3]
CLUSTER_ROLE = ROOT / "roles" / "operand_switches" / "files" / "cluster-role.yaml"
NAME = "gpuwl-operand-switches"
# The API server's audit log tells of the ServiceAccounts of this namespace.
AUDITED = "rbac"


@pytest.fixture
def account(cluster, tmp_path):
    """A function that gives the kubeconfig of a ServiceAccount with the rules of a ClusterRole, shipped or changed."""
    cluster.kubectl("create", "namespace", AUDITED)
    made = []

    def make(name, rules):
        role = {**yaml.safe_load(CLUSTER_ROLE.read_text()), "rules": rules}
        role["metadata"] = {"name": name}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(role))
        cluster.kubectl("create", "serviceaccount", name, "-n", AUDITED)
        subject = f"--serviceaccount={AUDITED}:{name}"
        cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", subject)
        made.append(name)
        config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": cluster.kubectl("create", "token", name, "-n", AUDITED).strip()}
        path = tmp_path / name
        path.write_text(json.dumps(config))
        return str(path)

    yield make
    cluster.kubectl("delete", "namespace", AUDITED, "--wait=true")
    for name in made:
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", name)


def shipped_rules():
    return yaml.safe_load(CLUSTER_ROLE.read_text())["rules"]


def allowed():
    """{(verb, resource)} of the shipped ClusterRole."""
    rules = shipped_rules()
    assert all(rule.keys() == {"apiGroups", "resources", "verbs"} for rule in rules)
    return {
        (verb, ".".join(filter(None, (resource, group))))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(cluster, name):
    """{(verb, resource)} of all that a ServiceAccount has asked the API server for and got."""
    found = set()
    for line in cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef")
        by_it = event["user"]["username"] == f"system:serviceaccount:{AUDITED}:{name}"
        if by_it and target and event["responseStatus"]["code"] < 400:
            found.add((event["verb"], ".".join(filter(None, (target["resource"], target.get("apiGroup"))))))
    return found


def overtaken(api, node, plan, subresource=None, true=_nodes.patch_until_current):
    """patch_until_current of a node that somebody else has changed meanwhile."""
    return true(api, {**node, "metadata": {**node["metadata"], "resourceVersion": "1"}}, plan, subresource)


def test_the_shipped_role_suffices_and_allows_nothing_unused(modules, cluster, lab, policies, account, monkeypatch):
    lab.policy()
    lab.nodes("leave-0")
    connection = {"kubeconfig": account(NAME, shipped_rules())}
    find = _policy_switch.find

    def stale(*arguments):
        switch = find(*arguments)
        old = {**switch.item, "metadata": {**switch.item["metadata"], "resourceVersion": "1"}}
        return switch._replace(item=old)

    # Somebody is faster, at the node and at the ClusterPolicy: both are read again, and what was asked for is there.
    monkeypatch.setattr(_nodes, "patch_until_current", overtaken)
    monkeypatch.setattr(_policy_switch, "find", stale)
    done = modules.run("operand_switches", **connection, nodes=["leave-0"], state="out", cluster={"driver": False})
    assert done["changed"], done
    assert lab.metadata("leave-0", "labels")[DEPLOY + "operands"] == "false"
    assert lab.cluster.get("clusterpolicy", "cluster-policy")["spec"] == {"driver": {"enabled": False}}
    assert used(cluster, NAME) == allowed()


def test_without_leave_nothing_is_half_done(modules, lab, policies, account, monkeypatch):
    lab.policy()
    lab.nodes("half-0", "half-1")
    rules = shipped_rules()
    reads = [{**rule, "verbs": ["list"]} for rule in rules]
    nodes, policy = rules[0], rules[-1]
    asked = {"nodes": ["half-0", "half-1"], "state": "out", "cluster": {"driver": False}}
    before = lab.state("half-0", "half-1")

    reader = account("reader", reads[1:])
    refused(modules, "may not list nodes", "verb list on nodes", kubeconfig=reader, **asked)
    nobody = account("no-nodes", [*reads, policy])
    refused(modules, "may not patch nodes", "verb patch on nodes", "0 of 2 nodes", kubeconfig=nobody, **asked)
    assert lab.cluster.get("clusterpolicy", "cluster-policy")["spec"] == {}
    only = account("no-policy", [*reads, nodes])
    refused(modules, "may not patch clusterpolicies.nvidia.com", "Nothing was written", kubeconfig=only, **asked)
    assert lab.state("half-0", "half-1") == before

    # Leave for the first node alone: what was written is told, and a run with more leave does the rest.
    monkeypatch.setattr(_nodes, "WRITERS", 1)
    one = account("one-node", [*reads, policy, {**nodes, "verbs": ["get", "patch"], "resourceNames": ["half-0"]}])
    failed = modules.run("operand_switches", kubeconfig=one, **asked)
    assert failed["failed"] and failed["changed"] and "node half-1" in failed["msg"]
    assert failed["written"] == ["half-0"] and failed["not_written"] == ["half-1", "ClusterPolicy cluster-policy"]
    rest = modules.run("operand_switches", **asked)
    assert [node["changed"] for node in rest["nodes"]] == [False, True] and rest["cluster"]["changed"]
    assert not modules.run("operand_switches", **asked)["changed"]


def test_a_damaged_annotation_is_told(modules, lab):
    lab.nodes("damaged-0")
    assert modules.run("operand_switches", nodes=["damaged-0"], state="out")["changed"]
    key = "gpuwl.sandbox/operand-was.operands"
    lab.cluster.kubectl("annotate", "--overwrite", "node", "damaged-0", f"{key}=?")
    refused(modules, "node damaged-0", key, "mend or remove it", nodes=["damaged-0"], state="in")


def role(name, **options):
    values = {f"operand_switches_{key}": value for key, value in options.items()}
    return {"name": name, "ansible.builtin.include_role": {"name": "gpuwl.sandbox.operand_switches"}, "vars": values}


def test_the_role_says_who_acts_and_what_stops(modules, lab):
    lab.nodes("role-0", "role-1")
    for number, operand in enumerate(CHAIN):
        lab.daemonset(f"set-{number}", operand)
    everything = {(f"role-{node}", f"set-{number}") for node in (0, 1) for number in range(3)}
    lab.await_running(*everything)
    out = role("out", nodes=["role-[0:1]"], state="out", reason="The rack is moved")
    before = lab.state("role-0", "role-1")
    code, output = modules.playbook([out], "--check", "--diff")
    assert code == 0, output
    line = "role-[0:1]: the whole node out; this role changes the deploy labels; stops " + ", ".join(
        f"{lab.namespace}/set-{number}" for number in range(3)
    )
    assert line in " ".join(output.split()), output
    assert sum(f"{lab.namespace}/set-" in row and row.startswith("-") for row in output.splitlines()) == 6, output
    assert lab.state("role-0", "role-1") == before
    assert lab.running() == everything

    still = {
        "ansible.builtin.assert": {"that": ["not operand_switches_done.changed"]},
    }
    code, output = modules.playbook([out, out, still])
    words = " ".join(output.split())
    assert code == 0 and line in words and "role-[0:1]: the whole node as asked already" in words, output
    lab.await_running()
    assert lab.metadata("role-1", "annotations")[WHY + "operands"] == "The rack is moved"
    code, output = modules.playbook([role("in", nodes=["role-[0:1]"], state="in")])
    assert code == 0, output
    lab.await_running(*everything)
    assert lab.state("role-0", "role-1") == before and ON.items() <= before[0][0].items()


def test_the_role_takes_one_operand_out_and_warns(modules, lab, policies):
    lab.policy()
    lab.nodes("warn-0")
    lab.daemonset("plugin", "device-plugin")
    lab.await_running(("warn-0", "plugin"))
    one = {"nodes": ["warn-0"], "operands": ["device-plugin"]}
    tasks = [
        role("out", **one, state="out", reason="Xid 79"),
        role("all", cluster={"driver": False}),
    ]
    code, output = modules.playbook(tasks)
    assert code == 0, output
    words = " ".join(output.split())
    assert "the operator forgets a deploy label" in words and "its upgrades are yours" in words
    assert f"stops {lab.namespace}/plugin" in words and "ClusterPolicy cluster-policy: driver.enabled=false" in words
    lab.await_running()
    code, output = modules.playbook([role("in", **one, state="in", cluster={"driver": True})])
    assert code == 0, output
    lab.await_running(("warn-0", "plugin"))
