"""The result of an execution: output, files, error and metrics."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from libs.exec_tool.outcome.result_json import CUT
from libs.persistence import DEFAULT_MODE, FileContent, mode_of
from libs.sandbox import RunResult
from libs.sandbox.host import failed_result, shortened

__all__ = ["ErrorClass", "ExecError", "ExecResult", "Metrics"]

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

- `input`: the call is invalid; nothing was started.
- `syntax`: the program has a syntax error. Nothing of it ran; of a bash program, the lines above may have.
- `dependency`: a package cannot be installed or is missing.
- `timeout`, `cpu`: the time was used up. `cpu`: a tenth of it or more was processor time.
- `memory`, `disk`, `processes`: a limit of the sandbox was reached.
- `network`: a host is not allowed or cannot be reached.
- `runtime`: the program failed, or printed `{"ok": false}`.
- `sandbox`: the sandbox failed, not the program.
- `interrupted`: this process was killed while the program ran; the effect is unknown.
"""


@dataclass(frozen=True, slots=True)
class ExecError:
    """Why an execution failed, and what to do."""

    kind: ErrorClass
    message: str
    hint: str

    def as_json(self) -> dict[str, str]:
        return {"class": self.kind, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class Metrics:
    """Times in seconds and sizes in bytes of an execution."""

    sandbox: float = 0.0
    """Seconds until a fresh sandbox was ready and filled with the files."""
    install: float = 0.0
    """Seconds until the dependencies were installed."""
    run: float = 0.0
    """Seconds of the program itself."""
    total: float = 0.0
    peak_memory: int | None = None
    """Largest size of the sandbox in bytes, including files. None if the kernel does not report it."""
    cpu: float | None = None
    """Seconds of processor time."""
    exit_code: int | None = None
    """None if nothing ran, or if the end of the program is unknown."""
    cache_hit: bool | None = None
    """Whether the dependencies were installed before. None without dependencies."""

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as JSON, times rounded to 0.1 ms."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of an execution. A failing program gives an `error` and raises nothing."""

    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Relative path -> content of new and changed files. `mode_of` tells the mode."""
    removed: tuple[str, ...] = ()
    """Files of the thread that the program removed."""
    result: Any = None
    """The last JSON value on standard output."""
    note: str = ""
    """Why there is no result, what was replaced in it, and which files could not be saved."""
    error: ExecError | None = None
    metrics: Metrics = field(default_factory=Metrics)
    sandbox_died: bool = False
    """Whether the sandbox ended while it was in use. Not part of the JSON."""

    @property
    def ok(self) -> bool:
        return self.error is None

    def as_json(self, *, limit: int | None = None, contents: bool = False) -> dict[str, Any]:
        """Return the result as JSON.

        Args:
            limit: most characters of each output, and of the result as JSON text. A larger result is replaced
                by its cut text. None: no limit.
            contents: whether to include the contents of files as base64.
        """
        result = self.result
        if limit is not None and len(text := json.dumps(result, ensure_ascii=False)) > limit:
            result = shortened(text, limit)
        return {
            "ok": self.ok,
            "stdout": shortened(self.stdout, limit),
            "stderr": shortened(self.stderr, limit),
            "files": self.files_as_json(contents=contents),
            **({"removed": list(self.removed)} if self.removed else {}),
            "result": result,
            **({"note": self.note} if self.note else {}),
            "error": self.error.as_json() if self.error else None,
            "metrics": self.metrics.as_json(),
        }

    def as_run_result(self) -> RunResult:
        """Return the result in the form of a command's result, with the output as the whole of both outputs.

        The exit code is 125 if nothing ran or the end of the program is unknown. The output then ends with
        the error.
        """
        code = self.metrics.exit_code
        if self.error and code is None:
            before = f"{self.stdout}\n" if self.stdout else ""
            failed = failed_result(f"{before}{self.error.message} {self.error.hint}")
            ended = self.error.kind == "interrupted" or self.sandbox_died
            return replace(failed, truncated=bool(CUT.search(before)), interrupted="ended" if ended else None)
        output = self.stdout + self.stderr
        return RunResult(
            output,
            "",
            code or 0,
            truncated=bool(CUT.search(output)),
            timed_out=self.error is not None and self.error.kind in ("timeout", "cpu"),
            spill_path=None,
            seconds=self.metrics.run,
        )

    def files_as_json(self, *, contents: bool) -> list[dict[str, Any]]:
        """Return path, size, a mode other than 644, and, on request, base64 content of each file."""
        return [
            {"path": path, "size": len(content)}
            | ({"mode": f"{mode:o}"} if (mode := mode_of(content)) != DEFAULT_MODE else {})
            | ({"base64": base64.b64encode(content).decode()} if contents else {})
            for path, content in sorted(self.files.items())
        ]

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> ExecResult:
        """Read the JSON of `as_json`. Contents that are not in it are empty."""
        error = kept["error"]
        return cls(
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            files={
                each["path"]: FileContent(
                    base64.b64decode(each.get("base64", "")),
                    int(each["mode"], 8) if "mode" in each else DEFAULT_MODE,
                )
                for each in kept["files"]
            },
            removed=tuple(kept.get("removed", ())),
            result=kept["result"],
            note=kept.get("note", ""),
            error=ExecError(error["class"], error["message"], error["hint"]) if error else None,
            metrics=Metrics(**kept["metrics"]),
        )

    def noted(self, note: str) -> ExecResult:
        """Return a copy with one more note."""
        return replace(self, note=" ".join(filter(None, (self.note, note))))

    @classmethod
    def failed(cls, kind: ErrorClass, message: str, hint: str, metrics: Metrics | None = None) -> ExecResult:
        """Return a result that has only an error."""
        return cls(error=ExecError(kind, message, hint), metrics=metrics or Metrics())
