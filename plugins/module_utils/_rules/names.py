# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which names and label values Kubernetes accepts.

Private to the collection gpuwl.sandbox. Source: k8s.io/apimachinery
pkg/util/validation (IsQualifiedName, IsValidLabelValue, IsDNS1123Subdomain,
IsDNS1123Label) and pkg/apis/core/v1/helper (IsExtendedResourceName).

Every function returns None for a valid name, else a short text that says what
is wrong and what was expected, made to stand after the name: "<name> is no
valid ...: <text>". A value that is not a string is never valid.
"""

import re
from typing import Any, Optional

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL + r"\Z")
_DNS_SUBDOMAIN = re.compile(_LABEL + r"(\." + _LABEL + r")*\Z")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")

_QUOTA_PREFIX = "requests."
_NATIVE_DOMAIN = "kubernetes.io/"


def invalid_dns_label(name: Any) -> Optional[str]:
    """Judge a DNS label (RFC 1123), the form of a namespace's name."""
    wrong = _wrong_length(name, 63)
    if wrong is None and not _DNS_LABEL.match(name):
        wrong = "only a-z, 0-9 and '-' are allowed, with a letter or digit at both ends"
    return wrong


def invalid_dns_subdomain(name: Any) -> Optional[str]:
    """Judge a DNS subdomain (RFC 1123), the form of a Node's or Pod's name."""
    wrong = _wrong_length(name, 253)
    if wrong is None and not _DNS_SUBDOMAIN.match(name):
        wrong = (
            "only a-z, 0-9, '-' and '.' are allowed, with a letter or digit at both ends and on both sides of every '.'"
        )
    return wrong


def invalid_qualified_name(name: Any) -> Optional[str]:
    """Judge a qualified name, the form of a label's key: [DNS subdomain '/'] name part."""
    if not isinstance(name, str):
        return _not_a_string(name)
    prefix, slash, part = name.rpartition("/")
    if slash:
        if "/" in prefix:
            return "at most one '/' is allowed"
        wrong = invalid_dns_subdomain(prefix)
        if wrong is not None:
            return "the part before '/': " + wrong
    wrong = _invalid_name_part(part)
    if wrong is not None and slash:
        wrong = "the part after '/': " + wrong
    return wrong


def invalid_label_value(value: Any) -> Optional[str]:
    """Judge a label's value: empty, or the form of a qualified name's name part."""
    return None if value == "" else _invalid_name_part(value)


def invalid_resource_name(name: Any) -> Optional[str]:
    """Judge an extended resource's name: a qualified name with a domain of its own."""
    if not isinstance(name, str):
        return _not_a_string(name)
    if "/" not in name:
        return "an extended resource has a domain before its name, such as example.com/%s" % (name or "gpu")
    if _NATIVE_DOMAIN in name:
        return "kubernetes.io/ and the domains below it belong to Kubernetes itself"
    if name.startswith(_QUOTA_PREFIX):
        return "names that start with 'requests.' belong to resource quotas"
    wrong = invalid_qualified_name(name)
    # Kubernetes must be able to put "requests." before it for a quota.
    if wrong is None and invalid_qualified_name(_QUOTA_PREFIX + name) is not None:
        wrong = "the part before '/': at most %d characters are allowed" % (253 - len(_QUOTA_PREFIX))
    return wrong


def _invalid_name_part(part: Any) -> Optional[str]:
    wrong = _wrong_length(part, 63)
    if wrong is None and not _NAME_PART.match(part):
        wrong = "only A-Z, a-z, 0-9, '-', '_' and '.' are allowed, with a letter or digit at both ends"
    return wrong


def _wrong_length(name: Any, longest: int) -> Optional[str]:
    if not isinstance(name, str):
        return _not_a_string(name)
    if not name:
        return "it is empty"
    if len(name) > longest:
        return "it has %d characters, at most %d are allowed" % (len(name), longest)
    return None


def _not_a_string(name: Any) -> str:
    return f"it must be a string, not {type(name).__name__}"
