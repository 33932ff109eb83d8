"""Where privacy noise takes its bytes: the operating system, or a seed in experiments and tests.

What draws noise takes a source as an argument, so its type says which of the two it was.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedcover import checks


@final
@dataclass(frozen=True)
class SystemBytes:
    """Bytes of the operating system, which nobody can repeat."""

    def take(self, count: int) -> bytes:
        """So many random bytes."""
        return os.urandom(count)


@final
@dataclass(frozen=True)
class SeededBytes:
    """Bytes from a seed, for experiments and tests: noise that can be repeated protects nobody.

    One object is one stream: it goes on where the last call ended. An equal new object starts over.

    Parameters
    ----------
    seed, repetition
        What the bytes depend on; each pair has a stream of its own.
    """

    seed: int
    repetition: int = 0
    _stream: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key = [checks.whole(getattr(self, name), name, 0) for name in ("seed", "repetition")]
        object.__setattr__(self, "_stream", np.random.Generator(np.random.Philox(key=key)))

    def take(self, count: int) -> bytes:
        """The next bytes of the stream."""
        return self._stream.bytes(count)


Randomness = SystemBytes | SeededBytes

SYSTEM = SystemBytes()


def randbits(source: Randomness, count: int) -> int:
    """A uniform whole number of so many bits."""
    return int.from_bytes(source.take(-(-count // 8))) >> (-count % 8)


def randbelow(source: Randomness, limit: int) -> int:
    """A uniform whole number from 0 to limit - 1."""
    while (number := randbits(source, limit.bit_length())) >= limit:
        pass
    return number


def sample(source: Randomness, population: int, count: int) -> NDArray[np.int64]:
    """So many different numbers below `population`; all subsets have the same probability."""
    order = list(range(population))
    for i in range(count):  # the first steps of a Fisher-Yates shuffle
        j = i + randbelow(source, population - i)
        order[i], order[j] = order[j], order[i]
    return np.array(order[:count], dtype=np.int64)
