"""Adds credentials to requests on the host, so that the sandbox contains only placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from libs.gateway.gateway_errors import printable
from libs.redaction import Redact, unfit

if TYPE_CHECKING:
    from libs.gateway.gateway_protocol import Headers
    from libs.gateway.redacted_answer import AnswerFilter

__all__ = [
    "CredentialRule",
    "Credentials",
    "is_placeholder",
    "missing",
    "parse_credentials",
    "placeholder",
]

_PLACEHOLDER = "placeholder_stands_for_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LOUD = re.compile(r"[A-Z_][A-Z0-9_]*")
"""A certain variable name. Other text may be a misplaced secret and is not repeated in messages."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")  # RFC 9110, 5.6.2
_FRAMING = re.compile(
    "accept-encoding|connection|content-(?:encoding|length|type)|expect|host|http2-settings|if-range|keep-alive|"
    "proxy-.*|range|te|trailer|transfer-encoding|upgrade|via"
)
"""Headers about the framing of a message or about one connection. They cannot hold a credential."""
_UNASKED = frozenset({b"accept-encoding", b"range", b"if-range"})
"""Headers that would make the answer unsearchable: codings, and ranges that may begin inside a secret."""


@dataclass(frozen=True, slots=True)
class CredentialRule:
    """One entry of EGRESS_CREDENTIALS. Contains the name of the secret, not the secret."""

    host: str
    """In the normal form of `libs.gateway.rules.normal_host`."""
    header: str
    secret: str
    """The variable on the host that contains the secret."""
    format: str = "{}"
    """The value of the header; `{}` stands for the secret."""


def placeholder(name: str) -> str:
    """Return the value of the variable `name` in the sandbox: always the same for a name, over 20 characters.

    Contains only letters, digits and underscores, so URLs, JSON and headers do not escape the value.
    """
    return _PLACEHOLDER + name


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder."""
    return value.startswith(_PLACEHOLDER)


def parse_credentials(text: str) -> tuple[CredentialRule, ...]:
    """Read EGRESS_CREDENTIALS: `{"<host>": {"header": …, "secret": <variable>, "format": "Bearer {}"}}`.

    `format` defaults to `Bearer {}` for Authorization, else to `{}`.

    Raises:
        ValueError: the text is invalid. The message repeats nothing that may be a misplaced secret.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = f", see character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"must be JSON such as {_EXAMPLE}{at}") from None
    rules: dict[str, CredentialRule] = {}
    for name, entry in _object(entries, f"must be a JSON object such as {_EXAMPLE}"):
        rule = _rule(name, entry)
        if rules.setdefault(rule.host, rule) is not rule:
            raise ValueError(f"{rule.host} is there twice: a host has one credential")
    return tuple(rules.values())


_ENTRY = '{"header": "Authorization", "secret": "GITHUB_TOKEN"}'
_EXAMPLE = f'{{"api.github.com": {_ENTRY}}}'
_KEYS = ("header", "secret", "format")


def _object(value: object, otherwise: str) -> Iterable[tuple[str, object]]:
    """Return the members of a JSON object. Raises ValueError(`otherwise`)."""
    if isinstance(value, dict):
        return value.items()
    raise ValueError(otherwise)


def _rule(name: str, entry: object) -> CredentialRule:
    host = _host(name)
    values: dict[str, str] = {}
    for key, value in _object(entry, f"{host} must have an object, such as {_ENTRY}"):
        if key not in _KEYS:
            raise ValueError(f"{host} has a name that is not one of {', '.join(_KEYS)}")
        values[key] = value if isinstance(value, str) else ""
    for key in ("header", "secret"):
        if not values.get(key):
            raise ValueError(f"{host} has no {key}, or one that is not text")
    header, secret = values["header"], values["secret"]
    if not _TOKEN.fullmatch(header):
        raise ValueError(f"header of {host} must be the name of a header, such as Authorization")
    if _FRAMING.fullmatch(header.lower()):
        raise ValueError(f"header of {host}: {header} says how a message is sent, and can hold no secret")
    if not _VARIABLE.fullmatch(secret):
        raise ValueError(f"secret of {host} must be the name of a variable, such as GITHUB_TOKEN")
    form = values.get("format", "Bearer {}" if header.lower() == "authorization" else "{}")
    if form.count("{}") != 1 or not (form.isascii() and form.isprintable()) or form != form.strip():
        raise ValueError(f'format of {host} must hold {{}} once, for the secret, such as "token {{}}"')
    return CredentialRule(host, header, secret, form)


def _host(name: str) -> str:
    from libs.gateway.rules import Rule

    if "*" in name:
        raise ValueError(f"{printable(name)} must be one host: a secret goes to no host that is not named")
    try:
        rule = Rule.parse(f"https://{name}")
    except ValueError as error:
        raise ValueError(f"must name hosts, such as api.github.com: {error}") from None
    if rule.ends != {("https", 443)}:
        raise ValueError(f"{printable(name)} must be a host without a port: EGRESS_ALLOW says which ports")
    return rule.host


class Credentials:
    """The credential header of each host. Immutable; `repr` shows no secret."""

    def __init__(self, rules: Iterable[CredentialRule], secrets: Mapping[str, str], redact: Redact) -> None:
        """Look up the secret of each rule; `redact` removes the secrets from answers of the hosts.

        Raises:
            ValueError: a secret is missing, unusable, or unknown to `redact`; says what to do.
        """
        self.redact = redact
        self._headers: dict[str, tuple[bytes, bytes]] = {}
        for rule in rules:
            value = secrets.get(rule.secret, "").strip()
            if why := missing(rule, value):
                raise ValueError(why)
            if redact(value) == value:
                raise ValueError(f"{rule.secret} would not be taken out of what {rule.host} answers")
            self._headers[rule.host] = rule.header.encode(), rule.format.replace("{}", value).encode()

    def __contains__(self, host: str) -> bool:
        return host in self._headers

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts whose TLS the gateway terminates."""
        return frozenset(self._headers)

    def sent(self, host: str, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Return the headers of a request to `host` with its credential.

        The credential replaces a header of the same name. Ranges and codings are not requested, because the
        answer is searched for secrets. Other headers are unchanged, placeholders in them too. The caller
        has already dropped connection headers, so `Connection: authorization` cannot remove the credential.

        Raises:
            KeyError: the host has no credential.
        """
        name, value = self._headers[host]
        dropped = _UNASKED | {name.lower()}
        kept = [header for header in headers if header[0].lower() not in dropped]
        return [*kept, (b"Accept-Encoding", b"identity"), (name, value)]

    def answer_filter(self, host: str, method: bytes) -> AnswerFilter:
        """Return the filter that removes secrets from the answer to a request."""
        from libs.gateway.redacted_answer import AnswerFilter

        return AnswerFilter(host, self.redact, method)


def missing(rule: CredentialRule, value: str | None) -> str | None:
    """Return why `value` cannot be the secret of a rule, and what to do; None if it can."""
    named = rule.secret if _LOUD.fullmatch(rule.secret) else "a variable"
    before = f"EGRESS_CREDENTIALS names {named} for {rule.host}, and"
    if not value:
        return f"{before} it is not set: set it in the environment or in .env, or take the host out"
    why = unfit(value.strip())
    if not (value.isascii() and value.isprintable()):
        why = "it holds characters that cannot stand in a header"
    elif is_placeholder(value):
        why = "it is itself a placeholder"
    if why:
        return f"{before} its value cannot be used: {why}. Give it another value, or take the host out"
    return None
