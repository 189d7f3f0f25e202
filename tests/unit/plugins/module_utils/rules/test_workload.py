# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator takes a node for. What its real controllers decided is replayed in test_expected_operands.py."""

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import (
    KNOWN_VERSIONS,
    MODES,
    NEWEST_VERSION,
    PCI_LABELS,
    WORKLOADS,
    device_plugin_of,
    effective_workload,
    has_gpu,
    known_operands,
    nearest_version,
    operands_disabled,
    operands_of,
    parse_version,
)
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules import operator_builders


@pytest.mark.parametrize("version", ["25.10.1", "26.3.3", "26.7.0"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_table_of_operands(workload, mode, version):
    found = operands_of(workload, mode, parse_version(version))
    assert found == set(operator_builders.operands(workload, version, mode))
    assert found <= known_operands()
    plugin = device_plugin_of(workload, mode)
    # Mode kata came with 26.3, and in it no plugin is left for vGPUs but the one whose DaemonSet is not there.
    assert plugin in found or (mode == "kata" and version.startswith("25."))


@pytest.mark.parametrize(
    "text, version",
    [
        ("26.7.0", (26, 7)),
        ("v26.7.0", (26, 7)),
        ("26.7", (26, 7)),
        ("v25.10.1", (25, 10)),
        ("v26.3.3-rc.1", (26, 3)),
        ("26.3.3+build", (26, 3)),
        ("v1.11.1", (1, 11)),
        ("26", None),
        ("", None),
        ("latest", None),
        ("26.7 ", None),
        ("99999.1", None),
        (26.7, None),
        (None, None),
        (["26.7"], None),
    ],
)
def test_a_version_is_read(text, version):
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "version, nearest",
    [
        ((26, 7), (26, 7)),
        ((27, 1), (26, 7)),
        ((26, 30), (26, 7)),
        ((26, 5), (26, 3)),
        ((26, 3), (26, 3)),
        ((26, 0), (25, 10)),
        ((25, 10), (25, 10)),
        ((25, 3), (25, 10)),
        ((1, 11), (25, 10)),
    ],
)
def test_an_unknown_version_is_taken_for_the_nearest_known_one(version, nearest):
    assert nearest_version(version) == nearest


@pytest.mark.parametrize("label", ["", "vm-gpu", "Container", "container ", "VM-PASSTHROUGH", "none", 4])
@pytest.mark.parametrize("default", WORKLOADS)
def test_an_invalid_label_gets_the_default_and_no_label_too(label, default):
    assert effective_workload(label, True, default, (26, 3))[:2] == (default, "label-invalid")
    assert effective_workload(None, True, default, (26, 3))[:2] == (default, "label-missing")


@pytest.mark.parametrize("label", [*WORKLOADS, "", None, "vm-gpu"])
def test_without_sandbox_every_node_is_a_container_node(label):
    assert effective_workload(label, False, "vm-vgpu", NEWEST_VERSION) == ("container", "sandbox-disabled", True)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
@pytest.mark.parametrize("default", WORKLOADS)
@pytest.mark.parametrize("label", [*WORKLOADS, "", None])
def test_only_from_26_7_on_is_a_default_uncertain(label, default, version):
    certain = effective_workload(label, True, default, version).certain
    assert certain == (version < (26, 7) or default == "container" or label in WORKLOADS)


def test_only_the_literal_false_takes_a_node_out():
    key = "nvidia.com/gpu.deploy.operands"
    assert operands_disabled({key: "false"})
    assert not any(operands_disabled({key: value}) for value in ("False", "no", "", "true", None, False))
    assert not operands_disabled({})


def test_only_the_literal_true_makes_a_gpu_node():
    for key in ("nvidia.com/gpu.present", *PCI_LABELS):
        assert has_gpu({key: "true"})
        assert not any(has_gpu({key: value}) for value in ("True", "1", "", "false", None))
    # What Node Feature Discovery sees wins: the operator sets its own label anew.
    assert has_gpu({"nvidia.com/gpu.present": "false", PCI_LABELS[0]: "true"})
    assert not has_gpu({"feature.node.kubernetes.io/pci-10de.sriov.capable": "true"})
    assert not has_gpu({"feature.node.kubernetes.io/pci-8086.present": "true"})
