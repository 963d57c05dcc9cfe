"""How a block ended: what the supervisor says, and which processes an interrupt ends."""

from __future__ import annotations

import os
import subprocess

import pytest

from libs.sandbox.guest.workers.children import Job
from libs.sandbox.guest.workers.kill_process_trees import descendants, moment
from libs.sandbox.wire.frames import REQUEST, Ending, Worker
from libs.sandbox.wire.messages import BlockRequest

BLOCK = REQUEST.pack(Worker.PYTHON, 1.0) + BlockRequest(b"s", b"", 1000, False).encode()
COMMAND = REQUEST.pack(Worker.RUN, 1.0)


@pytest.mark.parametrize(
    ("request_", "ended_by", "killed", "reported", "ending"),
    [
        (BLOCK, None, False, Ending.DONE, Ending.DONE),
        (BLOCK, Ending.TIMEOUT, False, Ending.DONE, Ending.DONE),  # the block had ended just before
        (BLOCK, Ending.TIMEOUT, False, Ending.TIMEOUT, Ending.TIMEOUT),
        (BLOCK, Ending.TIMEOUT, False, Ending.WAITED, Ending.WAITED),
        (BLOCK, Ending.TIMEOUT, False, Ending.LOST, Ending.ENDED),
        (BLOCK, Ending.TIMEOUT, True, Ending.TIMEOUT, Ending.ENDED),  # killed after its answer
        (BLOCK, Ending.TIMEOUT, True, Ending.DONE, Ending.ENDED),
        (BLOCK, Ending.CANCELLED, True, Ending.CANCELLED, Ending.CANCELLED),
        (COMMAND, Ending.TIMEOUT, False, Ending.DONE, Ending.TIMEOUT),
        (COMMAND, None, False, Ending.LOST, Ending.LOST),
    ],
)
def test_variables_are_kept_only_if_the_supervisor_has_not_killed_the_interpreter(
    request_: bytes, ended_by: int | None, killed: bool, reported: int, ending: int
) -> None:
    job = Job(1, request_)
    job.ended_by, job.killed = ended_by, killed
    assert job.ending(reported) == ending


def test_process_started_just_before_a_moment_is_older() -> None:
    for _ in range(10):
        with subprocess.Popen(["sleep", "60"]) as older:
            since = moment()
            with subprocess.Popen(["sleep", "60"]) as younger:
                try:
                    found = descendants(os.getpid(), since=since)
                    assert younger.pid in found
                    assert older.pid not in found
                finally:
                    younger.kill()
                    older.kill()
