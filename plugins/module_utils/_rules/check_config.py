# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the offline checker, and the check of one file behind it.

Private to the collection gpuwl.sandbox. Source: the lab's step 8.
"""

import os
import signal
import sys
from typing import Any, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import PROFILES, is_labelled
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.dump import read_dump
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import in_order, lab_text, one_line

USAGE = """\
usage: check-config.sh FILE
Judges whether the label nvidia.com/gpu.workload.config of each node agrees with the
nvidia.com/ resource it advertises. FILE is what `kubectl get nodes -o json` printed;
no cluster is contacted.
Prints OK=<nodes checked> and exits with 0, or a line MISMATCH=<node> <reason> for each
bad node and exits with 1. Exits with 2 if FILE cannot be read as a dump of nodes."""


def check_file(path: str, profile: str) -> Dict[str, Any]:
    """Judge the nodes in one dump.

    path: the file; profile: a key of consistency.PROFILES.
    Returns path; exit_code 0 (all well), 1 (mismatches) or 2 (unreadable); checked,
    the number of nodes judged; text, for standard output; error, for standard error
    ("" if none), one line; findings, ascending by node name.
    """
    judge = PROFILES[profile]
    context = {"source": path}
    try:
        judged = read_dump(path, "Node", lambda node: judge(node, context) if is_labelled(node) else None)
    except Unreadable as error:
        return unread(path, str(error))
    labelled = [findings for findings in judged if findings is not None]
    findings = in_order([found for several in labelled for found in several])
    return {
        "path": path,
        "exit_code": 1 if findings else 0,
        "checked": len(labelled),
        "text": lab_text(findings, len(labelled)),
        "error": "",
        "findings": findings,
    }


def unread(path: str, error: str) -> Dict[str, Any]:
    """Return what check_file returns for a dump that cannot be read, and why."""
    return {"path": path, "exit_code": 2, "checked": 0, "text": "", "error": one_line(error), "findings": []}


def main(arguments: List[str]) -> int:
    """Run the checker with its command line arguments; return the exit code."""
    exit_code, text, wrong = 0, "", ""
    if arguments in (["-h"], ["--help"]):
        text = USAGE
    elif len(arguments) != 1:
        exit_code, wrong = 2, "expected one FILE, got %d arguments; see --help" % len(arguments)
    else:
        result = check_file(arguments[0], "lab")
        exit_code, text, wrong = result["exit_code"], result["text"], result["error"]
    try:
        if text:
            _write(1, text)
    except OSError as error:
        exit_code, wrong = 2, f"cannot write the result: {error.strerror}"
    if wrong:
        try:
            _write(2, "check-config.sh: " + wrong)
        except OSError:
            pass  # nobody is left to be told
    return exit_code


def _write(descriptor: int, text: str) -> None:
    """Write a text and a newline, in UTF-8 whatever the locale says.

    Not through sys.stdout, which may be None, and which Python flushes once more
    at exit, with a traceback if that fails.
    """
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(text.encode("utf-8", "backslashreplace") + b"\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    raise SystemExit(main(sys.argv[1:]))
