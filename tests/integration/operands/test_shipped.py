# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab of operands as it is shipped: every record to the letter, nothing left behind, and a run that knows nothing of those before."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

ALL = "container-toolkit,device-plugin,driver,gpu-feature-discovery,operator-validator"
RECORDS = {
    "01-one-driver": f"gpu-node-0 {ALL}\ngpu-node-1 none\n",
    "02-label-removed": "gpu-node-0 container-toolkit,device-plugin,driver,gpu-feature-discovery\ngpu-node-1 none\n",
    "03-label-back": f"gpu-node-0 {ALL}\ngpu-node-1 none\n",
    "04-plugin-without-toolkit": f"gpu-node-0 {ALL}\ngpu-node-1 device-plugin\n",
    "05-tainted-node": f"gpu-node-0 {ALL}\ngpu-node-1 device-plugin\ngpu-node-2 none\n",
    "06-one-more-node": f"gpu-node-0 {ALL}\ngpu-node-1 device-plugin\ngpu-node-2 none\ngpu-node-3 {ALL}\n",
}
# What a user would look for in the verdict of each stage, with runs of blanks as one.
VERDICTS = {
    "01-one-driver": [
        "2 nodes with GPUs, 1 with something missing",
        "gpu-node-0 container 5 5",
        "gpu-node-1 container 5 0 label-absent: ",
    ],
    "02-label-removed": [
        "2 nodes with GPUs, 2 with something missing",
        "gpu-node-0 container 5 4 label-absent: operator-validator",
    ],
    "03-label-back": ["2 nodes with GPUs, 1 with something missing", "gpu-node-0 container 5 5"],
    "04-plugin-without-toolkit": [
        "gpu-node-0 container 5 5",
        "gpu-node-1 container 5 1 label-absent: container-toolkit, driver, gpu-feature-discovery, operator-validator",
        "OUT OF ORDER gpu-node-1: device-plugin runs, and container-toolkit, which it needs, does not",
    ],
    "05-tainted-node": [
        "3 nodes with GPUs, 2 with something missing",
        "gpu-node-2 container 5 0 taint-not-tolerated: container-toolkit, device-plugin, driver,",
        "device-plugin says desiredNumberScheduled 2, numberReady 2, but its Pod is due and not Running on 1 more (taint-not-tolerated: gpu-node-2)",
    ],
    "06-one-more-node": [
        "4 nodes with GPUs, 2 with something missing",
        "gpu-node-0, gpu-node-3 container 5 5",
        "gpu-node-1 container 5 1 label-absent: ",
        "gpu-node-2 container 5 0 taint-not-tolerated: ",
        "OUT OF ORDER gpu-node-1: device-plugin runs",
    ],
}


def both(lab):
    """One run that goes through, and one that begins once the first has taken the folder."""
    lock = lab.root / "run.lock"
    stale, end = lock.read_text(), time.monotonic() + 120
    with ThreadPoolExecutor(1) as beside:
        first = beside.submit(lab.run)
        while not first.done() and (not lock.exists() or lock.read_text() in ("", stale)):
            assert time.monotonic() < end, "waited in vain for the run to take the folder"
            time.sleep(0.1)
        return [lab.play(), first.result()][::-1]


@pytest.fixture(scope="module")
def lab(make_lab):
    """A lab after a run that was killed midway, and one that went through; what each left behind is kept."""
    made = make_lab()
    # Ansible itself leaves a folder where it is killed.
    killing = {"GPUWL_KILL_AFTER_CHANGE": "Label the nodes", "TMPDIR": str(made.folder)}
    made.killed = made.play(environment=killing)
    made.running_then = made.processes()
    made.first, made.second = both(made)
    made.left_then, made.processes_then = made.left(), made.processes()
    return made


def test_a_killed_run_is_followed_by_a_clean_one(lab):
    assert lab.killed.rc == -signal.SIGKILL and "KILLED AFTER [Label the nodes]" in lab.killed.output
    assert len(lab.running_then) == 5
    assert (lab.processes_then, lab.left_then) == ([], [])


def test_a_run_beside_another_is_refused_and_does_it_no_harm(lab):
    """That the other went through is what all other tests here see."""
    said = " ".join(lab.second.output.split())
    assert lab.second.rc == 2 and lab.second.changed == []
    assert f"operands_root is {lab.root}, and another run of this playbook, process " in said
    assert "Wait until it has ended, end it, or set operands_root to another folder." in said


@pytest.mark.parametrize("name", RECORDS)
def test_who_runs_what(lab, name):
    assert lab.text(f"out/{name}.txt") == RECORDS[name]


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(lab, name):
    said = " ".join(lab.text(f"out/{name}-audit.txt").split())
    assert [words for words in VERDICTS[name] if words not in said] == []
    assert ("OUT OF ORDER" in said) == (name >= "04")


def test_only_these_records_are_there(lab):
    wanted = [f"{name}{end}" for name in RECORDS for end in (".txt", "-audit.txt")]
    assert sorted(lab.contents()) == sorted([*wanted, "run.json", "stages.json"])


def test_the_run_shows_where_the_number_misleads(lab):
    run = lab.json("out/run.json")
    assert run["schema"] == 1
    assert [stage["record"] for stage in run["stages"]] == list(RECORDS)
    numbers = {stage["name"]: {one["name"]: one for one in stage["daemonsets"]} for stage in run["stages"]}
    assert numbers["tainted-node"]["driver"] == {
        "name": "driver",
        "desired_number_scheduled": 1,
        "number_misscheduled": 0,
        "selected": 2,
        "running": 1,
    }
    assert [
        numbers[name]["operator-validator"]["running"] for name in ("one-driver", "label-removed", "label-back")
    ] == [1, 0, 1]
    out_of_order = [
        (stage["name"], node["node"])
        for stage in run["stages"]
        for node in stage["audit"]["nodes"]
        if node["out_of_order"]
    ]
    assert out_of_order == [(name[3:], "gpu-node-1") for name in RECORDS if name >= "04"]


def test_the_table_at_the_end(lab):
    shown = lab.first.output.partition("Show who ran what")[2]
    assert "label-removed: gpu-node-0 loses nvidia.com/gpu.deploy.operator-validator\n" in shown
    assert "-> missing (label-absent): operator-validator\n" in shown
    assert "-> OUT OF ORDER: device-plugin runs without container-toolkit; missing (label-absent):" in shown
    assert "-> missing (taint-not-tolerated): " in shown


def test_a_check_says_what_would_be_and_touches_nothing(lab):
    before = lab.times()
    same = lab.run("--check", "--diff")
    assert same.changes == 0 and "tainted-node: gpu-node-2 joins with" in same.output
    other = lab.run(
        "--check", "--diff", operands_nodes=[{"name": "gpu-node-0"}, {"name": "gpu-node-1"}, {"name": "gpu-node-9"}]
    )
    assert other.changed == [
        "Say which records of who runs what would be written (what the audit says is not foretold)"
    ]
    assert "+gpu-node-9 none\n" in other.output
    assert (lab.times(), lab.left(), lab.processes()) == (before, [], [])


def test_a_second_run_leaves_every_record_as_it_is(lab):
    contents, times = lab.contents(), lab.times()
    # Some other cluster that the environment knows of must not be met.
    lab.run(environment={"K8S_AUTH_HOST": "https://127.0.0.1:1", "K8S_AUTH_CONTEXT": "nope", "KUBECONFIG": "/nowhere"})
    assert (lab.contents(), lab.times()) == (contents, times)
    assert (lab.left(), lab.processes()) == ([], [])
