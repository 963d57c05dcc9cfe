"""The network of sandboxes on a node: the gateway of the server alone, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import trustme

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.cluster import Cluster, ClusterSandbox
from tests.integration.gateway.test_gateway import (
    authority,
    make_gateway,
    ports,
    test_nothing_else_leads_out,
    test_programs_use_the_proxy_by_default,
)
from tests.support.cluster.ray_cluster import Cluster as Machines
from tests.support.sandboxes import IMAGE

__all__ = ["authority", "ports", "test_nothing_else_leads_out", "test_programs_use_the_proxy_by_default"]


@pytest.fixture(scope="module")
def computer(
    joined: Cluster, ports: dict[str, int], authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerExecutionBackend]:
    gateway = make_gateway(ports)
    sandbox = ClusterSandbox(joined, image=IMAGE, name="test-gateway", egress=gateway.door)
    with DockerExecutionBackend(tmp_path_factory.mktemp("workspace"), sandbox=sandbox) as backend:
        backend.upload_files([("/workspace/site.crt", authority.cert_pem.bytes())])
        yield backend
    gateway.close()


def test_nothing_is_reachable_without_a_gateway(
    make_backend: Callable[[], DockerExecutionBackend], shared_cluster: Machines, ports: dict[str, int]
) -> None:
    """Neither the server's machine, nor the nodes, nor a site."""
    host, _, port = shared_cluster.address.rpartition(":")
    places = [(host, int(port)), ("127.0.0.1", ports["http"])]
    places += [(node.ip, 22) for node in shared_cluster.nodes]
    code = f"""
import socket
for place in {places}:
    try:
        socket.create_connection(place, 5)
        print("reached", place)
    except OSError as error:
        print(error.strerror)
"""
    with make_backend() as backend:
        said = backend.execute(f"env | grep -i proxy; python3 - <<'END'\n{code}\nEND").output.splitlines()
    assert sorted(set(said)) == ["Connection refused", "Network is unreachable"]
    assert len(said) == len(places)
