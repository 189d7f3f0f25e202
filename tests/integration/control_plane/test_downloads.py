# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sources download and auto, against a server on loopback. Programs and compiler are stand-ins where what they do does not matter."""

from __future__ import annotations

import contextlib
import filecmp
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import release_mirror as server
from combined_plays import messages, outputs
from control_plane_lab import PROGRAMS, finish, mount, new_lab, wait_for
from release_mirror import ETCD_SUMS, PATHS, Mirror
from test_programs import WHOLE, Cache, waits_for

KUBECTL = PATHS["kubectl"]
KWOK = ("kwok", "kwokctl")
# What stands in for the compiler, where the build is to be met halfway.
BUILDS_IN_TWO_STEPS = """
printf half > "$out"; touch '{base}/halfway'; while [ ! -e '{base}/gate' ]; do sleep 0.1; done; cat '{programs}'/$name > "$out"; chmod 755 "$out"
"""


class Downloads(Cache):
    """A cache of its own that is filled from a mirror."""

    def __init__(self, lab, folder: Path, mirror: Mirror, name: str = "") -> None:
        super().__init__(lab, folder, name)
        self.mirror = mirror
        # A proxy of the machine's would stand between the role and loopback.
        self.environment = {"no_proxy": "127.0.0.1", "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def values(self, source: str = "download", **variables: object) -> dict[str, object]:
        patience = {"control_plane_stall_seconds": 1, "control_plane_retry_seconds": 0}
        sums = {"control_plane_sha256": self.mirror.given(*KWOK)}
        return {"control_plane_source": source, **patience, **sums, **self.mirror.urls(), **variables}

    def launch(self, *arguments: str, environment: dict | None = None, **variables: object):
        return self.lab.launch(
            "programs",
            *arguments,
            environment={**self.environment, **(environment or {})},
            **self.values(**variables),
        )

    def play(self, *arguments: str, **more: object):
        return finish(self.launch(*arguments, **more))

    def is_whole(self) -> None:
        super().is_whole()
        assert filecmp.cmpfiles(self.folder, self.lab.programs, PROGRAMS, shallow=False) == (list(PROGRAMS), [], [])
        assert all((self.folder / name).stat().st_mode & 0o777 == 0o755 for name in PROGRAMS)
        assert self.leftovers() == []

    def leftovers(self) -> list[Path]:
        """Files below the hidden folder that downloads are made in."""
        return [path for path in (self.folder / ".downloads").rglob("*") if path.is_file()]

    def has_nothing_of(self, name: str) -> None:
        assert [path for path in self.folder.rglob("*") if name in path.name or path in self.leftovers()] == []


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name in PROGRAMS:
        (folder / name).write_bytes(f"#!/bin/sh\necho {name}\nexit\n".encode() + random.Random(name).randbytes(300_000))
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def files(stand_ins) -> dict[str, bytes]:
    return server.releases(stand_ins)


@pytest.fixture
def mirror(files):
    made = Mirror(files)
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(stand_ins, files) -> Path:
    """Where below XDG_CACHE_HOME the programs go, as the playbook says; in check mode it asks nothing and makes nothing."""
    lab, mirror = new_lab(stand_ins), Mirror(files)
    try:
        shown = lab.play(
            "programs",
            "--check",
            control_plane_source="auto",
            control_plane_sha256=mirror.given(*KWOK),
            **mirror.urls(),
        )
        found = Path(re.search(r"control plane are\s+in (/\S+)", shown.succeeded().output)[1])
        assert shown.changed == 0 and mirror.asked == [] and not found.exists()
        return found.relative_to(lab.base / "cache")
    finally:
        mirror.close()
        lab.destroy()


@pytest.fixture
def cache(stand_ins, folder, mirror):
    lab = new_lab(stand_ins)
    yield Downloads(lab, folder, mirror)
    lab.destroy()


@pytest.fixture
def lacks_kubectl(cache):
    cache.fill("kubectl")
    return cache


def test_an_empty_cache_is_filled_though_things_go_wrong_once_and_then_reused(cache):
    """And a slow transfer, which never is silent for as long as the role waits, goes on."""
    cache.mirror.troubles = {
        KUBECTL: [server.truncated, server.status(503)],
        PATHS["kube-scheduler"]: [server.corrupt],
        ETCD_SUMS: [server.truncated],
        PATHS["kwok"]: [server.stalled],
        PATHS["kube-apiserver"]: server.slow,
    }
    run = cache.play()
    assert run.changed > 0
    assert (
        re.findall(r"TASK \[.* : (Download \S+ v\S+ \(\d of 7\))", run.output)[-1]
        == "Download kube-apiserver v1.37.2 (7 of 7)"
    )
    assert run.output.count("FAILED - RETRYING") == 5
    again = {KUBECTL: 2, PATHS["kube-scheduler"]: 1, PATHS["kwok"]: 1}
    assert {path: cache.mirror.asked.count(path) for path in PATHS.values()} == {
        path: 1 + again.get(path, 0) for path in PATHS.values()
    }
    broke_off, repeated = (
        when for when, path in zip(cache.mirror.times, cache.mirror.asked, strict=True) if path == PATHS["kwok"]
    )
    assert 1 < repeated - broke_off < 5
    cache.is_whole()
    cache.mirror.asked.clear()
    assert cache.play(source="auto").changed == 0
    assert cache.mirror.asked == []


class Cases:
    """Cases that all fail, or all succeed, each with a mirror and a cache of its own, met in one play."""

    def __init__(self, lab, folder: Path, files: dict[str, bytes]) -> None:
        self.lab, self.folder, self.files = lab, folder, files
        self.mirrors: list[Mirror] = []
        self.cases: dict[str, dict] = {}
        self.expected: dict[str, tuple[str, ...]] = {}

    def case(self, name: str, *words: str, lacks: tuple[str, ...] = (), files=None, secure=None, **variables):
        """A cache that lacks these programs, or is not there; further variables are the role's."""
        self.mirrors.append(Mirror(files or self.files, secure))
        made = Downloads(self.lab, self.folder, self.mirrors[-1], name)
        if lacks:
            made.fill(*lacks)
        self.cases[name] = {**made.values(**variables), "control_plane_cache": str(made.folder.parent)}
        self.expected[name] = words
        return made

    def refused(self, environments: dict[str, dict] | None = None) -> dict[str, str]:
        """Case -> the message with which it is refused."""
        return self.checked(self.lab.refusals(self.cases, "programs", environments, {"no_proxy": "127.0.0.1"}))

    def succeeded(self, environments: dict[str, dict] | None = None) -> dict[str, str]:
        """Case -> all that is told, in one line."""
        run = self.lab.cases(self.cases, "programs", environments, {"no_proxy": "127.0.0.1"}).succeeded()
        assert messages(run.output) == {}, run.output
        return self.checked({name: " ".join(part.split()) for name, part in outputs(run.output).items()})

    def checked(self, told: dict[str, str]) -> dict[str, str]:
        assert list(told) == list(self.cases), told
        lacking = [(name, word) for name, words in self.expected.items() for word in words if word not in told[name]]
        assert lacking == [], told
        return told


@pytest.fixture
def cases(stand_ins, folder, files):
    lab = new_lab(stand_ins)
    made = Cases(lab, folder, files)
    yield made
    for mirror in made.mirrors:
        mirror.close()
    lab.destroy()


def test_what_goes_wrong_for_good(cases):
    files = cases.files
    whole, changed = files[KUBECTL], files[KUBECTL][:-1] + b"?"
    ways = ("https_proxy", "control_plane_kubernetes_url")

    def no_sum(handler, _sum):
        server.good(handler, b"<p>Log in</p>\n")

    troubles = {
        "missing": (
            (KUBECTL, server.status(404), 1),
            ("There is no http://", KUBECTL, "Check the version (control_plane_kubernetes_version)", "base URL"),
        ),
        "refused": ((KUBECTL, server.status(403), 1), ("refuses to give it", "user and password", "403")),
        "corrupt": (
            (KUBECTL, server.corrupt, 2),
            (
                f"is not what its SHA-256 says: expected {server.sha256(whole)} (published in http://",
                ".sha256)",
                f"found {server.sha256(changed)}",
                "Do not use it",
            ),
        ),
        "truncated": ((KUBECTL, server.truncated, 3), ("broke off before the end", "3 attempts", *ways)),
        "stalled": (
            (KUBECTL, server.stalled, 2),
            ("sent nothing for 1 s", "2 attempts", *ways, "control_plane_path"),
        ),
        "sum": ((f"{KUBECTL}.sha256", no_sum, 1), ("holds no SHA-256 of it", "control_plane_sha256")),
    }
    made = {}
    for name, ((path, trouble, _asked), words) in troubles.items():
        made[name] = cases.case(name, *words, lacks=("kubectl",))
        made[name].mirror.troubles[path] = trouble
    told = cases.refused()
    for name, ((path, _trouble, asked), _words) in troubles.items():
        mirror = made[name].mirror
        assert f"kubectl v1.37.2 could not be downloaded from http://{mirror.host}{KUBECTL}" in told[name]
        assert mirror.asked.count(path) == asked, name
        made[name].has_nothing_of("kubectl")


def test_servers_and_sums_that_will_not_do(cases, stand_ins):
    lacks = {"lacks": ("kubectl",)}
    port = server.closed_port()
    cases.case(
        "away",
        "server does not answer",
        "refused",
        str(port),
        "https_proxy",
        "control_plane_kubernetes_url",
        "control_plane_path",
        control_plane_kubernetes_url=f"http://127.0.0.1:{port}",
        **lacks,
    )
    secure = cases.case(
        "self-signed",
        "certificate is not trusted",
        "SSL_CERT_FILE",
        "self-signed",
        secure=server.self_signed(cases.lab.base),
        **lacks,
    )
    cases.cases["self-signed"].update(secure.mirror.urls(f"https://{secure.mirror.host}"))
    plain = cases.case("plain", "There is no TLS", "begin with http://", **lacks)
    cases.cases["plain"]["control_plane_kubernetes_url"] = f"https://{plain.mirror.host}"
    unchecked = cases.case(
        "unchecked",
        "kwokctl and kwok cannot be checked: upstream publishes no SHA-256 for kwok and kwokctl",
        'control_plane_sha256={"kwokctl": "<64 hexadecimal digits>", "kwok": "<64 hexadecimal digits>"}',
        "control_plane_source to auto or go",
        "control_plane_path",
        control_plane_sha256={},
    )
    odd = {"etcd": 12, "kwok": "abc", "kubelet": "0" * 64}
    sums = cases.case(
        "odd sums",
        "64 hexadecimal digits",
        "kube-apiserver",
        '"etcd": 12',
        '"kwok": "abc"',
        '"kubelet": "0000',
        source="auto",
    )
    cases.cases["odd sums"]["control_plane_sha256"] = {**sums.mirror.given(*KWOK), **odd}
    cases.case(
        "another sum",
        f"expected {'ab' * 32} (control_plane_sha256)",
        "Do not use it",
        "kubectl",
        control_plane_sha256={"kubectl": "ab" * 32},
        **lacks,
    )
    urls = cases.case(
        "odd URLs",
        "control_plane_kubernetes_url, control_plane_kwok_url must be like https://",
        control_plane_kubernetes_url="localhost/kubernetes",
        control_plane_kwok_url="",
    )
    told = cases.refused()
    assert '"kwokctl"' not in told["odd sums"]
    for made in (secure, plain):
        made.has_nothing_of("kubectl")
    for made in (unchecked, sums, urls):
        assert made.mirror.asked == [] and not made.folder.exists()


def test_folders_that_take_no_programs(cases, stand_ins):
    """The file itself does not fit, or what comes out of the archive, or nothing at all; or the folder is not to be written."""
    large = cases.lab.base / "large"
    shutil.copytree(stand_ins, large)
    for name in ("kubectl", "etcd"):
        (large / name).write_bytes(bytes(20_000_000))
    files = server.releases(large)
    fitting = {}
    for name in ("kubectl", "etcd"):
        fitting[name] = cases.case(f"full for {name}", f"{name} v", "disk is full", files=files)
        mount(fitting[name].folder, "size=10m")
        for other in set(PROGRAMS) - {name}:
            (fitting[name].folder / other).symlink_to(large / other)
    closed = cases.case("read-only", "Read-only", "XDG_CACHE_HOME")
    mount(closed.folder, "ro")
    full = cases.case("nothing fits", "XDG_CACHE_HOME", "disk is full")
    late = cases.case("read-only later", "XDG_CACHE_HOME", "cannot be written", "Read-only")
    for made in (full, late):
        mount(made.folder, "size=64k")
        (made.folder / ".downloads").mkdir()
    with contextlib.suppress(OSError), open(full.folder / "full", "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    subprocess.run(["mount", "-o", "remount,ro", str(late.folder)], check=True)
    told = cases.refused()
    for name, made in fitting.items():
        assert str(made.folder) in told[f"full for {name}"]
        assert not (made.folder / name).exists() and not list(made.folder.glob("*partial*"))
    for name, made in (("read-only", closed), ("nothing fits", full), ("read-only later", late)):
        assert str(made.folder) in told[name] and made.mirror.asked == []


def test_killed_halfway(lacks_kubectl):
    """Twice: no program by that name, and no heap of leftovers; the next run repairs it."""
    mirror = lacks_kubectl.mirror
    mirror.troubles[KUBECTL] = [server.stalled, server.stalled]
    for _attempt in range(2):
        play = lacks_kubectl.launch()
        assert mirror.halfway.wait(60)
        wait_for(
            lambda: any(path.stat().st_size for path in lacks_kubectl.leftovers()), 10, "the download to be halfway"
        )
        lacks_kubectl.lab.kill_runs()
        play.communicate()
        assert not (lacks_kubectl.folder / "kubectl").exists()
        assert len(lacks_kubectl.leftovers()) == 1
        mirror.halfway.clear()
    lacks_kubectl.play().succeeded()
    lacks_kubectl.is_whole()


def test_two_downloads_at_once(cache):
    """The second begins and ends while the first is halfway."""
    cache.fill("kubectl", "etcd")
    cache.mirror.troubles[PATHS["etcd"]] = [server.held]
    first = cache.launch(control_plane_stall_seconds=60)
    assert cache.mirror.halfway.wait(60)
    cache.play().succeeded()
    cache.mirror.gate.set()
    assert "RETRYING" not in finish(first).succeeded().output
    cache.is_whole()


def test_a_download_and_a_build_at_once(cache):
    """The download comes to its end while the build is halfway, and waits for it."""
    cache.fill("etcd")
    cache.go(BUILDS_IN_TWO_STEPS)
    build = cache.launch(source="go")
    wait_for((cache.lab.base / "halfway").exists, 60, "the build to be halfway")
    download = cache.launch()
    waiting = (f"{cache.folder}/.lock", "flock")
    wait_for(
        lambda: any(waits_for(pid, *waiting) for pid in cache.lab.everything()),
        60,
        "the download to wait for the build",
    )
    (cache.lab.base / "gate").touch()
    for play in (build, download):
        finish(play).succeeded()
    cache.is_whole()


def test_a_mirror_that_wants_a_password(cache):
    """It is not shown, and not told to a server that the mirror redirects to."""
    cache.fill("kubectl", "kwok")
    cache.mirror.login = "me:pa+s@s word"
    other = Mirror(cache.mirror.files)
    cache.mirror.troubles[KUBECTL] = server.redirect(f"http://{other.host}{KUBECTL}")
    base = f"http://me:pa+s%40s%20word@{cache.mirror.host}"
    verbose = {"ANSIBLE_INJECT_INVOCATION": "true"}
    try:
        accepted = cache.play("-vvv", source="auto", environment=verbose, **cache.mirror.urls(base)).succeeded()
    finally:
        other.close()
    assert other.asked == [KUBECTL] and other.told == [None]
    cache.is_whole()
    (cache.folder / "kubectl").unlink()
    cache.mirror.login = "somebody:else"
    refused = cache.play("-vvv", environment=verbose, **cache.mirror.urls(base))
    assert "Check user and password in control_plane_kubernetes_url" in refused.error
    for output in (accepted.output, refused.output):
        assert "pa+s" not in output and "s word" not in output


def other_machine(cache: Downloads, system: str) -> None:
    """A `uname` that says so."""
    machine = system.split()[1]
    (cache.bin / "uname").write_text(f'#!/bin/sh\n[ "$*" = -m ] && echo {machine} || echo "{system}"\n')
    (cache.bin / "uname").chmod(0o755)
    cache.folder = cache.folder.with_name(re.sub(r"_[^_]*(_64)?$", f"_{machine}", cache.folder.name))


def test_a_machine_that_there_are_no_releases_for(cache):
    other_machine(cache, "Darwin arm64")
    error = cache.play().error
    assert "this machine is Darwin arm64" in error and "control_plane_source to go" in error and "path" in error
    other_machine(cache, "Linux riscv64")
    cache.fill("kubectl", "kwok")
    cache.go(WHOLE)
    told = " ".join(cache.play(source="auto").succeeded().output.split())
    assert (
        "To download: none; to build: kwok, kubectl. Why not downloaded: there are no releases for Linux riscv64."
        in told
    )
    assert cache.built == ["kwok", "kubectl"]
    assert cache.mirror.asked == []
    cache.is_whole()


def test_what_is_downloaded_and_what_auto_builds(cases):
    """All in one play, each with a mirror, a cache and a Go of its own."""
    environments = {}

    def case(name: str, *words: str, lacks: tuple[str, ...], **variables):
        made = cases.case(name, *words, lacks=lacks, **{"source": "auto", **variables})
        environments[name] = made.go(WHOLE)
        return made

    # A given sum is believed instead of the published one.
    given = case("given sum", lacks=("kubectl", "etcd"))
    for path in (f"{KUBECTL}.sha256", ETCD_SUMS):
        del given.mirror.files[path]
    right = {name: value.upper() for name, value in given.mirror.given("kubectl", "etcd").items()}
    cases.cases["given sum"]["control_plane_sha256"] = right

    proxied = case("proxy", source="download", lacks=("kubectl",))
    cases.cases["proxy"].update(proxied.mirror.urls("http://releases.invalid"))
    environments["proxy"].update(http_proxy=f"http://{proxied.mirror.host}", no_proxy="")

    # Auto downloads what it can check and builds the rest.
    unchecked = case(
        "unchecked",
        "To download: etcd, kwok, kubectl; to build: kwokctl.",
        "kwokctl: upstream publishes no SHA-256, and control_plane_sha256 has none",
        "(1 of 3)",
        "Build kwokctl v0.8.0 (1 of 1",
        lacks=("kubectl", "etcd", "kwok", "kwokctl"),
    )
    cases.cases["unchecked"]["control_plane_sha256"] = unchecked.mirror.given("kwok")

    # One server that is not there, one that lacks this version, and one that does not answer within 10 s.
    down = f"http://127.0.0.1:{server.closed_port()}"
    without = case(
        "no server",
        "To download: none; to build: etcd, kwok, kubectl.",
        f"{down}/v3.7.3: <urlopen error [Errno 111] Connection refused>",
        "/kubernetes/v1.37.2: HTTP Error 404",
        "/kwok/v0.8.0: no answer within 10 s",
        lacks=("kubectl", "etcd", "kwok"),
        control_plane_etcd_url=down,
    )
    without.mirror.troubles = {f"{KUBECTL}.sha256": server.status(404), PATHS["kwok"]: server.silent}

    # Versions that go.mod does not pin are downloaded; only those that have to be built must be go.mod's.
    newer = {path.replace("v3.7.3", "v3.6.1"): content for path, content in cases.files.items()}
    sums = f"/etcd/v3.6.1/{ETCD_SUMS.rpartition('/')[2]}"
    newer[sums] = newer[sums].replace(b"v3.7.3", b"v3.6.1")
    unpinned = case("not pinned", lacks=(), files=newer, control_plane_etcd_version="v3.6.1", control_plane_sha256={})
    unpinned.folder = unpinned.folder.with_name(unpinned.folder.name.replace("v3.7.3", "v3.6.1"))
    unpinned.fill("kubectl", "kwok")

    cases.succeeded(environments)
    assert proxied.mirror.asked == [f"{KUBECTL}.sha256", KUBECTL]
    assert unchecked.built == ["kwokctl"]
    assert sorted(without.built) == ["etcd", "kubectl", "kwok"]
    assert unpinned.built == ["kwok"]
    for made in (given, proxied):
        assert not (made.base / "built").exists()
    for made in (given, proxied, unchecked, without, unpinned):
        made.is_whole()


def test_auto_where_the_rest_cannot_be_built(cases):
    words = ("Install Go", "give the SHA-256 of kwokctl and kwok in control_plane_sha256", "control_plane_path")
    made = [
        cases.case(
            "no Go",
            "Building kwokctl, kwok needs Go 1.26",
            "found: none",
            *words,
            source="auto",
            control_plane_sha256={},
        ),
        cases.case(
            "another etcd",
            "Building etcd needs Go",
            "/etcd/v3.4.0: HTTP Error 404",
            "control_plane_etcd_url",
            source="auto",
            control_plane_etcd_version="v3.4.0",
        ),
        # Only what has to be built must be go.mod's version; test_what_is_downloaded_and_what_auto_builds downloads another one.
        cases.case(
            "another kwok",
            "kwok v0.7.0",
            "control_plane_sha256",
            source="auto",
            control_plane_kwok_version="v0.7.0",
            control_plane_sha256={},
        ),
    ]
    paths = [made[0].go("exit 1", version=""), made[1].go("exit 1", version=""), made[2].go("exit 1")]
    told = cases.refused(dict(zip(cases.cases, paths, strict=True)))
    assert "k8s.io/kubernetes v" not in told["another kwok"]
    for case in made:
        assert not case.folder.exists() and not set(case.mirror.asked) & set(PATHS.values()) - {PATHS["kwokctl"]}
