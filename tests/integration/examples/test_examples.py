# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation's examples run as they stand, and its samples are what really came back."""

from __future__ import annotations

import json

import pytest
from example_plays import AGAIN, FAILURES, FILTERS, GROUP, MODULES, NOWHERE, SETTING, documented, group_members

PLUGINS = [
    pytest.param(kind, name, id=f"{kind}-{name}")
    for kind, names in (("module", MODULES), ("filter", FILTERS))
    for name in names
]
# What Ansible itself adds to results.
ANSIBLES_OWN = {"changed", "diff", "failed", "msg", "exception", "invocation", "warnings", "deprecations"}


def test_the_run_ended_well_and_without_a_warning(examples):
    assert examples.rc == 0, examples.output[-4000:]
    assert "WARNING" not in examples.output and "DEPRECAT" not in examples.output, examples.output
    assert examples.results(SETTING), examples.output


@pytest.mark.parametrize(("kind", "name"), PLUGINS)
def test_examples_run(examples, kind, name):
    tasks = documented(kind, name)["EXAMPLES"]
    assert tasks, "there are no examples"
    full = f"gpuwl.sandbox.{name}"
    used = any(full in task for task in tasks) if kind == "module" else full in json.dumps(tasks)
    assert used, f"the examples do not use {full}"
    results = examples.results(f"{full} {kind}")
    assert {task["name"] for task in tasks} <= {entry["task"] for entry in results}, "some did not run"
    failed = {entry["task"]: entry["result"].get("msg") for entry in results if entry["failed"]}
    assert not failed
    assert not [entry for entry in results if entry["result"].get("warnings") or entry["result"].get("deprecations")]
    again = [entry for entry in results if entry["task"].endswith(AGAIN)]
    assert again or kind == "filter"
    assert not [entry["task"] for entry in again if entry["result"]["changed"]], "changed something a second time"


@pytest.mark.parametrize("name", MODULES)
def test_returned_values_are_documented_and_samples_are_real(examples, name):
    returns = documented("module", name)["RETURN"]
    results = [entry["result"] for entry in examples.returned(name) if entry["play"] != GROUP]
    found = {key for result in results for key in result if not key.startswith("_ansible")} - ANSIBLES_OWN
    assert found == set(returns), "documented, and returned by some example or expected failure"
    for key, told in returns.items():
        values = [result[key] for result in results if key in result]
        assert_real(told["sample"], values, key)
        for value in values:
            assert_form(told, value, key)


@pytest.mark.parametrize("name", FILTERS)
def test_filter_samples_are_real(examples, name):
    told = documented("filter", name)["RETURN"]["_value"]
    values = examples.values(name)
    assert_real(told["sample"], values, name)
    assert_form(told, told["sample"], name)
    for value in values:
        # An option may say which keys are wanted.
        assert_form(told, value, name, every_key=False)


def assert_real(sample, values, where):
    """A sample is one of the values that came back, or some entries of one."""

    def holds(value):
        if isinstance(sample, list) and isinstance(value, list) and sample:
            return all(entry in value for entry in sample)
        if isinstance(sample, dict) and isinstance(value, dict) and sample:
            return (
                sample.items() <= value.items()
                if _hashable(sample)
                else all(value.get(key, value) == sample[key] for key in sample)
            )
        return value == sample

    assert any(map(holds, values)), f"{where}: no run returned {sample}, but {values[:5]}"


def _hashable(sample):
    return not any(isinstance(value, (dict, list)) for value in sample.values())


TYPES = {"str": str, "int": int, "bool": bool, "list": list, "dict": dict}


def assert_form(told, value, where, every_key=True):
    """A value has the type that is documented, and the keys that `contains` names and no other."""
    if value is None:
        # The descriptions say where a value may be null; a list or a dict never is.
        assert told["type"] == "str" or "null" in str(told["description"]) or "V(none)" in str(told["description"]), (
            where
        )
        return
    kind = TYPES[told["type"]]
    assert isinstance(value, kind) and (kind is not int or not isinstance(value, bool)), (
        f"{where}: {value!r} is no {told['type']}"
    )
    if "elements" in told:
        assert all(isinstance(entry, TYPES[told["elements"]]) for entry in value), where
    if "contains" in told:
        for entry in value if kind is list else [value]:
            assert set(entry) <= set(told["contains"]), f"{where}: keys"
            assert set(entry) == set(told["contains"]) or not every_key, f"{where}: keys"
            for key in entry:
                assert_form(told["contains"][key], entry[key], f"{where}.{key}", every_key)


@pytest.mark.parametrize("name", group_members())
def test_defaults_of_the_group_reach_every_member(examples, name):
    (entry,) = [entry for entry in examples.results(GROUP) if entry["task"] == name]
    assert entry["failed"] and NOWHERE in entry["result"]["msg"]


@pytest.mark.parametrize("name", ["node_labels", "node_status"])
def test_a_failure_midway_says_what_is_written(examples, name):
    (entry,) = [entry for entry in examples.results(FAILURES) if entry["task"] == name]
    assert entry["failed"]
    assert (entry["result"]["written"], entry["result"]["not_written"]) == (["lab-node-0"], ["lab-node-1"])
