# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes ansible_collections.gpuwl.sandbox this checkout, whatever its folder is called."""

import pathlib
import sys

import hypothesis
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

# The same examples in each run, so that what passes here passes elsewhere; --hypothesis-profile=search looks for others.
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.register_profile("search", derandomize=False)
hypothesis.settings.load_profile("fixed")

ROOT = pathlib.Path(__file__).resolve().parents[2]

# ansible-test has installed its own finder already.
if not any(isinstance(finder, _AnsibleCollectionFinder) for finder in sys.meta_path):
    _AnsibleCollectionFinder(paths=[str(ROOT / ".collections")])._install()


def pytest_make_parametrize_id(val):
    """Name a test after the length of its bytes: packed ones hold the time, and two workers must collect the same names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None
