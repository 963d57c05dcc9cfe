"""Peers: other sandboxes, with which the figures are compared. Each has a Python environment of its own."""

from __future__ import annotations

from tests.bench.peers.peer_runs import Peers

__all__ = ["Peers"]
