# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the programs come from, by what the machine is, what the servers said and which sums the user gave."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import releases

PROGRAMS = [
    {"name": "etcd", "release": "etcd", "version": "v3.7.3"},
    {"name": "kwok", "release": "kwok", "version": "v0.8.0"},
    {"name": "kubectl", "release": "kubernetes", "version": "v1.37.2"},
    {"name": "kube-scheduler", "release": "kubernetes", "version": "v1.37.2"},
]
URLS = {"etcd": "https://e.test/download", "kubernetes": "https://me:p%40ss@k.test/release/", "kwok": "http://w.test"}
ALL = [program["name"] for program in PROGRAMS]
SUM = "a" * 64


def plan(
    source: str,
    missing=ALL,
    machine: str = "Linux x86_64",
    urls: dict | None = None,
    sums: dict | None = None,
    answers: dict | None = None,
) -> dict:
    return releases.plan(PROGRAMS, missing, source, machine, {**URLS, **(urls or {})}, sums or {}, answers or {})


def names(programs: list[dict]) -> list[str]:
    return [program["name"] for program in programs]


def test_where_upstream_has_them():
    etcd, kwok, kubectl, _scheduler = plan("download", sums={"kwok": SUM})["downloads"]
    assert etcd["url"] == "https://e.test/download/v3.7.3/etcd-v3.7.3-linux-amd64.tar.gz"
    assert (etcd["checksum"], etcd["member"]) == (
        "sha256:https://e.test/download/v3.7.3/SHA256SUMS",
        "etcd-v3.7.3-linux-amd64/etcd",
    )
    assert (kwok["url"], kwok["checksum"], kwok["member"]) == (
        "http://w.test/v0.8.0/kwok-linux-amd64",
        f"sha256:{SUM}",
        "",
    )
    assert kubectl["url"] == "https://k.test/release/v1.37.2/bin/linux/amd64/kubectl"
    assert kubectl["checksum"] == "sha256:https://k.test/release/v1.37.2/bin/linux/amd64/kubectl.sha256"
    assert (kubectl["username"], kubectl["password"]) == ("me", "p@ss")
    assert plan("download", machine="Linux aarch64")["downloads"][2]["url"].endswith("/arm64/kubectl")


def test_a_given_sum_wins():
    assert plan("download", sums={"etcd": SUM.upper()})["downloads"][0]["checksum"] == f"sha256:{SUM.upper()}"


@pytest.mark.parametrize(
    ("keywords", "downloads", "builds", "reasons"),
    [
        ({"source": "go"}, [], ALL, []),
        ({"source": "download"}, ALL, [], []),
        ({"source": "auto"}, ["etcd", "kubectl", "kube-scheduler"], ["kwok"], ["kwok: upstream publishes no SHA-256, and control_plane_sha256 has none"]),
        ({"source": "auto", "sums": {"kwok": SUM}}, ALL, [], []),
        ({"source": "auto", "missing": ["kubectl"]}, ["kubectl"], [], []),
        (
            {"source": "auto", "sums": {"kwok": SUM}, "answers": {"kubernetes": {"status": -1, "msg": "no"}, "etcd": {"status": 200, "msg": "OK"}}},
            ["etcd", "kwok"], ["kubectl", "kube-scheduler"], ["https://k.test/release/v1.37.2: no"],
        ),
        ({"source": "auto", "machine": "Darwin arm64"}, [], ALL, ["there are no releases for Darwin arm64"]),
    ],
    ids=str,
)  # fmt: skip
def test_which_are_downloaded_and_which_are_built(keywords, downloads, builds, reasons):
    found = plan(**keywords)
    assert (names(found["downloads"]), names(found["builds"]), found["reasons"]) == (downloads, builds, reasons)


def test_what_servers_are_asked():
    assert plan("auto")["ask"] == {
        "kubernetes": "https://me:p%40ss@k.test/release/v1.37.2/bin/linux/amd64/kubectl.sha256",
        "etcd": "https://e.test/download/v3.7.3/SHA256SUMS",
    }
    # A published sum may be missing where the user's is used.
    assert plan("auto", ["kwok"], sums={"kwok": SUM})["ask"] == {"kwok": "http://w.test/v0.8.0/kwok-linux-amd64"}
    assert plan("auto", [])["ask"] == plan("auto", machine="Linux riscv64")["ask"] == {}


def test_sums_and_urls_that_cannot_be():
    assert plan("auto", sums={"etcd": SUM})["errors"] == []
    sums, urls = (
        plan("auto", sums={"etcd": 12, "kubelet": SUM, "kwok": SUM[1:], "kubectl": SUM})["errors"],
        plan("auto", urls={"etcd": "file:///x", "kwok": ""})["errors"],
    )
    assert len(sums) == len(urls) == 1
    assert (
        all(word in sums[0] for word in ("64 hexadecimal digits", '"etcd": 12', '"kubelet"', '"kwok"'))
        and '"kubectl"' not in sums[0]
    )
    assert "control_plane_etcd_url, control_plane_kwok_url must be like https://" in urls[0]


@pytest.mark.parametrize(
    "url",
    [
        "http://me:s3cr3t/w@h.test/x",
        "http://me:s3cr3t#w@h.test",
        "http://me:s3cr3t?w@h.test",
        "http://me:s3@cr3t@h.test",
        "https://me:s3cr3t@h.test:abc/",
        "https://h.test/x?token=s3cr3t",
        "https://h.test/#s3cr3t",
        "ftp://me:s3cr3t@h.test",
        "//h.test",
        " https://me:s3cr3t@h.test",
        "https://",
    ],
)
def test_a_url_that_cannot_be_is_not_shown(url):
    told = plan("auto", urls={"etcd": url})["errors"]
    assert len(told) == 1 and "control_plane_etcd_url" in told[0] and "s3cr3t" not in told[0]


def test_logins_and_ports_are_taken():
    for url in ("HTTPS://me:p%40ss@h.test:8443/a/b/", "http://me@127.0.0.1:80", "http://[::1]:8080/x"):
        assert plan("auto", urls={"etcd": url})["errors"] == []
