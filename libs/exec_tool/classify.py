"""Why a program failed: what the kernel has counted first, then what the program says of it itself."""

# ruff: noqa: E501 - prose

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.exec_tool.call import Language
from libs.exec_tool.outcome import ErrorClass, ExecError

__all__ = ["Counted", "counted", "why_failed"]

_COMPUTED = 0.1
"""Part of its time for which a program has computed that tells one that would go on computing from one that
waits: on a busy machine it gets no more."""
_MOST_MESSAGE = 600

_HINTS: dict[ErrorClass, str] = {
    "syntax": "Nothing of the program ran. Send the whole program again, corrected.",
    "dependency": "Name the package in `dependencies` by the name under which it is installed, or do without it: "
    "the standard library, pandas, numpy, scipy, matplotlib and requests are there.",
    "timeout": "It waited for most of its time. Ask for less, set time-outs of your own for what may not answer, or "
    "split the work: files are there again next time.",
    "cpu": "It computed all the time. Work on less data or fewer steps, use pandas or numpy in the place of loops, or "
    "split the work: files are there again next time.",
    "memory": "It needed more memory than the sandbox has. Work on less at once: read in chunks, only the columns that "
    "are needed, smaller types; files in the working directory count as memory too.",
    "disk": "The disk of the sandbox is full. Write less, in smaller files or compressed, and remove what is not "
    "needed any more.",
    "processes": "It started more processes or threads than the sandbox has room for. Start a few, or do the work in "
    "one process.",
    "network": "The sandbox reaches only the hosts that its person has allowed, over HTTP and HTTPS through the proxy "
    "that HTTP_PROXY names. Do without it, or say which host is needed.",
    "runtime": "Read the error, mend its cause, and send the whole program again.",
}

_SYNTAX = re.compile(r"^(?:SyntaxError|IndentationError|TabError): .*", re.MULTILINE)
_BASH_SYNTAX = re.compile(r".*: (?:syntax error|unexpected EOF|line \d+: unexpected EOF).*")
_LAST = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Timeout)\b.*", re.MULTILINE)
_SAYS: Sequence[tuple[ErrorClass, re.Pattern[str]]] = (
    (
        "memory",
        re.compile(r"MemoryError|[Cc]annot allocate memory|Unable to allocate|bad_alloc|Out of memory"),
    ),
    (
        "disk",
        re.compile(
            r"No space left on device|\bENOSPC\b|Disk quota exceeded|database or disk is full|File too large"
        ),
    ),
    ("processes", re.compile(r"can't start new thread|fork: (?:retry: )?Resource temporarily unavailable")),
    ("dependency", re.compile(r"^(?:ModuleNotFoundError|ImportError)\b|: command not found$", re.MULTILINE)),
    (
        "network",
        re.compile(
            r"EGRESS_ALLOW|ProxyError|ConnectionError|ConnectTimeout|ConnectionRefusedError|SSLError|URLError|urlopen error"
            r"|NameResolutionError|Name or service not known|Temporary failure in name resolution|Network is unreachable"
            r"|Max retries exceeded|^curl: \((?:5|6|7|28|35|56|60)\)|Tunnel connection failed|httpx\.\w*Connect",
            re.MULTILINE,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the kernel has counted in a sandbox; None where it does not tell."""

    peak_memory: int | None = None
    """Bytes."""
    cpu: float | None = None
    """Seconds."""
    killed: int = 0
    """Processes that were ended for lack of memory."""
    refused: int = 0
    """Processes that could not be made."""
    disk_left: int | None = None
    """Blocks of the workspace that are free."""
    size: int | None = None
    """Bytes of the files in the workspace."""
    packed: bool = False
    """Whether the workspace was packed."""
    empty: bool = False
    """Whether there was nothing to pack."""


def counted(output: str) -> Counted:
    """Read what `libs.exec_tool.layout.COLLECT` has printed; both versions of control groups."""
    found: dict[str, int] = {}
    for line in output.splitlines():
        *names, value = line.split()[-3:] or [""]
        if value.isdigit():
            found[" ".join(names)] = int(value)
    cpu = found.get("cpu")  # version 1: nanoseconds
    microseconds = found.get("cpu usage_usec")
    return Counted(
        peak_memory=found.get("peak"),
        cpu=cpu / 1e9 if cpu is not None else microseconds / 1e6 if microseconds is not None else None,
        killed=found.get("oom oom_kill", 0),
        refused=found.get("pids max", 0),
        disk_left=found.get("disk"),
        size=found.get("size"),
        packed=found.get("packed") in (0, 1),  # 1: a file has changed meanwhile
        empty="empty" in found,
    )


def why_failed(
    language: Language,
    *,
    exit_code: int,
    timed_out: bool,
    stdout: str,
    stderr: str,
    seconds: float,
    kernel: Counted,
    has_result: bool,
) -> ExecError | None:
    """Why a program failed; None where it did not.

    One that ends well although a limit was met is only said to have failed where it printed no result: what
    was left behind may have used the limit up.
    """
    if exit_code == 0 and not timed_out and (has_result or not kernel.refused):
        return None
    # The last words are the ones that count; a program may print pages before.
    said = (stderr or stdout)[-20_000:]
    kind = _kind(
        language, exit_code=exit_code, timed_out=timed_out, said=said, seconds=seconds, kernel=kernel
    )
    return ExecError(kind, _message(kind, exit_code, said, seconds, kernel), _HINTS[kind])


def _kind(
    language: Language, *, exit_code: int, timed_out: bool, said: str, seconds: float, kernel: Counted
) -> ErrorClass:
    if kernel.killed:
        return "memory"
    if kernel.refused:
        return "processes"
    if timed_out:
        if kernel.disk_left == 0:
            return "disk"
        return "cpu" if (kernel.cpu or 0.0) >= _COMPUTED * seconds else "timeout"
    if language == "python" and _SYNTAX.search(said) and "Traceback (most recent call last)" not in said:
        return "syntax"
    if language == "bash" and exit_code == 2 and _BASH_SYNTAX.search(said):
        return "syntax"
    last = "\n".join(_LAST.findall(said)[-1:]) or said[-2_000:]
    for kind, pattern in _SAYS:
        if pattern.search(last):
            return kind
    return "disk" if kernel.disk_left == 0 or exit_code == 153 else "runtime"


def _message(kind: ErrorClass, exit_code: int, said: str, seconds: float, kernel: Counted) -> str:
    last = (_LAST.findall(said) or [said.strip().rpartition("\n")[2]])[-1].strip()[:_MOST_MESSAGE]
    facts: Mapping[str, str] = {
        "memory": "The sandbox ran out of memory.",
        "processes": f"The sandbox had no room for more processes: {kernel.refused} were refused.",
        "cpu": f"Its time, {seconds:.1f} s, was used up by computing.",
        "timeout": f"Its time, {seconds:.1f} s, was used up.",
        "disk": "The disk of the sandbox is full.",
    }
    return " ".join(filter(None, (facts.get(kind, f"It ended with exit code {exit_code}."), last)))
