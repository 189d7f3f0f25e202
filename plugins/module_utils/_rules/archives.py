# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks into folders, and into gzip and tar as streams: nothing is put on disk, and no header can ask for memory.

Private to the collection gpuwl.sandbox. Sources of the forms: RFC 1952 (gzip), and POSIX
pax with GNU tar's long names. Not tarfile, which keeps every member and reads
a header of any length into memory.
"""

import os
import stat
import zlib
from typing import Callable, Dict, Iterator, Set, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable

MAX_MEMBERS = 100000  # of one archive
MAX_NAME = 4096  # characters, as Linux has it
_BLOCK = 512
_PIECE = 1 << 18
_MAX_HEADER = 1 << 20
_TRUNCATED = "its archive is truncated"
_CORRUPT = "its archive is corrupt"
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\3\4", "zip"),
    (b"(\xb5/\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)
_LEFT_OUT_TYPES = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"5": "a folder", b"6": "a FIFO"}


class Stream:
    """Bytes that come in pieces of any size."""

    def __init__(self, pull: Callable[[], bytes]) -> None:
        """pull: gives the next piece, empty only at the end."""
        self._pull = pull
        self._held = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """Take some bytes, at most that many, none only at the end."""
        if self._at == len(self._held):
            self._held, self._at = self._pull(), 0
        taken = self._held[self._at : self._at + size]
        self._at += len(taken)
        if self._at == len(self._held):
            self._held, self._at = b"", 0
        return taken

    def put_back(self, taken: bytes) -> None:
        """Put the bytes that were taken last, or the end of them, back."""
        if taken and self._at >= len(taken):
            self._at -= len(taken)
        elif taken:
            self._held, self._at = taken + self._held[self._at :], 0

    def peek(self, size: int) -> bytes:
        """Return that many bytes without taking them, fewer only at the end."""
        while len(self._held) - self._at < size:
            more = self._pull()
            if not more:
                break
            self._held, self._at = self._held[self._at :] + more, 0
        return self._held[self._at : self._at + size]

    def exactly(self, size: int) -> bytes:
        """Take that many bytes, fewer only at the end. Meant for few."""
        taken = self.peek(size)
        self._at += len(taken)
        return taken

    def skip(self, size: int) -> bool:
        """Pass over that many bytes; return whether there were so many."""
        while size > 0:
            passed = len(self.read(min(size, _PIECE)))
            if not passed:
                return False
            size -= passed
        return True


def packed_form(head: bytes) -> str:
    """Return "gzip", "tar", "zip" and the like for the first 512 bytes of such a file, "" for others."""
    if head[257:262] == b"ustar":
        return "tar"
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def unzipped(packed: Stream) -> Stream:
    """Return what is in a gzip file of one or more parts. Reading it raises Unreadable."""
    pieces = _unzipped_pieces(packed)
    return Stream(lambda: next(pieces, b""))


def _unzipped_pieces(packed: Stream) -> Iterator[bytes]:
    for _part in range(MAX_MEMBERS):
        inflate = zlib.decompressobj(31)
        waiting = b""
        while not inflate.eof:
            waiting = waiting or packed.read(1 << 14)
            if not waiting:
                raise Unreadable("its gzip data ends before its end: is it truncated?")
            try:
                piece = inflate.decompress(waiting, _PIECE)
            except zlib.error:
                raise Unreadable("its gzip data is corrupt") from None
            waiting = inflate.unconsumed_tail
            if piece:
                yield piece
        rest = inflate.unused_data.lstrip(b"\0")  # zeros are padding, as tapes have it
        while not rest and packed.peek(1) == b"\0":
            rest = packed.read(1 << 14).lstrip(b"\0")
        packed.put_back(rest)
        if not packed.peek(1):
            return
        if packed.peek(2) != b"\x1f\x8b":
            raise Unreadable("something follows its gzip data")
    raise Unreadable("its gzip data has more than 100,000 parts")


def members(packed: Stream) -> Iterator[Tuple[str, str, Stream]]:
    """Give (name, why it is not to be read or "", content) for each member of a tar file but folders.

    The content must be read, as far as it is wanted, before the next member is asked for.
    Raises Unreadable where the archive is damaged.
    """
    more: Dict[str, str] = {}
    for _member in range(MAX_MEMBERS):
        header = packed.exactly(_BLOCK)
        if len(header) < _BLOCK:
            raise Unreadable(_TRUNCATED)
        if not header.strip(b"\0"):
            packed.skip(1 << 62)  # a sum at the end of gzip tells whether it was whole
            return
        kind, name, size = _parsed(header)
        padded = size + -size % _BLOCK
        if kind in (b"L", b"K", b"x", b"g"):
            if size > _MAX_HEADER:
                raise Unreadable(_CORRUPT)
            data = packed.exactly(padded)
            if len(data) < padded:
                raise Unreadable(_TRUNCATED)
            more.update(_more_of(kind, data[:size]))
            continue
        name, size = more.get("path", name), _pax_size(more, size)
        padded = size + -size % _BLOCK
        reason = "sparse" if kind == b"S" or "sparse" in more else _why_not(kind, name)
        more = {}
        content = _Part(packed, size)
        if kind != b"5":
            yield name[:MAX_NAME], reason, Stream(content.pull)
        if not packed.skip(content.left + padded - size):
            raise Unreadable(_TRUNCATED)
    raise Unreadable("its archive has more than 100,000 members")


class _Part:
    """The next bytes of a stream, to a number of them."""

    def __init__(self, whole: Stream, size: int) -> None:
        self._whole = whole
        self.left = size

    def pull(self) -> bytes:
        piece = self._whole.read(min(self.left, _PIECE)) if self.left else b""
        if self.left and not piece:
            raise Unreadable(_TRUNCATED)
        self.left -= len(piece)
        return piece


def _parsed(header: bytes) -> Tuple[bytes, str, int]:
    """Return type, name and size from a header of tar."""
    if _number(header[148:156]) != sum(header[:148]) + 8 * 32 + sum(header[156:]):
        raise Unreadable(_CORRUPT)
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0]
    if header[257:263] == b"ustar\0" and prefix:
        name = prefix + b"/" + name
    size = _number(header[124:136])
    # Links, devices and folders have no content, whatever their size says.
    kind = header[156:157]
    return kind, name.decode("utf-8", "surrogateescape"), 0 if kind in _LEFT_OUT_TYPES else size


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # GNU tar's way for large ones
        value = int.from_bytes(field[1:], "big")
        if field[0] != 0x80:
            raise Unreadable(_CORRUPT)
        return value
    try:
        digits = field.split(b"\0")[0].strip(b" ")
        return int(digits, 8) if digits else 0
    except ValueError:
        raise Unreadable(_CORRUPT) from None


def _more_of(kind: bytes, data: bytes) -> Dict[str, str]:
    """Return what a header before a header says of the next member: its path and its size."""
    if kind == b"L":
        return {"path": data.split(b"\0")[0].decode("utf-8", "surrogateescape")}
    found: Dict[str, str] = {}
    at = 0
    while kind == b"x" and at < len(data):
        length = data[at : at + 8].split(b" ")[0]
        if not length.isdigit() or not 4 < int(length) <= len(data) - at:
            raise Unreadable(_CORRUPT)
        record = data[at + len(length) + 1 : at + int(length) - 1].decode("utf-8", "surrogateescape")
        key, _equals, value = record.partition("=")
        if key.startswith("GNU.sparse"):
            found["sparse"] = value
        if key in ("path", "size"):
            found[key] = value
        at += int(length)
    return found


def _pax_size(more: Dict[str, str], size: int) -> int:
    given = more.get("size", "")
    if not given:
        return size
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise Unreadable(_CORRUPT)
    return int(given)


def _why_not(kind: bytes, name: str) -> str:
    if len(name) > MAX_NAME:
        return "a name longer than that of any file"
    if kind in _LEFT_OUT_TYPES:
        return _LEFT_OUT_TYPES[kind]
    if kind not in (b"0", b"\0", b"7"):
        return "no regular file"
    if name.startswith(("/", "\\")) or name[1:2] == ":":
        return "an absolute name"
    return 'a name with ".."' if ".." in name.replace("\\", "/").split("/") else ""


def files_below(folder: str) -> Iterator[Tuple[str, str, str]]:
    """Give (path, real path, why it is not read or "") for what is in a folder at any depth, ascending by path.

    Hidden files and folders are left out. A link counts as what it leads to, within the folder and once.
    """
    root = os.path.realpath(folder)
    seen: Set[Tuple[int, int]] = set()
    waiting = [(folder, root)]
    while waiting:
        path, real = waiting.pop()
        try:
            found = os.stat(real)
            is_folder = stat.S_ISDIR(found.st_mode)
            why_not = _why_left_out(root, real, found, seen)
            names = os.listdir(real) if is_folder and not why_not else []
        except (OSError, ValueError) as error:
            problem = "cannot be read: %s" % (getattr(error, "strerror", None) or error)
            yield path, real, "a link to nothing" if os.path.islink(path) else problem
            continue
        if not is_folder or why_not:
            yield path, real, why_not
        inner = [(name, os.path.join(path, name)) for name in names if not name.startswith(".")]
        # What lies in a folder has its place by the whole path, as if folders ended with a slash.
        inner.sort(key=lambda pair: pair[1] + (os.sep if os.path.isdir(pair[1]) else ""), reverse=True)
        waiting += [(below, os.path.realpath(os.path.join(real, name))) for name, below in inner]


def _why_left_out(root: str, real: str, found: os.stat_result, seen: Set[Tuple[int, int]]) -> str:
    if os.path.commonpath([root, real]) != root:
        return "a link out of the folder"
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return "no regular file"
    identity = (found.st_dev, found.st_ino)
    if identity in seen:
        return "another name of what is read already"
    seen.add(identity)
    return ""
