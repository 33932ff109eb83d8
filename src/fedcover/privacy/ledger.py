"""The budget of one site, in a SQLite file beside its data: check, write, then answer.

`Ledger.answer` does everything about a query in one transaction that locks out all others: look for
an earlier answer, check the budget, compute the reply, write charge and reply together, commit. The
reply is handed out only after the commit. A crash therefore leaves either no trace (the noise was
seen by nobody, and a retry draws anew) or a stored reply (and a retry gets that one).

Every answer checks all hashes of the ledger again, and the seal on the last one, which only the
holder of the site's key can make. A file that is damaged, edited, foreign or missing ends in an
error: an unanswered query costs a retry, a forgotten charge costs the promise. What a seal cannot
show is a ledger put back to an older copy of itself by someone with access to the disk; so the
coordinator keeps the last `LedgerState.head` of every site, and refuses a ledger without it.

Choosing the next query by earlier answers and stopping at the budget is sound for Gaussian
releases (Smith and Thakurta 2022) and for Rényi accounting (Feldman and Zrnic 2021): the total is
that of one composition fixed in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from sqlite3 import Connection
from typing import Any

from fedcover import wire
from fedcover._io.facts import digest
from fedcover.errors import BudgetError, FedcoverError, FileError
from fedcover.privacy import accounting, ledger_data
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
from fedcover.privacy.ledger_key import LedgerKey
from fedcover.privacy.ledger_store import LedgerFile
from fedcover.wire import Message

LONGEST_ID = 200

MOST_ANSWERS, MOST_BYTES = 10_000, 1 << 30
"""Answers whose replies a ledger keeps, and bytes of its file, after which it answers nothing new:
a query that costs nothing, or next to it, must not fill the site's disk."""


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
    key
        The site's private key, an OpenSSH file. With it nobody else can change the ledger
        unnoticed; without one, whoever can write the file can. A ledger is opened with the key it
        was made with, or none.
    timeout
        Seconds to wait for another process that is answering.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        create: Budget | None = None,
        key: str | Path | None = None,
        timeout: float = 60.0,
    ) -> None:
        held = None if key is None else LedgerKey.of_file(key)
        self._file = LedgerFile(path, timeout, held)
        if create is not None:
            name, nonce = None if held is None else held.name, token_hex(16)
            self._file.create(Entry(0, _now(), 0.0, START, create, key=name, nonce=nonce))
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
                self._check_room(state)
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
                if earlier.number < state.kept_from:
                    raise FedcoverError(
                        f"query {query_id!r} was answered on {earlier.when}, and its reply was "
                        "removed since",
                        allowed="queries whose reply is kept: a second draw would say more",
                        fix="Ask under a new name, with new budget",
                    )
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
            if budget.delta > state.budget.delta and state.answers:
                raise FedcoverError(
                    f"delta is {budget.delta:g}, above {state.budget.delta:g}, after "
                    f"{len(state.answers)} answers",
                    allowed="a smaller delta: at a larger one, what was spent would look like less",
                    fix="Raise epsilon, if more may be learned",
                )
            return self._note(db, state, budget=budget)

    def rekey(self, new_key: str | Path) -> LedgerState:
        """Seals the ledger with another key from here on, or with its first one.

        What was spent before stays, and is counted anew. This object has the new key afterwards.
        """
        key, before = LedgerKey.of_file(new_key), self._file.key
        try:
            with self._file.transaction("IMMEDIATE") as db:
                state = self._file.read(db)
                self._file.key = key
                return self._note(db, state, key=key.name)
        except BaseException:
            self._file.key = before
            raise

    def check_data(self, data: str | Path) -> LedgerState:
        """Refuses records that belong to another ledger, or that are not those it is bound to."""
        state = self.state()
        ledger_data.refuse_others(Path(data), state.name)
        self._check_fingerprint(self._fingerprint(Path(data)), Path(data), state)
        return state

    def bind(self, data: str | Path, *, changed: bool = False) -> LedgerState:
        """Binds the ledger to a file of records, whose content it then refuses to see changed.

        A file has one ledger, named by a tag beside it. The first binding, and with `changed` every
        later one to other content, becomes an entry. Without a key the content is not looked at.
        """
        data, state = Path(data), self.state()
        tagged = ledger_data.refuse_others(data, state.name)
        found = self._fingerprint(data)
        if tagged and found == state.data:  # as at every start but the first
            return state
        with self._file.transaction("IMMEDIATE") as db:
            state = self._file.read(db)
            if not changed:
                self._check_fingerprint(found, data, state)
            ledger_data.claim(data, state.name)
            return state if found == state.data else self._note(db, state, data=found)

    def trim(self) -> LedgerState:
        """Removes the replies of all answers so far, for room; a query among them is refused then.

        What was spent stays. Interrupted runs of before cannot be repeated.
        """
        with self._file.transaction("IMMEDIATE") as db:
            self._file.trim(db)
            state = self._note(db, self._file.read(db), trimmed=True)
        self._file.shrink()
        return state

    def _note(self, db: Connection, state: LedgerState, **change: Any) -> LedgerState:
        """The state after something that holds from here on; what was spent is counted anew."""
        budget = change.get("budget") or state.budget
        spent = accounting.epsilon(merged(state.events), budget.delta)
        entry = Entry(len(state.entries), _now(), spent, state.head, **change)
        self._file.append(db, entry, None)
        return self._file.read(db)

    def _fingerprint(self, data: Path) -> str | None:
        """What stands for the content of the records in an entry; None without a key."""
        key = self._file.key
        return None if key is None else key.fingerprint(ledger_data.content(data))

    def _check_fingerprint(self, found: str | None, data: Path, state: LedgerState) -> None:
        if state.data is not None and found != state.data:
            raise FileError(
                f"the records {data} are not those that the ledger {self.path.name} is bound to",
                allowed="the same content, or a change that the ledger knows of",
                fix="Were records added or corrected, then say so: "
                f"fedcover ledger data {self.path} --data {data} --key KEY. What was spent stays",
            )

    def _check_room(self, state: LedgerState) -> None:
        """Refuses a new answer where too many are kept already."""
        kept = sum(entry.number >= state.kept_from for entry in state.answers)
        size = self.path.stat().st_size
        if kept >= MOST_ANSWERS or size >= MOST_BYTES:
            raise BudgetError(
                f"the ledger {self.path.name} keeps {kept:,} replies in {size:,} bytes",
                allowed=f"fewer than {MOST_ANSWERS:,}, in fewer than {MOST_BYTES:,}",
                fix="Look at who asks so much (`fedcover ledger show`), then remove old replies: "
                "fedcover ledger trim. What was spent stays, and is never answered again",
            )

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
