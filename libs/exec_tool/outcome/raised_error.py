"""The error that ended a program, as the starter in the sandbox has recorded it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMAND_NOT_FOUND", "Raised", "command_not_found", "raised"]

COMMAND_NOT_FOUND = "bash.CommandNotFound"
"""Type of the error of a bash program that ended with exit code 127 after a command that does not exist."""


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
    """Name of the error number, such as ENOSPC. It ends with `-elsewhere` if the cause may be another limit
    than the sandbox's: see `tell_exception.py`."""
    missing: str = ""
    """The module or name that was not found, or the command of a bash program."""
    address: str = ""
    """URL or host of a failed connection, if known."""
    wrapped: tuple[str, ...] = ()
    """`type:code` of the exception and of the exceptions that it wraps."""

    def is_a(self, *types: str) -> bool:
        return not set(types).isdisjoint(self.types)


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


def command_not_found(record: bytes) -> Raised | None:
    """Read the record of a bash program. Returns None if each command existed, or the record was changed.

    The record has the name of the latest command that does not exist. A full disk leaves the record empty.
    """
    if b"\0" in record:  # the space that is reserved
        return None
    return Raised((COMMAND_NOT_FOUND,), missing=record.decode("utf-8", "replace"))
