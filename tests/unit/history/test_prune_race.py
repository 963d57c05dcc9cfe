"""Captures and prunes at the same time lose nothing that a capture names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers.snapshots import Snapshots, race


@pytest.mark.thorough
async def test_prunes_beside_captures_of_other_programs(open_snapshots: Callable[..., Snapshots]) -> None:
    await race(open_snapshots, 30)
