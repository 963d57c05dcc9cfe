"""The MCP servers of an installation: connections, packages, and what a prompt says about them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from libs.redaction import SecretFilter
from libs.sandbox import Sandbox
from libs.sandbox.host import core, until_done
from libs.servers.package_folder import PackageFolder
from libs.servers.sandbox_program import MakeSandbox
from libs.servers.server_answers import Answer, CallFailed
from libs.servers.server_config import ServerConfig
from libs.servers.server_connection import Connection
from libs.servers.server_log import ServerLog
from libs.servers.stubs import functions_of, one_line, package_of, summary_of

__all__ = ["Servers"]

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 30.0
"""Longest wait of a prompt for servers that start. The package of a slower server comes when it is ready."""
_AGAIN_SECONDS: Final = 60.0
"""Seconds after which a server that could not be started is tried again."""
_MOST_IN_A_ROW: Final = 5
"""How often the lists are read at once. A server may say each time that they have changed."""
_NO_SECRETS: Final = SecretFilter({})
_MOST_REASON: Final = 300
"""Characters of the reason why a server cannot be used."""


def _no_sandbox(name: str, _: object) -> Sandbox:
    raise CallFailed(f"nothing makes a sandbox for the server {name}")


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a server has said."""

    tools: frozenset[str]
    """What can be called: names of tools, and of `METHODS`."""
    guarded: frozenset[str]
    """Those that are not free."""
    functions: int
    line: str


class Servers:
    """All servers. Starts nothing before `lines` or `call`. Thread-safe.

    Args:
        configs: the servers.
        folder: where the packages are written, for the mount at `/servers`. What programs of servers print
            as errors is in files beside the folder: `<folder>-logs/<name>.log`.
        redact: removes known secrets from what servers say of themselves, and from the logs.
        make: makes the sandbox of a server that runs in one.
    """

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        folder: Path,
        redact: SecretFilter = _NO_SECRETS,
        make: MakeSandbox = _no_sandbox,
    ) -> None:
        self._redact = redact
        self._packages = PackageFolder(folder, [config.name for config in configs])
        logs = folder.with_name(f"{folder.name}-logs")
        self._connections = {
            config.name: Connection(
                config,
                ServerLog(logs / f"{config.name}.log", redact),
                make,
                partial(self._begin, config.name),
            )
            for config in configs
        }
        self._listed: dict[str, _Listed | CallFailed] = {}
        self._starts: dict[str, tuple[float, Future[None]]] = {}
        self._changed: set[str] = set()
        """Servers whose lists have changed while they were read."""
        self._lock = threading.Lock()

    async def lines(self) -> list[str]:
        """Return a line about each server, in the order of the file. Waits for servers that start."""
        for name in self._connections:
            self._begin(name, unless_known=True)
        return [await self._line(name) for name in self._connections]

    async def check(self) -> dict[str, tuple[int, str]]:
        """Connect to each server. Return the number of its functions, or 0 and why there are none."""
        await self.lines()
        checked: dict[str, tuple[int, str]] = {}
        for name, connection in self._connections.items():
            found = await self._found(name)
            if isinstance(found, CallFailed):
                checked[name] = 0, f"{found}. Its log: {connection.log.path}"
            else:
                checked[name] = found.functions, ""
        return checked

    async def is_free(self, server: str, tool: str) -> bool:
        """Return whether programs may call a tool without a declaration.

        Raises:
            CallFailed: there is no such server or tool now, or the server cannot be used.
        """
        return tool not in (await self._listing(server, tool)).guarded

    async def call(
        self, server: str, tool: str, arguments: dict[str, Any], then: Callable[[Answer], Result]
    ) -> Result:
        """Call a tool, or one of `stubs.METHODS`. See `Connection.call` for the arguments.

        Raises:
            CallFailed: see `is_free` and `Connection.call`.
        """
        await self._listing(server, tool)
        return await self._connections[server].call(tool, arguments, then)

    def close(self) -> None:
        """End all connections, and the programs of servers. Blocks. A later call starts them again."""
        threads = [threading.Thread(target=each.close) for each in self._connections.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def _line(self, name: str) -> str:
        found = await self._found(name, wait=True)
        if isinstance(found, CallFailed):  # perhaps in words of the server
            return f"- `servers.{name}` cannot be used now: > {found}"
        return found.line

    async def _listing(self, server: str, tool: str) -> _Listed:
        found = await self._found(server)
        if isinstance(found, CallFailed):
            raise CallFailed(str(found))
        if tool not in found.tools:
            named = ", ".join(sorted(found.tools)[:50])
            raise CallFailed(f"the server has no such tool now; it has {named}")
        return found

    async def _found(self, name: str, *, wait: bool = False) -> _Listed | CallFailed:
        """Return what is known of a server. Starts it, and waits for it: see _WAIT_SECONDS."""
        if name not in self._connections:
            return CallFailed(f"there is no such server; there are {', '.join(self._connections)}")
        begun, ended = self._begin(name, unless_known=True)
        if not ended.done() and (name not in self._listed or not wait):
            await until_done(ended, max(0.0, begun + _WAIT_SECONDS - time.monotonic()))
        return self._listed.get(name) or CallFailed("it is still starting")

    def _begin(self, name: str, *, unless_known: bool = False) -> tuple[float, Future[None]]:
        """Begin to ask a server for its tools, unless that is under way. Return its begin and its end."""
        with self._lock:
            if (start := self._starts.get(name)) is not None:
                begun, ended = start
                failed = isinstance(self._listed.get(name), CallFailed)
                again = time.monotonic() - begun > _AGAIN_SECONDS if failed else not unless_known
                if not ended.done():
                    if not unless_known:
                        self._changed.add(name)
                    return start
                if not again:
                    return start
            self._starts[name] = start = time.monotonic(), core().spawn(self._list(name)).ended
            return start

    async def _list(self, name: str) -> None:
        """Read the lists of a server, and again if they have changed meanwhile."""
        for _ in range(_MOST_IN_A_ROW):
            self._changed.discard(name)
            await self._read(name)
            if name not in self._changed:
                break

    async def _read(self, name: str) -> None:
        connection = self._connections[name]
        try:
            listing = await connection.listing()
            tools, prompts, resources = listing.tools, listing.prompts, listing.resources
            given = connection.config.free
            functions = functions_of(tools, prompts=prompts, resources=resources, free=given)
            files = await asyncio.to_thread(
                package_of, name, tools, prompts=prompts, resources=resources, free=given
            )
            cleaned = {path: self._redact(text) for path, text in files.items()}
            await asyncio.to_thread(self._packages.write, name, cleaned)
            self._listed[name] = _Listed(
                tools=frozenset(each.tool for each in functions),
                guarded=frozenset(each.tool for each in functions if not each.free),
                functions=len(functions),
                line=self._redact(summary_of(name, functions, about=listing.about)),
            )
        except CallFailed as error:
            known = CallFailed(one_line(self._redact(str(error)), _MOST_REASON))
            logger.warning(
                "the MCP server %s cannot be used: %s. Its log: %s", name, known, connection.log.path
            )
            await asyncio.to_thread(self._packages.write_failure, name, str(known))
            self._listed[name] = known
