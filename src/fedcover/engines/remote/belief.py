"""What a site believes of the server's last message, by what it agreed to and what it was charged.

Of ε it believes its own ledger, for its own records. What the server says of the others it keeps
apart, as reported; without a ledger all of it is. A statement that promises more than was agreed
to, or than the ledger was charged with, is refused. Nothing here looks at a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedcover.engines.base import is_of_run
from fedcover.engines.remote.codes import Refusal
from fedcover.fit import Fit, nested
from fedcover.methods import registry
from fedcover.methods.sketch.method import Sketch
from fedcover.methods.sketch.result import SketchResult
from fedcover.privacy import accounting
from fedcover.privacy.events import Event
from fedcover.privacy.ledger_entries import Entry, LedgerState, merged
from fedcover.privacy.statement import LEDGER, REPORTED, RUN, Privacy, PrivacyStatement

CLOSE = 1e-6
"""By how much an ε may be below another that it equals: both are found to 1e-9."""

LONGEST = 2000
"""Characters of one text in a statement."""

OWN_SIZE = "the number of records of this site"


@dataclass(frozen=True)
class Known:
    """What a site knows of a run without the server's last word.

    Attributes
    ----------
    run, site
        Its name, and that of this site.
    method, privacy
        What the site agreed to at the hello.
    ledger
        The site's ledger as it is now; None where it keeps none.
    summed
        Against how many conspirators its answers in this run were summed, those that were.
    size_is_public
        Whether the site said how many records it has.
    roster
        Sites that may be in a secure sum; None where this one takes part in none.
    least_sum
        The fewest sites of a secure sum that it takes part in.
    """

    run: str
    site: str
    method: str
    privacy: Privacy | None
    ledger: LedgerState | None = None
    summed: tuple[int, ...] = ()
    size_is_public: bool = True
    roster: frozenset[str] | None = None
    least_sum: int = 2

    @property
    def charged(self) -> tuple[Event, ...]:
        """What the ledger was charged with in this run."""
        answers = () if self.ledger is None else self.ledger.answers
        mine = [one for one in answers if is_of_run(one.query_id or "", self.run, self.site)]
        return tuple(event for one in mine for event in one.events)

    def statement(self, said: PrivacyStatement | None) -> PrivacyStatement | None:
        """What this site's own calibration says about privacy, given what the server says."""
        agreed = self.privacy
        if said is None or agreed is None:
            if said is not agreed:
                raise _refused("privacy was agreed to, or stated, and not both")
            return None
        self._check(said, agreed)
        if self.ledger is None:
            return replace(said, word=REPORTED)
        budget, events = self.ledger.budget, self.charged
        # With a δ of the server's choice any ε is 0: the ledger's own is what the site can mean.
        delta = min(agreed.delta, budget.delta)
        kind = {f.name: getattr(agreed, f.name) for f in fields(Privacy)}
        return PrivacyStatement(
            **kind
            | {
                "epsilon": accounting.epsilon(merged(events), delta),
                "delta": delta,
                "unit": budget.unit,
                "relation": budget.relation,
            },
            events=events,
            public=(OWN_SIZE,) * self.size_is_public,
            effect=said.effect,
            home=said.home,
            word=LEDGER,
            reported=said,
        )

    def _check(self, said: PrivacyStatement, agreed: Privacy) -> None:
        """Refuses a statement that cannot be true of this run."""
        # A second hello may have announced what the charges were not made for.
        if self.summed and not (agreed.secure_sum and min(self.summed) >= agreed.conspirators):
            raise _refused("the statement of privacy holds against more than the sums of this run")
        for one in fields(Privacy):
            name = one.name
            mine, theirs = getattr(agreed, name), getattr(said, name)
            if name not in ("epsilon", "delta") and mine != theirs:
                raise _refused(f"the statement of privacy has another {name} than was agreed to")
        texts = (said.effect, said.home, *said.public, *(event.what for event in said.events))
        if not all(text.isprintable() and len(text) <= LONGEST for text in texts):
            raise _refused("the statement of privacy has words that cannot be")
        if said.word != RUN or said.reported is not None:
            raise _refused("the statement of privacy stands on a word that is not the server's")
        if said.epsilon < accounting.epsilon(merged(said.events), said.delta) * (1 - CLOSE):
            raise _refused("the statement of privacy has less ε than its own events spend")
        # A renewed sketch states more than this run was to spend. Less is what a liar would say.
        if said.delta < agreed.delta or said.epsilon < self._least(agreed) * (1 - CLOSE):
            raise _refused(
                "the statement of privacy promises more than was agreed to, or than this site's "
                "ledger was charged with"
            )

    def _least(self, agreed: Privacy) -> float:
        """The least ε that can have been spent in this run, as far as this site knows."""
        if self.ledger is not None:
            budget = self.ledger.budget
            if (budget.unit, budget.relation) == (agreed.unit, agreed.relation):
                return accounting.epsilon(merged(self.charged), agreed.delta)
        return agreed.epsilon if registry.named(self.method).queries else 0.0

    def check_method(self, name: object) -> None:
        """Refuses the result of another method than the site agreed to."""
        if name != self.method:
            raise _refused(f"the result is of method {name!r:.40}, agreed to was {self.method!r}")

    def check_fit(self, fit: Fit, alphas: tuple[float, ...], n_sites: int) -> None:
        """Refuses numbers of a fit that no honest run publishes."""
        if not np.array_equal(nested(alphas, fit.positions), fit.positions):
            raise _refused("a threshold grows with α")
        if n_sites > fit.available or float(fit.records.sum()) > fit.available * (1 + CLOSE):
            raise _refused("more sites, or more records used, than there are records")
        if fit.coverage_error is not None and (fit.coverage_error > 1).any():
            raise _refused("a coverage that is off by more than 1, and it is a share")

    def check_sketch(self, sketch: SketchResult) -> None:
        """Refuses a sketch that no honest run of this kind publishes."""
        table, agreed = sketch.table, self.privacy
        if not issubclass(registry.named(self.method).method, Sketch):
            raise _refused(f"a sketch in a run of {self.method}")
        if table.exact != (agreed is None) or table.layout.factored == table.exact:
            raise _refused("a sketch with noise that was not agreed to, or without")
        summed = agreed is not None and agreed.secure_sum and self.roster is not None
        if summed and not self._may_be_summed(table.sites):
            raise _refused("a secure sum of too few sites, or of sites that are not known here")
        if table.exact:
            _check_counts(sketch)

    def _may_be_summed(self, sites: tuple[str, ...]) -> bool:
        return len(sites) >= self.least_sum and (self.roster or frozenset()).issuperset(sites)


def rounds_of(answers: Iterable[Entry], run: str, site: str) -> set[str]:
    """The numbers of the rounds of a run in which a ledger was charged."""
    names = (one.query_id or "" for one in answers)
    begin = f"{run}/{site}/"
    return {n.removeprefix(begin).split("/")[0] for n in names if is_of_run(n, run, site)}


def _check_counts(sketch: SketchResult) -> None:
    """Refuses counts without noise that do not add up."""
    table = sketch.table
    row, rows = table.layout.row_of, table.layout.rows
    parts: list[Any] = [table.table, table.labels]
    parts += [] if table.confusion is None else [table.confusion]
    good = all((part >= 0).all() for part in parts)
    good = good and len({int(part.sum()) for part in parts}) == 1
    by_row = np.bincount(row, table.labels, rows)
    good = good and np.array_equal(by_row, table.table.sum(axis=1))
    if not good or table.records not in (None, int(table.labels.sum()) // table.scale):
        raise _refused("a sketch without noise whose counts do not add up")


def _refused(why: str) -> Refusal:
    return Refusal(
        "result",
        f"what was published cannot be: {why}",
        allowed="what a run publishes that this site took part in, and agreed to",
        fix="Do not use this server's results: it is broken, or it lies. The calibration that was "
        "there before is still there",
    )
