"""The way out of sandboxes, made when the first of them starts: what it needs is not imported before."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.config import Settings

if TYPE_CHECKING:
    from libs.gateway.gateway import Gateway
    from libs.gateway.protocol import Service
    from libs.sandbox.egress import Door, Egress

__all__ = ["doors"]


def doors(settings: Settings, services: Mapping[str, Service] = {}) -> Egress:
    """Makes the way out of each sandbox; the gateway behind all of them with the first.

    Args:
        services: more virtual hosts, by name.
    """
    lock = threading.Lock()
    made: list[Gateway] = []

    def door() -> Door:
        from agent.egress import build_gateway

        with lock:
            if not made:
                made.append(build_gateway(settings, services))
                # What is under way when this program ends is logged, too.
                atexit.register(made[0].close)
        return made[0].door()

    return door
