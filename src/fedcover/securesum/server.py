"""The server half: a generator that yields rounds and goes on while enough sites answer.

The server learns the sum and who is in it. A site that does not answer, or answers what cannot be,
counts as dropped out and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.methods.base import Round
from fedcover.securesum import identity, spec
from fedcover.securesum.crypto import SECRET, Words
from fedcover.securesum.identity import Card, Roster, is_signed
from fedcover.securesum.masks import shaped, unmasked
from fedcover.securesum.spec import SumSpec, refused
from fedcover.wire import Message

T = TypeVar("T")


@dataclass(frozen=True)
class Total:
    """The exact sum and whose it is.

    Attributes
    ----------
    arrays
        The sum, as int64 arrays in the shapes of the terms; modulo 2^64.
    sites
        The sites whose integers are in it, in the order of the terms.
    missing
        Why sites left before the end, by name; those that left after sending their masked integers
        are in the sum nevertheless.
    """

    arrays: Mapping[str, NDArray[np.int64]]
    sites: tuple[str, ...]
    missing: Mapping[str, str]


def server(terms: SumSpec, roster: Roster) -> Generator[Round, Round, Total]:
    """Yields rounds ``{site: query}``, receives ``{site: reply}``, and returns the sum.

    Parameters
    ----------
    terms
        What is summed, and among whom.
    roster
        Public keys of the sites, by which the server leaves out cards that the sites would refuse.
        It protects the run and not the sites, who have rosters of their own.

    Raises
    ------
    FedcoverError
        If fewer sites than the threshold answer a stage. Nothing is known of any vector then.
    """
    if strangers := sorted(set(terms.sites) - set(roster)):
        raise FedcoverError(
            f"no key in the roster for {strangers}",
            allowed="sites of the roster",
            fix="Add the .pub files of these sites, or do not invite them",
        )
    desk = _Desk(terms)
    replies = yield dict.fromkeys(terms.sites, terms.query())
    found = desk.read("keys", terms.sites, replies, lambda n, m: _card(terms, roster, n, m))
    for name in identity.repeated_keys({n: card for n, (card, _) in found.items()}):
        desk.missing[name] = "advertised a key that stands on another card too"
        del found[name]
    desk.count("keys", found)
    known = {name: card for name, (card, _) in found.items()}
    query = _query(terms, "shares", spec.table("card", {n: s for n, (_, s) in found.items()}))

    replies = yield dict.fromkeys(known, query)
    dealt = desk.read("shares", known, replies, lambda n, m: _Dealt.of(n, m, known))

    replies = yield {name: _shares_for(terms, name, dealt) for name in dealt}
    masked = desk.read("masked", dealt, replies, lambda n, m: _integers(terms, m))
    survivors, total = tuple(masked), np.zeros(terms.count, dtype=np.uint64)
    for integers in masked.values():
        total += integers
    del masked, replies  # the large ones

    view = identity.view_text(terms, known, tuple(dealt), survivors)
    query = _query(terms, "agree", {"survivors": spec.names_to_array(survivors)})
    replies = yield dict.fromkeys(survivors, query)
    signed = desk.read("agree", survivors, replies, lambda n, m: _signature(roster, view, n, m))

    query = _query(terms, "unmask", spec.table("signature", signed))
    replies = yield dict.fromkeys(signed, query)
    opened = desk.read(
        "unmask", signed, replies, lambda n, m: _opened(terms, n, m, dealt, survivors)
    )
    sums = shaped(terms, unmasked(terms, known, total, survivors, opened))
    return Total(sums, survivors, desk.missing)


@dataclass
class _Desk:
    """Reads the replies of a stage and keeps count of who is left."""

    terms: SumSpec
    missing: dict[str, str] = field(default_factory=dict)

    def read(
        self, stage: str, asked: Iterable[str], replies: Round, reader: Callable[[str, Message], T]
    ) -> dict[str, T]:
        """The good replies by site, in the order of the terms."""
        good = {}
        for name in asked:
            if name not in replies:
                self.missing[name] = f"did not answer the stage {stage!r}"
                continue
            try:
                if spec.stage_of(replies[name]) != stage:
                    raise refused("a reply of another stage", stage)
                good[name] = reader(name, replies[name])
            except FedcoverError as wrong:
                self.missing[name] = f"answered the stage {stage!r} wrongly: {wrong.given}"
        self.count(stage, good)
        return good

    def count(self, stage: str, left: Mapping[str, object]) -> None:
        """Stops the run when too few are left."""
        if len(left) < self.terms.needed:
            why = "; ".join(f"{name!r} {reason}" for name, reason in self.missing.items())
            raise FedcoverError(
                f"{len(left)} of {len(self.terms.sites)} sites are left after the stage {stage!r} "
                f"of the secure sum {self.terms.run!r}: {why}",
                allowed=f"at least {self.terms.needed}, the threshold",
                fix="Bring these sites back, or leave them out, and run again under another name; "
                "no vector became known",
            )


def _query(terms: SumSpec, stage: str, arrays: Mapping[str, NDArray[np.uint8]]) -> Message:
    return spec.make(stage, {"terms": spec.to_array(terms.digest), **arrays})


def _card(terms: SumSpec, roster: Roster, name: str, reply: Message) -> tuple[Card, bytes]:
    signed = spec.blob(reply, "card")
    return identity.read_card(terms, roster, name, signed), signed


@dataclass(frozen=True)
class _Dealt:
    """What a site dealt out: sealed shares by holder, and digests of all of them."""

    sealed: Mapping[str, bytes]
    digests: Mapping[str, bytes]

    @classmethod
    def of(cls, dealer: str, reply: Message, known: Mapping[str, Card]) -> _Dealt:
        sealed = spec.read_table(reply, "sealed", identity.SEALED)
        digests = spec.read_table(reply, "digests", 2 * SECRET)
        if set(digests) != set(known) or set(sealed) != set(known) - {dealer}:
            raise refused("shares for other sites than those with cards", "one for each")
        return cls(sealed, digests)


def _shares_for(terms: SumSpec, holder: str, dealt: Mapping[str, _Dealt]) -> Message:
    others = {dealer: d for dealer, d in dealt.items() if dealer != holder}
    sealed = spec.table("sealed", {n: d.sealed[holder] for n, d in others.items()})
    digests = spec.table("digests", {n: d.digests[holder] for n, d in others.items()})
    return _query(terms, "masked", sealed | digests)


def _integers(terms: SumSpec, reply: Message) -> Words:
    array = reply.arrays.get("masked")
    good = type(array) is np.ndarray and array.dtype == np.uint64
    if array is None or not good or array.shape != (terms.count,):
        raise refused("masked integers of the wrong type or shape", f"{terms.count} of type uint64")
    return array


def _signature(roster: Roster, view: bytes, name: str, reply: Message) -> bytes:
    signature = spec.blob(reply, "signature")
    if not is_signed(roster, name, signature, view):
        raise refused("a signature under something else", "one under what the server told")
    return signature


def _opened(
    terms: SumSpec,
    holder: str,
    reply: Message,
    dealt: Mapping[str, _Dealt],
    survivors: tuple[str, ...],
) -> dict[str, bytes]:
    """A share for each dealer: of its seed or, if it dropped out, of its key."""
    shares = {}
    for dealer, d in dealt.items():
        kind, part = (
            ("seed", slice(0, SECRET)) if dealer in survivors else ("key", slice(SECRET, None))
        )
        share = spec.blob(reply, f"{kind}:{dealer}", SECRET)
        if identity.share_digest(terms, kind, dealer, holder, share) != d.digests[holder][part]:
            raise refused(f"a false share of {dealer!r}", "the share that this site was dealt")
        shares[dealer] = share
    return shares
