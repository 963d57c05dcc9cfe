"""The way out of sandboxes, made when the first of them starts: what it needs is not imported before."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING

from agent.config import Settings

if TYPE_CHECKING:
    from libs.gateway.gateway import Gateway
    from libs.sandbox.egress import Door, Egress

__all__ = ["doors"]


def doors(settings: Settings) -> Egress:
    """Makes the way out of each sandbox; the gateway behind all of them with the first."""
    lock = threading.Lock()
    made: list[Gateway] = []

    def door() -> Door:
        from agent.egress import build_gateway

        with lock:
            if not made:
                made.append(build_gateway(settings))
                # What is under way when this program ends is logged, too.
                atexit.register(made[0].close)
        return made[0].door()

    return door
