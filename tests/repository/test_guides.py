# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the README and the pages name is there: plugins, options, variables with their defaults, and the pages themselves."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml
from test_plugin_docs import MODULES, _documentation

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "docsite" / "rst").glob("*.rst"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "roles").glob("*/README.md")), *PAGES]


def named(text: Path) -> str:
    return str(text.relative_to(ROOT))


def blocks(text: Path) -> list:
    """The blocks of YAML in a text, loaded."""
    content = text.read_text(encoding="utf-8")
    if text.suffix == ".md":
        found = re.findall(r"^```yaml\n(.*?)^```", content, re.MULTILINE | re.DOTALL)
    else:
        found = re.findall(r"^ *\.\. code-block:: yaml\n((?:\n| +.*\n)+)", content + "\n", re.MULTILINE)
    return [document for block in found for document in yaml.safe_load_all(textwrap.dedent(block))]


def tasks_with_modules(data: object) -> list[tuple[str, dict]]:
    """Each (module, its options) of this collection in loaded YAML."""
    if isinstance(data, list):
        return [task for entry in data for task in tasks_with_modules(entry)]
    if not isinstance(data, dict):
        return []
    own = [
        (key.rpartition(".")[2], value)
        for key, value in data.items()
        if str(key).startswith("gpuwl.sandbox.") and isinstance(value, dict)
    ]
    return own + [task for value in data.values() for task in tasks_with_modules(value)]


@pytest.mark.parametrize("text", TEXTS, ids=named)
def test_what_is_named_is_there(text):
    plugins = {path.stem for folder in ("modules", "filter") for path in (ROOT / "plugins" / folder).glob("*")}
    known = plugins | {path.name for path in (ROOT / "roles").iterdir()} | {"gpuwl", "docsite"}
    known |= {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    names = set(re.findall(r"gpuwl\.sandbox\.([a-z_]+)", text.read_text(encoding="utf-8")))
    assert names - known == set()


@pytest.mark.parametrize("text", TEXTS, ids=named)
def test_modules_in_blocks_have_these_options(text):
    for module, options in tasks_with_modules(blocks(text)):
        assert module in MODULES
        assert set(options) - set(_documentation(module)[0]["options"]) == set(), module


def test_there_are_blocks_to_look_at():
    assert sum(len(tasks_with_modules(blocks(text))) for text in TEXTS) > 5


def test_the_readme_names_every_module():
    content = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in MODULES if f"`gpuwl.sandbox.{name}`" not in content] == []


def test_every_page_is_in_the_table_of_contents():
    sections = yaml.safe_load((ROOT / "docs" / "docsite" / "extra-docs.yml").read_text())["sections"]
    assert sorted(name for section in sections for name in section["toctree"]) == [page.stem for page in PAGES]


def test_the_readme_tells_the_defaults_as_they_are():
    defaults = yaml.safe_load((ROOT / "playbooks" / "vars" / "defaults.yml").read_text())
    for path in (ROOT / "roles").glob("*/defaults/main.yml"):
        defaults.update(yaml.safe_load(path.read_text()) or {})
    told = 0
    for names, default in re.findall(r"^\| (`[a-z_`, ]+`) \| (.*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE):
        for name in re.findall(r"[a-z_]+", names):
            value = defaults.get(name)
            if isinstance(value, (str, int)) and value != "" and "{{" not in str(value) and "`" in default:
                told += 1
                assert str(value) in re.findall(r"`(.*?)`", default), name
    assert told > 5
