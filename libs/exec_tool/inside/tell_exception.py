"""Writes down the exception that ended a Python program (standard library only).

`start_program.py` compiles and runs this file only after an exception, because compiling takes time.
`libs.exec_tool.program_start` reads the record.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Sequence

__all__ = ["tell"]

_MOST = 2_000
"""Characters of a field."""
_MOST_WRAPPED = 20
_MOST_IN_GROUP = 5
_DISKS = (".", "/workspace", "/tmp", "/dev/shm", "/run")
_NO_ROOM = ("ENOSPC", "EDQUOT")
"""Not SQLITE_FULL: SQLite makes room again, before Python raises the error."""
_OF_PROCESS = {"ENOMEM": (resource.RLIMIT_AS, resource.RLIMIT_DATA), "EFBIG": (resource.RLIMIT_FSIZE,)}
"""Errors of limits that a program can set for itself."""


def tell(error: BaseException, record: str, *, ran: bool) -> None:
    """Write the record into a file that is there already, because the disk may be full.

    Args:
        ran: whether the program began. If not, it could not be compiled.
    """
    message = _message(error)
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    wrapped = _wrapped(error)
    fields = (
        "ran" if ran else "refused",
        " ".join(map(_name, type(error).__mro__)),
        _code(error),
        _missing(error),
        _address(wrapped),
        " ".join(f"{_name(type(each))}:{_code(each)}" for each in wrapped),
        message,
    )
    data = "".join(field[:_MOST].replace("\0", r"\0") + "\0" for field in fields)
    descriptor = os.open(record, os.O_WRONLY | os.O_NOFOLLOW)
    os.write(descriptor, data.encode("utf-8", "backslashreplace"))
    os.close(descriptor)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    """Return the text of a SystemExit, and of another exception the last line of its traceback."""
    if isinstance(error, SystemExit):
        return "" if error.code is None or isinstance(error.code, int) else str(error.code)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else _name(kind)
    try:
        text = str(error)
    except Exception:
        text = "<exception str() failed>"
    line = f"{name}: {text}" if text else name
    if isinstance(error, BaseExceptionGroup):
        line += f": {'; '.join(map(_message, error.exceptions[:_MOST_IN_GROUP]))}"
    return line


def _code(error: BaseException) -> str:
    """Return the name of an error number, such as ENOSPC or SQLITE_FULL. ENOMEM stands for a MemoryError.

    The name ends with "-elsewhere" if the cause may be another limit than the sandbox's. ENOSPC and EDQUOT
    are also the errors of other limits, such as inotify watches: then no disk is full. A program may also
    have set a limit of its own.
    """
    if isinstance(error, OSError):
        name = errno.errorcode.get(error.errno or 0, "")
    elif isinstance(error, MemoryError):
        name = "ENOMEM"
    else:
        name = str(getattr(error, "sqlite_errorname", ""))
    no_room = name in _NO_ROOM and not any(map(_is_full, _DISKS))
    own = any(map(_is_changed, _OF_PROCESS.get(name, ())))
    return f"{name}-elsewhere" if no_room or own else name


def _is_changed(limit: int) -> bool:
    """Return whether the program has changed a limit that the sandbox sets for each process."""
    try:
        return resource.getrlimit(limit) != resource.prlimit(os.getppid(), limit)
    except OSError:  # gVisor does not tell
        return False


def _is_full(folder: str) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return not disk.f_bavail or bool(disk.f_files and not disk.f_favail)


def _missing(error: BaseException | None) -> str:
    """Return the name that was not found, of a NameError, or of an ImportError or its cause."""
    while isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError) and error.__cause__:
        error = error.__cause__
    return str(error.name or "") if isinstance(error, (ModuleNotFoundError, NameError)) else ""


def _wrapped(error: BaseException | None) -> list[BaseException]:
    """Return an error and the errors that it wraps, such as the OSError in a URLError."""
    found: list[BaseException] = []
    while error is not None and len(found) < _MOST_WRAPPED:
        found.append(error)
        inner = (*error.args, getattr(error, "reason", None), error.__cause__, error.__context__)
        errors = [each for each in inner if isinstance(each, BaseException)]
        error = next((each for each in errors if all(each is not old for old in found)), None)
    return found


def _address(errors: Sequence[BaseException]) -> str:
    """Return the URL or host of a failed connection, if an error or a frame of `socket` knows the address."""
    for error in errors:
        try:
            return str(error.request.url)  # type: ignore[attr-defined]  # requests, httpx
        except Exception:
            for name in ("host", "url"):  # aiohttp, urllib.error.HTTPError
                if isinstance(place := getattr(error, name, None), str):
                    return place
    sockets = vars(sys.modules["socket"]) if "socket" in sys.modules else None
    for error in errors:
        trace = error.__traceback__
        while trace:
            if trace.tb_frame.f_globals is sockets and (host := trace.tb_frame.f_locals.get("host")):
                return host.decode() if isinstance(host, bytes) else str(host)
            trace = trace.tb_next
    return ""
