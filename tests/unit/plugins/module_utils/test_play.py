# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes between a module and its ansible-playbook are watched."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _play


@pytest.mark.parametrize(
    ("parents", "ansible", "line"),
    [
        # module 9, shell 8, worker 7, ansible-playbook 6, the user's shell 5, which may end as it likes.
        ({9: 8, 8: 7, 7: 6, 6: 5, 5: 1}, {7, 6}, [(9, 8), (8, 7), (7, 6)]),
        ({9: 7, 7: 6, 6: 1}, {7, 6}, [(9, 7), (7, 6)]),
        # Called by hand, or where there is no /proc.
        ({9: 5, 5: 1}, set(), []),
        ({}, set(), []),
    ],
)
def test_from_the_module_up_to_the_play(parents, ansible, line):
    assert _play.line_of_descent(9, parents.get, ansible.__contains__) == line
