"""The virtual hosts for packages with EGRESS_PACKAGES=0."""

from __future__ import annotations

from typing import cast

import pytest

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_protocol import Client, ServiceRequest
from libs.gateway.package_environment import NPM_HOST, VARIABLES, package_variables
from libs.gateway.packages import package_services
from libs.gateway.rules import resolve_public


async def test_closed_host_names_the_setting() -> None:
    service = package_services(False, resolve=resolve_public, writable=[])[NPM_HOST]
    with pytest.raises(GatewayError, match=r"closed, EGRESS_PACKAGES is 0: ask the person to set"):
        await service(ServiceRequest(cast("Client", None), "GET", "/thing", "", [], b""))


def test_variables_are_left_out_where_other_hosts_are_allowed() -> None:
    chosen = {(on, hosts): package_variables(on, allows_hosts=hosts) for on in (0, 1) for hosts in (0, 1)}
    assert chosen == {(0, 0): VARIABLES, (0, 1): {}, (1, 0): VARIABLES, (1, 1): VARIABLES}
