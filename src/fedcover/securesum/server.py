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
from fedcover.identity import Roster, is_signed
from fedcover.securesum.commitments import (
    SEALED,
    KeyAdvertisement,
    read_advertisement,
    repeated_keys,
    share_digest,
    view_text,
)
from fedcover.securesum.crypto import SECRET, Words
from fedcover.securesum.masks import unflatten, unmask
from fedcover.securesum.spec import (
    SumSpec,
    names_to_array,
    read_bytes,
    read_table,
    refused,
    stage_message,
    stage_of,
    to_array,
    to_table,
)
from fedcover.wire import Message, Round

T = TypeVar("T")


@dataclass(frozen=True)
class Total:
    """The exact sum and whose it is.

    Attributes
    ----------
    arrays
        The sum, as int64 arrays in the shapes of the `SumSpec`; modulo 2^64.
    sites
        The sites whose integers are in it, in the order of the `SumSpec`.
    missing
        Why sites left before the end, by name; those that left after sending their masked integers
        are in the sum nevertheless.
    """

    arrays: Mapping[str, NDArray[np.int64]]
    sites: tuple[str, ...]
    missing: Mapping[str, str]


def server(spec: SumSpec, roster: Roster) -> Generator[Round, Round, Total]:
    """Yields rounds ``{site: query}``, receives ``{site: reply}``, and returns the sum.

    Parameters
    ----------
    spec
        What is summed, and among whom.
    roster
        Public keys of the sites, by which the server leaves out keys that the sites would refuse.
        It protects the run and not the sites, who have rosters of their own.

    Raises
    ------
    FedcoverError
        If fewer sites than the threshold answer a stage. Nothing is known of any vector then.
    """
    if strangers := sorted(set(spec.sites) - set(roster)):
        raise FedcoverError(
            f"no key in the roster for {strangers}",
            allowed="sites of the roster",
            fix="Add the .pub files of these sites, or do not invite them",
        )
    stages = _Stages(spec)

    replies = yield dict.fromkeys(spec.sites, spec.to_message())
    signed = stages.read("keys", spec.sites, replies, lambda n, m: _advertised(spec, roster, n, m))
    for name in repeated_keys({n: keys for n, (keys, _) in signed.items()}):
        stages.missing[name] = "advertised a key that stands in another advertisement too"
        del signed[name]
    stages.check_count("keys", signed)
    advertised = {name: keys for name, (keys, _) in signed.items()}
    # The signatures travel with the keys: a site believes them and not the server.
    table = to_table("card", {name: data for name, (_, data) in signed.items()})

    replies = yield dict.fromkeys(advertised, _query(spec, "shares", table))
    dealt = stages.read("shares", advertised, replies, lambda n, m: _Dealt.of(n, m, advertised))

    replies = yield {name: _shares_for(spec, name, dealt) for name in dealt}
    masked = stages.read("masked", dealt, replies, lambda n, m: _integers(spec, m))
    # The sum is over those whose vectors are here; that of a dealer that comes later is not used.
    survivors, total = tuple(masked), np.zeros(spec.count, dtype=np.uint64)
    for integers in masked.values():
        total += integers
    del masked, replies  # the large ones

    view = view_text(spec, advertised, tuple(dealt), survivors)
    query = _query(spec, "agree", {"survivors": names_to_array(survivors)})
    replies = yield dict.fromkeys(survivors, query)
    agreed = stages.read("agree", survivors, replies, lambda n, m: _signature(roster, view, n, m))

    query = _query(spec, "unmask", to_table("signature", agreed))
    replies = yield dict.fromkeys(agreed, query)
    opened = stages.read(
        "unmask", agreed, replies, lambda n, m: _opened(spec, n, m, dealt, survivors)
    )
    sums = unflatten(spec, unmask(spec, advertised, total, survivors, opened))
    return Total(sums, survivors, stages.missing)


@dataclass
class _Stages:
    """Reads the replies of a stage and keeps count of who is left."""

    spec: SumSpec
    missing: dict[str, str] = field(default_factory=dict)

    def read(
        self, stage: str, asked: Iterable[str], replies: Round, reader: Callable[[str, Message], T]
    ) -> dict[str, T]:
        """The good replies by site, in the order of the run."""
        good = {}
        for name in asked:
            if name not in replies:
                self.missing[name] = f"did not answer the stage {stage!r}"
                continue
            try:
                if stage_of(replies[name]) != stage:
                    raise refused("a reply of another stage", stage)
                good[name] = reader(name, replies[name])
            except FedcoverError as wrong:
                self.missing[name] = f"answered the stage {stage!r} wrongly: {wrong.given}"
        self.check_count(stage, good)
        return good

    def check_count(self, stage: str, left: Mapping[str, object]) -> None:
        """Stops the run when too few are left: t shares of each secret would not come together."""
        if len(left) < self.spec.threshold:
            why = "; ".join(f"{name!r} {reason}" for name, reason in self.missing.items())
            raise FedcoverError(
                f"{len(left)} of {len(self.spec.sites)} sites are left after the stage {stage!r} "
                f"of the secure sum {self.spec.run!r}: {why}",
                allowed=f"at least {self.spec.threshold}, the threshold",
                fix="Bring these sites back, or leave them out, and run again under another name; "
                "no vector became known",
            )


def _query(spec: SumSpec, stage: str, arrays: Mapping[str, NDArray[np.uint8]]) -> Message:
    return stage_message(stage, {"terms": to_array(spec.digest), **arrays})


def _advertised(
    spec: SumSpec, roster: Roster, name: str, reply: Message
) -> tuple[KeyAdvertisement, bytes]:
    """What a site advertises, and the same with its signature, as the others get it."""
    signed = read_bytes(reply, "card")
    return read_advertisement(spec, roster, name, signed), signed


@dataclass(frozen=True)
class _Dealt:
    """What a site dealt out: sealed shares by holder, and digests of all of them."""

    sealed: Mapping[str, bytes]
    digests: Mapping[str, bytes]

    @classmethod
    def of(cls, dealer: str, reply: Message, advertised: Mapping[str, KeyAdvertisement]) -> _Dealt:
        sealed = read_table(reply, "sealed", SEALED)
        digests = read_table(reply, "digests", 2 * SECRET)
        if set(digests) != set(advertised) or set(sealed) != set(advertised) - {dealer}:
            raise refused("shares for other sites than those that advertised", "one for each")
        return cls(sealed, digests)


def _shares_for(spec: SumSpec, holder: str, dealt: Mapping[str, _Dealt]) -> Message:
    others = {dealer: d for dealer, d in dealt.items() if dealer != holder}
    sealed = to_table("sealed", {n: d.sealed[holder] for n, d in others.items()})
    digests = to_table("digests", {n: d.digests[holder] for n, d in others.items()})
    return _query(spec, "masked", sealed | digests)


def _integers(spec: SumSpec, reply: Message) -> Words:
    array = reply.arrays.get("masked")
    good = type(array) is np.ndarray and array.dtype == np.uint64
    if array is None or not good or array.shape != (spec.count,):
        raise refused("masked integers of the wrong type or shape", f"{spec.count} of type uint64")
    return array


def _signature(roster: Roster, view: bytes, name: str, reply: Message) -> bytes:
    signature = read_bytes(reply, "signature")
    if not is_signed(roster, name, signature, view):
        raise refused("a signature under something else", "one under what the server told")
    return signature


def _opened(
    spec: SumSpec,
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
        share = read_bytes(reply, f"{kind}:{dealer}", SECRET)
        # One false share spoils what all of them give: it is found here, while it is known whose
        # it is and other holders may do.
        if share_digest(spec, kind, dealer, holder, share) != d.digests[holder][part]:
            raise refused(f"a false share of {dealer!r}", "the share that this site was dealt")
        shares[dealer] = share
    return shares
