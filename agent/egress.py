"""The way out of this installation's sandboxes: where to, with which secrets, how much, and what is noted."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from agent.config import Settings
from agent.known_secrets import known_secrets, secret_filter
from libs.gateway.addresses import resolve_public
from libs.gateway.credentials import Credentials, placeholder
from libs.gateway.limits import EgressLimits
from libs.gateway.proxy import Proxy
from libs.gateway.redaction import SecretFilter
from libs.gateway.request_log import RequestLog
from libs.gateway.rules import Rules

__all__ = ["REQUESTS", "build_proxy", "credentials", "egress_limits", "placeholders"]

REQUESTS = Path(".code-agent/egress.jsonl")
"""The log of what left and what was refused, below the working directory."""


def build_proxy(settings: Settings) -> Proxy:
    """What serves the connections of all sandboxes. Opens nothing, and makes no file, before the first."""
    return Proxy(
        rules=Rules.parse(settings.egress_allow),
        resolve=partial(resolve_public, private=settings.egress_private),
        credentials=credentials(settings),
        log=RequestLog(REQUESTS.absolute(), redact=secret_filter(settings)),
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
