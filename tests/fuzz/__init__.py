"""Fuzzing of both ends of the protocol: `python -m tests.fuzz`. Unit tests run each target for a moment."""
