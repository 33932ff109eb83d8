"""TLS as a client will see it: dates, names, who signed, and whether the key fits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcover.engines.flower.doctor.findings import Findings, private, readable
from fedcover.errors import FileError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SOON = timedelta(days=14)
"""Certificates that end earlier are pointed out."""


def examine(
    found: Findings,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
    address: str | None,
) -> None:
    """Looks at what is given: the server's certificate and key, and what clients trust."""
    authorities = None
    if ca is not None:
        authorities = found.look("CA certificate", lambda: _authorities(ca))
    if certificate is None:
        return
    cert = found.look("server certificate", lambda: _server_certificate(certificate))
    if cert is None:
        return
    if address is not None:
        found.look("certificate's names", lambda: (None, _named(cert, address)))
    if authorities:
        found.look("signed by the CA", lambda: (None, _signed(cert, authorities)))
    if key is not None:
        found.look("server key", lambda: (None, _fits(cert, key)))


def _authorities(path: Path) -> tuple[Sequence[Certificate], str]:
    from cryptography import x509

    certs = _certificates(path)
    for cert in certs:
        says = _in_time(cert, path)
        try:
            good = cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            good = False
        if not good:
            raise FileError(
                f"{path} is not the certificate of an authority",
                allowed="a certificate with CA:TRUE",
                fix="Give the certificate of who signed the server's, not the server's own",
            )
    return certs, says


def _server_certificate(path: Path) -> tuple[Certificate, str]:
    cert = _certificates(path)[0]
    return cert, _in_time(cert, path)


def _certificates(path: Path) -> Sequence[Certificate]:
    from cryptography import x509

    text = readable(path).read_bytes()
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        raise FileError(
            f"{path} holds no certificate",
            allowed="a certificate in PEM form",
            fix="It begins with -----BEGIN CERTIFICATE-----; a key is another file",
        ) from None


def _in_time(cert: Certificate, path: Path) -> str:
    now, first, last = datetime.now(UTC), cert.not_valid_before_utc, cert.not_valid_after_utc
    if not first <= now <= last:
        when = f"ended on {last:%Y-%m-%d}" if now > last else f"begins on {first:%Y-%m-%d}"
        raise FileError(
            f"{path} {when}",
            allowed="a certificate that holds today",
            fix="Renew it, or set this machine's clock",
        )
    return f"holds until {last:%Y-%m-%d}" + ("; renew it soon" if last - now < SOON else "")


def _named(cert: Certificate, address: str) -> str:
    """That the host of an address is among the certificate's alternative names."""
    from cryptography import x509

    host = address.rpartition(":")[0].strip("[]") if ":" in address else address
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        dns, ips = [], []
    else:
        dns = names.get_values_for_type(x509.DNSName)
        ips = [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    try:
        good = str(ip_address(host)) in ips
    except ValueError:
        good = any(_matches(host.lower(), name.lower()) for name in dns)
    if not good:
        raise FileError(
            f"the certificate is for {', '.join([*dns, *ips]) or 'no name'}, not for {host}",
            allowed=f"{host} among its alternative names (SAN)",
            fix="Have it issued for this name, or let clients use a name that it has",
        )
    return f"{host} is among them"


def _matches(host: str, name: str) -> bool:
    if name.startswith("*."):
        return host.partition(".")[2] == name[2:]
    return host == name


def _signed(cert: Certificate, authorities: Sequence[Certificate]) -> str:
    from cryptography.exceptions import InvalidSignature

    for authority in authorities:
        try:
            cert.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return "by the certificate that clients are given"
    raise FileError(
        "the CA certificate has not signed the server's",
        allowed="the CA that signed it, or a bundle with that one",
        fix="Give the clients (--root-certificates) the CA that issued the server's certificate",
    )


def _fits(cert: Certificate, path: Path) -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    def public(key: Any) -> bytes:
        return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    private(readable(path))
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):  # their texts could quote the key
        key = None
    if key is None or public(key.public_key()) != public(cert.public_key()):
        what = "cannot be read" if key is None else "belongs to another certificate"
        raise FileError(
            f"{path} {what}",
            allowed="the certificate's own key in PEM form, without a passphrase",
            fix="Give the key with which the certificate was asked for",
        )
    return "belongs to the certificate, and its owner alone can read it"
