# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What modules say about themselves in the same words. Private to the collection."""

from __future__ import annotations


class ModuleDocFragment:
    """Use DOCUMENTATION in every module, and with it those of the others that hold for the module."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and say what it would change without changing it.
  diff_mode:
    description: Returns what it changes, or would change in check mode, when run with C(--diff).
  idempotent:
    description: A second run with the same options, where nothing else changed meanwhile, changes nothing and says so.
"""

    # Changes nothing at all.
    READS_ONLY = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: Changes nothing in any mode.
  diff_mode:
    support: N/A
    details: Changes nothing, so there is nothing to show.
  idempotent:
    support: full
    details: Changes nothing.
"""

    # An action plugin.
    CONTROLLER = r"""
options: {}
attributes:
  action:
    description: Is an action plugin and always runs on the controller, whatever the host of the play.
    support: full
  platform:
    description: Operating systems of the controller.
    support: full
    platforms: posix
"""
