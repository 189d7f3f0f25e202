# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What judging declared pools and declared requests has in common.

Private to the collection gpuwl.sandbox. Declarations are what people wrote in YAML, so any value may be of any type.
"""

import json
from collections import Counter
from typing import Any, Iterable, List

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.names import (
    invalid_label_value,
    invalid_qualified_name,
    invalid_resource_name,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.quantity import parse_quantity


class DeclarationError(ValueError):
    """A declaration that can't be; errors: a text for everything that is wrong with it."""

    def __init__(self, errors: List[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


def shown(value: Any) -> str:
    """A value for a message, as YAML and JSON have it (null, true, "text"), cut to a length for reading."""
    try:
        text = json.dumps(value, default=repr)
    except (TypeError, ValueError):  # keys that JSON has no form for, or a value that contains itself
        text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."


def wrong_type(key: str, value: Any, kind: type) -> List[str]:
    """Errors for a value that is neither left out (None) nor of the kind, dict or list."""
    if value is None or isinstance(value, kind):
        return []
    return ["{} must be a {}; found: {}".format(key, "list" if kind is list else "mapping", shown(value))]


def label_errors(key: str, labels: Any) -> List[str]:
    """Errors for a mapping of label keys to values, or None."""
    errors = wrong_type(key, labels, dict)
    for name, value in (labels or {}).items() if not errors else ():
        wrong = invalid_qualified_name(name)
        errors += [f"{key}: {shown(name)} is no label key: {wrong}"] if wrong else []
        wrong = invalid_label_value(value)
        advice = ": put it in quotes" if isinstance(value, (bool, int, float)) else ""
        errors += [f"{key}: {shown(value)} of {shown(name)} is no label value: {wrong}{advice}"] if wrong else []
    return errors


def resource_errors(resources: Any, least: int) -> List[str]:
    """Errors for a mapping of extended resources to quantities of at least `least`, or None."""
    errors = wrong_type("resources", resources, dict)
    for name, quantity in (resources or {}).items() if not errors else ():
        wrong = invalid_resource_name(name)
        errors += [f"resources: {shown(name)} is no resource name: {wrong}"] if wrong else []
        try:
            if parse_quantity(quantity) < least:
                errors.append("resources: %s: 0 asks for nothing: give %d or more" % (name, least))
        except ValueError as error:
            errors.append(f"resources: {name}: {error}")
    return errors


def repeated(names: Iterable[Any], what: str) -> List[str]:
    """An error for each name that stands more than once, ascending."""
    counts = Counter(str(name) for name in names)
    return [
        "the %s %s stands %d times: names must be unique" % (what, name, counts[name])
        for name in sorted(counts)
        if counts[name] > 1
    ]
