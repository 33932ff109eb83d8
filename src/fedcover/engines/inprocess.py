"""The in-process engine: all sites in this program. Counts rounds and bytes as a network would."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedcover.protocols.base import Method, Published, Task
from fedcover.site import Site

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass
class Traffic:
    """Rounds of a run, and the payload bytes each site sent (up) and received (down)."""

    rounds: int = 0
    bytes_up: dict[str, int] = field(default_factory=dict)
    bytes_down: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class InProcess:
    """Run every site in this process.

    progress : show a progress bar on the terminal while rounds go by.
    """

    progress: bool = False

    def run(self, method: Method, task: Task, sites: Sequence[Site]) -> tuple[Published, Traffic]:
        """Drive both halves of a protocol to the end."""
        by_name = {s.name: s for s in sites}
        traffic = Traffic(0, dict.fromkeys(by_name, 0), dict.fromkeys(by_name, 0))
        server = method.server(task)
        with _bar(self.progress) as bar:
            line = bar.add_task(method.label, total=method.most_rounds) if bar else None
            try:
                queries = next(server)
                while True:
                    replies = {}
                    for name, query in queries.items():
                        reply = method.answer(query, by_name[name])
                        traffic.bytes_down[name] += query.nbytes
                        traffic.bytes_up[name] += reply.nbytes
                        replies[name] = reply
                    traffic.rounds += 1
                    if bar and line is not None:
                        bar.advance(line)
                    queries = server.send(replies)
            except StopIteration as done:
                return done.value, traffic


def _bar(show: bool) -> Progress | nullcontext[None]:
    if not show:
        return nullcontext()
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
