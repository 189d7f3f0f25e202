# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user is told when the API can't be reached, won't have them, or dies midway."""

from __future__ import annotations

import base64
import json
import socket
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding


def kubeconfig_with(cluster, token, path):
    """A kubeconfig like the cluster's, with a token in the place of the administrator's certificate."""
    config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(config))
    return str(path)


def assert_one_line(result, *parts):
    assert result["failed"] and "\n" not in result["msg"] and "exception" not in result, result
    for part in parts:
        assert part in result["msg"], result["msg"]


@pytest.fixture
def service_account(cluster, tmp_path):
    """A ServiceAccount that may list nodes and nothing more; gives its kubeconfig."""
    cluster.kubectl("create", "namespace", "restricted")
    cluster.kubectl("create", "serviceaccount", "reader", "-n", "restricted")
    cluster.kubectl("create", "clusterrole", "reader", "--verb=get,list", "--resource=nodes")
    cluster.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=restricted:reader"
    )
    yield kubeconfig_with(
        cluster,
        cluster.kubectl("create", "token", "reader", "-n", "restricted").strip(),
        tmp_path / "reader.kubeconfig",
    )
    cluster.kubectl("delete", "clusterrolebinding/reader", "clusterrole/reader", "namespace/restricted", "--wait=false")


def test_403_names_user_verb_and_resource(modules, cluster, service_account):
    cluster.create_nodes("forbidden-0", "forbidden-1")
    nodes = [{"name": "forbidden-0"}, {"name": "forbidden-1"}]
    user = "system:serviceaccount:restricted:reader"
    labels = modules.process("node_labels", kubeconfig=service_account, nodes=nodes, labels={"a": "b"})
    assert_one_line(labels, f"the user {user} may not patch nodes:", "a ClusterRole with the verb patch on nodes")
    assert labels["written"] == [] and labels["not_written"] == ["forbidden-0", "forbidden-1"]
    assert labels["changed"] is False, "nothing was written"
    status = modules.process("node_status", kubeconfig=service_account, nodes=nodes, resources={"a.b/c": 1})
    assert_one_line(status, f"the user {user} may not patch nodes/status:", "with the verb patch on nodes/status")
    assert (status["written"], status["changed"]) == ([], False)
    pods = modules.process("placement_info", kubeconfig=service_account, namespace="default", pods=["a"])
    assert_one_line(
        pods, f"the user {user} may not list pods:", "a Role in namespace default with the verb list on pods"
    )
    # Reading is allowed, so a plan can be made without the right to carry it out.
    assert modules.process("node_labels", check=True, kubeconfig=service_account, nodes=nodes, labels={"a": "b"})[
        "changed"
    ]


def expired_token(cluster):
    """A ServiceAccount's token as the API server would sign it, an hour past its end."""

    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    issuer, now = "https://kubernetes.default.svc.cluster.local", int(time.time())
    account = {
        "namespace": "default",
        "serviceaccount": {"name": "default", "uid": cluster.get("sa", "default")["metadata"]["uid"]},
    }
    claims = {
        "iss": issuer,
        "aud": [issuer],
        "sub": "system:serviceaccount:default:default",
        "iat": now - 7200,
        "nbf": now - 7200,
        "exp": now - 3600,
        "kubernetes.io": account,
    }
    signed = part(json.dumps({"alg": "RS256"}).encode()) + b"." + part(json.dumps(claims).encode())
    key = serialization.load_pem_private_key((cluster.pids.parent / "pki" / "admin.key").read_bytes(), None)
    return (signed + b"." + part(key.sign(signed, padding.PKCS1v15(), hashes.SHA256()))).decode()


def test_expired_credentials(modules, cluster, tmp_path):
    token = expired_token(cluster)
    done = modules.process(
        "node_labels", kubeconfig=kubeconfig_with(cluster, token, tmp_path / "expired"), nodes=[{"name": "x"}]
    )
    assert_one_line(done, "401 Unauthorized", "expired", "log in again")
    assert token not in json.dumps(done)


def test_connection_refused(modules, cluster, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"https://127.0.0.1:{unused.getsockname()[1]}"
        for module, options in (
            ("node_labels", {"nodes": [{"name": "x"}]}),
            ("placement_info", {"namespace": "default", "pods": ["x"]}),
        ):
            done = modules.process(module, kubeconfig=None, host=host, api_key="secret-token", **options)
            assert_one_line(done, host, "connection refused", "start the cluster")
            assert "secret-token" not in json.dumps(done)


@pytest.mark.parametrize(
    "content, context, part",
    [
        (None, None, "does not exist"),
        ("", None, "can't be used"),
        ("apiVersion: v1\nkind: Config\n", None, "can't be used"),
        ("{: not yaml", None, "can't be used"),
        (b"\x00\xff\x01".decode("latin-1"), None, "can't be used"),
        ("real", "no-such-context", "no-such-context"),
    ],
    ids=["missing", "empty", "hollow", "garbage", "binary", "context"],
)
def test_unusable_kubeconfig(modules, cluster, tmp_path, content, context, part):
    path = tmp_path / ("absent-kubeconfig" if content is None else "bad-kubeconfig")
    if content is not None:
        path.write_text(cluster.kubeconfig.read_text() if content == "real" else content)
    done = modules.process("node_status", kubeconfig=str(path), context=context, nodes=[{"name": "x"}])
    # kubernetes.core 6.2 still counts the path as a secret.
    assert_one_line(done, "the kubeconfig", part)
    assert str(path) in done["msg"] or "********" in done["msg"]


def test_a_certificate_that_is_not_trusted(modules, cluster):
    host = json.loads(cluster.kubectl("config", "view", "-o", "json"))["clusters"][0]["cluster"]["server"]
    done = modules.process(
        "node_labels", kubeconfig=None, host=host, api_key="x", validate_certs=True, nodes=[{"name": "x"}]
    )
    assert_one_line(done, "certificate", host)


def test_results_hold_no_secrets(modules, cluster):
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    done = modules.process("node_labels", kubeconfig=config, nodes=[])
    key = config["users"][0]["user"]["client-key-data"]
    assert not done["changed"] and key not in json.dumps(done)
    assert key not in Path(modules.folder / "node_labels-0.json").name
