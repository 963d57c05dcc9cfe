"""Passes the bytes of a tunnel in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_limits import Meter
from libs.gateway.gateway_streams import Stream

__all__ = ["tunnel"]


async def tunnel(
    near: Stream,
    far: Stream,
    first: bytes,
    *,
    host: str,
    meter: Meter,
    idle: float,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Pass bytes in both directions until both sides have ended. Either side may end first.

    Args:
        first: bytes of the program that were already read.
        check: called before bytes of the program are passed on. Raises GatewayError if they must not be.

    Raises:
        GatewayError: too many bytes, `idle` seconds without a byte, or by `check`.
        OSError: a connection broke off.
    """

    async def upload() -> None:
        data = first
        while data:
            meter.add(went=len(data))
            check()
            await pass_on(data, far)
            data = await near.read()
        far.end()

    async def download() -> None:
        while data := await far.read():
            meter.add(came=len(data))
            await pass_on(data, near)
        near.end()

    async def pass_on(data: bytes, to: Stream) -> None:
        if meter.over:
            raise meter.overrun()
        await to.write(data)

    under_way = {asyncio.create_task(upload()), asyncio.create_task(download())}
    tasks = list(under_way)
    try:
        while under_way:
            if (left := meter.left(idle)) <= 0:
                raise GatewayError(504, f"{host} is cut off: no data for {idle:g} s")
            done, under_way = await asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
