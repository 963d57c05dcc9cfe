"""Finds text that looks like an unknown secret, with rules of `detect-secrets`.

Only the library's regular expressions (`denylist`) and checks of a match (`analyze_string`) are used. Its
scan functions keep settings in a global cache, and can ask a service whether a secret is valid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector

__all__ = ["DETECTORS", "Suspect", "find_unknown_secrets"]

# The library's detectors for secrets of a fixed form. Left out are those that flag ordinary output:
# - high entropy: hashes, UUIDs, base64; keyword: `password = x` in a log; public IP address: any address.
# - IBM Cloud, IBM COS, SoftLayer, Cloudant: any variable whose name ends in `key` or `token`. A long run of
#   blanks takes them cubic time, too.
# - Artifactory: words in capitals that begin with AP and one of A to F.
# - URL with a password: in 200 MB of documentation and source, five times as often as all others together,
#   and nearly always an example such as `postgres:postgres@`.
# - Twilio: identifiers of accounts and keys, which are not secrets.
DETECTORS: tuple[RegexBasedDetector, ...] = (
    AWSKeyDetector(),
    AzureStorageKeyDetector(),
    DiscordBotTokenDetector(),
    GitHubTokenDetector(),
    GitLabTokenDetector(),
    JwtTokenDetector(),
    MailchimpDetector(),
    NpmDetector(),
    OpenAIDetector(),
    PrivateKeyDetector(),
    PypiTokenDetector(),
    SendGridDetector(),
    SlackDetector(),
    SquareOAuthDetector(),
    StripeDetector(),
    TelegramBotTokenDetector(),
)
# Keys of these two have a fixed length. Without a check of the characters beside the match, the AWS rule
# matches within base64 text, and the Telegram rule matches a time stamp before a hash.
_WHOLE_WORDS = (AWSKeyDetector, TelegramBotTokenDetector)
# Some rules take quadratic time, so they run on overlapping windows: length and step, in characters. Header
# and payload of a JSON Web Token are long; every other rule needs less than 200 characters.
_WINDOW = (400, 200)
_WINDOW_OF_JWT = (4_000, 2_000)
_FEWEST_DIFFERENT = 8
"""Different characters in a secret. DNA sequences and placeholders such as `ghp_xxxxxxxx` have fewer."""
_MOST = 20
"""Suspects that are returned of one text."""
_SAMPLE = re.compile(r"[A-Za-z0-9./:_-]{0,4}")


@dataclass(frozen=True, slots=True)
class Suspect:
    """Text that looks like a secret."""

    kind: str
    """The library's name of the kind: `GitHub Token`."""
    line: int
    """The line it begins in, from 1."""
    column: int
    """The character of that line that it begins with, from 1."""
    sample: str
    """The first four characters at most, and the number of characters that the rule matched."""


def find_unknown_secrets(text: str) -> list[Suspect]:
    """Return what looks like a secret in `text`, in the order of the text, at most 20.

    Never asks a service about a secret. A rule sees at least 200 characters from the beginning of a secret,
    and 2,000 of a JSON Web Token. A rule that needs more of a secret may miss it.

    The time grows linearly with the length of the text: about 40 ms for 200,000 characters of CSV, JSON or
    base64, and about a second for characters that were made to slow the rules down. Call the function in a
    thread, not on an event loop.
    """
    found: dict[int, tuple[str, str]] = {}
    for detector in DETECTORS:
        window, step = _WINDOW_OF_JWT if isinstance(detector, JwtTokenDetector) else _WINDOW
        for rule in detector.denylist:
            for start in range(0, len(text), step):
                for match in rule.finditer(text, start, start + window):
                    # A match that begins later is found whole in the next window.
                    if match.start() < start + step and _is_suspect(detector, match):
                        found.setdefault(match.start(), (detector.secret_type, _sample(match[0])))
    return [Suspect(kind, *_place(text, at), sample) for at, (kind, sample) in sorted(found.items())[:_MOST]]


def _is_suspect(detector: RegexBasedDetector, match: re.Match[str]) -> bool:
    if len(set(match[0])) < _FEWEST_DIFFERENT:
        return False
    if isinstance(detector, _WHOLE_WORDS):
        text, start, end = match.string, *match.span()
        if text[start - 1 : start].isalnum() or text[end : end + 1].isalnum():
            return False
    try:
        return next(detector.analyze_string(match[0]), None) is not None
    except RecursionError:  # the JSON of what looks like a token is nested too deeply
        return False


def _sample(secret: str) -> str:
    begin = _SAMPLE.match(secret)
    return f"{begin[0] if begin else ''}… ({len(secret)} characters)"


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
