"""The host's end of a sandbox's connections: flow control, ends, and invalid frames of a supervisor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.sandbox.host.channel import Channel, EgressStream, Receiver
from libs.sandbox.wire.frames import INSIDE, NET_WINDOW, Decoder, Fd, Frame, Kind, encode
from tests.fuzz.targets import Wire
from tests.support.hostile_wire import WITHIN, connected
from tests.support.waiting import eventually

FIRST = INSIDE | 1
UNKNOWN = bytes(4)
"""A program whose request the supervisor does not know."""


class Recorder:
    """A receiver that records its events."""

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
        self.unreached: set[str] = set()
        self.refuses = refuses
        self.served: list[Recorder] = []

    def belongs_to(self, sandbox: str, thread: str) -> None:
        pass

    def refuse(self, refused: Callable[[], set[str] | None]) -> None:
        pass

    def declare(self, request: int, uses: Collection[str]) -> None:
        pass

    def connected(self, stream: EgressStream) -> Receiver | None:
        if self.refuses:
            return None
        self.served.append(Recorder(stream))
        return self.served[-1]


def say(wire: Wire, channel: Channel, *frames: tuple[int, int, bytes]) -> None:
    """Send frames and wait until the host has read them."""
    wire.say(b"".join(encode(*frame) for frame in frames))
    call = channel.request(b"are you done")
    wire.say(encode(call.stream, Kind.END, b"\0\1"))
    call.future.result(WITHIN)


def sent(wire: Wire) -> list[Frame]:
    """Return the frames that the host sent on connections."""
    return [frame for frame in Decoder().feed(bytes(wire.sent)) if frame[0] & INSIDE]


def test_connection_has_the_request_of_its_program() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, (7).to_bytes(4, "big")))
        assert [receiver.stream.request for receiver in door.served] == [7]


def test_data_credit_and_end_in_both_directions() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.DATA, b"hello"))
        [receiver] = door.served
        receiver.stream.send(b"hi there")
        receiver.stream.grant(5)
        receiver.stream.end()
        receiver.stream.end()
        say(
            wire,
            channel,
            (FIRST, Kind.CREDIT, (7).to_bytes(4, "big")),
            (FIRST, Kind.DATA, b"more"),
            (FIRST, Kind.END, b""),
        )
        receiver.stream.send(b"too late")
        receiver.stream.abort()
        assert receiver.events == [("came", b"hello"), ("room", 7), ("came", b"more"), ("ended", None)]
        assert sent(wire) == [
            (FIRST, Kind.DATA, b"hi there", Fd.OUT),
            (FIRST, Kind.CREDIT, b"\0\0\0\5", Fd.OUT),
            (FIRST, Kind.END, b"", Fd.OUT),
        ]
    assert receiver.events[-1] == ("ended", None)  # no break after the end


@pytest.mark.parametrize("door", [None, Door(refuses=True)], ids=["no door", "a closed one"])
def test_connection_is_refused_without_a_gateway(door: Door | None) -> None:
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.DATA, b"hello"))
        assert sent(wire) == [(FIRST, Kind.CANCEL, b"", Fd.OUT)]


def test_old_connection_sends_nothing_on_a_reused_stream_number() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(
            wire, channel, (FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.CANCEL, b""), (FIRST, Kind.OPEN, UNKNOWN)
        )
        old, new = door.served
        old.stream.send(b"old")
        new.stream.send(b"new")
        assert sent(wire) == [(FIRST, Kind.DATA, b"new", Fd.OUT)]


def test_data_beyond_the_window_ends_the_channel() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, (FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.DATA, bytes(NET_WINDOW)))
        [receiver] = door.served
        receiver.stream.grant(10)
        say(wire, channel, (FIRST, Kind.DATA, bytes(10)))
        assert not channel.closed
        wire.say(encode(FIRST, Kind.DATA, b"x"))
        eventually(lambda: channel.closed, WITHIN)
        assert receiver.events[-1] == ("broke off", None)
        assert sum(len(data) for what, data in receiver.events if what == "came") == NET_WINDOW + 10  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "frames",
    [
        [(FIRST, Kind.OPEN, b"\0")],
        [(FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.OPEN, UNKNOWN)],
        [(FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.CREDIT, b"\0\1")],
        [(FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.CREDIT, b"\0\0\0\1")],
        [(FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.END, b""), (FIRST, Kind.DATA, b"x")],
        [(FIRST, Kind.OPEN, UNKNOWN), (FIRST, Kind.LIVE, b"x")],
    ],
    ids=[
        "short request",
        "begun twice",
        "short credit",
        "credit for nothing",
        "after its end",
        "what no connection has",
    ],
)
def test_invalid_frames_end_the_channel(frames: list[tuple[int, int, bytes]]) -> None:
    with connected(Door()) as (wire, channel):
        wire.say(b"".join(encode(*frame) for frame in frames))
        eventually(lambda: channel.closed, WITHIN)


def test_at_most_1024_connections_are_open() -> None:
    door = Door()
    with connected(door) as (wire, channel):
        say(wire, channel, *((INSIDE | number, Kind.OPEN, UNKNOWN) for number in range(1, 1_100)))
        assert len(door.served) == 1_024
        assert {kind for _, kind, _, _ in sent(wire)} == {Kind.CANCEL}
        assert len(sent(wire)) == 1_099 - 1_024


NUMBERS = st.sampled_from([FIRST, FIRST + 1, INSIDE, 0xFFFF_FFFF])
HOSTILE = st.tuples(NUMBERS, st.integers(Kind.OPEN, Kind.IDLE), st.binary(max_size=8))


@settings(max_examples=50, deadline=None)
@given(st.lists(HOSTILE, max_size=15), st.booleans())
def test_hostile_connection_frames_do_not_disturb_commands(
    frames: list[tuple[int, int, bytes]], refuses: bool
) -> None:
    """Every accepted connection gets exactly one end."""
    door = Door(refuses=refuses)
    with connected(door) as (wire, channel):
        call = channel.request(b"ask")
        wire.say(b"".join(encode(*frame) for frame in frames))
        wire.say(encode(call.stream, Kind.END, b"\0\1"))
        assert call.future.exception(WITHIN) is None or channel.closed
    for receiver in door.served:
        assert [what for what, _ in receiver.events].count("broke off") == 1
