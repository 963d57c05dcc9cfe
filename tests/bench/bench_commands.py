"""Commands: one warm, sixteen and twenty at once, fifty megabytes of output."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil

from libs.backends.docker import DockerExecutionBackend
from tests.bench.measure import Figure, interleaved, memory_grown, timed
from tests.bench.peers import Peers

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
FLOOD = "head -c 50000000 /dev/zero | tr '\\0' x"
CALLERS = 16
EACH = 40
"""Commands of each caller. Callers of a peer run PEER_EACH, because some peers are slow."""
PEER_EACH = 2


def _host(command: str) -> Callable[[], object]:
    return lambda: subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, check=True)


def figures(backend: DockerExecutionBackend, peers: Peers) -> Iterator[Figure]:
    backend.execute("true")
    loop = asyncio.new_event_loop()
    yield _warm(backend, peers, loop)
    yield _callers(backend, peers)
    yield _sleepers(backend, peers, loop)

    flood = interleaved(
        {"host subprocess": _host(FLOOD), "sandbox": lambda: backend.execute(FLOOD)}, rounds=100, warm_up=2
    )
    factor = flood.median("sandbox") / flood.median("host subprocess")
    yield flood.figure("50 MB printed", "at most 2 x host", factor <= 2, note=f"{factor:.2f} x host")
    grown = memory_grown(lambda: backend.execute(FLOOD))
    yield Figure("host memory over idle, 50 MB printed", "MB", {"sandbox": grown}, "at most 8 MB", grown <= 8)

    yield _after_time_out(backend)
    loop.close()


def _warm(backend: DockerExecutionBackend, peers: Peers, loop: asyncio.AbstractEventLoop) -> Figure:
    warm = interleaved(
        {
            "host subprocess": _host("echo hi"),
            "sandbox": lambda: backend.execute("echo hi"),
            "sandbox async": lambda: loop.run_until_complete(backend.aexecute("echo hi")),
        },
        reporting=peers.reporting("run", "echo hi"),
        rounds=200,
    )
    host = warm.median("host subprocess")
    later, ours = warm.median("sandbox async") / host, warm.median("sandbox") / host
    late = warm.percentile("sandbox", 95) / host
    return warm.figure(
        "warm `echo hi`",
        "at most 1.1 x host asynchronously, 1.2 x synchronously, its 95th percentile 2.5 x",
        later <= 1.1 and ours <= 1.2 and late <= 2.5,
        note=f"async {later:.2f} x host, sync {ours:.2f} x, 95th percentile {late:.2f} x",
    )


def _callers(backend: DockerExecutionBackend, peers: Peers) -> Figure:
    """Measure the commands per second of sixteen callers, each with one command after the other.

    Busy cores alone do not show that the cores are the limit, because wasted work is busy too. So the core
    time of a command is compared with its core time for a single caller.
    """
    busy: list[float] = []
    in_crowd: list[float] = []
    by_itself: list[float] = []

    def all_at_once(command: Callable[[], object]) -> None:
        def caller() -> None:
            for _ in range(EACH):
                command()

        with ThreadPoolExecutor(CALLERS) as threads:
            for done in [threads.submit(caller) for _ in range(CALLERS)]:
                done.result()

    def one() -> None:
        backend.execute("echo hi")

    def inside() -> None:
        before = _core_seconds()
        psutil.cpu_percent()
        all_at_once(one)
        busy.append(psutil.cpu_percent())
        in_crowd.append(_core_seconds() - before)

    def alone() -> None:
        before = _core_seconds()
        for _ in range(CALLERS * EACH):
            one()
        by_itself.append(_core_seconds() - before)

    reporting = peers.reporting("crowd", CALLERS, PEER_EACH, "echo hi")
    times = interleaved(
        {
            "host subprocess": lambda: all_at_once(_host("echo hi")),
            "sandbox": inside,
            "one caller": alone,
        },
        reporting=reporting,
        rounds=7,
        warm_up=1,
    )
    rates, spread = {}, {}
    for name in (name for name in times.samples if name != "one caller"):
        commands = CALLERS * (PEER_EACH if name in reporting else EACH)
        rates[name] = commands / times.median(name)
        spread[name] = (commands / times.percentile(name, 95), commands / times.percentile(name, 5))
    share = statistics.median(busy)
    crowded, single = (
        statistics.median(seconds) / (CALLERS * EACH) * 1000 for seconds in (in_crowd, by_itself)
    )
    return Figure(
        f"{CALLERS} callers of `echo hi` at once",
        "commands/s",
        rates,
        "not fewer than as many host threads get, or the cores 95 % busy, at most 1.25 x as long for each",
        rates["sandbox"] >= rates["host subprocess"] or (share >= 95 and crowded <= 1.25 * single),
        spread,
        f"{rates['sandbox'] / rates['host subprocess']:.2f} x host, the cores {share:.0f} % busy with "
        f"{crowded:.2f} ms for each, {single:.2f} where there is one",
    )


def _core_seconds() -> float:
    """Return the busy seconds of all cores since the machine started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _sleepers(backend: DockerExecutionBackend, peers: Peers, loop: asyncio.AbstractEventLoop) -> Figure:
    async def twenty_inside() -> None:
        await asyncio.gather(*(backend.aexecute("sleep 0.5") for _ in range(20)))

    async def twenty_outside() -> None:
        started = [await asyncio.create_subprocess_exec("sleep", "0.5") for _ in range(20)]
        await asyncio.gather(*(process.wait() for process in started))

    crowd = interleaved(
        {
            "host subprocess": lambda: loop.run_until_complete(twenty_outside()),
            "sandbox": lambda: loop.run_until_complete(twenty_inside()),
        },
        reporting=peers.reporting("crowd", 20, 1, "sleep 0.5"),
        rounds=5,
        warm_up=1,
    )
    return crowd.figure(
        "20 concurrent `sleep 0.5`", "at most 0.6 s", crowd.median("sandbox") <= 0.6, unit="s"
    )


def _after_time_out(backend: DockerExecutionBackend) -> Figure:
    """Measure the time from the deadline to the result. By then all processes must be gone."""
    command = "trap '' TERM; for i in 1 2 3 4 5; do (setsid sleep 60 &) ; done; sleep 60"
    late: list[float] = []
    for _ in range(5):
        late.append((timed(lambda: backend.execute(command, timeout=0.5)) - 0.5) * 1000)
        assert backend.execute("pgrep -c sleep").output.strip() == "0"
    return Figure(
        "tree gone after a time-out", "ms", {"sandbox": max(late)}, "at most 500 ms", max(late) <= 500
    )
