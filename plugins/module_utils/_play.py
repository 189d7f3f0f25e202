# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the play that this process works for is still there. Private to the collection.

Ansible runs its workers in sessions of their own, so a module outlives a play that was killed. What it still writes then
comes after whatever was run to clean up.
"""

from __future__ import annotations

import os
from collections.abc import Callable

# module, shell, worker, ansible-playbook, and one to spare.
DEEPEST = 5


def _parent_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _is_ansible(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return any(os.path.basename(part).startswith(b"ansible") for part in file.read().split(b"\0")[:2])
    except OSError:
        return False


def line_of_descent(
    pid: int,
    parent_of: Callable[[int], int | None] = _parent_of,
    is_ansible: Callable[[int], bool] = _is_ansible,
) -> list[tuple[int, int]]:
    """[(pid, its parent), ...] from a process up to the outermost ansible above it; empty where there is none, or no /proc."""
    line: list[tuple[int, int]] = []
    outermost = 0
    while pid and len(line) < DEEPEST:
        parent = parent_of(pid)
        if not parent:
            break
        line.append((pid, parent))
        pid = parent
        if is_ansible(pid):
            outermost = len(line)
    return line[:outermost]


LINE = line_of_descent(os.getpid())


def has_ended() -> bool:
    """Whether a process between this one and its ansible-playbook, or that itself, has ended since this one began."""
    return any(_parent_of(pid) != parent for pid, parent in LINE)
