# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running the modules as Ansible does, against the cluster of the session."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
from operand_lab import Lab, have_policies

ROOT = Path(__file__).resolve().parents[3]
COLLECTIONS = ROOT / ".collections"
# Makes ansible_collections.gpuwl.sandbox this checkout, whatever its folder is called.
if not any(isinstance(finder, _AnsibleCollectionFinder) for finder in sys.meta_path):
    _AnsibleCollectionFinder(paths=[str(COLLECTIONS)])._install()

PACKAGE = "ansible_collections.gpuwl.sandbox.plugins.modules."


class Modules:
    """Runs modules; every method returns the module's result as a dict."""

    def __init__(self, cluster, folder):
        self.cluster = cluster
        self.folder = folder

    def _arguments(self, check, options):
        options = {"kubeconfig": str(self.cluster.kubeconfig), **options}
        return {key: value for key, value in options.items() if value is not None} | {
            "_ansible_check_mode": check,
            "_ansible_diff": True,
        }

    def run(self, module, check=False, **options):
        """Call main() in this process, which spares the third of a second that the imports take."""
        output = io.StringIO()
        with patch_module_args(self._arguments(check, options)), redirect_stdout(output), pytest.raises(SystemExit):
            importlib.import_module(PACKAGE + module).main()
        return _result(output.getvalue())

    def start(self, module, check=False, **options):
        """Begin a module in a process of its own; collect it with finish()."""
        arguments = self.folder / f"{module}-{len(list(self.folder.iterdir()))}.json"
        arguments.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": self._arguments(check, options)}))
        environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
        command = [sys.executable, "-m", PACKAGE + module, str(arguments)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def finish(process, timeout=90):
        output, errors = process.communicate(timeout=timeout)
        assert "Traceback" not in output + errors, errors
        return _result(output)

    def process(self, module, check=False, **options):
        """Run a module in a process of its own, where no earlier configuration is left."""
        return self.finish(self.start(module, check, **options))

    def playbook(self, tasks, *flags):
        """Run tasks through ansible-playbook on localhost; returns (exit code, standard output)."""
        play = self.folder / f"play-{len(list(self.folder.iterdir()))}.yml"
        defaults = {"group/gpuwl.sandbox.gpuwl": {"kubeconfig": str(self.cluster.kubeconfig)}}
        play.write_text(
            json.dumps([{"hosts": "localhost", "gather_facts": False, "module_defaults": defaults, "tasks": tasks}])
        )
        command = [str(Path(sys.executable).parent / "ansible-playbook"), str(play), *flags]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_FORCE_COLOR": "0"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


def _result(output):
    lines = [line for line in output.splitlines() if line.startswith("{")]
    assert lines, f"no result in: {output!r}"
    result = json.loads(lines[-1])
    # Only ansible-core before 2.20 returns the options.
    result.pop("invocation", None)
    return result


@pytest.fixture
def modules(cluster, tmp_path):
    return Modules(cluster, tmp_path)


@pytest.fixture
def namespace(cluster, request):
    """A namespace of the test's own."""
    name = request.node.name.replace("_", "-").replace("[", "-").replace("]", "").lower()[:63].strip("-")
    cluster.kubectl("create", "namespace", name)
    cluster.await_namespace(name)
    return name


@pytest.fixture
def lab(cluster, namespace):
    """Nodes, DaemonSets and ClusterPolicies of the test's own."""
    made = Lab(cluster, namespace)
    yield made
    made.clear()


@pytest.fixture(scope="module")
def policies(cluster):
    """The kind ClusterPolicy, which an operator would have brought."""
    have_policies(cluster)
    yield
    cluster.kubectl("delete", "crd", "clusterpolicies.nvidia.com")
