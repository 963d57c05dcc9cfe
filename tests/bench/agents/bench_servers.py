"""Calls of an MCP server from a program in the sandbox, beside the same calls made on the host."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import cast

from agent.parts import build_backend, servers_of
from agent.settings import load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.host import blocking
from libs.servers import Servers
from libs.servers.server_answers import as_json
from tests.bench.bench_sandboxes import image, runtime
from tests.bench.measure import Figure, Times, timed

ROUNDS = 100
AT_ONCE = 100
_ASKED = {"timezone": "Europe/Oslo"}
_ONE = f"get_current_time(**{_ASKED})"
_MANY = f"list(pool.map(lambda _: {_ONE}, range({AT_ONCE})))"
_PROGRAM = """
import time
from concurrent.futures import ThreadPoolExecutor
from servers.time import get_current_time
with ThreadPoolExecutor({threads}) as pool:
    begun = time.perf_counter()
    {call}
    print(time.perf_counter() - begun)
"""


def figures(root: Path) -> Iterator[Figure]:
    """Measure with `mcp-server-time`, of the project's packages for development."""
    root.mkdir(parents=True)
    config = root / ".mcp.json"
    command = str(Path(sys.executable).parent / "mcp-server-time")
    config.write_text(json.dumps({"mcpServers": {"time": {"command": command}}}))
    settings = load_settings(
        None,
        workspace_dir=root / "workspace",
        mcp_config=config,
        sandbox_image=image(),
        sandbox_runtime=runtime(),
        sandbox_warm=0,
        egress_rate=1_000_000,
    )
    with chdir(root):
        servers = cast("Servers", servers_of(settings))
        sandbox = cast("DockerExecutionBackend", build_backend(settings).default)
        try:
            blocking(servers.lines)()
            yield _compared(
                "call of an MCP server",
                "at most 3 ms more than on the host",
                3,
                lambda: blocking(_calls)(servers, 1),
                lambda: _inside(sandbox, _ONE),
            )
            yield _compared(
                f"{AT_ONCE} calls of an MCP server at once",
                f"at most {3 * AT_ONCE} ms more than on the host",
                3 * AT_ONCE,
                lambda: blocking(_calls)(servers, AT_ONCE),
                lambda: _inside(sandbox, _MANY),
                rounds=ROUNDS // 10,
            )
        finally:
            sandbox.close()
            servers.close()


def _compared(
    name: str,
    limit: str,
    most_ms: float,
    host: Callable[[], object],
    inside: Callable[[], float],
    *,
    rounds: int = ROUNDS,
) -> Figure:
    """Measure in turns. The program inside measures itself, so the start of the block does not count."""
    samples: dict[str, list[float]] = {"host": [], "sandbox": []}
    for number in range(rounds + 5):
        taken = timed(host), inside()
        if number >= 5:
            for sample, seconds in zip(samples.values(), taken, strict=True):
                sample.append(seconds)
    times = Times(samples)
    more = (times.median("sandbox") - times.median("host")) * 1000
    return times.figure(name, limit, more <= most_ms, note=f"{more:.1f} ms more")


async def _calls(servers: Servers, count: int) -> None:
    calls = (servers.call("time", "get_current_time", _ASKED, as_json) for _ in range(count))
    await asyncio.gather(*calls)


def _inside(sandbox: DockerExecutionBackend, call: str) -> float:
    program = _PROGRAM.format(call=call, threads=AT_ONCE)
    result = sandbox.sandbox.run_python(program, session="bench")
    if result.exit_code:
        raise RuntimeError(result.output)
    return float(result.output)
