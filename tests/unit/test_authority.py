"""The authority of a sandbox: who trusts it trusts it for the hosts it was made for, and no others."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from libs.gateway.authority import Authority

HOST = "api.example.test"


def connect(server: ssl.SSLContext, authority: Authority, host: str, *alpn: str) -> ssl.SSLSocket:
    """A TLS connection over loopback, now closed, of a client that trusts this authority alone, strictly."""
    client = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.set_alpn_protocols(list(alpn) or ["http/1.1"])

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(10)
            try:
                with server.wrap_socket(connection, server_side=True) as wrapped:
                    wrapped.sendall(b"hello")
            except (ssl.SSLError, OSError):
                pass  # what went wrong is seen from the client's side

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=10) as plain,
                client.wrap_socket(plain, server_hostname=host) as wrapped,
            ):
                assert wrapped.recv(5) == b"hello"
                wrapped.read_alpn = wrapped.selected_alpn_protocol()  # type: ignore[attr-defined]
                wrapped.read_version = wrapped.version()  # type: ignore[attr-defined]
                return wrapped
        finally:
            thread.join()


def forged(authority: Authority, host: str) -> ssl.SSLContext:
    """What somebody who has the authority's key could make: a certificate for a host that it is not for."""
    try:
        authority._hosts[host] = x509.IPAddress(ip_address(host))
    except ValueError:
        authority._hosts[host] = x509.DNSName(host)
    return authority.context_for(host)


@pytest.mark.parametrize(
    "host", [HOST, "127.0.0.1", "::1", "under_score.example.test", "xn--bcher-kva.example"]
)
def test_a_client_that_trusts_it_alone_and_strictly(host: str) -> None:
    authority = Authority([HOST, host])
    connected = connect(authority.context_for(host), authority, host)
    assert connected.read_version in {"TLSv1.2", "TLSv1.3"}  # type: ignore[attr-defined]


def test_only_http_1_is_spoken() -> None:
    authority = Authority([HOST])
    connected = connect(authority.context_for(HOST), authority, HOST, "h2", "http/1.1")
    assert connected.read_alpn == "http/1.1"  # type: ignore[attr-defined]
    assert authority.context_for(HOST).minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_host_has_one_certificate_of_its_own() -> None:
    authority = Authority([HOST, "b.example.test"])
    assert authority.context_for(HOST) is authority.context_for(HOST)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connect(authority.context_for("b.example.test"), authority, HOST)


@pytest.mark.parametrize("host", ["other.example.test", "example.test", f"x.{HOST}", "", "127.0.0.1"])
def test_a_host_without_a_credential_gets_none(host: str) -> None:
    with pytest.raises(ValueError, match="has no credential"):
        Authority([HOST]).context_for(host)


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        ([HOST], "other.example.test"),
        ([HOST], "example.test"),
        ([HOST], "notapi.example.test"),
        ([HOST], "127.0.0.1"),
        ([HOST], "::1"),
        (["10.1.2.3"], HOST),
        (["10.1.2.3"], "10.1.2.4"),
        (["10.1.2.3"], "::1"),
        (["fd00::1"], "10.1.2.3"),
        ([], HOST),
    ],
)
def test_what_it_signs_for_another_host_is_refused(hosts: list[str], host: str) -> None:
    authority = Authority(hosts)
    with pytest.raises(ssl.SSLCertVerificationError, match="subtree violation"):
        connect(forged(authority, host), authority, host)


def test_another_sandbox_does_not_trust_it() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        connect(Authority([HOST]).context_for(HOST), Authority([HOST]), HOST)


@pytest.mark.parametrize(
    ("days", "message"), [(-31, "certificate has expired"), (2, "certificate is not yet valid")]
)
def test_its_time_is_limited(days: int, message: str) -> None:
    authority = Authority([HOST], now=datetime.now(UTC) + timedelta(days=days))
    with pytest.raises(ssl.SSLCertVerificationError, match=message):
        connect(authority.context_for(HOST), authority, HOST)


@pytest.mark.parametrize("days", [-29, 0.9])
def test_slow_clocks_and_long_runs_are_within_it(days: float) -> None:
    authority = Authority([HOST], now=datetime.now(UTC) + timedelta(days=days))
    connect(authority.context_for(HOST), authority, HOST)


def test_it_signs_no_authority_below_itself() -> None:
    certificate = x509.load_pem_x509_certificate(Authority([HOST]).certificate_pem)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.path_length, constraints.critical) == (0, True)
    assert certificate.extensions.get_extension_for_class(x509.NameConstraints).critical


def test_no_key_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    authority = Authority([HOST])
    authority.context_for(HOST)
    assert list(tmp_path.iterdir()) == []
    assert b"PRIVATE" not in authority.certificate_pem
