# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks. Each one proves that it looked at something: most tools are content with no file, no test or no program."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from results import Counted, count
from workplace import LOGS, NEWEST, OLDEST, PLACE, ROOT, Environment, Failed, copy_files, files


@dataclass
class Run:
    """One check under way: its log, the processes it has started, and what it counted."""

    name: str
    left_out: list[str] = field(default_factory=list)
    tests: Counted | None = None
    process: subprocess.Popen | None = None

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def program(self, *command: str, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
        """Run a program to its end and return its output, which also goes to the log. Raises Failed unless it exits with 0."""
        variables = NEWEST.variables() if environment is None else environment
        if not shutil.which(command[0], path=variables["PATH"]):
            raise Failed(
                f"there is no program {command[0]}: remove .venv and .venv-oldest and run again, to install it"
            )
        with self.log.open("a+", encoding="utf-8", errors="replace") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            begin = log.tell()
            self.process = subprocess.Popen(
                command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
            code = self.process.wait()
            log.seek(begin)
            output = log.read()
        if code:
            raise Failed(f"{command[0]} ended with {code}")
        return output


HOLDER = "gpuwl.sandbox contributors"
GROUPS = ("lint", "unit", "sanity", "integration")


@dataclass(frozen=True)
class Check:
    """A check by its name, the group that a make target runs, and what it does."""

    name: str
    group: str  # one of GROUPS
    run: Callable[[Run], None]
    # Long ones begin first.
    minutes: float = 0
    needs_oldest: bool = False


def expect(pattern: str, output: str, what: str) -> str:
    """The first group of a pattern that the output must match, or else the check looked at nothing."""
    found = re.search(pattern, output)
    if not found:
        raise Failed(f"{what}: the output does not say so")
    return found.group(1)


def ruff(run: Run) -> None:
    run.program("ruff", "check", ".")
    output = run.program("ruff", "format", "--check", ".")
    seen, there = int(expect(r"(\d+) files? already formatted", output, "ruff saw files")), len(files("*.py"))
    if seen < there:
        raise Failed(f"ruff looked at {seen} files of {there}")


def yamllint(run: Run) -> None:
    names = files("*.yml", "*.yaml", ".yamllint")
    if not names:
        raise Failed("there is no YAML file to look at")
    run.program("yamllint", "--strict", *names)


def types(run: Run) -> None:
    """All that modules and plugins share, and what travels with modules also for the oldest Python that mypy knows."""
    shared = "ansible_collections.gpuwl.sandbox.plugins"
    for arguments, folders in (
        ([], ["module_utils", "plugin_utils"]),
        (["--python-version", "3.10", "--package", f"{shared}.module_utils"], ["module_utils"]),
    ):
        there = len(files(*(f"plugins/{folder}/*.py" for folder in folders)))
        output = run.program("mypy", *arguments)
        # Folders without __init__.py count as files too.
        if int(expect(r"no issues found in (\d+) source files", output, "mypy saw files")) < there:
            raise Failed(f"mypy did not look at all of {there} files")


def licences(run: Run) -> None:
    # In a copy of its own: tests that run meanwhile leave files in the checkout that it would see.
    copy = PLACE / "licences"
    shutil.rmtree(copy, ignore_errors=True)
    copy_files(copy)
    run.program("reuse", "lint", cwd=copy)
    seen = json.loads(run.program("reuse", "lint", "--json", cwd=copy))["files"]
    others = [file["path"] for file in seen if not all(HOLDER in one["value"] for one in file["copyrights"])]
    if not seen or others:
        raise Failed(f"files whose copyright is not of the {HOLDER}: {', '.join(others) or 'reuse saw none'}")


def changelog(run: Run) -> None:
    if not files("changelogs/fragments/*.yml", "changelogs/changelog.yaml"):
        raise Failed("there is no changelog fragment and no changelog to look at")
    run.program("antsibull-changelog", "lint")
    if (ROOT / "changelogs" / "changelog.yaml").exists():
        run.program("antsibull-changelog", "lint-changelog-yaml", "changelogs/changelog.yaml")


def docs(run: Run) -> None:
    if not files("docs/docsite/rst/*.rst"):
        raise Failed("there is no page to look at")
    options = ["--plugin-docs", "--validate-collection-refs", "dependent", "--disallow-unknown-collection-refs"]
    command = ["antsibull-docs", "lint-collection-docs", *options, "--check-extra-docs-refs", str(NEWEST.collection)]
    try:
        run.program(*command)
    except Failed as error:
        # antsibull-docs ends with 3 when it found something.
        if not str(error).endswith("ended with 3"):
            raise
        # The one reference that is not ours: kubernetes.core's doc fragment names a module of a collection it does not need.
        output = run.log.read_text(encoding="utf-8").splitlines()[1:]
        if not output or [line for line in output if "M(community.okd.k8s_auth)" not in line]:
            raise


def execution_environment(run: Run) -> None:
    context = str(PLACE / "execution-environment")
    run.program("ansible-builder", "create", "--context", context, cwd=NEWEST.collection)
    output = run.program("ansible-builder", "introspect", str(NEWEST.collections))
    expect(r"(kubernetes>=.*) # from collection gpuwl\.sandbox", output, "an image gets what the collection needs")


def script(run: Run) -> None:
    run.program("python", "tests/make_script.py", "--check")


def ansible_lint(run: Run) -> None:
    command = ["ansible-lint", "--offline", "--strict", "--profile", "production"]
    output = run.program(*command, cwd=NEWEST.collection)
    expect(r"Passed: 0 failure\(s\), 0 warning\(s\) in ([1-9]\d*) files", output, "ansible-lint saw files")
    expect(r"Profile '(production)' was required, and it passed", output, "the profile was production")


@dataclass(frozen=True)
class Suite:
    """Test files of the checkout, each of which must appear in the junit file."""

    paths: tuple[str, ...]
    but: tuple[str, ...] = ()

    def files(self) -> set[str]:
        return set(_test_files(self.paths)) - set(_test_files(self.but))

    def __call__(self, run: Run) -> None:
        junit = LOGS / f"{run.name}.xml"
        # The user's own HOME: the programs of the control plane lie in its cache, docker's settings beside it.
        path = f"{NEWEST.venv / 'bin'}:{os.environ['PATH']}"
        options = ["-rfEs", "-p", "no:cacheprovider", f"--junitxml={junit}", *(f"--ignore={path}" for path in self.but)]
        try:
            run.program("python", "-m", "pytest", *options, *self.paths, environment={**os.environ, "PATH": path})
        finally:
            tested(run, [junit], self.files())


def _test_files(paths: Iterable[str]) -> list[str]:
    return [name for path in paths for name in files(path) if Path(name).match("test_*.py")]


def all_tests_have_a_check() -> None:
    """Raise Failed for a test file that no check runs."""
    run = {name for check in CHECKS if isinstance(check.run, Suite) for name in check.run.files()}
    there = set(_test_files(["tests"]))
    forgotten = there - run - set(files("tests/unit"))
    if not there or forgotten:
        raise Failed(f"no check runs {', '.join(sorted(forgotten))}: name it in tests/checks/definitions.py")


def tested(run: Run, junit: list[Path], wanted: set[str]) -> None:
    """Count the tests; none, a failed one, or a test file of which nothing ran, is a failure."""
    run.tests = count(path for path in junit if path.exists())
    missing = {name for name in wanted if name.removesuffix(".py").replace("/", ".") not in run.tests.modules}
    if not wanted or missing or not run.tests.passed:
        raise Failed(f"no test ran of {', '.join(sorted(missing)) or 'these'}")
    if run.tests.failed:
        raise Failed(f"{run.tests.failed} tests failed")


def ansible_test(run: Run, environment: Environment, *arguments: str) -> str:
    # By the interpreter: pip's own start script holds a path that may have a blank in it.
    command = ["python", str(environment.bin / "ansible-test"), *arguments]
    return run.program(*command, cwd=environment.collection, environment=environment.variables())


def junit_of(environment: Environment, pattern: str) -> list[Path]:
    return sorted((environment.collection / "tests" / "output" / "junit").glob(pattern))


def sanity(run: Run, environment: Environment) -> None:
    """All tests that this ansible-core lists; those about a Python, with the oldest core on every one that is here."""
    # ansible-test itself only warns where it is missing, and passes.
    run.program("shellcheck", "--version", environment=environment.variables())
    # Findings that somebody chose not to see are told, and each needs its reason.
    for path in files("tests/sanity/ignore-*.txt"):
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        if any("#" not in line for line in lines):
            raise Failed(f"{path}: each line needs a reason behind a #")
        run.left_out += [f"{path}: {line}" for line in lines]
    listed = re.findall(r"^[a-z0-9-]+$", ansible_test(run, environment, "sanity", "--list-tests"), re.MULTILINE)
    pythons = []
    if environment is NEWEST and OLDEST.collection.exists():
        pythons = ["--python", environment.python()]
        run.left_out.append(f"sanity-newest on other Pythons than {environment.python()}: sanity-oldest has them")
    try:
        output = ansible_test(run, environment, "sanity", "--color", "no", "--junit", *pythons)
    finally:
        run.tests = count(junit_of(environment, "ansible-test-sanity-*.xml"))
        # The junit file gives no reason. A Python that is not here is told below; else there was nothing to look at.
        skipped = [name for name in run.tests.skipped if not re.match(r"(compile|import)-", name)]
        run.tests.skipped = [name.replace(": None", ": there is no file of its kind") for name in skipped]
    missing = [name for name in listed if not junit_of(environment, f"ansible-test-sanity-{name}*.xml")]
    if not listed or missing:
        raise Failed(f"sanity tests that did not run: {', '.join(missing) or 'all'}")
    absent = sorted(set(re.findall(r'Required program "(.*?)" not found', output)))
    if absent:
        raise Failed(f"sanity tests did nothing for want of {', '.join(absent)}: install it")
    run.left_out += sorted(set(re.findall(r"WARNING: Skipping (sanity test .*)", output)))


def units(run: Run, environment: Environment) -> None:
    wanted = set(_test_files(["tests/unit"]))
    try:
        ansible_test(run, environment, "units", "--python", environment.python(), "--color", "no")
    finally:
        tested(run, junit_of(environment, "*-units.xml"), wanted)


def targets(run: Run, environment: Environment) -> None:
    """The integration targets, against a control plane of their own that the collection's role starts."""
    names = sorted({name.split("/")[3] for name in files("tests/integration/targets/*/aliases")})
    names = [name for name in names if not name.startswith("setup_")]
    root = environment.home / ".cache" / "gpuwl-targets"
    config = environment.collection / "tests" / "integration" / "integration_config.yml"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwl"
    config.write_text(f"---\ncontrol_plane_cache: {str(cache)!r}\n", encoding="utf-8")
    try:
        output = ansible_test(run, environment, "integration", "--python", environment.python(), "--color", "no")
    finally:
        # Of a run that was interrupted, the control plane of setup_control_plane is still there.
        end_processes_below(root)
    ran = set(re.findall(r"Running (\w+) integration test role", output))
    if not names or set(names) - ran:
        raise Failed(f"integration targets that did not run: {', '.join(sorted(set(names) - ran)) or 'all'}")
    run.tests = Counted()
    for name in names:
        # Its own tasks, without those of the role that it starts the control plane by.
        own = count(junit_of(environment, f"{name}-*.xml"), f": {name} : ")
        if not own.passed:
            raise Failed(f"no task of the target {name} ran")
        run.tests.passed += own.passed
        run.tests.failed += own.failed
    if run.tests.failed:
        raise Failed(f"{run.tests.failed} tasks failed")


def end_processes_below(root: Path) -> None:
    """End what was started by a path below this folder, and remove the folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(f"{root}/".encode()):
                os.kill(int(path.parent.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended
    shutil.rmtree(root, ignore_errors=True)


def suite(*paths: str, but: tuple[str, ...] = ()) -> Suite:
    """A check that runs test files or folders below tests/integration, without some of them."""
    return Suite(
        tuple(f"tests/integration/{path}" for path in paths), tuple(f"tests/integration/{path}" for path in but)
    )


def both(name: str, group: str, function: Callable[[Run, Environment], None], minutes: float) -> list[Check]:
    """The same check with either ansible-core."""
    return [
        Check(
            f"{name}-{environment.name}",
            group,
            lambda run, at=environment: function(run, at),
            minutes,
            needs_oldest=environment is OLDEST,
        )
        for environment in (NEWEST, OLDEST)
    ]


CHECKS = [
    Check("ruff", "lint", ruff),
    Check("yamllint", "lint", yamllint),
    Check("licences", "lint", licences),
    Check("changelog", "lint", changelog),
    Check("script", "lint", script),
    Check("types", "lint", types),
    Check("repository", "lint", Suite(("tests/repository",))),
    Check("docs", "lint", docs),
    Check("execution-environment", "lint", execution_environment),
    Check("ansible-lint", "lint", ansible_lint, 1),
    *both("units", "unit", units, 0.5),
    *both("sanity", "sanity", sanity, 1),
    *both("targets", "integration", targets, 1),
    Check("kind", "integration", suite("control_plane/test_kind.py"), 3),
    Check("programs", "integration", suite("control_plane/test_downloads.py", "control_plane/test_programs.py"), 3),
    Check(
        "control-plane",
        "integration",
        suite(
            "control_plane", but=tuple(f"control_plane/test_{name}.py" for name in ("kind", "downloads", "programs"))
        ),
        4,
    ),
    Check("existing", "integration", suite("lab/test_existing.py"), 4),
    Check("lab", "integration", suite("lab", but=("lab/test_existing.py",)), 5),
    Check("modules", "integration", suite("modules"), 3),
    Check("operands", "integration", suite("operands"), 2),
    Check("audit", "integration", suite("audit"), 2),
    Check("molecule", "integration", suite("test_molecule.py"), 1),
    Check("examples", "integration", suite("examples"), 1),
    Check("galaxy", "integration", suite("test_galaxy.py"), 1),
]
