"""Starts a program in the sandbox so that the exception that ends it is known to the host."""

from __future__ import annotations

from importlib.resources import files as package_files

from libs.exec_tool.execute_code_call import Language
from libs.exec_tool.program_folder import PLACE, program_path
from libs.sandbox import Sandbox, SandboxError

__all__ = ["BASH_SYNTAX", "RECORD", "bring_starter", "start_command"]

# The name cannot be imported, so the file hides no module of the program.
_STARTER = f"{PLACE}/.start"
_INSIDE = {_STARTER: "start_program.py", f"{_STARTER}.tell": "tell_exception.py"}
RECORD = f"{_STARTER}.ended"
"""The file inside the sandbox to which the starter writes the exception, or bash a name: see `_BASH`."""
_RECORD_BYTES = 16 * 1024
"""Space that is reserved for the record, because a program may fill the disk."""

BASH_SYNTAX = f"LC_ALL=C bash -O extglob -n {program_path('bash')}"
"""Fails if the text of a bash program is no bash. Prints the error."""
_BASH = f"""\
command_not_found_handle() {{
  {{ set +x; }} 2>/dev/null
  [[ $1 = *$'\\r' ]] || builtin printf '%s' "$1" 2>/dev/null >| {RECORD} || :
  builtin printf '%s: line %s: %s: command not found\\n' "$0" "${{BASH_LINENO[0]}}" "$1" >&2
  return 127
}}
export -f command_not_found_handle
exec bash"""
"""Starts bash, which records the name of a command that does not exist, and prints what it prints otherwise.
The exit code does not tell: a program may end with 127 by itself. A name with a carriage return, from line
ends of Windows, names no package."""


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
