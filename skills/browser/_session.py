"""The actions in the browser, with new tabs and downloads that they cause."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from playwright.async_api import (
    BrowserContext,
    Error,
    Locator,
    Page,
)
from playwright.async_api import TimeoutError as TookTooLong

from skills.browser._dialogs import Dialogs
from skills.browser._downloads import Downloads
from skills.browser._requests import Requests
from skills.browser._tabs import HANGS, Tabs, was_closed
from skills.browser._targets import Purpose, Trouble, find

__all__ = ["Session"]

_LOAD_SECONDS = 10
_MARGIN = 3
"""Seconds beyond the time-out of a call after which the page is given up."""
_INTERRUPTED_SECONDS = 0.5
_FAILURE = "chrome-error://**"
_FAILURE_SECONDS = 2
_TALLEST = 16_000
_SHOWN_CHARS = 300
_TEXT = "() => document.body ? document.body.innerText : document.documentElement.textContent"


class Session:
    """The tabs of one browser and the actions in them. One request at a time."""

    def __init__(self, context: BrowserContext) -> None:
        self._notes: list[str] = []
        self._downloads = Downloads(self._notes)
        self.tabs = Tabs(context, self._downloads, self._notes)
        self._requests = Requests(context, self.tabs, self._notes)
        self._dialogs = Dialogs(context, self._notes)
        self._seconds = self._until = 0.0

    async def do(self, do: str, arguments: dict[str, Any], seconds: float, until: float) -> Any:
        """Carry out an action within about `seconds`, which end at `until`, a time of the loop.

        Raises:
            Trouble: the action failed.
            Error: the action failed in Playwright.
        """
        actions = {
            **{"open": self._open, "click": self._click, "type": self._type, "text": self._text},
            **{"html": self._html, "screenshot": self._screenshot, "close": self._close},
        }
        before = self.tabs.current
        if before is None and do != "open":
            raise Trouble("no page is open: begin with open(url)")
        if before and before.broken and do not in ("open", "close"):
            raise Trouble(f"{before.broken}: open the page again")
        self._seconds = seconds
        self._until = until
        self._requests.begin()
        self.tabs.begin()
        self._dialogs.answer = arguments.pop("answer", False)
        try:
            async with asyncio.timeout_at(until + _MARGIN):
                value = await actions[do](**arguments)
                if value is None:
                    value = await self._described()
        except TookTooLong as error:
            await self._give_up()
            raise Trouble(self._late(error)) from error
        except TimeoutError as error:
            await self._give_up()
            busy = "the page was loading all the time, and was stopped: try again"
            raise Trouble(f"{HANGS}: open it again" if self._hangs else busy) from error
        except Error as error:
            if before and await was_closed(before.page, error):
                raise Trouble("the tab was closed meanwhile: go on in the one in use now") from error
            raise
        except asyncio.CancelledError:  # the client is gone
            await self._give_up()
            raise
        finally:
            self._dialogs.answer = False
        after = self.tabs.current
        if before and not before.broken and after and after is not before and do != "close":
            came = "a new tab opened" if before in self.tabs else "the tab was closed"
            self._notes.append(f"{came}: the one in use is {after.page.url}")
        return value

    def take_notes(self) -> list[str]:
        """Return and clear the notes since the last call."""
        notes = self._notes.copy()
        self._notes.clear()
        return notes

    # -- actions; a result of None is replaced by a description of the page

    async def _open(self, url: str) -> None:
        tab = await self.tabs.sound()
        tab.status, downloads = 0, self._downloads.count
        try:
            await self._go(tab.page, url)
        except TookTooLong as error:
            await self._give_up()
            raise Trouble(f"{url} did not answer within {self._seconds:g} seconds") from error
        except Error as error:
            if "ownload" not in error.message and "ERR_ABORTED" not in error.message:
                raise
            await asyncio.sleep(0.2)  # the error comes before the name of the file
            if self._downloads.count == downloads:
                raise
        else:
            try:
                await tab.page.wait_for_load_state("load", timeout=min(self._left(), _LOAD_SECONDS) * 1000)
            except TookTooLong:
                await tab.stop()
                self._notes.append("not all of the page has loaded; what is there can be used")
            else:
                await self._requests.settle(tab.page, self._until)
        await self._finish_downloads()
        if tab.status >= 400:
            said = " ".join((await self._text(None)).split())[:_SHOWN_CHARS]
            self._notes.append(f"status {tab.status}: {said}")

    async def _go(self, page: Page, url: str) -> None:
        try:
            await page.goto(url, wait_until="commit", timeout=self._left() * 1000)
        except Error as error:
            if "interrupted by another navigation" in error.message:
                await asyncio.sleep(_INTERRUPTED_SECONDS)  # the navigation of the page before ends
                await page.goto(url, wait_until="commit", timeout=self._left() * 1000)
                return
            if "net::" in error.message and "ERR_ABORTED" not in error.message:
                # Wait for the error page of Chromium, so that the next call does not interrupt the page.
                with contextlib.suppress(Error):
                    await page.wait_for_url(_FAILURE, wait_until="commit", timeout=_FAILURE_SECONDS * 1000)
            raise

    async def _click(self, target: str) -> None:
        found = await self._find(target, "click")
        await _done(found.page, found.click(timeout=self._left() * 1000))
        await self._requests.settle(found.page, self._until)
        await self._finish_downloads()

    async def _type(self, target: str, text: str, submit: bool, folder: str) -> None:
        found = await self._find(target, "type")
        tag, kind = await found.evaluate("e => [e.tagName, e.type || '']")
        if tag == "SELECT":
            await self._choose(found, text)
        elif kind == "file":
            await found.set_input_files(_existing(folder, text), timeout=self._left() * 1000)
        elif kind in ("checkbox", "radio", "button", "submit", "reset", "image"):
            raise Trouble(f"{target!r} is a {kind}: click it")
        else:
            await _done(found.page, found.fill(text, timeout=self._left() * 1000))
        if submit:
            await _done(found.page, found.press("Enter", timeout=self._left() * 1000))
        await self._requests.settle(found.page, self._until)
        await self._finish_downloads()

    async def _choose(self, found: Locator, text: str) -> None:
        choices = await found.evaluate("e => [...e.options].map(o => [o.label.trim(), o.value])")
        wanted = text.strip().casefold()
        for by_value in (False, True):
            for index, choice in enumerate(choices):
                if choice[by_value].casefold() == wanted:
                    await found.select_option(index=index, timeout=self._left() * 1000)
                    return
        raise Trouble(f"there is no choice {text!r}; there are: {', '.join(repr(c[0]) for c in choices)}")

    async def _text(self, target: str | None) -> str:
        if target is not None:
            return "\n".join(await (await self._find(target, "read")).all_inner_texts())
        page = self.tabs.in_use.page
        texts = [str(await page.evaluate(_TEXT))]
        for frame in page.frames[1:]:
            with contextlib.suppress(Error):  # the frame is gone or has no text
                if text := str(await frame.evaluate(_TEXT)).strip():
                    texts.append(f"[frame {frame.url}]\n{text}")
        return "\n\n".join(texts)

    async def _html(self, target: str | None) -> str:
        if target is None:
            return await self.tabs.in_use.page.content()
        found = await self._find(target, "read")
        return "\n".join(await found.evaluate_all("all => all.map(e => e.outerHTML)"))

    async def _screenshot(self, path: str, target: str | None, full_page: bool) -> str:
        if target is not None:
            found = await self._find(target, "read")
            await found.first.screenshot(path=path, timeout=self._left() * 1000)
            return path
        page = self.tabs.in_use.page
        clip = None
        if full_page:
            width, height = await page.evaluate(
                "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
            )
            if height > _TALLEST:  # a larger picture needs too much memory
                clip = {"x": 0, "y": 0, "width": min(width, _TALLEST), "height": _TALLEST}
                self._notes.append(
                    f"the page is {height:,} pixels tall; the picture has the first {_TALLEST:,}"
                )
        await page.screenshot(path=path, full_page=full_page, clip=clip, timeout=self._left() * 1000)
        return path

    async def _close(self, tab: bool) -> str:  # noqa: ARG002 - the whole browser is closed elsewhere
        await self.tabs.close()
        if after := self.tabs.current:
            self._notes.append(f"the tab in use is {after.page.url}")
        return ""

    async def _find(self, target: str, purpose: Purpose) -> Locator:
        return await find(self.tabs.in_use.page, target, purpose, self._until)

    async def _described(self) -> dict[str, Any]:
        tab = self.tabs.in_use
        title = await tab.title()
        if tab is not self.tabs.current:  # another tab opened in the meantime
            return await self._described()
        if tab.broken:
            raise Trouble(f"{tab.broken}: open the page again")
        return {
            "url": tab.page.url,
            "title": title,
            "status": tab.status,
            "downloads": self._downloads.take(),
        }

    # -- waiting

    def _left(self) -> float:
        """Return the seconds left, never 0, because Playwright reads 0 as no limit."""
        return max(0.01, self._until - asyncio.get_running_loop().time())

    async def _finish_downloads(self) -> None:
        """Wait for downloads."""
        if await self._downloads.finish(self._left()):
            self.tabs.leave_empty()

    @property
    def _hangs(self) -> bool:
        return self.tabs.current is not None and self.tabs.current.broken == HANGS

    async def _give_up(self) -> None:
        """Stop the page, and check whether the page responds."""
        if (tab := self.tabs.current) and not tab.broken:
            await tab.stop()
            await tab.look()

    def _late(self, error: TookTooLong) -> str:
        lines = [line.strip(" -") for line in error.message.splitlines()]
        if self._hangs:
            return f"{HANGS}: open it again"
        causes = [line for line in lines[1:] if "intercepts pointer" in line or "element is not" in line]
        if causes:
            return f"not within {self._seconds:g} seconds: {causes[-1]}"
        return f"not done within {self._seconds:g} seconds: {lines[-1]}"


async def _done(page: Page, action: Coroutine[Any, Any, None]) -> None:
    """Await an action; ignore that the page is closed or that the next page is slow."""
    try:
        await action
    except TookTooLong as error:
        if "scheduled navigations" not in error.message:
            raise
    except Error as error:
        if not await was_closed(page, error):
            raise


def _existing(folder: str, name: str) -> Path:
    file = Path(folder, name)
    if not file.is_file():
        raise Trouble(f"the field takes a file, and there is no file {file}")
    return file
