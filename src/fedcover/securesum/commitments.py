"""What a site binds itself to in a run: keys, the shares it deals, and all that it was told.

A signature or a digest comes before anything that depends on it, so nobody can choose later what
they said earlier. All of them cover the digest of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedcover.identity import Identity, Roster, is_signed, sign
from fedcover.securesum.crypto import NONCE, SECRET, TAG, can_share, digest, joined, public_of
from fedcover.securesum.spec import SumSpec, refused

ADVERTISEMENT = 3 * SECRET
"""Bytes of a key advertisement, without the signature behind it."""

SEALED = NONCE + 2 * SECRET + TAG
"""Bytes of two sealed shares."""


@dataclass(frozen=True)
class KeyAdvertisement:
    """The public keys of a site for one run, and the digest of its seed.

    Attributes
    ----------
    mask_key
        Public key from which pairs of sites make their common masks: s_u^PK in figure 4 of
        Bonawitz et al. 2017. The private half is shared out, and opened if the site drops out.
    share_key
        Public key to which shares are sealed: c_u^PK. The private half never leaves the site, not
        even in shares. Were shares sealed to the mask key, then opening that of a lost site would
        unseal what it dealt: the shares of its seed too, and a late vector would be bare.
    seed_digest
        Digest of the self-mask's seed b_u: a seed has no public half by which the server could see
        that it has put it together rightly.
    """

    mask_key: bytes
    share_key: bytes
    seed_digest: bytes

    def to_bytes(self) -> bytes:
        return self.mask_key + self.share_key + self.seed_digest

    @classmethod
    def of_bytes(cls, data: bytes) -> KeyAdvertisement:
        return cls(data[:SECRET], data[SECRET : 2 * SECRET], data[2 * SECRET :])


def advertise(
    spec: SumSpec, name: str, mask_key: bytes, share_key: bytes, seed: bytes
) -> KeyAdvertisement:
    """The key advertisement that goes with a site's private keys and seed."""
    return KeyAdvertisement(
        public_of(mask_key), public_of(share_key), seed_digest(spec, name, seed)
    )


def seed_digest(spec: SumSpec, name: str, seed: bytes) -> bytes:
    """Says nothing about a random seed of 256 bits, and fits no other."""
    return digest("seed", spec.digest, name, seed)


def advertisement_text(spec: SumSpec, name: str, advertised: KeyAdvertisement) -> bytes:
    """What a site signs at first: version, run, sites, threshold, query, its name and keys.

    The name is in it, or a server could give the keys of one site out as those of another.
    """
    return joined("fedcover secure sum: card", spec.digest, name, advertised.to_bytes())


def sign_advertisement(
    spec: SumSpec, identity: Identity, name: str, advertised: KeyAdvertisement
) -> bytes:
    """The key advertisement as it travels: its bytes, and the signature behind them."""
    return advertised.to_bytes() + sign(identity, advertisement_text(spec, name, advertised))


def read_advertisement(spec: SumSpec, roster: Roster, name: str, signed: bytes) -> KeyAdvertisement:
    """What `sign_advertisement` wrote at this site, checked against the roster."""
    advertised = KeyAdvertisement.of_bytes(signed[:ADVERTISEMENT])
    signature, text = signed[ADVERTISEMENT:], advertisement_text(spec, name, advertised)
    if name not in spec.sites:
        raise refused(f"a key advertisement of {name!r}", "those of sites that are invited")
    if len(signed) <= ADVERTISEMENT or not is_signed(roster, name, signature, text):
        raise refused(
            f"a key advertisement of {name!r} that this site did not sign for this run",
            "one signed with the key in the roster, for this name, run and version",
        )
    if not (can_share(advertised.mask_key) and can_share(advertised.share_key)):
        raise refused(f"a key of {name!r} that makes no secret", "X25519 public keys")
    return advertised


def repeated_keys(advertised: Mapping[str, KeyAdvertisement]) -> tuple[str, ...]:
    """The sites with a public key that another site advertises too, or they themselves twice.

    Opening a mask key must open one site's pair masks and nothing else: no second site's, and no
    shares sealed to the same key.
    """
    owners: dict[bytes, list[str]] = {}
    for name, keys in advertised.items():
        for key in (keys.mask_key, keys.share_key):
            owners.setdefault(key, []).append(name)
    together = {name for names in owners.values() if len(names) > 1 for name in names}
    return tuple(name for name in advertised if name in together)


def sealing_purpose(spec: SumSpec, dealer: str, holder: str) -> bytes:
    """Binds sealed shares to the run, their sender and their receiver.

    The server carries them: it can neither misdirect them nor send back a site's own.
    """
    return joined("fedcover secure sum: shares", spec.digest, dealer, holder)


def share_digests(spec: SumSpec, dealer: str, holder: str, shares: bytes) -> bytes:
    """Digests of a seed's and a key's share: by them a false share is told from a true one.

    The server has them from the dealer and the holder compares them with what it unsealed, so it is
    known who lies: a dealer before anything is masked, a holder when it opens.
    """
    seed, key = shares[:SECRET], shares[SECRET:]
    return share_digest(spec, "seed", dealer, holder, seed) + share_digest(
        spec, "key", dealer, holder, key
    )


def share_digest(spec: SumSpec, kind: str, dealer: str, holder: str, share: bytes) -> bytes:
    """Says nothing about a random share of 256 bits, and fits no other."""
    return digest("share", spec.digest, kind, dealer, holder, share)


def view_text(
    spec: SumSpec,
    advertised: Mapping[str, KeyAdvertisement],
    dealers: tuple[str, ...],
    survivors: tuple[str, ...],
) -> bytes:
    """What a site signs at last: all it has been told. Only sites told the same unmask together.

    The names come in the order of the run, so equal views have equal bytes.
    """
    order = spec.in_order(advertised.keys())
    keys = joined(*(joined(name, advertised[name].to_bytes()) for name in order))
    told = digest("view", spec.digest, keys, joined(*dealers), joined(*survivors))
    return joined("fedcover secure sum: view", told)
