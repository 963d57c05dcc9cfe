"""Starts Chromium for one session, and explains its errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, CDPSession, Error, Playwright, async_playwright

from skills.browser._downloads import PARTIAL
from skills.browser._memory import heap_megabytes
from skills.browser._network import proxy_arguments, refusal, trust
from skills.browser._processes import family
from skills.browser._server_client import PROGRAMS
from skills.browser._session import Session
from skills.browser._targets import Trouble

__all__ = ["START_SECONDS", "Chromium"]

START_SECONDS = 30
_RESPONSE_SECONDS = 5
_MOST_NOTES = 20
_ARGUMENTS = (
    # The sandbox of Chromium needs user namespaces or a set-uid helper, which this container lacks. A page
    # that breaks out of Chromium can do what any command of the container can do, and no more.
    "--no-sandbox",
    "--disable-dev-shm-usage",  # /dev/shm is small
    "--disable-gpu",
    "--disk-cache-size=33554432",  # /tmp is memory
    "--renderer-process-limit=4",  # a sandbox may have 256 processes and threads
)
_CRASHED = (
    "the browser crashed, perhaps for the memory or the processes it used (SANDBOX_MEMORY, SANDBOX_PIDS): "
    "open the page again, a new one starts"
)
_ADVICE = {
    "ERR_NAME_NOT_RESOLVED": "there is no such host, and no way out but the proxy (HTTPS_PROXY)",
    "ERR_ADDRESS_UNREACHABLE": "there is no network, and no proxy is set (HTTPS_PROXY)",
    "ERR_PROXY_CONNECTION_FAILED": "the proxy of the sandbox does not answer: nothing can be reached",
    "ERR_CONNECTION_REFUSED": "nothing listens there",
    "ERR_TOO_MANY_REDIRECTS": "it leads in a circle",
}


class Chromium:
    """One Chromium with one session."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._session: Session | None = None
        self._steered: CDPSession | None = None

    async def start(self) -> str:
        """Start Chromium within `START_SECONDS`. Return the reason of a failure, or ""."""
        try:
            async with asyncio.timeout(START_SECONDS):
                self._session = await self._start()
        except Error as error:
            return await self._reason(error, "")
        except TimeoutError:
            return f"Chromium does not start: it was not ready after {START_SECONDS} seconds"
        except Exception as error:  # noqa: BLE001 - the driver may fail to start
            return f"Chromium does not start: {error}"
        return ""

    async def lives(self) -> bool:
        """Return whether Chromium answers and none of its processes is stopped."""
        if self._steered is None or self.stopped():
            return False
        try:
            async with asyncio.timeout(_RESPONSE_SECONDS):
                await self._steered.send("Browser.getVersion")
        except Exception:  # noqa: BLE001 - a dead driver raises any type
            return False
        return True

    @staticmethod
    def stopped() -> bool:
        """Return whether a process is stopped, so that Chromium must be killed."""
        return any(process.state in "Tt" for process in family())

    async def do(self, do: str, arguments: dict[str, Any], seconds: float, until: float) -> dict[str, Any]:
        """Carry out a request; return `notes`, and `value` or `error`. `until` is a time of the loop."""
        assert self._session
        answer: dict[str, Any] = {}
        try:
            answer["value"] = await self._session.do(do, arguments, seconds, until)
        except Trouble as trouble:
            answer["error"] = str(trouble) if self._connected else _CRASHED
        except Error as error:
            answer["error"] = await self._reason(error, arguments.get("url", ""))
        except Exception as error:  # noqa: BLE001 - a dead driver raises any type
            answer["error"] = f"the browser failed: open the page again ({error})"
        notes = self._session.take_notes()
        answer["notes"] = notes[:_MOST_NOTES]
        if len(notes) > _MOST_NOTES:
            answer["notes"].append(f"and {len(notes) - _MOST_NOTES} more such notes")
        return answer

    async def close(self) -> None:
        """End Chromium and drop unfinished downloads."""
        for part in (self._browser and self._browser.close(), self._playwright and self._playwright.stop()):
            with contextlib.suppress(Exception):  # Chromium and the driver may be gone
                if part:
                    await part
        shutil.rmtree(PARTIAL, ignore_errors=True)

    async def _start(self) -> Session:
        home = self._work / "home"
        await asyncio.to_thread(_prepare, home)
        self._playwright = await async_playwright().start()
        self._browser = await self._playwright.chromium.launch(
            executable_path=next(path for name in PROGRAMS if (path := shutil.which(name))),
            args=[*_ARGUMENTS, *_heap_arguments(), *proxy_arguments()],
            env={**os.environ, "HOME": str(home), "TMPDIR": str(self._work)},
            downloads_path=PARTIAL,
            chromium_sandbox=False,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=START_SECONDS * 1000,
        )
        context = await self._browser.new_context(viewport={"width": 1280, "height": 800})
        # Chromium reports "offline", because the proxy on loopback is the only network.
        await context.add_init_script(
            "Object.defineProperty(Navigator.prototype, 'onLine', {get: () => true})"
        )
        session = Session(context)
        self._steered = await self._browser.new_browser_cdp_session()
        await session.tabs.watch(self._steered)
        return session

    async def _reason(self, error: Error, url: str) -> str:
        """Return the meaning of an error of Playwright."""
        if self._session is None:
            told = [line.strip() for line in error.message.splitlines() if "ERROR" in line or "FATAL" in line]
            return f"Chromium does not start: {(told or error.message.splitlines())[-1]}"
        if not self._connected or "has been closed" in error.message:  # no tab closes this way by itself
            return _CRASHED
        if "crashed" in error.message:
            return "the page crashed, perhaps for the memory it used (SANDBOX_MEMORY): open it again"
        if code := re.search(r"net::(ERR_\w+)(?: at (\S+))?", error.message):
            return await self._unreachable(code[1], code[2] or url)
        lines = [line for line in error.message.splitlines() if line.strip()]
        # The log of the error names the last obstacle; its final line is "retrying".
        cause = [
            line.strip(" -")
            for line in lines[1:]
            if re.search(r"intercepts|element is not|not a|outside", line)
        ]
        first = lines[0].partition(": ")[2] or lines[0]
        return f"{first.rstrip('.')}: {cause[-1]}" if cause else first

    @property
    def _connected(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def _unreachable(self, code: str, url: str) -> str:
        if code == "ERR_TUNNEL_CONNECTION_FAILED":
            said = await refusal(url)
            return f"{url} was refused: {said}" if said else f"{url} cannot be reached through the proxy"
        if code.startswith("ERR_CERT_"):
            return f"the certificate of {url} is not to be trusted: {code}"
        return f"{url} cannot be reached: {_ADVICE.get(code, code)}"


def _heap_arguments() -> list[str]:
    most = heap_megabytes()
    return [] if most is None else [f"--js-flags=--max-old-space-size={most}"]


def _prepare(home: Path) -> None:
    """Make a fresh home folder."""
    shutil.rmtree(home.parent, ignore_errors=True)
    home.mkdir(parents=True)
    trust(home)
