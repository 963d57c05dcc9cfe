"""Characters of the first request beside a plain deep agent with the same tools and skills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.measure import Figure
from tests.unit.test_prompt import characters, first_request, plain_request


def figures(root: Path) -> Iterator[Figure]:
    ours, plain = characters(first_request(root)), characters(plain_request(root))
    sizes = {"sandbox": float(ours), "plain create_deep_agent": float(plain)}
    yield Figure("first request", "characters", sizes, "not more than plain", ours <= plain)
