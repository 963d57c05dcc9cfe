"""The gateway: the proxy on the host through which all network traffic of the sandboxes passes.

In come connections of programs in a sandbox. Requests to allowed hosts go out, with credentials that the
gateway adds. Each request is logged.
"""

from __future__ import annotations

from libs.gateway.credentials import (
    CredentialRule,
    Credentials,
    is_placeholder,
    missing,
    parse_credentials,
    placeholder,
)
from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_limits import EgressLimits
from libs.gateway.gateway_protocol import ProgramLeft, Service, ServiceRequest, ServiceResponse
from libs.gateway.package_environment import package_variables
from libs.gateway.request_log import RequestLog

__all__ = [
    "CredentialRule",
    "Credentials",
    "EgressLimits",
    "GatewayError",
    "ProgramLeft",
    "RequestLog",
    "Service",
    "ServiceRequest",
    "ServiceResponse",
    "is_placeholder",
    "missing",
    "package_variables",
    "parse_credentials",
    "placeholder",
]
