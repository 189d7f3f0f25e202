# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a Pod run, and if not, why?

Private to the collection gpuwl.sandbox. Source: Kubernetes documentation, "Pod Lifecycle", "Init Containers" and
"Sidecar Containers"; what kubectl prints in the column STATUS (kubernetes pkg/printers/internalversion/printers.go).
"""

from typing import Any, Dict, List, Optional, Tuple

# What a container waits for that is being started; any other reason is a failure.
_STARTING = ("", "ContainerCreating", "PodInitializing")
_MOST_WORDS = 300


def not_running(pod: Dict[str, Any]) -> Tuple[str, bool]:
    """Return (why a Pod is not Running with every container ready, whether it is being started or waits as it should).

    ("", False) for one that runs. Sidecars do not count. Objects of any shape are taken.
    """
    status = pod.get("status")
    status = status if isinstance(status, dict) else {}
    metadata = pod.get("metadata")
    phase = status.get("phase")
    if isinstance(metadata, dict) and metadata.get("deletionTimestamp"):
        return "it is being deleted", True
    if phase == "Running":
        return _unready(pod, status)
    if phase == "Pending":
        return _pending(pod, status)
    if phase == "Succeeded":
        return "it has ended, which no operand should", False
    words = "it has failed" if phase == "Failed" else f"its phase is {phase or 'not told'}"
    return _with_message(words, status), False


def _unready(pod: Dict[str, Any], status: Dict[str, Any]) -> Tuple[str, bool]:
    """Return what keeps a Running Pod from being ready."""
    containers = _list_of(status.get("containerStatuses"))
    for one in containers:
        if one.get("ready") is not True:
            return _container_words("", one) or (f"container {one.get('name')} runs and is not ready", True)
    ready = next((one for one in _list_of(status.get("conditions")) if one.get("type") == "Ready"), None)
    if ready is None or ready.get("status") == "True":
        return "", False
    sidecars = _sidecars(pod)
    if any(one.get("name") in sidecars and one.get("ready") is not True for one in _inits(status)):
        return "", False
    # When a kubelet is lost, the node's controller writes this into its Pods, and their containers stay as they were.
    return _with_message("it is not ready", ready), not containers


def _pending(pod: Dict[str, Any], status: Dict[str, Any]) -> Tuple[str, bool]:
    scheduled = next((one for one in _list_of(status.get("conditions")) if one.get("type") == "PodScheduled"), {})
    if scheduled.get("status") == "False":
        return _with_message("it is not scheduled", scheduled), False
    sidecars = _sidecars(pod)
    inits = [one for one in _inits(status) if one.get("name") not in sidecars]
    done = [one for one in inits if _exit_code(one) == 0]
    for one in inits:
        if _exit_code(one) != 0:
            told = _container_words(f"Init:{len(done)}/{len(inits)}, ", one)
            return told or (f"Init:{len(done)}/{len(inits)}, init container {one.get('name')} has not finished", True)
    for one in _list_of(status.get("containerStatuses")):
        told = _container_words("", one)
        if told:
            return told
    return _with_message("it is being started", status), True


def _sidecars(pod: Dict[str, Any]) -> List[Any]:
    """Return the names of init containers that run on."""
    spec = pod.get("spec")
    started = _list_of(spec.get("initContainers")) if isinstance(spec, dict) else []
    return [one.get("name") for one in started if one.get("restartPolicy") == "Always"]


def _inits(status: Dict[str, Any]) -> List[Dict[str, Any]]:
    return _list_of(status.get("initContainerStatuses"))


def _exit_code(container: Dict[str, Any]) -> Optional[int]:
    terminated = _state(container, "terminated")
    code = terminated.get("exitCode") if terminated is not None else None
    return code if isinstance(code, int) else None


def _container_words(head: str, container: Dict[str, Any]) -> Optional[Tuple[str, bool]]:
    """Return why a container waits or has ended, None if it runs or nothing is told."""
    name = container.get("name")
    waiting, terminated = _state(container, "waiting"), _state(container, "terminated")
    if waiting is not None:
        reason = str(waiting.get("reason") or "")
        if reason in _STARTING:
            return f"{head}container {name} is being started", True
        return _with_message(f"{head}container {name} waits: {reason}", {"message": waiting.get("message")}), False
    if terminated is not None:
        code = terminated.get("exitCode")
        # Its message may be the end of a log, in which secrets may stand.
        told = {"reason": terminated.get("reason")}
        return _with_message(f"{head}container {name} has ended with exit code {code}", told), False
    return None


def _state(container: Dict[str, Any], name: str) -> Optional[Dict[str, Any]]:
    state = container.get("state")
    found = state.get(name) if isinstance(state, dict) else None
    return found if isinstance(found, dict) else None


def _with_message(words: str, told: Dict[str, Any]) -> str:
    """Add the reason and message that an object gives, on one line and not longer than anybody reads."""
    for field in ("reason", "message"):
        if isinstance(told.get(field), str) and told[field]:
            words += ": " + " ".join(told[field].split())
    return words if len(words) <= _MOST_WORDS else words[: _MOST_WORDS - 3] + "..."


def _list_of(value: Any) -> List[Dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
