# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the objects of one kind from a path.

Private to the collection gpuwl.sandbox.
"""

from typing import Any, Callable, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.inputs import MAX_SIZE, read_paths
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Collector, Unreadable


def read_dump(path: str, kind: str, take: Callable[[Dict[str, Any]], Any]) -> List[Any]:
    """Return what `take` makes of each object of a kind at a path, in the order of reading.

    path: a file in any form that inputs.py reads, a folder, an archive or "-".
    kind: "Node" or "Pod"; a file holds one, a List or a NodeList (PodList). Other
    kinds in a List are left out.
    take: called with each object as soon as it is read; may raise Unreadable.
    Raises Unreadable, with a message of one sentence that begins with the path.
    """
    sources, results = read_paths([path], lambda source: Collector(kind, take), MAX_SIZE, None)
    for source in sources:
        if source.error or (source.given and source.complaint):
            raise Unreadable(f"{source.path}: {source.error or source.complaint}")
    read = [source for source in sources if not source.left_out]
    if not any(not source.complaint for source in read):
        raise Unreadable(f"{path}: " + (read[0].complaint if read else "nothing in it is a dump of Kubernetes objects"))
    return results
