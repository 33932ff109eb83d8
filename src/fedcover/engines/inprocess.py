"""The in-process engine: all sites in this program. Counts rounds and bytes as a network would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedcover.engines.base import (
    Asked,
    Engine,
    Outcome,
    Traffic,
    charged_answer,
    drive,
    queries_of,
    query_id,
    sum_replies,
)
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message, Method, Round, SumRound, Task
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.randomness import SYSTEM, Randomness, SeededBytes
from fedcover.site import Site

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(frozen=True)
class InProcess(Engine):
    """Run every site in this process.

    Parameters
    ----------
    progress
        Show a progress bar on the terminal while rounds go by.
    ledgers
        Budgets of sites, by name: each reply is charged there before it leaves, by what the site
        itself works out from the query, and a repeated query gets the stored reply.
    run_name
        Names the run in the ledgers, and is needed with them. The same name again means a retry:
        its queries get the stored replies, even if the data have changed since.
    source
        Where noise takes its bytes. SeededBytes only in experiments and tests: noise that somebody
        can repeat protects nobody.
    """

    progress: bool = False
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)
    run_name: str = ""
    source: Randomness = SYSTEM

    def run(self, method: Method, task: Task, sites: Sequence[Site] | None) -> Outcome:
        """Both halves of a method to the end."""
        by_name = {s.name: s for s in sites or ()}
        if self.ledgers and (unknown := set(self.ledgers) - set(by_name)):
            raise FedcoverError(
                f"there is a ledger for {sorted(unknown)[0]!r}, which is not a site",
                allowed="ledgers by the names of the sites",
                fix="A misspelt name would leave the site without its ledger",
            )
        if self.ledgers and not self.run_name:
            raise FedcoverError(
                "ledgers without run_name",
                allowed="a name of the run, which a retry repeats",
                fix="Write InProcess(ledgers=..., run_name='november'), for example",
            )
        if self.ledgers and isinstance(self.source, SeededBytes):
            raise FedcoverError(
                "ledgers with a seeded source",
                allowed="ledgers where noise comes from the operating system",
                fix="Leave ledgers out of a study: noise that can be repeated protects nobody",
            )
        traffic = Traffic.of(task.sites)
        view = task.privacy.view if task.privacy else "server"
        conspirators = task.privacy.conspirators if task.privacy else 1

        def ask(number: int, asked: Asked) -> Round:
            replies: dict[str, Message] = {}
            for name, query in queries_of(asked).items():
                replies[name] = charged_answer(
                    method,
                    query,
                    by_name[name],
                    ledger=self.ledgers.get(name),
                    query_id=query_id(self.run_name, name, number, query),
                    view=view,
                    noise_sites=task.noise_sites,
                    conspirators=conspirators,
                    source=self.source,
                )
                traffic.bytes_down[name] += query.nbytes
                traffic.bytes_up[name] += replies[name].nbytes
            traffic.rounds = number + 1
            if bar and line is not None:
                bar.advance(line)
            if isinstance(asked, SumRound):
                return {"sum": sum_replies(asked, replies, task.sites)}
            return replies

        with _bar(self.progress) as bar:
            line = bar.add_task(method.label, total=method.most_rounds) if bar else None
            return Outcome(drive(method.server(task), ask), traffic)


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
