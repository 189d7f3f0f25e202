# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for objects of a cluster by watching them. Private to the collection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.gpuwl.sandbox.plugins.module_utils._client import Api, ApiError

# Seconds after which a watch is opened anew, so that a connection that died unnoticed costs no more than this.
LONGEST_WATCH = 60


def watch_until(
    api: Api,
    resource: str,
    take_list: Callable[[list[dict[str, Any]]], bool],
    take_event: Callable[[str, dict[str, Any]], bool],
    seconds: float,
    namespace: str | None = None,
) -> bool:
    """LIST, then watch, until one of the two functions says that all has come about; returns whether it did in time.

    take_list(items) gets every LIST, take_event(type, object) every change since.
    """
    end = time.monotonic() + seconds
    items, version = api.list(resource, namespace)
    done = take_list(items)
    while not done and time.monotonic() < end:
        began = time.monotonic()
        try:
            for kind, item in api.watch(resource, version, min(end - began, LONGEST_WATCH), namespace):
                version = item["metadata"]["resourceVersion"]
                done = kind != "BOOKMARK" and take_event(kind, item)
                if done:
                    break
        except ApiError as error:
            # 410: that version is forgotten by now; 500 is how some proxies and old servers say the same.
            if error.status not in (410, 500):
                raise
            items, version = api.list(resource, namespace)
            done = take_list(items)
        if not done and time.monotonic() - began < 0.1:
            # Something closes watches at once; don't ask in a tight loop.
            time.sleep(0.2)
    return done
