# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _client_errors as errors
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _node_labels, _node_status, _placement


class Answer(Exception):
    def __init__(self, status, body, reason="Reason"):
        self.status, self.body, self.reason = status, body, reason


@pytest.mark.parametrize(
    "answer, parts",
    [
        (
            Answer(403, b'{"message": "nodes is forbidden: User \\"u:v\\" cannot"}'),
            [
                "the user u:v may not patch nodes/status: nodes is forbidden",
                "a ClusterRole with the verb patch on nodes/status",
            ],
        ),
        (Answer(403, b"<html>\nblocked</html>"), ["the user of these credentials may not", "<html> blocked"]),
        (Answer(401, b""), ["401 Unauthorized", "log in again"]),
        (Answer(422, b'{"message": "a\\n  b"}'), ["a b (HTTP 422)"]),
        (Answer(500, None), ["Reason (HTTP 500)"]),
        (Answer(502, b"\xff\xfe" * 900), ["HTTP 502"]),
        # A message that is none: what came is told as it is.
        (Answer(500, b'{"message": null}'), ['nodes/status: {"message": null} (HTTP 500)']),
        (Answer(500, b'{"message": {"a": 1}}'), ['nodes/status: {"message": {"a": 1}} (HTTP 500)']),
        (Answer(500, b"[" * 100000), ["HTTP 500"]),
    ],
)
def test_refusals_are_one_short_line(answer, parts):
    told = errors.explain_refusal(answer, "patch", "nodes/status")
    assert told.status == answer.status and "\n" not in str(told) and len(str(told)) < 700
    for part in parts:
        assert part in str(told)


def test_a_namespaced_refusal_asks_for_a_role():
    assert "needs a Role in namespace ns with the verb list on pods" in str(
        errors.explain_refusal(Answer(403, b"{}"), "list", "pods", "ns")
    )


def test_a_missing_kubeconfig_is_named(tmp_path):
    told = str(errors.explain_configuration(ValueError("x\ny"), f"{tmp_path}/absent"))
    assert f"{tmp_path}/absent does not exist" in told
    (tmp_path / "there").touch()
    assert "can't be used: x y" in str(errors.explain_configuration(ValueError("x\ny"), f"{tmp_path}/there"))
    assert "data" in str(errors.explain_configuration(ValueError("x"), {"users": []}))


def same(spec, documented):
    assert spec.keys() == documented.keys()
    for name, option in spec.items():
        text = documented[name]
        for key in ("type", "elements", "choices", "default"):
            assert option.get(key) == text.get(key), (name, key)
        assert bool(option.get("required")) == bool(text.get("required")), name
        same(option.get("options", {}), text.get("suboptions", {}))


@pytest.mark.parametrize(
    "module, spec",
    [
        ("node_labels", _node_labels.argument_spec),
        ("node_status", _node_status.argument_spec),
        ("placement_info", _placement.argument_spec),
    ],
)
def test_the_documentation_mirrors_the_options(module, spec):
    text = importlib.import_module(f"ansible_collections.gpuwl.sandbox.plugins.modules.{module}")
    same(spec(), yaml.safe_load(text.DOCUMENTATION)["options"])
    assert yaml.safe_load(text.RETURN) and yaml.safe_load(text.EXAMPLES)


def test_a_token_is_not_told():
    told = str(errors.explain_configuration(ValueError("Invalid header value b'Bearer s3cr3t\\nx'"), __file__))
    assert "Invalid header value" in told and "s3cr3t" not in told
