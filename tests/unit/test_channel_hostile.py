"""Whatever the other end of a channel sends, the host answers every call, typed, and holds no more memory."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.gateway.redaction import MARK, SecretFilter
from libs.sandbox.call import Answer, Call
from libs.sandbox.channel import Channel
from libs.sandbox.errors import SandboxBusy, SandboxDied
from libs.sandbox.frames import ANSWER, CHUNK, EARLY, HEADER, MOST_CONTENT, Ending, Fd, Frame, Kind, encode
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.messages import OutputReport, RunReport
from libs.sandbox.protocol import FileFailed
from libs.sandbox.results import file_result, run_result
from tests.fuzz.targets import READY, Wire

DONE = ANSWER.pack(Ending.DONE, True)
WITHIN = 5.0
SECRET = b"sk-proj-Ab3dEfGhIjKlMnOpQrStUvWx"


@contextmanager
def connected() -> Iterator[tuple[Wire, Channel]]:
    """A channel that is ready; afterwards its reader has ended, and by no exception."""
    escaped: list[object] = []
    before, threading.excepthook = threading.excepthook, escaped.append
    wire = Wire()
    channel = Channel(wire)
    try:
        wire.say(READY)
        channel.wait_until_ready(WITHIN)
        yield wire, channel
    finally:
        channel.close()
        threading.excepthook = before
    assert not channel._reader.is_alive()
    assert escaped == []


@pytest.mark.parametrize(
    "frame",
    [
        (1, Kind.END, b"", Fd.OUT),
        (1, Kind.END, b"\0", Fd.OUT),
        (1, Kind.END, bytes([Ending.WAITED + 1, 1]), Fd.OUT),
        (1, Kind.CREDIT, b"", Fd.OUT),
        (1, Kind.CREDIT, b"\xff" * 3, Fd.OUT),
        (1, Kind.CREDIT, b"\xff" * 5, Fd.OUT),
    ],
    ids=["end without answer", "end cut", "unknown ending", "no credit", "short credit", "long credit"],
)
def test_a_frame_that_is_malformed_ends_the_connection(frame: Frame) -> None:
    with connected() as (wire, channel):
        first, second = channel.request(b"one", content=b"x"), channel.request(b"two")
        wire.say(encode(*frame))
        for call in (first, second):
            with pytest.raises(SandboxDied):
                call.future.result(WITHIN)
        with pytest.raises(SandboxDied):
            channel.request(b"three")


@pytest.mark.parametrize(
    "frame",
    [
        (99, Kind.END, DONE, Fd.OUT),
        (2**32 - 1, Kind.DATA, b"x", Fd.ERR),
        (0, Kind.END, DONE, Fd.OUT),
        (0, Kind.DATA, b"x", Fd.OUT),
        (1, Kind.OPEN, b"x", Fd.OUT),
        (1, Kind.CANCEL, b"", Fd.OUT),
        (1, Kind.IDLE, b"", Fd.OUT),
    ],
)
def test_a_frame_for_nobody_changes_nothing(frame: Frame) -> None:
    with connected() as (wire, channel):
        call = channel.request(b"one")
        wire.say(encode(*frame) + encode(1, Kind.DATA, b"kept") + encode(1, Kind.END, DONE + b"body"))
        assert call.future.result(WITHIN) == Answer(Ending.DONE, b"body")
        assert call.data[Fd.OUT] == b"kept"


def test_what_follows_an_end_is_dropped() -> None:
    with connected() as (wire, channel):
        call = channel.request(b"one")
        wire.say(encode(1, Kind.END, DONE) + encode(1, Kind.DATA, b"late") + encode(1, Kind.END, DONE + b"2"))
        assert call.future.result(WITHIN) == Answer(Ending.DONE, b"")
        second = channel.request(b"two")
        wire.say(encode(second.stream, Kind.END, DONE))
        second.future.result(WITHIN)
        assert call.data[Fd.OUT] == b""


@pytest.mark.parametrize(
    "more", [(Kind.TAIL, DONE), (Kind.LIVE, DONE), (None, ANSWER.pack(Ending.LOST, False))]
)
def test_a_secret_that_is_shown_to_its_middle_is_one(more: tuple[int | None, bytes]) -> None:
    """What was held back of it when the rest came where nobody looks, or not at all."""
    live: list[bytes] = []
    kind, answer = more
    with connected() as (wire, channel):
        channel.redact = SecretFilter({"KEY": SECRET.decode()})
        call = channel.request(b"one", on_output=live.append)
        wire.say(encode(1, Kind.DATA, b"key: " + SECRET[:20]))
        if kind is not None:
            wire.say(encode(1, kind, SECRET[20:]))
        wire.say(encode(1, Kind.END, answer))
        call.future.result(WITHIN)
    assert b"".join(live).replace(MARK, b"") == b"key: "


def test_a_huge_credit_sends_the_content_once() -> None:
    content = bytes(3 * CHUNK + 1)
    with connected() as (wire, channel):
        call = channel.request(b"one", content=content)
        wire.sent.clear()
        wire.say(encode(1, Kind.CREDIT, b"\xff" * 4) * 3 + encode(1, Kind.END, DONE))
        call.future.result(WITHIN)
        assert len(wire.sent) == len(content) - EARLY + 3 * HEADER.size


def test_more_content_than_is_ever_asked_for_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.sandbox.call.MOST_CONTENT", 4 * CHUNK)
    assert MOST_CONTENT > 4 * CHUNK
    with connected() as (wire, channel):
        call = channel.request(b"one")
        for kind in (Kind.DATA, Kind.LIVE, Kind.TAIL) * 3:
            wire.say(encode(1, kind, bytes(CHUNK), Fd.ERR))
        with pytest.raises(SandboxDied):
            call.future.result(WITHIN)
        assert len(call.data[Fd.ERR]) + len(call.tail[Fd.ERR]) <= 5 * CHUNK


def test_the_end_in_the_middle_of_a_frame_is_the_end() -> None:
    with connected() as (wire, channel):
        call = channel.request(b"one")
        wire.say(encode(1, Kind.END, DONE)[:-1])
        wire.end()
        with pytest.raises(SandboxDied, match="the fuzzer ended it"):
            call.future.result(WITHIN)


STREAMS = st.sampled_from([0, 1, 1, 2, 3, 4, 2**32 - 1])
REPORTS = st.builds(
    lambda code, seconds, outputs: RunReport(code, seconds, outputs).encode(),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(),
    st.lists(st.builds(OutputReport, *[st.integers(0, 2**64 - 1)] * 3, st.binary(max_size=20)), max_size=4),
)
BODIES = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    REPORTS,
    REPORTS.map(lambda body: body[:-3]),
    st.sampled_from(
        [b"{}", b"[]", b"null", b'"x"', b'{"error": 3}', b"[" * 100_000, b"\xed\xa0\x80", b"NaN"]
    ),
)
ENDS = st.builds(
    lambda ending, idle, body: bytes([ending, idle]) + body, st.integers(0, 7), st.integers(0, 255), BODIES
)
HOSTILE = st.one_of(
    st.tuples(STREAMS, st.integers(Kind.OPEN, Kind.IDLE), st.binary(max_size=40), st.sampled_from([1, 2])),
    st.tuples(
        STREAMS, st.just(Kind.CREDIT), st.integers(0, 2**32 - 1).map(struct.Struct("!I").pack), st.just(1)
    ),
    st.tuples(STREAMS, st.just(Kind.END), ENDS, st.just(Fd.OUT)),
)


@settings(deadline=None)
@given(st.lists(HOSTILE, max_size=12), st.binary(max_size=12), st.integers(1, 50))
def test_every_call_is_answered_whatever_comes(frames: list[Frame], rest: bytes, size: int) -> None:
    data = b"".join(encode(*frame) for frame in frames) + rest
    with connected() as (wire, channel):
        calls = [channel.request(b"ask", content=b"c" * 10) for _ in range(3)]
        for start in range(0, min(len(data), 4000), size):
            wire.say(data[start : start + size])
        wire.say(data[4000:])
        wire.end()
        for call in calls:
            try:
                answer = call.future.result(WITHIN)
            except SandboxDied:
                continue
            check_results(call, answer)


def check_results(call: Call, answer: Answer) -> None:
    """What is made of an answer is a result, or one of the errors that are promised."""
    for make in (
        lambda: run_result(SandboxLimits(), call, answer, 1.0),
        lambda: file_result(call, answer, 1.0),
    ):
        with suppress(SandboxBusy, FileFailed):
            make()
