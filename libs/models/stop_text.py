"""Ends a streamed text at the first stop sequence."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopText"]


class StopText:
    """Passes text on up to the first stop sequence; holds back an end that may begin a stop sequence."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [word for word in stop if word]
        self._longest = max(map(len, self._stop), default=1)
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """Take more text and return the part that can be shown; "" after a stop sequence."""
        if self.found:
            return ""
        self._held += text
        places = [place for word in self._stop if (place := self._held.find(word)) >= 0]
        if places:
            self.found = True
            at = min(places)
        else:
            at = max(0, len(self._held) - self._longest + 1)
        shown, self._held = self._held[:at], "" if places else self._held[at:]
        return shown

    def end(self) -> str:
        """Return the text that was held back, at the end of the stream."""
        rest, self._held = self._held, ""
        return rest
