"""What a site accepts: from its own configuration, never from the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedcover import checks
from fedcover.engines.remote.codes import Refusal
from fedcover.errors import BudgetError, FedcoverError
from fedcover.methods import registry
from fedcover.privacy import accounting
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.ledger_entries import TOLERANCE, LedgerState, merged
from fedcover.privacy.statement import Privacy

MOST_ANNOUNCED = 100.0
"""ε of a run beyond which its noise is not worked out: more is as good as none."""


@dataclass(frozen=True)
class SitePolicy:
    """What a site answers.

    Parameters
    ----------
    methods
        Methods it takes part in, by name; those that send raw scores must be named.
    exact
        Whether it answers without a ledger, and so without a budget of its own: exact counts may
        leave it then, and what a run says of its noise is the server's word.
    least_sum
        The fewest sites of a secure sum that it takes part in.
    conspirators
        c, against how many other sites that conspire with the server a secure sum must hold at
        least. With 0 it trusts all of them: one that tells the server what it knows is then enough.
    """

    methods: tuple[str, ...] = field(default_factory=registry.usual_names)
    exact: bool = False
    least_sum: int = 3
    conspirators: int = 1

    def __post_init__(self) -> None:
        for name in self.methods:
            registry.named(name)
        checks.flag(self.exact, "exact")
        checks.whole(self.least_sum, "least_sum", 2)
        checks.whole(self.conspirators, "conspirators", 0)

    def check_method(self, name: object) -> None:
        """Refuses a method that is not allowed here."""
        if name not in self.methods:
            raise Refusal(
                "method",
                f"method {name!r:.40}",
                allowed=", ".join(self.methods),
                fix="Add it to `methods` in this site's configuration, if that is wanted",
            )

    def check_privacy(self, privacy: Privacy | None, has_ledger: bool) -> None:
        """Refuses runs that nobody here would keep account of, unless exact counts may leave.

        A server chooses the noise, how often it asks and under which name. Only a ledger adds up.
        """
        if has_ledger and privacy is None:
            raise Refusal(
                "privacy",
                "a run without a privacy budget, at a site with a ledger",
                allowed="runs with epsilon",
                fix="Set `exact = true` in this site's configuration, and no `ledger`, if exact "
                "counts may leave it",
            )
        if privacy is not None and privacy.secure_sum:
            self._check_conspirators(privacy.conspirators)
        if not has_ledger and not self.exact:
            raise Refusal(
                "privacy",
                "a run "
                + ("without a privacy budget, " if privacy is None else "")
                + "at a site without a ledger",
                allowed="runs with epsilon, at sites with a ledger",
                fix="Make a ledger: fedcover ledger set-budget FILE --create, and set `ledger` in "
                "this site's configuration; or `exact = true`, if exact counts may leave it",
            )

    def check_sum(self, threshold: int, conspirators: int, announced: Privacy | None) -> None:
        """Refuses sums that may end up with too few sites, or hold against too few.

        That the threshold is large enough for the conspirators, 2t > n + c, is what a `SumSpec`
        checks, at this site too.
        """
        self._check_conspirators(conspirators)
        if announced is not None and not announced.secure_sum:
            # Its noise would be shared out, and the statement say that it holds however many tell.
            raise Refusal(
                "agreement",
                f"a secure sum in a run that announced the view {announced.view!r}",
                allowed="secure sums in runs of view 'secure-sum'",
                fix="Do not answer this server: its statement would not hold",
            )
        if announced is not None:
            promised = announced.conspirators
            if conspirators < promised:
                raise Refusal(
                    "conspirators",
                    f"a secure sum that holds against {conspirators} sites that conspire, in a run "
                    f"that announced {promised}",
                    allowed="sums as they were announced",
                    fix="Do not answer this server: its statement would not hold",
                )
        if threshold < self.least_sum:
            raise Refusal(
                "size",
                f"a secure sum of {threshold} sites or more",
                allowed=f"at least {self.least_sum}",
                fix="Lower `least-sum` in this site's configuration, if that is wanted",
            )

    def _check_conspirators(self, announced: int) -> None:
        if announced < self.conspirators:
            raise Refusal(
                "conspirators",
                f"a secure sum that holds if {announced} other sites conspire with the server",
                allowed=f"at least {self.conspirators}",
                fix="Lower `conspirators` in this site's configuration, if so many of the others "
                "are trusted",
            )


def check_remaining_budget(state: LedgerState, announced: Privacy, run: str) -> None:
    """Refuses a new run that the ledger could not pay for to its end, before anybody has paid.

    Only where ledger and run speak of the same unit and relation; else the queries tell.
    """
    budget = state.budget
    known = any((entry.query_id or "").startswith(run + "/") for entry in state.answers)
    if known or (budget.unit, budget.relation) != (announced.unit, announced.relation):
        return
    epsilon = min(announced.epsilon, MOST_ANNOUNCED)
    noise = accounting.noise_multiplier(epsilon, announced.delta)
    events = [*state.events, GaussianRelease("the run", noise, 1.0)]
    total = accounting.epsilon(merged(events), budget.delta)
    if total > budget.epsilon + TOLERANCE:
        raise BudgetError(
            f"a run of ε = {announced.epsilon:.4g}; with ε = {state.spent:.4g} already spent that "
            f"makes {total:.4g} at δ = {budget.delta:g}",
            allowed=f"at most ε = {budget.epsilon:g} in all",
            fix="Have the run ask for less, or raise the budget with `fedcover ledger set-budget`",
        )


def site_half(kind: str, allowed: str) -> type[Any]:
    """The class that answers a query, which must belong to the method of the run.

    A site half needs none of its method's options: every query carries what it needs.
    """
    entry = registry.named(allowed)
    if kind not in entry.queries:
        raise FedcoverError(
            f"query {kind!r:.40} in a run of {allowed}",
            allowed=", ".join(entry.queries) or "no query",
            fix="Server and site run different versions of fedcover",
        )
    return entry.method
