# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a filter's objects come from: variables, files or folders.

Private to the collection gpuwl.sandbox.
"""

import json
import os
from typing import Any, Callable, Dict, List, Tuple

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


def files_of(paths: Any) -> List[Tuple[str, str]]:
    """Return (path, what is wrong with it or "") for each file that paths stand for.

    paths: a path or a list of them; a folder stands for what is in it at any depth but for hidden files and folders.
    What is no path, no regular file or cannot be listed has its place too, so that nothing given goes unmentioned.
    The files of a folder ascend by path.
    """
    found = []
    for path in paths if isinstance(paths, list) else [paths]:
        if not isinstance(path, str) or not path:
            words = json.dumps(path, default=repr)
            found.append((words, f"{words}: expected the path of a file or folder"))
        elif os.path.isdir(path):
            found += _inside(path)
        else:
            found.append((path, _wrong_file(path)))
    return found


def _inside(folder: str) -> List[Tuple[str, str]]:
    found = []

    def note(error: OSError) -> None:
        found.append((str(error.filename), f"{error.filename}: cannot be listed: {error.strerror}"))

    for inner, folders, files in os.walk(folder, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = os.path.join(inner, name)
                found.append((path, _wrong_file(path)))
    return sorted(found)


def _wrong_file(path: str) -> str:
    """Why a path that exists is not read: a FIFO, say, would be waited for without end."""
    return f"{path}: it is no regular file" if os.path.exists(path) and not os.path.isfile(path) else ""
