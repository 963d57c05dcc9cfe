"""Limits out of range are named, not guessed at."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from libs.sandbox import SandboxLimits
from libs.sandbox.limits import MAX_TIMEOUT

MIB = 2**20


def test_the_defaults_are_the_documented_ones() -> None:
    limits = SandboxLimits()
    assert dataclasses.asdict(limits) == {
        "memory": 2048 * MIB,
        "cpus": 2.0,
        "pids": 256,
        "tmp": 256 * MIB,
        "timeout": 120.0,
        "output_chars": 50_000,
        "open_files": 4096,
        "file_size": 4096 * MIB,
    }
    assert MAX_TIMEOUT == 3600


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 0),
        ("memory", 64 * MIB - 1),
        ("memory", -1),
        ("cpus", 0),
        ("cpus", -0.5),
        ("cpus", float("nan")),
        ("cpus", float("inf")),
        ("pids", 0),
        ("pids", 31),
        ("tmp", 0),
        ("tmp", 1025 * MIB),  # over half of the memory
        ("timeout", 0),
        ("timeout", MAX_TIMEOUT + 0.001),
        ("timeout", float("nan")),
        ("output_chars", 999),
        ("output_chars", 10_000_001),
        ("open_files", 10),
        ("file_size", 1),
    ],
)
def test_out_of_range_is_refused_and_named(name: str, value: float) -> None:
    arguments: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=name):
        SandboxLimits(**arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory", 512 * MIB), ("cpus", 0.01), ("pids", 32), ("tmp", MIB), ("timeout", MAX_TIMEOUT)],
)
def test_the_bounds_themselves_are_taken(name: str, value: float) -> None:
    arguments: dict[str, Any] = {name: value}
    assert getattr(SandboxLimits(**arguments), name) == value


def test_scratch_follows_the_memory() -> None:
    assert SandboxLimits(memory=64 * MIB, tmp=32 * MIB).tmp == 32 * MIB
    with pytest.raises(ValueError, match="tmp"):
        SandboxLimits(memory=64 * MIB, tmp=33 * MIB)


def test_limits_cannot_be_changed_afterwards() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SandboxLimits().memory = 0  # type: ignore[misc]
