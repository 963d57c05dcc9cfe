"""The certificate authority of a sandbox: it is trusted for its own hosts and no others."""

from __future__ import annotations

import ssl
import tempfile
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from libs.gateway.tls.authority import Authority

HOST = "api.example.test"


def connect(server: ssl.SSLContext, authority: Authority, host: str) -> ssl.SSLObject:
    """Do a TLS handshake with a client that trusts only this authority, with strict checks."""
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    trust.set_alpn_protocols(["h2", "http/1.1"])
    down, up = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(down, up, server_hostname=host)
    for end in (client, server.wrap_bio(up, down, server_side=True), client):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert client.version() == "TLSv1.3"
    assert client.selected_alpn_protocol() == "http/1.1"
    return client


def forged(authority: Authority, host: str) -> ssl.SSLContext:
    """Make a certificate for a foreign host, as an attacker with the authority's key could."""
    try:
        authority._hosts[host] = x509.IPAddress(ip_address(host))
    except ValueError:
        authority._hosts[host] = x509.DNSName(host)
    return authority.context_for(host)


@pytest.mark.parametrize("host", [HOST, "127.0.0.1", "::1", "under_score.example.test"])
def test_strict_client_accepts_its_certificates(host: str) -> None:
    authority = Authority([HOST, host])
    connect(authority.context_for(host), authority, host)


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        ([HOST], "notapi.example.test"),
        ([HOST], "127.0.0.1"),
        (["10.1.2.3"], HOST),
        (["10.1.2.3"], "10.1.2.4"),
        ([], HOST),
    ],
)
def test_certificate_for_another_host_is_refused(hosts: list[str], host: str) -> None:
    authority = Authority(hosts)
    with pytest.raises(ssl.SSLCertVerificationError, match="subtree violation"):
        connect(forged(authority, host), authority, host)


def test_another_sandbox_does_not_trust_it() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        connect(Authority([HOST]).context_for(HOST), Authority([HOST]), HOST)


@pytest.mark.parametrize(("days", "message"), [(-31, "certificate has expired"), (-29, None), (0.9, None)])
def test_period_of_validity(days: float, message: str | None) -> None:
    authority = Authority([HOST], now=datetime.now(UTC) + timedelta(days=days))
    refused = pytest.raises(ssl.SSLCertVerificationError, match=message) if message else nullcontext()
    with refused:
        connect(authority.context_for(HOST), authority, HOST)


def test_authority_cannot_make_another_authority() -> None:
    certificate = x509.load_pem_x509_certificate(Authority([HOST]).certificate_pem)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.path_length, constraints.critical) == (0, True)
    assert certificate.extensions.get_extension_for_class(x509.NameConstraints).critical


def test_no_key_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    authority = Authority([HOST])
    authority.context_for(HOST)
    assert list(tmp_path.iterdir()) == []
    assert b"PRIVATE" not in authority.certificate_pem
