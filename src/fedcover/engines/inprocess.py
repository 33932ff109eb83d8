"""The in-process engine: all sites in this program. Counts rounds and bytes as a network would."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcover.engines.base import Traffic
from fedcover.protocols.base import Message, Method, Published, SecureSum, Task
from fedcover.site import Site

if TYPE_CHECKING:
    from rich.progress import Progress


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
            replies: dict[str, Message] | None = None
            while True:
                try:
                    queries = next(server) if replies is None else server.send(replies)
                except StopIteration as done:
                    return done.value, traffic
                replies = {}
                rounds = queries.queries if isinstance(queries, SecureSum) else queries
                for name, query in rounds.items():
                    replies[name] = method.answer(query, by_name[name])
                    traffic.bytes_down[name] += query.nbytes
                    traffic.bytes_up[name] += replies[name].nbytes
                if isinstance(queries, SecureSum):
                    replies = {"sum": _summed(list(replies.values()))}
                traffic.rounds += 1
                if bar and line is not None:
                    bar.advance(line)


def _summed(replies: list[Message]) -> Message:
    """What a secure sum lets the server see."""
    keys = replies[0].arrays.keys()
    arrays = {k: np.sum([r.arrays[k] for r in replies], axis=0) for k in keys}
    return Message(replies[0].kind, arrays)


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
