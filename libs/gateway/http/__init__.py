"""HTTP in the gateway: reads request heads, forwards requests, and serves virtual hosts.

In comes the connection of a program with a request. The request goes to its host or to a virtual host.
"""

from __future__ import annotations

from libs.gateway.http.http_forward import forward, inside, outside, request_headers
from libs.gateway.http.policy import Policy, within
from libs.gateway.http.request_head import Target, absolute_target, connect_target, origin_target, read_head
from libs.gateway.http.virtual_host import require_http, serve_virtual

__all__ = [
    "Policy",
    "Target",
    "absolute_target",
    "connect_target",
    "forward",
    "inside",
    "origin_target",
    "outside",
    "read_head",
    "request_headers",
    "require_http",
    "serve_virtual",
    "within",
]
