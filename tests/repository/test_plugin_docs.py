# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plugins document and what their code takes are the same: options, action group, check mode, signatures of filters."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import sys
from unittest import mock

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import fragment_loader
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
from ansible.utils.plugin_docs import get_docstring

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Makes ansible_collections.gpuwl.sandbox this checkout, whatever its folder is called.
if not any(isinstance(finder, _AnsibleCollectionFinder) for finder in sys.meta_path):
    _AnsibleCollectionFinder(paths=[str(ROOT / ".collections")])._install()

PACKAGE = "ansible_collections.gpuwl.sandbox.plugins"


def _names(folder, suffix):
    return sorted(path.stem for path in (ROOT / "plugins" / folder).glob(f"*{suffix}"))


MODULES, ACTIONS = _names("modules", ".py"), _names("action", ".py")
FUNCTIONS = {
    name: function
    for file in _names("filter", ".py")
    for name, function in importlib.import_module(f"{PACKAGE}.filter.{file}").FilterModule().filters().items()
}
GROUP = "gpuwl.sandbox.gpuwl"
# A module that has all of these is told how to connect. kind_cluster and kwok_cluster write a kubeconfig, and
# existing_cluster judges one; a default for all modules must not reach these.
CONNECTION = set(
    importlib.import_module("ansible_collections.kubernetes.core.plugins.module_utils.args_common").AUTH_ARG_SPEC
)


class Captured(Exception):
    """Carries what a plugin gave to Ansible as its argument spec."""


def _capture(*_arguments, **keywords):
    raise Captured(keywords)


def _taken(name):
    """The keywords, argument_spec among them, with which a module or an action plugin has its arguments checked."""
    with pytest.raises(Captured) as caught:
        if name in ACTIONS:
            action = importlib.import_module(f"{PACKAGE}.action.{name}").ActionModule
            with (
                mock.patch.object(ActionBase, "run"),
                mock.patch.object(ActionBase, "validate_argument_spec", side_effect=_capture),
            ):
                action.__new__(action).run(task_vars={})
        else:
            with mock.patch.object(AnsibleModule, "__init__", _capture):
                importlib.import_module(f"{PACKAGE}.modules.{name}").main()
    return caught.value.args[0]


def _documentation(name):
    """A module's DOCUMENTATION with its fragments, and its RETURN."""
    file = str(ROOT / "plugins" / "modules" / f"{name}.py")
    document, examples, returned, _metadata = get_docstring(
        file, fragment_loader, collection_name="gpuwl.sandbox", plugin_type="module"
    )
    assert document, "no DOCUMENTATION"
    assert examples, "no EXAMPLES"
    return document, returned


def _of_code(spec):
    """An argument spec in a form to compare."""
    return {
        name: {
            "type": told.get("type", "str"),
            "elements": told.get("elements"),
            "required": told.get("required", False),
            "default": told.get("default"),
            "choices": list(told.get("choices") or []),
            "aliases": sorted(told.get("aliases") or []),
            "suboptions": _of_code(told.get("options") or {}),
        }
        for name, told in spec.items()
    }


def _of_documentation(options):
    """Documented options in the same form."""
    return {
        name: {
            "type": told.get("type", "str"),
            "elements": told.get("elements"),
            "required": told.get("required", False),
            "default": told.get("default"),
            "choices": list(told.get("choices") or []),
            "aliases": sorted(told.get("aliases") or []),
            "suboptions": _of_documentation(told.get("suboptions") or {}),
        }
        for name, told in options.items()
    }


def _runtime_group():
    return yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))["action_groups"]["gpuwl"]


def test_there_are_plugins():
    assert MODULES and ACTIONS and FUNCTIONS


def test_every_action_plugin_is_documented_as_a_module():
    assert set(ACTIONS) <= set(MODULES)


def test_every_filter_is_documented_and_there_is_no_other():
    assert sorted(FUNCTIONS) == _names("filter", ".yml")


@pytest.mark.parametrize("name", MODULES)
def test_documented_options_are_those_of_the_code(name):
    assert _of_documentation(_documentation(name)[0]["options"]) == _of_code(_taken(name)["argument_spec"])


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_says_about_itself(name):
    document, _returned = _documentation(name)
    attributes = document["attributes"]
    assert document["module"] == name
    assert document["version_added"] and document["seealso"]
    assert {"check_mode", "diff_mode", "idempotent"} <= set(attributes)
    # Ansible itself skips a module that doesn't support check mode; an action plugin sees to it.
    supported = name in ACTIONS or _taken(name).get("supports_check_mode", False)
    assert attributes["check_mode"]["support"] == ("full" if supported else "none")
    assert ("action" in attributes) == (name in ACTIONS)


def test_the_action_group_holds_exactly_what_is_told_how_to_connect():
    assert sorted(_runtime_group()) == [name for name in MODULES if set(_taken(name)["argument_spec"]) >= CONNECTION]


@pytest.mark.parametrize("name", MODULES)
def test_members_of_the_action_group_say_so(name):
    told = _documentation(name)[0]["attributes"].get("action_group")
    assert (told is not None) == (name in _runtime_group())
    assert told is None or (told["support"], told["membership"]) == ("full", [GROUP])


@pytest.mark.parametrize("name", MODULES)
def test_returned_values_are_described(name):
    for key, told in (_documentation(name)[1] or {}).items():
        assert {"description", "returned", "type", "sample"} <= set(told), key
        _assert_described(told, key)


def _assert_described(told, where):
    """Everything inside has a description and a type, and the sample has the keys that `contains` names."""
    assert told.get("description") and told.get("type"), where
    if told["type"] == "list":
        assert told.get("elements"), where
    for key, inner in (told.get("contains") or {}).items():
        _assert_described(inner, f"{where}.{key}")
    if "contains" in told and "sample" in told:
        for entry in told["sample"] if told["type"] == "list" else [told["sample"]]:
            assert set(entry) == set(told["contains"]), where


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_filter_documents_its_signature(name):
    found = yaml.safe_load((ROOT / "plugins" / "filter" / f"{name}.yml").read_text(encoding="utf-8"))
    document = found["DOCUMENTATION"]
    options = dict(document["options"])
    assert document["name"] == name
    assert document["version_added"] and document["seealso"]
    assert options.pop("_input")["required"] is True
    _first, *parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    positional = [text.strip() for text in document.get("positional", "").split(",") if text.strip()]
    assert positional == list(options) == [parameter.name for parameter in parameters]
    for parameter in parameters:
        told = options[parameter.name]
        required = parameter.default is inspect.Parameter.empty
        default = None if required else parameter.default
        assert told.get("required", False) == required, parameter.name
        # A tuple is how a signature says an empty list.
        assert told.get("default") == (list(default) if isinstance(default, tuple) else default), parameter.name
        assert told.get("type"), parameter.name
    value = found["RETURN"]["_value"]
    assert "sample" in value
    _assert_described(value, "_value")


def test_profiles_are_those_of_the_rules():
    from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import PROFILES

    for name in ("consistency", "check_reports"):
        found = yaml.safe_load((ROOT / "plugins" / "filter" / f"{name}.yml").read_text(encoding="utf-8"))
        assert list(found["DOCUMENTATION"]["options"]["profile"]["choices"]) == list(PROFILES)
    role = yaml.safe_load((ROOT / "roles" / "check" / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    assert role["argument_specs"]["main"]["options"]["check_profile"]["choices"] == list(PROFILES)
