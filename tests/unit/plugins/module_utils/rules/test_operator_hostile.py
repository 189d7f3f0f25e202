# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dump is other people's, and what the checker tells is pasted into a shell: nothing in the dump may run there."""

import json
import shutil
import subprocess

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_report import operator_json, operator_text
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_resources import clear_resources
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.resource_names import classify
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    CONTAINER,
    PASSTHROUGH,
    SANDBOX_ON,
    VGPU,
    gpu_cluster,
    node,
    operator,
    outcome,
    policy,
    resource_slice,
)

RUN = "$(touch canary)`touch canary`"
NASTY = [f"'; touch canary; '{RUN}", f'"; touch canary; "{RUN}', f"{{node}}'{RUN}", f"x{RUN}\ntouch canary", "--all"]


def dumps(nasty):
    """Faults whose remedies hold words of the dump, each of them nasty."""
    type_ = f"NVIDIA_{nasty}{{node}}-12Q"
    both = {"gpu": "4", type_: "1"}
    yield node(CONTAINER, both, name=nasty), SANDBOX_ON
    yield node(CONTAINER, {"gpu": "4", type_: "0"}, {"gpu": "4", type_: "1"}, name=nasty), SANDBOX_ON
    yield node(CONTAINER, both, name=nasty), (*SANDBOX_ON, resource_slice(nasty))
    yield (
        node(VGPU, {type_: "1"}, name=nasty, labels={"vgpu.config": nasty, "gpu.deploy.vgpu-manager": nasty}),
        SANDBOX_ON,
    )
    yield node(nasty, {"gpu": "8"}, name=nasty, deployed=CONTAINER), SANDBOX_ON
    yield node(PASSTHROUGH, {"gpu": "8"}, name=nasty), (policy(sandbox=False, name=nasty), operator())
    yield node(PASSTHROUGH, {"pgpu": "8"}, name=nasty), (policy(name=nasty), operator(nasty))
    yield node(name=nasty), (policy(), policy(name=nasty, state=""), gpu_cluster(nasty))
    annotations = {f"gpuwl.sandbox/ignore.{nasty}": "", "gpuwl.sandbox/ignore.no-resource": nasty}
    yield node(CONTAINER, {}, name=nasty, annotations=annotations), SANDBOX_ON
    mig = {"mig.config": nasty, "mig.strategy": nasty, "mig.config.state": nasty, "gpu.product": nasty}
    yield (
        node(CONTAINER, {"mig-1g.10gb": "7", nasty: "1"}, name=nasty, labels=mig),
        (policy(name=nasty, migManager={"enabled": False}),),
    )


def run(remedy, folder):
    """Run a remedy with a kubectl that only says what it was given."""
    script = f"kubectl() {{ printf '%s\\0' \"$@\"; }}\n{remedy}"
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, cwd=folder, timeout=30, check=False)
    assert list(folder.iterdir()) == [], remedy
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")


@pytest.mark.skipif(not shutil.which("bash"), reason="the commands are for bash")
@pytest.mark.parametrize("nasty", NASTY)
def test_no_word_of_a_dump_runs_in_a_remedy(nasty, tmp_path):
    commands = 0
    for one, beside in dumps(nasty):
        found = outcome(one, beside)
        remedies = {each["remedy"] for each in found.findings()}
        remedies |= {line.partition("  do     ")[2] for line in operator_text(found) if line.startswith("  do     ")}
        for remedy in remedies:
            if remedy.startswith(("kubectl ", "for n in ")):
                commands += 1
                assert "--all" not in run(remedy, tmp_path)
    assert commands >= 8


@pytest.mark.parametrize("nasty", [nasty for nasty in NASTY if "touch" in nasty and "\n" not in nasty])
def test_a_patch_stays_json_whatever_the_names(nasty, tmp_path):
    if not shutil.which("bash"):
        return
    # Of names from a dump only those of a known form come into a remedy, and none of them has room for this.
    assert classify(f"nvidia.com/NVIDIA_{nasty}-12Q") == "unknown"
    patch = run(clear_resources([f"nvidia.com/{nasty}"]).replace("{node}", "n"), tmp_path)[-2]
    assert json.loads(patch) == {
        "status": {field: {f"nvidia.com/{nasty}": None} for field in ("capacity", "allocatable")}
    }


@pytest.mark.parametrize("nasty", [*NASTY, "\x1b[31m", "a\r\nb", "\u202e", "\x00"])
def test_text_is_a_line_each_without_escapes(nasty):
    for one, beside in dumps(nasty):
        found = outcome(one, beside)
        for line in operator_text(found):
            assert line.isprintable()
        document = "\n".join(operator_json(found))
        assert document.isascii()
        json.loads(document)


def test_a_value_that_no_node_can_have_is_cut():
    (found,) = [
        one
        for one in outcome(node("x" * 100000, {"gpu": "4"}, deployed=CONTAINER)).findings()
        if one["rule"] == "unknown-workload-label"
    ]
    assert len(found["message"]) < 2000 and max(len(str(value)) for value in found["evidence"].values()) <= 1000
