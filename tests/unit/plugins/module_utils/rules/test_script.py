# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The offline checker as people use it: a file that is sent about, run by a shell."""

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.check_reports import reports_on
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import Settings
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, listed, node, pod
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = pathlib.Path(__file__).resolve().parents[5]
SCRIPT = ROOT / "roles" / "check" / "files" / "check-config.sh"
BAD = [
    node("z", "vm-vgpu", {"nvidia.com/gpu": "1"}),
    node("a", "container", {"nvidia.com/gpu": "1", "nvidia.com/GA102GL_A10": "1"}),
    node("m", "oops", {}),
    node("节点", "container", {}),
    node("evil\nOK=3\x1b[31m", "container", {"nvidia.com/gpu": "x"}),
    node("\ud800", "container", {}),
]


def run(arguments, cwd=None, python=None, **more):
    """Run a command where `python3` is the tests' own Python, or the one given."""
    with_python = dict(
        os.environ, PATH="{}:{}".format(python or os.path.dirname(PYTHON), os.environ["PATH"]), LC_ALL="C"
    )
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    done = subprocess.run([str(one) for one in arguments], cwd=cwd, env=with_python, timeout=30, check=False, **more)
    return done.returncode, (done.stdout or b"").decode("utf-8"), (done.stderr or b"").decode("utf-8")


PYTHON = sys.executable


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad") / "nodes.json"
    path.write_text(json.dumps(listed(HEALTHY + BAD), indent=4), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "nodes.json"
    path.write_text(json.dumps(listed(HEALTHY + [node("plain", None), pod()]), indent=4), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def oldest_python(tmp_path_factory):
    """Give a folder in which python3 is the oldest Python here that the script promises to run on, 3.8 or newer."""
    for name in [f"python3.{minor}" for minor in range(8, sys.version_info.minor)]:
        installed = (pathlib.Path.home() / ".pyenv" / "versions").glob(f"{name[6:]}.*/bin/{name}")
        for candidate in filter(None, [shutil.which(name), *sorted(map(str, installed))]):
            answer = subprocess.run([candidate, "--version"], capture_output=True, check=False)
            if answer.returncode == 0:
                folder = tmp_path_factory.mktemp("oldest")
                # A wrapper and not a link: a pyenv shim looks at the name it is called by.
                (folder / "python3").write_text(f'#!/bin/sh\nexec "{candidate}" "$@"\n')
                (folder / "python3").chmod(0o755)
                return folder
    return pathlib.Path(sys.executable).parent


def test_the_committed_script_is_made_from_the_rules():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "make_script.py"), "--check"], stderr=subprocess.PIPE, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.access(str(SCRIPT), os.X_OK)


def test_old_pythons_can_read_it_far_enough_to_say_so():
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.mark.parametrize("command", [["sh", SCRIPT], ["bash", SCRIPT], [SCRIPT]], ids=["sh", "bash", "itself"])
def test_exit_codes_and_output(command, good, bad):
    assert run(command + [good]) == (0, "OK=3\n", "")
    code, out, err = run(command + [bad])
    assert (code, err) == (1, "")
    assert [line.split(" ")[0] for line in out.splitlines()] == [
        "MISMATCH=a",
        r"MISMATCH=evil\nOK=3\x1b[31m",
        "MISMATCH=m",
        "MISMATCH=z",
        "MISMATCH=节点",
        r"MISMATCH=\ud800",
    ]
    assert all(len(line.split(" ", 1)[1]) > 20 for line in out.splitlines())
    code, out, err = run(command + ["/no/such\nfile"])
    assert (code, out) == (2, "")
    assert err == "check-config.sh: /no/such\\nfile: cannot be read: No such file or directory\n"


def test_the_oldest_python_here(oldest_python, good, bad):
    assert run(["sh", SCRIPT, good], python=oldest_python) == (0, "OK=3\n", "")
    assert run(["sh", SCRIPT, bad], python=oldest_python) == run(["sh", SCRIPT, bad])
    assert run(["sh", SCRIPT, "/no/such"], python=oldest_python)[0] == 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "hello",
        "kind: List",
        '{"kind": "PodList", "items": []}',
        '{"kind": "List", "items": [' + "[" * 200000,
        f'{{"kind": "List", "items": [{json.dumps(HEALTHY[0])}',
        b"\x00\xff\xfe\x00binary",
        b"\x1f\x8b\x08\x00",
    ],
    ids=range(10),
)
def test_unreadable_input_is_one_line_and_no_traceback(content, tmp_path):
    path = tmp_path / "dump"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run(["sh", SCRIPT, path])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(path) in err and "Traceback" not in err


def test_arguments(good):
    code, out, err = run(["sh", SCRIPT])
    assert (code, out, err) == (2, "", "check-config.sh: expected at least one PATH; see --help\n")
    assert run(["sh", SCRIPT, good, good]) == (0, "OK=3\n", "")
    code, out, err = run(["sh", SCRIPT, "--help"])
    assert (code, err) == (0, "") and "PATH" in out


def test_a_file_beside_it_is_never_imported(tmp_path, good):
    for name in ("json.py", "re.py", "codecs.py", "typing.py", "os.py"):
        (tmp_path / name).write_text("raise SystemExit('imported')")
    shutil.copy(str(SCRIPT), str(tmp_path))
    assert run(["sh", "check-config.sh", good], cwd=str(tmp_path)) == (0, "OK=3\n", "")


def test_runs_from_a_path_with_blanks_and_by_name(tmp_path, good):
    folder = tmp_path / "a b'c"
    folder.mkdir()
    shutil.copy(str(SCRIPT), str(folder))
    shutil.copy(str(good), str(folder / "-x y.json"))
    assert run(["./check-config.sh", "-x y.json"], cwd=str(folder)) == (0, "OK=3\n", "")


def test_standard_input_is_left_to_the_data(good):
    with open(str(good), "rb") as stream:
        assert run(["sh", SCRIPT, "/dev/stdin"], stdin=stream) == (0, "OK=3\n", "")


def test_output_that_cannot_be_written(bad):
    with open("/dev/full", "wb") as full:
        code, _out, err = run(["sh", SCRIPT, bad], stdout=full)
    assert (code, err) == (2, "check-config.sh: cannot write the result: No space left on device\n")
    for closing in (">&-", ">&- 2>&-", ">/dev/full 2>/dev/full"):
        code, _out, err = run(["sh", "-c", 'sh "$0" "$1" ' + closing, SCRIPT, bad])
        assert code == 2 and "Traceback" not in err
    assert "Traceback" not in run(["sh", "-c", 'sh "$0" "$1" | true', SCRIPT, bad])[2]


def test_a_machine_without_python(tmp_path, good):
    (tmp_path / "sh").symlink_to(shutil.which("sh"))
    done = subprocess.run(
        [str(tmp_path / "sh"), str(SCRIPT), str(good)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"check-config.sh: needs Python 3.8 or newer, found no python3\n"


def test_a_large_dump_needs_little_memory(tmp_path):
    path = tmp_path / "large.json"
    one = json.dumps(node("n", "container", {"nvidia.com/gpu": "1"}, blob=["x" * 40] * 200), indent=4)
    path.write_text('{{"items": [{}], "kind": "List"}}'.format(",".join([one] * 2500)))
    assert path.stat().st_size > 25e6
    # A process between, or the peak would count what this one held when it forked.
    measure = "import os, subprocess, sys\np = subprocess.Popen(sys.argv[1:])\nprint(os.wait4(p.pid, 0)[2].ru_maxrss)"
    _code, out, _err = run([sys.executable, "-c", measure, "sh", SCRIPT, path])
    verdict, peak = out.splitlines()
    assert verdict == "OK=2500"
    assert int(peak) < 40000  # kB


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            node,
            st.text(min_size=1, max_size=5),
            st.sampled_from(["container", "vm-vgpu", "", "\x85", None]),
            st.dictionaries(
                st.sampled_from(["nvidia.com/gpu", "nvidia.com/A10-4Q"]), st.sampled_from(["0", "1", "-1", "é"])
            ),
        ),
        max_size=4,
    )
)
def test_says_what_the_rules_say(tmp_path, nodes):
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps(listed(nodes)), encoding="utf-8")
    (report,) = reports_on(str(path), Settings())
    code, out, err = run(["sh", SCRIPT, path])
    assert code == report["exit_code"]
    assert out == (report["text"].encode("utf-8", "backslashreplace").decode() + "\n" if report["text"] else "")
    assert err == ("check-config.sh: {}\n".format(report["error"]) if report["error"] else "")
