"""Looks up names in threads, so that a name without an answer does not delay other names."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from libs.gateway.rules import site_of

__all__ = ["GatewayLoop", "NameService"]

_PATIENCE: Final = 8.0
"""Seconds for an answer. C libraries ask the next name server after 5 seconds."""
_AT_ONCE: Final = 64
_OF_ONE_SITE: Final = 4
"""Concurrent lookups of one registered domain."""

Answers = list[tuple[Any, ...]]


class NameService:
    """Looks up names with `getaddrinfo` in threads.

    `getaddrinfo` may block for half a minute, and such a thread cannot be ended. So there are at most 64
    threads, and at most 4 for one registered domain. The threads are daemons, so they do not delay the end of
    the process. Belongs to one event loop.
    """

    def __init__(self, ask: Callable[..., Answers] | None = None, *, seconds: float = _PATIENCE) -> None:
        """`ask`: replaces `socket.getaddrinfo`; `seconds`: the time-out of a caller."""
        self._ask = ask
        self._seconds = seconds
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._all = asyncio.Semaphore(_AT_ONCE)
        self._under_way: set[asyncio.Future[Answers]] = set()

    async def look_up(self, host: str | bytes | None, port: Any, **hints: int) -> Answers:
        """Return the result of `socket.getaddrinfo`.

        Raises:
            TimeoutError: no answer, or no free thread, in time.
            OSError: the name does not exist, or there is no name service.
        """
        if isinstance(host, bytes):  # HTTP clients pass bytes
            host = host.decode("ascii")
        ask = partial(self._ask or socket.getaddrinfo, host, port, **hints)
        try:
            async with asyncio.timeout(self._seconds):
                # shield: the slot is free only when the thread has ended.
                return await asyncio.shield(await self._begin(str(host), ask))
        except TimeoutError:
            raise TimeoutError(f"no name service has answered within {self._seconds:g} s") from None

    async def _begin(self, host: str, ask: Callable[[], Answers]) -> asyncio.Future[Answers]:
        """Start a thread when a slot is free."""
        # The list of registered domains is loaded only when lookups wait.
        site = site_of(host) if len(self._under_way) >= _OF_ONE_SITE else host
        turn = self._turns.setdefault(site, asyncio.Semaphore(_OF_ONE_SITE))
        with ExitStack() as stack:
            for each in (turn, self._all):
                await each.acquire()
                stack.callback(each.release)
            answer: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
            # No executor, because the interpreter would wait for its threads at exit.
            thread = threading.Thread(target=_look_up, args=(answer, ask), name="name-lookup", daemon=True)
            thread.start()
            self._under_way.add(answer)
            stack.callback(self._under_way.discard, answer)
            ended = stack.pop_all()
        answer.add_done_callback(lambda _: ended.close())
        return answer


def _look_up(answer: asyncio.Future[Answers], ask: Callable[[], Answers]) -> None:
    deliver: Callable[[], None]
    try:
        deliver = partial(answer.set_result, ask())
    except Exception as error:  # noqa: BLE001 - passed on to the caller
        deliver = partial(_fail, answer, error)
    with suppress(RuntimeError):  # the loop is closed
        answer.get_loop().call_soon_threadsafe(deliver)


def _fail(answer: asyncio.Future[Answers], error: Exception) -> None:
    answer.set_exception(error)
    answer.exception()  # marks the error as retrieved, because the caller may be gone


class GatewayLoop(asyncio.SelectorEventLoop):
    """The event loop of the gateway. All name lookups on it, also of HTTP clients, use `NameService`."""

    def __init__(self) -> None:
        super().__init__()
        self._names = NameService()

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        return await self._names.look_up(host, port, family=family, type=type, proto=proto, flags=flags)
