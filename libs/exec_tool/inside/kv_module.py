"""The module `kv` for programs in the sandbox: a key-value store on the host (standard library only)."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

__all__ = ["delete", "get", "keys", "put"]

_PLACE = "http://kv.gateway/"


def get(key: str, default: Any = None) -> Any:
    """Return the value of a key, written by this or an earlier program of the thread."""
    found = _ask("GET", key)
    return default if found is None else json.loads(found)


def put(key: str, value: Any) -> None:
    """Save a JSON value of at most 1 MB. A tuple in the value comes back as a list, since JSON has no tuples.

    Raises:
        TypeError: `key` is no text, or JSON has no such value.
        ValueError: the value would come back changed: the key of a dict is no text, a number is not finite,
            or a text holds half of a surrogate pair. Or the value is nested too deeply, over some 400 levels.
    """
    try:
        text = json.dumps(value, allow_nan=False)
        json.dumps(value, ensure_ascii=False).encode()
        has_text_keys = _has_text_keys(value)
    except UnicodeEncodeError:
        raise ValueError("kv: the value holds half of a surrogate pair, which is not text") from None
    except RecursionError:
        raise ValueError("kv: the value is nested too deeply: save it with fewer levels") from None
    if not has_text_keys:
        raise ValueError("kv: the keys of objects must be texts: JSON would change other keys")
    _ask("PUT", key, text.encode())


def delete(key: str) -> bool:
    """Remove a key and return whether the key existed."""
    return _ask("DELETE", key) is not None


def keys() -> list[str]:
    """Return all keys, sorted."""
    found: list[str] = json.loads(_send("GET", "") or b"[]")
    return found


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(inner) for key, inner in value.items())
    return not isinstance(value, (list, tuple)) or all(map(_has_text_keys, value))


def _ask(method: str, key: str, body: bytes | None = None) -> bytes | None:
    if not isinstance(key, str):
        raise TypeError(f"kv: a key is a text, not {type(key).__name__}")
    if not key:
        raise ValueError("kv: a key has at least one character")
    return _send(method, key, body)


def _send(method: str, key: str, body: bytes | None = None) -> bytes | None:
    """Return the answer, or None if the key does not exist. Raises RuntimeError with the reason."""
    if "http" not in urllib.request.getproxies():
        raise RuntimeError("kv: this sandbox has no way to the store")
    url = _PLACE + urllib.parse.quote(key, safe="")
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise RuntimeError(f"kv: {error.read().decode('utf-8', 'replace').strip() or error.reason}") from None
