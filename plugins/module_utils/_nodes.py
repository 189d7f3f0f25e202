# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules that write to many nodes have in common. Private to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import CONFLICTS, Api, ApiError

# Writes under way at a time. Measured: half the time of one at a time, on two cores shared with the API server.
WRITERS = 4

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def refuse(problems: list[str], what: str) -> None:
    """Raise one ApiError that lists all problems (strings), or do nothing when there are none. Called before any write."""
    if problems:
        raise ApiError(f"{what}: " + "; ".join(problems) + ". Nothing was written.")


def problems_of_names(nodes: list[dict[str, Any]]) -> list[str]:
    """Strings for entries of O(nodes) that have no name or the name of another one."""
    names = [entry["name"] for entry in nodes]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    problems = [
        f"node {name!r} stands {names.count(name)} times in nodes: say everything about a node in one entry"
        for name in repeated
    ]
    return problems + [
        f"nodes[{index}].name is empty: give the name of a Node object" for index, name in enumerate(names) if not name
    ]


def read_nodes(api: Api, names: list[str], metadata_only: bool = False) -> tuple[dict[str, dict[str, Any]], str]:
    """One LIST; returns ({name: Node object} of the named ones, resourceVersion). Unknown names are an ApiError, all in one."""
    # A single node is asked for by name: the field selector keeps a large cluster's other nodes off the wire.
    narrow: dict[str, Any] = {"field_selector": f"metadata.name={names[0]}"} if len(names) == 1 else {}
    items, version = api.list("nodes", metadata_only=metadata_only, **narrow)
    wanted = set(names)
    found = {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in wanted}
    unknown = [name for name in names if name not in found]
    refuse(
        [f"no such node: {', '.join(unknown)}"] if unknown else [],
        f"{len(unknown)} of {len(names)} nodes do not exist at {api.host}",
    )
    return found, version


def write_all(jobs: Mapping[str, Job], write: Callable[[str, Job], Answer]) -> dict[str, Answer]:
    """Call write(name, job) for every item of jobs ({name: job}), WRITERS at a time, and return {name: what it returned}.

    After a failure nothing is undone and nothing further is begun: the ApiError then says in its details which nodes
    were `written` and which `not_written`, so that it is known what a re-run will do.
    """
    answers: dict[str, Answer] = {}
    failures: dict[str, ApiError] = {}

    def write_one(name: str) -> None:
        if failures:
            return
        try:
            answers[name] = write(name, jobs[name])
        except ApiError as error:
            failures[name] = error

    with ThreadPoolExecutor(WRITERS) as pool:
        # list() hands on what is no ApiError, a bug of ours, with its traceback.
        list(pool.map(write_one, jobs))
    if failures:
        name, error = next(iter(failures.items()))
        written, left = [name for name in jobs if name in answers], [name for name in jobs if name not in answers]
        told = f"node {name}: {error}. Written before that: {len(written)} of {len(jobs)} nodes; run it again to do the rest"
        raise ApiError(told, error.status, written=written, not_written=left) from error
    return answers


def patch_until_current(
    api: Api,
    node: dict[str, Any],
    plan: Callable[[dict[str, Any]], dict[str, Any] | None],
    subresource: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """PATCH a node with what plan(node) gives, so that nothing somebody else writes meanwhile is lost.

    plan(node) returns the body of a merge patch, or None when the node already is as it should be. The patch carries
    the resourceVersion it was worked out from; when the API server says 409, the node is read again and planned anew.
    Returns (the Node object before, the Node object after).
    """
    name = node["metadata"]["name"]
    attempt = 0
    while True:
        attempt += 1
        body = plan(node)
        if body is None:
            return node, node
        body.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
        try:
            return node, api.patch("nodes", name, body, subresource)
        except ApiError as error:
            if error.status != 409 or attempt == CONFLICTS:
                raise
            node = api.get("nodes", name)
