"""Known secrets, however they are written, replaced by `[REDACTED]` in whatever leaves."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, AnyStr

from libs.gateway.encodings import written_forms
from libs.gateway.values import redacted_values

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
_BLOCK = 256 * 1024
"""Bytes that are looked through at once: what the processor's cache holds."""

Span = tuple[int, int]


def unfit(value: str) -> str | None:
    """Why a value is not looked for, because it may well stand in a text that gives nothing away.

    Shorter than 8 characters, fewer than 5 different ones, a number of fewer than 12 digits, or words in one
    case that have fewer than 16 characters (`not-needed`, `production`).
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
    """Replaces every known secret by `[REDACTED]`. Immutable, so usable from any thread.

    `libs.gateway.encodings.written_forms` says which forms are found. Line breaks within a form do not hide
    it, as long as no line between is empty: programs wrap what they encode. What overlaps becomes one
    `[REDACTED]`; everything else stays as it is, byte for byte. False where it knows no secret.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Take the values of `secrets`, by name, but for those that `unfit` refuses: a warning names them."""
        forms: set[bytes] = set()
        for name, padded in secrets.items():
            value = padded.strip()
            if why := unfit(value):
                logger.warning("%s is not redacted where it is printed: %s", name, why)
            else:
                forms |= written_forms(value)
        unbroken = {_unbroken(form) for form in forms}
        self.forms = [(form, _period(form)) for form in sorted(unbroken)]
        """Every form, and how far apart two occurrences of it are at least."""

    def __bool__(self) -> bool:
        return bool(self.forms)

    def __call__(self, data: AnyStr) -> AnyStr:
        """`data` without secrets; the same object where there are none in it."""
        if isinstance(data, bytes):
            return self._whole(data)
        raw = data.encode("utf-8", "surrogatepass")
        done = self._whole(raw)
        return data if done is raw else done.decode("utf-8", "surrogatepass")

    def values(self, value: Any) -> Any:
        """The same for whatever holds texts; see `libs.gateway.values`."""
        return redacted_values(self, value)

    def stream(self) -> SecretStream:
        """A filter for what comes in pieces."""
        return SecretStream(self)

    def part(self, data: bytes, *, cut_before: bool = False, cut_after: bool = False) -> bytes:
        """The same for a part of something longer, for whose ends nobody knows the rest.

        What may be the end of a secret where it was cut before, or the beginning of one where it was cut
        after, counts as one, from 4 bytes on; cut at both ends, so does what may lie within one.
        """
        text = _unbroken(data)
        found = self.spans(text)
        if cut_before and cut_after and self._within(text):
            found.append((0, len(text)))
        if cut_before and (length := self._closing(text)):
            found.append((0, length))
        if cut_after and len(text) - (at := self.open(text)) >= _SHORTEST_PART:
            found.append((at, len(text)))
        if not found:
            return data
        places = _Places(data)
        done, at = [], 0
        for start, stop in _merged(found):
            done += [data[at : places.of(start)], MARK]
            at = places.of(stop - 1) + 1
        return b"".join([*done, data[at:]])

    def _whole(self, data: bytes) -> bytes:
        if not self.forms:
            return data
        stream = self.stream()
        clean = 0
        done: list[bytes] = []
        for start in range(0, len(data), _BLOCK):
            block = data if len(data) <= _BLOCK else data[start : start + _BLOCK]
            shown = stream.feed(block, final=start + _BLOCK >= len(data))
            if not stream.found:
                clean += len(shown)
            else:
                done = done or [data[:clean]]
                done.append(shown)
        return b"".join(done) if stream.found else data

    def spans(self, text: bytes) -> list[Span]:
        """Where secrets are in a text without breaks, in order; those that overlap as one."""
        found: list[Span] = []
        for form, period in self.forms:
            at = text.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = text.find(form, at + period)
        return _merged(found) if len(found) > 1 else found

    def open(self, text: bytes) -> int:
        """Where the longest end of a text begins that may be the beginning of a form; its length for none."""
        best = len(text)
        for form, _ in self.forms:
            at = text.find(form[:1], max(0, len(text) - len(form) + 1), best)
            while at >= 0:
                if form.startswith(text[at:]):
                    best = at
                    break
                at = text.find(form[:1], at + 1, best)
        return best

    def _closing(self, text: bytes) -> int:
        """The length of the longest beginning of a text that may be the end of a form, from 4 bytes on."""
        best = 0
        for form, _ in self.forms:
            at = form.find(text[:_SHORTEST_PART], 1) if len(text) >= _SHORTEST_PART else -1
            while at >= 0:
                if text.startswith(form[at:]):
                    best = max(best, len(form) - at)
                    break
                at = form.find(text[:_SHORTEST_PART], at + 1)
        return best

    def _within(self, text: bytes) -> bool:
        """Whether a text of 4 bytes or more may lie within a form."""
        return len(text) >= _SHORTEST_PART and any(text in form for form, _ in self.forms)


class SecretStream:
    """Filters bytes that come in pieces, cut anywhere: all of it is what `SecretFilter` makes of the whole.

    Holds back no more than what may be the beginning of a secret: fewer bytes than the longest form has, and
    the line breaks in it. Never waits.
    """

    def __init__(self, known: SecretFilter) -> None:
        self._known = known
        self._held = b""
        self._covered = 0
        """Bytes of `_held` that belong to something that `[REDACTED]` was put out for."""
        self.found = False
        """Whether there was a secret."""

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """What can be put out, now that `data` has come; `final`: nothing follows."""
        data = self._held + data if self._held else data
        text = _unbroken(data)
        found = self._known.spans(text)
        end = len(text) if final else self._known.open(text)
        if not found and not self._covered and end == len(text):
            self._held = b""
            return data
        places = _Places(data)
        spans = [(places.of(start), places.of(stop - 1) + 1) for start, stop in found]
        return self._put_out(data, spans, len(data) if end == len(text) else places.of(end))

    def flush(self) -> bytes:
        """What was held back, at the end."""
        return self.feed(b"", final=True)

    def _put_out(self, data: bytes, spans: list[Span], end: int) -> bytes:
        """Everything up to `end`; the rest is held."""
        done: list[bytes] = []
        at = 0
        if self._covered:
            (_, at), *spans = _merged([(0, self._covered), *spans])
        for start, stop in spans:
            if start >= end:
                break
            done += [data[at:start], MARK]
            self.found = True
            at = stop
        if at < end:
            done.append(data[at:end])
        self._held = data[end:]
        self._covered = max(0, at - end)
        return b"".join(done)


class _Places:
    """Where the bytes of a text without breaks are in the data that it was made from."""

    def __init__(self, data: bytes) -> None:
        breaks = [found.span() for found in _BREAKS.finditer(_marked(data))]
        self._removed = [0, *accumulate(stop - start for start, stop in breaks)]
        self._at = [start - removed for (start, _), removed in zip(breaks, self._removed, strict=False)]

    def of(self, index: int) -> int:
        return index + self._removed[bisect_right(self._at, index)]


def _marked(data: bytes) -> bytes:
    """The data, empty lines made NUL: these end every form, so that no run of breaks is held back whole."""
    if b"\r" in data:
        data = data.replace(b"\r\n\r\n", bytes(4)).replace(b"\r\r", bytes(2))
    return data.replace(b"\n\n", bytes(2))


def _unbroken(data: bytes) -> bytes:
    """The data without single line breaks."""
    if b"\n" not in data and b"\r" not in data:
        return data
    return _marked(data).translate(None, b"\r\n")


def _period(form: bytes) -> int:
    """The least distance at which a form can occur again while it still lasts, at most its length."""
    return next(shift for shift in range(1, len(form) + 1) if form.startswith(form[shift:]))


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged
