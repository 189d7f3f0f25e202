# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab stays in its own cluster and its own folders, whatever the environment and the variables say."""

from __future__ import annotations

import pytest
from lab_plays import ROOT, run_playbook

ELSEWHERE = {
    "K8S_AUTH_HOST": "https://127.0.0.1:1",
    "K8S_AUTH_CONTEXT": "nope",
    "K8S_AUTH_API_KEY": "nonsense",
    "K8S_AUTH_IMPERSONATE_USER": "nobody",
    "KUBECONFIG": "/nowhere/at/all",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}


@pytest.fixture(scope="module")
def lab(make_lab):
    made = make_lab()
    made.run()
    return made


def test_another_clusters_credentials_and_proxies_change_nothing(lab):
    played = lab.play(environment=ELSEWHERE)
    assert played.rc == 0 and played.changes == 0, played.output


def test_a_namespace_by_hand_deleted_comes_back(lab):
    lab.kubectl("delete", "namespace", "gpu-vm", "--wait=true")
    lab.run()
    assert lab.objects("pods", "-n", "gpu-vm").keys() == {"job-container", "job-cross", "vmi-passthrough", "vmi-vgpu"}


@pytest.mark.parametrize("playbook", ["lab.yml", "teardown.yml"])
@pytest.mark.parametrize("root", ["", "relative", None, 5, "~/gpuwl"])
def test_a_root_that_is_no_absolute_path_is_refused(tmp_path, root, playbook):
    played = run_playbook(playbook, variables={"lab_root": root}, folder=tmp_path)
    assert played.rc != 0 and "lab_root must be an absolute path" in " ".join(played.output.split()), played.output
    assert [path.name for path in tmp_path.iterdir() if path.name != "ansible"] == [] and not (
        ROOT / "relative"
    ).exists()
