"""From what came back over the channel to a result, or to the error that it is."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

from libs.sandbox.call import Answer, Call
from libs.sandbox.errors import SandboxBusy
from libs.sandbox.frames import Ending, Fd
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.messages import INTERRUPTED, OutputReport, RunReport
from libs.sandbox.protocol import FileFailed, RunResult
from libs.sandbox.redact import redacted_content, redacted_values

__all__ = ["as_builtin", "block_result", "file_result", "run_result"]


def run_result(limits: SandboxLimits, call: Call, answer: Answer, seconds: float) -> RunResult:
    """How a command ended. Raises SandboxBusy where it was not begun."""
    return _result(
        limits,
        call,
        answer,
        seconds,
        late="everything the command started was ended",
        lost="the process that ran it was killed, by this command or by another one: "
        "everything it started was ended",
    )


def block_result(
    limits: SandboxLimits, call: Call, answer: Answer, seconds: float, note: str = ""
) -> RunResult:
    """How a block of Python ended, its output after `note`. Raises SandboxBusy where it was not begun."""
    kept = _report(answer, seconds).exit_code == INTERRUPTED
    result = _result(
        limits,
        call,
        answer,
        seconds,
        late="the block was interrupted, its variables are kept"
        if kept
        else "the interpreter was ended, its variables are lost",
        lost="the block ended the process that kept the interpreter: its variables are lost",
    )
    return replace(result, output=note + result.output) if note else result


def file_result(call: Call, answer: Answer, seconds: float) -> tuple[dict[str, Any], bytes]:
    """What a file operation answers, and the content it returns.

    Raises:
        FileFailed: it could not be done.
        SandboxBusy: no process could be started for it.
    """
    if answer.ending == Ending.TIMEOUT:
        raise FileFailed("timeout", f"it took over {seconds:g} s")
    if answer.ending == Ending.BUSY:
        raise SandboxBusy(
            "The sandbox cannot handle files now: its process limit is used up.",
            hint="What earlier commands had left running in the background was ended: try again.",
        )
    if answer.ending == Ending.WAITED:
        raise FileFailed("timeout", f"it waited for its turn for {seconds:g} s")
    if answer.ending != Ending.DONE:
        raise FileFailed("failed", "what served it was ended by a command; try again")
    try:
        message: Any = json.loads(answer.body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise FileFailed("failed", "what served it gave an answer that cannot be read; try again")
    if call.redact:
        message = redacted_values(call.redact, message)
    if error := message.get("error"):
        raise FileFailed(str(error), str(message.get("detail", error)))
    content = bytes(call.data[Fd.OUT])
    return message, redacted_content(call.redact, content) if call.redact else content


def as_builtin(error: FileFailed, path: str) -> Exception:
    """The error that a local file would have raised."""
    kinds: dict[str, type[OSError]] = {
        "file_not_found": FileNotFoundError,
        "is_directory": IsADirectoryError,
        "not_a_directory": NotADirectoryError,
        "permission_denied": PermissionError,
        "timeout": TimeoutError,
    }
    if error.code == "invalid_path":
        return ValueError(f"{path}: {error}")
    return kinds.get(error.code, OSError)(f"{path}: {error}")


def _result(
    limits: SandboxLimits, call: Call, answer: Answer, seconds: float, *, late: str, lost: str
) -> RunResult:
    if answer.ending == Ending.BUSY:
        raise SandboxBusy(
            f"The sandbox cannot start the command: its {limits.pids} processes, or its commands "
            "at once, are used up.",
            hint="What earlier commands had left running in the background was ended: run it again. "
            "If that is not enough, wait for commands that still run, or raise SANDBOX_PIDS.",
        )
    if answer.ending == Ending.WAITED:
        raise SandboxBusy(
            f"The command waited for its turn for {seconds:g} s, its whole time-out, and was not begun.",
            hint="So many commands run at once: wait for some to end, or end them.",
        )
    report = _report(answer, seconds)
    timed_out = answer.ending == Ending.TIMEOUT
    output, *errors = [
        _text_of(call, fd, item, limits.output_chars, cut=answer.ending != Ending.DONE)
        for fd, item in zip((Fd.OUT, Fd.ERR), [*report.outputs, None][:2], strict=False)
    ]
    note = ""
    if timed_out:
        note = f"[timed out after {seconds:g} s: {late}]"
    elif answer.ending == Ending.LOST:
        note = f"[{lost}]"
    if note:
        output += "\n" * bool(output and not output.endswith("\n")) + note
    spilled = [item.spill_path.decode("utf-8", "replace") for item in report.outputs if item.spill_path]
    return RunResult(
        output=output,
        stderr="".join(errors),
        exit_code=124 if timed_out else report.exit_code,
        truncated=any(item.chars > limits.output_chars for item in report.outputs),
        timed_out=timed_out,
        spill_path=spilled[0] if spilled else None,
        seconds=report.seconds,
    )


def _report(answer: Answer, seconds: float) -> RunReport:
    try:
        return RunReport.decode(answer.body)
    except struct.error:  # nobody was left to report
        return RunReport(137, seconds, [])


def _text_of(call: Call, fd: int, report: OutputReport | None, limit: int, *, cut: bool) -> str:
    """An output as text; where it is over the limit, its middle replaced by a line that says so.

    Args:
        cut: what printed it was ended, maybe within a secret.
    """
    head, tail = bytes(call.data[fd]), bytes(call.tail[fd])
    if report is None or report.chars <= limit:
        return _decoded(call, head + tail, cut=cut)
    if report.total == len(head) + len(tail):
        first = last = _decoded(call, head + tail, cut=cut)
    else:
        # More was left out inside: the tail may begin within a character, long before what is shown.
        if call.redact:
            head = call.redact.part(head, cut_after=True)
            tail = call.redact.part(tail, cut_before=True, cut_after=cut)
        first, last = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    half = limit // 2
    path = report.spill_path.decode("utf-8", "replace")
    if not path or not report.spilled:
        where = "it could not be kept: the workspace takes no more"
    elif report.spilled < report.total:
        where = f"its first {report.spilled:,} bytes are in {path}"
    else:
        where = f"the whole output is in {path}"
    left_out = report.chars - 2 * half
    return f"{first[:half]}\n[… {left_out:,} characters left out; {where} …]\n{last[-half:]}"


def _decoded(call: Call, data: bytes, *, cut: bool) -> str:
    """Redacted before it is cut: a secret must not be cut in two."""
    if call.redact:
        data = call.redact.part(data, cut_after=True) if cut else call.redact(data)
    return data.decode("utf-8", "replace")
