# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import shutil
import subprocess

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges, shell_names, shell_word
from hypothesis import given, settings
from hypothesis import strategies as st

HOSTILE = [
    "a b",
    "a;b",
    "$(touch canary)",
    "`touch canary`",
    "a'b",
    "''",
    'a"b',
    "a\nb",
    "a\\",
    "*",
    "~",
    "{1..3}",
    "!!",
    "GPU_1",
    "é",
    "",
    "a'; touch canary; '9",
    "x{a,b}7",
    "-",
]
legal = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)


def expanded(words, folder="."):
    """The arguments that bash makes of some words; the NUL between them is in no name."""
    done = subprocess.run(
        ["bash", "--norc", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True, cwd=folder, timeout=30
    )
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="the words are for bash")


@pytest.mark.parametrize(
    "names, most, shown",
    [
        ([], 3, ""),
        (["a"], 3, "a"),
        (["gpu-2", "gpu-1"], 3, "gpu-[1:2]"),
        (["gpu-9", "gpu-10", "gpu-11"], 3, "gpu-[9:11]"),
        (["gpu-09", "gpu-10"], 3, "gpu-[09:10]"),
        (["gpu-9", "gpu-09"], 3, "gpu-9, gpu-09"),
        (["gpu-1", "gpu-3"], 3, "gpu-1, gpu-3"),
        (["a", "b", "c", "d", "e"], 3, "a, b, c and 2 more"),
        (["n1-gpu", "n2-gpu", "n3"], 3, "n3, n[1:2]-gpu"),
        (["gpu-1", "gpu-1"], 3, "gpu-1"),
        ([f"edge-{number:02d}" for number in range(20)] + ["x-1", "y-1", "z-1"], 2, "edge-[00:19], x-1 and 2 more"),
    ],
)
def test_ranges(names, most, shown):
    assert sorted(ranges(names, most).split(", ")) == sorted(shown.split(", "))


def test_a_range_in_a_command():
    assert shell_names([f"gpu-{number:03d}" for number in range(1, 201)] + ["edge-7"]) == "edge-7 gpu-{001..200}"
    assert shell_names(["a", "b.example.org"]) == "a b.example.org"
    assert shell_names([]) == ""


@needs_bash
def test_hostile_names_reach_a_command_as_they_are(tmp_path):
    for name in HOSTILE:
        expected = name if name != "-" else " -"
        assert expanded(shell_names([name]), tmp_path) == [expected]
        assert expanded(shell_word(name), tmp_path) == [expected]
    assert sorted(expanded(shell_names(HOSTILE), tmp_path)) == sorted(" -" if name == "-" else name for name in HOSTILE)
    assert list(tmp_path.iterdir()) == []


@needs_bash
@pytest.mark.parametrize(
    "name", ["--all", "-l=x", "gpu=1", "nvidia.com/gpu.workload.config-", "--kubeconfig=/tmp/x", "--"]
)
def test_what_kubectl_would_take_for_an_option_or_a_label_is_no_name_of_anything(name):
    assert expanded(shell_names([name])) == expanded(shell_word(name)) == [" " + name]


@needs_bash
@settings(max_examples=40)
@given(
    st.lists(
        st.lists(legal, max_size=4)
        | st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)),
        max_size=3,
    )
)
def test_bash_makes_the_names_again(lists):
    names = {name for each in lists for name in each}
    found = expanded(shell_names(names)) if names else []
    assert sorted(word.lstrip(" ") for word in found) == sorted(name.lstrip(" ") for name in names)


@needs_bash
@settings(max_examples=20)
@given(
    st.integers(0, 120),
    st.integers(1, 30),
    st.sampled_from(["gpu-{}", "gpu-{:03d}", "n{}-gpu", "r1n{:02d}.example.org", "X_{}", "a b{:02d}", "{}"]),
)
def test_bash_makes_runs_again(first, size, form):
    names = [form.format(number) for number in range(first, first + size)]
    assert sorted(expanded(shell_names(names))) == sorted(names)


def test_what_stands_for_the_nodes_is_not_replaced_within_a_word():
    word = shell_word(f"a{NODE}b")
    assert NODE not in word
    if shutil.which("bash"):
        assert expanded(word) == [f"a{NODE}b"]
