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

    def __init__(self, lab, folder: Path, mirror: Mirror) -> None:
        super().__init__(lab, folder)
        self.mirror = mirror
        # A proxy of the machine's would stand between the role and loopback.
        self.environment = {"no_proxy": "127.0.0.1", "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def launch(self, *arguments: str, source: str = "download", environment: dict | None = None, **variables: object):
        patience = {"control_plane_stall_seconds": 1, "control_plane_retry_seconds": 0}
        sums = {"control_plane_sha256": self.mirror.given(*KWOK)}
        values = {"control_plane_source": source, **patience, **sums, **self.mirror.urls(), **variables}
        return self.lab.launch(
            "programs", *arguments, environment={**self.environment, **(environment or {})}, **values
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


def test_an_empty_cache_is_filled_and_then_reused(cache):
    first = cache.play()
    assert first.changed > 0
    assert (
        re.findall(r"TASK \[.* : (Download \S+ v\S+ \(\d of 7\))", first.output)[-1]
        == "Download kube-apiserver v1.37.2 (7 of 7)"
    )
    cache.is_whole()
    assert {path: cache.mirror.asked.count(path) for path in PATHS.values()} == dict.fromkeys(PATHS.values(), 1)
    cache.mirror.asked.clear()
    assert cache.play(source="auto").changed == 0
    assert cache.mirror.asked == []


def test_what_goes_wrong_once_is_tried_again(cache):
    """And a slow transfer, which never is silent for as long as the role waits, goes on."""
    cache.fill("kubectl", "kube-scheduler", "kube-apiserver", "etcd", "kwok")
    cache.mirror.troubles = {
        KUBECTL: [server.truncated, server.status(503)],
        PATHS["kube-scheduler"]: [server.corrupt],
        ETCD_SUMS: [server.truncated],
        PATHS["kwok"]: [server.stalled],
        PATHS["kube-apiserver"]: server.slow,
    }
    run = cache.play().succeeded()
    assert run.output.count("FAILED - RETRYING") == 5
    assert cache.mirror.asked.count(KUBECTL) == 3
    broke_off, again = (
        when for when, path in zip(cache.mirror.times, cache.mirror.asked, strict=True) if path == PATHS["kwok"]
    )
    assert 1 < again - broke_off < 5
    cache.is_whole()


@pytest.mark.parametrize(
    ("path", "trouble", "asked", "told"),
    [
        (
            KUBECTL,
            server.status(404),
            1,
            ("There is no http://", KUBECTL, "Check the version (control_plane_kubernetes_version)", "base URL"),
        ),
        (KUBECTL, server.status(403), 1, ("refuses to give it", "user and password", "403")),
        (
            KUBECTL,
            server.corrupt,
            2,
            (
                "is not what its SHA-256 says: expected {sum} (published in http://",
                ".sha256)",
                "found {bad}",
                "Do not use it",
            ),
        ),
        (
            KUBECTL,
            server.truncated,
            3,
            ("broke off before the end", "3 attempts", "https_proxy", "control_plane_kubernetes_url"),
        ),
        (
            KUBECTL,
            server.stalled,
            2,
            ("sent nothing for 1 s", "2 attempts", "https_proxy", "control_plane_kubernetes_url", "control_plane_path"),
        ),
        (
            f"{KUBECTL}.sha256",
            lambda handler, _sum: server.good(handler, b"<p>Log in</p>\n"),
            1,
            ("holds no SHA-256 of it", "control_plane_sha256"),
        ),
    ],
    ids=["missing", "refused", "corrupt", "truncated", "stalled", "sum is none"],
)
def test_what_goes_wrong_for_good(lacks_kubectl, path, trouble, asked, told):
    mirror = lacks_kubectl.mirror
    mirror.troubles[path] = trouble
    error = lacks_kubectl.play().error
    sums = {"sum": server.sha256(mirror.files[KUBECTL]), "bad": server.sha256(mirror.files[KUBECTL][:-1] + b"?")}
    assert f"kubectl v1.37.2 could not be downloaded from http://{mirror.host}{KUBECTL}" in error
    assert [part for part in told if part.format(**sums) not in error] == [], error
    assert mirror.asked.count(path) == asked
    lacks_kubectl.has_nothing_of("kubectl")


def test_a_server_that_is_not_there(lacks_kubectl):
    port = server.closed_port()
    error = lacks_kubectl.play(control_plane_kubernetes_url=f"http://127.0.0.1:{port}").error
    assert "server does not answer" in error and "refused" in error and str(port) in error
    assert "https_proxy" in error and "control_plane_kubernetes_url" in error and "control_plane_path" in error


def test_tls_trouble(lacks_kubectl):
    secure = Mirror(lacks_kubectl.mirror.files, server.self_signed(lacks_kubectl.lab.base))
    try:
        error = lacks_kubectl.play(**secure.urls(f"https://{secure.host}")).error
        assert "certificate is not trusted" in error and "SSL_CERT_FILE" in error and "self-signed" in error
    finally:
        secure.close()
    error = lacks_kubectl.play(control_plane_kubernetes_url=f"https://{lacks_kubectl.mirror.host}").error
    assert "There is no TLS" in error and "begin with http://" in error
    lacks_kubectl.has_nothing_of("kubectl")


@pytest.mark.parametrize("name", ["kubectl", "etcd"])
def test_a_full_disk(stand_ins, folder, name):
    """The file itself does not fit, or what comes out of the archive."""
    lab = new_lab(stand_ins)
    lab.programs = lab.base / "large"
    shutil.copytree(stand_ins, lab.programs)
    (lab.programs / name).write_bytes(bytes(20_000_000))
    mirror = Mirror(server.releases(lab.programs))
    try:
        cache = Downloads(lab, folder, mirror)
        mount(cache.folder, "size=10m")
        for other in set(PROGRAMS) - {name}:
            (cache.folder / other).symlink_to(lab.programs / other)
        error = cache.play().error
        assert f"{name} v" in error and "disk is full" in error and str(cache.folder) in error
        assert not (cache.folder / name).exists() and not list(cache.folder.glob("*partial*"))
    finally:
        mirror.close()
        lab.destroy()


def test_a_cache_that_cannot_be_written(cache):
    mount(cache.folder, "ro")
    error = cache.play().error
    assert str(cache.folder) in error and "Read-only" in error and "XDG_CACHE_HOME" in error
    assert cache.mirror.asked == []


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_disk_on_which_nothing_can_be_begun(cache, trouble):
    mount(cache.folder, "size=64k")
    (cache.folder / ".downloads").mkdir()
    if trouble == "full":
        with contextlib.suppress(OSError), open(cache.folder / "full", "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(cache.folder)], check=True)
    error = cache.play().error
    assert str(cache.folder) in error and "XDG_CACHE_HOME" in error and cache.mirror.asked == []
    assert "disk is full" in error if trouble == "full" else "cannot be written" in error and "Read-only" in error


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


def test_downloading_what_cannot_be_checked(cache):
    error = cache.play(control_plane_sha256={}).error
    assert "kwokctl and kwok cannot be checked: upstream publishes no SHA-256 for kwok and kwokctl" in error
    assert 'control_plane_sha256={"kwokctl": "<64 hexadecimal digits>", "kwok": "<64 hexadecimal digits>"}' in error
    assert "control_plane_source to auto or go" in error and "control_plane_path" in error
    assert cache.mirror.asked == [] and not cache.folder.exists()


def test_sums_and_urls_that_are_none(cache):
    odd = {"etcd": 12, "kwok": "abc", "kubelet": "0" * 64}
    error = cache.play(source="auto", control_plane_sha256={**cache.mirror.given(*KWOK), **odd}).error
    assert "64 hexadecimal digits" in error and "kube-apiserver" in error and '"kwokctl"' not in error
    assert '"etcd": 12' in error and '"kwok": "abc"' in error and '"kubelet": "0000' in error
    error = cache.play(control_plane_kubernetes_url="localhost/kubernetes", control_plane_kwok_url="").error
    assert "control_plane_kubernetes_url, control_plane_kwok_url must be like https://" in error
    assert cache.mirror.asked == []


def test_a_given_sum_is_believed_instead_of_the_published_one(cache):
    cache.fill("kubectl", "etcd")
    wrong = {**cache.mirror.given("etcd"), "kubectl": "ab" * 32}
    error = cache.play(control_plane_sha256=wrong).error
    assert f"expected {'ab' * 32} (control_plane_sha256)" in error and "Do not use it" in error and "kubectl" in error
    del cache.mirror.files[f"{KUBECTL}.sha256"], cache.mirror.files[ETCD_SUMS]
    right = {name: value.upper() for name, value in cache.mirror.given("kubectl", "etcd").items()}
    cache.play(source="auto", control_plane_sha256=right).succeeded()
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


def test_a_proxy(lacks_kubectl):
    proxy = {"http_proxy": f"http://{lacks_kubectl.mirror.host}", "no_proxy": ""}
    lacks_kubectl.play(environment=proxy, **lacks_kubectl.mirror.urls("http://releases.invalid")).succeeded()
    assert lacks_kubectl.mirror.asked == [f"{KUBECTL}.sha256", KUBECTL]
    lacks_kubectl.is_whole()


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


def test_auto_downloads_what_it_can_check_and_builds_the_rest(cache):
    cache.fill("kubectl", "etcd", "kwok", "kwokctl")
    cache.go(WHOLE)
    run = cache.play(source="auto", control_plane_sha256=cache.mirror.given("kwok")).succeeded()
    told = " ".join(run.output.split())
    assert "To download: etcd, kwok, kubectl; to build: kwokctl." in told
    assert "kwokctl: upstream publishes no SHA-256, and control_plane_sha256 has none" in told
    assert "(1 of 3)" in run.output and "Build kwokctl v0.8.0 (1 of 1" in told
    assert cache.built == ["kwokctl"]
    cache.is_whole()


def test_auto_builds_what_no_server_has(cache):
    """One that is not there, one that lacks this version, and one that does not answer within 10 s."""
    cache.fill("kubectl", "etcd", "kwok")
    cache.go(WHOLE)
    cache.mirror.troubles = {f"{KUBECTL}.sha256": server.status(404), PATHS["kwok"]: server.silent}
    down = f"http://127.0.0.1:{server.closed_port()}"
    told = " ".join(cache.play(source="auto", control_plane_etcd_url=down).succeeded().output.split())
    assert "To download: none; to build: etcd, kwok, kubectl." in told
    assert f"{down}/v3.7.3: <urlopen error [Errno 111] Connection refused>" in told
    assert "/kubernetes/v1.37.2: HTTP Error 404" in told and "/kwok/v0.8.0: no answer within 10 s" in told
    assert sorted(cache.built) == ["etcd", "kubectl", "kwok"]
    cache.is_whole()


def test_auto_where_the_rest_cannot_be_built(cache):
    cache.go("exit 1", version="")
    error = cache.play(source="auto", control_plane_sha256={}).error
    assert "Building kwokctl, kwok needs Go 1.26" in error and "found: none" in error and "Install Go" in error
    assert "give the SHA-256 of kwokctl and kwok in control_plane_sha256" in error and "control_plane_path" in error
    error = cache.play(source="auto", control_plane_etcd_version="v3.4.0").error
    assert (
        "Building etcd needs Go" in error
        and "/etcd/v3.4.0: HTTP Error 404" in error
        and "control_plane_etcd_url" in error
    )
    assert not cache.folder.exists() and not set(cache.mirror.asked) & set(PATHS.values()) - {PATHS["kwokctl"]}


def test_versions_that_go_mod_does_not_pin(cache):
    """They are downloaded; only those that have to be built must be go.mod's."""
    cache.mirror.files = {path.replace("v3.7.3", "v3.6.1"): content for path, content in cache.mirror.files.items()}
    sums = f"/etcd/v3.6.1/{ETCD_SUMS.rpartition('/')[2]}"
    cache.mirror.files[sums] = cache.mirror.files[sums].replace(b"v3.7.3", b"v3.6.1")
    cache.folder = cache.folder.with_name(cache.folder.name.replace("v3.7.3", "v3.6.1"))
    cache.fill("kubectl", "kwok")
    cache.go(WHOLE)
    cache.play(source="auto", control_plane_etcd_version="v3.6.1", control_plane_sha256={}).succeeded()
    assert cache.built == ["kwok"]
    cache.is_whole()
    error = cache.play(source="auto", control_plane_kwok_version="v0.7.0", control_plane_sha256={}).error
    assert "kwok v0.7.0" in error and "k8s.io/kubernetes v" not in error and "control_plane_sha256" in error
