"""What an engine is: it carries the rounds of a protocol and counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedcover.errors import FedcoverError
from fedcover.methods.base import Message, Method, Published, SecureSum, Task, fits_a_sum
from fedcover.site import Site


@dataclass
class Traffic:
    """Rounds of a run, and the payload bytes each site sent (up) and received (down)."""

    rounds: int = 0
    bytes_up: dict[str, int] = field(default_factory=dict)
    bytes_down: dict[str, int] = field(default_factory=dict)


class Engine(Protocol):
    """Drives the server half of a method against its site halves."""

    def run(self, method: Method, task: Task, sites: Sequence[Site]) -> tuple[Published, Traffic]:
        """What the server published, and what it took."""
        ...


def sum_replies(asked: SecureSum, replies: Mapping[str, Message], sites: Sequence[str]) -> Message:
    """The sum of replies that the server sees one by one."""
    totals = {key: np.zeros(shape, dtype=np.int64) for key, shape in asked.shapes.items()}
    kind = next(iter(asked.queries.values())).kind
    for name in asked.queries:
        arrays = replies[name].arrays
        for key, total in totals.items():
            part = arrays.get(key, np.empty(0))
            good = set(arrays) == set(totals) and part.dtype == np.int64
            good = good and part.shape == total.shape
            if not good or not fits_a_sum(part, len(asked.queries)):
                raise FedcoverError(
                    f"site {name!r} answered {key!r} with something that cannot be",
                    allowed=f"whole numbers of shape {total.shape} whose sum has 64 bits",
                    fix="Check that site's data, or leave it out",
                )
            total += part
    present = [k for k, name in enumerate(sites) if name in asked.queries]
    return Message(kind, {**totals, "present": np.array(present, dtype=np.int64)})
