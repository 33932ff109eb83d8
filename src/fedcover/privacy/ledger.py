"""The budget of one site, in a SQLite file beside its data: check, write, then answer.

`Ledger.answer` does everything about a query in one transaction that locks out all others: look for
an earlier answer, check the budget, compute the reply, write charge and reply together, commit. The
reply is handed out only after the commit. A crash therefore leaves either no trace (the noise was
seen by nobody, and a retry draws anew) or a stored reply (and a retry gets that one).

Every answer checks all hashes of the ledger again. A file that is damaged, edited, foreign or
missing ends in an error: an unanswered query costs a retry, a forgotten charge costs the promise.
What a hash chain cannot show is a ledger put back to an older copy of itself by someone with access
to the disk; keep `LedgerState.head`, which the export contains, elsewhere to notice that.

Choosing the next query by earlier answers and stopping at the budget is sound for Gaussian
releases (Smith and Thakurta 2022) and for Rényi accounting (Feldman and Zrnic 2021): the total is
that of one composition fixed in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from fedcover import wire
from fedcover._io.facts import digest
from fedcover.errors import BudgetError, FedcoverError
from fedcover.privacy import accounting
from fedcover.privacy.events import Event, GaussianRelease
from fedcover.privacy.ledger_entries import (
    START,
    TOLERANCE,
    Budget,
    Entry,
    LedgerState,
    checked_event,
    merged,
)
from fedcover.privacy.ledger_store import LedgerFile
from fedcover.wire import Message

LONGEST_ID = 200


class Ledger:
    """The privacy budget of one site, and every reply that was charged to it.

    The object keeps no file open and may be shared between threads and processes. Keep the file on
    a local disk: locks on network drives do not hold.

    Parameters
    ----------
    path
        The file. A missing one is an error, never a fresh start.
    create
        Make a new ledger with this budget; refused if the file exists.
    timeout
        Seconds to wait for another process that is answering.
    """

    def __init__(
        self, path: str | Path, *, create: Budget | None = None, timeout: float = 60.0
    ) -> None:
        self._file = LedgerFile(path, timeout)
        if create is not None:
            self._file.create(Entry(0, _now(), 0.0, START, create))
        with self._file.transaction("DEFERRED") as db:
            self._file.check_all(db)

    @property
    def path(self) -> Path:
        """Where the ledger is."""
        return self._file.path

    def state(self) -> LedgerState:
        """What the ledger says now."""
        with self._file.transaction("DEFERRED") as db:
            return self._file.read(db)

    def answer(
        self,
        query_id: str,
        query: Message,
        events: Sequence[Event],
        compute: Callable[[], Message],
    ) -> Message:
        """The reply to a query: the stored one, or a new one within the budget.

        Parameters
        ----------
        query_id
            Name of the query, unique to the run and the round. The same name must always come with
            the same query; it then gets the same reply, byte for byte, and costs nothing more.
        query
            The query; only its digest is stored.
        events
            What the reply will release, in the ledger's unit and relation.
        compute
            Makes the reply, noise included. Called at most once, and not at all if the query was
            answered before or the budget does not allow it.
        """
        query_id = _checked_id(query_id)
        released = tuple(checked_event(event) for event in events)
        asked = digest(wire.encode(query))
        before = self._file.identity()
        with self._file.transaction("IMMEDIATE") as db:
            state = self._file.read(db)
            earlier = state.answer_to(query_id)
            if earlier is None:
                spent = self._affordable(state, released)
                reply = wire.encode(compute())
                entry = Entry(
                    number=len(state.entries),
                    when=_now(),
                    spent=spent,
                    previous=state.head,
                    query_id=query_id,
                    query=asked,
                    reply=digest(reply),
                    events=released,
                )
                self._file.append(db, entry, reply)
            elif earlier.query == asked and tuple(earlier.events) == tuple(released):
                reply = self._file.reply(db, earlier)
            else:
                raise FedcoverError(
                    f"query {query_id!r} was answered on {earlier.when} with other content",
                    allowed="the same query again, or a new name for a new query",
                    fix="Two runs share a name, or someone tries to get two answers for one",
                )
        if self._file.identity() != before:  # written into a file that is the ledger no more
            raise self._file.damaged("it was replaced while a query was being answered")
        return wire.decode(reply)

    def set_budget(self, epsilon: float | None = None, delta: float | None = None) -> LedgerState:
        """Change the budget from here on; the change becomes an entry of its own.

        A budget below what is already spent is accepted: nothing new is answered then.

        Parameters
        ----------
        epsilon, delta
            The new values; None keeps the old one. What was spent is counted anew at the new δ.
        """
        with self._file.transaction("IMMEDIATE") as db:
            state = self._file.read(db)
            budget = replace(
                state.budget,
                epsilon=state.budget.epsilon if epsilon is None else epsilon,
                delta=state.budget.delta if delta is None else delta,
            )
            spent = accounting.epsilon(merged(state.events), budget.delta)
            entry = Entry(len(state.entries), _now(), spent, state.head, budget)
            self._file.append(db, entry, None)
            return self._file.read(db)

    def _affordable(self, state: LedgerState, events: tuple[Event, ...]) -> float:
        """ε after these events, if the budget allows them."""
        budget = state.budget
        hidden = any(isinstance(e, GaussianRelease) and e.sampled is not None for e in events)
        if hidden and (budget.unit, budget.relation) != ("site", "replace"):
            raise FedcoverError(
                "the query counts on hidden sampling of sites, and the budget is for "
                f"unit {budget.unit!r} under {budget.relation!r}",
                allowed="such a query where the unit is 'site' and the relation 'replace'",
                fix="Ask without sampling, or keep a ledger for the whole site",
            )
        total = accounting.epsilon(merged([*state.events, *events]), budget.delta)
        if total > budget.epsilon + TOLERANCE:
            alone = accounting.epsilon(merged(events), budget.delta)
            raise BudgetError(
                f"the query asks for ε = {alone:.4g}; with ε = {state.spent:.4g} already spent "
                f"that makes {total:.4g} at δ = {budget.delta:g}",
                allowed=f"at most ε = {budget.epsilon:g} in all, the budget of {self.path.name}",
                fix="Ask with more noise or fewer rounds, or have the site raise its budget with "
                "`fedcover ledger set-budget`. Nothing was computed or charged",
            )
        return total


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checked_id(query_id: str) -> str:
    good = isinstance(query_id, str) and 0 < len(query_id) <= LONGEST_ID
    if not good or not query_id.isprintable():
        raise FedcoverError(
            f"query_id is {query_id!r:.80}",
            allowed=f"1 to {LONGEST_ID} printable characters",
            fix="Name a query after its run and round, such as 'run-7/round-12'",
        )
    return query_id
