# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two ClusterRoles that are shipped: with them everything runs, and they allow nothing that is not used.

What is used is read from the API server's audit log, what is allowed from the shipped files and from the API server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _nodes

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "roles" / "control_plane" / "files" / "cluster-roles"
MODULES, LAB = "gpuwl-modules", "gpuwl-lab"
NODES = ["rbac-0", "rbac-1", "rbac-2"]


def allowed(*roles) -> set[tuple[str, str]]:
    """(verb, resource, with its group but for the core one) of shipped ClusterRoles."""
    rules = [rule for role in roles for rule in yaml.safe_load((SHIPPED / f"{role}.yaml").read_text())["rules"]]
    assert all(rule.keys() == {"apiGroups", "resources", "verbs"} for rule in rules)
    groups = [(rule, group) for rule in rules for group in rule["apiGroups"]]
    return {
        (verb, ".".join(filter(None, (resource, group))))
        for rule, group in groups
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture(scope="module")
def account(cluster, tmp_path_factory):
    """A function that gives the kubeconfig of a ServiceAccount with these shipped roles and no others."""
    cluster.kubectl("create", "namespace", "rbac")
    cluster.create_nodes(*NODES)
    cluster.await_nodes(*NODES)
    for role in (MODULES, LAB):
        cluster.kubectl("apply", "-f", str(SHIPPED / f"{role}.yaml"))

    def make(name: str, *roles: str) -> str:
        cluster.kubectl("create", "serviceaccount", name, "-n", "rbac")
        for role in roles:
            cluster.kubectl(
                "create",
                "clusterrolebinding",
                f"{name}-{role}",
                f"--clusterrole={role}",
                f"--serviceaccount=rbac:{name}",
            )
        config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": cluster.kubectl("create", "token", name, "-n", "rbac").strip()}
        path = tmp_path_factory.mktemp("rbac") / name
        path.write_text(json.dumps(config))
        return str(path)

    yield make
    cluster.kubectl("delete", "namespace", "rbac", "--wait=false")
    cluster.kubectl("delete", "node", *NODES)


def used(cluster, name: str) -> set[tuple[str, str]]:
    """(verb, resource) of all that a ServiceAccount has asked the API server for and got."""
    found = set()
    for line in cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        if (
            event["user"]["username"] == f"system:serviceaccount:rbac:{name}"
            and "objectRef" in event
            and event["responseStatus"]["code"] < 400
        ):
            target = event["objectRef"]
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            found.add((event["verb"], ".".join(filter(None, (resource, target.get("apiGroup"))))))
    return found


def overtaken(api, node, plan, subresource=None, true=_nodes.patch_until_current):
    """patch_until_current of a node that somebody else has changed meanwhile."""
    metadata = {**node["metadata"], "resourceVersion": "1"}
    return true(api, {**node, "metadata": metadata}, plan, subresource)


def test_the_three_modules_need_all_of_the_one_and_nothing_else(modules, cluster, account, monkeypatch):
    connection = {"kubeconfig": account("modules", MODULES)}
    assert modules.run("node_labels", **connection, nodes=[{"name": NODES[0]}], labels={"rbac": "a"})["changed"]
    assert modules.run("node_status", **connection, nodes=[{"name": NODES[0]}], resources={"nvidia.com/gpu": 1})[
        "changed"
    ]
    # A kubelet is there, and its allocatable has to follow.
    patch = json.dumps({"status": {"allocatable": {"nvidia.com/gpu": "2"}}})
    cluster.kubectl(
        "patch", "node", NODES[0], "--subresource=status", "--type=merge", "-p", patch, "--field-manager=kubelet"
    )
    modules.run("node_status", **connection, nodes=[{"name": NODES[0]}], resources={"nvidia.com/gpu": 1})
    with monkeypatch.context() as patched:
        patched.setattr(_nodes, "patch_until_current", overtaken)
        assert modules.run("node_labels", **connection, nodes=[{"name": NODES[0]}], labels={"rbac": "b"})["changed"]
    undecided = modules.run("placement_info", **connection, namespace="rbac", pods=["nobody"], wait_timeout=1)
    assert "no decision within 1 s" in undecided["msg"] and "rbac/nobody: " in undecided["msg"]
    assert used(cluster, "modules") == allowed(MODULES)
    modules.run("node_status", nodes=[{"name": NODES[0]}], resources_to_remove=["nvidia.com/gpu"], force=True)


def play(playbook: str, kubeconfig: str, folder: Path) -> None:
    pools = [
        {"name": f"p{index}", "nodes": [name], "resources": {f"nvidia.com/rbac-{index}": 1}}
        for index, name in enumerate(NODES)
    ]
    requests = [{"name": name, "resources": {"nvidia.com/rbac-0": 1}} for name in ("first", "second")]
    values = {
        "lab_root": str(folder / "lab"),
        "control_plane_provider": "existing",
        "control_plane_kubeconfig": kubeconfig,
        "control_plane_existing_confirm": "kwok-t",
        "lab_namespace": "rbac-lab",
        "lab_pools": pools,
        "lab_requests": requests,
    }
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        f"playbooks/{playbook}.yml",
        "-e",
        json.dumps(values),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_FORCE_COLOR": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


def asked(pod: dict, order: int) -> dict:
    """A Pod of the lab's as the role placement asks for it, in another place of the order."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
    metadata["annotations"] = {"gpuwl.sandbox/order": str(order)}
    containers = [
        {"name": one["name"], "image": one["image"], "resources": {"limits": one["resources"]["limits"]}}
        for one in pod["spec"]["containers"]
    ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def test_the_lab_needs_all_of_the_other_besides(modules, cluster, account, tmp_path):
    kubeconfig = account("lab", MODULES, LAB)
    play("lab", kubeconfig, tmp_path)
    # Another order alone: the Pods stay and are annotated.
    there = cluster.get("pods", "-n", "rbac-lab")["items"]
    assert [pod["metadata"]["name"] for pod in there] == ["first", "second"]
    modules.process(
        "lab_pods", kubeconfig=kubeconfig, pods=[asked(pod, index) for index, pod in enumerate(there[::-1])]
    )
    now = cluster.get("pods", "-n", "rbac-lab")["items"]
    assert [pod["metadata"]["uid"] for pod in now] == [pod["metadata"]["uid"] for pod in there]
    assert [pod["metadata"]["annotations"]["gpuwl.sandbox/order"] for pod in now] == ["1", "0"]
    play("teardown", kubeconfig, tmp_path)
    # Whoever is authenticated may ask who they are.
    everybodys = {("create", "selfsubjectreviews.authentication.k8s.io")}
    # Only where the ServiceAccount of a new namespace takes its time.
    at_times = {("watch", "serviceaccounts")}
    assert used(cluster, "lab") - allowed(MODULES) - everybodys | at_times == allowed(LAB)
    assert not allowed(LAB) & allowed(MODULES)


def granted(cluster, name: str) -> set[str]:
    """What the API server says that a ServiceAccount may do in any namespace, a line each."""
    told = cluster.kubectl(
        "auth",
        "can-i",
        "--list",
        "--as",
        f"system:serviceaccount:rbac:{name}",
        "--as-group=system:authenticated",
        "-n",
        "default",
    )
    return {" ".join(line.split()) for line in told.splitlines()}


@pytest.mark.parametrize("role", [MODULES, LAB])
def test_whoever_has_a_role_can_do_nothing_else(cluster, account, role):
    account(f"bare-{role}")
    account(f"only-{role}", role)
    more = granted(cluster, f"only-{role}") - granted(cluster, f"bare-{role}")
    rules = {}
    for line in more:
        resource, _names, rest = line.partition(" [] [] ")
        rules.setdefault(resource, set()).update(rest.strip("[]").split())
    assert {(verb, resource) for resource, verbs in rules.items() for verb in verbs} == allowed(role)
    for verb, resource in (
        ("get", "secrets"),
        ("delete", "nodes"),
        ("create", "deployments"),
        ("patch", "namespaces"),
        ("create", "clusterrolebindings"),
    ):
        answer = cluster.kubectl(
            "auth", "can-i", verb, resource, "--as", f"system:serviceaccount:rbac:only-{role}", "-A", check=False
        )
        assert answer.strip() == "no", (verb, resource)
