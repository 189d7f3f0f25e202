# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule says about an object: a finding, as plain data.

Private to the collection gpuwl.sandbox. Every audit gives findings of this one
form, so that one reporter serves them all.
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple

SEVERITIES = ("error", "warning", "info")  # the gravest first

# In a Draft's remedy this stands for the node's name, or for the names of all nodes that have the finding.
NODE = "{node}"


class Draft(NamedTuple):
    """What a rule says about every node that is alike: a finding without the node's name."""

    rule: str
    severity: str
    message: str
    remedy: str
    evidence: Tuple[Tuple[str, Any], ...]  # (field, value as found)


def finding(
    kind: str,
    name: str,
    rule: str,
    message: str,
    remedy: str,
    evidence: Dict[str, Any],
    severity: str = "error",
    namespace: Optional[str] = None,
    node: Optional[str] = None,
    source: Optional[str] = None,
) -> Dict[str, Any]:
    """Return one finding.

    kind, namespace, name: the object it is about; namespace None for a cluster-wide one.
    node, source: the node it concerns, and the file or context it came from, or None.
    rule: the rule's id, lower-case words joined by hyphens.
    severity: one of SEVERITIES.
    message: what was found and what was expected; to be understood alone.
    remedy: what to do about it.
    evidence: the values the judgement rests on, as they were found.
    """
    if severity not in SEVERITIES:
        raise ValueError("severity {!r} is none of {}".format(severity, ", ".join(SEVERITIES)))
    return {
        "subject": {"kind": kind, "namespace": namespace, "name": name},
        "node": node,
        "source": source,
        "rule": rule,
        "severity": severity,
        "message": message,
        "remedy": remedy,
        "evidence": evidence,
    }
