# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils import _dump as dump


def node(name, **metadata):
    return {
        "metadata": {"name": name, **metadata},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1", "lastTransitionTime": "1"}]
        },
    }


def entries(*items):
    """What is kept of objects, each of its own kind or a Node."""
    return [dump.entry(item.get("kind", "Node"), "v1", item, with_digest=True) for item in items]


def differences(old, new):
    return dump.differences(dump.digests(entries(*old)), dump.digests(entries(*new)))


def test_render_as_kubectl_does():
    text = dump.render(entries(node("n", managedFields=[1], note="<a> & \u2028\u2029ü", empty={}, none=[])))
    assert text.startswith(
        '{\n    "apiVersion": "v1",\n    "items": [\n        {\n            "apiVersion": "v1",\n            "kind": "Node",\n'
    )
    assert text.endswith('    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')
    assert (
        '"note": "\\u003ca\\u003e \\u0026 \\u2028\\u2029ü"' in text
        and '"empty": {}' in text
        and '"none": []' in text
        and "managedFields" not in text
    )
    assert json.loads(text)["items"][0]["metadata"]["note"] == "<a> & \u2028\u2029ü"


def test_versions_and_heartbeats_are_no_difference():
    later = node("n", resourceVersion="2", managedFields=[2])
    later["status"]["conditions"][0].update(lastHeartbeatTime="2", lastTransitionTime="2")
    assert not any(differences([node("n", resourceVersion="1")], [later]).values())


@pytest.mark.parametrize(
    "path, value",
    [
        ("metadata", {"name": "n", "creationTimestamp": "2"}),
        ("status", {"conditions": [{"type": "Ready", "status": "False"}]}),
        ("spec", {"x": 1}),
    ],
)
def test_all_else_is(path, value):
    assert differences([node("n")], [{**node("n"), path: value}])["changed"] == ["n"]


def pod(phase="Pending", scheduled="True", **status):
    conditions = [{"type": "PodScheduled", "status": scheduled, "lastTransitionTime": "1", "lastProbeTime": None}]
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"nodeName": "a"},
        "status": {"phase": phase, "conditions": conditions, **status},
    }


def changed(old, new):
    return bool(differences([old], [new])["changed"])


def test_the_environment_of_operands_can_be_left_out():
    spec = {"driver": {"enabled": True, "env": [{"name": "A", "value": "SECRET"}]}, "env": [{"value": "SECRET"}]}
    spec["kataSandboxDevicePlugin"] = {"env": [{"name": "P_GPU_ALIAS", "value": "pgpu"}]}
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "SECRET", "note": "x"}
    policy = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
    for kind in ("ClusterPolicy", "NVIDIADriver"):
        text = dump.entry(kind, "nvidia.com/v1", policy, with_digest=False, environment=False).text
        assert "SECRET" not in text and "pgpu" in text and '"enabled": true' in text and '"note"' in text
        assert "SECRET" in dump.entry(kind, "nvidia.com/v1", policy, with_digest=False).text


def test_a_kubelets_images_and_volumes_are_no_difference():
    later = node("n")
    later["status"].update(images=[{"names": ["cuda"]}], volumesInUse=["v"], volumesAttached=[{"name": "v"}])
    assert not changed(node("n"), later)
    later["status"]["allocatable"] = {"nvidia.com/gpu": "4"}
    assert changed(node("n"), later)


def waiting(reason):
    return {
        "containerStatuses": [
            {"name": "c", "restartCount": 0, "state": {"waiting": {"reason": reason, "message": f"{reason} of cuda"}}}
        ]
    }


@pytest.mark.parametrize(
    "old, new",
    [
        (pod(), pod(startTime="1")),
        (pod(**waiting("ErrImagePull")), pod(**waiting("ImagePullBackOff"))),
        (pod(), pod("Running", podIP="10.0.0.2", podIPs=[{"ip": "10.0.0.2"}], hostIP="1.2.3.4")),
    ],
)
def test_what_a_kubelet_does_with_a_placed_pod_is_no_difference(old, new):
    new["status"]["conditions"] = [
        {**new["status"]["conditions"][0], "lastTransitionTime": "2"},
        {"type": "Ready", "status": "True"},
    ]
    for before, after in ((old, new), (new, old)):
        assert not changed(before, after)


@pytest.mark.parametrize(
    "new",
    [
        pod(scheduled="False"),
        pod("Succeeded"),
        pod("Failed"),
        {**pod(), "spec": {"nodeName": "b"}},
        {**pod(), "metadata": {"name": "p", "namespace": "n", "deletionTimestamp": "1"}},
    ],
)
def test_a_decision_an_end_and_another_spec_are(new):
    assert changed(pod(), new)
    message = pod()
    message["status"]["conditions"][0]["message"] = "0/3 nodes are available"
    assert changed(pod(), message)


def test_came_and_went():
    old, new = [node("a"), node("b", namespace="x")], [node("a"), node("b", namespace="y")]
    found = differences(old, new)
    assert found == {"added": ["y/b"], "removed": ["x/b"], "changed": []}
    assert dump.summary("f", found, 2) == "+++ f\n+ y/b\n- x/b\n"


def test_a_summary_stays_short():
    text = dump.summary("f", {"added": [str(index) for index in range(5000)], "removed": [], "changed": []}, 5000)
    assert len(text.splitlines()) == dump.SHOWN + 2 and "4950 more" in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"items": [{}]}',
        '{"kind": "NodeList", "items": []}',
        '{"items": 1}',
        '{"kind": "List", "items": [1]}',
    ],
)
def test_what_is_no_dump_gets_replaced(text):
    assert dump.parse(text) is None


def test_kinds():
    assert [dump.kind_of(text) for text in ("Node", "nodes", "node", "PODS", "secret", "")] == [
        "Node",
        "Node",
        "Node",
        "Pod",
        None,
        None,
    ]


@pytest.mark.parametrize("kind", ["Pod", "DaemonSet"])
@pytest.mark.parametrize("field", ["initContainers", "containers", "ephemeralContainers"])
def test_the_environment_of_containers_can_be_left_out(kind, field):
    secret = {one: ["hunter2"] for one in ("env", "envFrom", "command", "args")}
    spec = {field: [{"name": "main", "image": "i", **secret}]}
    item = {
        "metadata": {"name": "p", "annotations": {dump.LAST_APPLIED: "hunter2", "kept": "yes"}},
        "spec": {"template": {"spec": spec}} if kind == "DaemonSet" else spec,
    }
    text = dump.entry(kind, "v1", item, with_digest=False, environment=False).text
    assert "hunter2" not in text and all(word in text for word in ('"main"', '"i"', '"yes"'))
    assert "hunter2" in dump.entry(kind, "v1", item, with_digest=False).text
