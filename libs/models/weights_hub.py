"""Reads a file of weights from its hub repository over HTTP."""

from __future__ import annotations

from collections.abc import Generator
from urllib.parse import urlsplit

import httpx

__all__ = ["SourceFailed", "read"]

_TIMEOUT = httpx.Timeout(30, connect=5)


class SourceFailed(Exception):
    """A source of weights failed before the end of the file; the message is a sentence with the reason."""


def read(url: str, start: int, total: int) -> Generator[bytes, None, None]:
    """Yield the bytes of the file from `start` on.

    The connection may take 5 s and each byte 30 s. Uses the proxy of the environment, and trusts the
    certificates of the system and of certifi.

    Raises:
        SourceFailed: no answer, an error status, a cut answer, or a file of another length.
    """
    host = urlsplit(url).hostname
    try:
        trusted = httpx.create_ssl_context()
        trusted.load_default_certs()
    except OSError as error:
        raise SourceFailed(f"The certificates of this machine cannot be read: {error}.") from error
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        with (
            httpx.Client(verify=trusted, timeout=_TIMEOUT, follow_redirects=True) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            response.raise_for_status()
            # A server may ignore the range and send everything.
            begin = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
            # A login page in place of the file often has no length.
            length = response.headers.get("Content-Length", "an unknown number of")
            if length != str(total - begin):
                raise SourceFailed(f"{host} has another file: {length} bytes, not {total - begin}.")
            skip = start - begin
            for chunk in response.iter_raw():
                wanted = chunk[skip:]
                skip = max(0, skip - len(chunk))
                if wanted:
                    yield wanted
    except httpx.HTTPStatusError as error:
        raise SourceFailed(f"{host} answers {error.response.status_code}.") from error
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise SourceFailed(f"{host} cannot be reached, or broke off: {reason}.") from error
    except (ValueError, ImportError, httpx.InvalidURL) as error:  # a proxy of another kind than httpx knows
        raise SourceFailed(f"{host} cannot be asked through the proxy that is set: {error}.") from error
