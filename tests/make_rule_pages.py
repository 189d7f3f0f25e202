# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the pages on the checker's rules from rule_pages.py, so that no rule is explained twice.

python tests/make_rule_pages.py           write docs/docsite/rst/rules.rst, rule_*.rst and their section of the contents
python tests/make_rule_pages.py --check   exit with 1 if a committed one differs
"""

import functools
import importlib.util
import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "docsite" / "rst"
CONTENTS = ROOT / "docs" / "docsite" / "extra-docs.yml"
RULES = ROOT / "plugins" / "module_utils" / "_rules" / "rule_pages.py"
INDEX = "rules"

HEADER = """\
..
  Copyright (c) gpuwl.sandbox contributors
  GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
  SPDX-License-Identifier: GPL-3.0-or-later

  Made by tests/make_rule_pages.py from plugins/module_utils/_rules/rule_pages.py: change it there.

"""
SECTION = "  - title: Rules of the Checker\n"
ANCHOR = "ansible_collections.gpuwl.sandbox.docsite."

# Rules about what stands beside the nodes: no node's annotation can silence them.
ABOUT_THE_CLUSTER = (
    "second-cluster-policy",
    "conflicting-gpu-cluster",
    "daemonset-missing",
    "daemonset-selector-edited",
)
# A repository that has its own page, a name with dots or slashes such as a label, a field or a file, and what reST would take for markup.
_PARTS = re.compile(
    r"(?P<repository>\b(?:NVIDIA|kubernetes|kubernetes-sigs|k8snetworkplumbingwg)/(?!-)[\w-]+(?![\w./]))"
    r"|(?P<name>(?<![\w.\"])(?!v?\d)[A-Za-z](?:[\w-]*[./])+(?:[\w=-]*\w)?(?<!\.)(?![\w\"]))"
    r"|(?P<markup>[\\*`|]|_(?!\w))"
)


def rst(text: str) -> str:
    """Return plain text as reStructuredText, with names as literals and repositories as links."""
    return _PARTS.sub(_marked, text)


def _marked(found: "re.Match[str]") -> str:
    if found["repository"]:
        return f"`{found[0]} <https://github.com/{found[0]}>`__"
    return f"``{found[0]}``" if found["name"] else "\\" + found[0]


def rules() -> dict[str, Any]:
    """Return the rules by name."""
    return _rule_pages().RULE_PAGES


@functools.cache
def _rule_pages() -> Any:
    found = importlib.util.spec_from_file_location("rule_pages", RULES)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def page_name(rule: str) -> str:
    """Return the name of a rule's page, without .rst."""
    return "rule_" + rule.replace("-", "_")


def page(rule: str, told: Any) -> str:
    """Return the page of a rule."""
    parts = [
        f"{HEADER}.. _{ANCHOR}{page_name(rule)}:\n\n{_title(rule, '=')}\n",
        rst(told.what) + "\n",
        f":Severity: {told.severity}\n:Profile: {_profiles(told)}\n" + _needs(told),
        f"{_title('Why', '-')}\n",
        rst(told.why) + "\n",
        f"{_title('Example', '-')}\n",
        f".. code-block:: text\n\n   {told.example}\n",
        f"{_title('How to silence it', '-')}\n",
        _silence(rule, told),
        f"{_title('Source', '-')}\n",
        rst(told.source) + ".\n",
        f"All rules: :ref:`{ANCHOR}{INDEX}`.\n",
    ]
    return "\n".join(parts)


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


def _is_of_audit(told: Any) -> bool:
    return bool(told.profiles == _rule_pages().AUDIT)


def _profiles(told: Any) -> str:
    if _is_of_audit(told):
        return f"none, but :ansplugin:`gpuwl.sandbox.{told.profiles}#module`"
    return " and ".join(f"``{name}``" for name in told.profiles.split(" and "))


def _needs(told: Any) -> str:
    needed = re.sub(r"(--[a-z-]+)", r"``\1``", _rule_pages().NEEDS[told.needs]) if told.needs else ""
    return f":Needs: {needed}\n" if needed else ""


def _silence(rule: str, told: Any) -> str:
    profile = "operator" if "operator" in told.profiles else "lab"
    on_cluster = rule in ABOUT_THE_CLUSTER
    annotate = f"   $ kubectl annotate node NODE gpuwl.sandbox/ignore.{rule}='why this is right here'"
    if _is_of_audit(told):
        if on_cluster:
            return "It cannot be silenced, as it is about no single node.\n"
        return (
            "For as long as the node has the annotation, with the reason that the next reader needs:\n\n"
            f".. code-block:: console\n\n{annotate}\n"
        )
    lines = [
        "For one run{}:\n".format("" if on_cluster else ", on all nodes or on one"),
        ".. code-block:: console\n",
        f"   $ sh check-config.sh --profile {profile} --ignore {rule} dump.yaml",
    ]
    if not on_cluster:
        lines.append(f"   $ sh check-config.sh --profile {profile} --ignore {rule}@NODE dump.yaml")
    if profile == "operator" and not on_cluster:
        lines += [
            "\nFor as long as the node has the annotation, with the reason that the next reader needs"
            + ("; the profile ``lab`` does not look at annotations:\n" if "lab" in told.profiles else ":\n"),
            ".. code-block:: console\n",
            annotate,
        ]
    return "\n".join(lines) + "\n"


def index(told: dict[str, Any]) -> str:
    """Return the page that lists all rules."""
    rows = "".join(
        f"   * - :ref:`{rule} <{ANCHOR}{page_name(rule)}>`\n     - {one.severity}\n     - {_profiles(one)}\n"
        f"     - {rst(one.what)}\n"
        for rule, one in told.items()
    )
    return (
        f"{HEADER}.. _{ANCHOR}{INDEX}:\n\n{_title('Rules of the checker', '=')}\n\n"
        "A finding names its rule, and these are the rules that there are. ``sh check-config.sh --explain RULE`` prints a rule's page\n"
        f"where there is no other documentation about. How to run the checker is told in :ref:`{ANCHOR}guide_dumps`.\n\n"
        "An error keeps GPUs from whom they are meant for, or will. A warning may pass by itself, or may be meant so. Information\n"
        "is nothing to repair.\n\n"
        'Sources name files in upstream\'s repositories. "Seen running" means that the unmodified controllers of the operator, or a\n'
        "kubelet, did so on a real API server.\n\n"
        f".. list-table::\n   :header-rows: 1\n\n   * - rule\n     - severity\n     - profile\n     - what it finds\n{rows}"
    )


def contents(told: dict[str, Any], text: str) -> str:
    """Return extra-docs.yml with the section of these pages, which is its last one."""
    names = [INDEX, *sorted(map(page_name, told))]
    return text.partition(SECTION)[0] + SECTION + "    toctree:\n" + "".join(f"      - {name}\n" for name in names)


def make() -> dict[pathlib.Path, str]:
    """Return the text of each file."""
    told = rules()
    files = {PAGES / f"{page_name(rule)}.rst": page(rule, one) for rule, one in told.items()}
    files[PAGES / f"{INDEX}.rst"] = index(told)
    files[CONTENTS] = contents(told, CONTENTS.read_text(encoding="utf-8"))
    return files


def stale(files: dict[pathlib.Path, str]) -> list[pathlib.Path]:
    """Return the pages of rules that are no more."""
    return sorted(set(PAGES.glob("rule_*.rst")) - set(files))


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: make_rule_pages.py [--check]", file=sys.stderr)
        return 2
    files = make()
    differing = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if arguments:
        for path in [*differing, *stale(files)]:
            print(f"{path.relative_to(ROOT)} differs from the rules: run `make rule-pages`", file=sys.stderr)
        return 1 if differing or stale(files) else 0
    for path in differing:
        path.write_text(files[path], encoding="utf-8")
    for path in stale(files):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
