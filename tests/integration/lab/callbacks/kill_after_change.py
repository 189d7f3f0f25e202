# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills the play, as a power cut would, at the start of the task after the first one that changed something.

Which ones count is a list of task names, separated by |, in GPUWL_KILL_AFTER_CHANGE; * stands for all.
"""

from __future__ import annotations

import os
import signal

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """Does nothing without GPUWL_KILL_AFTER_CHANGE in the environment."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_after_change"

    changed = ""

    def v2_runner_on_ok(self, result):
        counting = os.environ.get("GPUWL_KILL_AFTER_CHANGE", "")
        name = result.task_name.rpartition(" : ")[2]
        if result.is_changed() and (counting == "*" or name in counting.split("|")):
            self.changed = name

    def v2_playbook_on_task_start(self, task, is_conditional):
        if self.changed:
            print(f"KILLED AFTER [{self.changed}]", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
