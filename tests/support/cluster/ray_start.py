"""Starts Ray on a machine, with settings for a test cluster and for noticing dead nodes."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.support.cluster.namespace_machine import Machine, Program

__all__ = ["AUTHENTICATION", "NOTICE_DEAD_NODES", "OUTLIVE_THE_HEAD", "ROOT", "start_ray"]

ROOT = Path(__file__).parents[3]
RAY = Path(sys.executable).with_name("ray")

NOTICE_DEAD_NODES = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
}
"""Environment with which the head declares a silent node dead within 16 s, as docs/cluster.md advises.

With Ray's defaults that takes up to a minute: five failures of 10 s each. A failure is an answer that takes
longer than the time-out, so a node that does not answer for less than 12 s is kept.
"""

OUTLIVE_THE_HEAD = {"RAY_gcs_rpc_server_reconnect_timeout_s": "1000000000"}
"""Environment with which Ray does not end on a node whose head is gone, as docs/cluster.md says."""

AUTHENTICATION = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Environment of all programs of the cluster."""

_OWN = {
    **AUTHENTICATION,
    "RAY_USAGE_STATS_ENABLED": "0",
    # Do not start worker processes before somebody needs them: one takes 70 MB and a second of a processor.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}
_ATTEMPT = "TEST_RAY_ATTEMPT"
"""Variable that all processes of one attempt have."""
_OPTIONS = ["--disable-usage-stats", "--include-log-monitor=false", "--object-store-memory=100000000"]


def start_ray(machine: Machine, folder: Path, options: Sequence[str], **environment: str) -> Program:
    """Run `ray start` on a machine until the machine has joined the cluster.

    `ray start` gives up after 30 s, which a busy machine may exceed. So there are three attempts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        attempt = secrets.token_hex(8)
        try:
            return _started(machine, folder, options, {**environment, _ATTEMPT: attempt})
        except AssertionError as error:
            print(error)
            _end(machine, attempt)
    return _started(machine, folder, options, environment)


def _end(machine: Machine, attempt: str) -> None:
    """Kill what an attempt has left. A head that is left would take connections for the next head."""
    for process in machine.processes:
        with suppress(psutil.Error):
            if process.environ().get(_ATTEMPT) == attempt:
                process.kill()
                process.wait(60)


def _started(
    machine: Machine, folder: Path, options: Sequence[str], environment: Mapping[str, str]
) -> Program:
    path = folder / f"log-{time.monotonic_ns()}"
    variables = {**os.environ, **_OWN, **NOTICE_DEAD_NODES, **OUTLIVE_THE_HEAD, "PYTHONPATH": str(ROOT)}
    variables |= environment
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # the processes of Ray would compile the project again
    variables.pop("RAY_gcs_server_port_wait_time_s", None)  # the tests' own, as a program that joins
    with path.open("wb") as log:
        command = [str(RAY), "start", "--block", f"--temp-dir={folder}", *_OPTIONS, *options]
        program = machine.spawn(command, log, variables)
    deadline = time.monotonic() + 120
    while b"Ray runtime started" not in (said := path.read_bytes()):
        assert program.poll() is None, said.decode()
        assert time.monotonic() < deadline, said.decode()
        time.sleep(0.05)
    return program
