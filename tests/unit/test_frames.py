"""Frames survive every split; what is no frame is said to be none."""

from __future__ import annotations

import contextlib
import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.sandbox.frames import HEADER, MAX_PAYLOAD, Decoder, Fd, Frame, Kind, ProtocolError, encode

KINDS = [value for name, value in vars(Kind).items() if name.isupper()]
FDS = [Fd.OUT, Fd.ERR]
FRAMES = st.tuples(
    st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.binary(max_size=300), st.sampled_from(FDS)
)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


@given(st.lists(FRAMES, max_size=20), st.lists(st.integers(0, 10**6), max_size=40))
def test_any_split_of_any_frames_gives_them_back(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode(*frame) for frame in frames)
    decoder = Decoder()
    assert [frame for piece in split(data, cuts) for frame in decoder.feed(piece)] == frames


@given(st.lists(FRAMES, min_size=1, max_size=5))
def test_a_frame_comes_with_its_last_byte(frames: list[Frame]) -> None:
    decoder = Decoder()
    for frame in frames:
        data = encode(*frame)
        assert decoder.feed(data[:-1]) == []
        assert decoder.feed(data[-1:]) == [frame]


@given(st.lists(st.binary(max_size=60), max_size=30))
def test_garbage_is_refused_or_awaited(pieces: list[bytes]) -> None:
    decoder = Decoder()
    with contextlib.suppress(ProtocolError):
        for piece in pieces:
            for _, kind, _, fd in decoder.feed(piece):
                assert kind in KINDS
                assert fd in FDS


@pytest.mark.parametrize(
    "header",
    [
        (MAX_PAYLOAD + 1, 1, Kind.DATA, Fd.OUT),
        (2**32 - 1, 1, Kind.DATA, Fd.OUT),
        (0, 1, 0, Fd.OUT),
        (0, 1, max(KINDS) + 1, Fd.OUT),
        (0, 1, 255, Fd.OUT),
        (0, 1, Kind.DATA, 0),
        (0, 1, Kind.DATA, 3),
    ],
)
def test_a_header_out_of_bounds_is_refused_before_its_payload_comes(header: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError, match="not a frame"):
        Decoder().feed(HEADER.pack(*header))


def test_kinds_are_told_apart() -> None:
    assert sorted(KINDS) == list(range(min(KINDS), min(KINDS) + len(KINDS)))


def test_frames_before_garbage_are_not_made_up() -> None:
    decoder = Decoder()
    assert decoder.feed(encode(7, Kind.DATA, b"good")) == [(7, Kind.DATA, b"good", Fd.OUT)]
    with pytest.raises(ProtocolError):
        decoder.feed(b"\xff" * HEADER.size)


def test_the_largest_payload_is_taken_and_a_larger_one_is_not() -> None:
    largest = bytes(MAX_PAYLOAD)
    ((_, _, payload, _),) = Decoder().feed(encode(1, Kind.DATA, largest))
    assert len(payload) == MAX_PAYLOAD
    with pytest.raises(ValueError, match="at most"):
        encode(1, Kind.DATA, largest + b"x")


def test_the_layout_is_the_one_that_is_documented() -> None:
    assert encode(0x01020304, Kind.TAIL, b"ab", Fd.ERR) == struct.pack("!IIBB", 2, 0x01020304, 4, 2) + b"ab"


def test_what_was_fed_may_be_changed_afterwards() -> None:
    data = bytearray(encode(1, Kind.DATA, b"kept"))
    decoder = Decoder()
    assert decoder.feed(bytes(data[:-1])) == []
    data[:-1] = bytes(len(data) - 1)
    assert decoder.feed(bytes(data[-1:])) == [(1, Kind.DATA, b"kept", Fd.OUT)]


def test_many_small_pieces_cost_no_more_than_their_length() -> None:
    """A megabyte byte by byte: linear work, or this test runs into its time limit."""
    data = encode(1, Kind.DATA, bytes(1_000_000))
    decoder = Decoder()
    frames = [frame for index in range(len(data)) for frame in decoder.feed(data[index : index + 1])]
    assert len(frames) == 1
