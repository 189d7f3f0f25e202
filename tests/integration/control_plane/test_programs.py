# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Source go: the programs are built where they are missing, whole or not at all. The compiler is a stand-in, except
where Go's own words matter."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from pathlib import Path

import pytest
from control_plane_lab import PROGRAMS, finish, kill, mount, new_lab, wait_for

STAND_IN = """#!/bin/sh
if [ "$1" = version ]; then echo "{version}"; exit; fi
while [ "$1" != -o ]; do shift; done
out=$2 name=${{3##*/}}
if [ "$name" = v3 ]; then name=etcd; fi
echo "$name" >> '{base}/built'
{body}
"""
WHOLE = "cp '{programs}'/$name \"$out\""
HANGS_HALFWAY = "printf half > \"$out\"; touch '{base}/halfway'; while [ ! -e '{base}/gate' ]; do sleep 0.1; done; printf second >> \"$out\""


class Cache:
    """A lab whose programs come from a cache of its own, built by a stand-in for Go."""

    def __init__(self, lab, folder: Path, name: str = "") -> None:
        """name: of one of several caches of a lab, given to the role by its variables."""
        self.lab = lab
        self.base = lab.base / name
        self.bin = self.base / "bin"
        self.bin.mkdir(parents=True)
        self.folder = self.base / "cache" / folder

    def fill(self, *but: str) -> None:
        self.folder.mkdir(parents=True)
        for name in set(PROGRAMS) - set(but):
            (self.folder / name).symlink_to(self.lab.programs / name)

    def go(self, body: str, version: str = "go version go1.99.1 linux/amd64") -> dict[str, str]:
        body = body.format(programs=self.lab.programs, base=self.base)
        # In one step: a shell that still runs the one before reads on in its own file.
        made = self.bin / "go.new"
        made.write_text(STAND_IN.format(version=version, base=self.base, body=body))
        made.chmod(0o755)
        made.replace(self.bin / "go")
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    def play(self, environment: dict[str, str], **variables: object):
        return self.lab.play("programs", environment=environment, control_plane_source="go", **variables)

    @property
    def built(self) -> list[str]:
        return (self.base / "built").read_text().split()

    def is_whole(self) -> None:
        """All seven are there, each the same as the true one, and nothing else but the lock."""
        visible = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        assert visible == sorted(PROGRAMS)
        for name in PROGRAMS:
            assert (self.folder / name).stat().st_size == (self.lab.programs / name).stat().st_size


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory) -> Path:
    """What the stand-in for the compiler builds: programs that differ, and that nobody starts."""
    folder = tmp_path_factory.mktemp("programs")
    for number, name in enumerate(PROGRAMS):
        (folder / name).write_text(f"#!/bin/sh\necho {name}\n" + "#" * number)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def lab(stand_ins):
    made = new_lab(stand_ins)
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def folder(stand_ins):
    """Where below XDG_CACHE_HOME the programs go, as the playbook says; in check mode it builds nothing."""
    lab = new_lab(stand_ins)
    try:
        shown = lab.play("programs", "--check", control_plane_source="go").succeeded()
        found = Path(re.search(r"control plane are\s+in (/\S+)", shown.output)[1])
        assert not found.exists()
        return found.relative_to(lab.base / "cache")
    finally:
        lab.destroy()


@pytest.fixture
def cache(lab, folder):
    return Cache(lab, folder)


def test_an_empty_cache_is_filled_and_then_reused(cache):
    environment = cache.go(WHOLE)
    assert cache.play(environment).changed > 0
    cache.is_whole()
    assert sorted(cache.built) == sorted(PROGRAMS)
    assert cache.play(environment).changed == 0
    assert len(cache.built) == len(PROGRAMS)


def test_what_keeps_from_building(cache):
    """Each with a cache and a Go of its own; all in one play."""
    lab, cases, environments, expected = cache.lab, {}, {}, {}

    def case(name: str, *words: str, version: str = "go version go1.99.1 linux/amd64", body: str = WHOLE, **variables):
        own = Cache(lab, cache.folder.relative_to(lab.base / "cache"), name)
        environments[name] = own.go(body, version=version)
        cases[name] = {"control_plane_source": "go", "control_plane_cache": str(own.folder.parent), **variables}
        expected[name] = words
        return own

    unmade = [
        case("1.21", "needs Go 1.26", "go version go1.21.0 linux/amd64", version="go version go1.21.0 linux/amd64"),
        case("1.9", "needs Go 1.26", "go version go1.9 linux/amd64", version="go version go1.9 linux/amd64"),
        none := case("none", "needs Go 1.26", "found: none", "control_plane_path"),
        case("another", "v3.4.0", "control_plane_etcd_version", "path", control_plane_etcd_version="v3.4.0"),
    ]
    (none.bin / "go").unlink()
    for tool in ("sh", "uname", "env"):
        (none.bin / tool).symlink_to(shutil.which(tool))
    environments["none"] = {"PATH": str(none.bin)}
    full = case("full", "disk is full", "GiB free", body='head -c 20000000 /dev/zero > "$out"')
    mount(full.folder, "size=10m")
    readonly = case("read-only", "XDG_CACHE_HOME")
    mount(readonly.folder.parent, "ro")
    said = (
        ("checksum", "verifying k8s.io/api@v0.37.2: checksum mismatch", "Do not use it"),
        ("flag", "flag provided but not defined: -x", "flag provided but not defined"),
    )
    for name, words, advice in said:
        case(name, "etcd could not be built", words, advice, body=f"echo '{words}' >&2; exit 1")
    told = lab.refusals(cases, "programs", environments)
    assert [(name, word) for name, words in expected.items() for word in words if word not in told[name]] == [], told
    assert str(readonly.folder.parent) in told["read-only"]
    assert [own.folder for own in unmade if own.folder.exists() or (own.base / "built").exists()] == []
    assert [path.name for path in full.folder.iterdir() if not path.name.startswith(".")] == []


def test_no_network(cache):
    """Go itself, with nothing in its caches and a proxy that is not there; GOFLAGS of the user's do no harm."""
    assert shutil.which("go"), "this test hears Go's own words: put Go on PATH"
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    caches = {name: str(cache.lab.base / name.lower()) for name in ("GOMODCACHE", "GOCACHE")}
    error = cache.play({**caches, "GOPROXY": f"http://127.0.0.1:{closed}", "GOFLAGS": "-mod=mod -modcacherw"}).error
    assert "proxy does not answer" in error and "GOPROXY" in error and "control_plane_path" in error
    assert "connection refused" in error and str(closed) in error


def test_a_half_written_program_is_never_used(cache):
    """Killed twice halfway: no program by that name, and no heap of leftovers. A build that then outlives its play does not
    spoil the next, which builds the one that is lacking."""
    cache.fill("kwokctl")
    halfway = cache.lab.base / "halfway"

    def launch():
        play = cache.lab.launch("programs", environment=cache.go(HANGS_HALFWAY), control_plane_source="go")
        wait_for(halfway.exists, 60, "the build to be halfway")
        return play

    for _attempt in range(2):
        play = launch()
        cache.lab.kill_runs()
        play.communicate()
        assert not (cache.folder / "kwokctl").exists()
        assert len(list(cache.folder.glob("*partial*"))) == 1
        halfway.unlink()

    first = launch()
    assert len(list(cache.folder.glob("*partial*"))) == 1
    compiler = next(pid for pid in cache.lab.everything() if f"{cache.bin}/go" in arguments_of(pid)[:2])
    for pid in cache.lab.everything():
        # Not what the compiler itself started: sh would report its end to a pipe that nobody reads any more, and die of it.
        if compiler not in (pid, parent_of(pid)):
            kill(pid)
    os.killpg(first.pid, signal.SIGKILL)
    second = cache.lab.launch("programs", environment=cache.go(WHOLE), control_plane_source="go")
    waiting = (f"{cache.folder}/.lock", "flock")
    wait_for(
        lambda: any(waits_for(pid, *waiting) for pid in cache.lab.everything()),
        60,
        "the second build to wait for the first",
    )
    (cache.lab.base / "gate").touch()
    assert finish(second).changed == 1
    assert set(cache.built) == {"kwokctl"}
    cache.is_whole()
    first.communicate()


def arguments_of(pid: int) -> list[str]:
    """A process's command line; nothing where it has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def waits_for(pid: int, file: str, program: str) -> bool:
    try:
        held = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
        return file in held and arguments_of(pid)[:1] == [program]
    except OSError:
        return False


def test_two_builds_at_once_build_each_program_once(cache):
    cache.fill("kwokctl", "kwok")
    environment = cache.go("sleep 0.5; " + WHOLE)
    plays = [cache.lab.launch("programs", environment=environment, control_plane_source="go") for _play in range(2)]
    for play in plays:
        finish(play).succeeded()
    assert sorted(cache.built) == ["kwok", "kwokctl"]
    cache.is_whole()
