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
    """Save a JSON value of at most 1 MB."""
    _ask("PUT", key, json.dumps(value, allow_nan=False).encode())


def delete(key: str) -> bool:
    """Remove a key and return whether the key existed."""
    return _ask("DELETE", key) is not None


def keys() -> list[str]:
    """Return all keys, sorted."""
    found: list[str] = json.loads(_ask("GET", "") or b"[]")
    return found


def _ask(method: str, key: str, body: bytes | None = None) -> bytes | None:
    """Return the answer, or None if the key does not exist. Raises RuntimeError with the reason."""
    if "http" not in urllib.request.getproxies():
        raise RuntimeError("kv: this sandbox has no way to the store")
    url = _PLACE + urllib.parse.quote(key, safe="")
    request = urllib.request.Request(url, data=body, method=method)  # noqa: S310 - http
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise RuntimeError(f"kv: {error.read().decode('utf-8', 'replace').strip() or error.reason}") from None
