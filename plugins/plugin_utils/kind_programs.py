# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection: the programs docker and kind: whether they can be used, and running them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass

from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.kwok_processes import prepare_child
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.providers import ClusterError

# Node images made since then want the cgroup namespace of their own that kind gives its containers from here on.
OLDEST_KIND = (0, 20, 0)
WHERE_TO_GET = {
    "docker": "install it as https://docs.docker.com/engine/install/ says",
    "kind": "get it at https://kind.sigs.k8s.io/docs/user/quick-start/#installation",
}
# Seconds for a command that only asks or starts something.
PATIENCE = 60
DOCKER_PATIENCE = 15
# Lines after the one that says what is wrong.
ASIDE = re.compile(r"^(See 'docker|Run 'docker|For more help|To see the stack trace|Usage:)")
SECRETS = (
    (re.compile(r"(?<=://)[^/\s@]+@"), "...@"),
    (re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"), "..."),
    (re.compile(r"(?i)(token|password|secret)(=|: ?)\S+"), r"\1\2..."),
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class ProgramMissing(ClusterError):
    """docker or kind is not installed."""


@dataclass
class Answer:
    """What a command printed, and its exit code; None where it was ended because its time was over."""

    code: int | None
    output: str
    errors: str

    @property
    def said(self) -> str:
        """What it says is wrong, in one line."""
        return sentence(self.errors) or sentence(self.output) or "nothing"


def run(command: list[str], seconds: float = PATIENCE) -> Answer:
    """Run docker or kind, no longer than so many seconds, nor longer than this process."""
    # kind would ask podman or nerdctl instead of the docker that was looked at.
    environment = {key: value for key, value in os.environ.items() if key != "KIND_EXPERIMENTAL_PROVIDER"}
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        tempfile.TemporaryFile("w+", errors="replace") as errors,
    ):
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                preexec_fn=prepare_child,  # noqa: PLW1509 - this process has one thread
                process_group=0,
            )
        except OSError as error:
            raise ClusterError(
                f"{shutil.which(command[0]) or command[0]} cannot be run ({error.strerror}): mend or replace it"
            ) from error
        code = _end_of(process, seconds)
        output.seek(0)
        errors.seek(0)
        return Answer(code, output.read(), errors.read())


def _end_of(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Its exit code; None where it had to be killed, with the programs that it started."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def demand(command: list[str], what: str, seconds: float = PATIENCE) -> str:
    """What a command prints, which must succeed. what: for the message, such as "listing kind's clusters"."""
    answer = run(command, seconds)
    if answer.code is None:
        raise ClusterError(
            f"{what} failed: `{' '.join(command)}` did not end within {seconds:g} s. Does docker work (docker ps)?"
        )
    if answer.code:
        raise ClusterError(f"{what} failed; {command[0]} says: {answer.said}")
    return answer.output


def check_installed(program: str) -> None:
    if not shutil.which(program):
        raise ProgramMissing(
            f"provider kind needs {program}, and PATH has no program of that name: {WHERE_TO_GET[program]}"
        )


def check_docker() -> None:
    """Refuse to go on without a docker daemon that answers."""
    check_installed("docker")
    answer = run(["docker", "version"], DOCKER_PATIENCE)
    if answer.code != 0:
        said = (
            f"docker version says: {answer.said}"
            if answer.code
            else f"docker version did not end within {DOCKER_PATIENCE} s"
        )
        raise ClusterError(
            f"the docker daemon does not answer ({said}): start it (systemctl start docker, or Docker Desktop), and see that DOCKER_HOST and this"
            " user's rights let `docker version` show a server"
        )


def check_kind() -> None:
    """Refuse to go on without a kind that is new enough."""
    check_installed("kind")
    wanted = f"v{'.'.join(map(str, OLDEST_KIND))} or newer: {WHERE_TO_GET['kind']}"
    answer = run(["kind", "version"])
    found = version_of(answer.output)
    if answer.code != 0 or found is None:
        raise ClusterError(f"kind does not tell its version (`kind version` says: {answer.said}); wanted is {wanted}")
    if found < OLDEST_KIND:
        raise ClusterError(f"kind v{'.'.join(map(str, found))} is too old, wanted is {wanted}")


def version_of(text: str) -> tuple[int, ...] | None:
    """The version that `kind version` prints, such as `kind v0.30.0 go1.24.6 linux/amd64`."""
    found = re.search(r"\bv(\d+)\.(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else None


def sentence(text: str) -> str:
    """The one line of a program's output that says what is wrong, without secrets."""
    lines = [line.strip() for line in COLOURS.sub("", text).splitlines()]
    lines = [line for line in lines if line and not ASIDE.match(line)]
    # kind puts below its error what the program said that it had called: that one's last line tells most.
    errors = [index for index, line in enumerate(lines) if line.startswith("ERROR: ")]
    lines = lines[errors[-1] :] if errors else lines[-1:]
    parts = [
        line.removeprefix("ERROR: ").removeprefix("Command Output: ")[:300]
        for line in (lines if len(lines) < 2 else [lines[0], lines[-1]])
    ]
    told = ": ".join(parts)
    for pattern, instead in SECRETS:
        told = pattern.sub(instead, told)
    return told
