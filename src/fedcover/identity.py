"""Who somebody is: long-term keys, the roster of everybody's public ones, signatures of a text.

Whoever decides which keys are believed decides who can read: a server that could put in keys of its
own would sit between every pair of sites (Bonawitz et al. 2017, section 6.2). So each site has its
roster from its own configuration, and everything that a site says is signed.

A roster is a file of lines ``NAME KEY``. A name may stand there twice while its key is changed. A
key in a line ``revoked NAME KEY`` is believed under no name, wherever else it stands.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

from fedcover._io.reading import read_whole
from fedcover.errors import FedcoverError, FileError

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.hashes import SHA384
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_ssh_private_key,
        load_ssh_public_key,
    )
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "cryptography":
        raise
    raise FedcoverError(
        f"keys and signatures need the package {missing.name!r}, which is not installed",
        allowed="fedcover without keys, or with cryptography and pycryptodome",
        fix="pip install 'fedcover[secure]'",
    ) from None

from fedcover.site import checked_name

Identity = ec.EllipticCurvePrivateKey | Ed25519PrivateKey
PublicIdentity = ec.EllipticCurvePublicKey | Ed25519PublicKey
Roster = Mapping[str, PublicIdentity | tuple[PublicIdentity, ...]]
"""For each name the key that is believed, or the keys: the old one and the new, while it changes;
none where all are revoked."""

REVOKED = "revoked"

MOST_TEXT = 1 << 24
"""Longest key or roster, in bytes."""

MAKE_A_KEY = "Make one with: ssh-keygen -t ecdsa -b 384 -N '' -f mercy"


def load_identity(data: bytes) -> Identity:
    """A private key.

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
    return _roster([(name, line) for name, line in lines.items()], [])


def read_roster(path: str | Path) -> Roster:
    """The public keys of all sites from a file of lines ``NAME KEY`` and ``revoked NAME KEY``."""
    good: list[tuple[str, bytes]] = []
    revoked: list[tuple[str, bytes]] = []
    for words, is_revoked in _lines(path):
        name, _, key = " ".join(words).partition(" ")
        if not key:
            raise FileError(
                f"{path} is not a roster",
                allowed="one line 'NAME KEY' for each site, KEY as in its .pub file",
                fix="Put each site's name before the line of its .pub file",
            )
        (revoked if is_revoked else good).append((name, key.encode()))
    return _roster(good, revoked)


def read_public_keys(path: str | Path, name: str) -> Roster:
    """The keys of one name from a `.pub` file: a line each, ``revoked`` before one that is not."""
    good: list[tuple[str, bytes]] = []
    revoked: list[tuple[str, bytes]] = []
    for words, is_revoked in _lines(path):
        (revoked if is_revoked else good).append((name, " ".join(words).encode()))
    return _roster(good, revoked)


def read_identity(path: str | Path) -> Identity:
    """The private key in a file."""
    return load_identity(_contents(path))


def keys_of(roster: Roster, name: str) -> tuple[PublicIdentity, ...]:
    """The keys that are believed to be somebody's; none of a name that nobody has."""
    keys = roster.get(name, ())
    return keys if isinstance(keys, tuple) else (keys,)


def public_bytes(key: PublicIdentity) -> bytes:
    """One text for one public key, to compare it by."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(key: PublicIdentity) -> str:
    """The key's SHA-256 as `ssh-keygen -l` shows it."""
    text = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    sha = hashlib.sha256(b64decode(text.split()[1])).digest()
    return "SHA256:" + b64encode(sha).decode().rstrip("=")


def sign(identity: Identity, text: bytes) -> bytes:
    """A signature of a text: ECDSA with SHA-384, or Ed25519."""
    if isinstance(identity, Ed25519PrivateKey):
        return identity.sign(text)
    return identity.sign(text, ec.ECDSA(SHA384()))


def is_signed(roster: Roster, name: str, signature: bytes, text: bytes) -> bool:
    """Whether somebody of this name in the roster signed the text."""
    return any(_fits(key, signature, text) for key in keys_of(roster, name))


def _fits(key: PublicIdentity, signature: bytes, text: bytes) -> bool:
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, text)
        else:
            key.verify(signature, text, ec.ECDSA(SHA384()))
    except InvalidSignature:
        return False
    return True


def _roster(lines: list[tuple[str, bytes]], revoked: list[tuple[str, bytes]]) -> Roster:
    """The keys by name, less those that are revoked."""
    gone = {public_bytes(_public(name, line)) for name, line in revoked}
    roster: dict[str, tuple[PublicIdentity, ...]] = {name: () for name, _ in [*lines, *revoked]}
    owners: dict[bytes, str] = {}
    for name, line in lines:
        key = _public(name, line)
        text = public_bytes(key)
        # One key under two names would be two votes for one site wherever signatures are counted.
        owner = owners.get(text)
        if owner is not None and owner != name:
            raise FedcoverError(
                f"the roster has one key for {owner!r} and {name!r}",
                allowed="a key of its own for every site",
                fix="Ask both sites for their .pub files",
            )
        if owner is None and text not in gone:
            roster[name] += (key,)
        owners[text] = name
    return {name: keys[0] if len(keys) == 1 else keys for name, keys in roster.items()}


def _public(name: str, line: bytes) -> PublicIdentity:
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
    return key


def _lines(path: str | Path) -> list[tuple[list[str], bool]]:
    """The words of every line that is no comment, and whether it takes a key back."""
    text = _contents(path).decode("utf-8", "replace")
    lines = [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    if not lines:
        raise FileError(
            f"{path} is not a roster: it names no key",
            allowed="lines with the public keys of .pub files",
            fix="Put each site's name before the line of its .pub file",
        )
    return [(w[1:], True) if w[0] == REVOKED else (w, False) for w in lines]


def _contents(path: str | Path) -> bytes:
    try:
        return read_whole(Path(path), MOST_TEXT)
    except OSError as error:
        raise FileError(
            f"{path} cannot be opened ({error.strerror})",
            allowed="a file that this process may read",
            fix="Correct the path in the configuration, or the file's permissions",
        ) from None


def _is_good(key: PublicIdentity) -> bool:
    return isinstance(key, Ed25519PublicKey) or isinstance(key.curve, ec.SECP384R1)
