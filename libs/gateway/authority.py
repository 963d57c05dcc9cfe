"""The authority of one sandbox: certificates to end TLS with, for the hosts that have a credential."""

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
"""For clocks that are slow."""
_AFTER = timedelta(days=30)
_EVERY_ADDRESS = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class Authority:
    """Certificates for a few hosts and no other, of an authority that one sandbox trusts.

    Its key never leaves the memory of this process. Its certificate is constrained (RFC 5280, 4.2.1.10) to
    the hosts and, as constraints cannot say less, names below them: whoever trusts it trusts it for nothing
    else. Valid from a day ago for 30 days ahead, as are those of the hosts. Belongs to one event loop.
    """

    def __init__(self, hosts: Iterable[str], *, now: datetime | None = None) -> None:
        """Make the authority.

        Args:
            hosts: names as in DNS, or addresses.
            now: the time to count from; the present where it is not given.
        """
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
        """What the sandbox is to trust."""

    def context_for(self, host: str) -> ssl.SSLContext:
        """What ends TLS as `host`: TLS 1.2 or later, HTTP/1.1 only. The same object for a host each time.

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
        """A certificate of this authority's, with extensions and whether each is critical.

        With the identifiers of both keys, which strict clients ask for (RFC 5280, 4.2.1.1 and 4.2.1.2).
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
    # With spaces, so that nobody takes it for a host.
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
    """These names and no others. A kind of name that is not permitted must be excluded, or it is free."""
    permitted: list[x509.GeneralName] = []
    for name in names:
        if isinstance(name, x509.IPAddress):
            permitted.append(x509.IPAddress(ipaddress.ip_network(name.value)))
        else:
            permitted.append(name)
    excluded: list[x509.GeneralName] = []
    if not any(isinstance(name, x509.DNSName) for name in permitted):
        excluded.append(x509.DNSName(""))
    if not any(isinstance(name, x509.IPAddress) for name in permitted):
        excluded += [x509.IPAddress(network) for network in _EVERY_ADDRESS]
    return x509.NameConstraints(permitted or None, excluded or None)


def _load(context: ssl.SSLContext, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """Give a context its certificate. `ssl` reads keys from files alone: what is in the file is encrypted."""
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
