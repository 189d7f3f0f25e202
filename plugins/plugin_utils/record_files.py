# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: record files, written whole or not at all, and only where they differ."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class RecordError(Exception):
    """One line for the user: which record, what is wrong, what to do."""


@dataclass
class Change:
    path: Path
    before: str | None
    after: str
    mode: int

    def diff(self) -> dict[str, str]:
        return {
            "before": self.before or "",
            "after": self.after,
            "before_header": str(self.path) if self.before is not None else "absent",
            "after_header": str(self.path),
        }


def below(root: Path, name: str) -> Path:
    """The path of a file or folder below root; anything else is an error."""
    path = Path(os.path.normpath(root / name))
    if not path.is_relative_to(os.path.normpath(root)):
        raise RecordError(f"record {name!r} would lie outside {root}: give a path below it")
    return path


def compare(root: Path, record: dict[str, Any]) -> Change | None:
    """The change that brings one record about, or None where the file is as it should be.

    record: {path: relative to root, content: text, lines, or data for a .json file, mode: octal text}.
    Text gets exactly one newline at its end; without any line the file is empty.
    """
    path = below(root, record["path"])
    if not re.fullmatch("0?[0-7]{3}", record["mode"]):
        raise RecordError(f"record {record['path']!r}: mode {record['mode']!r} is no octal number such as '0644'")
    mode = int(record["mode"], 8)
    after = _text(record["content"], path.suffix == ".json")
    if path.is_dir():
        raise RecordError(f"record {path} cannot be written, because it is a folder: remove or rename it")
    try:
        # Bytes, because reading text would hide other line endings.
        before = path.read_bytes() if path.is_file() else None
        same_mode = before is not None and path.stat().st_mode & 0o777 == mode
    except OSError as error:
        raise _failed(path, error) from error
    if before == _bytes(after) and same_mode:
        return None
    return Change(path, None if before is None else before.decode("utf-8", "replace"), after, mode)


def make_folders(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _failed(folder, error) from error


def write(changes: list[Change]) -> None:
    """Write them all; each file is replaced whole. The error of a failure names what was written before it."""
    written: list[str] = []
    for change in changes:
        # Always the same name, so that the next run replaces what a killed one left half written.
        temporary = change.path.with_name(f".{change.path.name}.part")
        try:
            change.path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(_bytes(change.after))
                file.flush()
                os.fchmod(file.fileno(), change.mode)
                os.fsync(file.fileno())
            os.replace(temporary, change.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise _failed(change.path, error, written) from error
        written.append(str(change.path))


def remove(paths: list[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _failed(path, error) from error


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of the folders that hold nothing, in the order given."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _text(content: Any, as_json: bool) -> str:
    if as_json and not isinstance(content, str):
        content = json.dumps(content, indent=2, ensure_ascii=False)
    elif isinstance(content, list):
        content = "\n".join(str(line) for line in content)
    text = str(content).rstrip("\n")
    return text + "\n" if text else ""


def _bytes(text: str) -> bytes:
    # Half a surrogate pair, as "\ud800" in somebody's JSON is, has no other form in UTF-8.
    return text.encode("utf-8", "backslashreplace")


def _failed(path: Path, error: OSError, written: list[str] | None = None) -> RecordError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "make room and run again"
    elif error.errno in (errno.ENOTDIR, errno.EEXIST):
        advice = "a file is where a folder should be: move it away, or choose another folder for the root"
    else:
        advice = "make the folder writable, or choose another one for the root"
    done = f"; written before it: {', '.join(written)}" if written else ""
    return RecordError(f"record {path} cannot be written ({error.strerror}): {advice}{done}")
