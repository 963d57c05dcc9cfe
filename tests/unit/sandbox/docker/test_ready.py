"""Spares whose start fails with an unexpected error: no caller hangs, and other spares are started."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from libs.sandbox.pool.spares import Ready
from tests.support.waiting import eventually


class Sandbox:
    def __init__(self, start: Callable[[], None] = lambda: None) -> None:
        self._start = start
        self.running = False

    def start(self) -> None:
        self._start()
        self.running = True

    def outdated(self) -> bool:
        return False


def no_thread() -> None:
    raise RuntimeError("can't start new thread")


def test_spare_with_a_failed_start_is_closed_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    starts: list[Callable[[], None]] = [no_thread, lambda: None]
    ended: list[Sandbox] = []
    ready = Ready(lambda: Sandbox(starts.pop(0)), ended.append, 1)
    ready.fill(at_once=True)
    eventually(lambda: "can't start new thread" in caplog.text, 10)
    assert len(ended) == 1
    eventually(lambda: (ready.fill(at_once=True), len(ready) == 1)[1], 10)
    ready.close()
    assert len(ended) == 2


def test_waiting_caller_returns_when_the_start_fails() -> None:
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
    waiting.join(0.2)
    assert taken == []
    may_fail.set()
    waiting.join(10)
    assert taken == [None]


def test_no_free_thread_is_logged_and_the_next_fill_works(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller keeps its sandbox although no thread can start a spare."""
    ready = Ready(Sandbox, lambda _: None, 1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: no_thread())
        ready.fill(at_once=True)
    assert "can't start new thread" in caplog.text
    ready.fill(at_once=True)
    eventually(lambda: len(ready) == 1, 10)
    ready.close()
