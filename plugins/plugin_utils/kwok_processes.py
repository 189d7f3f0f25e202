# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: processes, ports and locks of a KWOK cluster, as the kernel knows them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import signal
import socket
import time
from pathlib import Path
from typing import IO


def running_below(folder: Path) -> dict[str, list[int]]:
    """Program path -> pids of this user's live processes that were started from `folder`.

    Pid files are not asked, nor need the folder still be there: its owner may have deleted it under the processes.
    """
    found: dict[str, list[int]] = {}
    prefix = os.fsencode(folder) + b"/"
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # A zombie's command line is empty.
            command = Path(entry.path, "cmdline").read_bytes().split(b"\0", 1)[0]
            if not command.startswith(prefix) or entry.stat().st_uid != os.getuid():
                continue
            executable = os.readlink(os.path.join(entry.path, "exe")).removesuffix(" (deleted)")
        except OSError:
            continue
        program = os.fsdecode(command)
        if os.path.basename(executable) == program_name(program):
            found.setdefault(program, []).append(int(entry.name))
    return found


def program_name(binary: str) -> str:
    """kwokctl starts kwok by the name kwok-controller, all others by their own."""
    name = os.path.basename(binary)
    return "kwok" if name == "kwok-controller" else name


def end(pid: int, patience: float) -> None:
    """SIGTERM, `patience` seconds, SIGKILL; by pidfd, so that a number that is given away meanwhile is safe."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if has_ended(pid):
                    return
                time.sleep(0.02)
    finally:
        os.close(handle)


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in ("Z", "X")


def prepare_child() -> None:
    """In the child: a killed play takes kwokctl with it (PR_SET_PDEATHSIG, prctl(2)), its daemons have no such tie; and
    kwokctl writes private keys 0644, which the mask makes 0600."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.umask(0o077)


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, below those that the kernel gives to outgoing connections, so that a restart finds them free."""
    found: list[int] = []
    while len(found) < count:
        port = random.randint(20000, 32000)
        if port not in found and port_trouble(port) is None:
            found.append(port)
    return found


def port_trouble(port: int) -> str | None:
    """Why nobody can listen on this port of 127.0.0.1, None where one can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror
        except OverflowError:
            return "ports go from 1 to 65535"
    return None


def lock_file(file: IO[str], path: Path) -> bool:
    """Lock a file that was opened at `path`; False where another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one who held it may have removed the file, and a lock on a file without a name locks nobody.
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
