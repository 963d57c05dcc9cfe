"""Settings of the network: allowed hosts, credentials, limits, web search."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agent.settings.setting_types import Feeds, SearchProvider, Url, comma_list, size
from libs.gateway import CredentialRule, missing, parse_credentials

__all__ = ["EgressSettings", "check_secrets"]

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
"""Entries as `libs.gateway.rules.allow_list.Rules` reads them."""
CredentialRules = Annotated[tuple[CredentialRule, ...], NoDecode, BeforeValidator(_credentials)]
"""Read from JSON, as `libs.gateway.credentials.parse_credentials` does."""
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)]


class EgressSettings(BaseSettings):
    """Part of `agent.settings.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    egress_allow: AllowList = ()
    """Hosts that programs in the sandbox may reach, comma-separated: `[scheme://]host[:port]`, such as \
`https://api.github.com`; `*.host` is every subdomain. Without scheme: https on 443 and http on 80. \
Unset: no host."""
    egress_packages: bool = Field("0", validate_default=True)
    """Whether packages may be installed in the sandbox, from the indexes of pip and npm on this machine."""
    egress_credentials: CredentialRules = ()
    """Secrets that the gateway adds to requests, as JSON: host, header, the variable that holds the secret. \
`{"api.github.com": {"header": "Authorization", "secret": "GITHUB_TOKEN"}}`. The host must be in \
EGRESS_ALLOW, too. In the sandbox the variable holds a placeholder."""
    egress_private: Networks = ()
    """Private networks that hosts of EGRESS_ALLOW may resolve to, comma-separated, such as `10.1.0.0/16`. \
Unset: hosts that resolve to a private address are refused."""
    egress_rate: int = Field(600, ge=1, le=1_000_000)
    """Requests that a sandbox may make in a minute."""
    egress_max_bytes: Annotated[int, size("1k", "1024t")] = Field("2g", validate_default=True)
    """Bytes that one connection out of the sandbox may carry, both directions together."""
    egress_seconds: float = Field(600, ge=1, le=604_800)
    """Seconds that one connection out of the sandbox may last."""

    search_provider: SearchProvider | None = None
    """Provider of web search: `brave`, `searxng`, or `fake:<file>`, which returns the results in a JSON \
file. Unset: no web search."""
    brave_api_key: SecretStr | None = None
    """Key for the Brave Search API. It enters the sandbox only where EXEC_PASS_KEYS or SANDBOX_ENV_ALLOW \
passes it."""
    searxng_url: Url | None = None
    """SearXNG instance with JSON output (search.formats in its settings), such as http://localhost:8888."""
    news_feeds: Feeds = ()
    """RSS or Atom feeds, comma-separated. `{topic}` in an address stands for the topic; without `{topic}`, \
the matching articles of the feed are taken. The hosts must be in EGRESS_ALLOW. Unset: news come from \
SEARCH_PROVIDER."""

    @model_validator(mode="after")
    def _credential_hosts_are_allowed(self) -> Self:
        """Check that EGRESS_ALLOW allows https, on any port, to every host with a credential."""
        if not self.egress_credentials:
            return self
        from libs.gateway.rules import Rule, Rules, in_url

        parsed = [Rule.parse(entry) for entry in self.egress_allow]
        rules, ports = Rules(parsed), {port for rule in parsed for _, port in rule.ends}
        for credential in self.egress_credentials:
            if all(rules.check("https", credential.host, port) for port in ports):
                raise ValueError(
                    f"EGRESS_CREDENTIALS names {credential.host}, which EGRESS_ALLOW does not let through: "
                    f"add https://{in_url(credential.host)} to EGRESS_ALLOW"
                )
        return self


def check_secrets(
    credentials: Sequence[CredentialRule], secret: Callable[[str], SecretStr | None]
) -> list[str]:
    """Return a line for each credential with a missing or unusable secret; `secret` looks up a variable."""
    found = ((rule, secret(rule.secret)) for rule in credentials)
    whys = (missing(rule, value.get_secret_value() if value else None) for rule, value in found)
    return [why for why in whys if why]
