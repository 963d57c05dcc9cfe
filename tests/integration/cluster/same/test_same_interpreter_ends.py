"""Interpreters end on a node of a cluster as in every sandbox."""

from __future__ import annotations

from tests.integration.interpreter.test_interpreter_ends import TestEnds

__all__ = ["TestEnds"]

LEFT_OUT = {
    "test_sessions_that_ran_together_are_ended_by_the_next_one": "looks at processes of a local sandbox",
}
