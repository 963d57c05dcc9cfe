"""Find the cause of a failure, first from the kernel's counters, then from the program's output."""

# ruff: noqa: E501 - prose

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from libs.exec_tool.execute_code_call import Language
from libs.exec_tool.execution_outcome import ErrorClass, ExecError
from libs.exec_tool.program_folder import program_path
from libs.sandbox import RunResult

__all__ = ["COUNT", "DISK", "Counted", "counted", "why_failed"]

_COMPUTED = 0.1
"""Share of processor time from which a timed-out program counts as computing, not waiting. The share is small
because a busy machine gives a program little time."""
_START = 0.5
"""Seconds of processor time for the sandbox and the interpreter, which do not count as computing."""
_MOST_MESSAGE = 600

_HINTS: dict[ErrorClass, str] = {
    "syntax": "Nothing of the program ran. Send the whole program again, corrected.",
    "dependency": "Name the package in `dependencies` by the name under which it is installed, or do without it: "
    "the standard library, pandas, numpy, scipy, matplotlib and requests are there.",
    "timeout": "The program waited for most of its time. Ask for less, set time-outs of your own for what may not answer, or "
    "split the work over several programs.",
    "cpu": "The program computed all the time. Work on less data or fewer steps, use pandas or numpy in the place of loops, or "
    "split the work over several programs.",
    "memory": "The program needed more memory than the sandbox has. Work on less at once: read in chunks, only the columns that "
    "are needed, smaller types; files in the working directory count as memory too.",
    "disk": "The sandbox had no room for a file. Write less, in smaller files or compressed, and remove what is not "
    "needed any more.",
    "processes": "The program started more processes or threads than the sandbox has room for. Start a few, or do the work in "
    "one process.",
    "network": "The sandbox reaches only the hosts that its person has allowed, over HTTP and HTTPS through the proxy "
    "that HTTP_PROXY names. Do without it, or say which host is needed.",
    "runtime": "Read the error, mend its cause, and send the whole program again.",
}
_NO_PACKAGES = (
    "This runner installs no packages: do without. The standard library, pandas, numpy, scipy, matplotlib and requests "
    "are there."
)
_BASH_RAN = (
    "The lines above the error may have run: mind what they did, and send the whole program again, corrected."
)
_NO_NETWORK = "This runner has no network: its programs reach no host. Do without it, or send the data in `files` or `args`."

_UNBOUND = re.compile(r"NameError: name '(\w+)' is not defined")
_SYNTAX = re.compile(
    rf'^  File "{re.escape(program_path("python"))}", line \d+$.*^(?:SyntaxError|IndentationError|TabError): ',
    re.MULTILINE | re.DOTALL,
)
_BASH_SYNTAX = re.compile(r".*: (?:syntax error|unexpected EOF|line \d+: unexpected EOF).*")
_LAST = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Timeout)\b.*", re.MULTILINE)
_SAYS: Mapping[ErrorClass, str] = {
    "memory": r"MemoryError|[Cc]annot allocate memory|Unable to allocate|bad_alloc|Out of memory",
    "disk": r"No space left on device|\bENOSPC\b|Disk quota exceeded|database or disk is full|File too large",
    "processes": r"can't start new thread|fork: (?:retry: )?Resource temporarily unavailable",
    "dependency": r"^(?:ModuleNotFoundError|ImportError)\b(?!: cannot import name)|: command not found$",
    "network": r"EGRESS_ALLOW|ProxyError|ConnectionError|ConnectTimeout|ConnectionRefusedError|SSLError|URLError|urlopen error"
    r"|NameResolutionError|Name or service not known|Temporary failure in name resolution|Network is unreachable"
    r"|Max retries exceeded|^curl: \((?:5|6|7|28|35|56|60)\)|Tunnel connection failed|httpx\.\w*Connect",
}
"""Class -> pattern of the last error, in the order of the search."""


COUNT = """\
said() {
  local name=$1 file line; shift
  for file; do
    [ -r "/sys/fs/cgroup/$file" ] || continue
    while read -r line || [ -n "$line" ]; do echo "$name $line"; done < "/sys/fs/cgroup/$file"
    return
  done
}
said peak memory/memory.max_usage_in_bytes memory.peak
said oom memory/memory.oom_control memory.events
said pids pids/pids.events pids.events
said cpu cpuacct/cpuacct.usage cpu.stat
"""
"""Prints the kernel's counters (cgroup v1 or v2), one name and value in a line. Starts no process. The sandbox
is fresh, so the counters are the program's."""

DISK = 'echo "disk $(stat -f -c %a /workspace)"'
"""Prints the free space of the workspace."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The kernel's counters of a sandbox. None if the kernel does not report a value."""

    peak_memory: int | None = None
    """Bytes."""
    cpu: float | None = None
    """Seconds."""
    killed: int = 0
    """Processes killed for lack of memory."""
    refused: int = 0
    """Processes that could not start."""
    disk_left: int | None = None
    """Free blocks of the workspace."""


def counted(output: str) -> Counted:
    """Read the output of COUNT and DISK, for cgroup v1 and v2."""
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
    )


def why_failed(
    language: Language,
    done: RunResult,
    kernel: Counted,
    *,
    has_result: bool,
    has_network: bool,
    installs: bool,
    modules: Collection[str] = (),
) -> ExecError | None:
    """Return why a program failed, or None if the program succeeded.

    `has_network`: whether the sandbox has a gateway. `installs`: whether a call can name dependencies.
    `modules`: names of the modules that every program can import, besides installed packages.

    A program with exit code 0 that reached the process limit failed only if it printed no result: processes
    that it left running may have reached the limit.
    """
    if done.exit_code == 0 and not done.timed_out and (has_result or not kernel.refused):
        return None
    # The error is at the end of the output.
    said = (done.stderr or done.output)[-20_000:]
    kind = _kind(language, done, kernel, said)
    # Facts come from the kernel. The output of the program gives only the class.
    fact = f"The program ended with exit code {done.exit_code}."
    if kernel.killed:
        fact = "The sandbox ran out of memory."
    elif kernel.refused:
        fact = f"The sandbox had no room for more processes: {kernel.refused} were refused."
    elif done.timed_out:
        fact = f"The program used up its time, {done.seconds:.1f} s{', by computing' * (kind == 'cpu')}."
    elif kernel.disk_left == 0:
        fact = "The disk of the sandbox is full."
    last = (_LAST.findall(said) or [said.strip().rpartition("\n")[2]])[-1].strip()[:_MOST_MESSAGE]
    hint = _HINTS[kind]
    if kind == "network" and not has_network:
        hint = _NO_NETWORK
    elif kind == "dependency" and not installs:
        hint = _NO_PACKAGES
    elif kind == "syntax" and language == "bash":
        hint = _BASH_RAN
    if (unbound := _UNBOUND.match(last)) and unbound[1] in modules:
        hint = f"Write `import {unbound[1]}` first, and send the whole program again."
    return ExecError(kind, f"{fact} {last}".rstrip(), hint)


def _kind(language: Language, done: RunResult, kernel: Counted, said: str) -> ErrorClass:
    if kernel.killed:
        return "memory"
    if kernel.refused:
        return "processes"
    if done.timed_out:
        if kernel.disk_left == 0:
            return "disk"
        return "cpu" if (kernel.cpu or 0.0) - _START >= _COMPUTED * done.seconds else "timeout"
    if language == "python" and _SYNTAX.search(said) and "Traceback (most recent call last)" not in said:
        return "syntax"
    if language == "bash" and done.exit_code == 2 and _BASH_SYNTAX.search(said):
        return "syntax"
    last = "\n".join(_LAST.findall(said)[-1:]) or said[-2_000:]
    for kind, pattern in _SAYS.items():
        if re.search(pattern, last, re.MULTILINE):
            return kind
    return "disk" if kernel.disk_left == 0 or done.exit_code == 153 else "runtime"
