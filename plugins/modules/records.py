# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: records
short_description: Write many record files in one go
version_added: 0.1.0
author: gpuwl.sandbox contributors (@gpuwl)
description:
  - Writes text and JSON files below one folder of the controller. A file is replaced whole or not at all, and only where its
    content or mode differs.
  - One call takes milliseconds for any number of files, where a task per file takes a fraction of a second each.
extends_documentation_fragment:
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.controller
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows each file that changes, before and after.
  idempotent:
    support: full
options:
  root:
    description: Folder that all paths are relative to. Nothing outside it is written.
    type: path
    required: true
  folders:
    description: Folders to make below O(root), besides those that the records need.
    type: list
    elements: str
    default: []
  records:
    description: The files to write.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path of the file, relative to O(root).
        type: str
        required: true
      content:
        description:
          - Text, or a list of lines; for a path that ends in C(.json) also any data, written as JSON. Text ends in exactly one
            newline; no lines make an empty file.
        type: raw
        required: true
      mode:
        description: Permissions of the file, as octal text.
        type: str
        default: "0644"
  absent:
    description: Files to remove, relative to O(root).
    type: list
    elements: str
    default: []
  folders_absent:
    description: Folders to remove, relative to O(root), in this order, each only if it is empty by then.
    type: list
    elements: str
    default: []
seealso:
  - module: ansible.builtin.copy
  - plugin: gpuwl.sandbox.check_records
    plugin_type: filter
  - plugin: gpuwl.sandbox.placement_records
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Record what was seen
  gpuwl.sandbox.records:
    root: ~/gpuwl
    records:
      - path: out/nodes.txt
        content: [lab-node-0 container, lab-node-1 vm-passthrough]
      - path: out/verdict.json
        content: {schema: 1, verdict: ok}

- name: Remove what is out of date, and its folder if nothing else is in it
  gpuwl.sandbox.records:
    root: ~/gpuwl
    absent: [out/verdict.json]
    folders_absent: [out]
"""

RETURN = r"""
written:
  description: Files that were written, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/home/me/gpuwl/out/nodes.txt, /home/me/gpuwl/out/verdict.json]
removed:
  description: Files that were removed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/home/me/gpuwl/out/verdict.json]
"""
