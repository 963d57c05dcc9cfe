"""The way to the browser, which is a process of its own: found, or started, and asked one thing at a time.

It listens on a socket in the file system: no port that a page could reach. So the functions of this skill are
plain blocking calls, whatever runs around them, and no program that uses them imports Playwright.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import IO, Any

from skills.browser import BrowserError
from skills.browser._processes import FOLDER, end_all, end_rest

__all__ = ["DEAD", "PROGRAMS", "READY", "SOCKET", "ask"]

SOCKET = FOLDER / "socket"
READY = b"+"
"""What the browser's process says to whoever connects: one that is about to end says nothing."""
PROGRAMS = ("chromium-headless-shell", "chromium")

_NONE = (
    "this sandbox has no browser: ask the person to set SANDBOX_BROWSER=1 and to run `code-agent setup`. "
    "Pages that need no browser can be read with skills.web"
)
_NOT_OPEN = (
    "no page is open: begin with open(url). The browser ends at close(), after ten minutes without a call, "
    "and with the command or block that started it if that is ended at its time-out"
)
_GREETING_SECONDS = 10
_GRACE = 15
"""Seconds over the time-out of a call after which the browser is taken for dead, and ended."""
_CLOSE_SECONDS = 10
_GONE_SECONDS = 5
_TURN_SECONDS = 15
_START_SECONDS = 30
"""What a call may take besides where the browser has to be started first."""
DEAD = "the browser did not answer, and was ended: open the page again"
_started: subprocess.Popen[bytes] | None = None
"""What this process has started: kept, so that it is collected once it has ended."""


def ask(do: str, seconds: float, arguments: dict[str, object]) -> dict[str, Any]:
    """What came of a request: `notes`, and `value` or `error`.

    Returns within `seconds` and 30 more, or 60 where the browser has to be started; `close` within 30 in all.
    What has not answered by then is ended by force, and the next call begins with a new one.

    Raises:
        BrowserError: there is no browser, it does not start, does not answer, or ended meanwhile.
    """
    if _started:
        _started.poll()
    if do == "close" and not arguments["tab"]:
        return _close(arguments)
    request = {"do": do, "seconds": seconds, "with": arguments}
    answer = None
    if link := _connect():
        with link:
            answer = _exchange(link, request, seconds + _GRACE)
    if answer is None or answer.get("again"):  # there is none, or it cannot be used any more
        if do != "open":
            _need_browser()
            raise BrowserError(_NOT_OPEN)
        deadline = time.monotonic() + _START_SECONDS
        with _start(deadline) as link:
            left = max(0, deadline - time.monotonic())
            answer = _exchange(link, request, left + seconds + _GRACE)
    return answer


def _exchange(link: socket.socket, request: dict[str, object], seconds: float) -> dict[str, Any]:
    """Ask the browser's process, which is ended where it does not answer within that time."""
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    try:
        link.settimeout(seconds)
        link.sendall(json.dumps(request).encode() + b"\n")
        while not parts or parts[-1]:
            link.settimeout(max(0.001, deadline - time.monotonic()))
            parts.append(link.recv(1 << 20))
    except TimeoutError:
        _end(link)
        raise BrowserError(DEAD) from None
    except OSError:  # it has ended: the line is not whole
        pass
    line = b"".join(parts)
    if not line.endswith(b"\n"):
        raise BrowserError("the browser ended meanwhile, perhaps for the memory it used: open the page again")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _close(arguments: dict[str, object]) -> dict[str, Any]:
    """End the browser: it is asked to, and made to."""
    deadline = time.monotonic() + _CLOSE_SECONDS
    request = {"do": "close", "seconds": _CLOSE_SECONDS / 2, "with": arguments}
    while True:
        if link := _connect():
            with link, contextlib.suppress(BrowserError):
                return _exchange(link, request, _CLOSE_SECONDS)
        if end_rest():
            break
        if time.monotonic() > deadline:
            end_all()
            break
        time.sleep(0.05)  # one that is about to listen, or to end
    return {"value": None, "notes": []}


def _connect() -> socket.socket | None:
    """A connection to the browser's process; None where there is none, or one that is about to end."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(_GREETING_SECONDS)
    try:
        link.connect(str(SOCKET))
        if link.recv(1) == READY:
            return link
    except TimeoutError:  # stopped, or out of its mind
        _end(link)
    except OSError:
        pass
    link.close()
    return None


def _start(deadline: float) -> socket.socket:
    """Start the browser's process, unless another program does so in this moment."""
    global _started  # noqa: PLW0603
    _need_browser()
    FOLDER.mkdir(parents=True, exist_ok=True)
    log = FOLDER / "log"
    with (FOLDER / "starting").open("w") as one_at_a_time:
        _wait_for(one_at_a_time)
        if link := _connect():
            return link
        with log.open("wb") as file:
            # -P: a file of the working directory is not taken for a module. In a session of its own: it stays
            # when this program, and the command that it belongs to, have ended.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "skills.browser._server"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd="/",
                start_new_session=True,
            )
        _started = process
        while True:
            if link := _connect():
                return link
            if process.poll() is not None or time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                end_all()
                last = log.read_text("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise BrowserError(f"the browser does not start: {last[0]}")
            time.sleep(0.02)


def _wait_for(file: IO[str]) -> None:
    """Wait until no other program starts the browser; but one may have been stopped while it did."""
    deadline = time.monotonic() + _TURN_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)


def _need_browser() -> None:
    if find_spec("playwright") is None or not any(map(shutil.which, PROGRAMS)):
        raise BrowserError(_NONE)


def _end(link: socket.socket) -> None:
    """End whoever listens at the other end, with all that belongs to it."""
    with contextlib.suppress(OSError):
        peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        os.kill(struct.unpack("3i", peer)[0], signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while not end_rest() and time.monotonic() < deadline:
        time.sleep(0.02)
