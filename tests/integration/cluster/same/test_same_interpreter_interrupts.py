"""Blocks are interrupted on a node of a cluster as in every sandbox."""

from __future__ import annotations

from tests.integration.interpreter.test_interpreter_interrupts import (
    TestAtTheLimit,
    TestCancelled,
    TestTimeOut,
)

__all__ = ["TestAtTheLimit", "TestCancelled", "TestTimeOut"]

LEFT_OUT = {
    "test_block_whose_worker_had_no_time_to_begin_it_raises": "stops processes of a local sandbox",
    "test_block_cancelled_before_its_begin_keeps_the_variables": "stops processes of a local sandbox",
}
