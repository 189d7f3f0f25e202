# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages on the checker's rules are what the rules say, and there is one for each."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

_found = importlib.util.spec_from_file_location("make_rule_pages", ROOT / "tests" / "make_rule_pages.py")
make_rule_pages = importlib.util.module_from_spec(_found)
_found.loader.exec_module(make_rule_pages)

FILES = make_rule_pages.make()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_page_is_what_the_rules_say(path):
    assert path.exists() and path.read_text(encoding="utf-8") == FILES[path], "run `make rule-pages`"


def test_there_is_no_page_of_a_rule_that_is_no_more():
    assert make_rule_pages.stale(FILES) == []


def test_every_rule_has_a_page_and_stands_in_the_table():
    rules = make_rule_pages.rules()
    index = FILES[make_rule_pages.PAGES / "rules.rst"]
    assert len(rules) > 40
    for rule in rules:
        assert make_rule_pages.PAGES / f"{make_rule_pages.page_name(rule)}.rst" in FILES
        assert f"{make_rule_pages.ANCHOR}{make_rule_pages.page_name(rule)}>`" in index


def test_rules_about_the_cluster_are_rules():
    assert set(make_rule_pages.ABOUT_THE_CLUSTER) <= set(make_rule_pages.rules())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvidia.com/gpu.present=true is derived.", "``nvidia.com/gpu.present=true`` is derived."),
        ("an nvidia.com/ name; gpu.count.", "an ``nvidia.com/`` name; ``gpu.count``."),
        ("v26.7.0, and 26.7. Then", "v26.7.0, and 26.7. Then"),
        ('"gpu.product" is quoted', '"gpu.product" is quoted'),
        ("a *b* `c` d_ e_f", "a \\*b\\* \\`c\\` d\\_ e_f"),
        (
            "NVIDIA/mig-parted pkg/mig/a_b.go",
            "`NVIDIA/mig-parted <https://github.com/NVIDIA/mig-parted>`__ ``pkg/mig/a_b.go``",
        ),
    ],
)
def test_names_become_literals_and_repositories_links(text, expected):
    assert make_rule_pages.rst(text) == expected
