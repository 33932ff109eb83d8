"""What a run is about, and the messages that carry it.

Every signature and every key of a run covers the digest of its `SumSpec`, so no two sites can be
told different stories. A message is read strictly: what does not fit is refused, never repaired.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks, wire
from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.site import checked_name
from fedcover.wire import Message

VERSION = 2
"""Of the protocol and of a site's state: goes up with any change to what is sent or signed."""

STAGES = ("keys", "shares", "masked", "agree", "unmask")

LEAST_SITES = 3
"""With two sites, the sum less one's own vector is the other's: there is nothing left to hide."""

MOST_SITES = 100
"""Work and traffic grow with the square of the number of sites."""

MOST_INTEGERS = 1 << 25
"""Longest vector: 256 MiB."""


@dataclass(frozen=True, init=False)
class SumSpec:
    """What is summed, among whom, and how many must stay.

    Parameters
    ----------
    run
        Name of the run; a site takes part in a run of one name once. It names the run in a ledger
        too: no reply with noise may enter two runs.
    sites
        Names of the invited sites, at least 3, each in every roster.
    shapes
        The arrays that every site contributes and the sum has, shape by name.
    query
        What the contributions answer: the same for all sites, or they refuse.
    threshold
        t, how many sites must stay to the end; where none is given, ⌈2n/3⌉ of n sites, or as many
        as the conspirators ask for.
    conspirators
        c, how many of the sites may conspire with a lying server: 2t > n + c.
    """

    run: str
    sites: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    query: Message
    threshold: int
    conspirators: int

    def __init__(
        self,
        run: str,
        sites: Sequence[str],
        shapes: Mapping[str, Sequence[int]],
        query: Message | None = None,
        threshold: int | None = None,
        conspirators: int = 1,
    ) -> None:
        checked_name(run, "run")
        for name in sites:
            checked_name(name, "name of a site")
        n = len(sites)
        if not LEAST_SITES <= n <= MOST_SITES or len(set(sites)) < n:
            raise FedcoverError(
                f"{len(set(sites))} different sites among the {n} of a secure sum",
                allowed=f"{LEAST_SITES} to {MOST_SITES} different sites",
                fix="With 1 or 2 sites a sum hides nothing from those in it: let each site add all "
                "of the noise and send its own vector, as in view='server'",
            )
        c = checks.whole(conspirators, "conspirators", 0, n - 1)
        least = (n + c) // 2 + 1
        t = max(math.ceil(2 * n / 3), least) if threshold is None else threshold
        # A site opens after t signatures under what it was told itself (Bonawitz et al. 2017,
        # section 6.2). Conspirators sign anything, the n - c others one list each. Two lists would
        # take 2(t - c) ≤ n - c others, and 2t > n + c rules that out: all that open were told the
        # same. So t shares of a secret come together of one kind only; of the other kind there are
        # those of the conspirators, and c < t because t ≤ n. A survivor that was told of other
        # dealers signs nothing with them, and its seed is opened. But of the t - 1 dealers beside
        # it, c conspire and n - t - 1 others at most were lost, since t signers and it were not:
        # its mask with one at least stays unknown.
        if checks.whole(t, "threshold", 1, n) * 2 <= n + c:
            raise FedcoverError(
                f"threshold is {t} for {n} sites of which {c} may conspire with the server",
                allowed=f"{least} to {n}: twice the threshold is more than {n} + {c}",
                fix="With fewer, a lying server and they could have some sites open a site's "
                "self-mask and others its key, and see its vector: raise the threshold",
            )
        whole = {name: tuple(int(d) for d in shape) for name, shape in shapes.items()}
        count = sum(math.prod(shape) for shape in whole.values())
        if any(d < 0 for s in whole.values() for d in s) or not 1 <= count <= MOST_INTEGERS:
            raise FedcoverError(
                f"the arrays of the sum have shapes {whole!r:.200}",
                allowed=f"1 to {MOST_INTEGERS} integers in all",
                fix="Give the shape of each array, such as {'bins': (1000,)}",
            )
        for attribute, value in (
            ("run", run),
            ("sites", tuple(sites)),
            ("shapes", whole),
            ("query", Message("sum") if query is None else query),
            ("threshold", int(t)),
            ("conspirators", int(c)),
        ):
            object.__setattr__(self, attribute, value)

    @property
    def count(self) -> int:
        """How many integers a site contributes."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def digest(self) -> bytes:
        """Stands for all of it in signatures, keys and later messages.

        Equal specifications have equal bytes, so a signature or a key made for one run fits no
        other: what was said in it cannot be replayed.
        """
        # What is hashed, sent and stored keeps the names of version 1: "terms" for this, "question"
        # for its query, "card" for a key advertisement.
        return crypto.digest("terms", wire.encode(self.to_message()))

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """These sites in the order of the run; the names must be known."""
        return tuple(name for name in self.sites if name in names)

    def to_message(self) -> Message:
        """The invitation, the first message of a run."""
        arrays = {f"shape:{name}": np.array(s, dtype=np.int64) for name, s in self.shapes.items()}
        return stage_message(
            "keys",
            {
                "run": to_array(self.run.encode()),
                "sites": names_to_array(self.sites),
                "question": to_array(wire.encode(self.query)),
                **arrays,
            },
            threshold=self.threshold,
            conspirators=self.conspirators,
        )

    @classmethod
    def of_message(cls, invitation: Message) -> SumSpec:
        """What an invitation says; refuses what `SumSpec` refuses, whoever invites."""
        shapes = {
            key.removeprefix("shape:"): tuple(array.ravel().tolist())
            for key, array in invitation.arrays.items()
            if key.startswith("shape:") and array.dtype == np.int64
        }
        spec = cls(
            run=read_text(invitation, "run"),
            sites=read_names(invitation, "sites"),
            shapes=shapes,
            query=wire.decode(read_bytes(invitation, "question")),
            threshold=checks.whole(invitation.numbers.get("threshold"), "threshold", 1),
            conspirators=checks.whole(invitation.numbers.get("conspirators"), "conspirators", 0),
        )
        # Signatures cover the bytes that are written here. Anything else in the message would
        # reach this site and be under no signature.
        if wire.encode(spec.to_message()) != wire.encode(invitation):
            raise refused("an invitation with more or other things in it", "what a sum is about")
        return spec


def stage_message(stage: str, arrays: Mapping[str, NDArray[Any]], **numbers: int) -> Message:
    """A message of a stage."""
    return Message(f"secure-sum/{stage}", arrays, {"version": VERSION, **numbers})


def stage_of(message: Message) -> str:
    """The stage of a message that is of this version of the protocol."""
    version = message.numbers.get("version")
    if type(version) is not int or version != VERSION:
        found = f"version {version}" if type(version) is int else "no version number"
        raise FedcoverError(
            f"a message of a secure sum with {found}",
            allowed=f"version {VERSION}",
            fix="Install the same version of fedcover at the server and at all sites",
        )
    stage = message.kind.removeprefix("secure-sum/")
    if stage not in STAGES or message.kind == stage:
        raise refused("a message that is of no stage of a secure sum", f"stages {STAGES}")
    return stage


def to_array(data: bytes) -> NDArray[np.uint8]:
    """Bytes as an array."""
    return np.frombuffer(data, dtype=np.uint8)


def read_bytes(message: Message, name: str, length: int | None = None) -> bytes:
    """The bytes of an array, of exactly this length where one is given."""
    array = message.arrays.get(name)
    good = type(array) is np.ndarray and array.dtype == np.uint8 and array.ndim == 1
    if array is None or not good or length not in (None, len(array)):
        expected = "bytes" if length is None else f"{length} bytes"
        raise refused(f"{name!r} is missing in a message, or is no such thing", expected)
    return array.tobytes()


def to_table(prefix: str, values: Mapping[str, bytes]) -> dict[str, NDArray[np.uint8]]:
    """Bytes for each site, as arrays of a message."""
    return {f"{prefix}:{name}": to_array(value) for name, value in values.items()}


def read_table(message: Message, prefix: str, length: int | None = None) -> dict[str, bytes]:
    """Bytes by site, from the arrays of a message."""
    start = prefix + ":"
    keys = [key for key in message.arrays if key.startswith(start)]
    return {key.removeprefix(start): read_bytes(message, key, length) for key in keys}


def names_to_array(names: tuple[str, ...]) -> NDArray[np.uint8]:
    """Names, one on each line."""
    return to_array("\n".join(names).encode())


def read_text(message: Message, key: str) -> str:
    """UTF-8 text that travels as bytes."""
    try:
        return read_bytes(message, key).decode()
    except UnicodeDecodeError:
        raise refused(f"{key!r} in a message is not text", "UTF-8 text") from None


def read_names(message: Message, key: str) -> tuple[str, ...]:
    """The names of `names_to_array`, not checked any further."""
    return tuple(read_text(message, key).split("\n"))


def refused(
    given: str,
    allowed: str,
    fix: str = "Nothing was revealed; find out who sent it before going on",
) -> FedcoverError:
    """The error for what an honest other side does not send."""
    return FedcoverError(given, allowed=allowed, fix=fix)
