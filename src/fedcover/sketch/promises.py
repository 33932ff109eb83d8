"""What is promised about privacy when sketches are renewed or added."""

from __future__ import annotations

from dataclasses import replace

from fedcover.errors import FedcoverError
from fedcover.privacy import accounting
from fedcover.privacy.statement import PrivacyStatement


def composed(
    earlier: PrivacyStatement | None, statement: PrivacyStatement | None
) -> PrivacyStatement | None:
    """The statement of a renewed sketch: whoever has both knows both, so both are spent."""
    if earlier is None or statement is None:
        raise FedcoverError(
            "a sketch without privacy was collected from the same data, or is to be",
            allowed="privacy in both",
            fix="Without privacy there is no budget to add: leave previous out",
        )
    _same_kind(earlier, statement, "previous has {what} {mine!r}")
    delta = max(earlier.delta, statement.delta)
    events = (*earlier.events, *statement.events)
    return replace(statement, events=events, delta=delta, epsilon=accounting.epsilon(events, delta))


def either(one: PrivacyStatement | None, two: PrivacyStatement | None) -> PrivacyStatement | None:
    """What holds for a record that is in one of two disjoint collections: the weaker promise."""
    if one is None or two is None:
        if one is two:
            return None
        raise FedcoverError(
            "one of the two sketches has no privacy",
            allowed="privacy in both, or in none",
            fix="The sum would promise less than one of them did",
        )
    _same_kind(one, two, "the two sketches differ in privacy.{what}")
    delta = max(one.delta, two.delta)
    weaker = max(one, two, key=lambda s: (accounting.epsilon(s.events, delta), repr(s.events)))
    public = tuple(sorted({*one.public, *two.public}))
    epsilon = accounting.epsilon(weaker.events, delta)
    return replace(weaker, delta=delta, epsilon=epsilon, public=public)


def _same_kind(one: PrivacyStatement, two: PrivacyStatement, given: str) -> None:
    """Budgets of different kinds do not add up."""
    for what in ("unit", "relation", "view"):
        mine = getattr(one, what)
        if mine != getattr(two, what):
            raise FedcoverError(
                given.format(what=what, mine=mine),
                allowed=f"the same {what} in both",
                fix="Collect the second as the first: budgets of different kinds do not add up",
            )
