# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""operand_audit against a real API server and its DaemonSet controller, with an operator's ClusterPolicy and without.

No operator runs here; the tests make what one would have made.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_audit import operand_audit_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_table import operand_table
from operand_lab import DEPLOY, FOUND

CHAIN = ("driver", "container-toolkit", "device-plugin", "gpu-feature-discovery", "operator-validator")
OPERANDS = (*CHAIN, "dcgm-exporter")
ON = {DEPLOY + operand: "true" for operand in OPERANDS}
MANAGED = {FOUND: "true", "nvidia.com/gpu.present": "true", **ON}
EXPORTER, TOOLKIT = DEPLOY + "dcgm-exporter", DEPLOY + "container-toolkit"


def audit(modules, **options):
    result = modules.run("operand_audit", **options)
    assert not result.get("failed"), result
    assert result.pop("changed") is False
    return result


def told(result, *names):
    """{node: rules} of some nodes, and rules about no node."""
    found = {name: set() for name in names}
    for one in result["findings"]:
        if one["node"] in found or one["node"] is None:
            found.setdefault(one["node"], set()).add(one["rule"])
    return found


def of(result, name):
    (found,) = [one for one in result["nodes"] if one["node"] == name]
    return found


def shell(cluster, remedy):
    """Run a proposed command as somebody would who copies it; some say first when, or what else, to do."""
    path = f"{cluster.kubectl_path.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}
    command = ["bash", "-c", remedy.rpartition(": kubectl ")[1].removeprefix(": ") + remedy.rpartition(": kubectl ")[2]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{remedy}: {done.stderr}"


def fail_pod(lab, node, daemonset):
    """Let a Pod that ran be one whose container fails for ever."""
    pods = lab.cluster.get("pods", "-n", lab.namespace, "--field-selector", f"spec.nodeName={node}")["items"]
    (name,) = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["ownerReferences"][0]["name"] == daemonset]
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
    statuses = [{"name": "main", "ready": False, "state": waiting, "image": "x", "imageID": "", "restartCount": 9}]
    patch = json.dumps({"status": {"containerStatuses": statuses}})
    lab.cluster.kubectl("patch", "pod", name, "-n", lab.namespace, "--subresource=status", "--type=merge", "-p", patch)


FAULTS = {
    "aud-absent": {EXPORTER: None},
    "aud-false": {EXPORTER: "False"},
    "aud-empty": {EXPORTER: ""},
    "aud-paused": {EXPORTER: "paused-for-mig-change"},
    "aud-taint": {},
    "aud-set": {"nvidia.com/mig.capable": "true", DEPLOY + "mig-manager": "true"},
    "aud-pod": {},
    "aud-order": {TOOLKIT: None},
}
CAUSES = {
    "aud-absent": {"dcgm-exporter": "label-absent"},
    "aud-false": {"dcgm-exporter": "label-not-true"},
    "aud-empty": {"dcgm-exporter": "label-empty"},
    "aud-paused": {"dcgm-exporter": "paused"},
    "aud-taint": dict.fromkeys(OPERANDS, "taint-not-tolerated"),
    "aud-set": {"mig-manager": "daemonset-absent"},
    "aud-pod": {"dcgm-exporter": "pod-not-running"},
    "aud-order": {"container-toolkit": "label-absent"},
    "aud-whole": {},
}
RULES = {
    "aud-absent": {"deploy-label-missing"},
    "aud-false": {"operand-label-invalid"},
    "aud-empty": {"operand-blocked"},
    "aud-paused": {"operand-paused"},
    "aud-taint": {"operand-tainted-out"},
    "aud-set": set(),
    "aud-pod": {"operand-not-running"},
    "aud-order": {"toolkit-missing"},
    "aud-whole": set(),
    None: {"daemonset-missing", "second-cluster-policy"},
}


def test_eight_faults_are_named_and_nothing_else(modules, lab, policies, tmp_path):
    lab.policy(dcgm={"enabled": False})
    lab.policy("a-second", state=None, driver={"enabled": False})
    lab.nodes("aud-whole", *FAULTS, labels=MANAGED)
    lab.cluster.kubectl("taint", "node", "aud-taint", "dedicated=training:NoSchedule")
    for name, labels in FAULTS.items():
        if labels:
            lab.label(name, **labels)
    for operand in OPERANDS:
        lab.daemonset(f"set-{operand}", operand, owner="cluster-policy")
    missing = {(node, f"set-{operand}") for node, causes in CAUSES.items() for operand in causes if node != "aud-pod"}
    every = {(node, f"set-{operand}") for node in RULES if node for operand in OPERANDS}
    lab.await_running(*(every - missing))
    lab.await_counted()
    fail_pod(lab, "aud-pod", "set-dcgm-exporter")

    result = audit(modules, operator_version="26.3.3")
    assert {name: {one["operand"]: one["cause"] for one in of(result, name)["missing"]} for name in CAUSES} == CAUSES
    assert told(result, *CAUSES) == RULES
    assert result["operator"] and result["operator_version"] == "26.3.3"
    assert "CrashLoopBackOff: back-off 5m0s" in of(result, "aud-pod")["missing"][0]["detail"]
    order = of(result, "aud-order")["out_of_order"]
    assert (order[0]["operand"], order[0]["needs"]) == ("device-plugin", "container-toolkit")
    assert not any(of(result, name)["out_of_order"] for name in CAUSES if name != "aud-order")
    misleading = {one["object"]: one for one in result["misleading"]}
    assert misleading["ClusterPolicy cluster-policy"]["says"] == "state ready"
    driver = misleading[f"DaemonSet {lab.namespace}/set-driver"]
    assert "desiredNumberScheduled 8, numberReady 8" in driver["says"] and "aud-taint" in driver["but"]

    # The same from a dump, in one file or several.
    kinds = ("nodes", "daemonsets", "pods", "clusterpolicies")
    for kind in kinds:
        (tmp_path / f"{kind}.yaml").write_text(lab.cluster.kubectl("get", kind, "-A", "-o", "yaml"))
    assert operand_audit_of([str(tmp_path)], "26.3.3") == result
    (tmp_path / "all").mkdir()
    whole = tmp_path / "all" / "all.json"
    whole.write_text(lab.cluster.kubectl("get", ",".join(kinds), "-A", "-o", "json"))
    assert operand_audit_of([str(whole)], "26.3.3") == result
    lines = operand_table(result).splitlines()
    assert any(line.startswith("aud-paused ") and "paused: dcgm-exporter" in line for line in lines)

    # What is proposed can be run, and helps.
    remedies = {(one["rule"], one["node"]): one["remedy"] for one in result["findings"]}
    shell(lab.cluster, remedies["toolkit-missing", "aud-order"])
    shell(lab.cluster, remedies["operand-paused", "aud-paused"])
    lab.await_running(
        *(every - missing | {("aud-order", "set-container-toolkit"), ("aud-paused", "set-dcgm-exporter")})
    )
    shell(lab.cluster, remedies["operand-tainted-out", "aud-taint"])
    spec = lab.cluster.get("clusterpolicy", "cluster-policy")["spec"]
    assert [one["key"] for one in spec["daemonsets"]["tolerations"]] == ["nvidia.com/gpu", "dedicated"]
    after = told(audit(modules, operator_version="26.3.3"), *CAUSES)
    assert not after["aud-order"] and not after["aud-paused"]

    changes = audit(modules, compare_versions=["26.3", "26.7"])["comparison"]
    of_empty = next(one for one in changes["nodes"] if one["node"] == "aud-empty")
    assert of_empty["labels"]["changed"] == {EXPORTER: ["", "true"]}
    assert of_empty["labels"]["added"] == {DEPLOY + "client": "true"}


def test_the_lab_stage_by_stage(modules, lab):
    """Two nodes, one with the driver; a label goes; a node out of order; a tainted one; one more at the end."""
    lab.nodes("lab-1", "lab-2", labels={key: "true" for key in ON if key != EXPORTER})
    lab.label("lab-2", **{DEPLOY + "driver": None})
    for operand in CHAIN:
        lab.daemonset(f"set-{operand}", operand)
    first = {("lab-1", f"set-{operand}") for operand in CHAIN}
    second = {("lab-2", f"set-{operand}") for operand in CHAIN[1:]}
    lab.await_running(*first, *second)
    result = audit(modules)
    assert result["operator"] is False
    assert told(result, "lab-1", "lab-2") == {"lab-1": set(), "lab-2": {"operand-out-of-order"}}
    assert [one["needs"] for one in of(result, "lab-2")["out_of_order"]] == ["driver"]

    shell(lab.cluster, next(one["remedy"] for one in result["findings"] if one["node"] == "lab-2"))
    lab.label("lab-1", **{DEPLOY + "operator-validator": None})
    whole = (first - {("lab-1", "set-operator-validator")}) | second | {("lab-2", "set-driver")}
    lab.await_running(*whole)
    lab.nodes("lab-3", labels={DEPLOY + "device-plugin": "true"})
    lab.nodes("lab-4", labels={key: "true" for key in ON if key != EXPORTER})
    lab.cluster.kubectl("taint", "node", "lab-4", "dedicated=training:NoExecute")
    lab.await_running(*whole, ("lab-3", "set-device-plugin"))
    result = audit(modules)
    names = ("lab-1", "lab-2", "lab-3", "lab-4")
    assert told(result, *names) == {
        "lab-1": {"deploy-label-missing"},
        "lab-2": set(),
        "lab-3": {"deploy-label-missing", "toolkit-missing"},
        "lab-4": {"operand-tainted-out"},
    }
    assert result["findings"][0]["rule"] == "toolkit-missing"
    tainted = next(one["remedy"] for one in result["findings"] if one["node"] == "lab-4")
    shell(lab.cluster, tainted)
    lab.nodes("lab-5", labels={key: "true" for key in ON if key != EXPORTER})
    joined = {(name, f"set-{operand}") for name in ("lab-4", "lab-5") for operand in CHAIN}
    lab.await_running(*whole, ("lab-3", "set-device-plugin"), *joined)
    after = told(audit(modules), *names, "lab-5")
    assert after["lab-4"] == after["lab-5"] == set() and after["lab-3"]


def test_an_edited_selector_of_the_lab_and_its_remedy(modules, lab):
    lab.nodes("sel-1", labels={DEPLOY + "driver": "true"})
    lab.daemonset("drivers", "driver")
    lab.await_running(("sel-1", "drivers"))
    patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}})
    lab.cluster.kubectl("patch", "daemonset", "drivers", "-n", lab.namespace, "--type=merge", "-p", patch)
    lab.await_running()
    lab.await_counted()
    result = audit(modules)
    assert [one["cause"] for one in of(result, "sel-1")["missing"]] == ["daemonset-absent"]
    (found,) = [one for one in result["findings"] if one["rule"] == "daemonset-selector-edited"]
    assert found["subject"]["name"] == "drivers" and "pool=a" in found["message"]
    assert f"DaemonSet {lab.namespace}/drivers" in {one["object"] for one in result["misleading"]}
    shell(lab.cluster, found["remedy"])
    lab.await_running(("sel-1", "drivers"))
    assert not of(audit(modules), "sel-1")["missing"]


@pytest.fixture
def account(cluster, namespace, tmp_path):
    """A function that gives the kubeconfig of somebody who may list some resources and nothing else."""
    made = []

    def make(*resources):
        name = f"audit-{len(made)}"
        role = ["create", "clusterrole", name, "--verb=list", "--resource=" + ",".join(resources)]
        cluster.kubectl(*role)
        cluster.kubectl("create", "serviceaccount", name, "-n", namespace)
        subject = f"--serviceaccount={namespace}:{name}"
        cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", subject)
        made.append(name)
        config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": cluster.kubectl("create", "token", name, "-n", namespace).strip()}
        path = tmp_path / name
        path.write_text(json.dumps(config))
        return str(path)

    yield make
    for name in made:
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", name)


NEEDED = ("nodes", "pods", "daemonsets.apps", "clusterpolicies.nvidia.com")


def test_listing_is_all_that_it_needs_and_a_missing_verb_is_told(modules, policies, account):
    audit(modules, kubeconfig=account(*NEEDED))
    refused = modules.run("operand_audit", kubeconfig=account(*(one for one in NEEDED if one != "pods")))
    assert refused["failed"] and "\n" not in refused["msg"]
    assert "list" in refused["msg"] and "pods" in refused["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"operator_version": "newest"}, "operator version 'newest'"),
        ({"cluster_policy": {"driver": {"enabled": "perhaps"}}}, "driver.enabled"),
        ({"compare_versions": ["26.3"]}, "compare_versions is ['26.3'], expected a list of two"),
        ({"compare_versions": ["26.3", "26.7"]}, "there is no ClusterPolicy"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(modules, options, words):
    result = modules.run("operand_audit", **options)
    assert result["failed"] and words in result["msg"] and "\n" not in result["msg"]
