# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import names

LONG = ".".join(["a" * 63] * 3 + ["b" * 61])  # 253 characters


@pytest.mark.parametrize(
    "judge, good",
    [
        (names.invalid_qualified_name, ["a", "A_b.c-9", "nvidia.com/gpu", LONG + "/x", "x" * 63, "9/9"]),
        (names.invalid_label_value, ["", "a", "vm-passthrough", "A_b.c", "x" * 63]),
        (names.invalid_dns_subdomain, ["a", "lab-node-0", "a.b-c.9", LONG]),
        (names.invalid_dns_label, ["a", "gpu-vm", "9", "x" * 63]),
        (names.invalid_resource_name, ["nvidia.com/gpu", "nvidia.com/NVIDIA_A10-12Q", "a.b/c", "a" * 63 + "/x"]),
    ],
)
def test_good_names(judge, good):
    assert {name: judge(name) for name in good} == {name: None for name in good}


@pytest.mark.parametrize(
    "judge, bad",
    [
        (
            names.invalid_qualified_name,
            [
                "",
                "/x",
                "x/",
                "a/b/c",
                "-a",
                "a-",
                "a b",
                "a\n",
                "Ä",
                "A.b/c",
                "x" * 64,
                "c" + LONG + "/x",
                "a..b/x",
                None,
                5,
                [],
            ],
        ),
        (names.invalid_label_value, ["-", "a b", "a\n", "é", "x" * 64, "a/b", None, 5]),
        (names.invalid_dns_subdomain, ["", "A", "a_b", "a..b", ".a", "a.", "-a", "a-.b", "a\n", "c" + LONG, None, 5]),
        (names.invalid_dns_label, ["", "a.b", "A", "a-", "x" * 64, "a\n", None]),
        (
            names.invalid_resource_name,
            [
                "gpu",
                "",
                "kubernetes.io/gpu",
                "node.kubernetes.io/gpu",
                "requests.nvidia.com/gpu",
                "/gpu",
                "nvidia.com/",
                "nvidia.com/g pu",
                "nvidia.com/gpu\n",
                LONG + "/x",
                None,
                5,
            ],
        ),
    ],
)
def test_bad_names(judge, bad):
    assert [name for name in bad if not judge(name)] == []


@pytest.mark.parametrize(
    "name, words",
    [
        ("gpu", "domain"),
        ("kubernetes.io/gpu", "Kubernetes itself"),
        ("requests.a/b", "quotas"),
        ("a/b/c", "one '/'"),
        ("nvidia.com/" + "x" * 64, "at most 63"),
        (None, "must be a string"),
    ],
)
def test_says_what_is_wrong(name, words):
    assert words in names.invalid_resource_name(name)
