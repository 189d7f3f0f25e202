# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ClusterRole that is shipped for the audit: with it everything runs, and it allows nothing that is not used.

What is used is read from the API server's audit log, what is allowed from the shipped file and from the API server.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

ROLE = Path(__file__).resolve().parents[3] / "roles" / "audit" / "files" / "cluster-role.yaml"
SHIPPED = yaml.safe_load(ROLE.read_text())


def allowed() -> set[tuple[str, str]]:
    assert all(rule.keys() == {"apiGroups", "resources", "verbs"} for rule in SHIPPED["rules"])
    return {
        (verb, ".".join(filter(None, (resource, group))))
        for rule in SHIPPED["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture(scope="module")
def account(operated, tmp_path_factory):
    """A function that gives the kubeconfig of a ServiceAccount with a ClusterRole of these rules and no other."""
    cluster = operated.cluster
    cluster.kubectl("create", "namespace", "rbac")

    def make(name: str, rules: list[dict]) -> str:
        cluster.kubectl("create", "serviceaccount", name, "-n", "rbac")
        role = {**SHIPPED, "metadata": {"name": name}, "rules": rules}
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(role))
        cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount=rbac:{name}")
        config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": cluster.kubectl("create", "token", name, "-n", "rbac").strip()}
        path = tmp_path_factory.mktemp("rbac") / name
        path.write_text(json.dumps(config))
        return str(path)

    yield make
    cluster.kubectl("delete", "namespace", "rbac", "--wait=false")


def used(cluster, name: str) -> list[tuple[str, str]]:
    """(verb, resource) of all requests about objects that a ServiceAccount got an answer to."""
    found = []
    for line in cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        is_its = event["user"]["username"] == f"system:serviceaccount:rbac:{name}"
        if is_its and "objectRef" in event and event["responseStatus"]["code"] < 400:
            target = event["objectRef"]
            found.append((event["verb"], ".".join(filter(None, (target["resource"], target.get("apiGroup"))))))
    return found


def test_the_audit_needs_all_of_it_and_nothing_else(operated, audits, account):
    config = account("auditor", SHIPPED["rules"])
    played = audits.run(audit_kubeconfig=config)
    assert audits.report()["errors"] == [] and audits.report()["not_judged"] == [], played.output
    requests = used(operated.cluster, "auditor")
    assert set(requests) == allowed() and len(requests) == len(allowed()), "one list per kind"
    assert {verb for verb, _resource in allowed()} <= {"get", "list"}
    for verb, resource in (("get", "secrets"), ("list", "secrets"), ("list", "configmaps"), ("patch", "nodes")):
        who = "system:serviceaccount:rbac:auditor"
        answer = operated.cluster.kubectl("auth", "can-i", verb, resource, "--as", who, "-A", check=False)
        assert answer.strip() == "no", (verb, resource)


def test_without_a_right_that_is_needed_one_line_names_it(audits, account):
    played = audits.run(audit_kubeconfig=account("nobody", []))
    (error,) = audits.report()["errors"]
    assert played.rc == 2 and audits.report()["exit_code"] == 2
    assert "system:serviceaccount:rbac:nobody may not list nodes" in error
    assert "needs a ClusterRole with the verb list on nodes" in error and "\n" not in error


def test_without_another_the_rest_is_judged_and_the_report_says_so(audits, account):
    rules = [rule for rule in SHIPPED["rules"] if rule["apiGroups"] in ([""], ["apps"])]
    config = account("half", rules)
    audits.run(audit_kubeconfig=config)
    report = audits.report()
    told = {one["kind"]: one for one in report["not_judged"]}
    assert {"ClusterPolicy", "GPUCluster", "NVIDIADriver", "ResourceSlice"} <= told.keys()
    assert all("half may not list" in one["why"] for one in told.values())
    assert report["checked"] >= 9 and report["inventory"]
    # An audit without its main part does not end as if all were well.
    (error,) = report["errors"]
    assert "may not list clusterpolicies.nvidia.com" in error and "operands cannot be judged" in error
    assert report["exit_code"] == 2
    # Without its ClusterPolicy it would be taken for a cluster without an operator.
    assert report["operands"] is None and any("operands" in one["rules"] for one in report["not_judged"])
    audits.run(audit_kubeconfig=config, audit_cluster_policy={"sandboxWorkloads": {"enabled": True}})
    assert len(audits.report()["operands"]) >= 9 and audits.report()["errors"] == []
