"""What people see of a cluster: `code-agent sandbox ls` and `code-agent doctor`."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend, require_image
from libs.sandbox.cluster import Cluster, ClusterSandbox, cluster_nodes, node, node_checks
from libs.sandbox.errors import ClusterUnavailable, ImageMissing
from tests.clients.cli_program import Program
from tests.support.cluster.ray_cluster import Cluster as Machines
from tests.support.sandboxes import IMAGE

MakeBackend = Callable[..., DockerExecutionBackend]


@pytest.fixture
def program(tmp_path: Path, shared_cluster: Machines) -> Program:
    """`code-agent` on a machine without an Engine: sandboxes of threads need none there."""
    return Program(
        tmp_path,
        {
            "DOCKER_HOST": "unix:///nonexistent/docker.sock",
            "SANDBOX_CLUSTER": shared_cluster.address,
            "SANDBOX_SCOPE": "thread",
            "SNAPSHOTS_URL": f"file://{tmp_path}/snapshots",
        },
    )


def test_threads_spread_over_the_nodes_and_are_listed(make_backend: MakeBackend, program: Program) -> None:
    with make_backend(scope="thread", warm=1) as backend:
        names: dict[str | None, tuple[str, str]] = {}
        for thread in ("one", "two", "three", "four"):
            sandbox = backend.sandbox_of(thread)
            assert (
                sandbox.run(f"echo {thread} | tee f; ls").output == f"{thread}\ndata\nf\nresults\nscripts\n"
            )
            names[getattr(sandbox, "container_name", None)] = thread, sandbox.node
        assert len({node for _, node in names.values()}) == 2
        rows = json.loads(program.run("sandbox", "ls", "--json").stdout)
        assert {
            row["name"]: (row["thread"], row["node"]) for row in rows if row["state"] == "in use"
        } == names
        assert all(row["memory"] > 1_000_000 for row in rows if row["state"] == "in use")
        assert {row["node"] for row in rows} == {node for _, node in names.values()}
        table = program.run("sandbox", "ls").stdout
        assert all(str(name) in table for name in names)
    rows = json.loads(program.run("sandbox", "ls", "--json").stdout)
    assert [row["state"] for row in rows] == ["no sandbox"] * 2


def test_doctor_checks_each_node(program: Program, shared_cluster: Machines) -> None:
    checks = {each["name"]: each for each in json.loads(program.run("doctor", "--json").stdout)["checks"]}
    assert checks["cluster"]["detail"] == "room for 8 sandboxes on 2 machines"
    for machine in shared_cluster.nodes:
        check = checks[f"node {machine.name} ({machine.ip})"]
        assert check["ok"]
        assert "the image is current, room for 4 sandboxes" in check["detail"]


def test_node_without_the_image_is_named(
    joined: Cluster, shared_cluster: Machines, make_backend: MakeBackend
) -> None:
    lacking, other = shared_cluster.nodes
    check = partial(require_image, name=IMAGE)
    with closing(docker.DockerClient(base_url=lacking.engine.socket)) as client:
        client.api.tag(IMAGE, "kept-for-later")
        client.api.remove_image(IMAGE)
        try:
            found = {each.name: each for each in node_checks(joined.address, check)}
            with pytest.raises(ImageMissing, match=f"On node {lacking.name}") as raised:
                sandbox = ClusterSandbox(joined, image=IMAGE, name="lacks", node=lacking.ray_id())
                sandbox.start()
        finally:
            client.api.tag("kept-for-later", IMAGE)
            client.api.remove_image("kept-for-later")
    assert IMAGE in str(found[f"{lacking.name} ({lacking.ip})"].problem)
    assert "code-agent setup" in found[f"{lacking.name} ({lacking.ip})"].hint
    assert "code-agent setup" in raised.value.hint
    assert found[f"{other.name} ({other.ip})"].problem is None


def test_node_with_other_sources_is_named(
    joined: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the sources of this machine had changed."""
    for module in (cluster_nodes, node):
        monkeypatch.setattr(module, "sources_digest", lambda: "changed")
    check = partial(require_image, name=IMAGE)
    found = node_checks(joined.address, check)
    assert {each.problem for each in found} == {"it has other sources of this project than this machine"}
    assert {each.hint for each in found} == {"Check out the same commit there."}
    changed = Cluster(joined.address, check, wait_seconds=10)
    with pytest.raises(ClusterUnavailable, match="other sources of this project") as raised:
        ClusterSandbox(changed, image=IMAGE, name=name).start()
    assert "git pull" in raised.value.hint


def test_cluster_of_this_machine_is_found(program: Program, shared_cluster: Machines) -> None:
    """By Ray's own variable, because several clusters may run on the machine of the tests."""
    program.environment |= {"SANDBOX_CLUSTER": "auto", "RAY_ADDRESS": shared_cluster.address}
    listed = program.run("sandbox", "ls", "--json")
    assert listed.returncode == 0, listed.stderr
    nodes = {f"{node.name} ({node.ip})" for node in shared_cluster.nodes}
    assert {row["node"] for row in json.loads(listed.stdout)} == nodes


def test_missing_cluster_is_named(program: Program) -> None:
    program.environment |= {"SANDBOX_CLUSTER": "127.0.0.1:1"}
    listed = program.run("sandbox", "ls")
    assert listed.returncode != 0
    assert "No Ray cluster answers at '127.0.0.1:1'" in listed.stderr


def test_silent_head_is_named(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        program.environment |= {"SANDBOX_CLUSTER": address}
        listed = program.run("sandbox", "ls")
    assert listed.returncode != 0
    assert f"No Ray cluster answers at '{address}': timed out" in listed.stderr
