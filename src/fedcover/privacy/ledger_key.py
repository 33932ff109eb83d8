"""The key of a ledger: what only the holder of the site's long-term key can have written.

The ledger's key is derived from the private key that the site signs with, so there is one secret to
look after. It seals the head of the ledger, and it makes the fingerprint of the data, which says
nothing to anybody without it.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fedcover.errors import FileError

PURPOSE = b"fedcover ledger 1"


@dataclass(frozen=True)
class LedgerKey:
    """A secret, and the public name of the key it was derived from.

    Attributes
    ----------
    name
        Fingerprint of the public key, as `ssh-keygen -l` shows it.
    secret
        32 bytes.
    """

    name: str
    secret: bytes = field(repr=False)

    @classmethod
    def of_file(cls, path: str | Path) -> LedgerKey:
        """Derived from an OpenSSH private key, with HKDF."""
        # An extra, and slow to import: only a ledger with a key asks for it.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        from fedcover.identity import load_identity

        identity = load_identity(_contents(Path(path)))
        if isinstance(identity, Ed25519PrivateKey):
            private = identity.private_bytes_raw()
        else:
            private = identity.private_numbers().private_value.to_bytes(48, "big")
        line = identity.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        public = sha256(b64decode(line.split()[1])).digest()
        secret = HKDF(SHA256(), 32, salt=None, info=PURPOSE).derive(private)
        return cls("SHA256:" + b64encode(public).decode().rstrip("="), secret)

    def seal(self, text: str) -> str:
        """HMAC-SHA256 of a text, in hexadecimal."""
        return hmac.digest(self.secret, text.encode(), sha256).hex()

    def is_seal(self, seal: str | None, text: str) -> bool:
        """Whether this key sealed the text."""
        return isinstance(seal, str) and hmac.compare_digest(
            seal.encode(), self.seal(text).encode()
        )

    def fingerprint(self, parts: Iterable[bytes]) -> str:
        """HMAC-SHA256 of data, which tells nobody without the key what they are."""
        found = sha256()
        for part in parts:
            found.update(part)
        return self.seal(f"data of a site {found.hexdigest()}")


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(
            f"the key {path} cannot be opened ({error.strerror})",
            allowed="a private key that this process may read",
            fix="Correct the path, or the file's permissions",
        ) from None
