"""Finds what looks like a secret that nobody told us of: keys, private keys, tokens, card numbers.

It only points: nothing is changed. Every pattern is anchored to letters that its kind begins with, begins
where no longer word goes on, and repeats single characters only, so that a text is searched in linear time
whatever it holds. What is written like a secret and stands in documentation is left alone.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from libs.gateway.cards import KIND as CARD
from libs.gateway.cards import card_numbers

__all__ = ["RULES", "Suspect", "scan"]

_MOST = 20
"""Suspects of one text: more say no more."""
_FEWEST_DIFFERENT = 8
"""Characters that the secret part of a key has at least: `xxxx…` and `1111…` stand for one."""
_STANDS_FOR_ONE = re.compile(
    r"example|x{4}|\*{3}|0{6}|1{6}|12345678|abcdefgh|placeholder|redacted|changeme|dummy|sample|your[-_]?",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that looks like a secret."""

    kind: str
    """What it looks like, for people: `GitHub token`."""
    line: int
    """The line it begins in, from 1."""
    column: int
    """The character of that line, from 1."""
    sample: str
    """As much of it as tells it from others and gives nothing away."""


class Rule(NamedTuple):
    """How one kind is written."""

    kind: str
    anchors: tuple[str, ...]
    """Texts one of which is in every secret of this kind: without it the pattern is not tried."""
    starts: tuple[str, ...]
    """Texts with one of which every secret of this kind begins: tried there alone. Empty: everywhere."""
    pattern: re.Pattern[str]
    """Has a group `secret`, and before it a group `public`, which gives nothing away."""
    check: Callable[[re.Match[str]], bool] | None = None


def scan(text: str) -> list[Suspect]:
    """What looks like a secret in `text`, in its order, at most 20.

    Takes 30 to 80 ms for a megabyte, 2 ms for what is returned of a command, 10 µs for a line.
    """
    found: dict[int, tuple[str, str]] = {}
    for rule in RULES:
        if any(anchor in text for anchor in rule.anchors):
            for match in _candidates(rule, text):
                if _is_one(rule, match):
                    found.setdefault(match.start(), (rule.kind, _sample(match)))
    for start, sample in card_numbers(text):
        found.setdefault(start, (CARD, sample))
    return [Suspect(kind, *_place(text, at), sample) for at, (kind, sample) in sorted(found.items())[:_MOST]]


def _candidates(rule: Rule, text: str) -> Iterator[re.Match[str]]:
    """Where the pattern fits. To look for a text is ten times as fast as to try a pattern everywhere."""
    if not rule.starts:
        yield from rule.pattern.finditer(text)
    for start in rule.starts:
        at = text.find(start)
        while at >= 0:
            if match := rule.pattern.match(text, at):
                yield match
            at = text.find(start, at + 1)


def _is_one(rule: Rule, match: re.Match[str]) -> bool:
    if rule.check is not None:
        return rule.check(match)
    secret = match["secret"]
    return len(set(secret)) >= _FEWEST_DIFFERENT and not _STANDS_FOR_ONE.search(secret)


def _sample(match: re.Match[str]) -> str:
    """What the kind begins with, and how long the rest is."""
    return f"{match['public']}… ({len(match[0])} characters)"


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _rule(
    kind: str,
    anchors: str,
    pattern: str,
    check: Callable[[re.Match[str]], bool] | None = None,
    *,
    starts: str | None = None,
) -> Rule:
    begins = anchors if starts is None else starts
    return Rule(kind, tuple(anchors.split()), tuple(begins.split()), re.compile(_START + pattern), check)


# No part of a longer word, of base64 or of a path; `KEY=` and `https://` may come before. What may follow
# is for each pattern to say.
_START = r"(?<![A-Za-z0-9_+.-])(?<![^/]/)"
_END = r"(?![A-Za-z0-9_])"


def _is_private_key(match: re.Match[str]) -> bool:
    """Whether a key follows its first line: documentation leaves it out."""
    after = match.string[match.end() : match.end() + 400].replace("\\n", "\n").replace("\\r", "")
    lines = [line.strip(" \t\r\"',+\\") for line in after.split("\n")[1:6]]
    body = "".join(line for line in lines if _BASE64_LINE.fullmatch(line))
    return len(body) >= _SHORTEST_KEY and len(set(body)) >= 2 * _FEWEST_DIFFERENT


_SHORTEST_KEY = 60
"""Characters of base64 that the shortest private key has in its file, less a few: Ed25519."""
_BASE64_LINE = re.compile(r"[A-Za-z0-9+/]{16,80}={0,2}")

_JWT_OF_DOCUMENTATION = "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
"""The signature of the one token that every introduction shows."""


def _is_token(match: re.Match[str]) -> bool:
    """Whether the first part is a JOSE header: a JSON object that names an algorithm (RFC 7515, 4.1.1)."""
    part = match[0].partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return False
    named = isinstance(header, dict) and isinstance(header.get("alg"), str)
    return named and not match[0].endswith(_JWT_OF_DOCUMENTATION)


RULES: tuple[Rule, ...] = (
    _rule("AWS access key", "AKIA ASIA", rf"(?P<public>A[KS]IA)(?P<secret>[A-Z2-7]{{16}}){_END}"),
    Rule(
        "AWS secret key",
        ("ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey"),
        (),
        re.compile(
            r"(?<![A-Za-z0-9])(?P<public>(?:aws_)?secret_?access_?key)[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?"
            r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
            re.IGNORECASE,
        ),
    ),
    _rule(
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        rf"(?P<public>gh[pousr]_)(?P<secret>[A-Za-z0-9]{{36}}){_END}",
    ),
    _rule(
        "GitHub token",
        "github_pat_",
        rf"(?P<public>github_pat_)(?P<secret>[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}){_END}",
    ),
    _rule("GitLab token", "glpat-", r"(?P<public>glpat-)(?P<secret>[A-Za-z0-9_-]{20,64})(?![A-Za-z0-9_-])"),
    _rule(
        "Slack token",
        "xoxb- xoxp- xoxa- xoxs- xoxe- xapp-",
        r"(?P<public>xox[abeps]-|xapp-)(?P<secret>[0-9]{1,13}-[A-Za-z0-9-]{20,250})(?![A-Za-z0-9-])",
    ),
    Rule(
        "Slack webhook",
        ("hooks.slack.com/services/",),
        ("hooks.slack.com/services/",),
        re.compile(
            r"(?<![A-Za-z0-9_.-])(?P<public>hooks\.slack\.com/services/)"
            rf"(?P<secret>T[A-Z0-9]{{8,12}}/B[A-Z0-9]{{8,12}}/[A-Za-z0-9]{{24}}){_END}"
        ),
    ),
    _rule(
        "Stripe key", "sk_live_ rk_live_", rf"(?P<public>[rs]k_live_)(?P<secret>[A-Za-z0-9]{{20,250}}){_END}"
    ),
    _rule("Stripe webhook secret", "whsec_", rf"(?P<public>whsec_)(?P<secret>[A-Za-z0-9]{{32,64}}){_END}"),
    _rule(
        "OpenAI key",
        "T3BlbkFJ",
        r"(?P<public>sk-)(?P<secret>[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100})(?![A-Za-z0-9_-])",
        starts="sk-",
    ),
    _rule(
        "Anthropic key",
        "sk-ant-",
        r"(?P<public>sk-ant-)(?P<secret>[a-z]{3,8}[0-9]{2}-[A-Za-z0-9_-]{60,140})(?![A-Za-z0-9_-])",
    ),
    _rule("Google API key", "AIza", r"(?P<public>AIza)(?P<secret>[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
    _rule(
        "Google client secret",
        "GOCSPX-",
        r"(?P<public>GOCSPX-)(?P<secret>[A-Za-z0-9_-]{28})(?![A-Za-z0-9_-])",
    ),
    _rule(
        "Google access token",
        "ya29.",
        r"(?P<public>ya29\.)(?P<secret>[A-Za-z0-9_-]{50,500})(?![A-Za-z0-9_-])",
    ),
    _rule("Hugging Face token", "hf_", rf"(?P<public>hf_)(?P<secret>[A-Za-z]{{34}}){_END}"),
    _rule("npm token", "npm_", rf"(?P<public>npm_)(?P<secret>[A-Za-z0-9]{{36}}){_END}"),
    _rule(
        "PyPI token", "pypi-AgE", r"(?P<public>pypi-)(?P<secret>AgE[A-Za-z0-9_-]{50,500})(?![A-Za-z0-9_-])"
    ),
    _rule(
        "SendGrid key",
        "SG.",
        r"(?P<public>SG\.)(?P<secret>[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])",
    ),
    _rule(
        "DigitalOcean token", "dop_v1_ doo_v1_", rf"(?P<public>do[op]_v1_)(?P<secret>[a-f0-9]{{64}}){_END}"
    ),
    _rule("Groq key", "gsk_", rf"(?P<public>gsk_)(?P<secret>[A-Za-z0-9]{{52}}){_END}"),
    _rule("xAI key", "xai-", rf"(?P<public>xai-)(?P<secret>[A-Za-z0-9]{{80}}){_END}"),
    _rule("Perplexity key", "pplx-", rf"(?P<public>pplx-)(?P<secret>[A-Za-z0-9]{{48}}){_END}"),
    _rule(
        "Docker token", "dckr_pat_", r"(?P<public>dckr_pat_)(?P<secret>[A-Za-z0-9_-]{27})(?![A-Za-z0-9_-])"
    ),
    _rule(
        "Telegram bot token",
        ":AA",
        r"(?P<public>[0-9]{8,10}:)(?P<secret>AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])",
        starts="",
    ),
    _rule(
        "age secret key",
        "AGE-SECRET-KEY-1",
        rf"(?P<public>AGE-SECRET-KEY-1)(?P<secret>[02-9AC-HJ-NP-Z]{{58}}){_END}",
    ),
    Rule(
        "private key",
        ("PRIVATE KEY",),
        ("-----BEGIN ",),
        re.compile(r"(?P<public>-----BEGIN [A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?-----)"),
        _is_private_key,
    ),
    _rule(
        "JSON Web Token",
        "eyJ",
        r"(?P<public>eyJ)(?P<secret>[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{0,8000}\.[A-Za-z0-9_-]{16,8000})"
        r"(?:\.[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{16,64})?(?![A-Za-z0-9_-])",
        _is_token,
    ),
)
"""Every kind but card numbers."""
