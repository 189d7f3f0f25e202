# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the code imports, what is installed for it and what the documentation says is needed are the same."""

import ast
import pathlib
import re
import sys
import tomllib

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted(path for folder in ("plugins", "roles") for path in (ROOT / folder).rglob("*.py"))
# Modules whose distribution is called otherwise.
DISTRIBUTIONS = {"yaml": "PyYAML"}


def _yaml(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def _requirements(path):
    """Return name to version bounds of a requirements file, those of the files that it reads included."""
    found = {}
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r "):
            found.update(_requirements(text[3:].strip()))
        elif text:
            name, bounds = re.fullmatch(r"([\w.-]+)\s*(\S*)", text).groups()
            assert name not in found, f"{path} lists {name} twice"
            found[name] = bounds
    return found


def _lowest(bounds):
    return re.search(r">=([\d.]+)", bounds)[1]


def _below(bounds):
    return re.search(r"<([\d.]+)", bounds)[1]


def _imports():
    """Return which modules are imported, each with the files that do it."""
    found = {}
    for path in SOURCES:
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
                names = [statement.module]
            else:
                continue
            for name in names:
                found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def _needed():
    """Return the distributions that are imported besides Python's own modules, ansible-core and collections."""
    tops = {}
    for name, files in _imports().items():
        tops.setdefault(name.split(".")[0], []).extend(files)
    others = {
        name: files
        for name, files in tops.items()
        if name not in sys.stdlib_module_names and name not in ("ansible", "ansible_collections")
    }
    return {DISTRIBUTIONS.get(name, name): files for name, files in others.items()}


def _documented():
    """Return (file, requirement) for each entry under `requirements` of a plugin, a module or a fragment."""
    found = []
    for path in sorted((ROOT / "plugins").rglob("*")):
        if path.suffix == ".yml":
            texts = [path.read_text(encoding="utf-8")]
        elif path.suffix == ".py":
            texts = [
                statement.value.value
                for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Constant)
                and [target.id for target in statement.targets if isinstance(target, ast.Name)] == ["DOCUMENTATION"]
            ]
        else:
            continue
        for text in texts:
            told = yaml.safe_load(text) or {}
            told = told.get("DOCUMENTATION", told)
            found += [(str(path.relative_to(ROOT)), entry) for entry in told.get("requirements", [])]
    return found


def _environment_dependencies():
    return _yaml("execution-environment.yml")["dependencies"]


def test_what_is_imported_is_listed():
    listed = _requirements("meta/ee-requirements.txt")
    missing = {name: files for name, files in _needed().items() if name not in listed}
    assert not missing, "imported, and not in meta/ee-requirements.txt"


def test_what_is_listed_is_imported():
    unused = set(_requirements("meta/ee-requirements.txt")) - set(_needed())
    assert not unused, "in meta/ee-requirements.txt, and imported by nothing"


def test_collections_that_are_imported_are_dependencies():
    needed = {".".join(name.split(".")[1:3]) for name in _imports() if name.startswith("ansible_collections.")}
    assert needed - {"gpuwl.sandbox"} == set(_yaml("galaxy.yml")["dependencies"])


def test_a_checkout_installs_the_same():
    listed = _requirements("requirements.txt")
    assert listed.pop("ansible")
    assert listed == _requirements("meta/ee-requirements.txt")


def test_both_environments_take_the_one_list():
    assert _yaml("meta/execution-environment.yml")["dependencies"] == {"python": "meta/ee-requirements.txt"}
    assert _environment_dependencies()["python"] == "meta/ee-requirements.txt"


def test_the_environment_has_the_collections_that_galaxy_names():
    collections = _environment_dependencies()["galaxy"]["collections"]
    assert {told["name"]: told["version"] for told in collections} == _yaml("galaxy.yml")["dependencies"]


def test_ansible_core_is_the_one_that_the_collection_requires():
    core = _environment_dependencies()["ansible_core"]["package_pip"]
    assert _lowest(core) == _lowest(_yaml("meta/runtime.yml")["requires_ansible"])
    # Release N of the bundle holds ansible-core 2.(N + 7).
    bundle = _requirements("requirements.txt")["ansible"]
    assert _lowest(core).split(".")[:2] == ["2", str(int(_lowest(bundle).split(".")[0]) + 7)]
    assert _below(core) == f"2.{int(_below(bundle)) + 7}"


def test_there_are_documented_requirements():
    assert any(entry.startswith("kubernetes ") for _file, entry in _documented())


@pytest.mark.parametrize(("file", "entry"), _documented())
def test_documented_requirements_are_those_that_are_installed(file, entry):
    bounds = {name: _lowest(bound) for name, bound in _requirements("meta/ee-requirements.txt").items()}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    bounds["python"] = settings["tool"]["ruff"]["target-version"].replace("py3", "3.")
    name = entry.split()[0]
    if name in bounds:
        assert re.match(rf"{name} >= {re.escape(bounds[name])}(?![\d.])", entry), f"expected {name} >= {bounds[name]}"
