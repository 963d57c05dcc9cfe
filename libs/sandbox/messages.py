"""What a request to run a command says, and what comes back, as bytes (standard library only).

Requests for files are JSON; these are not, since reading JSON takes longer to import than a shell to start.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["INTERRUPTED", "BlockRequest", "OutputReport", "RunReport", "RunRequest"]

_REQUEST: Final = struct.Struct("!IBBH")
_BLOCK: Final = struct.Struct("!IH")
_REPORT: Final = struct.Struct("!idB")
_OUTPUT: Final = struct.Struct("!QQQH")

INTERRUPTED: Final = 130
"""Exit code of a block that heeded an interrupt: the interpreter and its variables are still there."""


class RunRequest:
    """Run a command with `bash -c`."""

    def __init__(self, command: bytes, limit: int, merge: bool, live: bool, env: list[bytes]) -> None:
        self.command = command
        self.limit = limit
        """Characters of an output that are shown."""
        self.merge = merge
        """Whether standard error goes where standard output goes."""
        self.live = live
        """Whether somebody looks at the output as it comes."""
        self.env = env
        """Additional variables, each `name=value`."""

    def encode(self) -> bytes:
        head = _REQUEST.pack(self.limit, self.merge, self.live, len(self.env))
        return head + b"\0".join([*self.env, self.command])

    @staticmethod
    def decode(data: bytes) -> RunRequest:
        limit, merge, live, variables = _REQUEST.unpack_from(data)
        *env, command = data[_REQUEST.size :].split(b"\0", variables)
        return RunRequest(command, limit, bool(merge), bool(live), env)


class BlockRequest:
    """Run a block of Python in the live interpreter of a session."""

    def __init__(self, session: bytes, code: bytes, limit: int) -> None:
        self.session = session
        """At most 65,535 bytes; blocks of one session share their variables."""
        self.code = code
        self.limit = limit
        """Characters of the output that are shown."""

    def encode(self) -> bytes:
        return _BLOCK.pack(self.limit, len(self.session)) + self.session + self.code

    @staticmethod
    def decode(data: bytes) -> BlockRequest:
        limit, length = _BLOCK.unpack_from(data)
        end = _BLOCK.size + length
        return BlockRequest(data[_BLOCK.size : end], data[end:], limit)


class OutputReport:
    """What is to be said about one output besides its content."""

    def __init__(self, total: int, chars: int, spilled: int, spill_path: bytes) -> None:
        self.total = total
        """Bytes in all."""
        self.chars = chars
        """Characters in all; over the request's limit, some are left out."""
        self.spilled = spilled
        """Bytes in the spill file."""
        self.spill_path = spill_path
        """The spill file; empty where there is none."""


class RunReport:
    """How a command ended."""

    def __init__(self, exit_code: int, seconds: float, outputs: list[OutputReport]) -> None:
        self.exit_code = exit_code
        self.seconds = seconds
        self.outputs = outputs
        """Of standard output and, where the two are not merged, standard error."""

    def encode(self) -> bytes:
        data = _REPORT.pack(self.exit_code, self.seconds, len(self.outputs))
        for output in self.outputs:
            head = _OUTPUT.pack(output.total, output.chars, output.spilled, len(output.spill_path))
            data += head + output.spill_path
        return data

    @staticmethod
    def decode(data: bytes) -> RunReport:
        """Raises struct.error where the data is no report."""
        exit_code, seconds, count = _REPORT.unpack_from(data)
        offset = _REPORT.size
        outputs = []
        for _ in range(count):
            total, chars, spilled, length = _OUTPUT.unpack_from(data, offset)
            offset += _OUTPUT.size
            outputs.append(OutputReport(total, chars, spilled, data[offset : offset + length]))
            offset += length
        return RunReport(exit_code, seconds, outputs)
