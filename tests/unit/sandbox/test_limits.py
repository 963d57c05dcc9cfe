"""Limits out of range are refused, with their name."""

from __future__ import annotations

from typing import Any

import pytest

from libs.sandbox import SandboxLimits
from libs.sandbox.host.requests import run_request
from libs.sandbox.limits import MAX_TIMEOUT

MIB = 2**20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 64 * MIB - 1),
        ("cpus", float("nan")),
        ("tmp", 1025 * MIB),  # over half of the memory
        ("timeout", 0),
        ("timeout", MAX_TIMEOUT + 0.001),
    ],
)
def test_limit_out_of_range_is_refused_and_named(name: str, value: float) -> None:
    arguments: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=name):
        SandboxLimits(**arguments)


def test_command_that_no_file_of_the_sandbox_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="`file_size` allows less"):
        run_request(
            SandboxLimits(file_size=MIB), "x" * MIB, None, merge_stderr=True, env={}, live=False, spills=True
        )


def test_more_variables_than_a_request_counts_are_refused() -> None:
    env = {f"V{number}": "" for number in range(65_535)}
    options: dict[str, Any] = {"merge_stderr": True, "live": False, "spills": True}
    run_request(SandboxLimits(), "true", None, env=env, **options)
    with pytest.raises(ValueError, match="65,536 variables: at most 65,535 fit"):
        run_request(SandboxLimits(), "true", None, env=env | {"V": ""}, **options)
