"""The host's end of connections from inside: windows, ends, and whatever a supervisor gone wrong may send."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.sandbox.channel import Channel
from libs.sandbox.egress import EgressStream, Receiver
from libs.sandbox.frames import INSIDE, NET_WINDOW, Decoder, Fd, Frame, Kind, encode
from tests.fuzz.targets import READY, Wire

FIRST = INSIDE | 1
WITHIN = 5.0


class Told:
    """What a receiver was told, in order."""

    def __init__(self, stream: EgressStream) -> None:
        self.stream = stream
        self.events: list[tuple[str, object]] = []

    def came(self, data: bytes) -> None:
        self.events.append(("came", data))

    def ended(self) -> None:
        self.events.append(("ended", None))

    def room(self, size: int) -> None:
        self.events.append(("room", size))

    def broke_off(self) -> None:
        self.events.append(("broke off", None))


class Door:
    certificate = b""
    variables: Mapping[str, str] = {}

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.served: list[Told] = []

    def belongs_to(self, sandbox: str, thread: str) -> None:
        pass

    def connected(self, stream: EgressStream) -> Receiver | None:
        if self.refuses:
            return None
        self.served.append(Told(stream))
        return self.served[-1]


@contextmanager
def connected(door: Door | None) -> Iterator[tuple[Wire, Channel]]:
    """A channel that is ready; afterwards its reader has ended, and by no exception."""
    escaped: list[object] = []
    before, threading.excepthook = threading.excepthook, escaped.append
    wire = Wire()
    channel = Channel(wire, door=door)
    try:
        wire.say(READY)
        channel.wait_until_ready(WITHIN)
        yield wire, channel
    finally:
        channel.close()
        threading.excepthook = before
    assert not channel._reader.is_alive()
    assert escaped == []


def say(wire: Wire, channel: Channel, *frames: tuple[int, int, bytes]) -> None:
    """Have the host take these frames before going on."""
    wire.say(b"".join(encode(*frame) for frame in frames))
    call = channel.request(b"are you done")
    wire.say(encode(call.stream, Kind.END, b"\0\1"))
    call.future.result(WITHIN)


def sent(wire: Wire) -> list[Frame]:
    """What went inside on connections."""
    return [frame for frame in Decoder().feed(bytes(wire.sent)) if frame[0] & INSIDE]


def test_both_ends_send_and_end() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, b""), (FIRST, Kind.DATA, b"hello"))
        [told] = door.served
        told.stream.send(b"hi there")
        told.stream.grant(5)
        told.stream.end()
        told.stream.end()
        say(
            wire,
            channel,
            (FIRST, Kind.CREDIT, (7).to_bytes(4, "big")),
            (FIRST, Kind.DATA, b"more"),
            (FIRST, Kind.END, b""),
        )
        told.stream.send(b"too late")
        told.stream.abort()
        assert told.events == [("came", b"hello"), ("room", 7), ("came", b"more"), ("ended", None)]
        assert sent(wire) == [
            (FIRST, Kind.DATA, b"hi there", Fd.OUT),
            (FIRST, Kind.CREDIT, b"\0\0\0\5", Fd.OUT),
            (FIRST, Kind.END, b"", Fd.OUT),
        ]
    assert told.events[-1] == ("ended", None)  # it was over: nothing broke off


@pytest.mark.parametrize("door", [None, Door(refuses=True)], ids=["no door", "a closed one"])
def test_where_nobody_serves_it_is_refused(door: Door | None) -> None:
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, b""), (FIRST, Kind.DATA, b"hello"))
        assert sent(wire) == [(FIRST, Kind.CANCEL, b"", Fd.OUT)]


def test_each_side_can_break_it_off() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, b""), (FIRST + 1, Kind.OPEN, b""))
        one, two = door.served
        one.stream.abort()
        say(wire, channel, (FIRST, Kind.DATA, b"under way"), (FIRST + 1, Kind.CANCEL, b""))
        two.stream.send(b"to nobody")
        assert one.events == []
        assert two.events == [("broke off", None)]
        assert sent(wire) == [(FIRST, Kind.CANCEL, b"", Fd.OUT)]


def test_a_number_can_be_used_again_and_the_old_connection_sends_nothing_on_it() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, b""), (FIRST, Kind.CANCEL, b""), (FIRST, Kind.OPEN, b""))
        old, new = door.served
        old.stream.send(b"old")
        new.stream.send(b"new")
        assert sent(wire) == [(FIRST, Kind.DATA, b"new", Fd.OUT)]


def test_the_window_is_what_may_come() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, b""), (FIRST, Kind.DATA, bytes(NET_WINDOW)))
        [told] = door.served
        told.stream.grant(10)
        say(wire, channel, (FIRST, Kind.DATA, bytes(10)))
        assert not channel.closed
        wire.say(encode(FIRST, Kind.DATA, b"x"))
        _wait_closed(channel)
        assert told.events[-1] == ("broke off", None)
        assert sum(len(data) for what, data in told.events if what == "came") == NET_WINDOW + 10  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "frames",
    [
        [(FIRST, Kind.OPEN, b""), (FIRST, Kind.OPEN, b"")],
        [(FIRST, Kind.OPEN, b""), (FIRST, Kind.CREDIT, b"\0\1")],
        [(FIRST, Kind.OPEN, b""), (FIRST, Kind.CREDIT, b"\0\0\0\1")],
        [(FIRST, Kind.OPEN, b""), (FIRST, Kind.END, b""), (FIRST, Kind.DATA, b"x")],
        [(FIRST, Kind.OPEN, b""), (FIRST, Kind.LIVE, b"x")],
    ],
    ids=["begun twice", "short credit", "credit for nothing", "after its end", "what no connection has"],
)
def test_what_nobody_sends_ends_the_channel(frames: list[tuple[int, int, bytes]]) -> None:
    with connected(Door()) as (wire, channel):
        wire.say(b"".join(encode(*frame) for frame in frames))
        _wait_closed(channel)


def test_there_are_not_more_than_a_thousand() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, *((INSIDE | number, Kind.OPEN, b"") for number in range(1, 1_100)))
        assert len(door.served) == 1_024
        assert {kind for _, kind, _, _ in sent(wire)} == {Kind.CANCEL}
        assert len(sent(wire)) == 1_099 - 1_024


NUMBERS = st.sampled_from([FIRST, FIRST + 1, INSIDE, 0xFFFF_FFFF])
HOSTILE = st.tuples(NUMBERS, st.integers(Kind.OPEN, Kind.IDLE), st.binary(max_size=8))


@settings(deadline=None)
@given(st.lists(HOSTILE, max_size=15), st.booleans())
def test_commands_are_answered_whatever_connections_do(
    frames: list[tuple[int, int, bytes]], refuses: bool
) -> None:
    """Every connection that was served is told of its end once, by both ends or by a break."""
    door = Door(refuses=refuses)
    with connected(door) as (wire, channel):
        call = channel.request(b"ask")
        wire.say(b"".join(encode(*frame) for frame in frames))
        wire.say(encode(call.stream, Kind.END, b"\0\1"))
        assert call.future.exception(WITHIN) is None or channel.closed
    for told in door.served:
        assert [what for what, _ in told.events].count("broke off") == 1


def _wait_closed(channel: Channel) -> None:
    deadline = time.monotonic() + WITHIN
    while not channel.closed and time.monotonic() < deadline:
        time.sleep(0.005)
    assert channel.closed
