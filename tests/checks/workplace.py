# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the checks run: interpreters, environments, and copies laid out as ansible-test wants a collection to lie."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".cache" / "checks"
LOGS = PLACE / "logs"
GET_PIP = ROOT / "tests" / "checks" / "get_pip.py"
LINKS = Path(tempfile.mkdtemp(prefix="gpuwl-checks-"))
atexit.register(shutil.rmtree, LINKS, ignore_errors=True)
# Every Python that a supported ansible-core runs modules on, and the one that the stand-alone script promises.
PYTHONS = [f"3.{minor}" for minor in range(8, 15)]
# The oldest ansible-core that is supported, and its interpreter.
OLDEST_CORE = "2.19"
OLDEST_PYTHON = "3.11"


class Failed(Exception):
    """A check that found something, ran nothing, or could not run."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with its ansible-core, and the copy of the collection that is checked with it."""

    name: str  # newest or oldest
    venv: Path

    @property
    def home(self) -> Path:
        """The HOME of what runs here, so that the user's ~/.ansible is left alone. Kept, for ansible-test's own environments."""
        return PLACE / self.name / "home"

    @property
    def bin(self) -> Path:
        """The folder of its programs, by a way without blanks: ansible-test starts no interpreter whose path has one."""
        return (LINKS / self.name if " " in str(self.venv) else self.venv) / "bin"

    @property
    def collections(self) -> Path:
        return PLACE / self.name / "collections"

    @property
    def collection(self) -> Path:
        return self.collections / "ansible_collections" / "gpuwl" / "sandbox"

    def python(self) -> str:
        """The version of its interpreter, such as 3.13."""
        return _answer(self.venv / "bin" / "python", "import sys; print('%d.%d' % sys.version_info[:2])")

    def core(self) -> str:
        """The version of its ansible-core, such as 2.21.5."""
        return _answer(self.venv / "bin" / "python", "import ansible.release; print(ansible.release.__version__)")

    def variables(self) -> dict[str, str]:
        """The environment variables: programs of this environment first, then one interpreter for each Python that works.

        No other folder of the caller's PATH: a pyenv shim there answers to names that it has no interpreter for.
        """
        path = [self.bin, PLACE / "bin", "/usr/local/bin", "/usr/bin", "/bin"]
        kept = {name: os.environ[name] for name in ("TERM", "TMPDIR") if name in os.environ}
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}
        return {
            **kept,
            **pip,
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "PATH": ":".join(map(str, path)),
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
        }

    def lay_out(self) -> None:
        """Copy the checkout's files to where ansible-test takes them for a collection, beside kubernetes.core."""
        copy_files(self.collection)
        installed = next((self.venv / "lib").glob("python3*/site-packages/ansible_collections/kubernetes"), None)
        if installed is None:
            raise Failed(f"{self.venv} has no collection kubernetes.core: remove it and run again")
        beside = self.collections / "ansible_collections" / "kubernetes" / "core"
        shutil.copytree(installed / "core", beside)
        # Repositories of their own: for the checkout's these files are ignored ones, which the tools pass over.
        for folder in (self.collection, beside):
            for command in (["init", "--quiet"], ["add", "--all"]):
                subprocess.run(["git", *command], cwd=folder, check=True)
        cache = self.home / ".ansible" / "test" / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        # ansible-test fetches this file from a server unless it lies there, under the name of the pip that it wants.
        source = next((self.venv / "lib").glob("python3*/site-packages/ansible_test/_internal/python_requirements.py"))
        for version in re.findall(r"\bpip='([\d.]+)'", source.read_text(encoding="utf-8")):
            shutil.copy(GET_PIP, cache / f"get_pip_{version.replace('.', '_')}.py")


NEWEST = Environment("newest", ROOT / ".venv")
OLDEST = Environment("oldest", ROOT / ".venv-oldest")


def files(*patterns: str) -> list[str]:
    """The files of the checkout, versioned or not yet, that match git's patterns; without any, all of them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    if not shutil.which("git"):
        raise Failed("there is no program git: install it")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"the checks need a git checkout: {done.stderr.strip()}")
    return sorted({name for name in done.stdout.split("\0") if name and _is_file(ROOT / name)})


def copy_files(target: Path) -> None:
    """Copy the checkout's files, without the link that leads back to it."""
    for name in files():
        if not name.startswith(".collections/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def interpreters() -> dict[str, Path]:
    """Every Python of PYTHONS that is on PATH or under pyenv and works, by version."""
    found = {}
    for version in PYTHONS:
        name = f"python{version}"
        folders = os.environ.get("PATH", "").split(":")
        under = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
        candidates = [Path(folder) / name for folder in folders] + sorted(under.glob(f"{version}.*/bin/{name}"))
        works = [path for path in candidates if os.access(path, os.X_OK) and _works(path)]
        if works:
            # By the path that it gives itself: a shim looks at the name it is called by.
            found[version] = Path(_answer(works[-1], "import sys; print(sys.executable)"))
    return found


def prepare(oldest: bool) -> tuple[list[str], bool]:
    """Have the links to interpreters and the copies, with the environment of the oldest ansible-core if it is wanted.

    Returns what had to be left out, and whether there is an oldest ansible-core besides the newest.
    """
    found = interpreters()
    links = PLACE / "bin"
    shutil.rmtree(links, ignore_errors=True)
    links.mkdir(parents=True)
    for version, path in found.items():
        (links / f"python{version}").symlink_to(path)
    for environment in (NEWEST, OLDEST):
        (LINKS / environment.name).symlink_to(environment.venv)
        # What lies there afterwards is of this run.
        shutil.rmtree(environment.collections, ignore_errors=True)
    NEWEST.lay_out()
    oldest_found = next(iter(found), "none")
    notes = [] if "3.8" in found else [f"the stand-alone script on Python 3.8: the oldest here is {oldest_found}"]
    if not oldest:
        return notes, False
    if NEWEST.core().startswith(OLDEST_CORE):
        notes.append(f"all checks with a newer ansible-core: Python {NEWEST.python()} takes none after {NEWEST.core()}")
        return notes, False
    if OLDEST_PYTHON not in found:
        notes.append(f"all checks with ansible-core {OLDEST_CORE}: there is no Python {OLDEST_PYTHON} here")
        return notes, False
    environment = {**os.environ, "VENV": OLDEST.venv.name, "PYTHON": str(found[OLDEST_PYTHON])}
    if subprocess.run(["tools/venv", "requirements-oldest.txt"], cwd=ROOT, env=environment, check=False).returncode:
        raise Failed("the environment with the oldest ansible-core could not be made; the reason is above")
    OLDEST.lay_out()
    return notes, True


def _is_file(path: Path) -> bool:
    """A file or a link; a folder is another repository within this one."""
    return path.is_symlink() or path.is_file()


def _works(python: Path) -> bool:
    try:
        return (
            subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def _answer(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
