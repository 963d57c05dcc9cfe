"""What stands in the place of the package indexes where EGRESS_PACKAGES is 0."""

from __future__ import annotations

from libs.gateway.errors import GatewayError
from libs.gateway.packages.pip_index import failed_page
from libs.gateway.packages.variables import PIP_HOST
from libs.gateway.protocol import ServiceRequest, ServiceResponse

__all__ = ["NoPackages"]


class NoPackages:
    """A `Service` that says which setting is missing."""

    def __init__(self, host: str) -> None:
        self._host = host

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        message = (
            f"{self._host} is closed, EGRESS_PACKAGES is 0: "
            "ask the person to set EGRESS_PACKAGES=1, or do without the package"
        )
        if self._host == PIP_HOST and request.path.startswith("/simple/"):
            return failed_page(message)
        raise GatewayError(403, message)
