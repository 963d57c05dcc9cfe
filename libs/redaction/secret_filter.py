"""Replaces known secrets, in every encoding, by `[REDACTED]`."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, AnyStr

from libs.redaction.redacted_values import redacted_values
from libs.redaction.secret_encodings import written_forms

__all__ = ["MARK", "SecretFilter", "SecretStream", "unfit"]

logger = logging.getLogger(__name__)

MARK = b"[REDACTED]"
_SHORTEST = 8
_FEWEST = 5
_SHORTEST_WORD = 16
_SHORTEST_NUMBER = 12
_WORDS = re.compile(r"[A-Za-z]+(?:[-_. ][A-Za-z]+)*")
_SHORTEST_PART = 4
_BREAKS = re.compile(rb"[\r\n]+")
_LINE = re.compile(rb"[^\r\n]+")

Span = tuple[int, int]

_warned: set[tuple[str, str]] = set()
"""Name and reason of the warnings that this process has logged."""


def unfit(value: str) -> str | None:
    """Return why a value cannot be redacted, because ordinary text may contain it; None if it can.

    Refused are values under 8 characters or with under 5 different ones, numbers under 12 digits, and words
    in one case under 16 characters (`not-needed`, `production`).
    """
    if len(value) < _SHORTEST:
        return f"it is shorter than {_SHORTEST} characters"
    if len(set(value)) < _FEWEST:
        return f"it has fewer than {_FEWEST} different characters"
    if value.isdigit() and len(value) < _SHORTEST_NUMBER:
        return f"it is a number of fewer than {_SHORTEST_NUMBER} digits"
    plain = value.islower() or value.isupper() or value.istitle()
    if len(value) < _SHORTEST_WORD and plain and _WORDS.fullmatch(value):
        return f"it consists of words, in fewer than {_SHORTEST_WORD} characters"
    if MARK.decode() in value:
        return f"it holds {MARK.decode()}"
    return None


class SecretFilter:
    """Replaces every known secret by `[REDACTED]`. Immutable and thread-safe. False without secrets.

    `secret_encodings.written_forms` lists the forms that are found. Single line breaks inside a form do not
    hide it, because programs wrap encoded text. Overlapping secrets become one `[REDACTED]`, on each of their
    lines, so that all lines keep their numbers. All other bytes are unchanged.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets`: name -> value. Values that `unfit` refuses are skipped; a warning names each once."""
        forms: set[bytes] = set()
        for name, padded in secrets.items():
            value = padded.strip()
            if why := unfit(value):
                if (name, why) not in _warned:
                    # Noted first: to log the warning, the log's own filter is made of the same secrets.
                    _warned.add((name, why))
                    logger.warning("%s is not redacted where it is printed: %s", name, why)
            else:
                forms |= written_forms(value)
        self._forms = sorted({_unbroken(form) for form in forms})

    @property
    def forms(self) -> Sequence[bytes]:
        """Every form of every secret, without line breaks."""
        return self._forms

    def __bool__(self) -> bool:
        return bool(self.forms)

    def __call__(self, data: AnyStr) -> AnyStr:
        """Return `data` without secrets; the same object if it contains none."""
        raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
        stream = self.stream()
        done = stream.feed(raw, final=True)
        if not stream.found:
            return data
        return done if isinstance(data, bytes) else done.decode("utf-8", "surrogatepass")

    def values(self, value: Any) -> Any:
        """Redact a value that contains texts; see `libs.redaction.redacted_values`."""
        return redacted_values(self, value)

    def stream(self, *, cut_before: bool = False) -> SecretStream:
        """Return a filter for bytes that come in pieces. `cut_before`: see `part`."""
        return SecretStream(self, cut_before=cut_before)

    def part(self, data: bytes, *, cut_before: bool = False, cut_after: bool = False) -> bytes:
        """Redact a part of a longer text.

        At a cut end, 4 or more bytes that may belong to a secret are redacted. If both ends are cut, so is a
        text that may be the middle of a secret.
        """
        stream = self.stream(cut_before=cut_before)
        done = stream.feed(data, final=True, cut_after=cut_after)
        return done if stream.found else data

    def spans(self, text: bytes, *, cut_before: bool = False, cut_after: bool = False) -> list[Span]:
        """Return the places of secrets in a text without breaks, in order; overlapping ones are merged.

        `cut_before` and `cut_after`: see `part`.
        """
        found: list[Span] = []
        for form in self.forms:
            at = text.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = text.find(form, at + 1)
        if cut_before and cut_after and len(text) >= _SHORTEST_PART and self.within(text):
            found.append((0, len(text)))
        if cut_before and (length := self._closing(text)):
            found.append((0, length))
        if cut_after and len(text) - (at := self.open(text)) >= _SHORTEST_PART:
            found.append((at, len(text)))
        return _merged(found)

    def open(self, text: bytes) -> int:
        """Return where the longest possible beginning of a form at a text's end starts, or its length."""
        best = len(text)
        for form in self.forms:
            at = text.find(form[:1], max(0, len(text) - len(form) + 1), best)
            while at >= 0:
                if form.startswith(text[at:]):
                    best = at
                    break
                at = text.find(form[:1], at + 1, best)
        return best

    def _closing(self, text: bytes) -> int:
        """Return the length of the longest possible end of a form at the start of a text; 0 under 4 bytes."""
        best = 0
        for form in self.forms:
            at = form.find(text[:_SHORTEST_PART], 1) if len(text) >= _SHORTEST_PART else -1
            while at >= 0:
                if text.startswith(form[at:]):
                    best = max(best, len(form) - at)
                    break
                at = form.find(text[:_SHORTEST_PART], at + 1)
        return best

    def within(self, text: bytes) -> bool:
        """Return whether a text may be the middle of a form."""
        return any(text in form for form in self.forms)


class SecretStream:
    """Filters bytes that come in pieces. The result is that of `SecretFilter` for the whole.

    Holds back only a possible beginning of a secret, and after a cut a possible middle: at most the bytes of
    the longest form, plus line breaks.
    """

    def __init__(self, known: SecretFilter, *, cut_before: bool = False) -> None:
        self._known = known
        self._cut_before = cut_before
        """Whether all bytes so far may be the middle of a secret that began before them."""
        self._held = b""
        self._covered = 0
        """Bytes of `_held` that are already replaced by a written `[REDACTED]`."""
        self.found = False
        """Whether a secret was found."""

    def feed(self, data: bytes, *, final: bool = False, cut_after: bool = False) -> bytes:
        """Take more bytes; return the redacted bytes that are certain by now.

        `final`: no more follow. `cut_after`: see `SecretFilter.part`.
        """
        data = self._held + data if self._held else data
        text = _unbroken(data)
        if self._cut_before and not final and self._known.within(text):
            self._held = data
            return b""
        found = self._known.spans(text, cut_before=self._cut_before, cut_after=cut_after)
        self._cut_before = False
        end = len(text) if final else self._known.open(text)
        if not found and not self._covered and end == len(text):
            self._held = b""
            return data
        places = _Places(data)
        spans = [(places.of(start), places.of(stop - 1) + 1) for start, stop in found]
        return self._put_out(data, spans, len(data) if end == len(text) else places.of(end))

    def flush(self, *, cut_after: bool = False) -> bytes:
        """Return the rest at the end. `cut_after`: see `SecretFilter.part`."""
        return self.feed(b"", final=True, cut_after=cut_after)

    def _put_out(self, data: bytes, spans: list[Span], end: int) -> bytes:
        """Return the redacted data up to `end`, and hold back the rest."""
        done: list[bytes] = []
        at = 0
        if self._covered:
            (_, at), *spans = _merged([(0, self._covered), *spans])
            # The mark of the line is written. More lines of the same secrets get their own.
            if broken := _BREAKS.search(data, self._covered, at):
                done.append(_LINE.sub(MARK, data[broken.start() : at]))
        for start, stop in spans:
            if start >= end:
                break
            done += [data[at:start], _LINE.sub(MARK, data[start:stop])]
            self.found = True
            at = stop
        if at < end:
            done.append(data[at:end])
        self._held = data[end:]
        self._covered = max(0, at - end)
        return b"".join(done)


class _Places:
    """Maps positions in a text without breaks to positions in the original data."""

    def __init__(self, data: bytes) -> None:
        breaks = [found.span() for found in _BREAKS.finditer(_marked(data))]
        self._removed = [0, *accumulate(stop - start for start, stop in breaks)]
        self._at = [start - removed for (start, _), removed in zip(breaks, self._removed, strict=False)]

    def of(self, index: int) -> int:
        return index + self._removed[bisect_right(self._at, index)]


def _marked(data: bytes) -> bytes:
    """Replace empty lines by NUL, which ends every form, so that runs of breaks are not held back."""
    if b"\r" in data:
        data = data.replace(b"\r\n\r\n", bytes(4)).replace(b"\r\r", bytes(2))
    return data.replace(b"\n\n", bytes(2))


def _unbroken(data: bytes) -> bytes:
    """Remove single line breaks."""
    if b"\n" not in data and b"\r" not in data:
        return data
    return _marked(data).translate(None, b"\r\n")


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged
