"""What comes of an execution."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

__all__ = ["ELSEWHERE", "ErrorClass", "ExecError", "ExecResult", "Metrics", "cut"]

ErrorClass = Literal[
    "input",
    "syntax",
    "dependency",
    "timeout",
    "memory",
    "cpu",
    "disk",
    "processes",
    "network",
    "runtime",
    "sandbox",
    "interrupted",
]
"""Why an execution failed:

- `input`: the call is not one; nothing was started.
- `syntax`: the program cannot be read; none of it ran.
- `dependency`: a package cannot be installed, or is not there.
- `timeout`, `cpu`: the time was used up, waiting or computing.
- `memory`, `disk`, `processes`: a limit of the sandbox was reached.
- `network`: a host may not, or cannot, be reached.
- `runtime`: the program failed, or said `{"ok": false}`.
- `sandbox`: it could not be run here; nothing is wrong with it.
- `interrupted`: the program that ran it was ended meanwhile; how far it came is unknown.
"""


ELSEWHERE = b"(kept elsewhere)"
"""In the place of a file's content: it is this very object, not an equal of it."""


@dataclass(frozen=True, slots=True)
class ExecError:
    """Why an execution failed, and what to do about it."""

    kind: ErrorClass
    message: str
    hint: str

    def as_json(self) -> dict[str, str]:
        return {"class": self.kind, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class Metrics:
    """What an execution took: seconds, bytes."""

    sandbox: float = 0.0
    """Seconds until a fresh sandbox was there, and its files in it."""
    install: float = 0.0
    """Seconds until the dependencies were there."""
    run: float = 0.0
    """Seconds that the program itself took."""
    total: float = 0.0
    peak_memory: int | None = None
    """Bytes of the whole sandbox at its largest, files included; None where the kernel does not tell."""
    cpu: float | None = None
    """Seconds of computing."""
    exit_code: int | None = None
    """None where nothing was run."""
    cache_hit: bool | None = None
    """Whether the dependencies were there already; None without any."""

    def as_json(self) -> dict[str, Any]:
        """By name, times to a tenth of a millisecond."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What comes of an execution, good or bad. Nothing is raised for what a program does."""

    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Relative path -> content of what is new or has changed."""
    removed: tuple[str, ...] = ()
    """Files of the thread that the program has removed."""
    result: Any = None
    """The last JSON value on standard output."""
    note: str = ""
    """Why there is no result, and which files could not be kept."""
    error: ExecError | None = None
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def ok(self) -> bool:
        return self.error is None

    def as_json(self, *, limit: int | None = None, contents: bool = False) -> dict[str, Any]:
        """The result as JSON.

        Args:
            limit: characters of each output, and of the result as JSON, that are shown; None: all. Of a
                larger result the text is shown, cut.
            contents: whether the contents of files are in it, as base64.
        """
        result = self.result
        if limit is not None and len(text := json.dumps(result, ensure_ascii=False)) > limit:
            result = cut(text, limit)
        return {
            "ok": self.ok,
            "stdout": cut(self.stdout, limit),
            "stderr": cut(self.stderr, limit),
            "files": self.files_as_json(contents=contents),
            **({"removed": list(self.removed)} if self.removed else {}),
            "result": result,
            **({"note": self.note} if self.note else {}),
            "error": self.error.as_json() if self.error else None,
            "metrics": self.metrics.as_json(),
        }

    def files_as_json(self, *, contents: bool) -> list[dict[str, Any]]:
        """Path and size of each file, and its content as base64."""
        return [
            {"path": path, "size": len(content)}
            | ({"base64": base64.b64encode(content).decode()} if contents else {})
            for path, content in sorted(self.files.items())
        ]

    def kept(self, *, contents: bool) -> dict[str, Any]:
        """All of it as JSON, for a record; see `restored`.

        Args:
            contents: whether those of files are in it: not where something else keeps them.
        """
        return {**self.as_json(contents=contents), "removed": list(self.removed), "note": self.note}

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> ExecResult:
        """What `kept` gave. Contents that are kept elsewhere are ELSEWHERE, see `with_files`."""
        error = kept["error"]
        return cls(
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            files={
                each["path"]: base64.b64decode(each["base64"]) if "base64" in each else ELSEWHERE
                for each in kept["files"]
            },
            removed=tuple(kept["removed"]),
            result=kept["result"],
            note=kept["note"],
            error=ExecError(error["class"], error["message"], error["hint"]) if error else None,
            metrics=Metrics(**kept["metrics"]),
        )

    def with_files(self, have: Mapping[str, bytes]) -> ExecResult:
        """The same with the contents of its files, from where they are kept."""
        return replace(self, files={path: have[path] for path in self.files if path in have})

    @classmethod
    def failed(cls, kind: ErrorClass, message: str, hint: str, metrics: Metrics | None = None) -> ExecResult:
        """One without anything but its error."""
        return cls(error=ExecError(kind, message, hint), metrics=metrics or Metrics())

    def after(self, total: float) -> ExecResult:
        """The same, once it is known how long all of it took."""
        return replace(self, metrics=replace(self.metrics, total=total))


def cut(text: str, limit: int | None) -> str:
    """A text, or its beginning and its end with a line between them that counts what is left out."""
    if limit is None or len(text) <= limit:
        return text
    half = max(1, limit // 2)
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
