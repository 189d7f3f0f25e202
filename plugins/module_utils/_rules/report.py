# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes text from other people's files fit to be shown.

Private to the collection gpuwl.sandbox.
"""


def one_line(text: str) -> str:
    """Return text in which newlines, terminal escapes and the like are written out.

    Names come from other people's files: none may begin a line of its own or steer a terminal.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
