# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
import yaml
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import kind_cluster, kind_programs
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.providers import ClusterError

# What some YAML reader takes for a number, a boolean or a time, and Kubernetes for a name.
SPECIAL = ["1.5", "1e3", "0x1f", "0o17", "010", "12", "on", "no", "y", "true", "null", "2024-01-01", "1.2.3.4"]


def test_the_configuration_to_the_letter():
    assert (
        kind_cluster.configuration("lab", ["lab-node-0"])
        == """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
  - role: control-plane
    labels: {"gpuwl.sandbox/cluster": "lab"}
  - role: worker
    labels: {"gpuwl.sandbox/cluster": "lab"}
    kubeadmConfigPatches:
      - |
        kind: JoinConfiguration
        nodeRegistration:
          name: "lab-node-0"
"""
    )


def test_no_name_becomes_a_number_or_a_boolean():
    text = kind_cluster.configuration("12", SPECIAL)
    control_plane, *workers = yaml.safe_load(text)["nodes"]
    patches = [yaml.safe_load(worker["kubeadmConfigPatches"][0]) for worker in workers]
    assert [patch["nodeRegistration"]["name"] for patch in patches] == SPECIAL
    assert all(node["labels"] == {"gpuwl.sandbox/cluster": "12"} for node in (control_plane, *workers))
    # Readers differ in what they take for a string without quotes.
    assert all(f'name: "{name}"\n' in text for name in SPECIAL)


def test_a_lab_without_nodes_has_a_control_plane():
    assert [node["role"] for node in yaml.safe_load(kind_cluster.configuration("lab", []))["nodes"]] == [
        "control-plane"
    ]


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("kindest/node:v1.37.2", "v1.37.2"),
        ("kindest/node:v1.37.2@sha256:0123", "v1.37.2"),
        ("registry.example:5000/kindest/node:v1.30.0", "v1.30.0"),
        ("kindest/node:latest", None),
        ("kindest/node:v1.37.2-mine", None),
        ("registry.example:5000/node", None),
        ("", None),
    ],
)
def test_the_version_that_an_image_names(image, version):
    assert kind_cluster.version_of_image(image) == version


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("kind v0.20.0 go1.20.4 linux/amd64\n", (0, 20, 0)),
        ("kind v0.34.0-alpha.12+0123456789abcd go1.26.1 darwin/arm64", (0, 34, 0)),
        ("kind (@(#) something else)", None),
        ("", None),
    ],
)
def test_the_version_that_kind_prints(printed, version):
    assert kind_programs.version_of(printed) == version


def test_versions_are_compared_as_numbers():
    assert (
        kind_programs.version_of("kind v0.9.0") < kind_programs.OLDEST_KIND < kind_programs.version_of("kind v0.100.0")
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("one\n\n  two  \n", "two"),
        ("docker: 'x' is not a docker command.\nSee 'docker --help'\n", "docker: 'x' is not a docker command."),
        (
            "Creating ...\n ✗ Preparing nodes\nERROR: failed to create cluster: a node exists\n",
            "failed to create cluster: a node exists",
        ),
        (
            (
                "ERROR: failed to create cluster: command failed with error: exit status 1\n\nCommand Output: I1 a\nI2 b\n"
                "kubelet is not healthy\nTo see the stack trace of this error execute with --v=5 or higher\n"
            ),
            "failed to create cluster: command failed with error: exit status 1: kubelet is not healthy",
        ),
        ("\x1b[31mERROR\x1b[0m: red\n", "red"),
        ("dial https://me:geheim@proxy.example:3128 refused", "dial https://...@proxy.example:3128 refused"),
        ("kubeadm join --token abcdef.0123456789abcdef failed", "kubeadm join --token ... failed"),
        ("refused: password=geheim", "refused: password=..."),
        ("x" * 5000, "x" * 300),
    ],
)
def test_what_a_program_says_becomes_one_line_without_secrets(text, told):
    assert kind_programs.sentence(text) == told


def test_a_command_that_does_not_end_is_ended_with_what_it_started(tmp_path):
    late = tmp_path / "late"
    with pytest.raises(ClusterError, match=r"waiting failed: `sh -c .*` did not end within 0.5 s"):
        kind_programs.demand(["sh", "-c", f"(sleep 4; touch {late}) & sleep 600"], "waiting", seconds=0.5)
    assert kind_programs.run(["sleep", "4.2"]).code == 0
    assert not late.exists()


def test_a_program_that_is_none(tmp_path):
    program = tmp_path / "kind"
    program.write_text("no program\n")
    with pytest.raises(ClusterError, match=f"{program} cannot be run"):
        kind_programs.run([str(program)])
    program.chmod(0o755)
    with pytest.raises(ClusterError, match=r"cannot be run \(Exec format error\)"):
        kind_programs.run([str(program)])


def test_a_command_has_neither_input_nor_another_provider(monkeypatch):
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "podman")
    asked = "import os, sys; print(sys.stdin.read(), os.environ.get('KIND_EXPERIMENTAL_PROVIDER'))"
    assert kind_programs.run([sys.executable, "-c", asked]).output == " None\n"
