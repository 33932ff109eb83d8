"""What a run is about: everybody's signatures cover all of it, so nobody is told another story."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks, wire
from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.site import checked_name
from fedcover.wire import Message

VERSION = 1
"""Of the protocol and of a site's state: goes up with any change to what is sent or signed."""

STAGES = ("keys", "shares", "masked", "agree", "unmask")


def make(stage: str, arrays: Mapping[str, NDArray[Any]], **numbers: int) -> Message:
    """A message of a stage."""
    return Message(f"secure-sum/{stage}", arrays, {"version": VERSION, **numbers})


def stage_of(message: Message) -> str:
    """The stage of a message that is of this version of the protocol."""
    version = message.numbers.get("version")
    if type(version) is not int or version != VERSION:
        said = f"version {version}" if type(version) is int else "no version number"
        raise FedcoverError(
            f"a message of a secure sum with {said}",
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


def blob(message: Message, name: str, length: int | None = None) -> bytes:
    """The bytes of an array, of exactly this length where one is given."""
    array = message.arrays.get(name)
    good = type(array) is np.ndarray and array.dtype == np.uint8 and array.ndim == 1
    if array is None or not good or length not in (None, len(array)):
        wanted = "bytes" if length is None else f"{length} bytes"
        raise refused(f"{name!r} is missing in a message, or is no such thing", wanted)
    return array.tobytes()


def table(prefix: str, values: Mapping[str, bytes]) -> dict[str, NDArray[np.uint8]]:
    """Bytes for each site, as arrays of a message."""
    return {f"{prefix}:{name}": to_array(value) for name, value in values.items()}


def read_table(message: Message, prefix: str, length: int | None = None) -> dict[str, bytes]:
    """Bytes by site, from the arrays of a message."""
    start = prefix + ":"
    keys = [key for key in message.arrays if key.startswith(start)]
    return {key.removeprefix(start): blob(message, key, length) for key in keys}


def names_to_array(names: tuple[str, ...]) -> NDArray[np.uint8]:
    """Names, one on each line."""
    return to_array("\n".join(names).encode())


def text(message: Message, key: str) -> str:
    """UTF-8 text that travels as bytes."""
    try:
        return blob(message, key).decode()
    except UnicodeDecodeError:
        raise refused(f"{key!r} in a message is not text", "UTF-8 text") from None


def read_names(message: Message, key: str) -> tuple[str, ...]:
    """The names of `names_to_array`, not checked any further."""
    return tuple(text(message, key).split("\n"))


def refused(
    given: str,
    allowed: str,
    fix: str = "Nothing was revealed; find out who sent it before going on",
) -> FedcoverError:
    """The error for what an honest other side does not send."""
    return FedcoverError(given, allowed=allowed, fix=fix)


LEAST_SITES = 3
"""With two sites, the sum less one's own vector is the other's: there is nothing left to hide."""

MOST_SITES = 100
"""Work and traffic grow with the square of the number of sites."""

MOST_INTEGERS = 1 << 25
"""Longest vector: 256 MiB."""


@dataclass(frozen=True)
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
    question
        The query that the contributions answer: the same for all sites, or they refuse.
    threshold
        t, how many sites must stay to the end; default ⌈2n/3⌉. Needs 2t > n: with 2t ≤ n a lying
        server could ask one half of the sites for the self-mask of a site and the other half for
        its key, and so see its vector. Against c sites that conspire with it, 2t > n + c.
    """

    run: str
    sites: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    question: Message = field(default_factory=lambda: Message("sum"))
    threshold: int | None = None

    def __post_init__(self) -> None:
        checked_name(self.run, "run")
        for name in self.sites:
            checked_name(name, "name of a site")
        n = len(self.sites)
        if not LEAST_SITES <= n <= MOST_SITES or len(set(self.sites)) < n:
            raise FedcoverError(
                f"{len(set(self.sites))} different sites among the {n} of a secure sum",
                allowed=f"{LEAST_SITES} to {MOST_SITES} different sites",
                fix="With 1 or 2 sites a sum hides nothing from those in it: let each site add all "
                "of the noise and send its own vector, as in view='server'",
            )
        t = math.ceil(2 * n / 3) if self.threshold is None else self.threshold
        if checks.whole(t, "threshold", 1, n) * 2 <= n:
            raise FedcoverError(
                f"threshold is {t} for {n} sites",
                allowed=f"{n // 2 + 1} to {n}, more than half of the sites",
                fix="With half of them a lying server could ask one half for a site's self-mask "
                "and the other half for its key, and see its vector: raise the threshold",
            )
        shapes = {name: tuple(int(d) for d in shape) for name, shape in self.shapes.items()}
        count = sum(math.prod(shape) for shape in shapes.values())
        if any(d < 0 for s in shapes.values() for d in s) or not 1 <= count <= MOST_INTEGERS:
            raise FedcoverError(
                f"the arrays of the sum have shapes {shapes!r:.200}",
                allowed=f"1 to {MOST_INTEGERS} integers in all",
                fix="Give the shape of each array, such as {'bins': (1000,)}",
            )
        for name, value in (
            ("sites", tuple(self.sites)),
            ("shapes", shapes),
            ("threshold", int(t)),
        ):
            object.__setattr__(self, name, value)

    @property
    def needed(self) -> int:
        """The threshold t, given or by default."""
        assert self.threshold is not None  # set by __post_init__
        return self.threshold

    @property
    def count(self) -> int:
        """How many integers a site contributes."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def digest(self) -> bytes:
        """Stands for all of it in signatures, keys and later queries."""
        return crypto.digest("terms", wire.encode(self.query()))

    def query(self) -> Message:
        """The first query, which tells the sites."""
        arrays = {f"shape:{name}": np.array(s, dtype=np.int64) for name, s in self.shapes.items()}
        return make(
            "keys",
            {
                "run": to_array(self.run.encode()),
                "sites": names_to_array(self.sites),
                "question": to_array(wire.encode(self.question)),
                **arrays,
            },
            threshold=self.needed,
        )

    @classmethod
    def of_query(cls, query: Message) -> SumSpec:
        """What a first query tells; refuses what `SumSpec` refuses, whoever asks."""
        shapes = {
            key.removeprefix("shape:"): tuple(array.ravel().tolist())
            for key, array in query.arrays.items()
            if key.startswith("shape:") and array.dtype == np.int64
        }
        terms = cls(
            run=text(query, "run"),
            sites=read_names(query, "sites"),
            shapes=shapes,
            question=wire.decode(blob(query, "question")),
            threshold=checks.whole(query.numbers.get("threshold"), "threshold", 1),
        )
        if wire.encode(terms.query()) != wire.encode(query):
            raise refused("an invitation with more or other things in it", "the terms")
        return terms

    def in_order(self, names: set[str]) -> tuple[str, ...]:
        """These sites in the order of the run; the names must be known."""
        return tuple(name for name in self.sites if name in names)
