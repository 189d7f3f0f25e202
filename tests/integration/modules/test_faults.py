# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers that a real API server can't be made to give: a server of our own gives them."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _client, _node_labels, _node_status, _placement

NODE = {"metadata": {"name": "n", "resourceVersion": "1", "labels": {}}, "status": {"capacity": {}, "allocatable": {}}}
POD = {
    "metadata": {"name": "p", "namespace": "default", "resourceVersion": "5"},
    "spec": {"nodeName": "n", "containers": []},
    "status": {"phase": "Running"},
}
LABELS = {
    "nodes": [{"name": "n", "labels": {"a": "b"}, "labels_state": None, "labels_to_remove": None}],
    "labels": {},
    "labels_state": "merge",
    "labels_to_remove": [],
    "require_originals": False,
}
PODS = {"namespace": "default", "pods": ["p"], "label_selector": None, "wait_timeout": 10}


def listing(*items, **metadata):
    return 200, {"kind": "List", "metadata": {"resourceVersion": "4", **metadata}, "items": list(items)}


@pytest.fixture
def server():
    """Gives, per (method, path without query), the answers of a list, the last one for ever: (status, JSON or text, headers)."""
    answers = {
        ("GET", "/version"): [(200, {"gitVersion": "v1.37.2", "major": "1", "minor": "37"})],
        ("GET", "/apis"): [(200, {"kind": "APIGroupList", "groups": []})],
    }
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            path = self.path.partition("?")[0]
            seen.append((self.command, self.path))
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            key = ("WATCH", path) if "watch=true" in self.path else (self.command, path)
            options = answers.get(key) or [(404, {"message": f"no {key}"})]
            status, content, *headers = options.pop(0) if len(options) > 1 else options[0]
            body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **(headers[0] if headers else {}),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PATCH = answer

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        running.answers, running.seen = answers, seen
        running.host = f"http://127.0.0.1:{running.server_port}"
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def api(server):
    return _client.connect(host=server.host, api_key="token")


def test_busy_is_asked_again_after_the_pause_it_names(server, api):
    done = json.loads(json.dumps(NODE))
    done["metadata"]["labels"] = {"a": "b"}
    server.answers["GET", "/api/v1/nodes"] = [(503, "starting"), listing(NODE)]
    server.answers["PATCH", "/api/v1/nodes/n"] = [
        (429, {"message": "slow down"}, {"Retry-After": "1"}),
        (500, {"message": "etcd"}),
        (200, done),
    ]
    began = time.monotonic()
    assert _node_labels.run(api, LABELS, False)["changed"]
    assert time.monotonic() - began >= 1
    assert [method for method, path in server.seen if path.startswith("/api/v1/nodes/n")] == ["PATCH"] * 3


def test_patience_ends(server, api, monkeypatch):
    monkeypatch.setattr(_client, "LONGEST_PAUSE", 0)
    monkeypatch.setattr(_client.Retries, "get_backoff_time", lambda self: 0)
    server.answers["GET", "/api/v1/nodes"] = [
        (429, {"message": "quota of requests is used up"}, {"Retry-After": "86400"})
    ]
    with pytest.raises(_client.ApiError, match="quota of requests is used up .HTTP 429"):
        api.list("nodes")
    assert len([path for _method, path in server.seen if path.startswith("/api/v1/nodes")]) == 7


def test_a_server_that_is_just_starting_is_waited_for(server):
    server.answers["GET", "/version"].insert(0, (503, "not yet"))
    assert _client.connect(host=server.host, api_key="token").version == "v1.37.2"


def test_success_that_changes_nothing_is_a_failure(server, api):
    server.answers["GET", "/api/v1/nodes"] = [listing(NODE)]
    server.answers["PATCH", "/api/v1/nodes/n"] = server.answers["PATCH", "/api/v1/nodes/n/status"] = [(200, NODE)]
    with pytest.raises(_client.ApiError, match="node n: .*does not hold what was asked for a.b/gpu"):
        entry = {"name": "n", "resources": {"a.b/gpu": 1}, "resources_to_remove": None}
        options = {
            "resources": {},
            "resources_state": "merge",
            "resources_prefix": None,
            "resources_to_remove": [],
            "force": False,
            "require_originals": False,
        }
        _node_status.run(api, {"nodes": [entry], **options}, False)
    with pytest.raises(_client.ApiError, match="node n: .*its answer differs at a"):
        _node_labels.run(api, LABELS, False)


def test_conflicts_without_end_are_told(server, api):
    server.answers["GET", "/api/v1/nodes"] = [listing(NODE)]
    server.answers["GET", "/api/v1/nodes/n"] = [(200, NODE)]
    server.answers["PATCH", "/api/v1/nodes/n"] = [(409, {"message": "the object has been modified"})]
    with pytest.raises(_client.ApiError, match="node n: .*has been modified"):
        _node_labels.run(api, LABELS, False)
    assert len([method for method, _path in server.seen if method == "PATCH"]) == 5


def test_a_node_deleted_before_its_write_is_told(server, api):
    server.answers["GET", "/api/v1/nodes"] = [listing(NODE)]
    server.answers["PATCH", "/api/v1/nodes/n"] = [(404, {"message": 'nodes "n" not found'})]
    with pytest.raises(_client.ApiError, match='nodes "n" not found') as failure:
        _node_labels.run(api, LABELS, False)
    assert failure.value.details == {"written": [], "not_written": ["n"]}


def test_a_list_that_grew_too_old_is_begun_anew(server, api):
    other = {"metadata": {"name": "m", "resourceVersion": "2"}}
    server.answers["GET", "/api/v1/nodes"] = [
        listing(NODE, **{"continue": "x"}),
        (410, {"message": "too old"}),
        listing(NODE, **{"continue": "y"}),
        listing(other),
    ]
    items, _version = api.list("nodes")
    assert [item["metadata"]["name"] for item in items] == ["n", "m"]


@pytest.mark.parametrize("status", [410, 500])
def test_a_watch_from_a_forgotten_version_lists_again(server, api, status):
    server.answers["GET", "/api/v1/namespaces/default/pods"] = [listing(), listing(POD)]
    forgotten = {"type": "ERROR", "object": {"kind": "Status", "code": status, "message": "too old resource version"}}
    server.answers["WATCH", "/api/v1/namespaces/default/pods"] = [(200, json.dumps(forgotten) + "\n")]
    assert _placement.run(api, PODS, False)["placements"][0]["node"] == "n"


def test_a_watch_that_closes_is_resumed_where_it_ended(server, api):
    server.answers["GET", "/api/v1/namespaces/default/pods"] = [listing()]
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "42"}}}
    server.answers["WATCH", "/api/v1/namespaces/default/pods"] = [
        (200, ""),
        (200, json.dumps(bookmark) + "\n"),
        (200, json.dumps({"type": "ADDED", "object": POD}) + "\n"),
    ]
    assert _placement.run(api, PODS, False)["placements"][0]["node"] == "n"
    watches = [path for _method, path in server.seen if "watch=true" in path]
    assert ["resourceVersion=42" in path for path in watches] == [False, False, True]


def test_something_else_than_an_api_server(server, api):
    server.answers["GET", "/api/v1/nodes"] = [(200, "<html>Welcome</html>")]
    with pytest.raises(_client.ApiError, match="not JSON: is it a Kubernetes API server"):
        api.list("nodes")
    server.answers["GET", "/version"] = [(200, "<html>Welcome</html>")]
    with pytest.raises(_client.ApiError):
        _client.connect(host=server.host, api_key="other")
