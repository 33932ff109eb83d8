"""Who a site is and what it signs: long-term keys, advertised keys, what it has seen of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
from fedcover.securesum.crypto import NONCE, SECRET, TAG, can_share, digest, joined, public_of
from fedcover.securesum.spec import SumSpec, refused
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


CARD = 3 * SECRET
"""Bytes of a card."""

SEALED = NONCE + 2 * SECRET + TAG
"""Bytes of two sealed shares."""


@dataclass(frozen=True)
class Card:
    """What a site advertises for one run.

    Attributes
    ----------
    mask_key
        Public key from which pairs of sites make their common masks. The private half is shared
        out, and opened if the site drops out.
    share_key
        Public key to which shares are sealed. The private half never leaves the site.
    seed_digest
        Digest of the self-mask's seed: shows the server that it has put it together rightly.
    """

    mask_key: bytes
    share_key: bytes
    seed_digest: bytes

    def to_bytes(self) -> bytes:
        return self.mask_key + self.share_key + self.seed_digest

    @classmethod
    def of_bytes(cls, data: bytes) -> Card:
        return cls(data[:SECRET], data[SECRET : 2 * SECRET], data[2 * SECRET :])


def new_card(terms: SumSpec, name: str, mask_key: bytes, share_key: bytes, seed: bytes) -> Card:
    """The card that goes with a site's private keys and seed."""
    return Card(public_of(mask_key), public_of(share_key), seed_digest(terms, name, seed))


def seed_digest(terms: SumSpec, name: str, seed: bytes) -> bytes:
    """Says nothing about a random seed, and fits no other."""
    return digest("seed", terms.digest, name, seed)


def card_text(terms: SumSpec, name: str, card: Card) -> bytes:
    """What a site signs at first: version, run, sites, threshold, question, its name and keys."""
    return joined("fedcover secure sum: card", terms.digest, name, card.to_bytes())


def read_card(terms: SumSpec, roster: Roster, name: str, signed: bytes) -> Card:
    """The card of a site, with its signature behind it, checked against the roster."""
    card, signature = Card.of_bytes(signed[:CARD]), signed[CARD:]
    if name not in terms.sites:
        raise refused(f"a card of {name!r}", "cards of sites that are invited")
    if len(signed) <= CARD or not is_signed(roster, name, signature, card_text(terms, name, card)):
        raise refused(
            f"a card of {name!r} that this site did not sign for this run",
            "cards signed with the key in the roster, for this name, run and version",
        )
    if not (can_share(card.mask_key) and can_share(card.share_key)):
        raise refused(f"a key of {name!r} that makes no secret", "X25519 public keys")
    return card


def repeated_keys(cards: Mapping[str, Card]) -> tuple[str, ...]:
    """The sites with a public key that stands on another card too, or twice on theirs."""
    owners: dict[bytes, list[str]] = {}
    for name, card in cards.items():
        for key in (card.mask_key, card.share_key):
            owners.setdefault(key, []).append(name)
    together = {name for names in owners.values() if len(names) > 1 for name in names}
    return tuple(name for name in cards if name in together)


def view_text(
    terms: SumSpec, cards: Mapping[str, Card], dealers: tuple[str, ...], survivors: tuple[str, ...]
) -> bytes:
    """What a site signs at last: all it has been told. Only sites told the same unmask together.

    The names come in the order of the run, so equal views have equal bytes.
    """
    order = terms.in_order(set(cards))
    keys = joined(*(joined(name, cards[name].to_bytes()) for name in order))
    told = digest("view", terms.digest, keys, joined(*dealers), joined(*survivors))
    return joined("fedcover secure sum: view", told)


def sealing_purpose(terms: SumSpec, dealer: str, holder: str) -> bytes:
    """Binds a sealed share to the run, its sender and its receiver."""
    return joined("fedcover secure sum: shares", terms.digest, dealer, holder)


def share_digests(terms: SumSpec, dealer: str, holder: str, shares: bytes) -> bytes:
    """Digests of a seed's and a key's share: by them a false share is told from a true one."""
    seed, key = shares[:SECRET], shares[SECRET:]
    return share_digest(terms, "seed", dealer, holder, seed) + share_digest(
        terms, "key", dealer, holder, key
    )


def share_digest(terms: SumSpec, kind: str, dealer: str, holder: str, share: bytes) -> bytes:
    """Says nothing about a random share, and fits no other."""
    return digest("share", terms.digest, kind, dealer, holder, share)
