"""Turns the answers to commands and blocks into results or errors."""

from __future__ import annotations

import re
import struct
import time
from typing import Literal

from libs.sandbox.errors import CommandInterrupted, CommandStopped, SandboxBusy, SandboxDied, SandboxError
from libs.sandbox.host.requests.request import Answer, Call
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.protocol import RunResult
from libs.sandbox.wire.frames import Ending, Fd
from libs.sandbox.wire.messages import OutputReport, RunReport

OUR_ERROR = "This is an error of the sandbox itself: see the log of the program that started the sandbox"
_LONG_WAIT = 0.5
"""Seconds that a request waits for its turn, from which a time-out names them."""
_INTERRUPTED = 130
"""Exit code of a block that was ended by KeyboardInterrupt."""
_CUT = re.compile(r"(?:\n\[… [0-9,]+ characters left out[^\n]* …\](?=\n))+")
"""The lines in the place of the middle of an output."""
_OFF_MIDDLE = 1_000
"""Most characters from the middle of an output to those lines. Notes stand before or after an output."""

__all__ = [
    "OUR_ERROR",
    "block_result",
    "check_begun",
    "failed_result",
    "received",
    "run_result",
    "shortened",
]


def run_result(
    limits: SandboxLimits, call: Call, answer: Answer, seconds: float, spills: bool = True
) -> RunResult:
    """Return the result of a command. Raises SandboxBusy if the command did not begin.

    `spills`: whether a file was to keep a long output.
    """
    return _result(
        limits,
        call,
        answer,
        seconds,
        late="everything the command started was ended",
        lost="the process that ran it was killed, "
        f"{_killer(answer, 'by this command, or by another command or block')}: "
        "everything it started was ended, its last output may be missing, and what other commands have left "
        "running may have ended, too",
        spills=spills,
    )


def block_result(limits: SandboxLimits, call: Call, answer: Answer, seconds: float) -> RunResult:
    """Return the result of a block. Raises SandboxBusy if it did not begin."""
    if answer.ending == Ending.ENDED:
        late = "the interpreter was ended, its variables are lost"
    elif _report(call, answer, seconds).exit_code == _INTERRUPTED:
        late = (
            "the block was interrupted, processes started during the block were ended, the variables are kept"
        )
    else:
        late = (
            "the block ended, but not with KeyboardInterrupt: processes started during the block were ended, "
            "the variables are kept"
        )
    return _result(
        limits,
        call,
        answer,
        seconds,
        late=late,
        lost=f"the process that kept the interpreter was killed, "
        f"{_killer(answer, 'by this block, or by another block or command')}: "
        "its variables are lost, and its last output may be missing",
    )


def _killer(answer: Answer, programs: str) -> str:
    if answer.ending == Ending.MEMORY:
        return "and the kernel has killed a process meanwhile, because the sandbox's memory is used up"
    return programs


def failed_result(why: SandboxError | str) -> RunResult:
    """Return a result for a sandbox error: exit code 125, with message and hint at the end of the output."""
    output = f"{why} {why.hint}" if isinstance(why, SandboxError) else why
    if isinstance(why, SandboxDied) and why.output:
        output = f"{why.output}\n{output}"
    interrupted: Literal["stopped", "ended"] | None = None
    if isinstance(why, CommandInterrupted | SandboxDied):
        interrupted = "stopped" if isinstance(why, CommandStopped) else "ended"
    return RunResult(
        output,
        "",
        125,
        truncated=False,
        timed_out=False,
        spill_path=None,
        seconds=0.0,
        interrupted=interrupted,
    )


def received(limits: SandboxLimits, call: Call, spills: bool = True) -> str:
    """Return what has come of both outputs of a command whose sandbox has ended."""
    both = (Fd.OUT, Fd.ERR)
    outputs = [_decoded(call, bytes(call.data[fd] + call.tail[fd]), cut_off=True) for fd in both]
    missing = max(_rest_is_missing(limits, call, fd, spills=spills) for fd in both)
    return shortened("".join(outputs), limits.output_chars) + missing


def _rest_is_missing(limits: SandboxLimits, call: Call, fd: int, *, spills: bool) -> str:
    """Return a line for an output of which only the beginning has come, or nothing.

    A command sends as much as `Output` keeps of the beginning, and the rest when it has ended. So an output
    with exactly the size of the beginning gets the line, too.
    """
    if call.tail[fd] or len(call.data[fd]) < 2 * limits.output_chars:
        return ""
    where = "; a very long output may be in a file in .output" if spills else ""
    return f"\n[… the rest of this output did not come{where} …]\n"


def _result(
    limits: SandboxLimits,
    call: Call,
    answer: Answer,
    seconds: float,
    *,
    late: str,
    lost: str,
    spills: bool = True,
) -> RunResult:
    check_begun(answer, seconds)
    report = _report(call, answer, seconds)
    timed_out = answer.ending in (Ending.TIMEOUT, Ending.ENDED)
    cut_off = answer.left_running or answer.ending != Ending.DONE
    reports = report.outputs or _received(call)
    may_spill, spills = spills, spills and bool(report.outputs)
    shown = [
        _text_of(call, fd, item, limits.output_chars, cut_off=cut_off, spills=spills)
        for fd, item in zip((Fd.OUT, Fd.ERR), [*reports, None][:2], strict=False)
    ]
    if not report.outputs:
        rests = (_rest_is_missing(limits, call, fd, spills=may_spill) for fd in (Fd.OUT, Fd.ERR))
        shown = [(text + rest, cut or bool(rest)) for (text, cut), rest in zip(shown, rests, strict=False)]
    (output, _), *errors = shown
    note = ""
    if timed_out:
        waited = seconds - report.seconds
        turn = f", of which it waited {waited:.1f} s for its turn" if waited > _LONG_WAIT else ""
        note = f"[timed out after {seconds:g} s{turn}: {late}]"
    elif answer.ending == Ending.FAILED:
        note = f"[the process that ran this failed, and everything it started was ended. {OUR_ERROR}]"
    elif answer.ending != Ending.DONE:
        note = f"[{lost}]"
    if note:
        output += "\n" * bool(output and not output.endswith("\n")) + note
    spilled = [
        item.spill_path.decode("utf-8", "replace")
        for item, (_, is_shortened) in zip(reports, shown, strict=False)
        if item.spilled and is_shortened
    ]
    return RunResult(
        output=output,
        stderr="".join(text for text, _ in errors),
        exit_code=124 if timed_out else report.exit_code,
        truncated=any(is_shortened for _, is_shortened in shown),
        timed_out=timed_out,
        spill_path=spilled[0] if spilled else None,
        seconds=report.seconds,
    )


def check_begun(answer: Answer, seconds: float) -> None:
    """Raise SandboxBusy if the request did not begin."""
    if answer.ending == Ending.BUSY:
        raise SandboxBusy(
            "The sandbox cannot begin this: its processes, or its commands at once, are used up.",
            hint="What earlier commands have left running, if anything, was ended: try again. If that is not "
            "enough, end what code blocks have started, wait for commands that still run, or raise "
            "SANDBOX_PIDS.",
        )
    if answer.ending == Ending.WAITED:
        raise SandboxBusy(
            f"This waited for its turn for {seconds:g} s, its whole time-out, and was not begun.",
            hint="An earlier block of the same session still runs, or many commands run at once: wait until "
            "they end, end them, or allow more time. A low SANDBOX_PIDS lets fewer run at once.",
        )


def _report(call: Call, answer: Answer, seconds: float) -> RunReport:
    try:
        return RunReport.decode(answer.body)
    except struct.error:  # the worker was killed before its report
        return RunReport(137, min(seconds, time.monotonic() - call.sent_at), [])


def _received(call: Call) -> list[OutputReport]:
    """Return figures about what has come of both outputs, for a worker that was killed before its report."""
    outputs = [bytes(call.data[fd] + call.tail[fd]) for fd in (Fd.OUT, Fd.ERR)]
    return [OutputReport(len(data), len(data.decode("utf-8", "replace")), 0, b"") for data in outputs]


def _text_of(
    call: Call, fd: int, report: OutputReport | None, limit: int, *, cut_off: bool, spills: bool
) -> tuple[str, bool]:
    """Return an output as text, and whether a line replaces its middle because it is over the limit.

    Args:
        cut_off: the program was killed or goes on, so the output may end within a secret.
        spills: whether a file was to keep the output.
    """
    head, tail = bytes(call.data[fd]), bytes(call.tail[fd])
    if report is None or report.chars <= limit:
        return _decoded(call, head + tail, cut_off=cut_off), False
    half = limit // 2
    left_out = report.chars - 2 * half
    if report.total == len(head) + len(tail):
        first = last = _decoded(call, head + tail, cut_off=cut_off)
        if len(first) <= limit:  # without its secrets, the text is short enough
            return first, False
        left_out = len(first) - 2 * half
    else:
        # A gap lies between head and tail. The tail may begin within a character, long before the shown part.
        if call.redact:
            head = call.redact.part(head, cut_after=True)
            tail = call.redact.part(tail, cut_before=True, cut_after=cut_off)
        first, last = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    path = report.spill_path.decode("utf-8", "replace")
    if not spills:
        where = ""
    elif not path:
        where = "; it could not be kept, because nothing can be written to .output"
    elif not report.spilled:
        where = f"; it was kept in {path}, but that file was removed or changed meanwhile"
    elif report.spilled < report.total:
        where = f"; its first {report.spilled:,} bytes are in {path}"
    else:
        where = f"; the whole output is in {path}"
    return f"{first[:half]}\n[… {left_out:,} characters left out{where} …]\n{last[-half:]}", True


def shortened(text: str, limit: int | None) -> str:
    """Return `text`, or its beginning and end with a line that counts the characters left out.

    The lines in the middle of an output that was cut before stay: they tell what else is left out, and where
    the whole output is.
    """
    if limit is None or len(text) <= limit:
        return text
    half = max(1, limit // 2)
    end = len(text) - half
    middle = len(text) // 2
    earlier = _CUT.search(text, max(0, middle - _OFF_MIDDLE), middle + _OFF_MIDDLE)
    if not earlier or earlier.end() <= half or earlier.start() >= end:
        return f"{text[:half]}{_left_out(end - half)}\n{text[end:]}"
    begin, rest = earlier.start(), earlier.end() + 1
    first, last = min(half, begin), max(end, rest)
    return f"{text[:first]}{_left_out(begin - first)}{earlier[0]}{_left_out(last - rest)}\n{text[last:]}"


def _left_out(count: int) -> str:
    return f"\n[… {count:,} characters left out …]" if count else ""


def _decoded(call: Call, data: bytes, *, cut_off: bool) -> str:
    """Remove secrets and decode. Redaction comes before cutting, which could split a secret."""
    if call.redact:
        data = call.redact.part(data, cut_after=True) if cut_off else call.redact(data)
    return data.decode("utf-8", "replace")
