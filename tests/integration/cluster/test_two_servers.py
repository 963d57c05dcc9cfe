"""Two servers with one database and one store that both think they own a thread: one wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.load.cluster_load import ClusterLoad
from tests.load.journals import Journal
from tests.servers.postgres_server import Postgres
from tests.support.cluster.ray_cluster import Cluster
from tests.support.sandboxes import IMAGE

pytestmark = pytest.mark.timeout(600)

SEED = os.environ.get("SEED") or os.urandom(4).hex()
_PATIENCE = 120.0


@pytest.fixture
def shared(postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Settings of servers that share a database and a store."""
    store = ThreadedMotoServer("127.0.0.1", 0)
    store.start()
    host, port = store.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "s3-9Kd8Wq2Lm4Xz",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="threads")
    yield {
        "app_env": "production",
        "database_url": postgres_server.database(),
        "snapshots_url": "s3://threads/snapshots",
    }
    store.stop()


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path, shared: dict[str, Any]) -> Callable[..., ClusterLoad]:
    """Describe a server. All of them work in the same thread, and each step is judged: see `Journal`."""
    print(f"SEED={SEED}")
    journals = {"t": Journal()}

    def described(name: str, *, pause: float = 0.1) -> ClusterLoad:
        return ClusterLoad(
            *(tmp_path / name, cluster.address, ["t"]),
            seed=f"{SEED}/{name}",
            image=IMAGE,
            name=name,
            journals=journals,
            settings=shared,
            pause=pause,
        )

    return described


def ended(*servers: ClusterLoad) -> None:
    """End all servers. The last one takes two more steps, which see what the others have kept."""
    *others, last = servers
    for each in others:
        each.close()
    last.go_on(_PATIENCE, more=2)
    last.close()
    for each in servers:
        assert set(each.errors) <= {"ClaimLost", "SandboxDied"}, each.errors
        print(f"{each.steps} steps were acknowledged, {each.lost} lost; errors {dict(each.errors)}")


def test_acknowledged_steps_stay_if_two_servers_work_in_a_thread(server: Callable[..., ClusterLoad]) -> None:
    with server("a") as first, server("b") as second:
        for _ in range(3):
            first.go_on(_PATIENCE)
            second.go_on(_PATIENCE)
        assert first.lost + second.lost, "the servers did not meet"
        ended(first, second)


def test_command_of_a_server_that_has_lost_the_thread_ends_with_claim_lost(
    server: Callable[..., ClusterLoad],
) -> None:
    """The first server is idle when the second one takes over. The journal never has the refused step."""
    with server("a", pause=5) as first:
        first.go_on(_PATIENCE)
        with server("b", pause=5) as second:
            second.go_on(_PATIENCE)
            first.until(lambda: first.errors["ClaimLost"] + second.errors["ClaimLost"], _PATIENCE)
            ended(first, second)
