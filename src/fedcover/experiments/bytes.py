"""Privacy noise from a seed: for experiments, whose tables must come out the same twice.

Nothing else may use it: noise that somebody can repeat protects nobody. The samplers are the real
ones; only the random bytes they read are replaced, in this process and inside the `with` block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fedcover.methods import exponential
from fedcover.privacy import noise


class _Seeded:
    """Stands for `os` and `secrets` in the samplers, with bytes from a generator."""

    def __init__(self, seed: int, r: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=[seed, r]))

    def urandom(self, count: int) -> bytes:
        return self._generator.bytes(count)

    def randbits(self, count: int) -> int:
        return int.from_bytes(self.urandom(-(-count // 8))) >> (-count % 8)

    def randbelow(self, limit: int) -> int:
        while (found := self.randbits(limit.bit_length())) >= limit:
            pass
        return found


SOURCES = ((noise, "os"), (noise, "secrets"), (exponential, "secrets"))
"""Where the samplers get their randomness from."""


@contextmanager
def seeded_noise(seed: int, r: int) -> Iterator[None]:
    """Noise of repetition r under a seed."""
    source, before = _Seeded(seed, r), [vars(module)[name] for module, name in SOURCES]
    for module, name in SOURCES:
        vars(module)[name] = source
    try:
        yield
    finally:
        for (module, name), old in zip(SOURCES, before, strict=True):
            vars(module)[name] = old
