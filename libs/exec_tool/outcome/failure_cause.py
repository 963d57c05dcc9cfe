"""Find the cause of a failure: from the kernel's counters, the exception that ended the program, the exit code.

The output of a program gives no class, because a program prints what it likes: errors that it has handled, too.
"""

# ruff: noqa: E501 - prose

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, ip_address
from socket import inet_aton
from urllib.parse import urlsplit

from libs.exec_tool.outcome.execution_outcome import ErrorClass, ExecError
from libs.exec_tool.outcome.file_notes import quoted_path
from libs.exec_tool.outcome.kernel_counters import Counted
from libs.exec_tool.outcome.raised_error import COMMAND_NOT_FOUND, Raised
from libs.sandbox import RunResult
from libs.sandbox.docker import HOSTNAME
from libs.sandbox.host import NO_MEMORY

__all__ = ["why_failed"]

_COMPUTED = 0.1
"""Share of processor time from which a timed-out program counts as computing, not waiting. The share is small
because a busy machine gives a program little time."""
_START = 0.5
"""Seconds of processor time for the sandbox and the interpreter, which do not count as computing."""
_MOST_MESSAGE = 600
_MOST_HOSTS = 3
"""Hosts that a message names."""
_MOST_STDERR = 20_000
"""Characters of stderr in which the last line is looked for."""

_HINTS: dict[ErrorClass, str] = {
    "syntax": "Nothing of the program ran. Send the whole program again, corrected.",
    "dependency": "Name the package in `dependencies`, if you can give them, by the name under which it is installed; or do without it: "
    "the standard library, pandas, numpy, scipy, matplotlib and requests are there.",
    "timeout": "The program waited for most of its time. Ask for less, set time-outs of your own for what may not answer, or "
    "split the work over several programs.",
    "cpu": "If the program computed for most of that time, work on less data or fewer steps, use pandas or numpy in the place "
    "of loops, or split the work over several programs. Otherwise it waited: set time-outs of your own for what may not answer.",
    "memory": "The program needed more memory than the sandbox has. Work on less at once: read in chunks, only the columns that "
    "are needed, smaller types; files in the working directory count as memory too.",
    "disk": "The sandbox had no room for a file. Write less, in fewer and smaller files or compressed, and remove what is not "
    "needed any more.",
    "processes": "The program started more processes or threads than the sandbox has room for. Start a few, or do the work in "
    "one process.",
    "network": "The sandbox reaches only the hosts that its person has allowed, over HTTP and HTTPS through the proxy "
    "that HTTP_PROXY names, and an allowed host may be down. Do without it, or say which host is needed.",
    "runtime": "Read the error, mend its cause, and send the whole program again.",
}
_NO_PACKAGES = (
    "This runner installs no packages: do without. The standard library, pandas, numpy, scipy, matplotlib and requests "
    "are there."
)
_LIMITS = ("memory", "disk", "processes")
_HANDLED = (
    "The program reached this limit, but it may have handled that. If the limit did not cause the failure, mend the real "
    "cause. Otherwise:"
)
_PERHAPS_HOST = (
    "The program did not reach a host, but it may have handled that. If that did not cause the failure, mend the real "
    "cause. Otherwise:"
)
_BASH_RAN = (
    "The lines above the error may have run: mind what they did, and send the whole program again, corrected."
)
_NOT_FULL = (
    "No disk of the sandbox was full when the program had ended. If the error comes from a file, the program asked for more "
    "room at once than there was, or has freed it since: write less. Otherwise another limit is used up, such as inotify "
    "watches, terminals or System V semaphores: do without them."
)
_FULL_DATABASE = (
    "The database had no room. Either the disk was full, and SQLite has made room again, or the database has a limit of its own "
    "(`max_page_count`). Write less, or remove what is not needed any more."
)
_OWN_LIMIT = (
    "The program runs with a limit that it has set itself (`setrlimit`, `ulimit`). If it has met this limit, raise the limit. "
    "Otherwise ask for less memory at once, or write smaller files."
)
_REFUSED_MEMORY = (
    "The error says that memory is lacking, but the kernel has killed no process for lack of memory. Either the program asked for "
    "more at once than the sandbox has, or the error is raised for another reason: by the program itself, or by the parser of "
    "Python for a text that is nested too deeply. Ask for less at once: read in chunks, only the columns that are needed, smaller "
    "types. Nest less."
)
_PERHAPS_COMMAND = (
    "A command was not found, but the program may have handled that. If that did not cause the failure, mend the real cause. "
    "Otherwise:"
)
_NO_NETWORK = "This runner has no network: its programs reach no host. Do without it, or send the data in `files` or `args`."

_CURL = (6, 7)
"""Exit codes of curl: a host was not found, or not reached."""
_CLIENTS = (22, 56, 128)
"""Exit codes of curl and git after the gateway has answered in the place of a host."""

_KILLED = 137
"""Exit code of a program that the kernel has killed."""

_FULL = ("ENOSPC", "EDQUOT", "EFBIG", "SQLITE_FULL")
_ELSEWHERE = "-elsewhere"
"""Ends the name of an error that may come from another limit than that of the sandbox: see `tell_exception.py`."""
_OF_PROCESS = ("ENOMEM", "EFBIG")
"""Errors of limits that a process may set for itself."""
_UNREACHABLE = ("ENETUNREACH", "EHOSTUNREACH", "ENETDOWN")
_CONNECTIONS = (
    "builtins.ConnectionError",
    "socket.gaierror",
    "urllib.error.URLError",
    "urllib3.exceptions.MaxRetryError",
    "urllib3.exceptions.NewConnectionError",
    "urllib3.exceptions.ProxyError",
    "requests.exceptions.ConnectionError",
    "httpx.ConnectError",
    "httpx.ConnectTimeout",
    "httpx.ProxyError",
    "aiohttp.client_exceptions.ClientConnectionError",
)
_ANSWERED = "urllib.error.HTTPError"
"""A URLError with the answer of a host."""
_ANSWERS = (
    _ANSWERED,
    "requests.exceptions.HTTPError",
    "httpx.HTTPStatusError",
    "aiohttp.client_exceptions.ClientResponseError",
)
"""Errors with the answer of a host, or of the gateway in the place of a host."""
_STARTED = "subprocess.CalledProcessError"
"""The error of a program that the program has started, such as curl or git."""
_TLS = {"ssl.SSLCertVerificationError", "ssl.SSLError"}
"""Errors of TLS with a host that has answered, such as a certificate that has expired."""
_NO_HOST = ("socket.gaierror:", "builtins.OSError:", *(f"builtins.OSError:{code}" for code in _UNREACHABLE))
"""What a failed connection to another machine wraps: a name that is not found, a tunnel that the gateway
refuses, and an address to which there is no way."""


def why_failed(
    done: RunResult,
    kernel: Counted,
    *,
    bash: bool,
    raised: Raised | None,
    has_result: bool,
    has_network: bool,
    installs: bool,
    unreached: Collection[str] = (),
    modules: Collection[str] = (),
    paths: Collection[str] = (),
) -> ExecError | None:
    """Return why a program failed, or None if the program succeeded.

    A program with exit code 0 that reached the process limit failed only if it printed no result: processes
    that it left running may have reached the limit.

    Args:
        bash: whether the program is a bash program, not a Python program.
        raised: the exception that ended the program, or the error of bash. None if not known.
        has_network: whether the sandbox has a gateway.
        installs: whether packages can be installed.
        unreached: hosts that the program may not reach, and those with which no connection was made.
        modules: names of the modules that every program can import, besides installed packages.
        paths: the program's files. A missing module that is called like one of them is no package.
    """
    if done.exit_code == 0 and not done.timed_out and (has_result or not kernel.refused):
        return None
    kind = _kind(done, kernel, raised, paths, bash=bash)
    guessed = False
    if kind == "runtime" and unreached:
        lacked = _lacked_a_host(done, raised, unreached, bash=bash)
        kind, guessed = "runtime" if lacked is False else "network", lacked is None
    not_found = raised is not None and raised.is_a(COMMAND_NOT_FOUND)
    fact = f"The program ended with exit code {done.exit_code}."
    if kernel.killed:
        fact = "The sandbox ran out of memory."
    elif kernel.refused:
        fact = f"The sandbox had no room for more processes: {kernel.refused} were refused."
    elif done.timed_out:
        computed = "" if kernel.cpu is None else f", with {kernel.cpu:.1f} s of processor time"
        fact = f"The program used up its time, {done.seconds:.1f} s{computed}."
    elif kernel.disk_left == 0:
        fact = "A disk of the sandbox is full."
    if done.timed_out and (kernel.killed or kernel.refused):
        fact += f" The program also used up its time, {done.seconds:.1f} s."
    elif done.timed_out and kind == "disk":
        fact += " A disk of the sandbox is full."
    if done.exit_code == 0 and not done.timed_out:
        fact += " The program ended with exit code 0 and without a result: it may have done its work."
    elif kind == "network" and unreached:
        fact += f" Not reached: {', '.join(sorted(unreached)[:_MOST_HOSTS])}."
    if raised and not_found and raised.missing:
        fact += f" Not found: the command {quoted_path(raised.missing)}."
    said = raised.message if raised else ""
    if not said and not done.timed_out:
        stderr = done.stderr.removesuffix(NO_MEMORY.decode())
        said = stderr[-_MOST_STDERR:].strip().rpartition("\n")[2]
        if len(said) > _MOST_MESSAGE:  # a progress bar, which is written over by what comes last
            said = said.rpartition("\r")[2]
    hint = _HINTS[kind]
    if kind == "network" and not has_network:
        hint = _NO_NETWORK
    elif guessed:
        hint = f"{_PERHAPS_HOST} {hint}"
    elif kind == "dependency":
        hint = hint if installs else _NO_PACKAGES
        hint = f"{_PERHAPS_COMMAND} {hint}" if not_found and not _ends_with(done, raised) else hint
    elif kind == "syntax" and bash:
        hint = _BASH_RAN
    elif kind == "runtime" and raised and raised.code.endswith(_ELSEWHERE):
        hint = _OWN_LIMIT if raised.code.startswith(_OF_PROCESS) else _NOT_FULL
    elif kind == "disk" and kernel.disk_left and raised and raised.code == "SQLITE_FULL":
        hint = _FULL_DATABASE
    elif kind == "memory" and not kernel.killed:
        hint = _REFUSED_MEMORY
    elif raised and raised.is_a("builtins.NameError") and raised.missing in modules:
        hint = f"Write `import {raised.missing}` first, and send the whole program again."
    by_kernel = kernel.killed and done.exit_code == _KILLED
    if kind in _LIMITS and not by_kernel and not (raised and _kind_of(raised, paths) == kind):
        hint = f"{_HANDLED} {hint}"
    return ExecError(kind, f"{fact} {said.strip()[:_MOST_MESSAGE]}".rstrip(), hint)


def _kind(
    done: RunResult, kernel: Counted, raised: Raised | None, paths: Collection[str], *, bash: bool
) -> ErrorClass:
    if kernel.killed:
        return "memory"
    if kernel.refused:
        return "processes"
    if done.timed_out:
        if kernel.disk_left == 0:
            return "disk"
        return "cpu" if (kernel.cpu or 0.0) - _START >= _COMPUTED * done.seconds else "timeout"
    kind: ErrorClass | None = None
    if raised:
        kind = _kind_of(raised, paths)
    elif bash:
        kind = _kind_by_code(done.exit_code, kernel)
    return kind or ("disk" if kernel.disk_left == 0 else "runtime")


def _kind_of(raised: Raised, paths: Collection[str]) -> ErrorClass | None:
    """Return the class of an exception, or None for an error of the program itself."""
    if raised.is_a(COMMAND_NOT_FOUND):
        return "dependency"
    if not raised.ran:
        return "syntax"  # MemoryError, too: the parser raises it for code that is nested too deeply
    if raised.code.endswith(_ELSEWHERE):
        return None
    if raised.is_a("builtins.MemoryError") or raised.code == "ENOMEM":
        return "memory"
    if raised.code in _FULL:
        return "disk"
    if raised.is_a("builtins.ImportError"):
        # `a.b` is missing in `a`, which was found.
        own = {part.removesuffix(".py") for path in paths for part in path.split("/")}
        missing = raised.missing
        return "dependency" if missing and "." not in missing and missing not in own else None
    if raised.is_a(_ANSWERED) or not (raised.is_a(*_CONNECTIONS) or raised.code in _UNREACHABLE):
        return None
    no_host = not set(_NO_HOST).isdisjoint(raised.wrapped)
    if not no_host and any(each.partition(":")[0] in _TLS for each in raised.wrapped):
        return None
    if raised.address:
        return None if _is_loopback(raised.address) else "network"
    return "network" if no_host else None


def _lacked_a_host(
    done: RunResult, raised: Raised | None, unreached: Collection[str], *, bash: bool
) -> bool | None:
    """Return whether a host that was not reached has ended the program. None: perhaps."""
    if not raised:
        return None if bash and done.exit_code in (*_CURL, *_CLIENTS) else False
    if raised.is_a(*_ANSWERS) and (host := _host_of(raised.address)):
        return host in unreached
    return None if raised.is_a(*_ANSWERS, _STARTED) else False


def _ends_with(done: RunResult, raised: Raised | None) -> bool:
    """Return whether the last line that a program printed is bash's error about the missing command."""
    error = f": {raised.missing}: command not found\n" if raised else ""
    return bool(error) and any(text.endswith(error) for text in (done.stderr, done.output))


def _kind_by_code(exit_code: int, kernel: Counted) -> ErrorClass | None:
    """Return the class of a bash program by its exit code, or None."""
    return "network" if exit_code in _CURL and kernel.unreached else None


def _host_of(address: str) -> str:
    """Return the host of a URL, or a host itself. Empty: it is no URL. The address comes from the program."""
    try:
        return (urlsplit(address).hostname if "://" in address else address) or ""
    except ValueError:
        return ""


def _is_loopback(address: str) -> bool:
    """Return whether a URL or host is the sandbox itself."""
    host = _host_of(address).partition("%")[0].rstrip(".")
    try:
        named = ip_address(host)
    except ValueError:
        try:
            named = IPv4Address(inet_aton(host))  # a short form that connect(2) takes, such as 127.1
        except OSError:  # a name, or no URL
            return host == HOSTNAME or host.endswith("localhost")
    return named.is_loopback or named.is_unspecified
