# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: what the providers of a control plane share: their error, and the lock of a cluster's folder."""

from __future__ import annotations

import contextlib
import errno
import re
import time
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.kwok_processes import lock_file

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# What to do when the operating system refuses a file.
ADVICE = {
    errno.ENOSPC: "make about 1 GiB free on its disk and run again",
    errno.EDQUOT: "make about 1 GiB of the quota free and run again",
    errno.EROFS: "make it writable, or set lab_root to a folder that is",
    errno.EACCES: "make it writable, or set lab_root to a folder that is",
    errno.EPERM: "make it writable, or set lab_root to a folder that is",
    errno.ENOTDIR: "a file is in the way: move it, or set lab_root to another folder",
    errno.EEXIST: "a file is in the way: move it, or set lab_root to another folder",
    errno.EISDIR: "a folder is in the way: move it, or set lab_root to another folder",
    errno.ENAMETOOLONG: "set lab_root to a shorter path",
    errno.ELOOP: "its links lead in a circle: mend them, or set lab_root to another folder",
}


class ClusterError(Exception):
    """One line for the user: what is wrong and what to do."""


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ClusterError(
            f"the cluster's name {name!r} is not made of small letters, digits and inner dashes: set control_plane_name"
        )


def explain(error: OSError, root: Path) -> str:
    """What the operating system refused, and what to do about it, in one line."""
    advice = ADVICE.get(error.errno or 0, "mend that and run again")
    return f"{error.filename or root}: {error.strerror or error}. The control plane needs it: {advice}"


def foreign_kubeconfig(path: Path) -> ClusterError:
    return ClusterError(
        f"{path} is not this cluster's kubeconfig and is left alone: move it away, or set control_plane_kubeconfig to another file"
    )


def lock_path(root: Path) -> Path:
    # Beside the folder, since it outlives it.
    return root.with_name(f".{root.name}.lock")


@contextlib.contextmanager
def locked(root: Path, seconds: float) -> Iterator[None]:
    """One start or removal of the cluster below `root` at a time, also across a killed run whose worker still works."""
    path = lock_path(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    while True:
        with open(path, "a", encoding="utf-8") as file:
            if lock_file(file, path):
                yield
                return
        if time.monotonic() > deadline:
            raise ClusterError(
                f"another run has been working on the control plane below {root} for {seconds:g} s: wait for it or end it, then run again"
            )
        time.sleep(0.2)
