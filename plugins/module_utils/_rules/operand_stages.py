# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From declared stages of the operand lab to the nodes of each, and from what was seen in each to a table.

Private to the collection gpuwl.sandbox. Source of the form: the variables operands_daemonsets, operands_nodes and
operands_stages of the playbook operands.yml. Declarations are what people wrote in YAML, so any value may be of any type.
"""

import re
import textwrap
from typing import Any, Dict, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.daemonset_pods import (
    OPERATOR_TOLERATIONS,
    daemonset_is_due,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.declared import (
    DeclarationError,
    label_errors,
    repeated,
    shown,
    wrong_type,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_dns_label,
    invalid_qualified_name,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.pools import OWN_LABELS, POOL_LABEL, pool_nodes
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import DEPLOY_PREFIX

STAGE_KEYS = ("name", "nodes", "labels", "labels_to_remove", "taints")
STAGE_NODE_KEYS = ("name", "labels", "taints", "capacity")
OPERAND_KEYS = ("name", "selector", "tolerations")
NOTHING = "none"
_WIDTH = 100
_STAGE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?\Z")

Node = Dict[str, Any]


def operand_stages(stages: Any, nodes: Any, daemonsets: Any) -> List[Dict[str, Any]]:
    """Return what each stage changes and the nodes as they are then.

    stages: list of {name, nodes: [more nodes], labels: {node: {key: value}}, labels_to_remove: {node: [keys]},
    taints: {node: [all its taints]}}; nodes: list of {name, labels, taints, capacity}, there from the first stage on;
    daemonsets: list of {name, selector: {key: value}, tolerations}.
    Returns a list of {name, record, changes: [texts], nodes: [{name, labels, taints, capacity}], labels: [{name,
    labels, labels_to_remove}], runs: [{node, daemonsets}] as labels and taints ask for}. Raises DeclarationError, a
    ValueError, that lists all that is wrong.
    """
    errors = _daemonset_errors(daemonsets) + _names_errors("operands_stages", stages)
    present: Dict[str, Node] = {}
    errors += _join("operands_nodes", nodes, present)
    if not errors:
        errors += repeated((stage["name"] for stage in stages), "stage name")
    found: List[Dict[str, Any]] = []
    running: Dict[str, List[str]] = {}
    for number, stage in enumerate(stages if not errors else []):
        joining = list(nodes) if number == 0 else []
        wrong, changes = _apply(stage, present, joining)
        errors += ["stage {}: {}".format(stage["name"], error) for error in wrong]
        if errors:
            continue
        running = {name: _running(node, daemonsets, running.get(name, [])) for name, node in present.items()}
        found.append(
            {
                "name": stage["name"],
                "record": "%02d-%s" % (number + 1, stage["name"]),
                "changes": changes,
                "nodes": [{**node, "labels": dict(node["labels"])} for node in present.values()],
                "labels": [_wanted_labels(node, stage) for node in present.values()],
                "runs": [{"node": name, "daemonsets": running[name]} for name in sorted(running)],
            }
        )
    if errors:
        raise DeclarationError(errors)
    return found


def operand_lines(nodes: List[Dict[str, Any]]) -> List[str]:
    """Return `<node> <operand>,<operand>...` per node, ascending, and `<node> none` where nothing runs.

    nodes: list of {node, daemonsets: [names]}, as the module lab_daemonsets gives it.
    """
    return [
        "{} {}".format(entry["node"], ",".join(sorted(entry["daemonsets"])) or NOTHING)
        for entry in sorted(nodes, key=lambda entry: str(entry["node"]))
    ]


def operand_stage_table(stages: List[Dict[str, Any]]) -> List[str]:
    """Return lines for people: each stage with what it changed, who runs what then, and the verdict on each node.

    stages: list of {name, changes: [texts], runs: [{node, daemonsets}], audit: {nodes: ...} as operand_audit gives it, or
    left out}.
    """
    lines: List[str] = []
    for stage in stages:
        audited = (stage.get("audit") or {}).get("nodes") or []
        verdicts = {node["node"]: operand_verdict(node) for node in audited}
        rows = [line.split(" ", 1) for line in operand_lines(stage["runs"])]
        width = max([len(name) for name, _runs in rows] or [0])
        lines += [""] if lines else []
        lines += _folded("{}: ".format(stage["name"]), "; ".join(stage["changes"]) or "nothing changes", 4)
        for name, runs in rows:
            lines.append(f"  {name:<{width}}  {runs}")
            lines += _folded(" " * width + "    -> ", verdicts[name], width + 7) if name in verdicts else []
    return lines


def operand_verdict(node: Dict[str, Any]) -> str:
    """Return the audit's verdict on one node in a few words."""
    parts = [
        "OUT OF ORDER: {} runs without {}".format(one["operand"], _listed(one["needs"])) for one in node["out_of_order"]
    ]
    causes: Dict[str, List[str]] = {}
    for one in node["missing"]:
        causes.setdefault(one["cause"], []).append(one["operand"])
    parts += ["missing ({}): {}".format(cause, ", ".join(names)) for cause, names in causes.items()]
    return "; ".join(parts) or "complete"


def _folded(begin: str, text: str, indent: int) -> List[str]:
    return textwrap.wrap(
        begin + text, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _wanted_labels(node: Node, stage: Dict[str, Any]) -> Dict[str, Any]:
    gone = (stage.get("labels_to_remove") or {}).get(node["name"]) or []
    return {"name": node["name"], "labels": dict(node["labels"]), "labels_to_remove": list(gone)}


def _running(node: Node, daemonsets: List[Dict[str, Any]], before: List[str]) -> List[str]:
    """The DaemonSets whose Pods labels and taints ask for; one that a NoSchedule taint would keep away stays if it was there."""
    made = {"metadata": {"name": node["name"], "labels": node["labels"]}, "spec": {"taints": node["taints"]}}
    names = []
    for one in daemonsets:
        tolerations = one["tolerations"] if one.get("tolerations") is not None else OPERATOR_TOLERATIONS
        spec = {"nodeSelector": one["selector"], "tolerations": tolerations}
        due = daemonset_is_due({"spec": {"template": {"spec": spec}}}, made)
        if due or (due is None and one["name"] in before):
            names.append(one["name"])
    return sorted(names)


def _names_errors(variable: str, entries: Any) -> List[str]:
    """Errors for a list whose entries are no mappings with a name that a file can have."""
    if not isinstance(entries, list) or not entries:
        return [f"{variable} must be a list of at least one entry, each with a name; found: {shown(entries)}"]
    errors = []
    for number, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _STAGE_NAME.match(name):
            errors.append(
                "%s[%d]: name must be small letters, digits and inner dashes, at most 60; found: %s"
                % (variable, number, shown(name if isinstance(entry, dict) else entry))
            )
    return errors


def _daemonset_errors(daemonsets: Any) -> List[str]:
    errors = _names_errors("operands_daemonsets", daemonsets)
    for one in daemonsets if not errors else []:
        where = "DaemonSet {}".format(one["name"])
        errors += [f"{where}: {error}" for error in _unknown(one, OPERAND_KEYS)]
        wrong = label_errors("selector", one.get("selector"))
        if not wrong and not one.get("selector"):
            wrong = ["selector must name a label, such as {nvidia.com/gpu.deploy.%s: 'true'}" % one["name"]]
        tolerations = one.get("tolerations")
        wrong += wrong_type("tolerations", tolerations, list) or [
            f"tolerations: {shown(entry)} must be a mapping"
            for entry in tolerations or []
            if not isinstance(entry, dict)
        ]
        errors += [f"{where}: {error}" for error in wrong]
    return errors or repeated((one["name"] for one in daemonsets), "DaemonSet name")


def _unknown(entry: Dict[str, Any], known: Any) -> List[str]:
    return [f"unknown key {shown(key)}; known are {', '.join(known)}" for key in entry if key not in known]


def _join(where: str, nodes: Any, present: Dict[str, Node]) -> List[str]:
    """Take nodes in; returns the errors of those that can't be."""
    errors = wrong_type(where, nodes, list)
    for node in (nodes or []) if not errors else []:
        if not isinstance(node, dict) or invalid_dns_label(node.get("name")):
            errors.append(f"{where}: {shown(node)} must be a mapping with a name of small letters, digits and dashes")
            continue
        name = node["name"]
        wrong = _unknown(node, STAGE_NODE_KEYS)
        wrong += [f"{name} is there already"] if name in present else []
        try:
            # Labels, taints and capacity have the form of those in pools.
            (made,) = pool_nodes([{**node, "nodes": [name]}], _as_it_is) if not wrong else ({},)
        except DeclarationError as error:
            wrong += [text.replace(f"pool {name}: ", "", 1) for text in error.errors]
        errors += [f"{where}: node {name}: {text}" for text in wrong]
        if not wrong:
            labels = {key: value for key, value in made["labels"].items() if key != POOL_LABEL}
            present[name] = {
                "name": name,
                "labels": labels,
                "taints": [dict(taint) for taint in made["taints"]],
                "capacity": dict(made["capacity"]),
            }
    return errors


def _as_it_is(name: str) -> List[str]:
    return [name]


def _apply(stage: Dict[str, Any], present: Dict[str, Node], joining: List[Node]) -> Any:
    """Bring the nodes to where a stage has them; returns (errors, what changes in words)."""
    errors = _unknown(stage, STAGE_KEYS)
    for key in STAGE_KEYS[2:]:
        errors += wrong_type(key, stage.get(key), dict)
    if errors:
        return errors, []
    errors += _join("nodes", stage.get("nodes"), present)
    changes = [_joined(node) for node in joining + list(stage.get("nodes") or [])] if not errors else []
    for name, labels in (stage.get("labels") or {}).items():
        wrong = _of_known("labels", name, present) or label_errors(f"labels of {name}", labels)
        errors += wrong or [
            f"labels of {name}: {key} is set by the lab itself" for key in OWN_LABELS if key in (labels or {})
        ]
        if not errors:
            present[name]["labels"].update(labels or {})
            changes += [f"{name} gets {_labels(labels)}"] if labels else []
    for name, keys in (stage.get("labels_to_remove") or {}).items():
        errors += _of_known("labels_to_remove", name, present) or wrong_type(f"labels_to_remove of {name}", keys, list)
        for key in (keys or []) if not errors else []:
            if invalid_qualified_name(key) or present[name]["labels"].pop(key, None) is None:
                errors.append(f"labels_to_remove: {name} has no label {shown(key)} by then")
        changes += [f"{name} loses {_labels(dict.fromkeys(keys, ''))}"] if keys and not errors else []
    for name, taints in (stage.get("taints") or {}).items():
        errors += _of_known("taints", name, present) or _join("taints", [{"name": name, "taints": taints}], {})
        if not errors:
            present[name]["taints"] = [dict(taint) for taint in taints or []]
            changes.append(f"{name} is tainted {_taints(taints)}" if taints else f"{name} loses its taints")
    return errors, changes


def _of_known(key: str, name: Any, present: Dict[str, Node]) -> List[str]:
    if name in present:
        return []
    return [f"{key}: there is no node {shown(name)} by then; there are {', '.join(present) or NOTHING}"]


def _joined(node: Node) -> str:
    labels = node.get("labels") or {}
    words = [
        f" with {_labels(labels)}" if labels else "",
        f", tainted {_taints(node['taints'])}" if node.get("taints") else "",
    ]
    return "{} joins{}".format(node["name"], "".join(words))


def _labels(labels: Dict[str, str]) -> str:
    """Labels in short, as a shell would expand them: a/b.{c,d}=true."""
    groups: Dict[Any, List[str]] = {}
    for key, value in labels.items():
        deploys = key.startswith(DEPLOY_PREFIX)
        group = (DEPLOY_PREFIX if deploys else key, value)
        groups.setdefault(group, []).append(key[len(DEPLOY_PREFIX) :] if deploys else "")
    texts = []
    for (begin, value), ends in groups.items():
        end = "{%s}" % ",".join(ends) if len(ends) > 1 else ends[0]
        texts.append(begin + end + (f"={value}" if value else ""))
    return ", ".join(texts)


def _taints(taints: List[Dict[str, Any]]) -> str:
    return ", ".join(
        "{}{}:{}".format(one["key"], "={}".format(one["value"]) if one.get("value") else "", one["effect"])
        for one in taints
    )
