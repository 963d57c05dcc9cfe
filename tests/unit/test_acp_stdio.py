"""Messages of the Agent Client Protocol over descriptors: whole lines, in order, whatever the pieces."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from agent.acp.stdio import StdioTransport


class Ends:
    """The client's ends of two pipes, and the agent's."""

    def __init__(self) -> None:
        self.source, self.to_agent = os.pipe()
        self.from_agent, self.sink = os.pipe()
        self.open = {self.source, self.to_agent, self.from_agent, self.sink}

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors or list(self.open):
            self.open.discard(descriptor)
            os.close(descriptor)

    def line(self) -> dict[str, Any]:
        data = b""
        while not data.endswith(b"\n"):
            data += os.read(self.from_agent, 1)
        message: dict[str, Any] = json.loads(data)
        return message


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


async def end(transport: StdioTransport, ends: Ends) -> None:
    """End the input, and see that this is told."""
    ends.close(ends.to_agent)
    assert await transport.receive() is None
    await transport.close()


async def test_lines_come_whole_and_in_order(ends: Ends) -> None:
    transport = StdioTransport(ends.source, ends.sink)
    os.write(ends.to_agent, b'{"a": 1}\n\n  \n{"b"')
    assert await transport.receive() == {"a": 1}
    large = {"c": "x" * 300_000}

    def write() -> None:
        left = b": 2}\n" + json.dumps(large).encode() + b'\n{"cut off": '
        while left:
            left = left[os.write(ends.to_agent, left) :]

    await asyncio.to_thread(write)
    assert await transport.receive() == {"b": 2}
    assert await transport.receive() == large
    await end(transport, ends)


@pytest.mark.parametrize(
    ("line", "code"),
    [(b"nonsense", -32700), (b"\xff\xfe", -32700), (b"[" * 100_000, -32700), (b"[]", -32600), (b"5", -32600)],
)
async def test_what_is_no_message_is_answered_and_the_next_one_is_read(
    ends: Ends, line: bytes, code: int
) -> None:
    transport = StdioTransport(ends.source, ends.sink)
    writing = asyncio.to_thread(os.write, ends.to_agent, line + b'\n{"a": 1}\n')
    _, message = await asyncio.gather(writing, transport.receive())
    assert message == {"a": 1}
    answer = await asyncio.to_thread(ends.line)
    assert (answer["id"], answer["error"]["code"]) == (None, code)
    await end(transport, ends)


async def test_a_client_that_does_not_read_holds_nothing_up_but_its_own_messages(ends: Ends) -> None:
    transport = StdioTransport(ends.source, ends.sink)
    sending = [asyncio.create_task(transport.send({"n": n, "x": "x" * 50_000})) for n in range(5)]
    await asyncio.sleep(0.1)
    assert not sending[-1].done()
    sending[1].cancel()  # a message is written whole, or the next could not be read
    assert [(await asyncio.to_thread(ends.line))["n"] for _ in range(5)] == list(range(5))
    await asyncio.gather(*sending, return_exceptions=True)
    await end(transport, ends)


async def test_a_client_that_has_gone_is_an_error_of_the_sender(ends: Ends) -> None:
    transport = StdioTransport(ends.source, ends.sink)
    ends.close(ends.from_agent)
    with pytest.raises(ConnectionError):
        await transport.send({"a": 1})
    await end(transport, ends)


async def test_errors_are_cleaned(ends: Ends) -> None:
    transport = StdioTransport(ends.source, ends.sink, lambda error: {**error, "message": "clean"})
    await transport.send({"id": 1, "error": {"code": 5, "message": "secret"}})
    assert ends.line() == {"id": 1, "error": {"code": 5, "message": "clean"}}
    await transport.send({"id": 2, "result": {"message": "kept"}})
    assert ends.line()["result"] == {"message": "kept"}
    await end(transport, ends)
