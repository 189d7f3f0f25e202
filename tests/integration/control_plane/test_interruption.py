# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A start that is killed at any moment is repaired by the next one."""

from __future__ import annotations

import os
import signal

import pytest
from control_plane_lab import COMPONENTS, finish, wait_for


def has(lab, pattern: str) -> bool:
    return any(lab.root.glob(f"**/{pattern}"))


MOMENTS = {
    "before anything": lambda lab: lab.root.exists(),
    "kwokctl made its folder": lambda lab: has(lab, "kwok.yaml"),
    "the first component runs": lambda lab: bool(lab.pids()),
    "all components run": lambda lab: set(lab.pids()) == set(COMPONENTS),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_start_that_was_killed(lab, moment):
    play = lab.launch("role")
    wait_for(lambda: MOMENTS[moment](lab), 60, moment)
    # The play, Ansible's workers, which have a session of their own, and kwokctl: as when memory or power ran out.
    lab.kill_runs()
    play.communicate()
    lab.start().succeeded()
    lab.one_set()
    lab.works()


def test_a_lab_that_is_interrupted_all_its_life(lab):
    # The start's group is killed: Ansible's worker lives on and finishes its work, and the next run waits for it.
    play = lab.launch("role")
    wait_for(lambda: has(lab, "kwokctl.yaml"), 60, "kwokctl's configuration")
    os.killpg(play.pid, signal.SIGKILL)
    lab.start().succeeded()
    play.communicate()
    lab.one_set()
    lab.teardown().succeeded()
    assert lab.pids() == {}

    # Ctrl-C at the start,
    play = lab.launch("role")
    wait_for(lambda: bool(lab.pids()), 60, "the first component")
    os.killpg(play.pid, signal.SIGINT)
    assert finish(play).code != 0
    lab.start().succeeded()
    lab.one_set()
    lab.kubectl("create", "namespace", "kept")

    # a restart that is killed,
    lab.kill(*COMPONENTS)
    play = lab.launch("role")
    wait_for(lambda: "kube-apiserver" in lab.pids(), 60, "kube-apiserver to run")
    lab.kill_runs()
    play.communicate()
    lab.start().succeeded()
    lab.one_set()
    assert "namespace/kept" in lab.kubectl("get", "namespaces", "-o", "name")

    # and a teardown that is killed.
    play = lab.launch("teardown")
    wait_for(lambda: len(lab.pids()) < len(COMPONENTS), 60, "the first component to end")
    lab.kill_runs()
    play.communicate()
    lab.teardown().succeeded()
    assert lab.pids() == {} and not lab.control_plane.exists()
