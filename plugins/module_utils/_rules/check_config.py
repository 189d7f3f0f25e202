# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the offline checker.

Private to the collection gpuwl.sandbox. Source: the lab's step 8, which one PATH without options follows to the letter.
"""

import os
import signal
import sys
import time
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.checking import check_paths
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import SEVERITIES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inputs import Source
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.lab_report import lab_json, lab_text
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_report import operator_json, operator_text
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES, explain
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import (
    PROFILES,
    Settings,
    settings_from,
)

USAGE = """\
usage: check-config.sh [--profile lab|operator] [--cluster-policy FILE] [--operator-version V]
                       [--format text|json] [--fail-on error|warning|info]
                       [--ignore RULE[@NODE]]... [--require-nodes] [--max-size SIZE] PATH...
       check-config.sh --explain RULE

Judges whether the nodes in saved output of kubectl are what their label nvidia.com/gpu.workload.config
says. No cluster is contacted. PATH is a file, a folder, an archive or - for standard input: JSON or
YAML as kubectl prints it, the text of `kubectl describe node`, the GPU Operator's must-gather folder,
also as .gz, .tar or .tar.gz.

One PATH and no option: prints OK=<nodes checked> and exits with 0, or a line MISMATCH=<node> <reason>
for each bad node and exits with 1.

  --profile P           lab: one resource name per node, to the letter (default)
                        operator: what the real GPU Operator makes of the label
  --cluster-policy FILE the ClusterPolicy, if it is not in a PATH
  --operator-version V  such as 26.3.3, if no Deployment, DaemonSet or Pod in a PATH tells it
  --format F            text (default) or json
  --fail-on S           the mildest severity that makes the exit code 1: error (default), warning, info
  --ignore RULE[@NODE]  do not count this rule's findings, on this node or on all; can be repeated
  --require-nodes       exit with 3 if there is no node that the profile judges
  --max-size SIZE       read at most so much, unpacked: 4Gi (default)
  --explain RULE        print what a rule means, why, and where it is known from

Exit codes: 0 all is well; 1 findings; 2 unreadable input or wrong usage; 3 no node, if one is required."""


class Usage(ValueError):
    """A wrong command line; the message says what is wrong with it."""


def main(arguments: List[str]) -> int:
    """Run the checker with its command line arguments; return the exit code."""
    lines: Iterator[str] = iter(())
    try:
        exit_code, lines, wrong = _run(arguments)
    except Usage as error:
        exit_code, wrong = 2, [f"{error}; see --help"]
    try:
        _write(1, lines)
    except OSError as error:
        exit_code, wrong = 2, [f"cannot write the result: {error.strerror}"]
    try:
        _write(2, ("check-config.sh: " + one_line(line) for line in wrong))
    except OSError:
        pass  # nobody is left to be told
    return exit_code


def _run(arguments: List[str]) -> Tuple[int, Iterator[str], List[str]]:
    """Return the exit code, the lines for standard output and those for standard error."""
    if arguments in (["-h"], ["--help"]):
        return 0, iter([USAGE]), []
    if len(arguments) == 1 and (not arguments[0].startswith("--") or os.path.exists(arguments[0])):
        return _one_path(arguments[0])
    options = _options(arguments)
    if options["explain"]:
        return 0, iter([explain(options["explain"])]), []
    progress = _Progress(False)
    outcome = check_paths(options["paths"], _settings(options), progress)
    progress.end()
    lines = text_of(outcome, options["format"], _in_colour())
    return outcome.exit_code(options["fail_on"], options["require_nodes"]), lines, outcome.errors


def _one_path(path: str) -> Tuple[int, Iterator[str], List[str]]:
    """Follow the lab's step 8 to the letter; only a hint is added, on standard error."""
    progress = _Progress(True)
    outcome = check_paths([path], Settings(), progress, hint=True)
    progress.end()
    wrong = outcome.errors
    if outcome.cleared and not wrong:
        bad = sum(len(group.subjects) for group in outcome.groups)
        names = ranges(outcome.cleared)
        wrong = [
            "hint: --profile operator sees nothing wrong with %d of these %d: %s" % (len(outcome.cleared), bad, names)
        ]
    return outcome.exit_code(), text_of(outcome, "text", False), wrong


def text_of(outcome: Outcome, form: str, colour: bool = False) -> Iterator[str]:
    """Give the lines that report an outcome; form: text or json."""
    if outcome.profile == "lab":
        return lab_json(outcome) if form == "json" else lab_text(outcome)
    return operator_json(outcome) if form == "json" else operator_text(outcome, colour)


def _options(arguments: List[str]) -> Dict[str, Any]:
    """Read the command line. Raises Usage."""
    import argparse  # here, because the usual call of one PATH does without

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise Usage(message)

    parser = Parser(prog="check-config.sh", add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", choices=PROFILES, default="lab")
    parser.add_argument("--cluster-policy")
    parser.add_argument("--operator-version", default="")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--fail-on", choices=SEVERITIES, default="error")
    parser.add_argument("--ignore", action="append", default=[])
    parser.add_argument("--require-nodes", action="store_true")
    parser.add_argument("--max-size", default="4Gi")
    parser.add_argument("--explain")
    parser.add_argument("paths", nargs="*")
    options = vars(parser.parse_intermixed_args(arguments))
    if options["explain"] and options["explain"] not in RULE_PAGES:
        raise Usage(
            "--explain {}: there is no such rule, only {}".format(options["explain"], ", ".join(sorted(RULE_PAGES)))
        )
    if options["explain"] and options["paths"]:
        raise Usage("--explain {}: expected no PATH beside it".format(options["explain"]))
    if options["cluster_policy"] == "":
        raise Usage("--cluster-policy: expected the path of a file")
    if options["profile"] == "lab" and (options["cluster_policy"] or options["operator_version"]):
        raise Usage("--cluster-policy and --operator-version belong to --profile operator; the profile is lab")
    if not options["paths"] and not options["explain"]:
        raise Usage("expected at least one PATH")
    return options


def _settings(options: Dict[str, Any]) -> Settings:
    """Turn the options into what a check is asked for. Raises Usage."""
    named = ("profile", "cluster_policy", "operator_version", "ignore", "max_size")
    try:
        return settings_from(**{name: options[name] for name in named})
    except ValueError as error:
        raise Usage(str(error)) from None


class _Progress:
    """Tells on standard error what is being read, once that takes more than two seconds."""

    def __init__(self, only_on_terminal: bool) -> None:
        self._terminal = _is_terminal(2)
        self._silent = only_on_terminal and not self._terminal
        self._next = time.monotonic() + 2
        self._shown = False

    def __call__(self, source: Source, read: int, total: int) -> None:
        """Note that so many bytes of a file are read; total: its size, 0 if that is not known."""
        now = time.monotonic()
        if self._silent or now < self._next:
            return
        self._next = now + (0.5 if self._terminal else 10)
        share = " (%d %%)" % (100 * read // total) if total else ""
        text = f"reading {one_line(source.path)}: {read // 1000000} MB{share}"
        self._shown = self._terminal
        self._tell(f"\r\x1b[K{text}" if self._terminal else text + "\n")

    def end(self) -> None:
        """Take the line off the terminal again."""
        if self._shown:
            self._tell("\r\x1b[K")

    def _tell(self, text: str) -> None:
        try:
            os.write(2, text.encode("utf-8", "backslashreplace"))
        except OSError:
            self._silent = True


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _in_colour() -> bool:
    """Say whether to mark severities: on a terminal that can, unless NO_COLOR (no-color.org) forbids it."""
    return _is_terminal(1) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "dumb")


def _write(descriptor: int, lines: Iterable[str]) -> None:
    """Write lines, in UTF-8 whatever the locale says.

    Not through sys.stdout, which may be None, and which Python flushes once more
    at exit, with a traceback if that fails.
    """
    stream: Optional[Any] = None
    try:
        for line in lines:
            stream = stream or os.fdopen(os.dup(descriptor), "wb")
            stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
    finally:
        if stream:
            stream.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    raise SystemExit(main(sys.argv[1:]))
