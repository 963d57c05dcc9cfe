"""Builds the egress gateway of the sandboxes: rules, credentials, limits, request log."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.secrets import known_secrets, secret_filter
from agent.settings import Settings
from libs.gateway import Credentials, EgressLimits, package_variables, placeholder
from libs.redaction import SecretFilter

# Modules of the gateway are imported when the first sandbox starts or connects, so imports stay short.
if TYPE_CHECKING:
    from libs.gateway import Service
    from libs.gateway.gateway_thread import Gateway
    from libs.gateway.proxy import Proxy
    from libs.gateway.search import SearchService
    from libs.sandbox.host import Door, Egress

__all__ = ["REQUESTS", "build_gateway", "build_search", "doors"]

REQUESTS = Path(".code-agent/egress.jsonl")
"""Log of allowed and refused requests, below the working directory."""


def doors(
    settings: Settings,
    services: Mapping[str, Service] = {},
    tools: Callable[[], Mapping[str, Service]] = dict,
) -> Egress:
    """Return a function that makes the gateway's handle (`Door`) for one sandbox.

    The first call makes the gateway.

    Args:
        services: additional virtual hosts, by name.
        tools: makes virtual hosts that are reached even while nothing is let out: see `server_services`.
    """
    lock = threading.Lock()
    made: list[Gateway] = []

    def door() -> Door:
        with lock:
            if not made:
                made.append(build_gateway(settings, services, tools))
                # Closing logs the requests that are open when this program ends.
                atexit.register(made[0].close)
        return made[0].door()

    return door


def build_gateway(
    settings: Settings,
    services: Mapping[str, Service] = {},
    tools: Callable[[], Mapping[str, Service]] = dict,
) -> Gateway:
    """Make the gateway of all sandboxes. Opens no socket and no file before the first connection."""
    from libs.gateway.gateway_thread import Gateway

    folder = Path.cwd()
    return Gateway(
        lambda: _proxy(settings, folder / REQUESTS, services, tools()),
        limits=EgressLimits(
            rate=settings.egress_rate, max_bytes=settings.egress_max_bytes, seconds=settings.egress_seconds
        ),
        credential_hosts=frozenset(rule.host for rule in settings.egress_credentials),
        variables={
            **package_variables(settings.egress_packages, allows_hosts=bool(settings.egress_allow)),
            **{rule.secret: placeholder(rule.secret) for rule in settings.egress_credentials},
        },
    )


def _proxy(
    settings: Settings, log: Path, services: Mapping[str, Service], tools: Mapping[str, Service]
) -> Proxy:
    """Make the proxy that serves the connections of all sandboxes and logs each request."""
    from libs.gateway import RequestLog
    from libs.gateway.packages import package_services
    from libs.gateway.proxy import Proxy
    from libs.gateway.rules import Rules, resolve_public

    redact = secret_filter(settings)
    resolve = partial(resolve_public, private=settings.egress_private)
    packages = package_services(
        settings.egress_packages, resolve=resolve, writable=[settings.workspace_dir], redact=redact
    )
    return Proxy(
        rules=Rules.parse(settings.egress_allow),
        resolve=resolve,
        credentials=(
            Credentials(settings.egress_credentials, known_secrets(settings), redact or SecretFilter({}))
            if settings.egress_credentials
            else None
        ),
        services={"search.gateway": build_search(settings), **packages, **tools, **services},
        never_refused=tools.keys(),
        log=RequestLog(log.absolute(), redact=redact),
    )


def build_search(settings: Settings) -> SearchService:
    """Make the service at http://search.gateway/. Needs no network before the first search."""
    from libs.gateway.search import SearchService, search_provider

    key = settings.brave_api_key.get_secret_value() if settings.brave_api_key else None
    provider = search_provider(settings.search_provider, brave_api_key=key, searxng_url=settings.searxng_url)
    return SearchService(provider, settings.news_feeds, secret_filter(settings))
