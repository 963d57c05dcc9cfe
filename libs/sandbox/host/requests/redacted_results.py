"""Removes known secrets from the results, errors and live output of a sandbox."""

from __future__ import annotations

import base64
import operator
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

from libs.redaction import Redact, RedactStream
from libs.sandbox.errors import SandboxError
from libs.sandbox.protocol import FileFailed, OnOutput

__all__ = ["LiveOutput", "redacted_answer", "redacted_content", "redacted_errors", "redacted_values"]

_SEARCHED = {"entries", "matches", "paths", "unread_first"}
"""What has paths in the answer of a file operation."""


class LiveOutput:
    """Shows live output without secrets. Each descriptor is searched apart, as their pieces may mix."""

    def __init__(self, show: OnOutput, redact: Redact) -> None:
        self._show = show
        self._redact = redact
        self._streams: dict[int, RedactStream] = {}

    def feed(self, fd: int, data: bytes) -> None:
        """Show the part that holds no partial secret."""
        stream = self._streams.get(fd) or self._streams.setdefault(fd, self._redact.stream())
        if redacted := stream.feed(data):
            self._show(redacted)

    def gap(self, fd: int) -> None:
        """Note that output is left out between the data before and after this call."""
        before = self._streams.get(fd)
        self._streams[fd] = self._redact.stream(cut_before=True)
        if before and (redacted := before.flush(cut_after=True)):
            self._show(redacted)

    def flush(self, cut: Container[int]) -> None:
        """Show the rest. `cut`: descriptors whose output continued beyond the received part."""
        for fd, stream in self._streams.items():
            if redacted := stream.flush(cut_after=fd in cut):
                self._show(redacted)


@contextmanager
def redacted_errors(redact: Redact | None) -> Iterator[None]:
    """Remove secrets from messages and hints of errors. Such an error loses its cause, too."""
    try:
        yield
    except SandboxError as error:
        if redact is None:
            raise
        message, hint = redact(str(error)), redact(error.hint)
        if (message, hint) == (str(error), error.hint):
            raise
        raise type(error)(message, hint=hint) from None


def redacted_answer(redact: Redact, message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without known secrets. `hidden`: its paths that reach nothing, as they held one."""
    shown: dict[str, Any] = redacted_values(redact, message)
    pairs = zip(_paths(message), _paths(shown), strict=True)
    hidden = [path for before, path in pairs if path != before]
    return {**shown, "hidden": hidden} if _SEARCHED & shown.keys() else shown


def _paths(message: dict[str, Any]) -> list[Any]:
    """Return the paths of a listing or a search."""
    listed = [message[key] for key in sorted(_SEARCHED) if isinstance(message.get(key), list)]
    found = [each for paths in listed for each in paths]
    return [each.get("path") if isinstance(each, dict) else each for each in found]


def redacted_values(redact: Redact, value: Any) -> Any:
    """Return a JSON value without secrets in its texts. The same object if there are none.

    An object may name one of its texts in `cut_before` or `cut_after`. That text was cut there, so a partial
    secret at the cut is removed too.

    Raises:
        FileFailed: a `base64` text holds a secret.
    """
    return redact.values(_cut_ends(redact, value))


def _cut_ends(redact: Redact, value: Any) -> Any:
    """Return the value without partial secrets at the ends of its cut texts."""
    if isinstance(value, list):
        items = [_cut_ends(redact, item) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    before, after = value.get("cut_before"), value.get("cut_after")
    changed = {}
    for key, item in value.items():
        if key == "base64":
            redacted_content(redact, base64.b64decode(item), text=False)
            continue
        if isinstance(item, (dict, list)):
            redacted = _cut_ends(redact, item)
        elif key in (before, after) and isinstance(item, str):
            raw = item.encode("utf-8", "surrogatepass")
            part = redact.part(raw, cut_before=key == before, cut_after=key == after)
            redacted = item if part is raw else part.decode("utf-8", "surrogatepass")
        else:
            continue
        if redacted is not item:
            changed[key] = redacted
    return {**value, **changed} if changed else value


def redacted_content(redact: Redact, content: bytes, *, text: bool = True) -> bytes:
    """Return the content of a file without secrets. `text`: whether the content may be text.

    Raises:
        FileFailed: the content is binary and holds a secret. Without the secret, the file would be broken.
    """
    redacted = redact(content)
    if redacted is not content and not (text and _is_text(content)):
        raise FileFailed(
            "secret", "it holds a known secret, and is not text, so the secret cannot be removed"
        )
    return redacted


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
