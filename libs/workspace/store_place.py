"""Checks that contents are where the database says: SNAPSHOTS_URL may name another place than before."""

from __future__ import annotations

import math
import time
from typing import Final

from libs.workspace.catalog import Catalog
from libs.workspace.contents import Contents, SnapshotsUnavailable

__all__ = ["StorePlace"]

_SECONDS: Final = 10.0
"""How long a check holds: at a provider, each one is a request."""


class StorePlace:
    """Compares the id in the folder or bucket at SNAPSHOTS_URL with the id in the database, now and then."""

    def __init__(self, catalog: Catalog, contents: Contents) -> None:
        self._catalog = catalog
        self._contents = contents
        self._checked_at = -math.inf

    async def check(self) -> None:
        """Check the place. At the first use of a database, the place becomes that of its contents.

        Raises:
            SnapshotsUnavailable: the contents that the database knows are at another place, or are gone.
        """
        if time.monotonic() < self._checked_at + _SECONDS:
            return
        known = await self._catalog.store_id()
        found = await self._contents.store_id(make=known is None)
        if known is None and found:
            await self._catalog.use_store(found)
            known = await self._catalog.store_id()  # another program may have been first
        if known != found:
            raise SnapshotsUnavailable(
                "The earlier snapshots are not at SNAPSHOTS_URL.",
                hint="Set SNAPSHOTS_URL back to their place. If they are gone for good, begin anew with "
                "`code-agent snapshots forget`.",
            )
        self._checked_at = time.monotonic()
