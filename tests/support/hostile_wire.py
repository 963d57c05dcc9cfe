"""A channel to a fake supervisor that sends any bytes a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from libs.sandbox.host.channel import Channel, Door
from tests.fuzz.targets import READY, Wire

__all__ = ["WITHIN", "connected"]

WITHIN = 30.0
"""Seconds within which a call is answered."""


@contextmanager
def connected(door: Door | None = None) -> Iterator[tuple[Wire, Channel]]:
    """Make a ready channel. Afterwards assert that its reader ended without an exception."""
    escaped: list[object] = []
    before, threading.excepthook = threading.excepthook, escaped.append
    wire = Wire()
    channel = Channel(wire, door=door)
    try:
        wire.say(READY)
        channel.came_up.result(WITHIN)
        yield wire, channel
    finally:
        channel.close()
        threading.excepthook = before
    assert not channel._reader.is_alive()
    assert escaped == []
