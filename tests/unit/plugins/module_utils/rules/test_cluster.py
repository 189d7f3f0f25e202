# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster import Surroundings, version_told_by
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.cluster_policy import PolicyError, read_policy
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.workload import parse_version
from ansible_collections.gpuwl.sandbox.tests.unit.plugins.module_utils.rules.operator_builders import (
    gpu_cluster,
    operator,
    policy,
    resource_slice,
)
from hypothesis import given
from hypothesis import strategies as st


def surroundings(*told, **given):
    """told: (object, its place as a path)."""
    found = Surroundings(**given)
    for item, path in told:
        found.take(item["kind"], item, path, tuple(path.split("/")) if path else ())
    return found


def at(found, path):
    return found.cluster_at(tuple(path.split("/")))


def test_nothing_is_known_without_anything_beside_the_nodes():
    cluster = at(surroundings(), "dump.json")
    assert (cluster.policy, cluster.version, cluster.version_text) == (None, (26, 7), "")
    assert cluster.sandbox  # somebody has set the labels, so they are taken to count
    assert not cluster.saw_slices and not cluster.gpu_clusters and not cluster.other_policies


def test_each_site_has_its_own_cluster():
    found = surroundings(
        (policy(sandbox=False), "dumps/rome/policy.yaml"),
        (operator("v25.10.1"), "dumps/rome/operator.yaml"),
        (policy(default="vm-vgpu"), "dumps/oslo/all.yaml"),
        (operator("v26.3.3"), "dumps/oslo/all.yaml"),
    )
    rome, oslo = at(found, "dumps/rome/nodes/deep/n.yaml"), at(found, "dumps/oslo/all.yaml")
    assert (rome.sandbox, rome.version, rome.policy_source) == (False, (25, 10), "dumps/rome/policy.yaml")
    assert (oslo.policy.default, oslo.version, oslo.policy_source) == ("vm-vgpu", (26, 3), "dumps/oslo/all.yaml")


def test_the_nearest_speaks_file_before_folder_before_all():
    found = surroundings(
        (policy(default="vm-vgpu"), "a/one.yaml"),
        (policy(default="vm-passthrough"), "a/two.yaml"),
        (policy(), "b/c/three.yaml"),
    )
    assert at(found, "a/one.yaml").policy.default == "vm-vgpu"
    assert at(found, "a/two.yaml").policy.default == "vm-passthrough"
    assert at(found, "b/nodes.yaml").policy.default == "container"
    assert at(found, "z/nodes.yaml").policy is not None  # from everything that was given


def test_what_the_user_gives_stands_above_the_dump():
    found = surroundings(
        (policy(), "d/p.yaml"),
        (operator("v25.10.1"), "d/p.yaml"),
        policy=read_policy(policy(default="vm-vgpu", name="mine")),
        version="26.3",
    )
    cluster = at(found, "d/n.yaml")
    assert (cluster.policy.name, cluster.policy_source) == ("mine", "as given")
    assert (cluster.version, cluster.version_source) == ((26, 3), "as given")
    assert cluster.other_policies == ()


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_policies_the_one_with_a_status_is_followed(order):
    both = [(policy(name="a-second", state=""), "d"), (policy(name="cluster-policy", default="vm-vgpu"), "d")]
    cluster = at(surroundings(*both[::order]), "d")
    assert cluster.policy.name == "cluster-policy"
    assert cluster.other_policies == ("a-second",)


def test_one_policy_that_stands_in_two_files_is_one():
    cluster = at(surroundings((policy(), "d/a"), (policy(), "d/b")), "d/n")
    assert cluster.other_policies == ()


def test_dra_is_told_by_slices_of_its_gpu_driver():
    cluster = at(
        surroundings((resource_slice("n1"), "d"), (resource_slice("n2", "compute-domain.nvidia.com"), "d")), "d"
    )
    assert cluster.slice_nodes == {"n1"}
    assert cluster.saw_slices
    other = at(surroundings((resource_slice("n2", "compute-domain.nvidia.com"), "d")), "d")
    assert other.slice_nodes == set() and other.saw_slices
    assert at(surroundings((gpu_cluster(), "d")), "d").gpu_clusters == ("gpu-cluster",)


def chart(name="gpu-operator", version="v26.3.3"):
    return {"metadata": {"labels": {"helm.sh/chart": f"{name}-{version}"}}}


def images(*names, field="containers", pod=False):
    spec = {field: [{"image": name} for name in names]}
    return {"spec": spec if pod else {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    "item, version",
    [
        (operator("v26.3.3"), "v26.3.3"),
        (operator(labels={}, image="nvcr.io/nvidia/gpu-operator:v26.3.3"), "v26.3.3"),
        (operator(labels={}, image="registry.local:5000/mirror/nvidia/gpu-operator:v25.10.1"), "v25.10.1"),
        (operator(labels={}, image="nvcr.io/nvidia/gpu-operator:v26.3.3@sha256:0123"), "v26.3.3"),
        (operator(labels={}, image="nvcr.io/nvidia/gpu-operator@sha256:0123"), ""),
        (operator(labels={"app": "gpu-operator", "app.kubernetes.io/version": "latest"}, image="x:1"), ""),
        (operator(labels={"olm.owner": "gpu-operator-certified.v26.3.3"}, image="x@sha256:0"), "v26.3.3"),
        (chart(), "v26.3.3"),
        (chart("fake-gpu-operator", "0.2.0"), ""),
        (chart("network-operator", "26.1.0"), ""),
        (chart("node-feature-discovery-chart", "0.17.3"), ""),
        (
            images("nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.10.1", field="initContainers", pod=True),
            "v25.10.1",
        ),
        (
            images("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "nvcr.io/nvidia/gpu-operator:v26.7.0", pod=True),
            "v26.7.0",
        ),
        (images("nvcr.io/nvidia/k8s-device-plugin:v0.20.0"), ""),
        (images("ghcr.io/run-ai/fake-gpu-operator/status-updater:0.2.0"), ""),
        (images("nvcr.io/nvidia/gpu-operator:latest"), ""),
        ({}, ""),
        ({"metadata": None, "spec": None}, ""),
        ({"metadata": {"labels": ["gpu-operator"]}, "spec": {"containers": {"image": 4}, "template": 5}}, ""),
        ({"metadata": {"labels": {"helm.sh/chart": 4}}, "spec": {"containers": [4, {"image": 5}]}}, ""),
    ],
)
def test_the_version_is_found(item, version):
    assert version_told_by(item) == version
    assert not version or parse_version(version)


def test_the_operators_own_deployment_speaks_before_daemon_sets():
    # In the midst of an upgrade the DaemonSets are still those of the old version.
    old = {
        **operator("v25.10.1", kind="DaemonSet"),
        "metadata": {"name": "nvidia-driver", "labels": chart(version="v25.10.1")["metadata"]["labels"]},
    }
    cluster = at(surroundings((old, "d"), (operator("v26.3.3"), "d")), "d")
    assert (cluster.version_text, cluster.version_source) == ("v26.3.3", "Deployment gpu-operator")
    cluster = at(surroundings((old, "d")), "d")
    assert (cluster.version_text, cluster.version_source) == ("v25.10.1", "DaemonSet nvidia-driver")


def pod(version, app="nvidia-operator-validator"):
    labels = {"app": app, **chart(version=version)["metadata"]["labels"]}
    return {"kind": "Pod", "metadata": {"name": app, "labels": labels}, "spec": {}}


def test_the_operators_own_pod_speaks_before_its_operands_and_the_newest_of_these():
    found = [(pod(version), "d") for version in ("v26.3.3", "v25.10.1", "v26.10.0")]
    assert at(surroundings(*found), "d").version_text == "v26.10.0"
    own = (pod("v25.10.1", "gpu-operator"), "d")
    assert at(surroundings(*found, own), "d").version_text == "v25.10.1"
    assert at(surroundings(*found, (operator("v26.3.3"), "d")), "d").version_text == "v26.3.3"


def test_what_an_absent_field_means():
    read = read_policy({"kind": "ClusterPolicy"})
    assert (read.sandbox, read.default, read.mode, read.name) == (False, "container", "kubevirt", "cluster-policy")
    assert read.is_enabled("devicePlugin") and read.is_enabled("migManager")
    assert not any(
        read.is_enabled(one) for one in ("sandboxDevicePlugin", "vgpuManager", "vgpuDeviceManager", "vfioManager")
    )
    assert (read.mig_strategy, read.vgpu_default, read.mig_config_map) == (None, "default", "")
    assert read_policy({"sandboxWorkloads": {"enabled": True}}).sandbox  # the spec alone


@pytest.mark.parametrize(
    "env, aliases, models",
    [
        ([], set(), False),
        ([{"name": "P_GPU_ALIAS", "value": "gpu"}], {"nvidia.com/gpu"}, False),
        ([{"name": "P_GPU_ALIAS", "value": ""}], set(), True),
        ([{"name": "NVSWITCH_ALIAS", "value": ""}], set(), False),
        ([{"name": "NVSWITCH_ALIAS", "value": "sw"}, {"name": "OTHER", "value": "x"}, 4], {"nvidia.com/sw"}, False),
    ],
)
def test_the_aliases_of_kata(env, aliases, models):
    read = read_policy({"kataSandboxDevicePlugin": {"env": env}})
    assert (set(read.kata_aliases), read.kata_models) == (aliases, models)


@pytest.mark.parametrize(
    "spec, words",
    [
        ([], "the ClusterPolicy is []"),
        ({"spec": 4}, "spec is 4"),
        ({"sandboxWorkloads": True}, "sandboxWorkloads is true"),
        ({"sandboxWorkloads": {"enabled": "true"}}, 'sandboxWorkloads.enabled is "true", expected true or false'),
        ({"sandboxWorkloads": {"defaultWorkload": "vm"}}, 'defaultWorkload is "vm", expected one of container,'),
        ({"sandboxWorkloads": {"mode": 4}}, "mode is 4, expected one of kubevirt, kata"),
        ({"mig": {"strategy": "all"}}, 'mig.strategy is "all"'),
        ({"migManager": {"config": {"name": 4}}}, "migManager.config.name is 4, expected a string"),
        ({"migManager": {"config": 4}}, "migManager.config is 4, expected an object"),
    ],
)
def test_a_policy_that_the_api_server_would_not_take(spec, words):
    with pytest.raises(PolicyError) as caught:
        read_policy(spec)
    assert words in str(caught.value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = [
    "metadata",
    "labels",
    "spec",
    "template",
    "containers",
    "image",
    "status",
    "state",
    "driver",
    "nodeName",
    "mode",
]
PATHS += [
    "helm.sh/chart",
    "app",
    "app.kubernetes.io/version",
    "sandboxWorkloads",
    "enabled",
    "mig",
    "env",
    "name",
    "kataSandboxDevicePlugin",
]
OBJECTS = st.recursive(
    ANYTHING,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(PATHS), inner, max_size=5),
    max_leaves=12,
)


@given(
    item=st.dictionaries(st.sampled_from(PATHS), OBJECTS),
    kind=st.sampled_from(sorted({"Pod", "Deployment", "DaemonSet", "ResourceSlice", "GPUCluster", "ClusterPolicy"})),
)
def test_no_object_is_too_strange(item, kind):
    found = Surroundings()
    try:
        found.take(kind, item, "f", ("f",))
    except ValueError as error:
        assert kind == "ClusterPolicy"
        assert "ClusterPolicy" in str(error)
    cluster = found.cluster_at(("f",))
    hash(cluster)
    json.dumps([cluster.version_text, cluster.policy_source])


def test_of_a_hostile_dump_no_more_is_noted_than_could_be_meant():
    surroundings = Surroundings()
    for number in range(2000):
        surroundings.take("ClusterPolicy", policy(name=f"p{number:04d}"), "f", ("f",))
    assert len(surroundings.cluster_at(("f",)).other_policies) < 100
