"""The way out of this installation's sandboxes: where to, with which secrets, how much, and what is noted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import Settings
from agent.known_secrets import known_secrets, secret_filter
from libs.gateway.credentials import Credentials, placeholder
from libs.gateway.gateway import Gateway
from libs.gateway.limits import EgressLimits
from libs.gateway.packages.variables import package_variables
from libs.gateway.redaction import SecretFilter

# What only serves connections is imported when the first is made: a sandbox starts without it.
if TYPE_CHECKING:
    from libs.gateway.protocol import Service
    from libs.gateway.proxy import Proxy
    from libs.gateway.search import SearchService

__all__ = [
    "REQUESTS",
    "build_gateway",
    "build_proxy",
    "build_search",
    "credentials",
    "egress_limits",
    "placeholders",
]

REQUESTS = Path(".code-agent/egress.jsonl")
"""The log of what left and what was refused, below the working directory."""


def build_gateway(settings: Settings, services: Mapping[str, Service] = {}) -> Gateway:
    """The way out of all sandboxes. Opens nothing, and makes no file, before the first connection.

    Args:
        services: more virtual hosts, by name.
    """
    folder = Path.cwd()
    return Gateway(
        lambda: build_proxy(settings, folder / REQUESTS, services),
        limits=egress_limits(settings),
        credential_hosts=frozenset(rule.host for rule in settings.egress_credentials),
        variables={
            **package_variables(settings.egress_packages, allows_hosts=bool(settings.egress_allow)),
            **placeholders(settings),
        },
    )


def build_proxy(settings: Settings, log: Path = REQUESTS, services: Mapping[str, Service] = {}) -> Proxy:
    """What serves the connections of all sandboxes, and notes each in a file."""
    from libs.gateway.addresses import resolve_public
    from libs.gateway.packages.virtual_hosts import package_services
    from libs.gateway.proxy import Proxy
    from libs.gateway.request_log import RequestLog
    from libs.gateway.rules import Rules

    redact = secret_filter(settings)
    resolve = partial(resolve_public, private=settings.egress_private)
    packages = package_services(
        settings.egress_packages, resolve=resolve, writable=[settings.workspace_dir], redact=redact
    )
    return Proxy(
        rules=Rules.parse(settings.egress_allow),
        resolve=resolve,
        credentials=credentials(settings),
        services={"search.gateway": build_search(settings), **packages, **services},
        log=RequestLog(log.absolute(), redact=redact),
    )


def credentials(settings: Settings) -> Credentials | None:
    """Which hosts are shown a secret; None where there are none."""
    if not settings.egress_credentials:
        return None
    redact = secret_filter(settings) or SecretFilter({})
    return Credentials(settings.egress_credentials, known_secrets(settings), redact)


def placeholders(settings: Settings) -> dict[str, str]:
    """Variables that programs inside find, each with what stands for its secret."""
    return {rule.secret: placeholder(rule.secret) for rule in settings.egress_credentials}


def egress_limits(settings: Settings) -> EgressLimits:
    """What one sandbox may use of the network."""
    return EgressLimits(
        rate=settings.egress_rate, max_bytes=settings.egress_max_bytes, seconds=settings.egress_seconds
    )


def build_search(settings: Settings) -> SearchService:
    """Make what answers http://search.gateway/ inside. Needs no network until something is searched."""
    from libs.gateway.search import SearchService, search_provider

    key = settings.brave_api_key.get_secret_value() if settings.brave_api_key else None
    provider = search_provider(settings.search_provider, brave_api_key=key, searxng_url=settings.searxng_url)
    return SearchService(provider, settings.news_feeds, secret_filter(settings))
