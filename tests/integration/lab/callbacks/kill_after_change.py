# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills the play, as a power cut would, at the start of the task after the first one that changed something."""

from __future__ import annotations

import os
import signal

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """Switched on by GPUWL_KILL_AFTER_CHANGE in the environment."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_after_change"

    changed = ""

    def v2_runner_on_ok(self, result):
        if result.is_changed():
            self.changed = result.task_name

    def v2_playbook_on_task_start(self, task, is_conditional):
        if self.changed and os.environ.get("GPUWL_KILL_AFTER_CHANGE"):
            print(f"KILLED AFTER [{self.changed}]", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
