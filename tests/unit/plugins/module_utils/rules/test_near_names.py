# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import near_names, resource_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.device_catalogue import device_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.near_names import near_miss, other_spelling
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.resource_names import classify
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.slips import SlipFinder
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.vgpu_catalogue import vgpu_types
from hypothesis import given
from hypothesis import strategies as st

CASE = "they differ in case only"
HYPHEN = "a hyphen where the plugin writes an underscore"
UNDERSCORE = "an underscore where the plugin writes a hyphen"
OTHER = "the other plugin's spelling of the same card"
ONE = "one character differs"

MODELS = sorted(name for name in device_names() if "_" in name)
PREFIXED = [prefix + kind for kind in sorted(vgpu_types()) for prefix in ("GRID_", "NVIDIA_")]
KNOWN = set(MODELS) | set(PREFIXED)
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"


@pytest.fixture
def fresh(monkeypatch):
    """Let nothing have been searched for yet; what a test searches for does not count afterwards."""
    forget(monkeypatch.setattr)
    yield
    classify.cache_clear()


def forget(put=setattr):
    put(resource_names, "_NEW_DEVICE_SLIPS", SlipFinder(device_names))
    put(near_names, "_SLIPS", SlipFinder(near_names._slip_names))
    put(near_names, "_SHORT_SLIPS", SlipFinder(lambda: near_names._SHORT_NAMES))
    classify.cache_clear()


@pytest.mark.parametrize(
    "name, near, reason",
    [
        ("GPU", "gpu", CASE),
        ("Gpu.Shared", "gpu.shared", CASE),
        ("PGPU", "pgpu", CASE),
        ("NVSwitch", "nvswitch", CASE),
        ("nvidia_a10-12q", "NVIDIA_A10-12Q", CASE),
        ("Grid_T4-1Q", "GRID_T4-1Q", CASE),
        ("a10-12q", "A10-12Q", CASE),
        ("NVIDIA_RTX6000-ADA-24Q", "NVIDIA_RTX6000-Ada-24Q", None),
        ("TU104GL_Tesla_T4", "TU104GL_TESLA_T4", CASE),
        ("ga102gl_a10", "GA102GL_A10", CASE),
        ("TU102_GeForce_RTX_2080_Ti", "TU102_GEFORCE_RTX_2080_TI", CASE),
        ("MIG-1g.10gb", "mig-1g.10gb", CASE),
        ("mig-1g.10GB.shared", "mig-1g.10gb.shared", CASE),
        ("GA102GL-A10", "GA102GL_A10", HYPHEN),
        ("GA107GL_A2---A16", "GA107GL_A2___A16", HYPHEN),
        ("ga102gl-a10", "GA102GL_A10", HYPHEN),
        ("NVIDIA-A10-12Q", "NVIDIA_A10-12Q", HYPHEN),
        ("GRID-T4-1Q", "GRID_T4-1Q", HYPHEN),
        ("NVIDIA_A10_12Q", "NVIDIA_A10-12Q", UNDERSCORE),
        ("NVIDIA_RTX6000_Ada_24Q", "NVIDIA_RTX6000-Ada-24Q", UNDERSCORE),
        ("A100_1_5CME", "A100-1-5CME", UNDERSCORE),
        ("mig_1g.10gb", "mig-1g.10gb", UNDERSCORE),
        ("GA100_A800-SXM4-80gb", "GA100_A800SXM480GB", OTHER),
        ("GA102GL_A1O", "GA102GL_A10", ONE),
        ("GA102GL_A01", "GA102GL_A10", ONE),
        ("GA102GLA10", "GA102GL_A10", ONE),
        ("GA102GL__A10", "GA102GL_A10", ONE),
        ("TU104GL_TESLAT4", "TU104GL_TESLA_T4", ONE),
        ("NVIDIA_A10-12P", "NVIDIA_A10-12Q", ONE),
        ("NVIDIAA10-12Q", "NVIDIA_A10-12Q", ONE),
        ("gpus", "gpu", ONE),
        ("gp", "gpu", ONE),
        ("pgu", "gpu", ONE),
        ("gpu-shared", "gpu.shared", ONE),
        ("pgpus", "pgpu", ONE),
        ("nvswich", "nvswitch", ONE),
        ("mig-1g.10g", "mig-1g.10gb", ONE),
        ("mig-1g.10gb.share", "mig-1g.10gb.shared", ONE),
        ("A2-Q2", "A2-2Q", ONE),
    ],
)
def test_near_miss(fresh, name, near, reason):
    expected = ("nvidia.com/" + near, reason) if reason else None
    assert near_miss("nvidia.com/" + name) == expected


@pytest.mark.parametrize(
    "name",
    [
        # Known names are near to nothing.
        "gpu",
        "vgpu",
        "GA102GL_A10",
        "NVIDIA_A10-12Q",
        "hostdev",
        "2571",
        # Unknown ones that nobody took for a known one.
        "A100",
        "TU102_GeForce_RTX_2080_Ti_Rev_A",
        "1080ti-audio",
        "SAS_5_IR_INTEGRATED_RAID_CONTROLLER",
        "802_11BG_WIRELESS_CARDBUS_ADAPTER",
        "ARIEL_DEVICE_24_FUNCTION_3",
        "sriv_resource",
        "gpumen",
        "G7",
        "g72",
        "G-72",
        "",
    ],
)
def test_near_to_nothing(fresh, name):
    assert near_miss("nvidia.com/" + name) is None
    assert near_miss("nvidia.com/" + name, kata=True) is None
    assert near_miss("amd.com/" + name) is None
    assert other_spelling("nvidia.com/" + name) is None


def test_models_with_hyphens(fresh):
    kata, kubevirt = "nvidia.com/GA100_A800-SXM4-80GB", "nvidia.com/GA100_A800SXM480GB"
    assert classify(kata) == "kata" and classify(kubevirt) == "passthrough"
    assert other_spelling(kata) == kubevirt
    assert other_spelling(kubevirt) is None
    assert other_spelling(kata[len("nvidia.com/") :]) is None
    assert near_miss(kata) == (kubevirt, OTHER)
    assert near_miss(kata, kata=True) is None
    lower = "nvidia.com/ga100_a800-sxm4-80gb"
    assert near_miss(lower) == (kubevirt, OTHER)
    assert near_miss(lower, kata=True) == (kata, CASE)


def test_the_likeliest_of_several():
    finder = SlipFinder(lambda: ["A10C", "A10Q", "A1B", "A108", "AB10", "BA10"])
    assert finder.nearest("A10P") == "A10Q"
    assert finder.nearest("A10B") == "A108"
    assert finder.nearest("A10") == "A108"
    assert finder.nearest("A99") is None
    assert finder.nearest("AB01") == "AB10"


def test_a_hostile_dump_is_not_searched_for_ever(fresh):
    for number in range(2100):
        assert near_miss("nvidia.com/unknown-%d" % number) is None
    assert len(near_names._SLIPS.found) == 2000
    assert near_miss("nvidia.com/GA102GL_A1O") is None
    assert near_miss("nvidia.com/GA102GL-A10") == ("nvidia.com/GA102GL_A10", HYPHEN)


def slips(name, place, character):
    """Return name with each kind of slip at a place."""
    place %= len(name)
    return [
        name[:place] + name[place + 1 :],
        name[:place] + character + name[place:],
        name[:place] + character + name[place + 1 :],
        name[:place] + name[place : place + 2][::-1] + name[place + 2 :],
    ]


@given(st.sampled_from(MODELS + PREFIXED), st.integers(0, 70), st.sampled_from(CHARACTERS), st.integers(0, 3))
def test_one_character(name, place, character, slip):
    forget()
    changed = slips(name, place, character)[slip]
    kind = classify("nvidia.com/" + changed)
    near = near_miss("nvidia.com/" + changed)
    if kind != "unknown" or len(changed) > 63:
        assert near is None
    else:
        assert near[0][len("nvidia.com/") :] in KNOWN
        assert near[1] == ONE or near[0] == "nvidia.com/" + name


@given(st.sampled_from(MODELS + PREFIXED), st.data())
def test_case(name, data):
    places = data.draw(st.sets(st.integers(0, len(name) - 1), min_size=1))
    changed = "".join(letter.lower() if place in places else letter for place, letter in enumerate(name))
    if classify("nvidia.com/" + changed) == "unknown":
        assert near_miss("nvidia.com/" + changed) == ("nvidia.com/" + name, CASE)


@given(st.sampled_from(MODELS + PREFIXED), st.sampled_from(["_-", "-_"]))
def test_hyphens(name, exchanged):
    changed = name.replace(*exchanged)
    if classify("nvidia.com/" + changed) == "unknown":
        near = near_miss("nvidia.com/" + changed)
        assert near == ("nvidia.com/" + name, HYPHEN if exchanged == "_-" else UNDERSCORE)
