"""The error that ended a program, as the starter in the sandbox has recorded it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMAND_NOT_FOUND", "Raised", "raised"]


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that ended a Python program, or the error that ended a bash program.

    Names of types are qualified: `builtins.KeyError`.
    """

    types: tuple[str, ...]
    """The type and its bases."""
    message: str = ""
    """The text of a SystemExit, or the last line of the traceback."""
    ran: bool = True
    """Whether the program began. If not, it could not be compiled."""
    code: str = ""
    """Name of the error number, such as ENOSPC; ENOSPC-elsewhere if no disk was full at the end."""
    missing: str = ""
    """The module or name that was not found."""
    address: str = ""
    """URL or host of a failed connection, if known."""
    wrapped: tuple[str, ...] = ()
    """`type:code` of the exception and of the exceptions that it wraps."""

    def is_a(self, *types: str) -> bool:
        return not set(types).isdisjoint(self.types)


COMMAND_NOT_FOUND = Raised(("bash.CommandNotFound",))
"""Stands for the command that ended a bash program with exit code 127, because there is no such command."""


def raised(record: bytes) -> Raised | None:
    """Read the record. Returns None if the program wrote none, or wrote to the file itself."""
    fields = [field.decode("utf-8", "replace") for field in record.split(b"\0", 7)[:7]]
    if len(fields) < 7 or fields[0] not in ("ran", "refused"):
        return None
    ran, types, code, missing, address, wrapped, message = fields
    return Raised(
        tuple(types.split()),
        message,
        ran=ran == "ran",
        code=code,
        missing=missing,
        address=address,
        wrapped=tuple(wrapped.split()),
    )
