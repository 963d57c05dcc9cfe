"""Choose the next step of a worker at random from a seed, with a check of its result."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from libs.sandbox import RunResult
from libs.sandbox.host import NO_MEMORY
from tests.load.ledger import Ledger, digest
from tests.support.sandboxes import NEW_INTERPRETER

_FLOOD = 30_000
_FLOODED = "".join(f"{number}\n" for number in range(1, _FLOOD + 1))
_TOKENS = 25
"""Number of tokens of a journal. After that many the journal is removed and another one begins."""
_ENDED = re.compile(
    r"\[the process that ran it was killed, "
    r"(by this command, or by another command or block|and the kernel .*): "
    r"everything it started was ended, its last output may be missing, and what other commands have left "
    r"running may have ended, too\]"
    r"|\[the process that kept the interpreter was killed, "
    r"(by this block, or by another block or command|and the kernel .*)"
    r": its variables are lost, and its last output may be missing\]"
    r"|\[the interpreter was ended by signal 9\b.*: its variables are lost\]"
    r"|bash: line 1: +\d+ Killed\b.*"
)
"""Last line of an output when the process that served the command, or its child, was killed."""


def _nothing(_: Any) -> str | None:
    return None


def _without(line: str, result: RunResult) -> RunResult:
    return replace(result, output=result.output.replace(line, "", 1))


@dataclass
class Step:
    """One call of a sandbox."""

    method: str
    arguments: dict[str, Any]
    wrong: Callable[[Any], str | None] = _nothing
    """What is wrong with the result; None where it is right."""
    cancel_after: float | None = None
    """Seconds after which the call is cancelled."""


class Steps:
    """The steps of one worker, in its own folder and its own interpreter.

    Args:
        largest: bytes of the largest file.
        harsh: whether something else breaks commands meanwhile: then they may be killed, or find the disk
            full, but say so, and never give a wrong result.
    """

    def __init__(self, name: str, seed: str, *, largest: int, harsh: bool, ledger: Ledger) -> None:
        self._name = name
        self._random = Random(f"{seed}/{name}")
        self._largest = largest
        self._harsh = harsh
        self.ledger = ledger
        self._count = 0
        self._journals = 0
        self._litter: list[str] = []
        self._folder = f"load/{name}"
        self._kinds = (
            *(self._note, self._write, self._write, self._read),
            *(self._echo, self._echo, self._block, self._flood, self._slow),
        )

    def next(self) -> Step:
        self._count += 1
        if self._litter:
            step = Step("run", {"command": f"rm -rf {self._litter.pop()}"}, self._result(""))
        else:
            step = self._random.choice(self._kinds)()
        if self._harsh and step.method in {"run", "run_python"}:
            # Another program of the sandbox may have filled the memory meanwhile.
            return replace(step, wrong=lambda result: step.wrong(_without(NO_MEMORY.decode(), result)))
        return step

    def _explained(self, result: RunResult, output: str, *, writes: bool = False) -> bool:
        """Return whether a break explains a result that differs from `output`.

        A killed command has exit code 137, at most a part of its output, and perhaps a line of bash or of the
        supervisor. A command that writes a file may also find the disk full (exit code 1).
        """
        if not self._harsh:
            return False
        if result.exit_code == 1:
            return writes and result.output.endswith(": No space left on device\n")
        said, _, last = result.output.rstrip("\n").rpartition("\n")
        if not _ENDED.fullmatch(last):
            said = result.output
        return result.exit_code == 137 and output.startswith(said)

    def _result(self, output: str, *, writes: bool = False) -> Callable[[RunResult], str | None]:
        def wrong(result: RunResult) -> str | None:
            if (result.output, result.exit_code) == (output, 0):
                return None
            if self._explained(result, output, writes=writes):
                return None
            found = f"exit code {result.exit_code}, output {result.output[-300:]!r}"
            return f"{found} in the place of {output[-100:]!r}"

        return wrong

    def _echo(self) -> Step:
        token = f"{self._name}-{self._count}"
        return Step("run", {"command": f"echo {token}"}, self._result(f"{token}\n"))

    def _note(self) -> Step:
        path = f"{self._folder}/journal-{self._journals}"
        if len(self.ledger.journals.get(path, ())) >= _TOKENS:
            self.ledger.forget(path)
            self._journals += 1
            return Step("run", {"command": f"rm -f {path}"}, self._result(""))
        token = f"<{self._random.randbytes(8).hex()}>"
        self.ledger.noting(path, token)

        def wrong(result: RunResult) -> str | None:
            if result.exit_code == 0:
                self.ledger.noted(path, token)
            return self._result("", writes=True)(result)

        return Step("run", {"command": f"mkdir -p {self._folder} && echo '{token}' >> {path}"}, wrong)

    def _write(self) -> Step:
        path = f"{self._folder}/file-{self._random.randrange(5)}"
        size = min(self._largest, self._random.choice([0, 10, 1_000, 70_000, 300_000, 3_000_000]))
        content = self._random.randbytes(size)
        self.ledger.writing(path, content)

        def wrong(_: None) -> None:
            self.ledger.written(path, content)

        return Step("write_file", {"path": f"/workspace/{path}", "content": content}, wrong)

    def _read(self) -> Step:
        known = [path for path, held in self.ledger.files.items() if held and "" not in held]
        if not known:
            return self._echo()
        path = self._random.choice(known)
        allowed = self.ledger.files[path]

        def wrong(content: bytes) -> str | None:
            return None if digest(content) in allowed else f"{path} was read as {digest(content)}"

        return Step("read_file", {"path": f"/workspace/{path}"}, wrong)

    def _block(self) -> Step:
        token = f"{self._name}-{self._count}"
        code = f"seen = globals().get('seen', 0) + 1\nprint('{token}')"
        right = self._result(f"{token}\n")

        def wrong(result: RunResult) -> str | None:
            # The first line says that the interpreter is new.
            first, _, rest = result.output.partition("\n")
            if self._harsh and first == NEW_INTERPRETER.rstrip():
                return right(replace(result, output=rest))
            return right(result)

        return Step("run_python", {"code": code, "session": self._name}, wrong)

    def _flood(self) -> Step:
        def wrong(result: RunResult) -> str | None:
            if result.spill_path:
                self._litter.append(result.spill_path)
            right = result.exit_code == 0 and result.truncated and result.output.endswith(f"\n{_FLOOD}\n")
            # Compare only the beginning, because the middle may be cut out.
            shown = replace(result, output=result.output[:1_000]) if result.truncated else result
            if (right and _FLOODED.startswith(shown.output)) or self._explained(shown, _FLOODED):
                return None
            found = f"{result.output[:50]!r} to {result.output[-50:]!r}"
            return f"the flood was {found}, exit code {result.exit_code}"

        shown = (lambda _: None) if self._random.random() < 0.5 else None
        return Step("run", {"command": f"seq {_FLOOD}", "on_output": shown}, wrong)

    def _slow(self) -> Step:
        """The command times out or is cancelled."""

        def wrong(result: RunResult) -> str | None:
            timed_out = result.exit_code == 124 and result.timed_out
            return None if timed_out or self._explained(result, "") else f"not timed out: {result}"

        command = "trap '' TERM; setsid sleep 60 & sleep 60"
        cancel_after = self._random.choice([None, self._random.uniform(0.0, 0.2)])
        return Step("run", {"command": command, "timeout": 0.3}, wrong, cancel_after)
