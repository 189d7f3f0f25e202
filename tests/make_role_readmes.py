# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes roles/*/README.md from each role's meta/argument_specs.yml, so that no option is described twice.

python tests/make_role_readmes.py           write them
python tests/make_role_readmes.py --check   exit with 1 if a committed one differs
"""

import json
import pathlib
import re
import sys
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEADER = """\
<!--
Copyright (c) gpuwl.sandbox contributors
GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later

Made by tests/make_role_readmes.py from meta/argument_specs.yml: change it there.
-->
"""

# Ansible's markup in descriptions: a capital word and its argument, in which a backslash keeps the next character.
_MARKUP = re.compile(r"\b(?P<kind>RV|[BCEILMOPRUV])\((?P<argument>(?:\\.|[^\\)])*)\)")
_HTML = str.maketrans({"<": "&lt;", ">": "&gt;"})


def markdown(text: str) -> str:
    """Return a description with Ansible's semantic markup as Markdown."""
    parts = []
    at = 0
    for found in _MARKUP.finditer(text):
        parts += [text[at : found.start()].translate(_HTML), _marked(found["kind"], found["argument"])]
        at = found.end()
    return "".join([*parts, text[at:].translate(_HTML)])


def _marked(kind: str, argument: str) -> str:
    argument = re.sub(r"\\(.)", r"\1", argument)
    if kind == "I":
        return f"*{argument}*"
    if kind == "B":
        return f"**{argument}**"
    if kind == "U":
        return f"<{argument}>"
    if kind == "L":
        name, link = argument.rsplit(",", 1)
        return f"[{name.strip()}]({link.strip()})"
    if kind == "R":
        return argument.rsplit(",", 1)[0].strip()
    if kind == "P":
        name, plugin_type = argument.split("#", 1)
        neighbour = re.fullmatch(r"gpuwl\.sandbox\.(\w+)", name)
        return f"[`{name}`](../{neighbour[1]}/README.md)" if neighbour and plugin_type == "role" else f"`{name}`"
    return f"`{argument}`"


def readme(role: str, specs: dict[str, Any]) -> str:
    """Return the text of a role's README, from its argument specs."""
    main = specs["main"]
    parts = [HEADER, f"# Role gpuwl.sandbox.{role}\n", *_entry_point(main)]
    told = {"main": main.get("options", {})}
    for name, spec in specs.items():
        if name == "main":
            continue
        title = spec["short_description"]
        parts.append(f"## Entry point `{name}`: {title[0].lower()}{title[1:]}\n")
        options = spec.get("options", {})
        twin = next((other for other, known in told.items() if options and options == known), None)
        parts += _entry_point(spec, twin)
        told[name] = options
    return "\n".join(parts)


def _entry_point(spec: dict[str, Any], twin: str | None = None) -> list[str]:
    """Return the paragraphs on an entry point; its options are left to the one that has the same."""
    parts = [paragraph + "\n" for paragraph in map(markdown, texts(spec.get("description")))]
    if "examples" in spec:
        parts.append(f"```yaml\n{spec['examples'].rstrip()}\n```\n")
    if twin:
        parts.append(f"It takes the options of `{twin}`.\n")
    elif spec.get("options"):
        parts += _tables("", spec["options"])
    return parts


def _tables(path: str, options: dict[str, Any]) -> list[str]:
    """Return a table of options, and one after it for each whose entries have options of their own."""
    parts = [f"Each entry of `{path}` has:\n"] if path else []
    rows = ["| option | type | default | meaning |", "|---|---|---|---|"]
    inner = []
    for name, option in options.items():
        cells = (f"`{name}`", _type(option), _default(option), _meaning(option))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        if option.get("options"):
            inner += _tables(f"{path}.{name}" if path else name, option["options"])
    return [*parts, "\n".join(rows) + "\n", *inner]


def _type(option: dict[str, Any]) -> str:
    return option["type"] + (f" of {option['elements']}" if "elements" in option else "")


def _default(option: dict[str, Any]) -> str:
    if option.get("required"):
        return "required"
    if "default" not in option:
        return "none"
    default = option["default"]
    return f"`{default if isinstance(default, str) and default else json.dumps(default)}`"


def _meaning(option: dict[str, Any]) -> str:
    parts = [markdown(text) for text in texts(option["description"])]
    if "choices" in option:
        parts.append("One of " + ", ".join(f"`{choice}`" for choice in option["choices"]) + ".")
    return " ".join(parts)


def texts(description: str | list[str] | None) -> list[str]:
    if description is None:
        return []
    return [description] if isinstance(description, str) else description


def roles() -> list[pathlib.Path]:
    return sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


def make(role: pathlib.Path) -> str:
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    return readme(role.name, specs["argument_specs"])


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: make_role_readmes.py [--check]", file=sys.stderr)
        return 2
    differ = False
    for role in roles():
        target = role / "README.md"
        text = make(role)
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        if arguments:
            differ = True
            print(
                f"{target.relative_to(ROOT)} differs from the argument spec: run `make readmes`",
                file=sys.stderr,
            )
        else:
            target.write_text(text, encoding="utf-8")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
