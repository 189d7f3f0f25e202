# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When do a node's label and the resource names it advertises not fit together?

Private to the collection gpuwl.sandbox. Source of the profile `lab`: the lab's
step 8, "a checker that judges whether label and advertised resources agree".

Nodes are expected in the form that objects.check_shape has accepted.
"""

import re
import sys
from typing import Any, Dict, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import json_type
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity

# A label's value, and pairs of resource name and quantity, as found.
LabFacts = Tuple[Any, Tuple[Tuple[str, Any], ...]]

WORKLOAD_LABEL = "nvidia.com/gpu.workload.config"
RESOURCE_PREFIX = "nvidia.com/"
CONTAINER_RESOURCE = "nvidia.com/gpu"

# A vGPU profile ends in a hyphen, digits and one capital letter: NVIDIA_A10-12Q.
# A device model may end alike but for the hyphen: GF100GL_TESLA_M2070Q.
_VGPU_PROFILE = re.compile(r"-[0-9]+[A-Z]\Z")

_EXPECTED = {
    "container": "exactly nvidia.com/gpu",
    "vm-passthrough": "one device model name (neither nvidia.com/gpu nor a vGPU profile),"
    " such as nvidia.com/GA102GL_A10",
    "vm-vgpu": "one vGPU profile name (it ends in a hyphen, digits and one capital letter),"
    " such as nvidia.com/NVIDIA_A10-12Q",
}
_REMEDIES = {
    "unknown-workload-label": f"Set the label {WORKLOAD_LABEL} to container, vm-passthrough or vm-vgpu.",
    "invalid-resource-quantity": "Find out what wrote the node's status: the kubelet writes whole numbers only.",
    "several-resources": "Leave one kind of GPU workload on the node; names left from an earlier use must stand at 0.",
    "no-resource": "Look at the device plugin that this label chooses: it has registered no device.",
    "wrong-resource": "Correct the label, or wait until the operator has exchanged the node's software for it.",
}


def is_labelled(node: Dict[str, Any]) -> bool:
    """Say whether a Node carries the workload label; an empty value is carrying it."""
    return WORKLOAD_LABEL in ((node.get("metadata") or {}).get("labels") or {})


def lab_facts(node: Dict[str, Any]) -> LabFacts:
    """Return what the profile `lab` reads in a labelled Node: the label's value and the NVIDIA resources."""
    return node["metadata"]["labels"][WORKLOAD_LABEL], tuple(_lab_resources(node).items())


def lab_is_healthy(facts: LabFacts) -> bool:
    """Say whether the profile `lab` has nothing to say about what lab_facts has returned."""
    label, listed = facts[0], dict(facts[1])
    advertised, unusable = _advertised(listed)
    return not unusable and len(advertised) == 1 and all(_fits_label(label, name) for name in advertised)


def lab_draft(facts: LabFacts) -> Draft:
    """Return what the profile `lab` says about a node that is not healthy, without the node's name.

    Its rule is the gravest reason, its message names them all.
    """
    label, listed = facts[0], dict(facts[1])
    reasons = _lab_reasons(label, *_advertised(listed))
    return Draft(
        rule=reasons[0][0],
        severity="error",
        message="; ".join(text for rule, text in reasons),
        remedy=_REMEDIES[reasons[0][0]],
        evidence=(("label", label), ("resources", listed)),
    )


def _lab_resources(node: Dict[str, Any]) -> Dict[str, Any]:
    """Return the NVIDIA resources a node lists: capacity speaks only where allocatable is silent.

    Names are kept once, however many nodes are bad.
    """
    status = node.get("status") or {}
    listed = {}
    for resources in (status.get("capacity") or {}, status.get("allocatable") or {}):
        # Compared by slices, which takes half the time: every node of a large dump comes by here.
        for name in resources:
            if name[:11] == RESOURCE_PREFIX:
                listed[name] = resources[name]
    return {sys.intern(name): listed[name] for name in sorted(listed)}


def _advertised(listed: Dict[str, Any]) -> Tuple[Dict[str, int], Dict[str, str]]:
    """Divide listed resources into those above zero and those whose quantity is none.

    "0" is absent: after a change of use the kubelet leaves the old name behind with "0".
    """
    advertised, unusable = {}, {}
    for name, quantity in listed.items():
        try:
            number = parse_quantity(quantity)
        except ValueError as error:
            unusable[name] = str(error)
        else:
            if number > 0:
                advertised[name] = number
    return advertised, unusable


def _lab_reasons(label: Any, advertised: Dict[str, int], unusable: Dict[str, str]) -> List[Tuple[str, str]]:
    """Return (rule, text) for each way in which a node fails, the gravest first, for one that does fail."""
    reasons = []
    known = isinstance(label, str) and label in _EXPECTED
    if not known:
        reasons.append(
            (
                "unknown-workload-label",
                f"label value {_quoted(label)} is none of container, vm-passthrough and vm-vgpu",
            )
        )
    for name, problem in unusable.items():
        reasons.append(("invalid-resource-quantity", f"resource {name}: {problem}"))
    expected = f"label {label} expects {_EXPECTED[label]}" if known else "expected one resource name"
    found = f"{expected}, the node advertises {_advertises(advertised)}"
    if len(advertised) > 1:
        reasons.append(("several-resources", found + ": a node runs one kind of GPU workload"))
    elif known and not advertised and not unusable:
        reasons.append(("no-resource", found))
    elif known and not all(_fits_label(label, name) for name in advertised):
        reasons.append(("wrong-resource", found))
    else:
        reasons.append((reasons[0][0], "the node advertises " + _advertises(advertised)))
    return reasons


def _fits_label(label: object, resource: str) -> bool:
    """Say whether a resource name has the form that a label value expects."""
    if resource == CONTAINER_RESOURCE:
        return label == "container"
    return label == ("vm-vgpu" if _VGPU_PROFILE.search(resource) else "vm-passthrough")


def _advertises(advertised: Dict[str, int]) -> str:
    """Put into words what a node advertises."""
    if not advertised:
        return "no nvidia.com/ resource above 0"
    shown = ["%s (%d)" % item for item in advertised.items()]
    if len(shown) > 8:
        shown[7:] = ["%d more" % (len(shown) - 7)]
    return " and ".join(shown)


def _quoted(label: Any) -> str:
    """Show a label's value, cut to a length for reading."""
    if not isinstance(label, str):
        return f"of the wrong type, {json_type(label)},"
    return '"%s"' % (label if len(label) <= 63 else label[:60] + "...")
