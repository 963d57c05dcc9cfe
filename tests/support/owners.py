"""The tokens of the two owners of a test server."""

from __future__ import annotations

from agent.settings.token_settings import new_token

__all__ = ["ALICE", "ALICES", "BOB", "BOBS"]

ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")
