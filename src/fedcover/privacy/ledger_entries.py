"""What stands in a ledger: a budget, then answers and changes, chained by hashes.

An entry is one line of canonical JSON. It names its number and the hash of the entry before it, so
no entry can be edited, removed or moved without changing the last hash, the head; and the head is
sealed with the site's key. An entry holds what was asked (a digest), what was charged (privacy
events) and the digest of the reply; never data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from fedcover import checks
from fedcover._io.facts import facts_of, from_json, made_of, to_json
from fedcover.errors import FedcoverError, FileError
from fedcover.privacy.events import Event, GaussianRelease

TOLERANCE = 1e-8
"""By how much ε may pass the budget: ε is found to 1e-9, and a budget split over several answers
must fit when the last of them comes."""

MOST_DELTA = 0.1
"""δ times the number of records, at most: with probability δ anything may happen to a record, and
at 1/n the release of one whole record would be within the bound."""

START = "0" * 64
"""What the first entry names as the hash before it."""


@dataclass(frozen=True)
class Budget:
    """What a site allows to be learned about one unit of its data, over all answers together.

    Parameters
    ----------
    epsilon, delta
        The bound (ε, δ) on all answers ever given.
    unit
        Whom it protects: one "record", or the whole "site".
    relation
        Against what: "replace" (this unit or another in its place) or "add-remove" (there or not).
    """

    epsilon: float
    delta: float
    unit: str = "record"
    relation: str = "replace"

    def __post_init__(self) -> None:
        delta = checks.real(self.delta, "delta", 0, 1, open_low=True)
        if delta >= 1:
            raise FedcoverError("delta is 1", allowed="a number in (0, 1)", fix="Try 1e-5")
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "epsilon", checks.real(self.epsilon, "epsilon", 0, np.inf))
        checks.choice(self.unit, "unit", ["record", "site"])
        checks.choice(self.relation, "relation", ["replace", "add-remove"])

    def check_records(self, records: int) -> None:
        """Refuses a δ that is too large for so many records: above 1/(10 n)."""
        if self.delta * records > MOST_DELTA:
            raise FileError(
                f"the ledger's delta is {self.delta:g}, for {records:,} records",
                allowed=f"at most 1/(10 n) = {MOST_DELTA / records:.3g}",
                fix="Lower it: fedcover ledger set-budget LEDGER --delta "
                f"{10.0 ** np.floor(np.log10(MOST_DELTA / records)):g}",
            )


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: an answer, or something that holds from here on.

    Attributes
    ----------
    number
        Counts from 0.
    when
        Time of writing, UTC.
    spent
        ε of all answers so far, this one included, at the δ of that time.
    budget
        The budget from here on.
    key
        The fingerprint of the key that seals the ledger from here on.
    data
        The keyed fingerprint of the records that are answered from, from here on.
    trimmed
        True where the replies of all answers before were removed.
    nonce
        Of the first entry: makes its hash the name of this ledger alone.
    query_id, query
        Name of the query, and digest of its content.
    reply
        Digest of the reply's bytes.
    events
        What the answer released.
    previous
        Hash of the entry before.
    """

    number: int
    when: str
    spent: float
    previous: str
    budget: Budget | None = None
    query_id: str | None = None
    query: str | None = None
    reply: str | None = None
    events: tuple[Event, ...] = ()
    key: str | None = None
    data: str | None = None
    trimmed: bool | None = None
    nonce: str | None = None

    def facts(self) -> dict[str, Any]:
        """The entry as plain values, of which the hash is taken."""
        facts = dict(facts_of(self))
        # Entries of the first version know nothing of these, and keep their hashes.
        later = ("key", "data", "trimmed", "nonce")
        return {k: value for k, value in facts.items() if value is not None or k not in later}

    def text(self) -> str:
        """The entry as one line of canonical JSON."""
        return to_json(self.facts(), compact=True)


@lru_cache(maxsize=1 << 16)
def entry_from(text: str) -> Entry:
    """Read what `Entry.text` wrote; a ValueError or TypeError if it did not.

    The cache keeps an answer quick though it reads the whole ledger: equal text, equal entry.
    """
    entry: Entry = made_of(Entry, from_json(text))
    changes = (entry.budget, entry.key, entry.data, entry.trimmed)
    if all(change is None for change in changes) == (entry.query_id is None):
        raise ValueError("neither an answer nor a change")
    if entry.text() != text:
        raise ValueError("not as it is written")
    return entry


def checked_event(event: Event) -> Event:
    """The event as the ledger will read it back, so that what is checked is what is charged."""
    if type(event) not in get_args(Event):
        raise FedcoverError(
            f"an event is of type {type(event).__name__}",
            allowed=" or ".join(kind.__name__ for kind in get_args(Event)),
            fix="Give the events that the method emits for this reply",
        )
    checked: Event = made_of(Event, facts_of(event, Event))
    return checked


def merged(events: Sequence[Event]) -> list[Event]:
    """The same releases with equal ones counted together, so that a long ledger stays quick."""
    return [
        replace(event, count=event.count * times) if isinstance(event, GaussianRelease) else event
        for event, times in Counter(events).items()
    ]


@dataclass(frozen=True)
class LedgerState:
    """All that a ledger says at one moment, checked.

    Attributes
    ----------
    budget
        The budget in force.
    entries
        Every entry, oldest first.
    spent
        ε of all answers together, at the budget's δ.
    head
        Hash of the last entry. Kept elsewhere, it shows later that nothing was taken back: a
        ledger that was replaced by an older copy of itself does not contain it any more.
    name
        What this ledger alone is called: the beginning of its first hash.
    """

    budget: Budget
    entries: tuple[Entry, ...]
    spent: float
    head: str
    name: str

    @property
    def key(self) -> str | None:
        """The fingerprint of the key that seals it; None if nothing does."""
        return next((e.key for e in reversed(self.entries) if e.key is not None), None)

    @property
    def data(self) -> str | None:
        """The keyed fingerprint of the records that it is bound to, if it is."""
        return next((e.data for e in reversed(self.entries) if e.data is not None), None)

    @property
    def kept_from(self) -> int:
        """The number of the first entry whose reply was not removed."""
        return max((e.number for e in self.entries if e.trimmed), default=0)

    def contains(self, count: int, head: str) -> bool:
        """Whether the ledger had this head when it had so many entries."""
        heads = [*(entry.previous for entry in self.entries[1:]), self.head]
        return 0 < count <= len(heads) and heads[count - 1] == head

    @property
    def answers(self) -> tuple[Entry, ...]:
        """The entries that are answers."""
        return tuple(entry for entry in self.entries if entry.query_id is not None)

    @property
    def events(self) -> list[Event]:
        """Everything ever released."""
        return [event for entry in self.entries for event in entry.events]

    @property
    def remaining(self) -> float:
        """How far ε is from the budget.

        Not what further answers may cost: ε composes and does not add, so answers that each cost
        little fit in greater number than this difference suggests.
        """
        return max(0.0, self.budget.epsilon - self.spent)

    def answer_to(self, query_id: str) -> Entry | None:
        """The answer given to a query before, if there was one."""
        return next((entry for entry in self.entries if entry.query_id == query_id), None)

    def describe(self) -> str:
        """The state in plain words, with what it does not cover."""
        b, n = self.budget, len(self.answers)
        whom = "one record" if b.unit == "record" else "the whole site"
        change = {
            "replace": f"{whom} is the one it is, not another in its place,",
            "add-remove": f"{whom} is in the data at all",
        }[b.relation]
        left = f"ε = {self.remaining:.4g} below the budget"
        if self.spent > b.epsilon + TOLERANCE:
            left = "more than the budget now in force, so no new query is answered"
        return (
            f"Unit of privacy: {whom}; neighbouring relation: {b.relation}. "
            f"Budget: ε = {b.epsilon:g} at δ = {b.delta:g}. "
            f"Spent: ε = {self.spent:.4f} at δ = {b.delta:g} by {n} answer{'s' * (n != 1)}, "
            f"{left}. Knowing what these answers let a viewer see (of a secure sum: the sum with "
            f"the noise of all sites, not the answer) changes the odds that {change} by a "
            f"factor of at most e^{self.spent:.4g}, except with probability "
            f"{b.delta:g}. Not covered: what was released without this ledger, what other sites "
            "or other models tell about the same people, and the number and times of the queries. "
            + (
                f"Sealed with the key {self.key}."
                if self.key is not None
                else "Not keyed: whoever can write the file can change it."
            )
        )
