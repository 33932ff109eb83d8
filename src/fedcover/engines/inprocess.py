"""The in-process engine: all sites in this program. Counts rounds and bytes as a network would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fedcover.engines.base import Traffic, sum_replies
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message, Method, Published, SecureSum, Task
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.privacy.statement import Privacy
from fedcover.site import Site

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(frozen=True)
class InProcess:
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

    def run(self, method: Method, task: Task, sites: Sequence[Site]) -> tuple[Published, Traffic]:
        """Drive both halves of a protocol to the end."""
        by_name = {s.name: s for s in sites}
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
        traffic = Traffic(0, dict.fromkeys(by_name, 0), dict.fromkeys(by_name, 0))
        task = replace(task, source=self.source)
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
                    replies[name] = self._answer(method, task, query, by_name[name], traffic.rounds)
                    traffic.bytes_down[name] += query.nbytes
                    traffic.bytes_up[name] += replies[name].nbytes
                if isinstance(queries, SecureSum):
                    replies = {"sum": sum_replies(queries, replies, task.sites)}
                traffic.rounds += 1
                if bar and line is not None:
                    bar.advance(line)

    def _answer(
        self, method: Method, task: Task, query: Message, site: Site, number: int
    ) -> Message:
        ledger = self.ledgers.get(site.name)
        if ledger is None:
            return method.answer(query, site, self.source)
        budget = ledger.state().budget
        view = task.privacy.view if task.privacy else "server"
        privacy = Privacy(budget.epsilon, budget.delta, budget.unit, budget.relation, view)
        charges = method.charges(query, privacy, task.noisy)
        query_id = f"{self.run_name}/{site.name}/{number}/{query.kind}"
        return ledger.answer(
            query_id, query, charges, lambda: method.answer(query, site, self.source)
        )


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
