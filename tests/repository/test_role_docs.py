# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each role's README, argument spec, defaults and tasks say the same."""

import importlib.util
import pathlib
import re

import jinja2
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
HOME = "/home/me"

_found = importlib.util.spec_from_file_location("make_role_readmes", ROOT / "tests" / "make_role_readmes.py")
make_role_readmes = importlib.util.module_from_spec(_found)
_found.loader.exec_module(make_role_readmes)


def _yaml(role, path, wanted=True):
    file = ROOT / "roles" / role / path
    if not wanted and not file.exists():
        return {}
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def _specs(role):
    return _yaml(role, "meta/argument_specs.yml")["argument_specs"]


def _defaults(role):
    """Return a role's defaults as they come out for somebody whose home is HOME and who has set nothing else."""
    told = _yaml(role, "defaults/main.yml", wanted=False)
    environment = {"HOME": HOME}

    def value(raw):
        if not isinstance(raw, str) or "{{" not in raw:
            return raw
        names = {name: value(other) for name, other in told.items() if other != raw and re.search(rf"\b{name}\b", raw)}
        template = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(raw)
        return template.render(names, lookup=lambda _plugin, name: environment.get(name, "")).strip()

    return {name: value(raw) for name, raw in told.items()}


def _at_home(option):
    default = option["default"]
    if option["type"] == "path" and default.startswith("~/"):
        return HOME + default[1:]
    return default


def test_there_are_roles():
    assert "control_plane" in ROLES


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_is_what_the_argument_spec_says(role):
    text = (ROOT / "roles" / role / "README.md").read_text(encoding="utf-8")
    assert text == make_role_readmes.make(ROOT / "roles" / role), "run `make readmes`"


@pytest.mark.parametrize("role", ROLES)
def test_every_entry_point_is_described_with_an_example_and_its_modes(role):
    specs = _specs(role)
    assert "examples" in specs["main"]
    for name, spec in specs.items():
        told = " ".join(make_role_readmes.texts(spec["description"])).lower()
        assert "check mode" in told, f"{role}, {name}: says nothing of check mode"
        assert name == "refuse" or "diff" in told, f"{role}, {name}: says nothing of diff mode"
        assert re.search("second run|nothing changes|never", told), f"{role}, {name}: says nothing of a second run"
        assert spec["version_added"]


@pytest.mark.parametrize("role", ROLES)
def test_examples_are_plays_of_options_that_there_are(role):
    for name, spec in _specs(role).items():
        for play in yaml.safe_load(spec.get("examples", "[]")):
            for task in play["tasks"]:
                if "ansible.builtin.import_role" not in task:
                    continue
                told = task["ansible.builtin.import_role"]
                other = told["name"].removeprefix("gpuwl.sandbox.")
                known = _specs(other)[told.get("tasks_from", "main")]["options"]
                assert set(task.get("vars", {})) <= set(known), f"{role}, {name}"


@pytest.mark.parametrize("role", ROLES)
def test_entry_points_are_the_task_files_of_their_names(role):
    for name in _specs(role):
        assert (ROOT / "roles" / role / "tasks" / f"{name}.yml").exists()


@pytest.mark.parametrize("role", ROLES)
def test_documented_defaults_are_the_real_ones(role):
    defaults = _defaults(role)
    options = {}
    for name, spec in _specs(role).items():
        for option, told in spec.get("options", {}).items():
            options.setdefault(option, told)
            if "default" in told:
                assert option in defaults, f"{role}, {name}: {option} has a default in the spec alone"
                assert defaults[option] == _at_home(told), f"{role}, {name}: {option}"
            else:
                assert option not in defaults, f"{role}, {name}: {option} has a default that the spec does not tell"
    assert sorted(set(defaults) - set(options)) == [], f"{role}: defaults that the spec does not know"


@pytest.mark.parametrize("role", ROLES)
def test_options_carry_the_role_s_name(role):
    for spec in _specs(role).values():
        for option in spec.get("options", {}):
            assert option.startswith(role + "_")


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_used_by_the_role(role):
    folder = ROOT / "roles" / role
    used = "".join(
        path.read_text(encoding="utf-8")
        for part in ("tasks", "vars", "templates")
        for path in sorted((folder / part).rglob("*"))
        if path.is_file()
    )
    for spec in _specs(role).values():
        for option in spec.get("options", {}):
            assert re.search(rf"\b{option}\b", used), f"{role}: {option} is declared, and nothing uses it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Without O(check_dump) saves C(out/<name>).", "Without `check_dump` saves `out/<name>`."),
        ("O(a=b) or V(x\\), y) beside RV(nodes)", "`a=b` or `x), y` beside `nodes`"),
        ("see P(gpuwl.sandbox.check#role), M(a.b.c)", "see [`gpuwl.sandbox.check`](../check/README.md), `a.b.c`"),
        ("I(so) B(much) L(a page, https://example.com/) and U(https://example.com)", None),
        ("a <tag> outside, and the letters IO(x)", "a &lt;tag&gt; outside, and the letters IO(x)"),
    ],
)
def test_markup_becomes_markdown(text, expected):
    expected = expected or "*so* **much** [a page](https://example.com/) and <https://example.com>"
    assert make_role_readmes.markdown(text) == expected


def test_the_version_that_the_checker_reports_is_the_collections():
    collection = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    assert _yaml("check", "vars/main.yml")["check_collection_version"] == collection["version"]
