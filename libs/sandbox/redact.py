"""What takes secrets out of all that leaves a sandbox: handed in, applied where it arrives on the host."""

from __future__ import annotations

import base64
import operator
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any, AnyStr, Protocol

from libs.sandbox.errors import SandboxError
from libs.sandbox.protocol import FileFailed, OnOutput

__all__ = ["LiveOutput", "Redact", "RedactStream", "redacted_content", "redacted_errors", "redacted_values"]


class RedactStream(Protocol):
    """Takes secrets out of bytes that come in pieces, cut anywhere."""

    def feed(self, data: bytes) -> bytes:
        """What can be shown, now that `data` has come."""
        ...

    def flush(self) -> bytes:
        """What was held back, at the end."""
        ...


class Redact(Protocol):
    """Takes secrets out of text and bytes. Called from several threads at once; may not raise."""

    def __call__(self, data: AnyStr) -> AnyStr:
        """`data` without secrets; the same object where there are none in it."""
        ...

    def stream(self) -> RedactStream:
        """The same for what comes in pieces."""
        ...

    def part(self, data: bytes, *, cut_before: bool = False, cut_after: bool = False) -> bytes:
        """The same for a part of something longer: a secret may have been cut in two where it was cut."""
        ...


class LiveOutput:
    """Shows output as it comes, each descriptor by itself: one may print between the pieces of another's."""

    def __init__(self, show: OnOutput, redact: Redact) -> None:
        self._show = show
        self._redact = redact
        self._streams: dict[int, RedactStream] = {}

    def feed(self, fd: int, data: bytes, *, sample: bool) -> None:
        """Show what can be shown now; `sample`: it does not follow what came before, nor goes on after."""
        stream = self._streams.get(fd) or self._streams.setdefault(fd, self._redact.stream())
        if sample:
            shown = self._redact.part(stream.flush(), cut_after=True)
            shown += self._redact.part(data, cut_before=True, cut_after=True)
        else:
            shown = stream.feed(data)
        if shown:
            self._show(shown)

    def flush(self, cut: Container[int]) -> None:
        """Show the rest; `cut`: the descriptors of which there was more than came here."""
        for fd, stream in self._streams.items():
            if shown := self._redact.part(stream.flush(), cut_after=fd in cut):
                self._show(shown)


@contextmanager
def redacted_errors(redact: Redact | None) -> Iterator[None]:
    """Messages and hints of errors without secrets. One that held any hides what it came from."""
    try:
        yield
    except SandboxError as error:
        if redact is None:
            raise
        message, hint = redact(str(error)), redact(error.hint)
        if (message, hint) == (str(error), error.hint):
            raise
        raise type(error)(message, hint=hint) from None


def redacted_values(redact: Redact, value: Any) -> Any:
    """A value as JSON has it, without secrets in its texts; the same object where there are none in it.

    An object in it may name one of its texts as `cut_before` or `cut_after`: that text is a part of a longer
    one, and a part of a secret counts as one where it was cut.

    Raises:
        FileFailed: `base64` in it holds one.
    """
    value = _cut_ends(redact, value)
    # One search for all: a listing may have 50,000 names.
    together = "\0".join(_texts(redact, value))
    return value if redact(together) is together else _redacted(redact, value)


def _cut_ends(redact: Redact, value: Any) -> Any:
    """The value, the texts that are named as cut without secrets, also where these were cut in two."""
    if isinstance(value, list):
        items = [_cut_ends(redact, item) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    before, after = value.get("cut_before"), value.get("cut_after")
    changed = {}
    for key, item in value.items():
        if isinstance(item, (dict, list)):
            shown = _cut_ends(redact, item)
        elif key in (before, after) and isinstance(item, str):
            raw = item.encode("utf-8", "surrogatepass")
            part = redact.part(raw, cut_before=key == before, cut_after=key == after)
            shown = item if part is raw else part.decode("utf-8", "surrogatepass")
        else:
            continue
        if shown is not item:
            changed[key] = shown
    return {**value, **changed} if changed else value


def _texts(redact: Redact, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(redact, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "base64":
                redacted_content(redact, base64.b64decode(item), text=False)
            else:
                yield from _texts(redact, item)


def _redacted(redact: Redact, value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted(redact, item) for item in value]
    if isinstance(value, dict):
        return {key: item if key == "base64" else _redacted(redact, item) for key, item in value.items()}
    return value


def redacted_content(redact: Redact, content: bytes, *, text: bool = True) -> bytes:
    """Content of a file without secrets. `text`: whether it may be text.

    Raises:
        FileFailed: it holds one and is no text, so that it would be a broken file without.
    """
    shown = redact(content)
    if shown is not content and not (text and _is_text(content)):
        raise FileFailed("secret", "it holds a known secret, and is no text that it could be taken out of")
    return shown


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
