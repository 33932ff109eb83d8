"""The SQLite file under a ledger: made whole or not at all, checked at every use, written for good.

The journal is a rollback journal with ``synchronous=EXTRA``. Once a commit returns, the one file
holds the whole truth and its journal is gone from the disk, also after a power failure. With a
write-ahead log, charges would live for a while in a second file that a copy or a clean-up leaves
behind; with FULL, a power failure could bring the journal back and undo an answered charge.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fedcover import checks
from fedcover._io.facts import digest
from fedcover._io.writing import part_of
from fedcover.errors import FileError
from fedcover.privacy.ledger_entries import START, Entry, LedgerState, entry_from
from fedcover.privacy.ledger_key import LedgerKey

APPLICATION, SCHEMA_VERSION = 0x46434C47, 2  # "FCLG", where SQLite keeps the kind of a file
ENTRIES = "CREATE TABLE entries (number INTEGER PRIMARY KEY, hash TEXT, entry TEXT, reply BLOB)"
SCHEMAS = {
    1: (ENTRIES, "CREATE TABLE head (only_row INTEGER PRIMARY KEY, number INTEGER, hash TEXT)"),
    2: (
        ENTRIES,
        "CREATE TABLE head (only_row INTEGER PRIMARY KEY, number INTEGER, hash TEXT, seal TEXT)",
    ),
}
"""The tables of every version. One seal, on the head, holds the whole chain: seals of single
entries would let a file be cut off after any of them."""

TAKE_OVER = "fedcover ledger rekey LEDGER --new-key KEY"


class LedgerFile:
    """Entries and replies in one file; a connection is made for each use and closed after it.

    Only SQLite ever opens the file: closing any other handle on it would drop this process's locks.

    Parameters
    ----------
    path
        The file.
    timeout
        Seconds to wait for another process.
    key
        What it is sealed with; None if it is not.
    """

    def __init__(self, path: str | Path, timeout: float, key: LedgerKey | None = None) -> None:
        self.path = Path(path).absolute()
        self.key = key
        self._timeout = checks.real(timeout, "timeout", 0, 86_400)

    def identity(self) -> tuple[int, int]:
        """Which file this is on the disk, closed to other users; an error if there is none."""
        try:
            found = self.path.stat()
            if found.st_mode & 0o077:  # as versions before this one made it
                self._close(found)
        except OSError as error:
            raise FileError(
                f"the ledger {self.path} is not there ({error.strerror})",
                allowed="an existing ledger; without it, what was spent before is not known",
                fix="Put the file back. Make a new one with create=Budget(...) only if nothing "
                "was ever answered from these data: a new ledger starts at ε = 0",
            ) from None
        return found.st_dev, found.st_ino

    def _close(self, found: os.stat_result) -> None:
        if found.st_uid != os.geteuid():
            raise FileError(
                f"the ledger {self.path} is open to other users, and belongs to another one",
                allowed="a ledger that its owner alone may read and write: replies stand in it",
                fix=f"Its owner runs: chmod 600 {self.path}",
            )
        self.path.chmod(0o600)

    def create(self, first: Entry) -> None:
        """Make the file under another name and give it its own when complete."""
        try:
            with (
                part_of(self.path, 0o600, new=True) as part,
                contextlib.closing(sqlite3.connect(part, isolation_level=None)) as db,
            ):
                _make_lasting(db)
                db.execute("BEGIN IMMEDIATE")
                for statement in SCHEMAS[SCHEMA_VERSION]:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                self.append(db, first, None)
                db.execute("COMMIT")
        except FileExistsError:
            raise FileError(
                f"{self.path} exists already",
                allowed="a new file, where a ledger is to be made",
                fix="Open it as it is; its budget changes with set_budget",
            ) from None
        except (sqlite3.Error, OSError) as error:
            raise FileError(
                f"the ledger {self.path} cannot be made ({error})",
                allowed="a folder on a local disk that can be written to",
                fix="Check the folder, its permissions and free space",
            ) from error

    @contextlib.contextmanager
    def transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """A connection inside one transaction: at the end all of it is on the disk, or nothing.

        Parameters
        ----------
        kind
            "IMMEDIATE" to write: everybody else who writes waits. "DEFERRED" to read one state.
        """
        self.identity()
        uri = f"{self.path.as_uri()}?mode=rw"  # rw: never make a missing file
        try:
            with contextlib.closing(
                sqlite3.connect(uri, uri=True, timeout=self._timeout, isolation_level=None)
            ) as db:
                _make_lasting(db)
                db.execute(f"BEGIN {kind}")
                try:
                    self._check_kind(db)
                    yield db
                    db.execute("COMMIT")
                finally:
                    if db.in_transaction:
                        with contextlib.suppress(sqlite3.Error):  # the next to open it rolls back
                            db.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def read(self, db: sqlite3.Connection) -> LedgerState:
        """All entries, with every hash checked; replies stay on the disk."""
        last, entries = START, []
        rows = db.execute("SELECT number, hash, entry FROM entries ORDER BY number")
        for number, (stored, chained, text) in enumerate(rows):
            try:
                entry = entry_from(text)
                good = digest(text) == chained and stored == entry.number == number
            except (ValueError, TypeError):
                good = False
            if not good or entry.previous != last:
                raise self.damaged(f"entry {number} was changed, or one before it is missing")
            last = chained
            entries.append(entry)
        heads = [(*row, None)[:4] for row in db.execute("SELECT * FROM head")]
        if not entries or [row[:3] for row in heads] != [(1, len(entries) - 1, last)]:
            raise self.damaged("its last entries are missing")
        budget = next((e.budget for e in reversed(entries) if e.budget is not None), None)
        if budget is None or entries[0].budget is None:
            raise self.damaged("it does not begin with a budget")
        name = (entries[1].previous if len(entries) > 1 else last)[:16]
        # ε stands in the last entry, at the δ in force: whoever charges counts it anew.
        state = LedgerState(budget, tuple(entries), entries[-1].spent, last, name)
        self._check_seal(state, heads[0][3])
        return state

    def _check_seal(self, state: LedgerState, seal: str | None) -> None:
        """That the head was sealed with the key in hand, where the ledger has one."""
        held = None if self.key is None else self.key.name
        if state.key != held:
            if state.key is None:
                given = "is not keyed, and a key was given"
                fix = (
                    f"To take it over with what it has spent: {TAKE_OVER}. If it was keyed before, "
                )
                fix += "somebody has changed it"
            else:
                given = (
                    f"is keyed with {state.key}, and {'no key' if held is None else held} was given"
                )
                fix = "Give its key (`key` of the site, --key); fedcover ledger rekey changes it"
            raise FileError(
                f"the ledger {self.path} {given}", allowed="a ledger and its own key", fix=fix
            )
        if self.key is None:
            good = seal is None
        else:
            good = self.key.is_seal(seal, _sealed(len(state.entries) - 1, state.head))
        if not good:
            raise self.damaged("it was changed by somebody without its key")

    def append(self, db: sqlite3.Connection, entry: Entry, reply: bytes | None) -> None:
        """Write one more entry and move the head to it."""
        text = entry.text()
        row = (entry.number, digest(text), text, reply)
        if db.execute("PRAGMA user_version").fetchone()[0] == 1:
            db.execute("DROP TABLE head")
            db.execute(SCHEMAS[SCHEMA_VERSION][1])
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        seal = None if self.key is None else self.key.seal(_sealed(*row[:2]))
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
        db.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?, ?)", (*row[:2], seal))

    def trim(self, db: sqlite3.Connection) -> None:
        """Removes every reply; their digests stay in the entries."""
        db.execute("UPDATE entries SET reply = NULL")

    def shrink(self) -> None:
        """Gives the disk back what was removed."""
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=self._timeout)) as db:
                _make_lasting(db)
                db.execute("VACUUM")
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def reply(self, db: sqlite3.Connection, entry: Entry) -> bytes:
        """The stored bytes of a reply, checked against the digest in its entry."""
        row = db.execute("SELECT reply FROM entries WHERE number = ?", (entry.number,)).fetchone()
        found = row[0] if row else None
        if not isinstance(found, bytes) or digest(found) != entry.reply:
            raise self.damaged(f"the reply of entry {entry.number} is not the one that was given")
        return found

    def check_all(self, db: sqlite3.Connection) -> None:
        """Read the whole file: the structure of its pages, every hash, every reply."""
        if db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            raise self.damaged("its pages contradict each other")
        state = self.read(db)
        for entry in state.answers:
            if entry.number >= state.kept_from:
                self.reply(db, entry)

    def damaged(self, why: str) -> FileError:
        """The error for a file that cannot be trusted."""
        return FileError(
            f"{self.path} is not a whole ledger: {why}",
            allowed="a ledger exactly as fedcover wrote it, for nothing may be forgotten",
            fix="No query is answered from it. Restore the latest copy and have the "
            "data-protection officer decide how much to count as spent",
        )

    def _check_kind(self, db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise self.damaged("it is empty, or made by another program")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in SCHEMAS:
            raise FileError(
                f"{self.path} has ledger version {version}",
                allowed=f"versions up to {SCHEMA_VERSION}",
                fix="Install the version of fedcover that wrote it",
            )
        size = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        if size.fetchone()[0] != self.path.stat().st_size:
            raise self.damaged("it was cut off, or something was added at its end")
        found = db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        if [row[0] for row in found] != list(SCHEMAS[version]):
            raise self.damaged("its tables are not those of a ledger")

    def _trouble(self, error: sqlite3.Error) -> FileError:
        name = getattr(error, "sqlite_errorname", None) or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return FileError(
                f"another process has kept the ledger {self.path} for {self._timeout:g} s",
                allowed="one answer at a time",
                fix="Ask again later, or give a longer timeout",
            )
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return self.damaged(str(error))
        return FileError(
            f"the ledger {self.path} could not be read or written ({error})",
            allowed="a file that can be written to, on a disk with free space",
            fix="Nothing was answered. Make room or mend the disk, then ask the same query again",
        )


def _sealed(number: int, head: str) -> str:
    return f"head of a ledger {number} {head}"


def _make_lasting(db: sqlite3.Connection) -> None:
    """Settings of a connection whose commits last; the top of this file says why."""
    mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    if mode != "delete":
        raise sqlite3.OperationalError(f"its journal mode stays {mode}")
    db.execute("PRAGMA synchronous = EXTRA")
    db.execute("PRAGMA fullfsync = ON")  # where fsync alone does not reach the disk (macOS)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
