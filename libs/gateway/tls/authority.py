"""Makes certificates with which the gateway terminates TLS for hosts that have a credential."""

from __future__ import annotations

import ipaddress
import secrets
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority"]

_BEFORE = timedelta(days=1)
"""Tolerance for slow clocks."""
_AFTER = timedelta(days=30)
_EVERY_ADDRESS = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class Authority:
    """The certificate authority of one sandbox, for a few hosts.

    The key stays in the memory of this process. Name constraints (RFC 5280, 4.2.1.10) limit the authority to
    the hosts and names below them. Certificates are valid from one day ago until 30 days from now. Belongs
    to one event loop.
    """

    def __init__(self, hosts: Iterable[str], *, now: datetime | None = None) -> None:
        """Make the authority for `hosts` (DNS names or addresses); `now`: replaces the present."""
        self._hosts = {host: _name(host) for host in sorted(hosts)}
        self._now = now or datetime.now(UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._certificate = self._signed(
            "Authority of the gateway of a sandbox",
            self._key.public_key(),
            [
                (x509.BasicConstraints(ca=True, path_length=0), True),
                (_key_usage(certificates=True), True),
                (_constraints(self._hosts.values()), True),
            ],
        )
        self.certificate_pem = self._certificate.public_bytes(serialization.Encoding.PEM)
        """The certificate that the sandbox trusts."""

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the server context of `host`: TLS 1.2 or later, HTTP/1.1 only.

        Raises:
            ValueError: the authority was not made for this host.
        """
        if host not in self._hosts:
            raise ValueError(f"{host} has no credential: its TLS is not ended here")
        if host not in self._contexts:
            self._contexts[host] = self._made(host)
        return self._contexts[host]

    def _made(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(
            "Gateway of a sandbox",
            key.public_key(),
            [
                (x509.BasicConstraints(ca=False, path_length=None), True),
                (_key_usage(certificates=False), True),
                (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
                (x509.SubjectAlternativeName([self._hosts[host]]), False),
            ],
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _load(context, certificate, key)
        return context

    def _signed(
        self, subject: str, key: ec.EllipticCurvePublicKey, extensions: list[tuple[x509.ExtensionType, bool]]
    ) -> x509.Certificate:
        """Make a certificate; `extensions`: pairs of an extension and whether it is critical.

        Adds the identifiers of both keys, which strict clients require (RFC 5280, 4.2.1.1 and 4.2.1.2).
        """
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(_common_name(subject))
            .issuer_name(_common_name("Authority of the gateway of a sandbox"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _BEFORE)
            .not_valid_after(self._now + _AFTER)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False
            )
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _common_name(name: str) -> x509.Name:
    # Names contain spaces, so no client reads one as a host.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _constraints(names: Iterable[x509.GeneralName]) -> x509.NameConstraints:
    """Permit only these names. A kind of name without a permitted name must be excluded explicitly."""
    permitted = [
        x509.IPAddress(ipaddress.ip_network(name.value)) if isinstance(name, x509.IPAddress) else name
        for name in names
    ]
    excluded: list[x509.GeneralName] = []
    if not any(isinstance(name, x509.DNSName) for name in permitted):
        excluded.append(x509.DNSName(""))
    if not any(isinstance(name, x509.IPAddress) for name in permitted):
        excluded += [x509.IPAddress(network) for network in _EVERY_ADDRESS]
    return x509.NameConstraints(permitted or None, excluded or None)


def _load(context: ssl.SSLContext, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """Load a certificate into a context. `ssl` reads keys only from files, so the file is encrypted."""
    password = secrets.token_hex(32).encode()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate.public_bytes(serialization.Encoding.PEM) + pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)
