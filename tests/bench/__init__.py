"""Benchmarks: `python -m tests.bench` prints a table and writes JSON. Never part of what passes or fails."""
