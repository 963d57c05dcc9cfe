"""Commands: one warm, twenty at once, fifty megabytes of output."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.engine import connect
from tests.bench.measure import Figure, interleaved

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
FLOOD = "head -c 50000000 /dev/zero | tr '\\0' x"


def _host(command: str) -> Callable[[], object]:
    return lambda: subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, check=True)


def figures(backend: DockerExecutionBackend) -> Iterator[Figure]:
    backend.execute("true")
    name = backend.sandbox.container_name
    assert name
    client = connect()
    container = client.containers.get(name)
    loop = asyncio.new_event_loop()

    warm = interleaved(
        {
            "host subprocess": _host("echo hi"),
            "sandbox": lambda: backend.execute("echo hi"),
            "sandbox async": lambda: loop.run_until_complete(backend.aexecute("echo hi")),
            "exec_run": lambda: container.exec_run(["bash", "-c", "echo hi"]),
        },
        rounds=100,
    )
    ours, host, peer = (warm.median(key) for key in ("sandbox", "host subprocess", "exec_run"))
    yield warm.figure(
        f"warm `echo hi`: {ours / host:.2f} x host, exec_run {peer / ours:.0f} x slower",
        "at most 1.5 x host, 20 x faster than exec_run",
        ours <= 1.5 * host and peer >= 20 * ours,
    )

    async def twenty_inside() -> None:
        await asyncio.gather(*(backend.aexecute("sleep 0.5") for _ in range(20)))

    async def twenty_outside() -> None:
        started = [await asyncio.create_subprocess_exec("sleep", "0.5") for _ in range(20)]
        await asyncio.gather(*(process.wait() for process in started))

    def twenty_by_exec() -> None:
        with ThreadPoolExecutor(20) as threads:
            for _ in range(20):
                threads.submit(container.exec_run, ["sleep", "0.5"])

    crowd = interleaved(
        {
            "host subprocess": lambda: loop.run_until_complete(twenty_outside()),
            "sandbox": lambda: loop.run_until_complete(twenty_inside()),
            "exec_run": twenty_by_exec,
        },
        rounds=7,
        warm_up=1,
    )
    yield crowd.figure("20 concurrent `sleep 0.5`", "at most 0.6 s", crowd.median("sandbox") <= 0.6, unit="s")

    flood = interleaved(
        {"host subprocess": _host(FLOOD), "sandbox": lambda: backend.execute(FLOOD)}, rounds=20, warm_up=2
    )
    factor = flood.median("sandbox") / flood.median("host subprocess")
    yield flood.figure(f"50 MB printed: {factor:.2f} x host", "at most 2 x host", factor <= 2)
    grown = _memory_grown(backend)
    yield Figure("host memory over idle, 50 MB printed", "MB", {"sandbox": grown}, "at most 8 MB", grown <= 8)

    yield _after_time_out(backend)
    loop.close()
    client.close()


def _memory_grown(backend: DockerExecutionBackend) -> float:
    """Peak resident memory of this process during a flood, over what it was just before, in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, proc(5)
    before = _status("VmRSS")
    backend.execute(FLOOD)
    return (_status("VmHWM") - before) / 1024


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))


def _after_time_out(backend: DockerExecutionBackend) -> Figure:
    """How long after the deadline the result is there; by then the tree is gone."""
    late: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        backend.execute(
            "trap '' TERM; for i in 1 2 3 4 5; do (setsid sleep 60 &) ; done; sleep 60", timeout=0.5
        )
        late.append((time.perf_counter() - begun - 0.5) * 1000)
        assert backend.execute("pgrep -c sleep").output.strip() == "0"
    return Figure(
        "tree gone after a time-out", "ms", {"sandbox": max(late)}, "at most 500 ms", max(late) <= 500
    )
