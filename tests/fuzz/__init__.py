"""Fuzzing of both ends of the protocol: `python -m tests.fuzz`. A moment of it runs with the unit tests."""
