"""Answers the dialogs that pages open."""

from __future__ import annotations

import contextlib

from playwright.async_api import BrowserContext, Dialog, Error

__all__ = ["Dialogs"]

_SHOWN_CHARS = 300


class Dialogs:
    """The dialogs of one browser. Each is answered at once and reported in `notes`."""

    def __init__(self, context: BrowserContext, notes: list[str]) -> None:
        self.answer: bool | str = False
        """Answer to confirmations and prompts during the current action."""
        self._notes = notes
        context.on("dialog", self._dialog)

    async def _dialog(self, dialog: Dialog) -> None:
        harmless = dialog.type in ("alert", "beforeunload")
        accepted = harmless or self.answer is not False
        how = (
            "" if harmless else (": confirmed" if accepted else ": cancelled; click(…, answer=True) confirms")
        )
        self._notes.append(f"dialog ({dialog.type}) {dialog.message[:_SHOWN_CHARS]!r}{how}")
        with contextlib.suppress(Error):  # the page is gone
            if accepted:
                await dialog.accept(self.answer if isinstance(self.answer, str) else None)
            else:
                await dialog.dismiss()
