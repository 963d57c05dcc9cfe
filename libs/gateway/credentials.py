"""Secrets that are added to requests on the host, so that inside there is only a placeholder for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from libs.gateway.errors import shown

if TYPE_CHECKING:
    from libs.gateway.echo import Echo
    from libs.gateway.redaction import SecretFilter

__all__ = [
    "CredentialRule",
    "Credentials",
    "Headers",
    "is_placeholder",
    "missing",
    "parse_credentials",
    "placeholder",
]

Headers = Sequence[tuple[bytes, bytes]]
"""Names, in any case, and values, in the order in which they are sent."""

_PLACEHOLDER = "placeholder_stands_for_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LOUD = re.compile(r"[A-Z_][A-Z0-9_]*")
"""What can only be meant as a variable. Anything else may be a secret by mistake, and is not repeated."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")  # RFC 9110, 5.6.2
_FRAMING = re.compile(
    "accept-encoding|connection|content-(?:encoding|length|type)|expect|host|http2-settings|if-range|keep-alive|"
    "proxy-.*|range|te|trailer|transfer-encoding|upgrade|via"
)
"""Headers that say how a message is to be read, or belong to one connection: no place for a secret."""
_UNASKED = frozenset({b"accept-encoding", b"range", b"if-range"})
"""What makes an answer hard to search: codings, and parts that may begin within a secret."""


@dataclass(frozen=True, slots=True)
class CredentialRule:
    """One host of EGRESS_CREDENTIALS. Holds no secret, only the name of one."""

    host: str
    """In normal form, as `libs.gateway.rules` compares hosts."""
    header: str
    secret: str
    """The variable on the host that holds it."""
    format: str = "{}"
    """The value of the header, with `{}` where the secret goes."""


def placeholder(name: str) -> str:
    """What a variable holds inside in the secret's place: always the same for a name, over 20 characters.

    Letters, digits and underscores alone, so that it looks the same in a URL, in JSON and in a header.
    """
    return _PLACEHOLDER + name


def is_placeholder(value: str) -> bool:
    """Whether a value is what `placeholder` gives for some name."""
    return value.startswith(_PLACEHOLDER)


def _unusable(value: str) -> str | None:
    """Why a value cannot be a credential: it fits in no header, or could not be taken out of answers."""
    if not (value.isascii() and value.isprintable()):
        return "it holds characters that cannot stand in a header"
    if is_placeholder(value):
        return "it is itself a placeholder"

    # Whatever begins reads the settings, and imports this for them; most name no credential.
    from libs.gateway.redaction import unfit

    return unfit(value.strip())


def parse_credentials(text: str) -> tuple[CredentialRule, ...]:
    """Read EGRESS_CREDENTIALS: `{"<host>": {"header": …, "secret": <variable>, "format": "Bearer {}"}}`.

    `format` may be left out: it is `Bearer {}` for Authorization, else `{}`.

    Raises:
        ValueError: what is wrong, and where. Says nothing that may be a secret written in the wrong place.
    """
    try:
        entries = json.loads(text, object_pairs_hook=_Pairs)
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


class _Pairs(list[tuple[str, object]]):
    """An object of JSON, names that are there twice included."""


def _object(value: object, otherwise: str) -> _Pairs:
    """Raises ValueError with a message where a value is another."""
    if isinstance(value, _Pairs):
        return value
    raise ValueError(otherwise)


def _rule(name: str, entry: object) -> CredentialRule:
    host = _host(name)
    values: dict[str, str] = {}
    for key, value in _object(entry, f"{host} must have an object, such as {_ENTRY}"):
        if key not in _KEYS:
            raise ValueError(f"{host} has a name that is none of {', '.join(_KEYS)}")
        if key in values:
            raise ValueError(f"{host} has {key} twice")
        values[key] = value if isinstance(value, str) else ""
    for key in ("header", "secret"):
        if not values.get(key):
            raise ValueError(f"{host} has no {key}, or one that is no text")
    header, secret = values["header"], values["secret"]
    if not _TOKEN.fullmatch(header):
        raise ValueError(f"header of {host} must be the name of a header, such as Authorization")
    if _FRAMING.fullmatch(header.lower()):
        raise ValueError(f"header of {host}: {header} says how a message is sent, and can hold no secret")
    if not _VARIABLE.fullmatch(secret):
        raise ValueError(f"secret of {host} must be the name of a variable, such as GITHUB_TOKEN")
    return CredentialRule(host, header, secret, _format(host, header, values.get("format")))


def _format(host: str, header: str, given: str | None) -> str:
    if given is None:
        return "Bearer {}" if header.lower() == "authorization" else "{}"
    if given.count("{}") != 1 or not (given.isascii() and given.isprintable()) or given != given.strip():
        raise ValueError(f'format of {host} must hold {{}} once, for the secret, such as "token {{}}"')
    return given


def _host(name: str) -> str:
    from libs.gateway.rules import Rule

    if "*" in name:
        raise ValueError(f"{shown(name)} must be one host: a secret goes to no host that is not named")
    try:
        rule = Rule.parse(f"https://{name}")
    except ValueError as error:
        raise ValueError(f"must name hosts, such as api.github.com: {error}") from None
    if rule.ends != {("https", 443)}:
        raise ValueError(f"{shown(name)} must be a host without a port: EGRESS_ALLOW says which ports")
    return rule.host


class Credentials:
    """What is added to the requests for each host, https only. Immutable; no rendering shows a secret."""

    def __init__(
        self, rules: Iterable[CredentialRule], secrets: Mapping[str, str], redact: SecretFilter
    ) -> None:
        """Put the secrets of the rules at hand.

        Args:
            rules: one for each host.
            secrets: variable -> value.
            redact: takes these secrets, and maybe others, out of what the hosts answer.

        Raises:
            ValueError: a secret is missing, or is one that `redact` would let through; says which, and
                what to do.
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

    def __bool__(self) -> bool:
        return bool(self._headers)

    @property
    def hosts(self) -> frozenset[str]:
        """Those for which TLS is ended on the way."""
        return frozenset(self._headers)

    def sent(self, host: str, headers: Headers) -> list[tuple[bytes, bytes]]:
        """The headers of a request as they leave for `host`, which has a credential.

        Its header is what the rule says, once, whatever came from inside. Nothing is asked for that would
        make the answer hard to search: no coding but identity, no range. All else stays as it is, a
        placeholder too. To be called after the headers that belong to the connection were dropped:
        `Connection: authorization` must not take the credential away.

        Raises:
            KeyError: the host has none.
        """
        name, value = self._headers[host]
        dropped = _UNASKED | {name.lower()}
        kept = [header for header in headers if header[0].lower() not in dropped]
        return [*kept, (b"Accept-Encoding", b"identity"), (name, value)]

    def answer(self, host: str, method: bytes) -> Echo:
        """Takes the secrets out of what a host answers to a request."""
        from libs.gateway.echo import Echo

        return Echo(host, self.redact, method)


def missing(rule: CredentialRule, value: str | None) -> str | None:
    """Why a rule has no secret to add, and what to do; None where `value` will do."""
    named = rule.secret if _LOUD.fullmatch(rule.secret) else "a variable"
    if not value:
        return (
            f"EGRESS_CREDENTIALS names {named} for {rule.host}, and it is not set: "
            "set it in the environment or in .env, or take the host out"
        )
    if why := _unusable(value):
        return (
            f"EGRESS_CREDENTIALS names {named} for {rule.host}, and its value cannot be used: {why}. "
            "Give it another value, or take the host out"
        )
    return None
