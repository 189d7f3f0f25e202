# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Upstream's releases on loopback, laid out as upstream has them, by a server that can be made to misbehave."""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import platform
import socket
import ssl
import tarfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
PATHS = {
    **{
        name: f"/kubernetes/v1.37.2/bin/linux/{ARCHITECTURE}/{name}"
        for name in ("kubectl", "kube-scheduler", "kube-controller-manager", "kube-apiserver")
    },
    **{name: f"/kwok/v0.8.0/{name}-linux-{ARCHITECTURE}" for name in ("kwok", "kwokctl")},
    "etcd": f"/etcd/v3.7.3/etcd-v3.7.3-linux-{ARCHITECTURE}.tar.gz",
}
ETCD_SUMS = "/etcd/v3.7.3/SHA256SUMS"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def releases(programs: Path) -> dict[str, bytes]:
    """Path below the server -> content, of the programs in the folder."""
    files = {path: (programs / name).read_bytes() for name, path in PATHS.items() if name != "etcd"}
    sums = {
        f"{path}.sha256": sha256(content).encode() for path, content in files.items() if path.startswith("/kubernetes/")
    }
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        tar.add(programs / "etcd", f"etcd-v3.7.3-linux-{ARCHITECTURE}/etcd")
    etcd = archive.getvalue()
    others = f"{'0' * 64}  etcd-v3.7.3-darwin-amd64.zip\n{sha256(etcd)}  {PATHS['etcd'].rpartition('/')[2]}\n"
    return {**files, **sums, PATHS["etcd"]: etcd, ETCD_SUMS: others.encode()}


class Mirror:
    """The server. `asked` are the paths of all requests, `times` and `told` when and with which password each came.

    `troubles` maps a path to what happens there, one after the other if a list.
    """

    def __init__(self, files: dict[str, bytes], context: ssl.SSLContext | None = None) -> None:
        self.files = dict(files)
        self.troubles: dict[str, Callable | list[Callable]] = {}
        self.asked: list[str] = []
        self.times: list[float] = []
        self.told: list[str | None] = []
        self.login: str | None = None
        self.halfway = threading.Event()
        self.gate = threading.Event()
        self.closing = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"mirror": self}))
        self.server.handle_error = lambda *_: None  # clients that hang up are part of the tests
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def urls(self, base: str | None = None) -> dict[str, str]:
        """The role's three variables."""
        return {
            f"control_plane_{name}_url": f"{base or f'http://{self.host}'}/{name}"
            for name in ("kubernetes", "etcd", "kwok")
        }

    def given(self, *names: str) -> dict[str, str]:
        """What a user gives as control_plane_sha256 for these programs."""
        return {name: sha256(self.files[PATHS[name]]) for name in names}

    def trouble(self, path: str) -> Callable:
        found = self.troubles.get(path, good)
        if isinstance(found, list):
            return found.pop(0) if found else good
        return found

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Handler(BaseHTTPRequestHandler):
    mirror: Mirror

    def do_GET(self) -> None:
        path = urlsplit(self.path).path  # a proxy is asked for a whole URL
        self.mirror.asked.append(path)
        self.mirror.times.append(time.monotonic())
        self.mirror.told.append(self.headers.get("Authorization"))
        expected = self.mirror.login and "Basic " + base64.b64encode(self.mirror.login.encode()).decode()
        if expected and self.mirror.told[-1] != expected:
            self.send_error(401)
        elif path not in self.mirror.files:
            self.send_error(404)
        else:
            self.mirror.trouble(path)(self, self.mirror.files[path])

    def begin(self, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def good(handler: Handler, content: bytes) -> None:
    handler.begin(len(content))
    handler.wfile.write(content)


def corrupt(handler: Handler, content: bytes) -> None:
    good(handler, content[:-1] + b"?")


def truncated(handler: Handler, content: bytes) -> None:
    handler.begin(len(content))
    handler.wfile.write(content[: len(content) // 2])


def stalled(handler: Handler, content: bytes) -> None:
    truncated(handler, content)
    handler.wfile.flush()
    handler.mirror.halfway.set()
    handler.mirror.closing.wait()


def held(handler: Handler, content: bytes) -> None:
    """Halfway, until the gate opens."""
    truncated(handler, content)
    handler.wfile.flush()
    handler.mirror.halfway.set()
    handler.mirror.gate.wait(60)
    handler.wfile.write(content[len(content) // 2 :])


def slow(handler: Handler, content: bytes) -> None:
    """In pieces, one every 0.3 s for 2 s."""
    handler.begin(len(content))
    for start in range(0, len(content), size := len(content) // 6):
        handler.wfile.write(content[start : start + size])
        time.sleep(0.3)


def silent(handler: Handler, content: bytes) -> None:
    handler.mirror.closing.wait()


def status(code: int) -> Callable:
    return lambda handler, content: handler.send_error(code)


def redirect(url: str) -> Callable:
    def handle(handler: Handler, content: bytes) -> None:
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return handle


def self_signed(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(days=1)
    )
    certificate = builder.sign(key, hashes.SHA256())
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "pem").write_bytes(key.private_bytes(*plain) + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pem")
    return context


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
