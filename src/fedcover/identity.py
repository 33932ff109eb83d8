"""Who a site is: the long-term keys it signs with, and the roster of everybody's public ones.

Whoever decides which keys are believed decides who can read: a server that could put in keys of its
own would sit between every pair of sites (Bonawitz et al. 2017, section 6.2). So each site has its
roster from its own configuration, and everything that a site says is signed.
"""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedcover.errors import FedcoverError
from fedcover.site import checked_name

Identity = ec.EllipticCurvePrivateKey | Ed25519PrivateKey
PublicIdentity = ec.EllipticCurvePublicKey | Ed25519PublicKey
Roster = Mapping[str, PublicIdentity]

MAKE_A_KEY = "Make one with: ssh-keygen -t ecdsa -b 384 -N '' -f mercy"


def load_identity(data: bytes) -> Identity:
    """A site's private key.

    Parameters
    ----------
    data
        The content of the file that `ssh-keygen` wrote, without a passphrase.
    """
    try:
        key = load_ssh_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their texts could quote the key
        key = None
    if isinstance(key, Identity) and _is_good(key.public_key()):
        return key
    raise FedcoverError(
        "the identity key cannot be used",
        allowed="an OpenSSH private key, ECDSA P-384 or Ed25519, without a passphrase",
        fix=MAKE_A_KEY,
    )


def load_roster(lines: Mapping[str, bytes]) -> Roster:
    """The public keys of all sites by name.

    Parameters
    ----------
    lines
        For each site's name the line of its `.pub` file.
    """
    roster: dict[str, PublicIdentity] = {}
    owners: dict[bytes, str] = {}
    for name, line in lines.items():
        checked_name(name, "name in the roster")
        try:
            key = load_ssh_public_key(line)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, PublicIdentity) or not _is_good(key):
            raise FedcoverError(
                f"the roster's key of {name!r} cannot be used",
                allowed="the line of an OpenSSH .pub file, ECDSA P-384 or Ed25519",
                fix=MAKE_A_KEY,
            )
        # One key under two names would be two votes for one site wherever signatures are counted.
        owner = owners.setdefault(public_bytes(key), name)
        if owner != name:
            raise FedcoverError(
                f"the roster has one key for {owner!r} and {name!r}",
                allowed="a key of its own for every site",
                fix="Ask both sites for their .pub files",
            )
        roster[name] = key
    return roster


def public_bytes(key: PublicIdentity) -> bytes:
    """One text for one public key, to compare it by."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def sign(identity: Identity, text: bytes) -> bytes:
    """A signature of a text: ECDSA with SHA-384, or Ed25519."""
    if isinstance(identity, Ed25519PrivateKey):
        return identity.sign(text)
    return identity.sign(text, ec.ECDSA(SHA384()))


def is_signed(roster: Roster, name: str, signature: bytes, text: bytes) -> bool:
    """Whether the site of this name in the roster signed the text."""
    key = roster.get(name)
    if key is None:
        return False
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, text)
        else:
            key.verify(signature, text, ec.ECDSA(SHA384()))
    except InvalidSignature:
        return False
    return True


def _is_good(key: PublicIdentity) -> bool:
    return isinstance(key, Ed25519PublicKey) or isinstance(key.curve, ec.SECP384R1)
