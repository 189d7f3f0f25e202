# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import http.server
import shutil
import signal
import tempfile
import threading
from pathlib import Path

import pytest
from example_plays import HERE, Examples, Mirror, end_processes, run


@pytest.fixture(scope="session")
def examples(request) -> Examples:
    programs = request.config.pluginmanager.get_plugin(str(HERE.parent / "conftest.py")).binaries()
    folder = Path(tempfile.mkdtemp(prefix="gpuwl-test-")).resolve()
    handler = functools.partial(Mirror, directory=str(folder / "mirror"))
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield run(folder, programs, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            end_processes(folder)
            shutil.rmtree(folder, ignore_errors=True)
            signal.signal(signal.SIGTERM, before)
