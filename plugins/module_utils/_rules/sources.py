# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a filter's objects come from: variables, files or folders.

Private to the collection gpuwl.sandbox.
"""

import os
from typing import Any, Callable, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.dump import read_dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import collect


def collect_from(source: Any, kind: str, take: Callable[[Dict[str, Any]], Any]) -> List[Any]:
    """Return what `take` makes of each object of a kind, "Node" or "Pod".

    source: the path of a dump, a list of objects, a List or a single object.
    Raises Unreadable.
    """
    if isinstance(source, str):
        return read_dump(source, kind, take)
    return collect(source, kind, take)


def files_of(path: str) -> List[str]:
    """Return the files that a path stands for: itself, or if it is a folder those in it at any depth.

    Hidden files and folders, and what is no regular file, are left out of a folder.
    Ascending by path. Raises OSError if a folder cannot be listed.
    """
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            full = os.path.join(folder, name)
            if not name.startswith(".") and os.path.isfile(full):
                found.append(full)
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error
