# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: access to a KWOK cluster with the certificates that kwokctl made; the one kubeconfig of a lab's cluster."""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import yaml


def compose(name: str, server: str, pki: Path) -> str:
    """A kubeconfig that needs no other file: kwokctl's certificates stand inside."""

    def encoded(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode("ascii")

    cluster = {"server": server, "certificate-authority-data": encoded("ca.crt")}
    user = {"client-certificate-data": encoded("admin.crt"), "client-key-data": encoded("admin.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    return yaml.safe_dump(config, sort_keys=False)


def is_ready(server: str, pki: Path) -> bool:
    """Whether the API server calls itself ready."""
    try:
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
        # kwokctl's certificate authority lacks the key usage that newer Pythons insist on.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(f"{server}/readyz", timeout=5) as answer:
            status: int = answer.status
            return status == 200
    except OSError:
        return False


def write(path: Path, text: str) -> bool:
    """Put it in place whole, mode 0600; True where anything changed."""
    if is_written(path, text):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def is_written(path: Path, text: str) -> bool:
    """Whether it is in place already."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8") == text and path.stat().st_mode & 0o777 == 0o600
    return False


def is_foreign(path: Path, name: str) -> bool:
    """Whether a file is there that holds anything but the cluster `name` on loopback: the user's own, such as ~/.kube/config."""
    config = _read(path)
    return bool(config) and not _is_of(config, name)


def is_of(path: Path, name: str) -> bool:
    """Whether it is the kubeconfig of the cluster `name` on loopback."""
    return _is_of(_read(path), name)


def _read(path: Path) -> Any:
    """What it holds: nothing where it is not there, something true but no dict where it cannot be understood."""
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, yaml.YAMLError):
        return "not to be understood"


def _is_of(config: Any, name: str) -> bool:
    if not isinstance(config, dict):
        return False
    try:
        entries = [config[part] for part in ("clusters", "users", "contexts")]
        named = all([entry["name"] for entry in part] == [name] for part in entries)
        return named and entries[0][0]["cluster"]["server"].startswith("https://127.0.0.1:")
    except (KeyError, TypeError, AttributeError):
        return False
