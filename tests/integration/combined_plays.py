# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One play of many cases that a role meets, each in a block of its own that is rescued: what is looked at is the message, or what changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]


def role(tasks_from: str = "main") -> dict:
    """What includes the role control_plane."""
    return {"ansible.builtin.include_role": {"name": "gpuwl.sandbox.control_plane", "tasks_from": tasks_from}}


def play_of(
    cases: dict[str, dict],
    included: dict,
    environments: dict[str, dict] | None = None,
    before: dict[str, dict] | None = None,
) -> str:
    """A playbook in which a role or a file of tasks meets the variables, and the environment, of one case after the other.

    before: what comes first, a task for each case.
    """
    tasks = [
        {
            "block": [*([before[name]] if before else []), {"name": f"Case {name}", **included, "vars": variables}],
            "environment": (environments or {}).get(name, {}),
            "rescue": [{"ansible.builtin.meta": "noop"}],
        }
        for name, variables in cases.items()
    ]
    defaults = str(CHECKOUT / "playbooks" / "vars" / "defaults.yml")
    return json.dumps([{"hosts": "localhost", "gather_facts": False, "vars_files": [defaults], "tasks": tasks}])


def outputs(output: str) -> dict[str, str]:
    """Case -> what was printed while it was met."""
    assert "Traceback" not in output, output
    parts = re.split(r"^TASK \[Case (?=.*\] \*)", output, flags=re.MULTILINE)[1:]
    return {part.partition("] *")[0]: part for part in parts}


def messages(output: str) -> dict[str, str]:
    """Case -> the message of its one failed task, in one line; of cases that were not refused there is none."""
    found = {}
    for name, part in outputs(output).items():
        blocks = re.findall(r"^fatal: .*=>\s*\n((?:    .*\n|\n)+)", part, re.MULTILINE)
        assert len(blocks) <= 1, part
        if blocks:
            found[name] = " ".join(yaml.safe_load(blocks[0])["msg"].split())
    return found


def changes(output: str) -> dict[str, int]:
    """Case -> how many tasks changed something."""
    return {name: len(re.findall(r"^changed: ", part, re.MULTILINE)) for name, part in outputs(output).items()}
