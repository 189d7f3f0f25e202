# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.inventory_table: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inventory_table import inventory_table as draw


def inventory_table(inventory, placements=None, width=100):
    """Return the inventory, and decisions if there are any, as text for a terminal."""
    if not isinstance(width, int) or width < 40:
        raise AnsibleFilterError(f"width must be a number from 40, got {width!r}")
    try:
        return draw(inventory, placements, width)
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(
            "expected what the filter gpuwl.sandbox.inventory returns,"
            f" and placements as a list of decisions; missing or of another form: {error}"
        ) from None


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"inventory_table": inventory_table}
