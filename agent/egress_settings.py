"""How the settings that begin with EGRESS_ are read, and whether they go together."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_settings import NoDecode

from agent.setting_types import comma_list
from libs.gateway.credentials import CredentialRule, missing, parse_credentials

__all__ = ["AllowList", "CredentialRules", "Network", "Networks", "check_hosts", "check_secrets"]

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
