"""What an engine is: it carries the rounds of a protocol and counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedcover.protocols.base import Method, Published, Task
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
