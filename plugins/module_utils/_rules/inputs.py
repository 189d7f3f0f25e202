# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads Kubernetes objects out of files, folders, archives and standard input, whatever their form.

Private to the collection gpuwl.sandbox. Sources of the forms: what kubectl prints as
JSON, YAML and descriptions, and what the GPU Operator's must-gather.sh puts into its folder.
"""

import contextlib
import os
import re
import stat
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.archives import (
    Stream,
    files_below,
    members,
    packed_form,
    unzipped,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.describe_dump import looks_described, read_described
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.json_dump import CHUNK, TOO_DEEP, Text, read_json
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import (
    Collector,
    Documents,
    Intake,
    NotObjects,
    Unreadable,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.yaml_dump import (
    begins_like_yaml,
    looks_like_yaml,
    read_yaml,
)

MAX_SIZE = 4 << 30
MAX_LEFT_OUT = 1000  # sources that only say that something was left out
MAX_DEPTH = 32  # folders below one another that a place tells apart
MAX_SOURCES = 1000  # sources with nothing to say that are kept
MAX_BROKEN = 1000  # sources in folders and archives that cannot be read, before reading ends

_HEAD = 1 << 16  # characters by which the form is told
_PROMISING = re.compile(r"\.(?:json|ya?ml)(?:\.(?:gz|bz2|xz|zip|zst))?$", re.IGNORECASE)
_LOOKS_LIKE_JSON = re.compile(r'\s*\{\s*"(?:apiVersion|kind|items|metadata|spec|status)"\s*:')
_READ = "read are JSON, YAML, the text of `kubectl describe node`, and these in gzip or tar"


class Source:
    """One file, or one member of an archive, that was looked at.

    path: as people know it: "dumps/a.json", "mg.tar.gz:must-gather/nodes.descr", "-" for standard input
    place: the path that was given, then the folders and the name below it
    given: it was named itself, not found in a folder or archive
    form: "json", "yaml", "describe" or "" where that is unknown
    counts: how many objects of each wanted kind were taken
    complaint: why it holds no object of the first wanted kind, though it could be read; "" if it has one
    error: why it could not be read, without the path; "" if it could
    left_out: why it was not read though it was found; "" if it was read
    """

    __slots__ = ("complaint", "counts", "error", "form", "given", "left_out", "path", "place")

    def __init__(self, path: str, place: Tuple[str, ...], given: bool = False) -> None:
        self.path = path
        # Every part is looked at for every object: the folders of a hostile archive may be very many.
        self.place = place if len(place) <= MAX_DEPTH else (*place[: MAX_DEPTH - 1], "/".join(place[MAX_DEPTH - 1 :]))
        self.given = given
        self.form = ""
        self.counts: Dict[str, int] = {}
        self.complaint = ""
        self.error = ""
        self.left_out = ""


Progress = Optional[Callable[[Source, int, int], None]]
Maker = Callable[[Source], Collector]


def read_inputs(
    paths: Sequence[str],
    takers: Dict[str, Callable[[Dict[str, Any], Source], None]],
    max_size: int = MAX_SIZE,
    progress: Progress = None,
) -> List[Source]:
    """Read all there is at some paths, and hand each object of the wanted kinds on as soon as it is read.

    paths: files, folders, archives, "-" for standard input. takers: by kind; "Node", if it is
    there, is what complaints are about. max_size: bytes, unpacked, of all paths together.
    progress: called with the source, the bytes read of its file and the file's size, 0 if unknown.
    Returns what was looked at, in the order of reading. Raises nothing for bad input.
    """

    bound: Dict[str, Callable[[Dict[str, Any]], None]] = {}
    bound_to: Optional[Source] = None

    def make(source: Source) -> Collector:
        nonlocal bound, bound_to
        if source is not bound_to:  # once for all documents of a file, of which there may be very many
            bound, bound_to = {kind: _bound(take, source) for kind, take in takers.items()}, source
        return Intake(bound, source.counts)

    return read_paths(paths, make, max_size, progress)[0]


def read_paths(paths: Sequence[str], make: Maker, max_size: int, progress: Progress) -> Tuple[List[Source], List[Any]]:
    """Do the same with collectors of one's own; return the sources and what the collectors gave."""
    reading = _Reading(make, max_size, progress)
    for path in paths:
        reading.path(path)
    return reading.sources + reading.last, reading.results


def _bound(take: Callable[[Dict[str, Any], Source], None], source: Source) -> Callable[[Dict[str, Any]], None]:
    return lambda item: take(item, source)


class _TooMuch(Unreadable):
    """More than may be read in all."""


class _Reading:
    """Reads paths, one after the other, within common limits.

    sources: what was looked at; last: one that stands for all that is left out beyond a number.
    """

    def __init__(self, make: Maker, max_size: int, progress: Progress) -> None:
        self.sources: List[Source] = []
        self.last: List[Source] = []
        self.results: List[Any] = []
        self._make = make
        self._max_size = max_size
        self._progress = progress
        self._unpacked = 0
        self._left_out = 0
        self._broken = 0
        self._has_stopped = False
        self._now: Optional[Source] = None

    def path(self, path: Any) -> None:
        """Read what is at a path that was given."""
        source = Source(path if isinstance(path, str) else repr(path)[:80], (str(path),), given=True)
        self._has_stopped = False
        if not isinstance(path, str) or not path:
            source.error = "expected the path of a file or folder"
            self._keep(source)
        elif path != "-" and os.path.isdir(path):
            for found, name, why_not in files_below(path):
                if self._has_stopped:
                    return
                inner = Source(found, (path, *found[len(path) :].strip(os.sep).split(os.sep)))
                if why_not.startswith("cannot be"):
                    inner.error = why_not
                else:
                    inner.left_out = why_not
                self._file(inner, name)
        else:
            self._file(source, path)

    def _file(self, source: Source, path: str) -> None:
        """Read a file, of which the name may differ from what the source is called."""
        if source.error or source.left_out:
            self._keep(source)
            return
        try:
            opened = _opened(path, source.given)
        except (OSError, ValueError) as error:
            is_known = isinstance(error, (OSError, Unreadable))
            source.error = _why_unreadable(error) if is_known else f"cannot be read: its name has an {error}"
            if isinstance(error, UnicodeError):
                source.error = "cannot be read: its name is no text"
            self._keep(source)
            return
        with opened as file:
            self._stream(source, self._raw(file), in_archive=False)

    def _raw(self, file: Any) -> Stream:
        """Return the bytes of a file, which are counted for who waits for it."""
        try:
            found = os.fstat(file.fileno())
            size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        except OSError:  # it has no number
            size = 0
        count = 0

        def pull() -> bytes:
            nonlocal count
            piece: bytes = file.read(CHUNK)
            count += len(piece)
            if count > self._max_size:
                raise self._too_much()
            if self._progress and piece and self._now:
                self._progress(self._now, count, size)
            return piece

        return Stream(pull)

    def _counted(self, packed: Stream) -> Stream:
        """Return the same bytes, which count for the limit."""

        def pull() -> bytes:
            piece = packed.read(CHUNK)
            self._unpacked += len(piece)
            if self._unpacked > self._max_size:
                raise self._too_much()
            return piece

        return Stream(pull)

    def _too_much(self) -> _TooMuch:
        self._has_stopped = True
        return _TooMuch("with it more than %d bytes would be read, the limit of --max-size" % self._max_size)

    def _stream(self, source: Source, raw: Stream, in_archive: bool) -> None:
        """Read what a source holds, which is kept with the outcome."""
        self._now = source
        is_named = source.given or bool(_PROMISING.search(source.path))
        documents = Documents(lambda: self._make(source))
        try:
            content = self._unpacked_stream(source, raw, in_archive)
            if content is None:
                return
            self._text(source, content, documents, is_named)
        except NotObjects as error:
            if source.given or documents.count or (is_named and error.suspicious):
                source.error = str(error)
            else:
                source.left_out = error.reason
        except _Doubtful as error:
            source.left_out = str(error)
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            source.error = _why_unreadable(error)
        if source.left_out:
            source.form = ""
        self.results += documents.results
        source.complaint = "" if source.error or source.left_out else documents.complaint
        self._keep(source)

    def _unpacked_stream(self, source: Source, raw: Stream, in_archive: bool) -> Optional[Stream]:
        """Return what is to be read as text, or None where it was an archive and is done."""
        form = packed_form(raw.peek(512))
        content = raw if in_archive and form != "gzip" else self._counted(unzipped(raw) if form == "gzip" else raw)
        try:
            inner = packed_form(content.peek(512)) if form in ("", "gzip", "tar") else form
        except Unreadable as error:
            if source.given or _PROMISING.search(source.path) or isinstance(error, _TooMuch):
                raise
            raise _Doubtful(str(error)) from None
        if inner == "tar" and not in_archive:
            self._archive(source, content)
            return None
        if inner:
            reason = "an archive inside an archive" if in_archive or form == "gzip" else f"a {inner} file"
            raise NotObjects(f"it is {reason}; {_READ}", reason, suspicious=form != "tar")
        return content

    def _archive(self, archive: Source, content: Stream) -> None:
        """Read the members of an archive, each for itself."""
        count = 0
        try:
            for name, why_not, inside in members(content):
                count += 1
                parts = [part for part in name.split("/") if part not in ("", ".")]
                if why_not == "" and any(part.startswith(".") for part in parts):
                    continue
                source = Source(f"{archive.path}:{name}", (*archive.place, *parts))
                source.left_out = why_not
                if why_not:
                    self._keep(source)
                else:
                    self._stream(source, inside, in_archive=True)
                if self._has_stopped:
                    return
            if not count:
                archive.error = "it is an archive without files"
        except (OSError, ValueError) as error:
            archive.error = _why_unreadable(error)
        if archive.error:
            self._keep(archive)

    def _text(self, source: Source, content: Stream, documents: Documents, is_named: bool) -> None:
        """Read a text by its form. Raises Unreadable, and what else reading raises."""
        begin = content.peek(512).decode("utf-8", "replace")
        try:
            text = Text(content)
            head = text.head(_HEAD)
        except UnicodeDecodeError as error:
            if _looks_like_objects(begin):
                raise
            raise NotObjects(_why_unreadable(error), "no text") from None
        source.form = _form(head)
        if source.form == "json":
            # Logs may begin with a brace too.
            if not is_named and not _looks_like_objects(head):
                raise NotObjects("")
            text.peek()
            read_json(text, documents)
        elif source.form == "yaml":
            read_yaml(text, documents)
        elif source.form == "describe":
            read_described(text, documents)
        elif not text.peek():
            raise NotObjects("it is empty: " + self._hint(source), "empty", suspicious=False)
        else:
            # A file of settings may be YAML too; what is no YAML at all was meant to be something else.
            is_settings = begins_like_yaml(head)
            raise NotObjects(f'it starts with "{text.sample()}": {self._hint(source)}', suspicious=not is_settings)

    def _hint(self, source: Source) -> str:
        kind = self._make(source).kind.lower()
        described = "" if kind != "node" else " or `kubectl describe nodes`"
        return f"expected JSON as `kubectl get {kind}s -o json` prints it, YAML{described}"

    def _keep(self, source: Source) -> None:
        """Keep a source; of those that were only left out, not more than anybody reads."""
        if source.left_out and not source.error:
            self._left_out += 1
            if self._left_out > MAX_LEFT_OUT:
                summary = Source(source.place[0], source.place[:1])
                summary.left_out = "%d more were left out" % (self._left_out - MAX_LEFT_OUT)
                self.last = [summary]
                return
        if source.error and not source.given:
            self._broken += 1
            if self._broken > MAX_BROKEN:
                source.error = "with it more than 1,000 files cannot be read, and no more are"
                self._has_stopped = True
        # Which other objects an archive of very many files has was told to who takes them.
        if len(self.sources) < MAX_SOURCES or source.given or source.error or source.counts.get("Node"):
            self.sources.append(source)


class _Doubtful(Unreadable):
    """What is broken and need not be a dump at all."""


def _form(head: str) -> str:
    """Return "json", "yaml" or "describe" for the beginning of a text, "" for others."""
    if head.lstrip(" \t\r\n")[:1] in ("{", ""):
        return "json" if head.strip(" \t\r\n") else ""
    if looks_like_yaml(head):
        return "yaml"
    return "describe" if looks_described(head) else ""


def _looks_like_objects(head: str) -> bool:
    """Whether text that nobody promised to be a dump begins like one."""
    form = _form(head)
    return bool(_LOOKS_LIKE_JSON.match(head)) if form == "json" else bool(form)


def _opened(path: str, is_given: bool) -> Any:
    """Open a file for reading; one that was only found must be a regular file, also by now."""
    if path == "-":
        buffer = getattr(sys.stdin, "buffer", None)
        if buffer is None:
            raise Unreadable("there is no standard input")
        return contextlib.nullcontext(buffer)  # it stays open
    if is_given:
        return open(path, "rb")
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("it is no regular file")
    return os.fdopen(descriptor, "rb")


def _why_unreadable(error: BaseException) -> str:
    """Put into words why a source could not be read."""
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, OSError):
        return "cannot be read: %s" % (error.strerror or error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is no text in {error.encoding.upper()}; {_READ}"
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, MemoryError):
        return "an item of it is larger than the memory"
    return f"it is no usable JSON: {error}"
