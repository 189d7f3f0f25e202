# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a lab may not lie. That it stays in its own cluster whatever the environment says is in test_seed.py."""

from __future__ import annotations

import pytest
from combined_plays import outputs, play_of
from lab_plays import ROOT, run_playbook

TOLD = "lab_root must be an absolute path"


def test_roots_that_are_no_absolute_paths(tmp_path):
    """By the tasks with which both playbooks begin; the test below sees that they do."""
    cases = {repr(root): {"lab_root": root} for root in ("", "relative", None, 5, "~/gpuwl")}
    playbook = tmp_path / "roots.yml"
    playbook.write_text(play_of(cases, {"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/paths.yml")}))
    told = outputs(run_playbook(str(playbook), folder=tmp_path).output)
    assert [name for name in cases if TOLD not in " ".join(told[name].split())] == []


@pytest.mark.parametrize(("playbook", "root"), [("lab.yml", "relative"), ("teardown.yml", "~/gpuwl")])
def test_a_root_that_is_no_absolute_path_is_refused(tmp_path, root, playbook):
    played = run_playbook(playbook, variables={"lab_root": root}, folder=tmp_path)
    assert played.rc != 0 and TOLD in " ".join(played.output.split()), played.output
    assert [path.name for path in tmp_path.iterdir() if path.name != "ansible"] == [] and not (
        ROOT / "relative"
    ).exists()
