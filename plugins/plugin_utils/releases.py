# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: where upstream has the programs of the control plane, and which of them are downloaded or built."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote, urlsplit

# Upstream's names for the machines that it releases server programs for, by `uname -s -m`.
ARCHITECTURES = {"Linux x86_64": "amd64", "Linux aarch64": "arm64", "Linux arm64": "arm64"}
# The releases that come without a published SHA-256.
WITHOUT_SUMS = "kwok"
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
# The user:password@ of a URL, which is never to be shown.
LOGIN = re.compile(r"^(\w+://)[^/]*@")


def _errors(names: list[str], urls: dict[str, str], sums: dict[str, Any]) -> list[str]:
    """What of the user's URLs and sums can't be."""
    odd_sums = {name: value for name, value in sums.items() if name not in names or not SHA256.fullmatch(str(value))}
    odd_urls = [f"control_plane_{name}_url" for name, url in urls.items() if not _is_base(url)]
    told = "must be like https://mirror.example.com/folder, without ? and #; in user:password@ before the server write / ? # @ : as %2F %3F %23 %40 %3A."
    # Not the value: it may hold a password.
    errors = [f"{', '.join(odd_urls)} {told}"] if odd_urls else []
    if odd_sums:
        told = f"control_plane_sha256 takes names of programs ({', '.join(names)}), each with 64 hexadecimal digits as a string."
        errors.append(f"{told} It is not so with {json.dumps(odd_sums, default=str)}.")
    return errors


def _is_base(url: str) -> bool:
    """Whether a URL is one to which the path of a file can be added, and whose login can be told from the rest."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    clear = "@" not in parts.path and "@" not in (parts.password or "") and "@" not in (parts.username or "")
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and not parts.query
        and not parts.fragment
        and clear
        and url == url.strip()
    )


def plan(
    programs: list[dict[str, Any]],
    missing: list[str],
    source: str,
    machine: str,
    urls: dict[str, str],
    sums: dict[str, Any],
    answers: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Where each missing program comes from; plugins/filter/program_plan.yml documents arguments and result."""
    errors = _errors([program["name"] for program in programs], urls, sums)
    if errors:
        return {"errors": errors}
    wanted = [program for program in programs if program["name"] in missing]
    architecture = ARCHITECTURES.get(machine, "")
    without_sum = [
        program["name"] for program in wanted if program["release"] == WITHOUT_SUMS and program["name"] not in sums
    ]
    downloadable = [program for program in wanted if architecture and program["name"] not in without_sum]
    silent = {release: answer["msg"] for release, answer in answers.items() if answer["status"] != 200}
    downloads: list[dict[str, Any]] = []
    reasons: list[str] = []
    if source == "download":
        downloads = wanted
    elif source == "auto":
        downloads = [program for program in downloadable if program["release"] not in silent]
        if not architecture:
            reasons.append(f"there are no releases for {machine}")
        bases = {program["release"]: _shown(_base(program, urls)) for program in wanted}
        reasons += [f"{bases[release]}: {said}" for release, said in silent.items() if release in bases]
        if without_sum and architecture:
            reasons.append(
                f"{' and '.join(without_sum)}: upstream publishes no SHA-256, and control_plane_sha256 has none"
            )
    return {
        "errors": [],
        "architecture": architecture,
        "without_sum": without_sum,
        "ask": {program["release"]: _question(program, architecture, urls, sums) for program in reversed(downloadable)},
        "downloads": [{**program, **_released(program, architecture, urls, sums)} for program in downloads],
        "builds": [program for program in wanted if program not in downloads],
        "reasons": reasons,
    }


def _shown(url: str) -> str:
    return LOGIN.sub(r"\1", url)


def _base(program: dict[str, Any], urls: dict[str, str]) -> str:
    return f"{urls[program['release']].rstrip('/')}/{program['version']}"


def _path(program: dict[str, Any], architecture: str) -> str:
    """The file of a release that holds the program, below the folder of its version."""
    return {
        "etcd": f"etcd-{program['version']}-linux-{architecture}.tar.gz",
        "kubernetes": f"bin/linux/{architecture}/{program['name']}",
        "kwok": f"{program['name']}-linux-{architecture}",
    }[program["release"]]


def _sums_path(program: dict[str, Any], architecture: str) -> str:
    return "SHA256SUMS" if program["release"] == "etcd" else _path(program, architecture) + ".sha256"


def _question(program: dict[str, Any], architecture: str, urls: dict[str, str], sums: dict[str, str]) -> str:
    """A URL that answers where the server has this version: the published sum, or the program itself where the user gave its sum."""
    path = _path(program, architecture) if program["name"] in sums else _sums_path(program, architecture)
    return f"{_base(program, urls)}/{path}"


def _released(program: dict[str, Any], architecture: str, urls: dict[str, str], sums: dict[str, str]) -> dict[str, str]:
    """What get_url needs to download the program, the login apart from the URL."""
    parts = urlsplit(urls[program["release"]])
    base = _shown(_base(program, urls))
    sums_url = f"{base}/{_sums_path(program, architecture)}"
    return {
        "url": f"{base}/{_path(program, architecture)}",
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "sums_url": sums_url,
        "checksum": "sha256:" + (sums.get(program["name"]) or sums_url),
        # Inside of an archive.
        "member": f"etcd-{program['version']}-linux-{architecture}/etcd" if program["release"] == "etcd" else "",
    }
