"""Spares whose start fails in a way that nobody has foreseen: none waits for them, and others are started."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from libs.sandbox.ready import Ready


class Sandbox:
    def __init__(self, start: Callable[[], None] = lambda: None) -> None:
        self._start = start
        self.running = False

    def start(self) -> None:
        self._start()
        self.running = True


def no_thread() -> None:
    raise RuntimeError("can't start new thread")


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_that_cannot_be_started_is_ended_and_others_are_tried(caplog: pytest.LogCaptureFixture) -> None:
    starts: list[Callable[[], None]] = [no_thread, lambda: None]
    ended: list[Sandbox] = []
    ready = Ready(lambda: Sandbox(starts.pop(0)), ended.append, 1)
    ready.fill(at_once=True)
    wait(lambda: not ready._filling)
    assert len(ended) == 1
    assert "can't start new thread" in caplog.text
    ready.fill(at_once=True)
    wait(lambda: len(ready) == 1)
    ready.close()


def test_nobody_waits_for_one_that_cannot_be_started() -> None:
    begun, may_fail = threading.Event(), threading.Event()

    def start() -> None:
        begun.set()
        may_fail.wait(10)
        no_thread()

    ready = Ready(lambda: Sandbox(start), lambda _: None, 1)
    ready.fill(at_once=True)
    begun.wait(10)
    taken: list[Sandbox | None] = []
    waiting = threading.Thread(target=lambda: taken.append(ready.take(patient=True)), daemon=True)
    waiting.start()
    wait(lambda: ready._awaited)
    may_fail.set()
    waiting.join(10)
    assert taken == [None]


def test_one_that_is_none_after_all_is_ended_even_if_that_fails_too(caplog: pytest.LogCaptureFixture) -> None:
    def end(_: Sandbox) -> None:
        raise OSError("no")

    ready = Ready(Sandbox, end, 1, started=lambda _: no_thread())
    ready.fill(at_once=True)
    wait(lambda: not ready._filling)
    assert len(ready) == 0
    assert caplog.records[-1].levelno == logging.ERROR


def test_the_last_thread_that_a_machine_allows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever has just started a sandbox keeps it, though there is no thread to start a spare."""
    ready = Ready(Sandbox, lambda _: None, 1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: no_thread())
        ready.fill(at_once=True)
    assert "can't start new thread" in caplog.text
    ready.fill(at_once=True)
    wait(lambda: len(ready) == 1)
    ready.close()
