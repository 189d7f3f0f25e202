# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from decimal import Decimal

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import LARGEST, parse_quantity
from hypothesis import given, settings
from hypothesis import strategies as st

FACTORS = {
    "": 1,
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
    "e0": 1,
    "e3": 1000,
    "E+2": 100,
    "e-2": Decimal("0.01"),
}


@pytest.mark.parametrize(
    "value, number",
    [
        ("0", 0),
        ("4", 4),
        ("+4", 4),
        ("2k", 2000),
        ("2000m", 2),
        (".5k", 500),
        ("5.", 5),
        ("1.5Ki", 1536),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("-0", 0),
        ("0.000", 0),
        ("007", 7),
        (4, 4),
        (4.0, 4),
        (0, 0),
        ("8Ei", LARGEST),
        ("1e999999999", LARGEST),
        pytest.param("9" * 100000, LARGEST, id="100000 digits"),
        pytest.param(10**5000, LARGEST, id="5001 digits"),
        ("0e999999999", 0),
    ],
)
def test_quantities(value, number):
    assert parse_quantity(value) == number


@pytest.mark.parametrize(
    "value, words",
    [
        ("", "no quantity"),
        (".", "no quantity"),
        ("four", "no quantity"),
        ("4 ", "no quantity"),
        ("4\n", "no quantity"),
        ("1K", "no quantity"),
        ("1e", "no quantity"),
        ("1ki", "no quantity"),
        ("\u0664", "no quantity"),
        ("0x4", "no quantity"),
        ("1_000", "no quantity"),
        (None, "no quantity"),
        (True, "no quantity"),
        ([], "no quantity"),
        ({}, "no quantity"),
        (float("nan"), "no quantity"),
        ("-1", "negative"),
        (-1, "negative"),
        ("-1m", "negative"),
        ("1500m", "not a whole"),
        ("1.5", "not a whole"),
        (2.5, "not a whole"),
        ("1n", "not a whole"),
        ("1e-999999999", "not a whole"),
        pytest.param("0." + "1" * 100000, "not a whole", id="100000 places"),
    ],
)
def test_no_quantities(value, words):
    with pytest.raises(ValueError, match=words) as caught:
        parse_quantity(value)
    assert len(str(caught.value)) < 140


def test_the_message_names_the_value():
    with pytest.raises(ValueError, match='"1500m" is not a whole number'):
        parse_quantity("1500m")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 6), st.sampled_from(sorted(FACTORS)))
def test_agrees_with_exact_arithmetic(digits, places, suffix):
    number = Decimal(digits).scaleb(-places)
    value = number * FACTORS[suffix]
    text = format(number, "f") + suffix
    if value != int(value):
        with pytest.raises(ValueError, match="not a whole"):
            parse_quantity(text)
    else:
        assert parse_quantity(text) == min(int(value), LARGEST)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0123456789.+-eEkKMGimnu", max_size=12))
def test_any_text_gives_a_number_or_one_kind_of_error(text):
    try:
        assert 0 <= parse_quantity(text) <= LARGEST
    except ValueError as error:
        assert '"' in str(error)
