# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One playbook made of the examples of every module and filter, run once in a HOME of its own, and what came of it.

The examples stand in it as they are documented. Each task that uses the module stands there twice, so that the second one
shows whether it is idempotent. The cluster is the one that the first example of kwok_cluster starts; its other
examples, which remove it, come last.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BIN = Path(sys.executable).parent
FAKES = HERE.parent / "control_plane" / "fake_programs.py"
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py"))
FILTERS = sorted(path.stem for path in (ROOT / "plugins" / "filter").glob("*.yml"))
# They take nodes, Pods and the cluster away from the examples of others.
LAST = ("lab_pods", "kwok_nodes")
SETTING, GROUP, FAILURES, AGAIN = "before", "group", "failures", " (again)"
NOWHERE = "/nowhere/said-by-the-group"
# The path of the one file that the mirror of the examples has.
RELEASED = "v1.37.2/bin/linux/amd64/kubectl.sha256"


def documented(kind: str, name: str) -> dict:
    """DOCUMENTATION, EXAMPLES and RETURN of a module or filter as they stand in its file, EXAMPLES as a list of tasks."""
    if kind == "filter":
        found = yaml.safe_load((ROOT / "plugins" / "filter" / f"{name}.yml").read_text("utf-8"))
    else:
        text = (ROOT / "plugins" / "modules" / f"{name}.py").read_text("utf-8")
        found = {
            key: yaml.safe_load(value)
            for key, value in re.findall(r'^([A-Z]+) = r"""\n(.*?)"""', text, re.MULTILINE | re.DOTALL)
        }
    examples = found.get("EXAMPLES") or []
    return {**found, "EXAMPLES": yaml.safe_load(examples) if isinstance(examples, str) else examples}


def group_members() -> list[str]:
    return yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["action_groups"]["gpuwl"]


def twice(name: str, tasks: list[dict]) -> list[dict]:
    """The tasks, each that uses the module of the play followed by itself."""
    module = name.removesuffix(" module")
    return [
        copy
        for task in tasks
        for copy in ([task, {**task, "name": task["name"] + AGAIN}] if module in task else [task])
    ]


def play(name: str, tasks: list[dict], **keywords) -> dict:
    # An example that fails is told by its own test, and the others go on.
    return {
        "name": name,
        "hosts": "localhost",
        "gather_facts": False,
        "ignore_errors": True,
        "tasks": tasks,
        **keywords,
    }


def plays() -> list[dict]:
    examples = {
        f"gpuwl.sandbox.{name} {kind}": documented(kind, name)["EXAMPLES"]
        for kind, names in (("filter", FILTERS), ("module", MODULES))
        for name in names
    }
    whole = "gpuwl.sandbox.kwok_cluster module"
    cluster = examples.pop(whole)
    last = {name: examples.pop(name) for name in [f"gpuwl.sandbox.{name} module" for name in LAST]}
    begin, end = (play(whole, twice(whole, part)) for part in (cluster[:1], cluster[1:]))
    setting = play(SETTING, yaml.safe_load((HERE / "before.yml").read_text()), ignore_errors=False)
    first, final = ([play(name, twice(name, tasks)) for name, tasks in some.items()] for some in (examples, last))
    extra = [play(FAILURES, failures()), play(GROUP, group_tasks(), module_defaults=group_defaults())]
    return [begin, setting, *first, *extra, *final, end]


def failures() -> list[dict]:
    """Tasks that fail as the documentation says of some returned values: the API gives up between two nodes' writes."""
    node = {"name": "lab-node-0", "labels": {"example.com/rack": "r8"}, "resources": {"example.com/nic": 2}}
    kept = {"gpuwl.sandbox.node_originals": {"nodes": [node]}}
    wanted = {
        name: [{"name": f"lab-node-{number}", name: node[name]} for number in (0, 1)]
        for name in ("labels", "resources")
    }
    return [
        {"name": "keep one of two", **kept},
        {"name": "node_labels", "gpuwl.sandbox.node_labels": {"nodes": wanted["labels"], "require_originals": True}},
        {"name": "node_status", "gpuwl.sandbox.node_status": {"nodes": wanted["resources"], "require_originals": True}},
        {"name": "put back", "gpuwl.sandbox.node_originals": {"nodes": []}},
    ]


def group_defaults() -> dict:
    return {"group/gpuwl.sandbox.gpuwl": {"kubeconfig": NOWHERE}}


def group_tasks() -> list[dict]:
    """The first example of each module that is told how to connect, without what it says about that."""
    tasks = []
    for name in group_members():
        action = f"gpuwl.sandbox.{name}"
        task = next(task for task in documented("module", name)["EXAMPLES"] if action in task)
        options = {key: value for key, value in task[action].items() if key != "kubeconfig"}
        tasks.append({"name": name, action: options, "vars": task.get("vars", {})})
    return tasks


@dataclass
class Examples:
    """What came of the run: its exit code, what it printed, and an entry per task and per call of a filter."""

    rc: int
    output: str
    entries: list[dict]

    def results(self, play: str) -> list[dict]:
        """The tasks of a play: {task, action, failed, result}."""
        return [entry for entry in self.entries if entry.get("play") == play]

    def returned(self, module: str) -> list[dict]:
        """All that a module returned, wherever it was used."""
        return [entry for entry in self.entries if entry.get("action") == f"gpuwl.sandbox.{module}"]

    def values(self, name: str) -> list:
        """All that a filter gave, wherever it was used."""
        return [entry["value"] for entry in self.entries if entry.get("filter") == f"gpuwl.sandbox.{name}"]


class Mirror(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        """Nothing."""


def lay_out(folder: Path, programs: Path) -> Path:
    """The HOME that the examples find; returns the folder to put first in PATH."""
    home, fakes, path = folder / "home", folder / "fakes", folder / "bin"
    for made in (home / ".cache" / "gpuwl", home / "gpuwl", fakes, path, folder / "mirror" / Path(RELEASED).parent):
        made.mkdir(parents=True)
    (home / ".cache" / "gpuwl" / "programs").symlink_to(programs)
    (folder / "mirror" / RELEASED).touch()
    # No docker is needed: this kind's clusters are KWOK's.
    for name in ("docker", "kind"):
        command = shlex.join([sys.executable, str(FAKES), str(fakes), str(programs), name])
        (path / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (path / name).chmod(0o755)
    return path


def run(folder: Path, programs: Path, mirror: str) -> Examples:
    path, home, results = lay_out(folder, programs), folder / "home", folder / "results"
    playbook = folder / "examples.yml"
    playbook.write_text(json.dumps(plays(), default=str))
    foreign = ("ANSIBLE_", "KUBE", "KWOK_", "XDG_", "K8S_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    environment |= {
        "HOME": str(home),
        "PATH": f"{path}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callbacks"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "GPUWL_RESULTS": str(results),
        "no_proxy": "127.0.0.1",
    }
    done = subprocess.run(
        [str(BIN / "ansible-playbook"), str(playbook), "-e", json.dumps({"mirror": mirror})],
        cwd=home / "gpuwl",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    # As a reader of the documentation might have it.
    text = results.read_text().replace(str(home), "/home/me") if results.exists() else ""
    text = re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:6443", text)
    return Examples(done.returncode, done.stdout, [json.loads(line) for line in text.splitlines()])


def end_processes(folder: Path) -> None:
    """End what was started below the folder, whose random name makes it ours beyond doubt."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                ours = f"{folder}/".encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if ours and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
