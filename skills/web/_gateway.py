"""Requests to the gateway itself: the virtual host search.gateway, which only its proxy knows."""

from __future__ import annotations

import sys
from typing import Any

import requests

from skills.web._fetch import why

__all__ = ["ask"]

URL = "http://search.gateway"
_WAIT = (10, 40)  # the provider has 15 seconds, and is asked twice at most


def ask(path: str, **parameters: str | int) -> dict[str, Any]:
    """Return the JSON object of http://search.gateway/<path>.

    Raises:
        ValueError: the request is not allowed.
        ConnectionError: there is no answer, or the answer is an error.
    """
    try:
        response = requests.get(f"{URL}/{path}", params=parameters, timeout=_WAIT)
    except requests.RequestException as error:
        raise ConnectionError(f"search: {why(error)}") from None
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConnectionError(f"search: {response.status_code} {response.reason}")
    if response.status_code == requests.codes.bad_request:
        raise ValueError(found.get("error"))
    if not response.ok:
        raise ConnectionError(found.get("error"))
    if found.get("provider") == "fake":
        print("search: SEARCH_PROVIDER=fake, so these results are not from the web", file=sys.stderr)
    return found
