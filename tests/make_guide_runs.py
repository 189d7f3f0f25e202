# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the checker as the README and the guide on dumps show it, and writes its real output there.

A block of kind `console` that calls check-config.sh is a shell session: lines after "$ " are run one after the other in a copy of
docs/docsite/examples, and what stands below each is what it printed, errors among it.

python tests/make_guide_runs.py           write the output anew
python tests/make_guide_runs.py --check   exit with 1 if a committed one differs
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "docsite" / "examples"
SCRIPT = ROOT / "roles" / "check" / "files" / "check-config.sh"
TEXTS = [ROOT / "README.md", ROOT / "docs" / "docsite" / "rst" / "guide_dumps.rst"]

# What a session may begin a command with.
PROGRAMS = ("sh check-config.sh", "cat ", "gzip ", "tar ", "echo ")

_BLOCKS = {
    ".rst": re.compile(r"^\.\. code-block:: console\n\n(?P<body>(?:   .*\n|\n(?=\n*   ))+)", re.MULTILINE),
    ".md": re.compile(r"^```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL),
}
_INDENT = {".rst": "   ", ".md": ""}
_END = "\x1e\n"  # between what two commands print


class Session(NamedTuple):
    """A block: where its text stands, and its commands."""

    start: int
    end: int
    commands: list[str]


def sessions(path: pathlib.Path, text: str) -> list[Session]:
    """Return the blocks of a text that call the checker."""
    found = []
    for block in _BLOCKS[path.suffix].finditer(text):
        lines = textwrap.dedent(block["body"]).splitlines()
        commands = [line[2:] for line in lines if line.startswith("$ ")]
        if any("check-config.sh" in command for command in commands):
            found.append(Session(block.start("body"), block.end("body"), commands))
    return found


def run(commands: list[str]) -> str:
    """Return the session that these commands make, each followed by what it printed."""
    for command in commands:
        if not command.startswith(PROGRAMS):
            raise SystemExit(f"{command}: a session that calls check-config.sh may only use {', '.join(PROGRAMS)}")
    script = "rc=0\n" + "".join(f"(exit $rc)\n{command}\nrc=$?\nprintf '\\036\\n'\n" for command in commands)
    with tempfile.TemporaryDirectory(prefix="gpuwl-guide-") as folder:
        place = pathlib.Path(folder) / "examples"
        shutil.copytree(EXAMPLES, place)
        shutil.copy(SCRIPT, place)
        # The interpreter that has PyYAML; nothing of the caller's decides what is printed.
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=place,
            env={"PATH": path, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=True,
        )
    printed = done.stdout.split(_END)
    return "".join(f"$ {command}\n{output}" for command, output in zip(commands, printed, strict=False))


def make(path: pathlib.Path) -> str:
    """Return the text of a page with the output of every session as it is now."""
    text = path.read_text(encoding="utf-8")
    for session in reversed(sessions(path, text)):
        body = textwrap.indent(run(session.commands), _INDENT[path.suffix])
        text = text[: session.start] + body + text[session.end :]
    return text


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: make_guide_runs.py [--check]", file=sys.stderr)
        return 2
    differ = False
    for path in TEXTS:
        text = make(path)
        if path.read_text(encoding="utf-8") == text:
            continue
        if arguments:
            differ = True
            print(
                f"{path.relative_to(ROOT)} shows other output than the checker's: run `make guide-runs`",
                file=sys.stderr,
            )
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
