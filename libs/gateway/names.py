"""Addresses of names, as the host's own resolver has them; a name without an answer holds up no other."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

__all__ = ["GatewayLoop", "NameService"]

_PATIENCE: Final = 8.0
"""Seconds for an answer: more than the 5 after which C libraries turn to the next name server."""
_AT_ONCE: Final = 64
_OF_ONE_SITE: Final = 4
"""Names of one site, which may have any number of them, that are looked up at once."""

Question = tuple[Any, ...]
Answers = list[tuple[Any, ...]]


class NameService:
    """Looks names up in threads, since the resolver of the C library waits, for half a minute it may be.

    Nobody can end such a thread. So there are 64 at most, of them few of the names below one registrable
    domain, and who asks for the same waits for the same thread: what has no answer keeps the others out
    neither by how often it is asked for, nor by how many names it has. No thread keeps the process from
    ending. Belongs to one event loop.
    """

    def __init__(self, ask: Callable[..., Answers] | None = None, *, seconds: float = _PATIENCE) -> None:
        """Take what is asked, `socket.getaddrinfo` where it is not given, and how long is waited for it."""
        self._ask = ask
        self._seconds = seconds
        self._under_way: dict[Question, asyncio.Future[Answers]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._all = asyncio.Semaphore(_AT_ONCE)

    async def look_up(self, host: str | bytes | None, port: Any, **hints: int) -> Answers:
        """What `socket.getaddrinfo` returns.

        Raises:
            TimeoutError: there was no answer in time, or no turn to ask.
            OSError: there is no such name, or no name service.
        """
        if isinstance(host, bytes):  # as HTTP clients have it
            host = host.decode("ascii")
        question = (host, port, *sorted(hints.items()))
        try:
            async with asyncio.timeout(self._seconds):
                while question not in self._under_way:
                    await self._begin(question, partial(self._ask or socket.getaddrinfo, host, port, **hints))
                # One who waits no more must not take the answer from the others.
                return await asyncio.shield(self._under_way[question])
        except TimeoutError:
            raise TimeoutError(f"no name service has answered within {self._seconds:g} s") from None

    async def _begin(self, question: Question, ask: Callable[[], Answers]) -> None:
        """Ask, once it is this question's turn, unless somebody has asked meanwhile."""
        site = str(question[0])
        if len(self._under_way) >= _OF_ONE_SITE:
            # Here: the list of domains takes a while to read, and most programs ask for few names.
            from libs.gateway.rules import site_of

            site = site_of(site)
        turn = self._turns.setdefault(site, asyncio.Semaphore(_OF_ONE_SITE))
        with ExitStack() as stack:
            for each in (turn, self._all):
                await each.acquire()
                stack.callback(each.release)
            if question in self._under_way:
                return
            answer = self._under_way[question] = asyncio.get_running_loop().create_future()
            stack.callback(self._under_way.pop, question)
            # Not of an executor: the interpreter waits at its end for the threads of those.
            thread = threading.Thread(target=_look_up, args=(answer, ask), name="name-lookup", daemon=True)
            thread.start()
            ended = stack.pop_all()
        answer.add_done_callback(lambda _: ended.close())


def _look_up(answer: asyncio.Future[Answers], ask: Callable[[], Answers]) -> None:
    tell: Callable[[], None]
    try:
        tell = partial(answer.set_result, ask())
    except Exception as error:  # noqa: BLE001 - it is for whoever has asked
        tell = partial(_fail, answer, error)
    with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
        answer.get_loop().call_soon_threadsafe(tell)


def _fail(answer: asyncio.Future[Answers], error: Exception) -> None:
    answer.set_exception(error)
    answer.exception()  # nobody may be left who waits for it


class GatewayLoop(asyncio.SelectorEventLoop):
    """The loop of the gateway: whatever looks a name up on it, HTTP clients too, does it by `NameService`."""

    def __init__(self) -> None:
        super().__init__()
        self._names = NameService()

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        return await self._names.look_up(host, port, family=family, type=type, proto=proto, flags=flags)
