"""What a worker does next: drawn by chance from a seed, with what its result must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from libs.sandbox import RunResult
from tests.load.ledger import Ledger, digest

__all__ = ["Step", "Steps"]

_FLOOD = 30_000
_TOKENS = 100
"""Tokens of one journal; then it is removed and another begun."""


def _nothing(_: Any) -> str | None:
    return None


@dataclass
class Step:
    """One call of a sandbox."""

    method: str
    arguments: dict[str, Any]
    wrong: Callable[[Any], str | None] = _nothing
    """What is wrong with the result; None where it is right."""
    cancel_after: float | None = None
    """Seconds after which a task gives it up."""


class Steps:
    """The steps of one worker, in its own folder and its own interpreter.

    Args:
        largest: bytes of the largest file.
        harsh: whether something else breaks commands meanwhile: then they may fail, but never give a wrong
            result.
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
            *(self._echo, self._echo, self._block, self._flood, self._slow, self._list, self._background),
        )

    def next(self) -> Step:
        self._count += 1
        if self._litter:
            return Step("run", {"command": f"rm -rf {self._litter.pop()}"})
        return self._random.choice(self._kinds)()

    def _result(self, output: str, exit_code: int = 0) -> Callable[[RunResult], str | None]:
        def wrong(result: RunResult) -> str | None:
            if (result.output, result.exit_code) == (output, exit_code):
                return None
            if self._harsh and result.exit_code != exit_code:
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
            return Step("run", {"command": f"rm -f {path}"})
        token = f"<{self._random.randbytes(8).hex()}>"
        self.ledger.noting(path, token)

        def wrong(result: RunResult) -> str | None:
            if result.exit_code == 0:
                self.ledger.noted(path, token)
            return self._result("")(result)

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
            # A line above it tells where the interpreter is another one than before.
            if self._harsh and result.exit_code == 0 and result.output.endswith(f"]\n{token}\n"):
                return None
            return right(result)

        return Step("run_python", {"code": code, "session": self._name}, wrong)

    def _flood(self) -> Step:
        def wrong(result: RunResult) -> str | None:
            if result.spill_path:
                self._litter.append(result.spill_path)
            if result.exit_code:
                return None if self._harsh else f"exit code {result.exit_code}"
            right = (
                result.truncated and result.output.endswith(f"\n{_FLOOD}\n") and result.output[:4] == "1\n2\n"
            )
            return None if right else f"the flood was {result.output[:50]!r} to {result.output[-50:]!r}"

        shown = (lambda _: None) if self._random.random() < 0.5 else None
        return Step("run", {"command": f"seq {_FLOOD}", "on_output": shown}, wrong)

    def _slow(self) -> Step:
        """Threads let it time out, tasks are cancelled."""

        def wrong(result: RunResult) -> str | None:
            return None if result.exit_code == 124 or self._harsh else f"not timed out: {result}"

        command = "trap '' TERM; setsid sleep 60 & sleep 60"
        return Step("run", {"command": command, "timeout": 0.3}, wrong, self._random.uniform(0.0, 0.2))

    def _list(self) -> Step:
        return self._random.choice(
            [
                Step("file", {"do": "glob", "path": "/workspace", "pattern": "load/**/file-*"}),
                Step("run", {"command": f"ls -la {self._folder} 2>&1 | wc -l"}),
            ]
        )

    def _background(self) -> Step:
        return Step("run", {"command": "sleep 0.2 & echo on"}, self._result("on\n"))
