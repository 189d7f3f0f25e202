# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the numbers and states of a cluster mislead: they say that all is well, and operands are missing.

Private to the collection gpuwl.sandbox. Sources: kubernetes pkg/controller/daemon/daemon_controller.go (what counts in
desiredNumberScheduled); what operator v25.10.1, v26.3.3 and v26.7.0 were seen to report.
"""

from typing import Any, Dict, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_verdicts import Missing, Scene, Verdict


def misleading(verdicts: List[Verdict], scene: Scene, states: Dict[str, str]) -> List[Dict[str, str]]:
    """Return {object, says, but} for each object that reports well and is wrong.

    states: status.state of each ClusterPolicy by its name.
    """
    found = _of_policies(verdicts, scene, states)
    by_operand: Dict[str, List[Tuple[str, Missing]]] = {}
    for verdict in verdicts:
        for one in verdict.missing:
            by_operand.setdefault(one.operand, []).append((verdict.node.name, one))
    sets = {one.title: one for every in scene.sets.values() for one in every if not one.is_conditional()}
    for title, daemonset in sorted(sets.items()):
        lacking = [case for operand in daemonset.operands for case in by_operand.get(operand, [])]
        if lacking and daemonset.desired is not None and daemonset.desired == daemonset.ready:
            says = f"desiredNumberScheduled {daemonset.desired}, numberReady {daemonset.ready}"
            nodes = sorted({name for name, _one in lacking})
            but = f"its Pod is due and not Running on {len(nodes)} more ({_causes(lacking)})"
            found.append({"object": f"DaemonSet {title}", "says": says, "but": but})
    return found


def _of_policies(verdicts: List[Verdict], scene: Scene, states: Dict[str, str]) -> List[Dict[str, str]]:
    found = []
    policy = scene.cluster.policy
    lacking = [(verdict.node.name, one) for verdict in verdicts for one in verdict.missing]
    if policy and states.get(policy.name) == "ready":
        if lacking:
            nodes = {name for name, _one in lacking}
            but = f"operands are missing on {len(nodes)} node{'s' if len(nodes) > 1 else ''} ({_causes(lacking)})"
            found.append({"object": f"ClusterPolicy {policy.name}", "says": "state ready", "but": but})
        for name in scene.cluster.other_policies:
            but = f"ClusterPolicy {name} is there too, and is ignored without a word"
            found.append({"object": f"ClusterPolicy {policy.name}", "says": "state ready", "but": but})
    return found


def _causes(lacking: List[Tuple[str, Missing]]) -> str:
    """Put into words which nodes lack something by which cause."""
    nodes: Dict[str, List[str]] = {}
    for name, one in lacking:
        nodes.setdefault(one.cause, []).append(name)
    return "; ".join(f"{cause}: {ranges(sorted(set(names)))}" for cause, names in sorted(nodes.items()))


def as_data(verdict: Verdict) -> Dict[str, Any]:
    """Return a verdict as plain data."""
    return {
        "node": verdict.node.name,
        "workload": verdict.workload,
        "due": verdict.due,
        "running": verdict.running,
        "missing": [{"operand": one.operand, "cause": one.cause, "detail": one.detail} for one in verdict.missing],
        "out_of_order": [
            {"operand": one.operand, "needs": one.needs, "detail": one.detail} for one in verdict.out_of_order
        ],
    }
