"""Fixtures for tests on a Ray cluster. All of them are marked `cluster` and share one cluster.

Modules `test_same_….py` import tests of other folders. The fixtures below give those tests sandboxes of the
cluster instead of local ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend, SandboxLimits, require_image
from libs.sandbox.cluster import Cluster, ClusterSandbox, Folder
from tests.support.cluster.ray_start import AUTHENTICATION
from tests.support.commands.engines import Engines
from tests.support.sandboxes import IMAGE

if TYPE_CHECKING:
    from tests.support.cluster.ray_cluster import Cluster as Machines

collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]
"""Without the extra `cluster` there is nothing to collect: `make test-cluster` installs the extra."""

ROOT = Path(__file__).parents[3]

os.environ |= AUTHENTICATION  # Ray reads the environment when a test module imports Ray


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests, and leave out imported ones that are for local sandboxes, thorough, or in LEFT_OUT."""
    left_out = []
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("cluster")
            if item.path.name.startswith("test_same_") and isinstance(item, pytest.Function):
                local = hasattr(item, "callspec") and "local" in item.callspec.params.values()
                thorough = item.get_closest_marker("thorough")
                if local or thorough or item.originalname in _left_out(item.module):
                    left_out.append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _left_out(module: ModuleType) -> dict[str, str]:
    """Return names of tests that are about what a cluster has not, each with the reason."""
    left_out: dict[str, str] = getattr(module, "LEFT_OUT", {})
    owners = [module, *(each for each in vars(module).values() if isinstance(each, type))]
    unknown = [name for name in left_out if not any(hasattr(owner, name) for owner in owners)]
    assert not unknown, f"{module.__name__} leaves out tests that do not exist: {unknown}"
    return left_out


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Machines]:
    """Two nodes for all tests. A test uses `cluster`."""
    from tests.support.cluster.ray_cluster import ray_cluster

    with ray_cluster(IMAGE) as running:
        yield running


@pytest.fixture
def cluster(shared_cluster: Machines) -> Machines:
    """Two nodes that are up. What the test before has killed or cut off is brought back."""
    shared_cluster.repair()
    return shared_cluster


@pytest.fixture
def driver(cluster: Machines) -> Iterator[None]:
    """Connect this process to the cluster as a driver. Actors of the test end with the connection."""
    with cluster.driver():
        yield


class _Joined(Cluster):
    """A cluster whose actors stay when a pool closes it, because the start of one takes seconds."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def joined(shared_cluster: Machines) -> Iterator[Cluster]:
    """The cluster for the sandboxes of a module."""
    import ray

    shared_cluster.repair()
    made = _Joined(shared_cluster.address, partial(require_image, name=IMAGE))
    yield made
    Cluster.close(made)
    ray.shutdown()


@pytest.fixture(scope="module")
def engines(shared_cluster: Machines) -> Iterator[Engines]:
    """The Engines of the nodes."""
    clients = [docker.DockerClient(base_url=node.engine.socket) for node in shared_cluster.nodes]
    yield Engines(clients)
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def started(joined: Cluster) -> Iterator[ClusterSandbox]:
    with ClusterSandbox(joined, image=IMAGE, name="behaviour") as made:
        yield made


@pytest.fixture(scope="module")
def sandbox(started: ClusterSandbox) -> ClusterSandbox:
    """One sandbox for a module, whichever kinds a test asks for."""
    return started


@pytest.fixture
def sandbox_with(joined: Cluster) -> Callable[[SandboxLimits], ClusterSandbox]:
    """Makes a sandbox with these limits."""
    return lambda limits: ClusterSandbox(joined, image=IMAGE, name="behaviour", limits=limits)


@pytest.fixture(scope="module")
def backend(joined: Cluster, workspace: Path) -> Iterator[DockerExecutionBackend]:
    """A container with an empty workspace and the project's skills, shared by the tests of a module."""
    skills = {"/skills": Folder(ROOT / "skills")}
    sandbox = ClusterSandbox(joined, image=IMAGE, name="test", read_only=skills)
    with DockerExecutionBackend(workspace, name="test", sandbox=sandbox) as made:
        yield made


@pytest.fixture
def make_backend(joined: Cluster, tmp_path: Path, name: str) -> Callable[..., DockerExecutionBackend]:
    """Makes a backend: in scope `thread` with sandboxes of the cluster, otherwise with one sandbox."""

    def make(*, scope: str = "shared", **options: Any) -> DockerExecutionBackend:
        common = {"image": IMAGE, "name": name}
        if scope == "thread":
            options |= {"scope": scope, "cluster": lambda _: joined, **common}
        else:
            options = {"sandbox": ClusterSandbox(joined, **common, **options), "name": name}
        return DockerExecutionBackend(tmp_path / "workspace", **options)

    return make
