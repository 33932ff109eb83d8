"""Labels that share a row, as given by the user."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from fedcover.errors import FedcoverError


def numbered(groups: Sequence[Hashable]) -> tuple[int, ...]:
    """Groups as numbers from 0, in order of appearance; given as numbers or names."""
    given = list(groups) if isinstance(groups, Sequence) or np.ndim(groups) == 1 else []
    try:
        good = len({*given}) > 0 and not isinstance(groups, (str, bytes))
    except TypeError:  # a group that is a list
        good = False
    if not good:
        raise FedcoverError(
            f"groups is {groups!r}",
            allowed="None, or the group of every class in order",
            fix="groups=['animal', 'animal', 'vehicle'], for example",
        )
    number: dict[Hashable, int] = {}
    return tuple(number.setdefault(g, len(number)) for g in groups)
