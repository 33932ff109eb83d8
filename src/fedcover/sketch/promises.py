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
    for what in ("unit", "relation", "view"):
        if getattr(earlier, what) != getattr(statement, what):
            raise FedcoverError(
                f"previous has {what} {getattr(earlier, what)!r}",
                allowed=f"the same {what} in both",
                fix="Budgets of different kinds do not add up",
            )
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
    for what in ("unit", "relation", "view"):
        if getattr(one, what) != getattr(two, what):
            raise FedcoverError(
                f"the two sketches differ in privacy.{what}",
                allowed=f"the same {what} in both",
                fix="Collect the second as the first",
            )
    delta = max(one.delta, two.delta)
    weaker = max(one, two, key=lambda s: (accounting.epsilon(s.events, delta), repr(s.events)))
    public = tuple(sorted({*one.public, *two.public}))
    epsilon = accounting.epsilon(weaker.events, delta)
    return replace(weaker, delta=delta, epsilon=epsilon, public=public)
