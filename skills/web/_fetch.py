"""Fetches one address through the gateway, and explains failures."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests
import urllib3

__all__ = ["Page", "fetch", "why"]

MAX_BYTES = 10 * 2**20
MAX_SECONDS = 60
MAX_REDIRECTS = 10
_WAIT = (10, 30)  # seconds for a connection, and for each piece of the answer
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; code-execution-agent)",
    "Accept": "text/html, application/xhtml+xml, text/*, application/pdf, application/json, */*;q=0.8",
    "Accept-Language": "en, *;q=0.5",
}


@dataclass(frozen=True)
class Page:
    """An answer: `url` after redirects, `kind` without parameters in lower case, and the bytes."""

    url: str
    kind: str
    charset: str | None
    content: bytes


def fetch(url: str) -> Page:
    """Get an address with GET, following redirects.

    Raises:
        ValueError: no http or https URL, or over 10 MB.
        ConnectionError: the address is unreachable or refused, or answers with an error.
        TimeoutError: the answer took too long.
    """
    _check(url)
    deadline = time.monotonic() + MAX_SECONDS
    try:
        with _session() as session, session.get(url, stream=True, timeout=_WAIT) as response:
            if not response.ok:
                raise ConnectionError(f"{url}: {_status(response)}")
            content = _content(response, url, deadline)
            header = response.headers.get("Content-Type", "")
            charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", header, re.IGNORECASE)
            return Page(
                response.url, header.split(";")[0].strip().lower(), charset[1] if charset else None, content
            )
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise TimeoutError(f"{url}: no answer within {_WAIT[1]} seconds") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise ConnectionError(f"{url}: {why(error)}") from None


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except (ValueError, TypeError, AttributeError):
        known = False
    if not known:
        raise ValueError(f"a URL begins with http:// or https:// and names a host, not {str(url)[:200]!r}")


def _session() -> requests.Session:
    session = requests.Session()
    session.max_redirects = MAX_REDIRECTS
    session.headers.update(_HEADERS)
    return session


def _content(response: requests.Response, url: str, deadline: float) -> bytes:
    content = bytearray()
    while part := response.raw.read1(64 * 1024, decode_content=True):  # returns the bytes that are there
        content += part
        if len(content) > MAX_BYTES:
            raise ValueError(
                f"{url} is over {MAX_BYTES >> 20} MB: save it with curl -o /workspace/NAME, and read the file"
            )
        if time.monotonic() > deadline:
            raise TimeoutError(f"{url}: not all there after {MAX_SECONDS} seconds")
    return bytes(content)


def _status(response: requests.Response) -> str:
    """Return the status of an answer, with the reason of the gateway."""
    said = f"{response.status_code} {response.reason or ''}".strip()
    if response.headers.get("Content-Type", "").startswith("text/plain"):
        line = (
            response.raw.read1(400, decode_content=True).decode("utf-8", "replace").strip().partition("\n")[0]
        )
        said = said if line in said else f"{said}: {line}"
    return said


def why(error: Exception) -> str:
    """Return the cause of an error, without the layers of libraries."""
    if isinstance(error, requests.TooManyRedirects):
        return f"over {MAX_REDIRECTS} redirects"
    text = _innermost(error)
    if refused := re.search(r"Tunnel connection failed: (.*)", text):
        return refused[1].strip()
    if isinstance(error, requests.exceptions.ProxyError):
        return f"there is no network: the gateway at {_proxy()} does not answer ({text})"
    if isinstance(error, requests.exceptions.SSLError):
        return f"its certificate is not accepted ({text})"
    if isinstance(error, requests.exceptions.InvalidSchema):
        return "it leads to an address that is neither http nor https"
    if "resolve" in text.lower() and not _proxy():
        return "there is no network: HTTP_PROXY is not set here, so no gateway is in use"
    return text


def _proxy() -> str:
    return next((os.environ[name] for name in ("HTTPS_PROXY", "HTTP_PROXY") if os.environ.get(name)), "")


def _innermost(error: BaseException) -> str:
    """Return the message of the innermost error: requests wraps urllib3, which wraps the system."""
    while True:
        first = error.args[0] if error.args else None
        inner = [getattr(error, name, None) for name in ("reason", "original_error")]
        inner += [first, error.args[1] if len(error.args) > 1 else None]
        found = next((each for each in inner if isinstance(each, BaseException)), None)
        if found is None:
            # urllib3 puts the connection before its message: `<…HTTPConnection object at 0x…>: `.
            return re.sub(r"^<?[\w.]*Connection\b[^:]*?>?: ", "", str(error)) or type(error).__name__
        error = found
