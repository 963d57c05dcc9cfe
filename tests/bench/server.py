"""Runs over HTTP beside the graph itself, and beside LangGraph's own route on the same server."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from agent.config import load_settings
from agent.graph import build_graph
from libs.persistence.sqlite import open_checkpointer
from tests.bench.measure import Figure, Times, interleaved
from tests.chat_server import played, serving
from tests.langgraph_server import Server, langgraph_dev

SCRIPT = "- text: Hello.\n"
LITE = json.dumps([{"type": "final", "content": "Hello."}])
CROWD = 100


def figures(root: Path) -> Iterator[Figure]:
    root.mkdir()
    with (
        asyncio.Runner() as runner,
        serving(played) as chat,
        langgraph_dev(root, SCRIPT, OPENAI_LITE_BASE_URL=chat.url, HTTP_RATE="1000000") as server,
    ):
        floor = _Floor(runner, root)
        try:
            yield _one(floor, server)
            yield _peer(floor, server)
            yield _lite(server, chat.url)
            yield _crowd(floor, server)
            yield _lite_crowd(runner, server, chat.url)
        finally:
            floor.close()


class _Floor:
    """The deep agent's graph in this process, with a checkpointer of the same kind."""

    def __init__(self, runner: asyncio.Runner, root: Path) -> None:
        self._runner = runner
        self._opened = AsyncExitStack()
        settings = load_settings(
            None, model=f"scripted:{root / 'script.yaml'}", workspace_dir=root / "workspace"
        )
        saver = runner.run(self._opened.enter_async_context(open_checkpointer(root / "floor.sqlite")))
        self._graph = build_graph(settings=settings, checkpointer=saver)

    def one(self) -> None:
        self._runner.run(self._invoke())

    def crowd(self) -> None:
        self._runner.run(_together(self._invoke))

    def close(self) -> None:
        self._runner.run(self._opened.aclose())

    async def _invoke(self) -> None:
        given = {"messages": [("user", "hello")]}
        config: Any = {"configurable": {"thread_id": str(uuid4())}}
        state = await self._graph.ainvoke(given, config, durability="sync")
        assert state["messages"][-1].text == "Hello."


class _Client:
    """Asks over one connection that is kept, with as little work of its own as there can be."""

    def __init__(self, url: str) -> None:
        parts = httpx.URL(url)
        self._connection = http.client.HTTPConnection(parts.host, parts.port or 80)

    def __call__(self, method: str, path: str, body: Any = None) -> None:
        content = json.dumps(body) if body is not None else None
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said


async def _together(call: Callable[[], Awaitable[object]]) -> None:
    await asyncio.gather(*(call() for _ in range(CROWD)))


def _one(floor: _Floor, server: Server) -> Figure:
    client = _Client(server.url)
    times = interleaved(
        {
            "GET /health": partial(client, "GET", "/health"),
            "graph.ainvoke": floor.one,
            "sandbox": partial(client, "POST", "/run", {"input": "hello"}),
        }
    )
    over = times.median("sandbox") - times.median("graph.ainvoke")
    return times.figure(
        "POST /run, one reply of the model",
        "at most 5 ms over graph.ainvoke",
        over <= 0.005,
        note=f"{over * 1000:.2f} ms over graph.ainvoke",
    )


def _peer(floor: _Floor, server: Server) -> Figure:
    client = _Client(server.url)

    def wait() -> None:
        given = {"messages": [{"role": "user", "content": "hello"}]}
        body = {"assistant_id": "deep_agent", "input": given, "if_not_exists": "create"}
        client("POST", f"/threads/{uuid4()}/runs/wait", body)

    times = interleaved(
        {
            "graph.ainvoke": floor.one,
            "sandbox": partial(client, "POST", "/run", {"input": "hello"}),
            "LangGraph's runs/wait": wait,
        },
        rounds=15,
        warm_up=2,
    )
    faster = times.median("LangGraph's runs/wait") >= times.median("sandbox")
    return times.figure("POST /run beside LangGraph's own route", "not slower", faster)


def _lite(server: Server, model: str) -> Figure:
    client, direct = _Client(server.url), _Client(model)
    request = {"model": "x", "messages": [{"role": "user", "content": LITE}]}
    times = interleaved(
        {
            "the model's server alone": partial(direct, "POST", "/v1/chat/completions", request),
            "sandbox": partial(client, "POST", "/run-lite", {"input": LITE}),
        }
    )
    over = times.median("sandbox") - times.median("the model's server alone")
    return times.figure(
        "POST /run-lite, one reply of the model",
        "at most 5 ms over the model's server",
        over <= 0.005,
        note=f"{over * 1000:.2f} ms over asking the model's server",
    )


def _crowd(floor: _Floor, server: Server) -> Figure:
    with asyncio.Runner() as runner:
        times = interleaved(
            {
                "graph.ainvoke": floor.crowd,
                "sandbox": _posting(runner, f"{server.url}/run", {"input": "hello"}),
            },
            rounds=7,
            warm_up=1,
        )
    return _each(times, f"POST /run, {CROWD} at once", "graph.ainvoke")


def _lite_crowd(runner: asyncio.Runner, server: Server, model: str) -> Figure:
    request = {"model": "x", "messages": [{"role": "user", "content": LITE}]}
    times = interleaved(
        {
            "the model's server alone": _posting(runner, f"{model}/chat/completions", request),
            "sandbox": _posting(runner, f"{server.url}/run-lite", {"input": LITE}),
        },
        rounds=7,
        warm_up=1,
    )
    return _each(times, f"POST /run-lite, {CROWD} at once", "the model's server alone")


def _posting(runner: asyncio.Runner, url: str, body: Any) -> Callable[[], None]:
    async def post_all() -> None:
        limits = httpx.Limits(max_connections=CROWD)
        async with httpx.AsyncClient(timeout=120, limits=limits, trust_env=False) as client:
            answers = await asyncio.gather(*(client.post(url, json=body) for _ in range(CROWD)))
        assert {answer.status_code for answer in answers} == {200}, answers[0].text

    return lambda: runner.run(post_all())


def _each(times: Times, name: str, floor: str) -> Figure:
    over = (times.median("sandbox") - times.median(floor)) / CROWD
    note = (
        f"{over * 1000:.2f} ms over {floor} for each of the {CROWD}, {CROWD} connections made anew included"
    )
    return times.figure(name, "at most 5 ms over the floor for each", over <= 0.005, unit="s", note=note)
