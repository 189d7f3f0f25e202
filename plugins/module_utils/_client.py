# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Talking to the Kubernetes API: one client for every module of this collection.

Private to the collection. Authentication is kubernetes.core's, so a kubeconfig, a context, a token, a proxy or
impersonation mean here what they mean there. Objects are plain dicts as the API's JSON gives them: turning a thousand
nodes into model objects and back takes longer than fetching them.
"""

from __future__ import annotations

import copy
import gc
import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, List
from urllib.parse import quote

from ansible_collections.gpuwl.sandbox.plugins.module_utils import _play
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client_answers import (
    Request,
    checked,
    event_of,
    parsed,
    resources_of,
    server_version,
    versions_of,
)
from ansible_collections.gpuwl.sandbox.plugins.module_utils._client_errors import (
    ApiError,
    explain_configuration,
    explain_refusal,
    explain_silence,
)
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC

try:
    import kubernetes.client
    import urllib3
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
    from kubernetes.config import kube_config
    from kubernetes.dynamic.exceptions import DynamicApiError
    from urllib3 import Retry
except ImportError:
    # AnsibleK8SModule says what is missing, in Ansible's usual words.
    Retry = object  # type: ignore[assignment,misc]  # a base to define the class below on, which nothing gets to use

if TYPE_CHECKING:
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import K8SClient
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule

__all__ = [
    "CONFLICTS",
    "FIELD_MANAGER",
    "Api",
    "ApiError",
    "auth_argument_spec",
    "collection_path",
    "connect",
    "forget_key_files",
]

FIELD_MANAGER = "gpuwl"
CORE = "/api/v1"
PAGE = 500
# Seconds to connect, seconds until an answer begins.
TIMEOUT = (5, 30)
# Answers that mean "not now"; a 409 is not among them, because only who asked knows what to do about it.
NOT_NOW = (429, 500, 502, 503, 504)
# A server may ask for any pause. Longer than this, failing with its message serves the user better.
LONGEST_PAUSE = 10
# How often a write is worked out anew after somebody else changed the object first.
CONFLICTS = 5

# A name for what Api.list gives, since inside the class `list` is that method.
Objects = List[Dict[str, Any]]


class Retries(Retry):
    """The pauses of urllib3, none longer than LONGEST_PAUSE seconds; six tries span a restart of an API server."""

    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        asked = super().get_retry_after(response)
        return asked if asked is None else min(asked, LONGEST_PAUSE)


def auth_argument_spec() -> dict[str, Any]:
    """A copy of kubernetes.core's options for authentication (documented by its fragment k8s_auth_options)."""
    spec: dict[str, Any] = copy.deepcopy(AUTH_ARG_SPEC)
    return spec


def connect(module: AnsibleK8SModule | None = None, **auth: Any) -> Api:
    """Return an Api for a module's options, or for the same options by keyword (action plugins).

    Raises ApiError in one line for a configuration that can't be used, refused credentials, or a server that is away.
    """
    _settle_environment(module.params if module else auth)
    host, kubeconfig = _option("host", module, auth), _option("kubeconfig", module, auth)
    try:
        k8s, version = _first_contact(module, auth)
    except ApiError:
        raise
    except DynamicApiError as error:
        raise explain_refusal(error, "get", "/version") from error
    except urllib3.exceptions.HTTPError as error:
        raise explain_silence(error, host or _server_of(kubeconfig)) from error
    except Exception as error:  # kubernetes.config, yaml, OSError, CoreException: whatever the configuration provokes
        if _is_about_answer(error):
            raise Request(host or _server_of(kubeconfig), "get", "/version").unlike(
                "something else", "its version"
            ) from error
        raise explain_configuration(error, kubeconfig) from error
    return Api(k8s, version)


def _is_about_answer(error: Exception) -> bool:
    """Say whether an error arose where kubernetes.core's client reads what a server answered, and not from the configuration."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "kubernetes.dynamic.discovery" for frame, _line in frames)


def _settle_environment(options: dict[str, Any]) -> None:
    """Make this process's environment agree with what the task says; it is this task's alone.

    Where the task names a kubeconfig or a host, K8S_AUTH_* variables are not mixed in: they may be about another cluster,
    and made-up nodes must never end there. And a proxy never stands between us and our own machine.
    """
    if options.get("kubeconfig") or options.get("host"):
        for name in [name for name in os.environ if name.startswith("K8S_AUTH_")]:
            del os.environ[name]
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    os.environ["no_proxy"] = ",".join([*filter(None, [given]), "127.0.0.1", "localhost", "::1"])


def _first_contact(module: AnsibleK8SModule | None, auth: dict[str, Any]) -> tuple[K8SClient, str | None]:
    """Return kubernetes.core's client and the API server's version, from the server itself.

    kubernetes.core keeps what it learnt of a server in a file, so having its client does not mean that anybody answers.
    This asks without the patience of later requests: a cluster that is down is told at once.
    """
    pauses = iter((0.5, 1, 2))
    while True:
        try:
            k8s = get_api_client(module=module, **auth)
            return k8s, _version(k8s)
        except DynamicApiError as error:
            pause = next(pauses, None)
            if pause is None or error.status not in NOT_NOW:
                raise
            time.sleep(pause)


def _version(k8s: K8SClient) -> str | None:
    try:
        answer = k8s.client.request("get", "/version", serialize=False, _request_timeout=TIMEOUT)
    except DynamicApiError as error:
        # A hardened cluster may keep its version to itself. It answers, and that is what was asked.
        if error.status == 403:
            return None
        raise
    return server_version(Request(k8s.configuration.host, "get", "/version"), answer.data)


def _server_of(kubeconfig: str | dict[str, Any] | None) -> str:
    return (
        f"the server that the kubeconfig {kubeconfig} names"
        if isinstance(kubeconfig, str)
        else "the server that the kubeconfig names"
    )


def _option(name: str, module: AnsibleK8SModule | None, auth: dict[str, Any]) -> Any:
    return (module.params if module else auth).get(name) or os.environ.get(f"K8S_AUTH_{name.upper()}")


def forget_key_files() -> None:
    """Remove the temporary files in which the kubernetes client hands a kubeconfig's certificates and keys to OpenSSL.

    It does so itself when its process ends; but before Python 3.13 the workers in which Ansible runs action plugins end without that.
    """
    kube_config._cleanup_temp_files()


class Api:
    """A connection that is kept, with retries. Every failure is an ApiError in one line."""

    def __init__(self, k8s: K8SClient, version: str | None = None) -> None:
        configuration = k8s.configuration
        configuration.retries = Retries(
            total=6,
            read=2,
            status_forcelist=NOT_NOW,
            allowed_methods=None,
            backoff_factor=0.3,
            backoff_max=4,
            raise_on_status=False,
        )
        # The retries of a client are fixed when it is made, so make one anew; its headers carry the impersonation.
        client = kubernetes.client.ApiClient(configuration)
        client.default_headers.update(k8s.client.client.default_headers)
        self._dynamic = k8s.client
        self._dynamic.client = client
        self.host: str = configuration.host
        # Such as v1.37.2; None where the server does not tell.
        self.version = version
        # API group -> {resource: path of its version}, as far as they were asked for.
        self._groups: dict[str, dict[str, str]] = {}

    def request(self, method: str, path: str, access: tuple[str, str, str | None], **params: Any) -> dict[str, Any]:
        """Send one request and return the answer's JSON.

        access: (verb, resource, namespace or None) as RBAC names it, for the message when it is refused. The verb also says what the answer must
        hold: items, each with a name, for list; a name for get, patch and update.
        """
        asked = Request(self.host, method, path)
        return checked(asked, access[0], self._answer(asked, access, **params))

    def _answer(self, asked: Request, access: tuple[str, str, str | None], **params: Any) -> dict[str, Any]:
        response = self.open(asked.method, asked.path, access, **params)
        try:
            return parsed(asked, response.data)
        except urllib3.exceptions.HTTPError as error:
            raise explain_silence(error, self.host) from error

    def open(
        self,
        method: str,
        path: str,
        access: tuple[str, str, str | None],
        timeout: tuple[float, float] = TIMEOUT,
        **params: Any,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return the response itself, its content unread."""
        if method != "get" and _play.has_ended():
            raise ApiError("the play that asked for this has ended meanwhile, so nothing more is written")
        try:
            response: urllib3.BaseHTTPResponse = self._dynamic.request(
                method, path, serialize=False, _request_timeout=timeout, **params
            )
        except DynamicApiError as error:
            raise explain_refusal(error, *access) from error
        except urllib3.exceptions.HTTPError as error:
            raise explain_silence(error, self.host) from error
        return response

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        metadata_only: bool = False,
        keep: Callable[[dict[str, Any]], Any] | None = None,
        **params: Any,
    ) -> tuple[Objects, str]:
        """LIST all objects, page by page. Returns (items, resourceVersion to watch from).

        resource: as RBAC names it: nodes, daemonsets.apps, clusterpolicies.nvidia.com. One of another group than the core
        one must be served, see serves().
        keep: what to return of each object, so that no more than one page of whole ones is held; None leaves it out.
        """
        if metadata_only:
            params["header_params"] = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
        try:
            return self._pages(resource, namespace, params, keep)
        except ApiError as error:
            # 410: the list grew too old between two pages. Once more from the start.
            if error.status != 410:
                raise
        return self._pages(resource, namespace, params, keep)

    def serves(self, resource: str) -> bool:
        """Say whether the API server knows a resource such as clusterpolicies.nvidia.com at all."""
        return "." not in resource or resource in self._group_of(resource)

    def group_version(self, resource: str) -> str:
        """Return the apiVersion of a resource's objects, such as v1 or apps/v1; the resource must be served."""
        return self._group_of(resource)[resource].rpartition("/apis/")[2] if "." in resource else "v1"

    def _group_of(self, resource: str) -> dict[str, str]:
        """Return what the API group of a resource holds; the version that the server prefers goes first."""
        group = resource.partition(".")[2]
        if group not in self._groups:
            found: dict[str, str] = {}
            try:
                asked = Request(self.host, "get", f"/apis/{group}")
                for version in versions_of(asked, self._answer(asked, ("get", asked.path, None))):
                    of_version = Request(self.host, "get", f"/apis/{version}")
                    for name in resources_of(of_version, self._answer(of_version, ("get", of_version.path, None))):
                        found.setdefault(f"{name}.{group}", of_version.path)
            except ApiError as error:
                if error.status != 404:
                    raise
            self._groups[group] = found
        return self._groups[group]

    def _pages(
        self,
        resource: str,
        namespace: str | None,
        params: dict[str, Any],
        keep: Callable[[dict[str, Any]], Any] | None,
    ) -> tuple[Objects, str]:
        base = self._group_of(resource)[resource] if "." in resource else CORE
        items: Objects = []
        more: str | None = None
        with _without_collector():
            while True:
                page = self.request(
                    "get",
                    collection_path(resource, namespace, base),
                    ("list", resource, namespace),
                    limit=PAGE,
                    _continue=more,
                    **copy.deepcopy(params),
                )
                found = page["items"]
                items.extend(found if keep is None else [one for one in map(keep, found) if one is not None])
                more = page["metadata"].get("continue")
                if not more:
                    return items, page["metadata"].get("resourceVersion") or ""

    def get(self, resource: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """GET one object."""
        return self.request(
            "get", f"{collection_path(resource, namespace)}/{quote(name, safe='')}", ("get", resource, namespace)
        )

    def patch(self, resource: str, name: str, body: dict[str, Any], subresource: str | None = None) -> dict[str, Any]:
        """PATCH one cluster-wide object with a JSON merge patch, as field manager gpuwl; returns the object as it is then."""
        tail = f"/{subresource}" if subresource else ""
        return self.request(
            "patch",
            f"{collection_path(resource)}/{quote(name, safe='')}{tail}",
            ("patch", f"{resource}{tail}", None),
            body=body,
            content_type="application/merge-patch+json",
            field_manager=FIELD_MANAGER,
        )

    def watch(
        self, resource: str, resource_version: str, seconds: float, namespace: str | None = None, **params: Any
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, object) until `seconds` have passed or the server closes the stream, whichever is first.

        Raises ApiError with status 410 when resource_version is too old: LIST again, then watch from there.
        """
        whole = max(1, int(seconds + 0.999))
        asked = Request(self.host, "get", collection_path(resource, namespace))
        response = self.open(
            asked.method,
            asked.path,
            ("watch", resource, namespace),
            timeout=(TIMEOUT[0], seconds),
            watch="true",
            resource_version=resource_version,
            timeout_seconds=whole,
            allow_watch_bookmarks="true",
            **params,
        )
        try:
            yield from _events(asked._replace(path=f"{asked.path}?watch=true"), response)
        except urllib3.exceptions.HTTPError:
            # A read time-out or a server that went away: for a watch both only mean that it is over.
            return
        finally:
            response.close()


@contextmanager
def _without_collector() -> Iterator[None]:
    """Spare Python its looks for cycles: parsed JSON has none, and they take half as long again as the parsing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _events(asked: Request, response: urllib3.BaseHTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (event_of(asked, line) for line in lines if line.strip())
    # An event may be cut off where the stream ends, but it begins as one.
    if rest.strip() and not rest.lstrip().startswith(b"{"):
        event_of(asked, rest)


def collection_path(resource: str, namespace: str | None = None, base: str = CORE) -> str:
    """The path of a resource: nodes; pods, of all namespaces or of one. base: the path of its group and version."""
    inside = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    return f"{base}/{inside}{resource.partition('.')[0]}"
