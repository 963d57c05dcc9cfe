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
from pathlib import Path
from typing import Any

from skills.browser import BrowserError

__all__ = ["FOLDER", "PROGRAMS", "READY", "SOCKET", "ask"]

FOLDER = Path.home() / ".cache" / "browser"
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
_START_SECONDS = 60
_GREETING_SECONDS = 10
_GRACE = 90
"""Seconds over the time-out of a call: the browser may have to start, and another call may be under way."""
_started: subprocess.Popen[bytes] | None = None
"""What this process has started: kept, so that it is collected once it has ended."""


def ask(do: str, seconds: float, arguments: dict[str, object]) -> dict[str, Any]:
    """What came of a request: `notes`, and `value` or `error`.

    Raises:
        BrowserError: there is no browser, it does not start, does not answer, or ended meanwhile.
    """
    if _started:
        _started.poll()
    link = _connect()
    if link is None and do == "close":
        return {"value": None, "notes": []}
    if link is None and do != "open":
        _need_browser()
        raise BrowserError(_NOT_OPEN)
    with link or _start() as link:
        link.settimeout(seconds + _GRACE)
        try:
            link.sendall(json.dumps({"do": do, "seconds": seconds, "with": arguments}).encode() + b"\n")
            answer = _all_of(link)
        except TimeoutError:
            _kill(link)
            raise BrowserError("the browser did not answer, and was ended: open the page again") from None
        except OSError:
            answer = b""
    if not answer.endswith(b"\n"):
        raise BrowserError("the browser ended meanwhile, perhaps for the memory it used: open the page again")
    answered: dict[str, Any] = json.loads(answer)
    return answered


def _connect() -> socket.socket | None:
    """A connection to the browser's process; None where there is none, or one that is about to end."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(_GREETING_SECONDS)
    try:
        link.connect(str(SOCKET))
        if link.recv(1) == READY:
            return link
    except TimeoutError:  # stopped, or out of its mind
        _kill(link)
    except OSError:
        pass
    link.close()
    return None


def _start() -> socket.socket:
    """Start the browser's process, unless another program does so in this moment."""
    global _started  # noqa: PLW0603
    _need_browser()
    FOLDER.mkdir(parents=True, exist_ok=True)
    log = FOLDER / "log"
    deadline = time.monotonic() + _START_SECONDS
    with (FOLDER / "starting").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
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
                last = log.read_text("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise BrowserError(f"the browser does not start: {last[0]}")
            time.sleep(0.02)


def _need_browser() -> None:
    if find_spec("playwright") is None or not any(map(shutil.which, PROGRAMS)):
        raise BrowserError(_NONE)


def _all_of(link: socket.socket) -> bytes:
    parts = []
    while part := link.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def _kill(link: socket.socket) -> None:
    """End whoever listens at the other end; what it has started goes with it, its pipes being closed."""
    with contextlib.suppress(OSError):
        peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        os.kill(struct.unpack("3i", peer)[0], signal.SIGKILL)
