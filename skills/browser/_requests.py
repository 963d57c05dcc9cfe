"""Waits for the requests that pages need to show their content."""

from __future__ import annotations

import asyncio

from playwright.async_api import BrowserContext, Error, Page, Request, Response

from skills.browser._tabs import Tabs, is_closing

__all__ = ["Requests"]

_SETTLE_SECONDS = 3
# Requests that a page needs to show its content; others may last as long as the page is open.
_AWAITED = ("document", "script", "stylesheet", "xhr", "fetch")


class Requests:
    """The open requests of one browser. What does not end in time is stopped and reported in `notes`."""

    def __init__(self, context: BrowserContext, tabs: Tabs, notes: list[str]) -> None:
        self._tabs = tabs
        self._notes = notes
        self._pending: dict[Request, Page | None] = {}
        """Open requests, each with its page if the request loads a whole page."""
        context.on("request", self._requested)
        context.on("response", self._responded)
        context.on("requestfinished", lambda request: self._pending.pop(request, None))
        context.on("requestfailed", lambda request: self._pending.pop(request, None))

    def begin(self) -> None:
        """Forget the open requests before an action."""
        self._pending.clear()

    async def settle(self, page: Page, until: float) -> None:
        """Wait for a new page until `until`, a time of the loop, and for other requests for 3 seconds."""
        loop = asyncio.get_running_loop()
        patience = loop.time() + _SETTLE_SECONDS
        calm = 0
        while calm < 3:
            await asyncio.sleep(0.05)
            whole = self._tabs.opening or any(
                page and not page.is_closed() for page in self._pending.values()
            )
            if loop.time() > until:
                if whole:
                    await self._tabs.in_use.stop()
                    self._notes.append("what was to come did not come in time, and was stopped (timeout=…)")
                return
            waiting = whole or (self._pending and loop.time() < patience)
            calm = 0 if waiting else calm + 1
        for _ in range(_SETTLE_SECONDS * 20):
            if not await is_closing(page):
                break
            await asyncio.sleep(0.05)

    def _requested(self, request: Request) -> None:
        if request.resource_type in _AWAITED:
            self._pending[request] = _page_of(request)

    def _responded(self, response: Response) -> None:
        if page := _page_of(response.request):
            self._tabs.answered(page, response.status)


def _page_of(request: Request) -> Page | None:
    """Return the page that a request loads, or None for a frame or a part of a page."""
    if not request.is_navigation_request():
        return None
    try:
        return None if request.frame.parent_frame else request.frame.page
    except Error:  # the frame does not exist yet
        return None
