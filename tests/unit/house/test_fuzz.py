"""Run each target of `python -m tests.fuzz` for a moment, so that the targets follow the protocol."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import fuzz_supervisor as supervisor
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_fuzz_target_finds_no_fault(name: str) -> None:
    @settings(max_examples=50, deadline=None)
    @given(st.binary(max_size=400))
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(range(0, 240, 5)),
        b"\x00\x01\x00" * 4,
        b"\x08\x01\xff\x00\x02\x00",
        b"\x28\x01\x00\x30\x02\x00",
        # One request of each kind, and one cancelled.
        b"\x00\x00\x00\x06\x00\x00\x0c\x00\x00\x12\x00\x00\x18\x00\x00\x03\x01\x00",
        *(Random(seed).randbytes(600) for seed in range(2)),
    ],
)
def test_supervisor_ends_only_on_malformed_frames(data: bytes, tmp_path: Path) -> None:
    with supervisor.checked(tmp_path) as check:
        check(data)
