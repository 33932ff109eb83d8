"""The cryptography, each piece from a library: nothing is invented here.

Key agreement X25519 with HKDF-SHA256, sealing with ChaCha20-Poly1305, masks from the ChaCha20
keystream (all of `cryptography`), secret shares by Shamir's scheme over GF(2^128) (pycryptodome).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Words = NDArray[np.uint64]

SECRET = 32
"""Bytes of every key, seed, share and digest."""

BLOCK, NONCE, TAG = 16, 12, 16
"""Bytes that one polynomial shares, of a nonce, and of an authentication tag."""


def joined(*parts: bytes | str) -> bytes:
    """The parts in one text, each after its length: different parts never make the same text.

    Without the lengths a signature under ("ab", "c") would be one under ("a", "bc") too.
    """
    texts = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(len(text).to_bytes(8, "little") + text for text in texts)


def digest(*parts: bytes | str) -> bytes:
    """SHA-256 of the parts; the first one names the purpose.

    So a digest that is made for one purpose stands for nothing in another.
    """
    return hashlib.sha256(joined(*parts)).digest()


def new_secret() -> bytes:
    """32 bytes of the operating system's randomness: a seed, or an X25519 private key.

    Never from a generator with a seed of its own: who can repeat the draw can take off the mask.
    """
    return os.urandom(SECRET)


def public_of(private: bytes) -> bytes:
    """The X25519 public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def shared_key(private: bytes, public: bytes, purpose: bytes) -> bytes:
    """The key that two sites share for one purpose; each finds it from its own private key.

    Only for public keys that `can_share` has passed.
    """
    other = X25519PublicKey.from_public_bytes(public)
    secret = X25519PrivateKey.from_private_bytes(private).exchange(other)
    # The coordinate of a curve point is not uniform, a key must be; and with the purpose hashed in,
    # the same pair of keys gives unrelated keys to each run, pair and direction.
    return HKDF(SHA256(), SECRET, salt=None, info=purpose).derive(secret)


def can_share(public: bytes) -> bool:
    """Whether secrets can be shared with this public key: a point of small order gives none.

    With such a point every agreement ends in zeros, whatever the private key (RFC 7748, section
    6.1): whoever advertises it would make the masks of all its pairs known to everybody.
    """
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return False
    return True


def seal(key: bytes, text: bytes, context: bytes) -> bytes:
    """The text encrypted; it opens only with the same key and the same context."""
    # A key seals one text, but for a site whose state went back to an earlier one and which deals
    # again. Two texts under one nonce give away their difference, and forgeries; a counter would go
    # back with the state, chance does not.
    nonce = os.urandom(NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, text, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes | None:
    """What `seal` was given; None if anything about it was changed."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:NONCE], sealed[NONCE:], context)
    except InvalidTag:
        return None


def mask_words(seed: bytes, count: int) -> Words:
    """PRG: `count` integers modulo 2^64 from the ChaCha20 keystream under the seed.

    A seed is used for one vector, so the nonce may be fixed; a block counter of 32 bits lasts
    for 256 GiB, a thousand times the longest vector.
    """
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8")


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """`count` shares of a secret, of which any `threshold` give it back and fewer say nothing.

    The share at position k belongs to the point k + 1: the point 0 would be the secret itself.
    """
    # The library works in GF(2^128), on 16 bytes. So a secret is shared in two halves, each by a
    # polynomial of its own: fewer shares than the threshold say nothing of either, nor of both.
    halves = (secret[:BLOCK], secret[BLOCK:])
    low, high = (Shamir.split(threshold, count, half, False) for half in halves)
    return [a + b for (_, a), (_, b) in zip(low, high, strict=True)]


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret, from exactly as many shares, by position, as the threshold says.

    Fewer, or false ones, give a wrong secret and no error, so a caller counts the shares and checks
    what comes out against the digest or the public key that the dealer advertised.
    """
    halves = (slice(0, BLOCK), slice(BLOCK, SECRET))
    return b"".join(
        Shamir.combine([(position + 1, share[half]) for position, share in shares.items()], False)
        for half in halves
    )
