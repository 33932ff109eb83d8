"""Replies added up where the sum need not be secret: all sites are in one process, or trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedcover.errors import FedcoverError
from fedcover.protocols.base import Message, SecureSum, fits_a_sum


def added_up(asked: SecureSum, replies: Mapping[str, Message], sites: Sequence[str]) -> Message:
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
