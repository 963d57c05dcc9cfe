"""The settings of what leaves the sandbox: where to, with which secrets, and who searches the web."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agent.setting_types import Feeds, SearchProvider, Url, comma_list, size
from libs.gateway.credentials import CredentialRule, missing, parse_credentials

__all__ = [
    "AllowList",
    "CredentialRules",
    "EgressSettings",
    "Network",
    "Networks",
    "check_hosts",
    "check_secrets",
]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _rules(entries: tuple[str, ...]) -> tuple[str, ...]:
    if entries:
        from libs.gateway.rules import Rules

        Rules.parse(entries)
    return entries


def _credentials(value: object) -> object:
    return parse_credentials(value) if isinstance(value, str) else value


def _networks(value: object) -> object:
    listed = comma_list(value)
    return [_network(item) for item in listed] if isinstance(listed, list | tuple) else listed


def _network(item: object) -> Network:
    try:
        network = ipaddress.ip_network(str(item), strict=False)
    except ValueError:
        raise ValueError(f"{item} must be a network such as 10.1.0.0/16, or an address") from None
    if str(item) not in {str(network), str(network.network_address)}:
        raise ValueError(f"{item} must be written as {network}")
    if network.prefixlen == 0:
        raise ValueError(f"{item} is every address: list your own networks")
    return network


AllowList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_list), AfterValidator(_rules)]
"""Entries as `libs.gateway.rules.Rules` reads them."""
CredentialRules = Annotated[tuple[CredentialRule, ...], NoDecode, BeforeValidator(_credentials)]
"""Read from JSON, as `libs.gateway.credentials.parse_credentials` does."""
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)]


class EgressSettings(BaseSettings):
    """Part of `agent.config.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    egress_allow: AllowList = ()
    """Hosts that programs in the sandbox may reach, comma-separated: `[scheme://]host[:port]`, such as \
`https://api.github.com`; `*.host` is every host below it. Without scheme: https on 443 and http on 80. \
Unset: none, the sandbox reaches nothing."""
    egress_packages: bool = Field("0", validate_default=True)
    """Whether packages may be installed in the sandbox, from the indexes that pip and npm are set to here."""
    egress_credentials: CredentialRules = ()
    """Secrets that are added to requests on their way out, as JSON: host, header, the variable that holds \
the secret. `{"api.github.com": {"header": "Authorization", "secret": "GITHUB_TOKEN"}}`; the host must be in \
EGRESS_ALLOW, too. In the sandbox the variable holds a placeholder."""
    egress_private: Networks = ()
    """Private networks that hosts of EGRESS_ALLOW may lead to, comma-separated, such as `10.1.0.0/16`. \
Unset: hosts that lead to a private address are refused."""
    egress_rate: int = Field(600, ge=1, le=1_000_000)
    """Requests a sandbox may make in a minute."""
    egress_max_bytes: Annotated[int, size("1k", "1024t")] = Field("2g", validate_default=True)
    """Bytes one connection out of the sandbox may carry, both ways together."""
    egress_seconds: float = Field(600, ge=1, le=604_800)
    """Seconds one connection out of the sandbox may last."""

    search_provider: SearchProvider | None = None
    """Who searches the web for the agent: `brave`, `searxng`, or `fake:<file>`, which plays the results in \
a JSON file. Unset: nobody."""
    brave_api_key: SecretStr | None = None
    """Key for the Brave Search API. It never enters the sandbox."""
    searxng_url: Url | None = None
    """SearXNG instance that gives JSON (search.formats in its settings), such as http://localhost:8888."""
    news_feeds: Feeds = ()
    """RSS or Atom feeds, comma-separated. In each, `{topic}` stands for what is asked for; of one without, \
the matching articles are taken. Their hosts must be in EGRESS_ALLOW. Unset: SEARCH_PROVIDER gives news."""

    @model_validator(mode="after")
    def _credentials_go_somewhere(self) -> Self:
        check_hosts(self.egress_allow, self.egress_credentials)
        return self


def check_hosts(allow: Sequence[str], credentials: Sequence[CredentialRule]) -> None:
    """Whether every host with a credential may be reached by https, on whatever port.

    Raises:
        ValueError: names those that may not, and what to add.
    """
    if not credentials:
        return
    from libs.gateway.rules import Rule, Rules, in_url

    parsed = [Rule.parse(entry) for entry in allow]
    rules, ports = Rules(parsed), {port for rule in parsed for _, port in rule.ends}
    for credential in credentials:
        if all(rules.check("https", credential.host, port) for port in ports):
            raise ValueError(
                f"EGRESS_CREDENTIALS names {credential.host}, which EGRESS_ALLOW does not let through: "
                f"add https://{in_url(credential.host)} to EGRESS_ALLOW"
            )


def check_secrets(
    credentials: Sequence[CredentialRule], secret: Callable[[str], SecretStr | None]
) -> list[str]:
    """One line for each credential whose secret is not there or cannot be used; `secret` looks one up."""
    found = ((rule, secret(rule.secret)) for rule in credentials)
    whys = (missing(rule, value.get_secret_value() if value else None) for rule, value in found)
    return [why for why in whys if why]
