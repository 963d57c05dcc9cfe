"""The tabs of one browser; the newest tab is in use."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from playwright.async_api import BrowserContext, CDPSession, Error, Page

from skills.browser._downloads import Downloads
from skills.browser._targets import Trouble

__all__ = ["HANGS", "Tab", "Tabs", "is_closing", "was_closed"]

HANGS = "the page does not respond"
_MOST = 10
_RESPONSE_SECONDS = 4
_STOP_SECONDS = 2
_TOLD_SECONDS = 0.3
_CLOSING_SECONDS = 1
_EMPTY = ("", ":", "about:blank")


@dataclass(eq=False)
class Tab:
    """One tab."""

    page: Page
    status: int = 0
    broken: str = ""
    """Why the tab is unusable, or ""."""

    async def title(self) -> str:
        """Return the title; "" while the page is busy or changes."""
        with contextlib.suppress(TimeoutError, Error):
            async with asyncio.timeout(_RESPONSE_SECONDS):
                return await self.page.title()
        return ""

    async def stop(self) -> None:
        """Stop loading; a page that changes cannot be read."""
        with contextlib.suppress(TimeoutError, Error):
            async with asyncio.timeout(_STOP_SECONDS):
                session = await self.page.context.new_cdp_session(self.page)
                await session.send("Page.stopLoading")
                await session.detach()

    async def look(self) -> None:
        """Check whether the page responds."""
        with contextlib.suppress(Error):
            try:
                async with asyncio.timeout(_RESPONSE_SECONDS):
                    await self.page.evaluate("1")
            except TimeoutError:
                self.broken = self.broken or HANGS


class Tabs:
    """The usable tabs in the order of their opening. Closed tabs are reported in `notes`."""

    def __init__(self, context: BrowserContext, downloads: Downloads, notes: list[str]) -> None:
        self._context = context
        self._downloads = downloads
        self._notes = notes
        self._all: list[Tab] = []
        self._closing: set[asyncio.Task[None]] = set()
        # Since `begin`: tabs that the browser opened, and tabs that became usable.
        self._opened: set[str] = set()
        self._arrived: set[Page] = set()
        self._statuses: WeakKeyDictionary[Page, int] = WeakKeyDictionary()
        context.on("page", self._arrive)

    async def watch(self, browser: CDPSession) -> None:
        """Get events for opened tabs before they are usable."""
        browser.on("Target.targetCreated", lambda told: self._count(told["targetInfo"]))
        browser.on("Target.targetDestroyed", lambda told: self._opened.discard(told["targetId"]))
        await browser.send("Target.setDiscoverTargets", {"discover": True})

    def begin(self) -> None:
        """Reset `opening` before an action."""
        self._opened.clear()
        self._arrived.clear()

    @property
    def opening(self) -> bool:
        """Whether an opened tab is not usable yet."""
        return len(self._opened) > len(self._arrived)

    @property
    def current(self) -> Tab | None:
        """The tab in use, or None."""
        return self._all[-1] if self._all else None

    @property
    def in_use(self) -> Tab:
        """The tab in use; raises Trouble if there is no tab."""
        if self.current is None:
            raise Trouble("the page closed its tab: open it again")
        return self.current

    def __contains__(self, tab: Tab) -> bool:
        return tab in self._all

    def answered(self, page: Page, status: int) -> None:
        """Store the status of a page, whose tab may not exist yet."""
        self._statuses[page] = status
        for tab in self._all:
            if tab.page == page:
                tab.status = status

    def leave_empty(self) -> None:
        """Close tabs that were opened only for a download."""
        while len(self._all) > 1 and self._all[-1].page.url in _EMPTY:
            tab = self._all.pop()
            if not self._downloads.under_way:  # closing the tab could end the download
                self._drop(tab.page)

    async def sound(self) -> Tab:
        """Return the tab in use, or a new tab if the tab is broken or missing."""
        tab = self.current
        if tab and not tab.broken:
            return tab
        if tab:
            self._all.remove(tab)
            self._drop(tab.page)
        await self._context.new_page()
        return self.in_use

    async def close(self) -> None:
        """Close the tab in use."""
        tab = self.in_use
        self._all.remove(tab)
        if tab.broken:
            self._drop(tab.page)
        else:
            await tab.page.close()

    def _count(self, target: dict[str, Any]) -> None:
        if target["type"] == "page":
            self._opened.add(target["targetId"])

    def _arrive(self, page: Page) -> None:
        self._arrived.add(page)
        page.on("close", self._leave)
        if len(self._all) >= _MOST:
            self._notes.append(f"a new tab was closed at once: there are {_MOST} already")
            self._drop(page)
            return
        tab = Tab(page, self._statuses.get(page, 0))
        self._all.append(tab)
        page.on("download", self._downloads.offered)
        page.on("crash", lambda _: setattr(tab, "broken", "the page crashed, perhaps for the memory it used"))

    def _leave(self, page: Page) -> None:
        self._arrived.discard(page)
        self._all = [tab for tab in self._all if tab.page != page]

    def _drop(self, page: Page) -> None:
        """Close a tab in the background, because the tab may not respond."""
        closing = asyncio.create_task(_close_quietly(page))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def was_closed(page: Page, error: Error) -> bool:
    """Return whether an error means that only this page was closed, not the browser."""
    if "has been closed" not in error.message:
        return False
    await asyncio.sleep(_TOLD_SECONDS)  # pages get the event of the end before the browser
    browser = page.context.browser
    return page.is_closed() and browser is not None and browser.is_connected()


async def is_closing(page: Page) -> bool:
    """Return whether the page has closed itself and its tab is about to go."""
    if page.is_closed():
        return False
    with contextlib.suppress(TimeoutError, Error):
        async with asyncio.timeout(_CLOSING_SECONDS):
            return bool(await page.evaluate("window.closed"))
    return False


async def _close_quietly(page: Page) -> None:
    with contextlib.suppress(Error):
        await page.close()
