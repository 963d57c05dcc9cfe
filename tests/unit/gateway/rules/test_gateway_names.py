"""Name lookups without an answer delay only the callers that asked for them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent.settings import ROOT
from libs.gateway.dns import Answers, GatewayLoop, NameService
from libs.gateway.rules.addresses import resolve_public
from tests.servers.gateway_loopback import LOOPBACK, nothing_left, until, web_site
from tests.servers.http_messages import ok

HERE: Answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]


class Resolver:
    """A resolver that answers at once; lookups below `dead.test` block until `let_go` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waiting = 0
        self.let_go = threading.Event()

    def __call__(self, host: str, port: int, **hints: int) -> Answers:
        self.asked.append(host)
        if host.endswith("dead.test"):
            self.waiting += 1
            self.let_go.wait(30)
            self.waiting -= 1
        if host == "none.test":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return HERE


@pytest.fixture
def resolver() -> Iterator[Resolver]:
    made = Resolver()
    yield made
    made.let_go.set()


async def outcome(names: NameService, host: str) -> Any:
    try:
        return await names.look_up(host, 80)
    except OSError as error:
        return error


async def test_many_names_of_one_site_delay_no_other_site(resolver: Resolver) -> None:
    """A wildcard allows any number of names that get no answer."""
    names = NameService(resolver)
    dead = [asyncio.create_task(outcome(names, f"n{number}.dead.test")) for number in range(500)]
    await until(lambda: resolver.waiting)
    others = await asyncio.gather(*(names.look_up(f"www.site{number}.test", 80) for number in range(50)))
    assert others == [HERE] * 50
    assert not any(each.done() for each in dead)
    assert resolver.waiting <= 8
    # Cancelled lookups that waited for a slot ask nothing.
    for each in dead:
        each.cancel()
    await asyncio.gather(*dead, return_exceptions=True)
    resolver.let_go.set()
    await asyncio.sleep(0.1)
    assert len(resolver.asked) < 70
    assert await names.look_up("n1.dead.test", 80) == HERE


async def test_lookups_use_at_most_64_threads(resolver: Resolver) -> None:
    names = NameService(resolver, seconds=1)
    dead = [asyncio.create_task(outcome(names, f"x.n{number}-dead.test")) for number in range(200)]
    await until(lambda: len(resolver.asked) == 64)
    await asyncio.sleep(0.05)
    assert len(resolver.asked) == 64
    assert all(isinstance(each, TimeoutError) for each in await asyncio.gather(*dead))
    # Lookups that timed out before they had a slot ask nothing.
    resolver.let_go.set()
    await asyncio.sleep(0.1)
    assert len(resolver.asked) == 64


def test_gateway_loop_uses_the_name_service_for_every_lookup(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both the requests of programs and the gateway's own httpx requests."""
    monkeypatch.setattr(socket, "getaddrinfo", resolver)

    async def ask() -> None:
        async with (
            nothing_left(),
            web_site(ok(b"hello")) as site,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            dead = [
                asyncio.create_task(client.get(f"http://n{number}.dead.test:{site.port}/", timeout=0.5))
                for number in range(50)
            ]
            await asyncio.sleep(0.1)
            began = time.monotonic()
            assert (await client.get(f"http://site.test:{site.port}/")).text == "hello"
            [address] = await resolve_public("other.test", 80, private=LOOPBACK)
            assert address.ip == "127.0.0.1"
            assert await asyncio.to_thread(lambda: "free") == "free"
            assert time.monotonic() - began < 20
            failed = await asyncio.gather(*dead, return_exceptions=True)
            assert {type(each) for each in failed} == {httpx.ConnectTimeout}

    loop = GatewayLoop()
    try:
        loop.run_until_complete(ask())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def test_process_exits_during_a_lookup() -> None:
    code = (
        "import asyncio, time\n"
        "from libs.gateway.dns import NameService\n"
        "async def ask():\n"
        "    await NameService(lambda *_, **__: time.sleep(60), seconds=0.1).look_up('dead.test', 80)\n"
        "try:\n    asyncio.run(ask())\nexcept TimeoutError as error:\n    print(error)\n"
    )
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True
    )
    assert run.stdout == "no name service has answered within 0.1 s\n"
    assert time.monotonic() - began < 30
