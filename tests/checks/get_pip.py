# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the get-pip.py that ansible-test would fetch: takes pip from the standard library, the rest from PyPI."""

import subprocess
import sys

subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"], stdout=subprocess.DEVNULL)
# get-pip's own switches (--no-setuptools, --no-wheel) mean nothing to pip.
arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--no-")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--quiet"] + arguments))
