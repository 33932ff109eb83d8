"""Privacy noise from a seed: for experiments, whose tables must come out the same twice.

Nothing else may use it: noise that somebody can repeat protects nobody. The samplers are the real
ones; only the random bytes they read are replaced, in this process and inside the `with` block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fedcover.privacy import noise


class _Seeded:
    """Stands for the operating system in `privacy.noise`, with bytes from a generator."""

    def __init__(self, seed: int, r: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=[seed, r]))

    def urandom(self, count: int) -> bytes:
        return self._generator.bytes(count)


@contextmanager
def seeded_noise(seed: int, r: int) -> Iterator[None]:
    """Noise of repetition r under a seed."""
    before = vars(noise)["os"]
    vars(noise)["os"] = _Seeded(seed, r)
    try:
        yield
    finally:
        vars(noise)["os"] = before
