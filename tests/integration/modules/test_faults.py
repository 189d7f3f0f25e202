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

        do_GET = do_PATCH = do_POST = do_DELETE = answer

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


PAGE = "<!DOCTYPE html>\n<html><head><title>Sign in\x1b[31m</title></head>\n<body>Welcome</body></html>"
NAMELESS = {"kind": "Node", "metadata": {}}
# (answer, what is said of it): no JSON, and JSON of which no object can be.
NO_OBJECTS = [
    (PAGE, 'a web page ("Sign in [31m")'),
    ("", "an empty answer"),
    ("Blocked by\tpolicy 7", "text that is no JSON (Blocked by policy 7)"),
    ('{"kind": "List", "items": [', "text that is no JSON ("),
    ("[" * 100000, "text that is no JSON ("),
    ("null", "null"),
    ("[]", "a list"),
    ('"secret"', "a string"),
    ("7", "a number"),
    ("true", "true or false"),
]
NO_LISTS = [
    ({}, "an object without items"),
    ({"metadata": {}, "message": "log in first"}, "an object without items"),
    ({"metadata": {}, "items": {}}, "items that are an object"),
    ({"metadata": {}, "items": "secret"}, "items that are a string"),
    ({"items": []}, "a list without metadata"),
    ({"items": [], "metadata": None}, "a list without metadata"),
    ({"metadata": {}, "items": [NODE, 7]}, "items[1] without metadata.name"),
    ({"metadata": {}, "items": [None]}, "items[0] without metadata.name"),
    ({"metadata": {}, "items": [NAMELESS]}, "items[0] without metadata.name"),
    ({"metadata": {}, "items": [{"metadata": {"name": 7}}]}, "items[0] without metadata.name"),
]
NOT_NAMED = [({}, "an object without metadata.name"), (NAMELESS, "an object without metadata.name")]
NO_GROUPS = [
    ({}, "an object without a list of versions"),
    ({"versions": {}}, "an object without a list of versions"),
    ({"versions": [7]}, "an entry without groupVersion"),
    ({"versions": [{}], "preferredVersion": None}, "an entry without groupVersion"),
]
NO_RESOURCES = [
    ({"resources": None}, "an object without a list of resources"),
    ({"resources": [{"name": None}]}, "an entry without name"),
]
NO_EVENTS = [
    ("{}", "an object that is no event"),
    ('{"type": "OTHER", "object": {"metadata": {"name": "n"}}}', "an object that is no event"),
    ('{"type": ["ADDED"], "object": {"metadata": {"name": "n"}}}', "an object that is no event"),
    ('{"type": "ADDED", "object": null}', "an object that is no event"),
    ('{"type": "ADDED", "object": {}}', "an event without metadata.name"),
    ('{"type": "DELETED", "object": {"metadata": {}}}', "an event without metadata.name"),
    ('{"type": "BOOKMARK", "object": {"metadata": null}}', "an event without metadata.name"),
]
APPS = {"versions": [{"groupVersion": "apps/v1"}]}


def posted(api):
    """As modules create objects."""
    return api.request("post", "/api/v1/nodes", ("create", "nodes", None), body={}, content_type="application/json")


def deleted(api):
    return api.request("delete", "/api/v1/nodes/n", ("delete", "nodes", None))


# method and path, what is asked, and what is no answer to it.
REQUESTS = {
    "list": ("GET", "/api/v1/nodes", lambda api: api.list("nodes"), NO_LISTS),
    "get": ("GET", "/api/v1/nodes/n", lambda api: api.get("nodes", "n"), NOT_NAMED),
    "patch": ("PATCH", "/api/v1/nodes/n", lambda api: api.patch("nodes", "n", {}), NOT_NAMED),
    "create": ("POST", "/api/v1/nodes", posted, [({}, "an object without metadata")]),
    "delete": ("DELETE", "/api/v1/nodes/n", deleted, []),
    "watch": ("WATCH", "/api/v1/nodes", lambda api: list(api.watch("nodes", "1", 1)), NO_EVENTS),
    "group": ("GET", "/apis/apps", lambda api: api.serves("daemonsets.apps"), NO_GROUPS),
    "resources": ("GET", "/apis/apps/v1", lambda api: api.list("daemonsets.apps"), NO_RESOURCES),
}


@pytest.mark.parametrize("verb", REQUESTS)
def test_an_answer_of_another_form_is_told_in_one_line(server, api, verb):
    """A proxy's page or another kind of server: never taken for an empty list, and never in Python's words."""
    method, path, ask, odd = REQUESTS[verb]
    server.answers["GET", "/apis/apps"] = [(200, APPS)]
    said = f"{path}?watch=true" if verb == "watch" else path
    # A watch is read line by line, and one that brings nothing is one in which nothing happened.
    lines = [(PAGE, "text that is no JSON (<!DOCTYPE html>)"), *NO_OBJECTS[2:]]
    for answer, words in [*(lines if verb == "watch" else NO_OBJECTS), *odd]:
        server.answers[method, path] = [(200, answer + "\n" if verb == "watch" else answer)]
        with pytest.raises(_client.ApiError) as failure:
            ask(api)
        told = str(failure.value)
        sent = "GET" if method == "WATCH" else method
        assert told.startswith(f"{server.host} answered {sent} {said} with {words}"), (answer, told)
        assert "check host and kubeconfig, and whether a proxy" in told and told.isprintable() and "secret" not in told
        assert failure.value.status is None and len(told) < 400


def test_a_stream_that_is_none_is_told_though_no_line_ends(server, api):
    server.answers["WATCH", "/api/v1/nodes"] = [(200, "<html>Blocked</html>")]
    with pytest.raises(_client.ApiError, match="watch=true with text that is no JSON .<html>Blocked"):
        list(api.watch("nodes", "1", 1))
    # An event that is cut off is none, and what came before it counts.
    whole = json.dumps({"type": "ADDED", "object": NODE})
    server.answers["WATCH", "/api/v1/nodes"] = [(200, f"{whole}\n\n{whole[:20]}")]
    assert list(api.watch("nodes", "1", 1)) == [("ADDED", NODE)]


def test_an_error_in_a_watch_needs_no_message(server, api):
    for status, words in (({"reason": "Gone", "code": 410}, "Gone"), ({"code": "410"}, "it gives no reason")):
        server.answers["WATCH", "/api/v1/nodes"] = [(200, json.dumps({"type": "ERROR", "object": status}) + "\n")]
        with pytest.raises(_client.ApiError, match=f"ended the watch: {words}$") as failure:
            list(api.watch("nodes", "1", 1))
        assert failure.value.status == (410 if words == "Gone" else None)


def test_null_is_an_empty_list_as_go_writes_it(server, api):
    """Also for those who send the request themselves."""
    server.answers["GET", "/api/v1/nodes"] = [(200, {"metadata": {"resourceVersion": "4"}, "items": None})]
    assert api.list("nodes") == ([], "4")
    assert api.request("get", "/api/v1/nodes", ("list", "nodes", None))["items"] == []


def test_the_version_that_a_server_prefers_is_used_and_may_be_left_out(server, api):
    server.answers["GET", "/apis/apps"] = [
        (200, {"preferredVersion": {"groupVersion": "apps/v1"}, "versions": [{"groupVersion": "apps/v2"}]})
    ]
    for version in ("v1", "v2"):
        server.answers["GET", f"/apis/apps/{version}"] = [(200, {"resources": [{"name": "daemonsets"}]})]
    assert api.group_version("daemonsets.apps") == "apps/v1"
    other = _client.connect(host=server.host, api_key="token")
    server.answers["GET", "/apis/apps"] = [(200, {"versions": [{"groupVersion": "apps/v2"}]})]
    assert other.group_version("daemonsets.apps") == "apps/v2"


def test_the_first_contact_with_something_else(server, tmp_path):
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server.host}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    missing = [({}, "an object without gitVersion"), ({"gitVersion": None}, "an object without gitVersion")]
    for answer, _words in NO_OBJECTS + missing:
        server.answers["GET", "/version"] = [(200, answer)]
        with pytest.raises(_client.ApiError) as failure:
            _client.connect(host=server.host, api_key="other")
        assert str(failure.value).startswith(f"{server.host} answered GET /version with "), answer
        assert " in place of its version: no Kubernetes API server does so" in str(failure.value)
        with pytest.raises(_client.ApiError, match="answered GET /version with .* in place of its version"):
            _client.connect(kubeconfig=str(tmp_path / "config"))


def test_a_module_tells_a_user_so(server, modules):
    """A login page in place of the nodes, and something that could be taken for an empty cluster."""
    for answer, words in ((PAGE, "a web page"), ({"kind": "Status", "metadata": {}}, "an object without items")):
        server.answers["GET", "/api/v1/nodes"] = [(200, answer)]
        found = modules.process("operand_audit", kubeconfig=None, host=server.host, api_key="token")
        assert found["failed"] and found["msg"].startswith(f"{server.host} answered GET /api/v1/nodes with {words}")
        assert "exception" not in found and "\n" not in found["msg"]
