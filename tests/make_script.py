# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes roles/check/files/check-config.sh from the rules, so that no rule is written twice.

python tests/make_script.py           write the script
python tests/make_script.py --check   exit with 1 if the committed one differs
"""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "plugins" / "module_utils" / "_rules"
SCRIPT = ROOT / "roles" / "check" / "files" / "check-config.sh"

# In the order in which they need each other.
PARTS = (
    "finding",
    "quantity",
    "report",
    "node_ranges",
    "json_lines",
    "slips",
    "device_catalogue",
    "vgpu_catalogue",
    "mig_catalogue",
    "resource_names",
    "near_names",
    "objects",
    "archives",
    "json_dump",
    "describe_dump",
    "yaml_dump",
    "inputs",
    "workload",
    "cluster_policy",
    "cluster",
    "consistency",
    "rule_pages",
    "settings",
    "node_facts",
    "operator_case",
    "operator_labels",
    "operator_resources",
    "operator_devices",
    "operator_profile",
    "outcome",
    "checking",
    "lab_report",
    "operator_report",
    "check_config",
)
PACKAGE = "ansible_collections.gpuwl.sandbox."

LICENCE = """\
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""

HEADER = (
    """\
#!/bin/sh
"""
    + LICENCE
    + """\
#
# Judges a saved `kubectl get nodes -o json`, offline: sh check-config.sh FILE
# Needs a POSIX shell and Python 3.8 or newer, nothing else.
#
# Made by `make script` of the Ansible collection gpuwl.sandbox from
# plugins/module_utils/_rules: change it there.
#
# The shell reads only the lines up to the second row of quotes and hands this file to
# Python, for which they are one string. -I: a json.py beside a dump is not imported.
# A checker of shell scripts would take the Python for shell:
# shellcheck disable=all
''':'
command -v python3 >/dev/null 2>&1 && exec python3 -I "$0" "$@"
echo "check-config.sh: needs Python 3.8 or newer, found no python3" >&2
exit 2
'''

import sys

if sys.version_info < (3, 8):
    sys.stderr.write("check-config.sh: needs Python 3.8 or newer, python3 is %d.%d\\n" % sys.version_info[:2])
    sys.exit(2)
"""
)


def make() -> str:
    """Return the text of the script."""
    names = {}
    texts = [HEADER]
    for part in PARTS:
        source = (RULES / (part + ".py")).read_text(encoding="utf-8")
        for name in _top_level_names(source):
            if names.setdefault(name, part) != part:
                raise SystemExit(f"{names[name]}.py and {part}.py both define {name}: in one file they would meet")
        rule = "# " + "-" * 20 + f" {part}.py"
        texts.append("\n\n{}\n{}".format(rule, _without_imports(source.replace(LICENCE, ""))))
    return "".join(texts)


def _top_level_names(source):
    for statement in ast.parse(source).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def _without_imports(source):
    """Drop the imports from the collection, and nothing else."""
    lines = source.splitlines(keepends=True)
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and statement.module.startswith(PACKAGE):
            for number in range(statement.lineno - 1, statement.end_lineno):
                lines[number] = ""
    return "".join(lines)


def main(arguments):
    text = make()
    if arguments == ["--check"]:
        if not SCRIPT.exists() or SCRIPT.read_text(encoding="utf-8") != text:
            print(f"{SCRIPT.relative_to(ROOT)} differs from the rules: run `make script`", file=sys.stderr)
            return 1
        return 0
    if arguments:
        print("usage: make_script.py [--check]", file=sys.stderr)
        return 2
    SCRIPT.parent.mkdir(parents=True, exist_ok=True)
    SCRIPT.write_text(text, encoding="utf-8")
    SCRIPT.chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
