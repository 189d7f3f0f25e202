# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# How the tests of the lab run a playbook.
sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

from audit_cluster import RESOURCES, Operated, labels_of, node
from audit_plays import Audits

# One per cause; "stranger" is no node of the operator's: somebody labels it by hand.
BROKEN = ("absent", "not-true", "empty", "paused", "tainted", "mig", "crashing", "stranger")


@pytest.fixture(scope="session")
def operated(cluster) -> Operated:
    """A cluster in which all is well: two nodes that stay so, and one for each fault."""
    made = Operated(cluster)
    made.install()
    container = RESOURCES["container"]
    mig = {"mig.capable": "true", "mig.config": "all-disabled", "mig.config.state": "success"}
    more = {"mig": {**mig, "gpu.deploy.mig-manager": "true"}}
    made.add_nodes(
        node("fine-0", labels_of("container"), container),
        node("fine-1", labels_of("vm-passthrough"), RESOURCES["vm-passthrough"]),
        *(node(f"bad-{name}", labels_of("container", **more.get(name, {})), container) for name in BROKEN[:-1]),
        node("bad-stranger", {}, {}),
    )
    made.await_operands()
    return made


@pytest.fixture
def audits(cluster, tmp_path) -> Audits:
    """Runs of the playbook with a root, a HOME and temporary files of the test's own."""
    return Audits(cluster, tmp_path)
