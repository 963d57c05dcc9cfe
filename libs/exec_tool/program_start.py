"""Starts a program in the sandbox so that the exception that ends it is known to the host."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files as package_files

from libs.exec_tool.execute_code_call import Language
from libs.exec_tool.program_folder import PLACE, program_path
from libs.sandbox import Sandbox, SandboxError

__all__ = ["BASH_SYNTAX", "COMMAND_NOT_FOUND", "RECORD", "Raised", "bring_starter", "raised", "start_command"]

# The name cannot be imported, so the file hides no module of the program.
_STARTER = f"{PLACE}/.start"
_INSIDE = {_STARTER: "start_program.py", f"{_STARTER}.tell": "tell_exception.py"}
RECORD = f"{_STARTER}.ended"
"""The file inside the sandbox to which the starter writes the exception. Bash empties it: see `_BASH`."""
_RECORD_BYTES = 16 * 1024
"""Space that is reserved for the record, because a program may fill the disk."""

BASH_SYNTAX = f"LC_ALL=C bash -O extglob -n {program_path('bash')}"
"""Fails if the text of a bash program is no bash. Prints the error."""
_BASH = f"""\
command_not_found_handle() {{
  {{ set +x; }} 2>/dev/null
  [[ $1 = *$'\\r' ]] || : >| {RECORD}
  builtin printf '%s: line %s: %s: command not found\\n' "$0" "${{BASH_LINENO[0]}}" "$1" >&2
  return 127
}}
export -f command_not_found_handle
exec bash"""
"""Starts bash, which empties the record if there is no such command, and prints what it prints otherwise. The
exit code does not tell: a program may end with 127 by itself. A name with a carriage return, from line ends
of Windows, names no package."""


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


def bring_starter(sandbox: Sandbox) -> None:
    """Write the starter, and reserve space for its record. Raises SandboxError."""
    try:
        for path, file in _INSIDE.items():
            sandbox.write_file(path, (package_files("libs.exec_tool.inside") / file).read_bytes())
        sandbox.write_file(RECORD, bytes(_RECORD_BYTES))
    except OSError as error:
        raise SandboxError(f"A fresh sandbox cannot be written to: {error}.", hint="Try again.") from error


def start_command(language: Language) -> str:
    """Return the command that runs the program in the place of the shell."""
    starter = f"exec python3 {_STARTER}" if language == "python" else _BASH
    return f"{starter} {program_path(language)}"


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
