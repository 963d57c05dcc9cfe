"""Names that get no answer: they cost whoever asks for them their time, and nobody else."""

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

from agent.config import ROOT
from libs.gateway.addresses import resolve_public
from libs.gateway.errors import GatewayError
from libs.gateway.names import Answers, GatewayLoop, NameService
from tests.unit.gateway_loopback import LOOPBACK, nothing_left, ok, web_site

HERE: Answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]


class Resolver:
    """Answers at once, but for names below `dead.test`, which wait until they are let go."""

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


async def test_one_without_an_answer_is_given_up_in_time(resolver: Resolver) -> None:
    names = NameService(resolver, seconds=0.3)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no name service has answered within 0\.3 s"):
        await names.look_up("dead.test", 80)
    assert time.monotonic() - began < 5


async def test_what_the_resolver_says_is_told(resolver: Resolver) -> None:
    names = NameService(resolver)
    assert await names.look_up("site.test", 80) == HERE
    with pytest.raises(socket.gaierror, match="Name or service not known"):
        await names.look_up("none.test", 80)
    assert resolver.asked == ["site.test", "none.test"]


async def test_who_asks_for_the_same_waits_for_the_same_thread(resolver: Resolver) -> None:
    names = NameService(resolver, seconds=0.5)
    dead = [asyncio.create_task(outcome(names, "dead.test")) for _ in range(500)]
    await asyncio.sleep(0.1)
    began = time.monotonic()
    assert await names.look_up("site.test", 80) == HERE
    assert time.monotonic() - began < 0.3
    assert all(isinstance(each, TimeoutError) for each in await asyncio.gather(*dead))
    assert resolver.asked == ["dead.test", "site.test"]


async def test_many_names_of_one_site_hold_up_no_other(resolver: Resolver) -> None:
    """A wildcard allows any number of names, each of which may be without an answer."""
    names = NameService(resolver, seconds=0.5)
    dead = [asyncio.create_task(outcome(names, f"n{number}.dead.test")) for number in range(500)]
    await asyncio.sleep(0.1)
    assert resolver.waiting <= 8
    began = time.monotonic()
    others = await asyncio.gather(*(names.look_up(f"www.site{number}.test", 80) for number in range(50)))
    assert time.monotonic() - began < 0.4
    assert others == [HERE] * 50
    assert all(isinstance(each, TimeoutError) for each in await asyncio.gather(*dead))
    # Those that waited for a turn do not ask after all.
    resolver.let_go.set()
    await asyncio.sleep(0.2)
    assert len(resolver.asked) < 70
    assert await names.look_up("n1.dead.test", 80) == HERE


async def test_one_who_waits_no_more_takes_nothing_from_the_others(resolver: Resolver) -> None:
    names = NameService(resolver)
    first, second = (asyncio.create_task(names.look_up("dead.test", 80)) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    await asyncio.sleep(0.05)
    resolver.let_go.set()
    assert await second == HERE
    assert first.cancelled()


async def test_there_is_an_end_to_the_threads(resolver: Resolver) -> None:
    names = NameService(resolver, seconds=0.5)
    before = threading.active_count()
    dead = [asyncio.create_task(outcome(names, f"x.n{number}-dead.test")) for number in range(200)]
    await asyncio.sleep(0.2)
    assert threading.active_count() - before <= 64
    await asyncio.gather(*dead)


async def test_what_is_said_names_the_host(resolver: Resolver) -> None:
    names = NameService(resolver, seconds=0.2)

    async def lookup(host: str, port: int) -> list[str]:
        return [address[0] for *_, address in await names.look_up(host, port)]

    with pytest.raises(GatewayError, match=r"dead\.test is not found: no name service") as error:
        await resolve_public("dead.test", 443, lookup=lookup)
    assert error.value.status == 504


def test_on_the_loop_of_the_gateway_everything_is_looked_up_so(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of programs, and what the gateway itself fetches for them with httpx."""
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
            assert time.monotonic() - began < 2
            failed = await asyncio.gather(*dead, return_exceptions=True)
            assert {type(each) for each in failed} == {httpx.ConnectTimeout}

    loop = GatewayLoop()
    try:
        loop.run_until_complete(ask())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def test_a_program_ends_although_a_name_is_being_looked_up() -> None:
    code = (
        "import asyncio, time\n"
        "from libs.gateway.names import NameService\n"
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
