# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the checks, several at a time, and sums up what passed, what failed and what was left out.

    python tests/run_checks.py [NAME...]     a name is a check's or a group's; without any, all run
    python tests/run_checks.py --list        say the names

The groups begin in the order lint, unit, sanity and integration; when a check fails, those of later groups do not begin or
are interrupted. Each check's output goes to a log below .cache/checks/logs, and is shown where it failed. Exits with 1 if anything failed, 2 for a wrong name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "checks"))

import definitions
import workplace
from definitions import CHECKS, GROUPS, Check, Run
from workplace import Failed

# One more than processors: most checks wait for a while, for servers or for what they have killed.
WORKERS = (os.cpu_count() or 1) + 1
SHOWN_LINES = 150


class Runner:
    """The checks of one call: which are under way, and how each ended."""

    def __init__(self, notes: list[str]):
        self.left_out = list(notes)
        self.under_way: dict[Check, Run] = {}
        self.passed: list[Run] = []
        self.failed: list[Run] = []
        self.seconds: dict[str, float] = {}
        # No check of a later group than this one begins or goes on; -1 is none at all.
        self.last_group = len(GROUPS)

    def run_all(self, checks: list[Check]) -> None:
        """Run checks, groups in their order and long ones first, and return when all of them have ended."""
        with ThreadPoolExecutor(WORKERS) as pool:
            # Consumed, so that an error of this program's own is not lost.
            list(pool.map(self.run, sorted(checks, key=lambda check: (GROUPS.index(check.group), -check.minutes))))

    def run(self, check: Check) -> None:
        if GROUPS.index(check.group) > self.last_group:
            return
        run = self.under_way[check] = Run(check.name)
        began = time.monotonic()
        problem = ""
        try:
            check.run(run)
        except Failed as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the summary must name it
            problem = f"the check itself is broken: {error!r}"
        finally:
            self.seconds[run.name] = time.monotonic() - began
            del self.under_way[check]
            # What was interrupted has not run.
            if GROUPS.index(check.group) <= self.last_group:
                self.end(run, problem)
                if problem:
                    self.stop_after(GROUPS.index(check.group))

    def end(self, run: Run, problem: str) -> None:
        (self.failed if problem else self.passed).append(run)
        self.left_out += run.left_out + (run.tests.skipped if run.tests else [])
        tests = f"{run.tests.passed} tests" if run.tests else ""
        say(f"{'FAILED' if problem else 'ok':6} {run.name:21} {self.seconds[run.name]:5.0f} s  {tests}")
        if problem:
            text = run.log.read_text(encoding="utf-8", errors="replace") if run.log.exists() else ""
            say("\n".join(["", *text.splitlines()[-SHOWN_LINES:], f"{run.name}: {problem} (all of it: {run.log})", ""]))

    def stop_after(self, group: int) -> None:
        """Begin no check of a later group, and interrupt those under way as Ctrl-C does, so that no control plane stays."""
        self.last_group = min(self.last_group, group)
        for check, run in list(self.under_way.items()):
            if GROUPS.index(check.group) > self.last_group and run.process and run.process.poll() is None:
                run.process.send_signal(signal.SIGINT)


def say(text: str) -> None:
    print(text, flush=True)


def chosen(names: list[str]) -> list[Check]:
    known = {check.name for check in CHECKS} | set(GROUPS)
    wrong = [name for name in names if name not in known]
    if wrong:
        say(f"run_checks.py: {', '.join(wrong)}: no such check or group; expected some of {', '.join(sorted(known))}")
        raise SystemExit(2)
    return [check for check in CHECKS if not names or check.name in names or check.group in names]


def report(runner: Runner, checks: list[Check], began: float) -> int:
    """Say how it ended, and return the exit code."""
    ended = {run.name for run in runner.passed + runner.failed}
    say("\nChecks\n")
    for environment in (workplace.NEWEST, workplace.OLDEST):
        if environment.collection.exists():
            say(f"  {environment.name}: ansible-core {environment.core()} on Python {environment.python()}")
    for run in sorted(runner.passed + runner.failed, key=lambda run: [check.name for check in checks].index(run.name)):
        tests = f"{run.tests.passed:5} passed {run.tests.failed:3} failed" if run.tests else ""
        say(f"  {'ok' if run in runner.passed else 'FAILED':7}{run.name:22}{runner.seconds[run.name]:5.0f} s {tests}")
    for check in checks:
        if check.name not in ended:
            say(f"  not run {check.name}")
    if runner.left_out:
        say("\nLeft out\n\n" + "\n".join(f"  {note}" for note in sorted(set(runner.left_out))))
    # A check that counts no tests is one itself.
    passed = sum(run.tests.passed if run.tests else 1 for run in runner.passed) + sum(
        run.tests.passed for run in runner.failed if run.tests
    )
    failed = sum(max(run.tests.failed, 1) if run.tests else 1 for run in runner.failed)
    say(f"\n{len(runner.passed)} of {len(checks)} checks passed in {(time.monotonic() - began) / 60:.1f} min")
    say(f"{passed} passed, {failed} failed")
    return 0 if checks and len(runner.passed) == len(checks) else 1


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        for check in CHECKS:
            say(f"{check.group:12} {check.name}")
        return 0
    checks = chosen(arguments)
    began = time.monotonic()
    # What the caller's shell, git hook or make has set must not change what runs.
    for name in [
        name for name in os.environ if name.startswith(("ANSIBLE_", "GIT_", "MAKE", "MFLAGS", "PYTEST_", "PYTHON"))
    ]:
        del os.environ[name]
    try:
        workplace.PLACE.mkdir(parents=True, exist_ok=True)
        lock = (workplace.PLACE / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("run_checks.py: the checks run in this checkout already; wait for them, or use another clone")
        return 1
    except OSError as error:
        say(f"run_checks.py: {workplace.PLACE} cannot be written: {error.strerror}")
        return 1
    try:
        shutil.rmtree(workplace.LOGS, ignore_errors=True)
        workplace.LOGS.mkdir()
        definitions.all_tests_have_a_check()
        notes, oldest = workplace.prepare(any(check.needs_oldest for check in checks))
    except (Failed, OSError) as error:
        # A failed copy of many files is told by the first of them.
        say(f"run_checks.py: {str(error)[:500]}")
        return 1
    except KeyboardInterrupt:
        say("run_checks.py: interrupted")
        return 130
    checks = [check for check in checks if oldest or not check.needs_oldest]
    runner = Runner(notes)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_signal: runner.stop_after(-1))
    threading.Thread(target=heartbeat, args=(runner,), daemon=True).start()
    runner.run_all(checks)
    return report(runner, checks, began)


def heartbeat(runner: Runner) -> None:
    """Say each minute what is under way."""
    while True:
        time.sleep(60)
        say(f"...... {', '.join(sorted(run.name for run in list(runner.under_way.values())))}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
