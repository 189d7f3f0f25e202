# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuwl.sandbox.operand_table: a door to the rules."""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_table import operand_table as draw


def operand_table(audit, width=100):
    """Return an audit of operands as text."""
    if not isinstance(width, int) or isinstance(width, bool) or width < 40:
        raise AnsibleFilterError(f"width must be a whole number from 40, got {width!r}")
    try:
        return draw(audit, width)
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(
            f"expected what gpuwl.sandbox.operand_audit returns; missing or of another form: {error}"
        ) from None


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self):
        return {"operand_table": operand_table}
