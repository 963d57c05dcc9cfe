"""Finds what looks like a secret that nobody told us of, by the rules of `detect-secrets`.

It only points: nothing is changed, and nothing is sent anywhere to be verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from detect_secrets.plugins import (
    aws,
    azure_storage_key,
    basic_auth,
    discord,
    github_token,
    gitlab_token,
    jwt,
    mailchimp,
    npm,
    openai,
    private_key,
    pypi_token,
    sendgrid,
    slack,
    square_oauth,
    stripe,
    telegram_token,
    twilio,
)
from detect_secrets.plugins.base import BasePlugin

__all__ = ["Suspect", "find_suspects"]

_MOST = 20
"""Suspects of one text: more say no more."""
_PIECE, _OVERLAP = 1_000, 250
"""Characters that are searched at once. The time of some of the patterns grows with the square of a piece's
length, so a long line is searched in pieces that overlap."""

_TOKEN = re.compile(r"[\w./+=:-]+")
_SHORTEST_SAMPLED = 20


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that looks like a secret."""

    kind: str
    """What it looks like, for people: `GitHub Token`."""
    line: int
    """The line it begins in, from 1."""
    column: int
    """The character of that line, from 1."""
    sample: str
    """Its first 3 characters where it has 20 or more, and its length."""


def find_suspects(text: str) -> list[Suspect]:
    """Return what looks like a secret in `text`, in its order, at most 20.

    A secret of more than 250 characters in a line of more than 1,000 may be missed. Takes 5 to 20 ms for
    50,000 characters, 200 ms at worst.
    """
    found: dict[int, Suspect] = {}
    for start, piece in _pieces(text):
        for plugin in _plugins():
            for secret in plugin.analyze_string(piece):
                at = start + piece.find(secret)
                line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
                found.setdefault(at, Suspect(plugin.secret_type, line, column, _sample(text, at)))
        if len(found) >= _MOST:
            break
    return [suspect for _, suspect in sorted(found.items())[:_MOST]]


def _sample(text: str, at: int) -> str:
    # A plugin may report a part of what it found: the prefix of a token, say.
    match = _TOKEN.match(text, at)
    length = len(match[0]) if match else 0
    return f"{text[at : at + 3] if length >= _SHORTEST_SAMPLED else ''}… ({length} characters)"


@cache
def _plugins() -> tuple[BasePlugin, ...]:
    """The detectors of secrets with a form of their own.

    Left out are those that go by entropy, by the name beside a value or by numbers of the network: they
    report checksums, settings and ordinary logs.
    """
    return (
        aws.AWSKeyDetector(),
        azure_storage_key.AzureStorageKeyDetector(),
        basic_auth.BasicAuthDetector(),
        discord.DiscordBotTokenDetector(),
        github_token.GitHubTokenDetector(),
        gitlab_token.GitLabTokenDetector(),
        jwt.JwtTokenDetector(),
        mailchimp.MailchimpDetector(),
        npm.NpmDetector(),
        openai.OpenAIDetector(),
        private_key.PrivateKeyDetector(),
        pypi_token.PypiTokenDetector(),
        sendgrid.SendGridDetector(),
        slack.SlackDetector(),
        square_oauth.SquareOAuthDetector(),
        stripe.StripeDetector(),
        telegram_token.TelegramBotTokenDetector(),
        twilio.TwilioKeyDetector(),
    )


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield place and text of each piece: whole lines up to 1,000 characters, or a part of a longer line."""
    start = 0
    while start < len(text):
        end = min(start + _PIECE, len(text))
        line_end = text.rfind("\n", start, end) + 1
        if end == len(text) or line_end > start:
            end = line_end if line_end > start and end < len(text) else end
            yield start, text[start:end]
            start = end
        else:
            yield start, text[start:end]
            start = end - _OVERLAP
