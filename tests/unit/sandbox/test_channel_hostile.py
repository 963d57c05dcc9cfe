"""The host survives hostile frames: every request ends with a typed result, in bounded memory."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.redaction import MARK, SecretFilter
from libs.sandbox.errors import SandboxBusy, SandboxDied
from libs.sandbox.host.awaited_answers import give_up
from libs.sandbox.host.requests.file_results import file_result
from libs.sandbox.host.requests.request import Answer, Call
from libs.sandbox.host.requests.results import run_result
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.protocol import FileFailed
from libs.sandbox.wire.frames import (
    ANSWER,
    CHUNK,
    MOST_CONTENT,
    Ending,
    Fd,
    Frame,
    Kind,
    encode,
)
from libs.sandbox.wire.messages import OutputReport, RunReport
from tests.support.hostile_wire import WITHIN, connected

DONE = ANSWER.pack(Ending.DONE, True)
SECRET = b"sk-proj-Ab3dEfGhIjKlMnOpQrStUvWx"


@pytest.mark.parametrize(
    "frame",
    [
        (1, Kind.END, b"", Fd.OUT),
        (1, Kind.END, bytes([Ending.ENDED + 1, 1]), Fd.OUT),
        (1, Kind.CREDIT, b"\xff" * 3, Fd.OUT),
        (1, Kind.CREDIT, b"\xff" * 5, Fd.OUT),
    ],
    ids=["end without answer", "unknown ending", "short credit", "long credit"],
)
def test_malformed_frame_ends_the_connection(frame: Frame) -> None:
    with connected() as (wire, channel):
        first, second = channel.request(b"one", content=b"x"), channel.request(b"two")
        wire.say(encode(*frame))
        for call in (first, second):
            with pytest.raises(SandboxDied):
                call.future.result(WITHIN)
        with pytest.raises(SandboxDied):
            channel.request(b"three")


def test_call_of_a_sandbox_that_was_given_up_for_another_call_is_told_so() -> None:
    with connected() as (_, channel):
        call = channel.request(b"one")
        assert "does not answer" in str(give_up(channel))
        with pytest.raises(SandboxDied, match="did not answer another call in time"):
            call.future.result(WITHIN)


UNKNOWN_REQUESTS: list[Frame] = [
    (99, Kind.END, DONE, Fd.OUT),
    (0, Kind.END, DONE, Fd.OUT),
    (1, Kind.OPEN, b"x", Fd.OUT),
]


def test_frames_of_unknown_requests_are_ignored() -> None:
    with connected() as (wire, channel):
        call = channel.request(b"one")
        for frame in UNKNOWN_REQUESTS:
            wire.say(encode(*frame))
        wire.say(encode(1, Kind.DATA, b"kept") + encode(1, Kind.END, DONE + b"body"))
        assert call.future.result(WITHIN) == Answer(Ending.DONE, b"body")
        assert call.data[Fd.OUT] == b"kept"


@pytest.mark.parametrize(
    "more", [(Kind.TAIL, DONE), (Kind.LIVE, DONE), (None, ANSWER.pack(Ending.LOST, False))]
)
def test_partial_secret_in_live_output_is_removed(more: tuple[int | None, bytes]) -> None:
    """Live output holds a partial secret back. The rest of the secret comes in a tail, later, or never."""
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


def test_secret_beside_a_gap_of_live_output_is_removed() -> None:
    """An empty LIVE frame stands for output that is left out. No text is searched across the gap."""
    live: list[bytes] = []
    with connected() as (wire, channel):
        channel.redact = SecretFilter({"KEY": SECRET.decode()})
        call = channel.request(b"one", on_output=live.append)
        wire.say(encode(1, Kind.DATA, b"key: " + SECRET[:20]) + encode(1, Kind.LIVE))
        for at in range(24, len(SECRET), 3):
            wire.say(encode(1, Kind.LIVE, SECRET[at : at + 3]))
        wire.say(encode(1, Kind.LIVE, b" end") + encode(1, Kind.END, DONE))
        call.future.result(WITHIN)
    assert b"".join(live) == b"key: " + MARK + MARK + b" end"


def test_content_over_the_limit_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.sandbox.host.requests.request.MOST_CONTENT", 4 * CHUNK)
    assert MOST_CONTENT > 4 * CHUNK
    with connected() as (wire, channel):
        call = channel.request(b"one")
        for kind in (Kind.DATA, Kind.LIVE, Kind.TAIL) * 3:
            wire.say(encode(1, kind, bytes(CHUNK), Fd.ERR))
        with pytest.raises(SandboxDied):
            call.future.result(WITHIN)
        assert len(call.data[Fd.ERR]) + len(call.tail[Fd.ERR]) <= 5 * CHUNK


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


@settings(max_examples=50, deadline=None)
@given(st.lists(HOSTILE, max_size=12), st.binary(max_size=12), st.integers(1, 50))
def test_every_request_is_answered_whatever_frames_arrive(
    frames: list[Frame], rest: bytes, size: int
) -> None:
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
    """An answer becomes a result or one of the documented errors."""
    for make in (
        lambda: run_result(SandboxLimits(), call, answer, 1.0),
        lambda: file_result(call, answer, 1.0),
    ):
        with suppress(SandboxBusy, FileFailed):
            make()


def test_killed_worker_leaves_what_has_come_of_both_outputs_within_the_limit() -> None:
    call = Call(1, b"", None)
    call.data[Fd.OUT] += b"a" * 3_000
    call.data[Fd.ERR] += b"problem\n"
    result = run_result(SandboxLimits(output_chars=1_000), call, Answer(Ending.LOST, b""), 9)
    assert "a\n[… 2,000 characters left out …]\na" in result.output
    assert result.output.count("a" * 500) == 2
    assert (result.stderr, result.truncated, result.spill_path) == ("problem\n", True, None)
