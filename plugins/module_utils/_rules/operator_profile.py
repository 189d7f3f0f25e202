# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule profile `operator`: is a node what the real GPU Operator would make of its label?

Private to the collection gpuwl.sandbox. Source: the operator's own decisions, as they were read and seen running;
each rule names its own in rule_pages.py.
"""

from typing import Any, Callable, Dict, List, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import Cluster
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_facts import IGNORE_PREFIX, NodeFacts
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import shell_word
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_case import Case, draft, relabel
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_devices import judge_mig, judge_vgpu
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_labels import (
    judge_deploy_labels,
    judge_mig_manager,
    judge_workload_label,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.operator_resources import (
    clear_resources,
    judge_counts,
    judge_names,
    judge_quantities,
    judge_uses,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.rule_pages import RULE_PAGES
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX

_JUDGES: Tuple[Callable[[Case], List[Draft]], ...] = (
    judge_workload_label,
    judge_quantities,
    judge_uses,
    judge_vgpu,
    judge_mig,
    judge_mig_manager,
    judge_counts,
    judge_deploy_labels,
    judge_names,
)


def judge_operator(facts: NodeFacts, cluster: Cluster, offered_by_dra: bool) -> List[Draft]:
    """Judge the nodes that have these facts.

    cluster: what is known about their cluster; offered_by_dra: whether ResourceSlices offer their GPUs.
    Returns the findings without the nodes' names, in the order of the rules; none if all is well.
    """
    case = Case(facts, cluster, offered_by_dra)
    found = _reasonless(case)
    if case.is_dra():
        return [*found, _dra_and_plugin(case) if case.uses else _dra(case)]
    for judge in _JUDGES:
        found += judge(case)
    return found


def is_judged(facts: NodeFacts, cluster: Cluster, offered_by_dra: bool) -> bool:
    """Say whether the profile has anything to judge on such a node: it has to do with GPUs, and not by way of DRA."""
    case = Case(facts, cluster, offered_by_dra)
    return case.view.is_gpu_node() and not case.is_dra()


def _dra(case: Case) -> Draft:
    message = "DRA gives out this node's GPUs, so it rightly advertises no nvidia.com/gpu: not judged"
    return draft("dra-node", "info", message, "Nothing.", _dra_evidence(case))


def _dra_and_plugin(case: Case) -> Draft:
    names = [name for use in sorted(case.uses) for name in case.uses[use]]
    message = (
        f"DRA gives out this node's GPUs, and a device plugin offers {', '.join(names)}: one GPU can be given out twice"
    )
    evidence = {**_dra_evidence(case), **case.view.evidence(DEPLOY_PREFIX + "device-plugin", *names)}
    remedy = f"{relabel(DEPLOY_PREFIX + 'device-plugin', 'false')} && {clear_resources(names)}"
    return draft("dra-and-plugin", "warning", message, remedy, evidence)


def _dra_evidence(case: Case) -> Dict[str, Any]:
    evidence: Dict[str, Any] = {
        f"metadata.labels['{key}']": value for key, value in sorted(case.view.labels.items()) if "dra" in key
    }
    if case.offered_by_dra:
        evidence["ResourceSlice spec.driver"] = "gpu.nvidia.com"
    if case.cluster.gpu_clusters:
        evidence["GPUCluster"] = ", ".join(case.cluster.gpu_clusters)
    return evidence


def _reasonless(case: Case) -> List[Draft]:
    """Annotations that would silence a rule, but give no reason."""
    drafts = []
    for rule, reason in sorted(case.view.ignores.items()):
        if rule not in RULE_PAGES:
            key = f"{IGNORE_PREFIX}{rule}"
            message = f"the annotation {key} names no rule, so it silences nothing"
            remedy = f"kubectl annotate node {{node}} {shell_word(key)}-"
            evidence = {f"metadata.annotations['{key}']": reason}
            drafts.append(draft("ignore-unknown-rule", "warning", message, remedy, evidence))
            continue
        if not isinstance(reason, str) or not reason.strip():
            key = IGNORE_PREFIX + rule
            message = f"the annotation {key} gives no reason, so it silences nothing"
            remedy = f"kubectl annotate node {{node}} {key}='why this is right here' --overwrite"
            if rule not in RULE_PAGES:
                message = f"the annotation {key} names no rule and gives no reason, so it silences nothing"
                remedy = f"kubectl annotate node {{node}} {shell_word(key)}-"
            drafts.append(
                draft("ignore-without-reason", "warning", message, remedy, {f"metadata.annotations['{key}']": reason})
            )
    return drafts


def judge_cluster(cluster: Cluster) -> List[Draft]:
    """Judge what stands beside the nodes; these findings are about a ClusterPolicy or GPUCluster."""
    drafts = []
    if cluster.policy and cluster.gpu_clusters:
        names = ", ".join(cluster.gpu_clusters)
        message = f"ClusterPolicy {cluster.policy.name} and GPUCluster {names} exclude each other: since 26.7 the operator leaves every node as it is"
        remedy = "kubectl delete gpucluster " + " ".join(map(shell_word, cluster.gpu_clusters))
        drafts.append(draft("conflicting-gpu-cluster", "error", message, remedy, {"GPUCluster": names}))
    for name in cluster.other_policies:
        message = f"the operator ignores ClusterPolicy {name}: it follows one alone"
        remedy = f"kubectl delete clusterpolicy {shell_word(name)}"
        if not cluster.is_policy_sure and cluster.policy:
            message = (
                f"ClusterPolicy {name} is there beside {cluster.policy.name}, the operator follows one alone, and the dump"
                f" does not tell which: nodes are judged by {cluster.policy.name} ({cluster.policy_source})"
            )
            remedy = "See which one has a status, and delete the other: kubectl get clusterpolicies.nvidia.com -o yaml"
        drafts.append(draft("second-cluster-policy", "warning", message, remedy, {"ClusterPolicy metadata.name": name}))
    return drafts


def assumptions(cluster: Cluster) -> List[str]:
    """Put into words what was assumed because nothing in the dump tells it."""
    words = []
    if not cluster.policy:
        words.append(
            "sandboxWorkloads.enabled is true and defaultWorkload unknown (no ClusterPolicy): workload labels count,"
            " and a node without one is judged by its deploy labels"
        )
    if not cluster.version_text:
        words.append(
            "operator %d.%d, the newest known (no Deployment, DaemonSet or Pod tells its version)" % cluster.version
        )
    return words
