# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose a kind cluster is, and what stays of a creation that failed. tests/integration/control_plane/test_kind.py has the rest."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _client
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import kind_cluster
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.providers import ClusterError
from kubernetes.config import kube_config

# A kind whose clusters are one file.
KIND = """\
#!/bin/sh
cd "$(dirname "$0")"
case "$1 $2" in
  "get clusters") cat cluster 2>/dev/null || echo "No kind clusters found." >&2 ;;
  "delete cluster") rm cluster ;;
  "create cluster") echo "$4" > cluster; %s ;;
esac
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kind_cluster.KindCluster, "created", lambda _self: [time.time()])
    return kind_cluster.KindCluster(str(tmp_path / "root"), "lab", str(tmp_path / "kubeconfig"))


def have_kind(tmp_path, create):
    (tmp_path / "kind").write_text(KIND % create)
    (tmp_path / "kind").chmod(0o755)


def left(cluster):
    return sorted(path.name for path in cluster.root.iterdir())


def test_a_creation_that_takes_too_long_is_ended_and_cleared_away(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(kind_cluster, "CREATE_LIMIT", 0.6)
    have_kind(tmp_path, "echo ' • Ensuring node image' >&2; sleep 600")
    with pytest.raises(ClusterError) as caught:
        cluster.create(["n"], "", 120)
    assert (
        str(caught.value)
        == "kind could not make the cluster lab; it did not end within 0.01 minutes and said last: • Ensuring node image"
    )
    assert not cluster.is_there() and left(cluster) == ["kind.yaml"]


def test_what_kind_could_not_clear_away_is_remembered(tmp_path, cluster):
    have_kind(tmp_path, "echo 'ERROR: the disk is full' >&2; exit 1")
    with pytest.raises(ClusterError, match="kind could not make the cluster lab; kind says: the disk is full$"):
        cluster.create(["n"], "", 120)
    assert cluster.is_unfinished(None) and left(cluster) == ["kind-lab.being-made", "kind.yaml"]


def test_a_cluster_that_somebody_else_made_meanwhile_is_not_remembered_as_ours(tmp_path, cluster):
    have_kind(tmp_path, """echo 'ERROR: node(s) already exist for a cluster with the name "lab"' >&2; exit 1""")
    with pytest.raises(ClusterError, match="already exist"):
        cluster.create(["n"], "", 120)
    assert cluster.is_there() and left(cluster) == ["kind.yaml"]


def test_what_a_killed_run_left_behind_goes(tmp_path, cluster):
    have_kind(tmp_path, "true")
    (cluster.root / ".kind-old").mkdir(parents=True)
    (cluster.root / ".kind-old" / "kubeconfig.lock").touch()
    cluster.create(["n"], "", 120)
    assert left(cluster) == ["kind-lab.made", "kind.yaml"]
    (cluster.root / ".kind-old").mkdir()
    cluster.delete()
    assert cluster.forget() and not cluster.root.exists()
    assert not cluster.forget()


def test_keys_do_not_stay_in_temporary_files():
    file = Path(kube_config._create_temp_file_with_content("a key"))
    _client.forget_key_files()
    assert not file.exists()


class Nodes:
    """An API server with nodes of these labels."""

    def __init__(self, *labels):
        self.items = [{"metadata": {"name": str(index), "labels": own}} for index, own in enumerate(labels)]

    def list(self, _resource, metadata_only):
        return self.items, "1"


@pytest.mark.parametrize(
    ("api", "note", "made"),
    [
        (None, True, True),
        (None, False, None),
        (Nodes(), True, True),
        (Nodes(), False, None),
        (Nodes({"gpuwl.sandbox/cluster": "lab"}, {"gpuwl.sandbox/cluster": "lab"}), False, True),
        # One that somebody labelled so.
        (Nodes(None, {"gpuwl.sandbox/cluster": "lab"}), True, False),
        (Nodes({"gpuwl.sandbox/cluster": "other"}), True, False),
        (Nodes({}), True, False),
    ],
)
@pytest.mark.parametrize("kind_of_note", ["made", "being_made"])
def test_who_made_a_cluster(cluster, api, note, made, kind_of_note):
    cluster.root.mkdir()
    if note:
        getattr(cluster, kind_of_note).touch()
    assert cluster.made_by_lab(api) is made
    assert cluster.is_unfinished(api) is (bool(made) and note and kind_of_note == "being_made")


@pytest.mark.parametrize(("later", "made"), [(0, True), (600, True), (-30, True), (2000, None), (-600, None)])
def test_a_note_is_about_the_containers_that_began_with_it(cluster, monkeypatch, later, made):
    cluster.root.mkdir()
    cluster.made.touch()
    monkeypatch.setattr(kind_cluster.KindCluster, "created", lambda _self: [time.time() + later])
    assert cluster.made_by_lab(None) is made
