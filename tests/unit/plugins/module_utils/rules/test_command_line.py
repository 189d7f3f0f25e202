# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the offline checker, by its script."""

import array
import fcntl
import gzip
import json
import os
import pathlib
import pty
import subprocess
import sys
import termios
import time

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.check_config import text_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.checking import check_paths
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES, explain
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import PROFILES, Settings
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.builders import HEALTHY, listed, node
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = pathlib.Path(__file__).resolve().parents[5]
SCRIPT = ROOT / "roles" / "check" / "files" / "check-config.sh"
PRESENT = {"nvidia.com/gpu.present": "true"}


def labelled(name, workload, resources, capacity=None, **labels):
    """Return a node with a GPU; labels: further ones, without the prefix and with - for a dot."""
    built = node(name, workload, resources, capacity if capacity is not None else resources)
    built["metadata"]["labels"].update(PRESENT)
    built["metadata"]["labels"].update({"nvidia.com/" + key: value for key, value in labels.items()})
    return built


MIG = labelled("mig", "container", {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7", "nvidia.com/mig-2g.10gb": "2"})
WRONG = labelled("wrong", "vm-passthrough", {"nvidia.com/gpu": "4"})
DOWN = labelled("down", "container", {"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "8"})
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"sandboxWorkloads": {"enabled": False}},
    "status": {"state": "ready"},
}


def run(*arguments, stdin=None, env=None):
    """Run the script; return (exit code, standard output, standard error)."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(SCRIPT), *map(str, arguments)],
        input=stdin,
        env={**os.environ, "PATH": path, "LC_ALL": "C", **(env or {})},
        capture_output=True,
        timeout=60,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err
    return done.returncode, out, err


@pytest.fixture
def dump(tmp_path):
    def write(*objects, name="dump.json"):
        path = tmp_path / name
        path.write_text(json.dumps(listed(list(objects)), indent=4), encoding="utf-8")
        return path

    return write


def rules(output):
    return [found["rule"] for found in json.loads(output)["findings"]]


def test_one_path_says_where_the_profile_operator_sees_nothing_wrong(dump):
    code, out, err = run(dump(*HEALTHY, MIG, WRONG))
    assert code == 1
    assert [line.split(" ")[0] for line in out.splitlines()] == ["MISMATCH=mig", "MISMATCH=wrong"]
    assert err == "check-config.sh: hint: --profile operator sees nothing wrong with 1 of these 2: mig\n"


def test_no_hint_where_there_is_nothing_to_say_and_none_with_options(dump):
    assert run(dump(WRONG))[2] == ""
    assert run("--profile", "lab", dump(MIG))[2] == ""
    # What the cluster's own ClusterPolicy says counts, even if it could not be one.
    off = labelled("vm", "vm-vgpu", {"nvidia.com/NVIDIA_A10-12Q": "4", "nvidia.com/NVIDIA_A10-4Q": "6"})
    assert "hint" in run(dump(off))[2]
    assert run(dump(off, POLICY))[2] == ""
    assert "hint" in run(dump(off, dict(POLICY, spec=5)))[2]


def test_profiles(dump):
    path = dump(MIG)
    assert run("--profile", "lab", path)[0] == 1
    code, out, err = run("--profile", "operator", path)
    assert (code, err) == (0, "")
    assert "1 node judged by the profile operator: 0 errors, 0 warnings, 0 info" in out


@pytest.mark.parametrize(
    "fail_on, objects, code",
    [
        ("error", [WRONG], 1),
        ("error", [DOWN], 0),
        ("warning", [DOWN], 1),
        ("info", [DOWN], 1),
        ("warning", [labelled("off", "container", {"nvidia.com/gpu": "1"}, **{"gpu.deploy.dcgm": "false"})], 0),
        ("info", [labelled("off", "container", {"nvidia.com/gpu": "1"}, **{"gpu.deploy.dcgm": "false"})], 1),
    ],
)
def test_fail_on(dump, fail_on, objects, code):
    # Only the rule in question: deploy labels that nobody set are beside the point.
    assert (
        run("--profile", "operator", "--fail-on", fail_on, "--ignore", "deploy-label-missing", dump(*objects))[0]
        == code
    )


def test_require_nodes(dump):
    path = dump(node("plain", None))
    assert run("--profile", "operator", path)[0] == 0
    assert run("--profile", "operator", "--require-nodes", path)[0] == 3
    assert run("--require-nodes", path) == (3, "OK=0\n", "")
    assert run("--require-nodes", dump(*HEALTHY)) == (0, "OK=3\n", "")


def test_cluster_policy(dump):
    policy = dump(POLICY, name="policy.json")
    path = dump(labelled("vm", "vm-passthrough", {"nvidia.com/gpu": "2"}))
    code, out, _err = run("--profile", "operator", "--format", "json", "--cluster-policy", policy, path)
    assert code == 1 and "sandbox-disabled" in rules(out)
    # In the dump, beside it, or in the same folder: the same.
    for arguments in ([path, policy], [path.parent], [dump(WRONG, POLICY, name="both.json")]):
        assert "sandbox-disabled" in rules(run("--profile", "operator", "--format", "json", *arguments)[1])


@pytest.mark.parametrize(
    "version, blocked", [("26.3.3", "error"), ("v25.10.1", "error"), ("26.7", None), (None, "warning")]
)
def test_operator_version(dump, version, blocked):
    labels = {"gpu.deploy.device-plugin": ""}
    path = dump(labelled("n", "container", {"nvidia.com/gpu": "1"}, **labels))
    options = ["--operator-version", version] if version else []
    _code, out, _err = run("--profile", "operator", "--format", "json", *options, path)
    severities = [found["severity"] for found in json.loads(out)["findings"] if found["rule"] == "operand-blocked"]
    assert severities == ([blocked] if blocked else [])


def test_ignored_findings_are_counted(dump):
    path = dump(WRONG, labelled("wrong-too", "vm-passthrough", {"nvidia.com/gpu": "4"}))
    assert run("--ignore", "wrong-resource", path) == (0, "OK=2\n", "")
    code, out, _err = run("--ignore", "wrong-resource@wrong", path)
    assert code == 1 and out.startswith("MISMATCH=wrong-too ") and out.count("\n") == 1
    code, out, _err = run(
        "--profile", "operator", "--ignore", "wrong-resource@wrong", "--ignore", "wrong-resource@wrong-too", path
    )
    assert code == 0
    assert "Silenced: 2 findings\n  wrong-resource on wrong, wrong-too by --ignore\n" in out


def test_an_annotation_with_a_reason_silences(dump):
    wrong = json.loads(json.dumps(WRONG))
    wrong["metadata"]["annotations"] = {"gpuwl.sandbox/ignore.wrong-resource": "kept for the migration"}
    path = dump(wrong)
    code, out, _err = run("--profile", "operator", path)
    assert code == 0
    assert 'wrong-resource on wrong by annotation: "kept for the migration"' in out
    told = json.loads(run("--profile", "operator", "--format", "json", path)[1])
    assert [(one["rule"], one["by"], one["reason"]) for one in told["silenced"]] == [
        ("wrong-resource", "annotation", "kept for the migration")
    ]
    # The lab stays literal.
    assert run(path)[0] == 1


def test_json_of_the_lab_has_the_agreed_form(dump):
    code, out, err = run("--format", "json", dump(*HEALTHY, WRONG))
    assert (code, err) == (1, "")
    told = json.loads(out)
    assert list(told) == ["checked", "findings"] and told["checked"] == 4
    assert [found["node"] for found in told["findings"]] == ["wrong"]


def test_explain():
    assert run("--explain", "no-resource") == (0, explain("no-resource") + "\n", "")
    for rule in RULE_PAGES:
        page = explain(rule)
        assert page.startswith(rule) and all(word in page for word in ("Why: ", "Example: ", "Source: "))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "expected at least one PATH"),
        (["--profile", "strict", "x"], "--profile"),
        (["--format", "yaml", "x"], "--format"),
        (["--fail-on", "never", "x"], "--fail-on"),
        (["--explain", "wrong"], "--explain wrong: there is no such rule, only "),
        (["--ignore", "typo", "x"], "ignore typo: there is no rule 'typo', only "),
        (["--ignore", "wrong-resource@", "x"], "expected a node's name after the @"),
        (["--profile", "operator", "--operator-version", "new", "x"], "operator version 'new': expected one such as"),
        (["--max-size", "4 GB", "x"], "--max-size 4 GB: expected a number of bytes"),
        (["--max-size", "0", "x"], "--max-size 0"),
        (["--profile", "operator", "--cluster-policy", "/no/such", "x"], "/no/such: cannot be read"),
        (["--cluster-policy", "p", "x"], "belong to --profile operator"),
        (["--operator-version", "26.7", "--profile", "lab", "x"], "belong to --profile operator"),
        (["--explain", "no-resource", "x"], "expected no PATH beside it"),
        (["--unknown", "x"], "--unknown"),
        (["--profile"], "--profile"),
    ],
)
def test_wrong_usage_is_one_line(arguments, words):
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err and err.startswith("check-config.sh: ") and err.endswith("see --help\n")


def test_a_cluster_policy_that_cannot_be_is_refused(dump):
    bad = dump(dict(POLICY, spec={"sandboxWorkloads": {"enabled": "yes"}}), name="bad.json")
    words = 'the ClusterPolicy\'s sandboxWorkloads.enabled is "yes", expected true or false'
    for arguments in (["--cluster-policy", bad, dump(WRONG)], [dump(WRONG), bad]):
        code, _out, err = run("--profile", "operator", *arguments)
        assert code == 2 and words in err
    code, _out, err = run("--cluster-policy", bad.parent, "--profile", "operator", dump(WRONG))
    assert code == 2 and "it is a folder, expected a file with a ClusterPolicy" in err
    code, _out, err = run("--cluster-policy", dump(WRONG), "--profile", "operator", dump(WRONG))
    assert code == 2 and "it holds 0 ClusterPolicies" in err


def test_several_paths_of_which_one_cannot_be_read(dump, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    code, out, err = run(dump(WRONG), broken)
    assert code == 2 and out.startswith("MISMATCH=wrong ") and "truncated" in err
    code, out, err = run(dump(*HEALTHY), broken)
    assert (code, out) == (2, "") and "truncated" in err


def test_nothing_is_said_of_nodes_in_a_file_that_ends_within(dump, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text(dump(WRONG, WRONG).read_text()[:-40])
    code, out, err = run(cut)
    assert (code, out) == (2, "") and "truncated" in err
    for profile in PROFILES:
        code, out, _err = run(
            "--profile", profile, "--format", "json", cut, dump(labelled("other", "vm-vgpu", {"nvidia.com/gpu": "1"}))
        )
        told = json.loads(out)
        assert code == 2 and told["checked"] == 1
        assert {found["node"] for found in told["findings"]} == {"other"}


def test_standard_input(dump):
    data = dump(*HEALTHY).read_bytes()
    assert run("-", stdin=data) == (0, "OK=3\n", "")
    assert run("--profile", "lab", "-", stdin=gzip.compress(data)) == (0, "OK=3\n", "")
    code, out, err = run("-", stdin=b"")
    assert (code, out, err) == (2, "", err)
    assert err.startswith("check-config.sh: -: it is empty: expected ") and err.count("\n") == 1


def test_more_than_max_size(dump):
    code, out, err = run("--max-size", "1000", dump(*HEALTHY))
    assert (code, out) == (2, "") and "--max-size" in err and err.count("\n") == 1


def test_no_escape_sequence_reaches_the_output(dump):
    evil = labelled("evil\x1b[31m\nOK=3", "vm-pass\x1b[2Jthrough", {"nvidia.com/g\x1b[0mpu": "1"})
    evil["metadata"]["annotations"] = {"gpuwl.sandbox/ignore.wrong\x07": "\x1b[1m", "gpuwl.sandbox/ignore.x\x1b": ""}
    policy = json.loads(json.dumps(POLICY))
    policy["metadata"]["name"] = "\x1b[31mred"
    for form in ("text", "json"):
        code, out, err = run("--profile", "operator", "--format", form, dump(evil, policy))
        assert code == 1
        assert all(one.isprintable() or one == "\n" for one in out + err)


def read_all(terminal):
    """Return what was written to a terminal until its other side was closed."""
    written = b""
    try:
        while True:
            piece = os.read(terminal, 65536)
            if not piece:
                break
            written += piece
    except OSError:
        pass  # the terminal is gone when the process ends
    os.close(terminal)
    return written.decode()


def on_a_terminal(*arguments, **environment):
    """Run the script with a terminal as its standard output; return what it wrote."""
    ours, theirs = pty.openpty()
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    process = subprocess.Popen(
        ["sh", str(SCRIPT), *map(str, arguments)],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={"PATH": path, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    written = read_all(ours)
    process.wait(timeout=60)
    return written


def test_progress_is_taken_off_the_terminal_at_the_end(dump):
    data = dump(*HEALTHY).read_bytes()
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    ours, theirs = pty.openpty()
    command = ["sh", str(SCRIPT), "-"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "PATH": path}
    )
    os.close(theirs)
    out, _err = process.communicate(keep_waiting(process, data), timeout=60)
    assert out == b"OK=3\n"
    shown = read_all(ours)
    assert "reading -: " in shown and shown.endswith("\r\x1b[K")


def test_colour_on_a_terminal_only(dump):
    path = dump(WRONG)
    assert "\x1b[31mERROR\x1b[0m" in on_a_terminal("--profile", "operator", path)
    assert "\x1b" not in on_a_terminal("--profile", "operator", path, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("--profile", "operator", path, TERM="dumb")
    assert "\x1b" not in run("--profile", "operator", path, env={"TERM": "xterm"})[1]
    assert "\x1b" not in on_a_terminal(path)


def keep_waiting(process, data):
    """Have a script read for more than two seconds: from when it has begun, which on a busy machine takes its time."""
    process.stdin.write(data[:500])
    process.stdin.flush()
    left = array.array("i", [1])
    end = time.monotonic() + 60
    while left[0] and time.monotonic() < end:
        time.sleep(0.05)
        fcntl.ioctl(process.stdin, termios.FIONREAD, left)
    time.sleep(2.5)
    return data[500:]


def test_progress_is_told_once_reading_takes_more_than_two_seconds(dump):
    data = dump(*HEALTHY).read_bytes()
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    for options, told in ((["--profile", "lab"], True), ([], False)):
        process = subprocess.Popen(
            ["sh", str(SCRIPT), *options, "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PATH": path},
        )
        out, err = process.communicate(keep_waiting(process, data), timeout=60)
        assert (process.returncode, out) == (0, b"OK=3\n")
        # One PATH without options keeps standard error clean, but for a terminal.
        assert (b"reading -: " in err) is told


WHOLE = json.dumps(listed([*HEALTHY, MIG, WRONG, DOWN, POLICY]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.integers(0, len(WHOLE)), st.integers(0, 40))
def test_any_bytes_give_an_exit_code_and_no_traceback(tmp_path, junk, at, cut):
    path = tmp_path / "dump"
    for content in (junk, WHOLE[:at].encode() + junk + WHOLE[at + cut :].encode()):
        path.write_bytes(content)
        for profile in PROFILES:
            outcome = check_paths([str(path)], Settings(profile), hint=profile == "lab")
            assert outcome.exit_code("info", require_nodes=True) in (0, 1, 2, 3)
            for form in ("text", "json"):
                assert all(line.isprintable() for block in text_of(outcome, form) for line in block.split("\n"))
