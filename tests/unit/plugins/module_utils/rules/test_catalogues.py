# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json
import pathlib

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.device_catalogue import device_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.mig_catalogue import (
    mig_config,
    mig_profiles,
    same_mig_profile,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import invalid_qualified_name
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.vgpu_catalogue import vgpu_config, vgpu_types

DATA = pathlib.Path(__file__).resolve().parents[3] / "data"
VGPU_CONFIGS = json.loads((DATA / "vgpu_default_counts.json").read_text(encoding="utf-8"))
MIG_CONFIGS = json.loads((DATA / "mig_default_config.json").read_text(encoding="utf-8"))["mig-configs"]


def filters(entry):
    """Return an entry's device filters as a tuple; the sources write one alone as a string."""
    found = entry.get("device-filter") or ()
    return (found,) if isinstance(found, str) else tuple(found)


def test_device_names_are_the_legal_ones_of_pci_ids():
    lines = (DATA / "nv_names.tsv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1931
    names = {line.split("\t")[2] for line in lines}
    assert device_names() == {name for name in names if invalid_qualified_name(name) is None}
    assert sorted(map(len, names - device_names())) == [29, 29, 81]


def test_vgpu_configurations_are_nvidias():
    assert {name: vgpu_config(name) for name in VGPU_CONFIGS} == {
        name: [(filters(entry), entry["vgpu-devices"]) for entry in entries] for name, entries in VGPU_CONFIGS.items()
    }
    assert {entry["devices"] for entries in VGPU_CONFIGS.values() for entry in entries} == {"all"}


def test_vgpu_types():
    assert vgpu_types() == set(VGPU_CONFIGS) - {"default"}
    assert len(vgpu_types()) == 710
    assert {kind for _filters, counts in vgpu_config("default") for kind in counts} < vgpu_types()


def test_mig_configurations_are_the_operators():
    assert {name: mig_config(name) for name in MIG_CONFIGS} == {
        name: [
            (
                filters(entry),
                entry["devices"],
                entry["mig-enabled"],
                {profile.replace("+", "."): count for profile, count in entry.get("mig-devices", {}).items()},
            )
            for entry in entries
        ]
        for name, entries in MIG_CONFIGS.items()
    }
    assert len(MIG_CONFIGS) == 81


def test_mig_profiles():
    assert len(mig_profiles()) == 78
    assert {"1g.10gb", "1g.5gb.me", "1g.24gb-me", "2g.48gb.me.all", "7g.278gb"} <= mig_profiles()


@pytest.mark.parametrize(
    "name", ["", "none", "A10-12Q ", "NVIDIA_A10-12Q", "a10-12q", "all-1g.5gb+me", "all-disabled "]
)
def test_names_that_are_no_configuration(name):
    assert vgpu_config(name) is None
    assert mig_config(name) is None


@pytest.mark.parametrize(
    "one, other",
    [
        ("1g.10gb", "1g.10gb"),
        ("7g.79gb", "7g.80gb"),
        ("3g.93gb", "3g.95gb"),
        ("7g.186gb", "7g.189gb"),
        ("1g.23gb", "1g.24gb"),
        ("1g.5gb+me", "1g.5gb.me"),
        ("1c.3g.40gb", "1c.3g.39gb"),
        ("2g", "2g.20gb"),
        ("nonsense", "nonsense"),
    ],
)
def test_same_profile(one, other):
    assert all(same_mig_profile(*pair) for pair in ((one, other), (other, one)))


@pytest.mark.parametrize(
    "one, other",
    [
        ("1g.10gb", "1g.20gb"),
        ("1g.10gb", "1g.12gb"),
        ("7g.180gb", "7g.186gb"),
        ("3g.40gb", "4g.40gb"),
        ("1g.10gb", "1g.10gb.me"),
        ("1g.24gb.me", "1g.24gb-me"),
        ("1g.24gb.me", "1g.24gb.me.all"),
        ("1c.3g.40gb", "3g.40gb"),
        ("1g", "2g.20gb"),
        ("", "1g.10gb"),
        ("nonsense", "1g.10gb"),
    ],
)
def test_other_profile(one, other):
    assert not any(same_mig_profile(*pair) for pair in ((one, other), (other, one)))
