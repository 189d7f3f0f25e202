# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the audit of operands finds, in the collection's form of findings.

Private to the collection gpuwl.sandbox. What a node's labels alone tell is told by the rules of the profile `operator`, in
the same words; the rules here need Pods and DaemonSets. Sources: with each rule in rule_pages.py.
"""

from typing import Any, Dict, Iterable, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import is_tolerated
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.consistency import WORKLOAD_LABEL
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE, SEVERITIES, Draft, finding
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges, shell_names, shell_word
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_chain import PLUGIN, TOOLKIT
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_seen import SeenSet
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operand_verdicts import (
    LABEL_ABSENT,
    LABEL_CAUSES,
    NO_DAEMONSET,
    NOT_RUNNING,
    TAINTED,
    Disorder,
    Missing,
    Scene,
    Verdict,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_case import Case, draft, relabel, tolerate
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_daemonsets import OPERANDS
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labels import (
    is_behind,
    judge_absent,
    judge_deploy_labels,
    judge_held,
    judge_workload_label,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_profile import judge_cluster, judge_operator
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX, OPERANDS_SWITCH

# Taints that Kubernetes itself puts on a node which is not well.
_OF_HEALTH = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def findings_of(verdicts: List[Verdict], scene: Scene) -> List[Dict[str, Any]]:
    """Return the findings, the gravest first, then by rule and node."""
    found = []
    for drafted in judge_cluster(scene.cluster):
        kind = "GPUCluster" if drafted.rule == "conflicting-gpu-cluster" else "ClusterPolicy"
        found.append(_finding(drafted, kind, str(drafted.evidence[0][1])))
    found += _of_daemonsets(verdicts, scene)
    for verdict in verdicts:
        silenced = {rule for rule, reason in verdict.case.view.ignores.items() if str(reason or "").strip()}
        for drafted in judge_operands(verdict, scene):
            if drafted.rule not in silenced:
                found.append(_finding(drafted, "Node", verdict.node.name))
    order = {severity: at for at, severity in enumerate(SEVERITIES)}
    return sorted(found, key=lambda one: (order[one["severity"]], one["rule"], one["node"] or "", one["message"]))


def _finding(drafted: Draft, kind: str, name: str, namespace: Any = None) -> Dict[str, Any]:
    return finding(
        kind=kind,
        namespace=namespace,
        name=name,
        node=name if kind == "Node" else None,
        rule=drafted.rule,
        severity=drafted.severity,
        message=drafted.message,
        remedy=drafted.remedy.replace(NODE, shell_names([name])),
        evidence=dict(drafted.evidence),
    )


def judge_operands(verdict: Verdict, scene: Scene) -> List[Draft]:
    """Return what is to say about a node, without its name."""
    case = verdict.case
    drafts: List[Draft] = []
    if case.is_dra():
        every = judge_operator(verdict.node.facts, scene.cluster, case.offered_by_dra)
        drafts = [one for one in every if one.rule in ("dra-node", "dra-and-plugin")]
    if case.is_left_to_dra():
        return drafts
    drafts += _whole_node(case) if case.off else _of_labels(verdict)
    drafts += _tainted(verdict, scene) + _not_running(verdict)
    return drafts + _out_of_order(verdict)


def _whole_node(case: Case) -> List[Draft]:
    told = [one for one in judge_workload_label(case) if one.rule == "operands-disabled"]
    if told:
        return told
    message = f"{OPERANDS_SWITCH}=false takes the node out as a whole"
    evidence = case.view.evidence(OPERANDS_SWITCH)
    return [draft("operands-disabled", "info", message, relabel(OPERANDS_SWITCH), evidence)]


def _of_labels(verdict: Verdict) -> List[Draft]:
    """Say in the words of the profile `operator` what keeps operands off by their deploy labels."""
    case = verdict.case
    lacking = [one for one in verdict.missing if one.cause in LABEL_CAUSES]
    held = [one.operand for one in lacking if one.cause != LABEL_ABSENT]
    drafts = judge_held(case, held)
    told = {key for one in drafts for key, _value in one.evidence}
    untold = [operand for operand in held if f"metadata.labels['{DEPLOY_PREFIX}{operand}']" not in told]
    if untold:
        keys = [DEPLOY_PREFIX + operand for operand in untold]
        message = f'not running, as the deploy label is empty and only "true" starts an operand: {", ".join(untold)}'
        remedy = f"kubectl label node {NODE} " + " ".join(key + "=true" for key in keys) + " --overwrite"
        drafts.append(draft("operand-label-invalid", "warning", message, remedy, case.view.evidence(*keys)))
    # What runs without an operand says better than this that the operand's label is gone.
    needed = {one.needs for one in verdict.out_of_order}
    absent = [one.operand for one in lacking if one.cause == LABEL_ABSENT and one.operand not in needed]
    behind = [one for one in judge_deploy_labels(case) if one.rule == "operator-behind"] if verdict.managed else []
    if absent and is_behind(case):
        # Were the labels of its workload set, what works there would stop. So it is said what it is by now.
        behind = behind or [_not_followed(case)]
    elif absent:
        is_partial = any(case.view.deploy(operand) is not None for operand in verdict.due)
        drafts.append(judge_absent(case, verdict.workload, absent, is_partial, verdict.managed))
    return drafts + behind


def _not_followed(case: Case) -> Draft:
    deployed = " and ".join(case.deployed_for())
    message = f"the operator has not followed: the node is for {case.workload}, and it carries deploy labels of {deployed} and offers such GPUs"
    remedy = f"See what holds the operator up, or keep it as it is: {relabel(WORKLOAD_LABEL, case.deployed_workload() or '')}"
    if not case.deployed_workload():
        remedy = "See what holds the operator up: kubectl get clusterpolicies.nvidia.com -o yaml"
    return draft("operator-behind", "warning", message, remedy, case.view.evidence(WORKLOAD_LABEL))


def _tainted(verdict: Verdict, scene: Scene) -> List[Draft]:
    out = [one for one in verdict.missing if one.cause == TAINTED]
    if not out:
        return []
    sets = [one.at for one in out if one.at is not None]
    words = sorted({taint for one in sets for taint in one.untolerated(verdict.node)})
    message = (
        f"the taint {', '.join(words)} keeps operands away: {', '.join(one.operand for one in out)}; their DaemonSets do not"
        " tolerate it, and do not count the node in desiredNumberScheduled"
    )
    taints = [taint for taint in verdict.node.taints if _words(taint) in words]
    remedy = (
        "If nothing else needs the taint: "
        + f"kubectl taint node {NODE} "
        + " ".join(shell_word(f"{key}:{effect}") + "-" for key, _value, effect in taints)
    )
    policy = scene.cluster.policy
    if any(key.startswith(_OF_HEALTH) for key, _value, _effect in taints):
        remedy = f"See why the node is not healthy: kubectl describe node {NODE}"
    elif verdict.managed and policy and all(is_tolerated(taint, policy.tolerations) for taint in taints):
        remedy = "The ClusterPolicy tolerates it, and the DaemonSets do not yet: see what holds the operator up: kubectl get clusterpolicies.nvidia.com -o yaml"
    elif verdict.managed:
        remedy = tolerate(policy, taints)
    evidence = {"spec.taints": words, "DaemonSets": sorted(one.title for one in sets)}
    return [_plain(draft("operand-tainted-out", "warning", message, remedy, {}), evidence)]


def _plain(drafted: Draft, evidence: Dict[str, Any]) -> Draft:
    return drafted._replace(evidence=tuple(evidence.items()))


def _words(taint: Tuple[str, str, str]) -> str:
    key, value, effect = taint
    return f"{key}{'=' + value if value else ''}:{effect}"


def _not_running(verdict: Verdict) -> List[Draft]:
    """Say in one finding which Pods do not run; those that only wait for another operand weigh least."""
    idle = [one for one in verdict.missing if one.cause == NOT_RUNNING]
    if not idle:
        return []
    severity = "info" if all(one.waits_for for one in idle) else "warning"
    if any(not one.waits for one in idle):
        severity = "error"
    message = "operands do not run: " + "; ".join(f"{one.operand} ({one.detail})" for one in idle)
    if verdict.node.unready:
        # One cause for all of them.
        names = ", ".join(one.operand for one in idle)
        message = f"the node's condition Ready is {verdict.node.unready}, and operands do not run: {names}"
        remedy = f"See why the node is not Ready: kubectl describe node {NODE}"
        state: Dict[str, Any] = {"status.conditions[Ready]": verdict.node.unready}
        return [_plain(draft("operand-not-running", severity, message, remedy, {}), state)]
    first = min(idle, key=lambda one: (bool(one.waits_for), one.waits))
    evidence: Dict[str, Any] = {f"Pod of {one.operand}": one.detail for one in idle}
    return [draft("operand-not-running", severity, message, _look(first), evidence)]


def _look(one: Missing) -> str:
    if one.at is None:
        return "See what the DaemonSets say: kubectl get daemonsets -A"
    what = f"pod {shell_word(one.pod.name)}" if one.pod else f"daemonset {shell_word(one.at.name)}"
    return f"See what holds it up: kubectl describe -n {shell_word(one.at.namespace)} {what}"


def _out_of_order(verdict: Verdict) -> List[Draft]:
    """Say what runs without what it needs; a device plugin without the toolkit is a rule of its own."""
    # A pause is told by its own rule, and holds off what needs the paused operand as well.
    on_node = [one for one in verdict.out_of_order if one.needs == TOOLKIT or not _is_paused(verdict, one.needs)]
    without_toolkit = [one for one in on_node if one.needs == TOOLKIT]
    drafts = []
    if any(one.operand == PLUGIN for one in without_toolkit):
        drafts.append(_toolkit_missing(verdict, without_toolkit))
        on_node = [one for one in on_node if one.needs != TOOLKIT]
    if on_node:
        severity = "info" if all(one.on_purpose for one in on_node) else "warning"
        message = "operands run before what they need: " + "; ".join(one.detail for one in on_node)
        remedy = _bring({one.needs for one in on_node}, verdict)
        drafts.append(draft("operand-out-of-order", severity, message, remedy, _evidence(verdict, on_node)))
    return drafts


def _is_paused(verdict: Verdict, operand: str) -> bool:
    return "paused-for-" in str(verdict.node.labels.get(DEPLOY_PREFIX + operand))


def _toolkit_missing(verdict: Verdict, cases: List[Disorder]) -> Draft:
    on_purpose = cases[0].on_purpose
    message = (
        f"{', '.join(one.operand for one in cases)} without {TOOLKIT}: the node offers GPUs, and Pods that are placed here get no"
        f" device, which nothing reports ({cases[0].detail})"
    )
    remedy = _bring({TOOLKIT}, verdict)
    if on_purpose:
        remedy = "Nothing if the host has a toolkit of its own; else: " + remedy
    severity = "warning" if on_purpose else "error"
    return draft("toolkit-missing", severity, message, remedy, _evidence(verdict, cases))


def _evidence(verdict: Verdict, cases: Iterable[Disorder]) -> Dict[str, Any]:
    keys = {DEPLOY_PREFIX + operand for one in cases for operand in (one.needs, one.operand)}
    return {f"metadata.labels['{key}']": verdict.node.labels.get(key) for key in sorted(keys)}


def _bring(needed: Iterable[str], verdict: Verdict) -> str:
    """Return how needed operands come to run: by their labels, or else as the finding about each of them says."""
    keys = [DEPLOY_PREFIX + one for one in sorted(needed) if verdict.node.labels.get(DEPLOY_PREFIX + one) != "true"]
    if any(_is_paused(verdict, one) for one in needed):
        return "Nothing while the change is under way that the pause is for; if that is over, end the pause as the finding about it says"
    if keys:
        return f"kubectl label node {NODE} " + " ".join(key + "=true" for key in keys) + " --overwrite"
    words = f"See to {', '.join(sorted(needed))} first, as the finding about it says"
    plugin = verdict.case.plugin()
    if plugin in needed or plugin not in verdict.running:
        return words
    return f"{words}; until then no Pod is placed here after: {relabel(DEPLOY_PREFIX + plugin, 'false')}"


def _of_daemonsets(verdicts: List[Verdict], scene: Scene) -> List[Dict[str, Any]]:
    """Say which DaemonSets are not there, or take other nodes than they should: one finding however many nodes it hits."""
    nodes: Dict[Tuple[str, str], List[str]] = {}
    sets: Dict[Tuple[str, str], SeenSet] = {}
    details: Dict[Tuple[str, str], str] = {}
    for verdict in verdicts:
        for one in verdict.missing:
            if one.cause == NO_DAEMONSET:
                key = (one.operand, one.at.title if one.at else "")
                nodes.setdefault(key, []).append(verdict.node.name)
                details.setdefault(key, one.detail)
                if one.at:
                    sets[key] = one.at
    found = []
    for key, names in sorted(nodes.items()):
        if key in sets:
            found.append(_edited(key[0], sets[key], names, details[key], scene))
        else:
            found.append(_no_daemonset(key[0], names, details[key], scene))
    return found


def _no_daemonset(operand: str, names: List[str], detail: str, scene: Scene) -> Dict[str, Any]:
    expected = next((one.daemonset for one in OPERANDS if one.operand == operand), operand)
    count = f"{len(names)} node{'s' if len(names) > 1 else ''}"
    message = f"no DaemonSet brings {operand} to {count} ({ranges(names)}): {detail}"
    remedy = f"Create a DaemonSet whose nodeSelector is {DEPLOY_PREFIX}{operand}=true, or say that it is not wanted: "
    remedy += f"kubectl label node {shell_names(names)} {DEPLOY_PREFIX}{operand}=false --overwrite"
    if scene.cluster.policy:
        remedy = "The operator makes it at once where it runs; see whether it does: kubectl get pods -A -o wide -l app=gpu-operator"
        if scene.cluster.policy.driver_objects and operand in ("driver", "vgpu-manager"):
            remedy = (
                "driver.useNvidiaDriverCRD is true, so this comes by NVIDIADriver objects: create one for these nodes, or set"
                " that to false in the ClusterPolicy"
            )
    evidence = {"operand": operand, "nodes": names}
    return _finding(_plain(draft("daemonset-missing", "error", message, remedy, {}), evidence), "DaemonSet", expected)


def _edited(operand: str, one: SeenSet, names: List[str], detail: str, scene: Scene) -> Dict[str, Any]:
    count = f"{len(names)} node{'s' if len(names) > 1 else ''}"
    message = f"DaemonSet {one.title} ({operand}) passes by {count} where it is due ({ranges(names)}): {detail}"
    message += "; the operator leaves a selector that was edited as it is" if one.owner else ""
    place = f"-n {shell_word(one.namespace)} {shell_word(one.name)}"
    if one.owner:
        # It is made anew at once.
        remedy = f"kubectl delete daemonset {place}"
    else:
        patch = '[{"op":"replace","path":"/spec/template/spec/nodeSelector","value":{"%s":"true"}}]' % (
            DEPLOY_PREFIX + operand
        )
        remedy = f"kubectl patch daemonset {place} --type json -p '{patch}'"
    evidence = {"operand": operand, "nodes": names, "spec.template.spec": one.spec}
    drafted = _plain(draft("daemonset-selector-edited", "error", message, remedy, {}), evidence)
    return _finding(drafted, "DaemonSet", one.name, one.namespace)
