"""The client of the browser's server process: connects, starts the server if needed, and sends one request.

The server listens on a socket in the file system, not on a port that a page could reach. The functions of
this skill are plain blocking calls, and programs that use them do not import Playwright.
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
from typing import Any

from skills.browser import BrowserError
from skills.browser._processes import FOLDER, end_all, end_rest

__all__ = ["DEAD", "PROGRAMS", "READY", "SOCKET", "ask"]

SOCKET = FOLDER / "socket"
READY = b"+"
"""First byte of the server to a client; a server that is about to end sends nothing."""
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
"""Seconds beyond the time-out of a call after which the browser is killed."""
_CLOSE_SECONDS = 10
_GONE_SECONDS = 5
_START_SECONDS = 30
"""Extra seconds for a call that has to start the browser."""
DEAD = "the browser did not answer, and was ended: open the page again"
_started: subprocess.Popen[bytes] | None = None
"""The server that this process started, kept so that its exit status is collected."""


def ask(do: str, seconds: float, arguments: dict[str, object]) -> dict[str, Any]:
    """Send a request; return `notes`, and `value` or `error`.

    Returns within `seconds` plus 30, plus 60 if the browser has to be started; `close` within 30. A browser
    that has not answered by then is killed, and the next call starts a new one.

    Raises:
        BrowserError: there is no browser, or the browser does not start, does not answer, or ended.
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
    if answer is None or answer.get("again"):  # no usable browser
        if do != "open":
            _need_browser()
            raise BrowserError(_NOT_OPEN)
        deadline = time.monotonic() + _START_SECONDS
        with _start(deadline) as link:
            left = max(0, deadline - time.monotonic())
            answer = _exchange(link, request, left + seconds + _GRACE)
    return answer


def _exchange(link: socket.socket, request: dict[str, object], seconds: float) -> dict[str, Any]:
    """Send a request to the server; kill a server that does not answer in time."""
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
    except OSError:  # the server ended: the line is incomplete
        pass
    line = b"".join(parts)
    if not line.endswith(b"\n"):
        raise BrowserError("the browser ended meanwhile, perhaps for the memory it used: open the page again")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _close(arguments: dict[str, object]) -> dict[str, Any]:
    """Ask the browser to end; kill the browser if needed."""
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
        time.sleep(0.05)  # a server is about to listen, or to end
    return {"value": None, "notes": []}


def _connect() -> socket.socket | None:
    """Return a connection to the server, or None if there is no server or the server is ending."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(_GREETING_SECONDS)
    try:
        link.connect(str(SOCKET))
        if link.recv(1) == READY:
            return link
    except TimeoutError:  # the server is stopped or hangs
        _end(link)
    except OSError:
        pass
    link.close()
    return None


def _start(deadline: float) -> socket.socket:
    """Start the server, unless another program is starting the server."""
    global _started  # noqa: PLW0603
    _need_browser()
    FOLDER.mkdir(parents=True, exist_ok=True)
    log = FOLDER / "log"
    with (FOLDER / "starting").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        if link := _connect():
            return link
        with log.open("wb") as file:
            # -P keeps files of the working directory from being imported. In its own session the server
            # outlives this program and its command.
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


def _need_browser() -> None:
    if find_spec("playwright") is None or not any(map(shutil.which, PROGRAMS)):
        raise BrowserError(_NONE)


def _end(link: socket.socket) -> None:
    """Kill the server of this connection with all processes of the browser."""
    with contextlib.suppress(OSError):
        peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        os.kill(struct.unpack("3i", peer)[0], signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while not end_rest() and time.monotonic() < deadline:
        time.sleep(0.02)
