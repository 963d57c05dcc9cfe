"""Ending a text, while it comes, where a stop sequence begins."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopText"]


class StopText:
    """Passes text on up to the first stop sequence; holds back an end that may be the beginning of one."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [word for word in stop if word]
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """What may be shown after `text` has come. Nothing comes after a stop sequence was found."""
        if self.found:
            return ""
        text = self._held + text
        places = [place for word in self._stop if (place := text.find(word)) >= 0]
        if places:
            self.found, self._held = True, ""
            return text[: min(places)]
        held = max((_overlap(text, word) for word in self._stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def end(self) -> str:
        """What was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, word: str) -> int:
    """Length of the longest end of `text` that is a beginning of `word`."""
    return next((n for n in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:n])), 0)
