"""What travels: a query or a reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Message:
    """A query or a reply: a kind, named arrays, named numbers. Nothing else ever travels."""

    kind: str
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Payload in bytes: the arrays, and 8 for each number."""
        return sum(a.nbytes for a in self.arrays.values()) + 8 * len(self.numbers)
