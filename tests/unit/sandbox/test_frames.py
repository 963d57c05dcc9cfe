"""Frames are decoded whatever the split, and invalid frames are refused."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.sandbox.wire.frames import HEADER, MAX_PAYLOAD, Decoder, Fd, Frame, Kind, ProtocolError, encode

KINDS = [value for name, value in vars(Kind).items() if name.isupper()]
FDS = [Fd.OUT, Fd.ERR]
FRAMES = st.tuples(
    st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.binary(max_size=300), st.sampled_from(FDS)
)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


@given(st.lists(FRAMES, max_size=20), st.lists(st.integers(0, 10**6), max_size=40))
def test_frames_are_decoded_whatever_the_split(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode(*frame) for frame in frames)
    decoder = Decoder()
    assert [frame for piece in split(data, cuts) for frame in decoder.feed(piece)] == frames
    for frame in frames[:5]:  # a frame is complete with its last byte
        data = encode(*frame)
        assert decoder.feed(data[:-1]) == []
        assert decoder.feed(data[-1:]) == [frame]


@given(st.lists(st.binary(max_size=60), max_size=30))
def test_garbage_is_refused_or_incomplete(pieces: list[bytes]) -> None:
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
        (0, 1, 0, Fd.OUT),
        (0, 1, max(KINDS) + 1, Fd.OUT),
        (0, 1, Kind.DATA, 0),
        (0, 1, Kind.DATA, 3),
    ],
)
def test_invalid_header_is_refused_before_its_payload_arrives(header: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError, match="not a frame"):
        Decoder().feed(HEADER.pack(*header))
