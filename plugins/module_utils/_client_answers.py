# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API's answers, each of the form that its request asks for: what is of another one is an ApiError. Private to the collection.

A login page, a proxy or another kind of server may answer with 200 too. Taken for an empty list, that would be a cluster in
which all is well. Values never stand in a message, as a Pod's may be secret; of what is no JSON at all the beginning does.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client_errors import ApiError, one_line

_SHOWN = 60
_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


class Request(NamedTuple):
    """What was asked, for messages."""

    host: str
    method: str
    path: str

    def unlike(self, came: str, expected: str) -> ApiError:
        """An ApiError for an answer of another form than `expected`."""
        return ApiError(
            f"{self.host} answered {self.method.upper()} {self.path} with {came} in place of {expected}: no Kubernetes API server does so;"
            " check host and kubeconfig, and whether a proxy or login page stands before the server"
        )


def parsed(request: Request, body: bytes, expected: str = "a JSON object") -> dict[str, Any]:
    """The JSON object that an answer, or a line of one, holds."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise request.unlike(_text(body.decode("utf-8", "replace")), expected) from error
    if not isinstance(answer, dict):
        raise request.unlike(_kind(answer), expected)
    return answer


def checked(request: Request, verb: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, if it has what the verb of RBAC asks for; a list's items are a list then, though Go writes null for an empty one."""
    if verb == "list":
        return _page(request, answer)
    if verb in ("get", "patch", "update") and not _is_named(answer):
        raise request.unlike("an object without metadata.name", "a Kubernetes object")
    if verb == "create" and not isinstance(answer.get("metadata"), dict):
        raise request.unlike("an object without metadata", "a Kubernetes object")
    return answer


def _page(request: Request, page: dict[str, Any]) -> dict[str, Any]:
    if "items" not in page:
        raise request.unlike("an object without items", "a list of objects")
    if not isinstance(page.get("metadata"), dict):
        raise request.unlike("a list without metadata", "a list of objects")
    items = [] if page["items"] is None else page["items"]
    if not isinstance(items, list):
        raise request.unlike(f"items that are {_kind(items)}", "a list of objects")
    for at, item in enumerate(items):
        if not _is_named(item):
            raise request.unlike(f"items[{at}] without metadata.name", "a list of objects")
    return {**page, "items": items}


def _is_named(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("metadata"), dict)
        and isinstance(item["metadata"].get("name"), str)
    )


def versions_of(request: Request, group: dict[str, Any]) -> list[str]:
    """The versions of an API group, such as apps/v1; the one that the server prefers goes first."""
    found = [group.get("preferredVersion"), *_entries(request, group, "versions")]
    return list(dict.fromkeys(_word(request, one, "groupVersion") for one in found if one is not None))


def resources_of(request: Request, version: dict[str, Any]) -> list[str]:
    """The resources of a version of an API group, such as daemonsets and daemonsets/status."""
    return [_word(request, one, "name") for one in _entries(request, version, "resources")]


def _entries(request: Request, answer: dict[str, Any], field: str) -> list[Any]:
    if not isinstance(answer.get(field), list):
        raise request.unlike(f"an object without a list of {field}", f"the API's {field}")
    found: list[Any] = answer[field]
    return found


def _word(request: Request, entry: Any, field: str) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get(field), str):
        raise request.unlike(f"an entry without {field}", "a list of what the API serves")
    word: str = entry[field]
    return word


def server_version(request: Request, body: bytes) -> str:
    """The gitVersion of /version."""
    version = parsed(request, body, "its version").get("gitVersion")
    if not isinstance(version, str):
        raise request.unlike("an object without gitVersion", "its version")
    return version


def event_of(request: Request, line: bytes) -> tuple[str, dict[str, Any]]:
    """(type, object) of a line of a watch. Raises an ApiError with the status of an event of type ERROR."""
    event = parsed(request, line, "an event of a watch")
    kind, item = event.get("type"), event.get("object")
    if kind not in _EVENTS or not isinstance(item, dict):
        raise request.unlike("an object that is no event", "an event of a watch")
    if kind == "ERROR":
        status = item.get("code")
        message = item.get("message") or item.get("reason") or "it gives no reason"
        raise ApiError(f"the API server ended the watch: {message}", status if isinstance(status, int) else None)
    if not isinstance(item.get("metadata"), dict) or (kind != "BOOKMARK" and not _is_named(item)):
        raise request.unlike("an event without metadata.name", "an event of a watch")
    return kind, item


def _text(text: str) -> str:
    """Say what a text is that is no JSON."""
    text = one_line("".join(one if one.isprintable() else " " for one in text))
    title = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
    if title and title.group(1).strip():
        return f'a web page ("{title.group(1).strip()[:_SHOWN]}")'
    if not text:
        return "an empty answer"
    return f"text that is no JSON ({text[:_SHOWN]}{' ...' if len(text) > _SHOWN else ''})"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "an object", list: "a list", str: "a string", bool: "true or false"}.get(type(value), "a number")
