"""Encodes requests to run code, and their reports (standard library only).

They are not JSON, because importing `json` takes longer than starting a shell. File requests are JSON.
"""

from __future__ import annotations

import struct

__all__ = ["FRESH", "NO_MEMORY", "BlockRequest", "OutputReport", "RunReport", "RunRequest"]

FRESH = (
    b"[a new interpreter runs this block: variables and imports of earlier blocks are lost, "
    b"and what they have left running may have ended]\n"
)
"""Begins the output of a block if variables of earlier blocks are lost."""
NO_MEMORY = b"\n[the kernel killed a process, because the sandbox's memory is used up]\n"
"""Added to the errors of a command, or to its output if merged, and to the output of a block, if the kernel
has killed a process of the sandbox meanwhile. Only the note about the end of an interpreter may follow."""

_REQUEST = struct.Struct("!I???H")
_BLOCK = struct.Struct("!I??H")
_REPORT = struct.Struct("!idB")
_OUTPUT = struct.Struct("!QQQH")


class RunRequest:
    """Run a command with `bash -c`."""

    def __init__(
        self, command: bytes, limit: int, merge: bool, live: bool, env: list[bytes], *, spills: bool = True
    ) -> None:
        self.command = command
        self.limit = limit
        """Characters of an output that are shown."""
        self.merge = merge
        """Whether standard error goes to standard output."""
        self.live = live
        """Whether the caller wants live output."""
        self.env = env
        """Additional variables, each `name=value`."""
        self.spills = spills
        """Whether a file keeps the whole of an output over the limit."""

    def encode(self) -> bytes:
        head = _REQUEST.pack(self.limit, self.merge, self.live, self.spills, len(self.env))
        return head + b"\0".join([*self.env, self.command])

    @staticmethod
    def decode(data: bytes) -> RunRequest:
        limit, merge, live, spills, variables = _REQUEST.unpack_from(data)
        *env, command = data[_REQUEST.size :].split(b"\0", variables)
        return RunRequest(command, limit, merge, live, env, spills=spills)


class BlockRequest:
    """Run a block of Python in the live interpreter of a session, or end the interpreter."""

    def __init__(
        self, session: bytes, code: bytes, limit: int, continues: bool, *, ends: bool = False
    ) -> None:
        self.session = session
        """At most 65,535 bytes; blocks of one session share their variables."""
        self.code = code
        self.limit = limit
        """Characters of the output that are shown."""
        self.continues = continues
        """Whether earlier blocks of the session have run. Then a fresh interpreter prints a note first."""
        self.ends = ends
        """Whether to end the interpreter with all its processes. No code runs."""

    def encode(self) -> bytes:
        head = _BLOCK.pack(self.limit, self.continues, self.ends, len(self.session))
        return head + self.session + self.code

    @staticmethod
    def decode(data: bytes) -> BlockRequest:
        limit, continues, ends, length = _BLOCK.unpack_from(data)
        end = _BLOCK.size + length
        return BlockRequest(data[_BLOCK.size : end], data[end:], limit, continues, ends=ends)


class OutputReport:
    """Figures about one output."""

    def __init__(self, total: int, chars: int, spilled: int, spill_path: bytes) -> None:
        self.total = total
        """Bytes of the whole output."""
        self.chars = chars
        """Characters of the whole output. Over the request's limit, the middle is left out."""
        self.spilled = spilled
        """Bytes in the spill file."""
        self.spill_path = spill_path
        """Path of the spill file, or empty."""


class RunReport:
    """The end of a command or block."""

    def __init__(self, exit_code: int, seconds: float, outputs: list[OutputReport]) -> None:
        self.exit_code = exit_code
        self.seconds = seconds
        self.outputs = outputs
        """Reports of standard output and, if not merged, standard error."""

    def encode(self) -> bytes:
        data = _REPORT.pack(self.exit_code, self.seconds, len(self.outputs))
        for output in self.outputs:
            head = _OUTPUT.pack(output.total, output.chars, output.spilled, len(output.spill_path))
            data += head + output.spill_path
        return data

    @staticmethod
    def decode(data: bytes) -> RunReport:
        """Raises struct.error if the data is not a report."""
        exit_code, seconds, count = _REPORT.unpack_from(data)
        offset = _REPORT.size
        outputs = []
        for _ in range(count):
            total, chars, spilled, length = _OUTPUT.unpack_from(data, offset)
            offset += _OUTPUT.size
            outputs.append(OutputReport(total, chars, spilled, data[offset : offset + length]))
            offset += length
        return RunReport(exit_code, seconds, outputs)
