"""What a site accepts: from its own configuration, never from the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedcover import checks
from fedcover.engines.network.codes import Refusal
from fedcover.errors import FedcoverError
from fedcover.privacy.statement import Privacy
from fedcover.protocols.dp_fedcp import DPFedCP
from fedcover.protocols.pooled import EstimatedWeights, Pooled
from fedcover.protocols.sketch import Sketch

METHODS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "sketch": (Sketch(), ("sketch",)),
    "dp-fedcp": (
        DPFedCP(),
        ("counts", "mass", "totals", "steps", "private-counts", "private-histogram"),
    ),
    "pooled": (Pooled(), ("scores",)),
    "estimated-weights": (EstimatedWeights(), ("scores",)),
}
"""Site halves by the names that rules use, with the queries that belong to each. A site half needs
none of its method's options: every query carries what it needs."""

ALLOWED = ("sketch", "dp-fedcp")
"""What a site allows unless told otherwise: methods under which no score leaves it."""


@dataclass(frozen=True)
class Rules:
    """What a site answers.

    Parameters
    ----------
    methods
        Methods it takes part in, by name; those that pool scores must be named.
    exact
        Whether it answers without a privacy budget: exact counts then leave it.
    least_sum
        The fewest sites of a secure sum that it takes part in.
    """

    methods: tuple[str, ...] = ALLOWED
    exact: bool = False
    least_sum: int = 3

    def __post_init__(self) -> None:
        for name in self.methods:
            checks.choice(name, "methods", list(METHODS))
        checks.flag(self.exact, "exact")
        checks.whole(self.least_sum, "least_sum", 2)

    def check_method(self, name: object) -> None:
        """Refuses a method that is not allowed here."""
        if name not in self.methods:
            raise Refusal(
                "method",
                f"method {name!r:.40}",
                allowed=", ".join(self.methods),
                fix="Add it to `methods` in this site's configuration, if that is wanted",
            )

    def check_privacy(self, privacy: Privacy | None) -> None:
        """Refuses exact answers where they are not allowed."""
        if privacy is None and not self.exact:
            raise Refusal(
                "privacy",
                "a run without a privacy budget",
                allowed="runs with epsilon",
                fix="Set `exact = true` in this site's configuration, if exact counts may leave it",
            )

    def check_sum(self, threshold: int) -> None:
        """Refuses sums that may end up with too few sites."""
        if threshold < self.least_sum:
            raise Refusal(
                "size",
                f"a secure sum of {threshold} sites or more",
                allowed=f"at least {self.least_sum}",
                fix="Lower `least-sum` in this site's configuration, if that is wanted",
            )


def method_of(kind: str, allowed: str) -> Any:
    """The site half for a query, which must belong to the method of the run."""
    method, kinds = METHODS[allowed]
    if kind not in kinds:
        raise FedcoverError(
            f"query {kind!r:.40} in a run of {allowed}",
            allowed=", ".join(kinds),
            fix="Server and site run different versions of fedcover",
        )
    return method
