"""What a run would cost a site's ledger: the protocol played through with made-up records.

What a query costs follows from the query, and the queries from public facts: number of sites, of
classes and of records. So made-up records of the same number ask the same price as the true ones,
which are not touched. Other sites are taken to be as large as this one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedcover.engines.flower.run import Run
from fedcover.engines.inprocess import InProcess
from fedcover.privacy.events import Event
from fedcover.privacy.ledger_entries import Budget
from fedcover.privacy.statement import Privacy
from fedcover.protocols.base import Target, Task
from fedcover.protocols.message import Message
from fedcover.site import Site


class _Charging:
    """A method that works as the one inside, and notes what its queries cost the first site."""

    def __init__(self, method: Any, privacy: Privacy, shares: int) -> None:
        self._method, self._privacy, self._shares = method, privacy, shares
        self.events: list[Event] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def answer(self, query: Message, site: Site) -> Message:
        if site.name == "rehearsal 0":
            self.events += self._method.charges(query, self._privacy, self._shares)
        reply: Message = self._method.answer(query, site)
        return reply


def charges_of(run: Run, site: Site, budget: Budget) -> list[Event]:
    """What the site's ledger would be charged with for a run."""
    n, size = max(2, run.sites), len(site)
    names = tuple(f"rehearsal {i}" for i in range(n))
    labels = np.arange(size) % site.n_classes
    scores = np.linspace(0, 1, size + 2)[1:-1]
    given: dict[str, Any] = {"n_classes": site.n_classes, "predictions": labels}
    made_up = [Site(name, scores, labels, **given) for name in names]
    public = (run.unit, run.relation) == ("record", "replace")
    task = Task(
        sites=names,
        n_classes=site.n_classes,
        alphas=run.alphas,
        privacy=run.privacy,
        score=site.score,
        seed=run.seed,
        sizes=(size,) * n if public else None,
        fewest=run.fewest(n),
    )
    if run.method != "sketch":
        task = replace(task, targets=tuple(Target(name, (name,)) for name in names))
    view = "secure-sum" if run.sums else "server"
    privacy = Privacy(budget.epsilon or 1.0, budget.delta, budget.unit, budget.relation, view)
    method: Any = _Charging(run.make_method(), privacy, task.noisy if run.sums else 1)
    InProcess().run(method, task, made_up)
    events: list[Event] = method.events
    return events
