"""Reads AUTH_TOKENS and checks tokens. Only the SHA-256 of a token is kept.

A token is 32 random bytes, so nobody can guess a token from its hash. Neither salt nor slow hash is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

from agent.settings.setting_types import comma_list

__all__ = ["Token", "TokenRefused", "Tokens", "new_token", "owner_by_token"]

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The owner is also a label in LangGraph's store, where `.` separates labels and `langgraph` is reserved."""


class TokenRefused(Exception):
    """The token is missing, unknown or expired; the message says which, for the client."""


@dataclass(frozen=True)
class Token:
    """An entry of AUTH_TOKENS."""

    owner: str
    digest: str
    """SHA-256 of the token, 64 hexadecimal digits."""
    expires: date | None = None
    """The last valid day, in UTC."""

    def __post_init__(self) -> None:
        if not _OWNER.fullmatch(self.owner) or self.owner == "langgraph":
            raise ValueError(
                f"the owner {self.owner[:80]!r} must be 1 to 64 letters, digits, _ or -, and not `langgraph`"
            )

    def __str__(self) -> str:
        return ":".join([self.owner, self.digest, *([self.expires.isoformat()] if self.expires else [])])


def new_token(owner: str, expires: date | None = None) -> tuple[str, Token]:
    """Return a new token and its entry for AUTH_TOKENS.

    Raises:
        ValueError: the owner's name is not valid, or the day has passed.
    """
    if expires and expires < _today():
        raise ValueError(f"{expires} has passed")
    token = f"cea_{secrets.token_urlsafe(32)}"
    return token, Token(owner, _digest(token), expires)


def owner_by_token(tokens: Iterable[Token], given: str | None) -> str:
    """Return the owner of a token.

    Raises:
        TokenRefused: the token is missing, unknown or expired; the message says which and what to do.
    """
    if not given:
        raise TokenRefused("A token is needed, in the header `Authorization: Bearer …` or `X-Api-Key`.")
    digest = _digest(given)
    found = None
    for token in tokens:  # without break: the time must not show which entry matches
        if hmac.compare_digest(token.digest, digest):
            found = token
    if found is None:
        raise TokenRefused("This token is not known here.")
    if found.expires and found.expires < _today():
        raise TokenRefused(
            f"This token has expired: its last day was {found.expires} (UTC). "
            f"`code-agent token new {found.owner}` makes another."
        )
    return found.owner


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _today() -> date:
    return datetime.now(UTC).date()


def _read_all(value: object) -> object:
    listed = comma_list(value)
    if not isinstance(listed, list | tuple):
        return listed
    tokens = [item if isinstance(item, Token) else _read(str(item)) for item in listed]
    if len({token.digest for token in tokens}) < len(tokens):
        raise ValueError("the same token is listed twice: nobody could tell whose it is")
    return tuple(tokens)


def _read(entry: str) -> Token:
    """Parse an entry. Errors never show the entry, which may be a token by mistake."""
    owner, colon, rest = entry.partition(":")
    digest, _, day = rest.partition(":")
    if not colon or not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        raise ValueError(
            "each entry must be owner:sha256 or owner:sha256:expiry date, as `code-agent token new` prints it"
        )
    try:
        expires = date.fromisoformat(day) if day else None
    except ValueError:
        raise ValueError(f"the expiry date of {owner[:64]} must be written as 2030-12-31") from None
    return Token(owner, digest.lower(), expires)


Tokens = Annotated[tuple[Token, ...], NoDecode, BeforeValidator(_read_all)]
"""Read from `owner:sha256[:expiry date]`, comma-separated."""
