"""A cluster that is full: the wait, the error, places that become free, reservations and spares."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import ray
from ray.util.placement_group import placement_group_table

from libs.backends.docker import require_image
from libs.sandbox.cluster import Cluster, ClusterPool, ClusterSandbox, node_reports, ray_client
from libs.sandbox.docker import THREAD_LABEL
from libs.sandbox.errors import ClusterFull, ClusterUnavailable
from tests.support.commands.engines import Engines
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

PLACES = 8
"""Sandboxes for which the two nodes have room."""


@pytest.fixture
def taken(joined: Cluster) -> Iterator[ExitStack]:
    """Takes all places but one. `close` gives them back."""
    with ExitStack() as stack:
        for _ in range(PLACES - 1):
            stack.callback(joined.place().free)
        yield stack


@pytest.fixture
def make(joined: Cluster, name: str) -> Callable[..., ClusterSandbox]:
    return partial(ClusterSandbox, joined, image=IMAGE, name=name)


def hasty(joined: Cluster, **reservations: float) -> Cluster:
    """Return the cluster, with a short wait for a place."""
    return Cluster(joined.address, partial(require_image, name=IMAGE), wait_seconds=1, **reservations)  # type: ignore[arg-type]


def waiting() -> int:
    """Return the number of starts that wait for a place."""
    return sum(each["state"] == "PENDING" for each in placement_group_table().values())


class TestFull:
    def test_start_waits_and_then_says_what_is_full(
        self, joined: Cluster, make: Callable[..., ClusterSandbox], taken: ExitStack, name: str
    ) -> None:
        with make() as last, ClusterSandbox(hasty(joined), image=IMAGE, name=name) as late:
            assert last.run("echo on").output == "on\n"
            begun = time.monotonic()
            with pytest.raises(ClusterFull, match=f"full for 1 seconds: its {PLACES} places") as raised:
                late.run("true")
            assert time.monotonic() - begun >= 1
            assert "Add a node" in raised.value.hint
            assert last.run("echo on").output == "on\n"
            eventually(lambda: waiting() == 0)

    @pytest.mark.parametrize("how", ["closed", "killed", "idle"])
    def test_start_takes_the_place_of_a_sandbox_that_ends(
        self, make: Callable[..., ClusterSandbox], taken: ExitStack, engines: Engines, how: str
    ) -> None:
        idle_seconds = 1 if how == "idle" else 0
        with make(idle_seconds=idle_seconds) as last, make() as late, ThreadPoolExecutor() as pool:
            last.run("true")
            answer = pool.submit(late.run, "echo on")
            eventually(lambda: waiting() == 1 or answer.done())
            if how == "closed":
                last.close()
            elif how == "killed":
                engines.kill(last.container_name)
            assert answer.result(120).output == "on\n"
            assert not last.running

    @pytest.mark.parametrize("resource", ["cpus", "memory"])
    def test_reservations_fill_a_node(self, joined: Cluster, resource: str) -> None:
        """Each reserves more than half of a node, so that two fill both nodes."""
        joined.place().free()  # this process is in the cluster now
        nodes = [node["Resources"] for node in ray.nodes() if node["Resources"].get("sandbox")]
        most = {"cpus": max(each["CPU"] for each in nodes), "memory": max(each["memory"] for each in nodes)}
        reserved = {"cpus": 0.0, "memory": 0.0} | {resource: most[resource] * 0.6}
        with ExitStack() as stack:
            found = [ray_client.new_place(None, seconds=60, **reserved) for _ in nodes]  # type: ignore[arg-type]
            for each in found:
                assert each
                stack.callback(ray_client.free_place, each[0])
            assert len({each[1] for each in found if each}) == len(nodes)
            with pytest.raises(ClusterFull, match="the memory and the processors") as raised:
                hasty(joined, **reserved).place()
            assert "SANDBOX_RESERVE_MEMORY" in raised.value.hint
            joined.place().free()  # without a reservation there is room


def test_room_that_comes_too_late_is_given_back(joined: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the head had not answered in time, and answered later."""
    joined.place().free()  # this process is in the cluster now
    before = placement_group_table().keys()
    monkeypatch.setattr(ray_client, "ASK_SECONDS", -1.0)
    with pytest.raises(ClusterUnavailable, match="has not answered"):
        ray_client.new_place(None, memory=0, cpus=0, seconds=1)

    def given_back() -> bool:
        late = [each for key, each in placement_group_table().items() if key not in before]
        return [each["state"] for each in late] == ["REMOVED"]

    eventually(given_back)


def test_closed_cluster_leaves_no_thread(joined: Cluster) -> None:
    own = hasty(joined)
    before = threading.enumerate()
    own.place().free()
    assert "cluster-watch" in [each.name for each in threading.enumerate() if each not in before]
    own.close()
    eventually(
        lambda: "cluster-watch" not in [each.name for each in threading.enumerate() if each not in before]
    )
    own.place().free()  # a closed cluster can be used again
    own.close()


class TestSpares:
    @pytest.fixture
    def pool(self, joined: Cluster, make: Callable[..., ClusterSandbox]) -> Iterator[ClusterPool]:
        """A pool with a spare for each node in use."""

        def of_thread(thread: str | None, **more: Any) -> ClusterSandbox:
            return make(labels={THREAD_LABEL: thread} if thread else {}, **more)

        made = ClusterPool(joined, of_thread, warm=1)
        yield made
        made.close()

    def test_each_node_with_sandboxes_keeps_a_spare(self, joined: Cluster, pool: ClusterPool) -> None:
        with ExitStack() as filling:
            started(pool, "one")
            eventually(lambda: spares(pool) == [1])
            [first] = joined.sandboxes()
            for _ in range(2):  # the first node gets full
                filling.callback(joined.place(first).free)
            started(pool, "two")  # takes the spare
            started(pool, "three")
            eventually(lambda: spares(pool) == [0, 1])
        started(pool, "four")  # takes the spare of the second node
        eventually(lambda: spares(pool) == [1, 1])
        for thread in ("three", "four"):
            pool.sandbox_for(thread).close()
        started(pool, "five")
        eventually(lambda: spares(pool) == [1])
        assert joined.sandboxes().keys() == {first}

    def test_dead_spare_is_not_used(self, pool: ClusterPool, name: str, engines: Engines) -> None:
        first = started(pool, "one").container_name
        [ready] = pool._spares._ready.values()
        eventually(lambda: len(ready) == 1)
        [spare] = engines.containers(name).keys() - {first}
        engines.kill(spare)
        eventually(lambda: spare not in engines.containers(name))
        assert started(pool, "two").container_name != spare

    def test_thread_is_served_before_a_spare(self, pool: ClusterPool, taken: ExitStack) -> None:
        started(pool, "one")  # in the last place, so its node has no room for a spare
        [ready] = pool._spares._ready.values()
        eventually(ready._spares[0].done)
        with ThreadPoolExecutor() as threads:
            second = threads.submit(started, pool, "two")
            eventually(lambda: waiting() == 1)
            pool.sandbox_for("one").close()
            second.result(120)

    def test_thread_that_waited_in_vain_gets_a_spare_that_came_up_meanwhile(
        self, joined: Cluster, pool: ClusterPool, taken: ExitStack, make: Callable[..., ClusterSandbox]
    ) -> None:
        spare = make()
        spare.start()
        late = ClusterSandbox(hasty(joined), image=IMAGE, name=spare.name, spares=Late(spare))
        assert late.run("echo on").output == "on\n"
        late.close()


class Late:
    """A spare that is ready at the second look."""

    def __init__(self, spare: ClusterSandbox) -> None:
        self._looks = [spare, None]

    def take(self) -> ClusterSandbox | None:
        return self._looks.pop()

    def fill(self) -> None:
        pass


def started(pool: ClusterPool, thread: str) -> ClusterSandbox:
    sandbox = pool.sandbox_for(thread)
    assert sandbox.run("echo on").output == "on\n"
    return sandbox


def spares(pool: ClusterPool) -> list[int]:
    """Return the number of spares on each node with containers, in ascending order."""
    reports = [each.sandboxes for each in node_reports(pool.cluster.address) if each.sandboxes]
    return sorted(sum(not each.thread for each in listed) for listed in reports)
