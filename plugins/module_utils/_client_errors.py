# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What went wrong between us and the API, in one line that says what to do. Private to the collection."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernetes.dynamic.exceptions import DynamicApiError
    from urllib3.exceptions import HTTPError


class ApiError(Exception):
    """A failure in one line.

    status: the HTTP status when the server answered, else None.
    details: further keys of a failed module's result, such as written and not_written.
    """

    def __init__(self, message: object, status: int | None = None, **details: Any) -> None:
        super().__init__(one_line(message))
        self.status = status
        self.details = details


def one_line(text: object) -> str:
    """Any text with its line breaks and runs of blanks made single blanks."""
    return " ".join(str(text).split())


def explain_refusal(error: DynamicApiError, verb: str, resource: str, namespace: str | None = None) -> ApiError:
    """An ApiError for an answer outside 200 to 299 (a DynamicApiError)."""
    message = _server_message(error)
    if error.status == 401:
        return ApiError(
            f"the API server does not accept the credentials (401 Unauthorized): the token or client certificate is expired, revoked or of another cluster;"
            f" log in again, or check context and kubeconfig ({verb} {resource})",
            401,
        )
    if error.status == 403:
        user = re.search(r'User "([^"]*)"', message)
        role = f"a Role in namespace {namespace}" if namespace else "a ClusterRole"
        return ApiError(
            f"the user {user.group(1) if user else 'of these credentials'} may not {verb} {resource}: {message};"
            f" needs {role} with the verb {verb} on {resource}, bound to that user",
            403,
        )
    return ApiError(f"the API server refused to {verb} {resource}: {message} (HTTP {error.status})", error.status)


def _server_message(error: DynamicApiError) -> str:
    """The Status object's message, else whatever text the server or a proxy before it sent."""
    body = error.body.decode("utf-8", "replace") if isinstance(error.body, bytes) else str(error.body or "")
    try:
        message = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = None
    return one_line(message) if message and isinstance(message, str) else one_line(body)[:300] or one_line(error.reason)


def explain_silence(error: HTTPError, host: str) -> ApiError:
    """An ApiError for a server that does not answer at all (an urllib3 HTTPError)."""
    cause = getattr(error, "reason", None) or error
    text = one_line(cause)
    if "refused" in text:
        return ApiError(
            f"nothing listens at {host} (connection refused): start the cluster, or check host, context and kubeconfig"
        )
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate" in text.lower():
        return ApiError(
            f"the certificate of {host} is not trusted: {text}; check ca_cert, validate_certs or the kubeconfig's cluster"
        )
    return ApiError(
        f"no answer from {host}: {text[:300]}; check that the cluster runs and that host, proxy and kubeconfig are right"
    )


def explain_configuration(error: Exception, kubeconfig: str | dict[str, Any] | None) -> ApiError:
    """An ApiError for a configuration that could not be read or used. kubeconfig: the path(s) given, a dict, or None."""
    text = re.sub(r"^Could not create API client: ", "", one_line(error))[:500] or type(error).__name__
    if isinstance(error, (AttributeError, KeyError, TypeError)):
        # Python's words for a file of another form.
        text = "it has not the form of a kubeconfig"
    # A token with a line break is refused with all that it holds.
    text = re.sub(r"\b(Bearer|Basic) .*", r"\1 ...", text)
    if not isinstance(kubeconfig, str):
        where = "the connection options" if kubeconfig is None else "the kubeconfig given as data"
        return ApiError(f"{where} can't be used: {text}; check kubeconfig, context and host")
    missing = [path for path in kubeconfig.split(os.pathsep) if not os.path.exists(os.path.expanduser(path))]
    if missing:
        return ApiError(
            f"the kubeconfig {', '.join(missing)} does not exist: give the path of the one that your cluster was created with"
        )
    return ApiError(
        f"the kubeconfig {kubeconfig} can't be used: {text}; check that it is a kubeconfig and holds the context"
    )
