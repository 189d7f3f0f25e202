# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notes what tasks and the collection's filters return, a line of JSON each, in the file that GPUWL_RESULTS names."""

from __future__ import annotations

import functools
import json
import os

from ansible.plugins.callback import CallbackBase
from ansible.plugins.filter import AnsibleJinja2Filter


def note(**entry):
    with open(os.environ["GPUWL_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(entry, default=str) + "\n")


def recorded(plugin):
    """The function of a filter; templates are rendered by workers, which are forked from the process that this runs in."""
    function = plugin._function
    if not plugin.ansible_name.startswith("gpuwl.sandbox."):
        return function

    @functools.wraps(function)
    def call(*args, **kwargs):
        value = function(*args, **kwargs)
        note(filter=plugin.ansible_name, value=value)
        return value

    return call


class CallbackModule(CallbackBase):
    """Does nothing without GPUWL_RESULTS in the environment."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "record_results"

    play = ""

    def __init__(self):
        super().__init__()
        if "GPUWL_RESULTS" in os.environ:
            AnsibleJinja2Filter.j2_function = property(recorded)
        else:
            self.disabled = True

    def v2_playbook_on_play_start(self, play):
        self.play = play.get_name()

    def v2_runner_on_ok(self, result):
        self._note(result, failed=False)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._note(result, failed=True)

    def _note(self, result, failed):
        task, returned = result._task, result._result
        note(play=self.play, task=task.get_name(), action=task.action, failed=failed, result=returned)
