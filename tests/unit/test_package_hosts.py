"""The virtual hosts for packages as the settings ask for them."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from libs.gateway.addresses import Address, resolve_public
from libs.gateway.errors import GatewayError
from libs.gateway.limits import ClientLimits
from libs.gateway.packages.variables import NPM_HOST, PIP_HOST, VARIABLES, package_variables
from libs.gateway.packages.virtual_hosts import package_services
from libs.gateway.protocol import Client, ServiceRequest


async def resolve(host: str, port: int) -> list[Address]:
    return await resolve_public(host, port, private=[ip_network("127.0.0.0/8")])


def request(path: str) -> ServiceRequest:
    return ServiceRequest(Client("sandbox", "", ClientLimits()), "GET", path, "", [], b"")


@pytest.mark.parametrize("on", [True, False])
def test_both_are_there_on_or_off(on: bool, tmp_path: Path) -> None:
    assert package_services(on, resolve=resolve, writable=[tmp_path]).keys() == {PIP_HOST, NPM_HOST}


@pytest.mark.parametrize("host", [PIP_HOST, NPM_HOST])
async def test_off_they_name_the_setting(host: str) -> None:
    service = package_services(False, resolve=resolve, writable=[])[host]
    with pytest.raises(GatewayError, match=rf"{host} is closed, EGRESS_PACKAGES is 0: ask the person to set"):
        await service(request("/thing"))


@pytest.mark.parametrize(("on", "allows_hosts"), [(True, True), (True, False), (False, False)])
def test_variables_lead_to_them(on: bool, allows_hosts: bool) -> None:
    assert package_variables(on, allows_hosts=allows_hosts) == VARIABLES


def test_off_no_variable_stands_in_the_way_of_an_index_that_is_allowed() -> None:
    assert package_variables(False, allows_hosts=True) == {}
