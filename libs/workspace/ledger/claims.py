"""Claims: which sandbox, of which server, may write the workspace of a thread that travels."""

from __future__ import annotations

from libs.persistence.thread_database import Database, Do
from libs.sandbox import SandboxError

__all__ = ["ClaimLost", "Claims", "check_claim"]


class ClaimLost(SandboxError):
    """A later sandbox has claimed the thread, or the thread was deleted. Nothing was run or kept."""

    def __init__(
        self,
        message: str = "Another server has started a sandbox for this thread, or the thread was deleted. "
        "This sandbox may not change its files any more.",
        *,
        hint: str = "The next command starts a sandbox with the files that were kept last.",
    ) -> None:
        super().__init__(message, hint=hint)


class Claims:
    """Each new sandbox of a thread claims the thread. An earlier claim of the thread is lost then.

    Methods raise CheckpointerUnavailable if the database cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        number = (
            "BIGSERIAL PRIMARY KEY" if database.kind == "postgres" else "INTEGER PRIMARY KEY AUTOINCREMENT"
        )
        database.needs(
            # Both databases give a number once, even if its row was deleted.
            f"CREATE TABLE IF NOT EXISTS workspace_claims (generation {number}, thread TEXT NOT NULL UNIQUE)",
        )

    async def claim(self, thread: str) -> int:
        """Claim a thread for a new sandbox. Return the generation of the claim.

        Generations grow. No two claims, of any threads, have the same.
        """

        def work(do: Do) -> int:
            self._database.serialize(do)
            do("DELETE FROM workspace_claims WHERE thread = ?", thread)
            rows = do("INSERT INTO workspace_claims (thread) VALUES (?) RETURNING generation", thread)
            return int(rows[0][0])

        return await self._database.awaited(work)

    async def holds(self, thread: str, generation: int) -> bool:
        """Return whether a claim is still the latest of its thread."""
        return await self._database.awaited(lambda do: _holds(do, thread, generation), reads=True)


def check_claim(do: Do, thread: str, generation: int) -> None:
    """Raise ClaimLost unless a claim is the latest. Call `Database.serialize` before, in the transaction."""
    if not _holds(do, thread, generation):
        raise ClaimLost


def _holds(do: Do, thread: str, generation: int) -> bool:
    return bool(do("SELECT 1 FROM workspace_claims WHERE thread = ? AND generation = ?", thread, generation))
