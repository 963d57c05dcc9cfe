"""The allow-list of hosts (EGRESS_ALLOW), name lookups, and the check of addresses.

In comes a host name with a port. Out comes a public address, or an error that names the reason.
"""

from __future__ import annotations

from libs.gateway.rules.addresses import Resolve, connect, lookup, resolve_public
from libs.gateway.rules.allow_list import (
    DEFAULT_PORTS,
    Rule,
    Rules,
    authority,
    in_url,
    is_address,
    no_host,
    normal_host,
    port_number,
    site_of,
)

__all__ = [
    "DEFAULT_PORTS",
    "Resolve",
    "Rule",
    "Rules",
    "authority",
    "connect",
    "in_url",
    "is_address",
    "lookup",
    "no_host",
    "normal_host",
    "port_number",
    "resolve_public",
    "site_of",
]
