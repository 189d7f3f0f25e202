#!/usr/bin/python
# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: url_info
short_description: Ask several URLs at once whether they answer
version_added: 0.1.0
author:
  - gpuwl.sandbox contributors (@gpuwl)
description:
  - Requests all URLs at the same time and waits O(timeout) seconds in all, for name resolution, connections, TLS and redirects together. With
    M(ansible.builtin.uri) each of these steps may take its timeout, once per address, and one URL waits for the other.
  - No content is read. A server that does not answer is no error.
  - Proxies are taken from the environment, as by M(ansible.builtin.get_url).
extends_documentation_fragment:
  - gpuwl.sandbox._attributes
  - gpuwl.sandbox._attributes.reads_only
options:
  urls:
    description:
      - The URLs, by any names. They may carry C(user:password@), and are kept out of results and logs for that reason.
    type: dict
    required: true
  timeout:
    description: Seconds to wait for all answers together.
    type: int
    default: 10
seealso:
  - module: ansible.builtin.uri
  - plugin: gpuwl.sandbox.program_plan
    plugin_type: filter
    description: Takes the answers.
"""

EXAMPLES = r"""
- name: See which of two versions a mirror has
  gpuwl.sandbox.url_info:
    urls:
      v1.37.2: "{{ mirror }}/v1.37.2/bin/linux/amd64/kubectl.sha256"
      v1.99.0: "{{ mirror }}/v1.99.0/bin/linux/amd64/kubectl.sha256"
    timeout: 5
  register: asked
  vars:
    mirror: https://mirror.example.com/kubernetes

- name: Name those that it has
  ansible.builtin.debug:
    msg: "{{ asked.answers | dict2items | selectattr('value.status', 'eq', 200) | map(attribute='key') }}"
    # Gives, for example: ["v1.37.2"]
"""

RETURN = r"""
answers:
  description:
    - What each URL answered, by its name in O(urls).
    - Each holds C(status), the status of HTTP or V(-1) where there was no answer, and C(msg), which is V(OK) or what was wrong.
  returned: success
  type: dict
  sample:
    v1.37.2: {status: 200, msg: OK}
    v1.99.0: {status: 404, msg: "HTTP Error 404: File not found"}
"""

import threading
import time
import urllib.error

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url


def ask(url: str, timeout: int) -> dict:
    try:
        response = open_url(
            url, timeout=timeout, force_basic_auth=True, unredirected_headers=["Authorization"], decompress=False
        )
    except urllib.error.HTTPError as error:
        return {"status": error.code, "msg": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever keeps a server from answering: DNS, TCP, TLS, HTTP, or a URL that is none
        return {"status": -1, "msg": str(error)}
    response.close()
    return {"status": response.code, "msg": "OK"}


def ask_all(urls: dict[str, str], timeout: int) -> dict[str, dict]:
    answers = {name: {"status": -1, "msg": f"no answer within {timeout} s"} for name in urls}
    until = time.monotonic() + timeout
    # Threads that are still waiting when the time is up end with the module.
    threads = [
        threading.Thread(target=lambda n=name: found.update({n: ask(urls[n], timeout)}), daemon=True) for name in urls
    ]
    found: dict[str, dict] = {}
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, until - time.monotonic()))
    return {**answers, **found}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "urls": {"type": "dict", "required": True, "no_log": True},
            "timeout": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, answers=ask_all(module.params["urls"], module.params["timeout"]))


if __name__ == "__main__":
    main()
