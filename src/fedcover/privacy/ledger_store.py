"""The SQLite file under a ledger: made whole or not at all, checked at every use, written for good.

The journal is a rollback journal with ``synchronous=EXTRA``. Once a commit returns, the one file
holds the whole truth and its journal is gone from the disk, also after a power failure. With a
write-ahead log, charges would live for a while in a second file that a copy or a clean-up leaves
behind; with FULL, a power failure could bring the journal back and undo an answered charge.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fedcover import checks
from fedcover._io.facts import digest
from fedcover._io.writing import part_of
from fedcover.errors import FileError
from fedcover.privacy import accounting
from fedcover.privacy.ledger_entries import START, Entry, LedgerState, entry_from, merged

APPLICATION, SCHEMA_VERSION = 0x46434C47, 1  # "FCLG", where SQLite keeps the kind of a file
SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, hash TEXT, entry TEXT, reply BLOB)",
    "CREATE TABLE head (only_row INTEGER PRIMARY KEY, number INTEGER, hash TEXT)",
)


class LedgerFile:
    """Entries and replies in one file; a connection is made for each use and closed after it.

    Only SQLite ever opens the file: closing any other handle on it would drop this process's locks.

    Parameters
    ----------
    path
        The file.
    timeout
        Seconds to wait for another process.
    """

    def __init__(self, path: str | Path, timeout: float) -> None:
        self.path = Path(path).absolute()
        self._timeout = checks.real(timeout, "timeout", 0, 86_400)

    def identity(self) -> tuple[int, int]:
        """Which file this is on the disk; an error if there is none."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise FileError(
                f"the ledger {self.path} is not there ({error.strerror})",
                allowed="an existing ledger; without it, what was spent before is not known",
                fix="Put the file back. Make a new one with create=Budget(...) only if nothing "
                "was ever answered from these data: a new ledger starts at ε = 0",
            ) from None
        return found.st_dev, found.st_ino

    def create(self, first: Entry) -> None:
        """Make the file under another name and give it its own when complete."""
        try:
            with (
                part_of(self.path, 0o644, new=True) as part,
                contextlib.closing(sqlite3.connect(part, isolation_level=None)) as db,
            ):
                _make_lasting(db)
                db.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA:
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
        head = db.execute("SELECT only_row, number, hash FROM head").fetchall()
        if not entries or head != [(1, len(entries) - 1, last)]:
            raise self.damaged("its last entries are missing")
        budget = next((e.budget for e in reversed(entries) if e.budget is not None), None)
        if budget is None or entries[0].budget is None:
            raise self.damaged("it does not begin with a budget")
        events = [event for entry in entries for event in entry.events]
        spent = accounting.epsilon(merged(events), budget.delta)
        return LedgerState(budget, tuple(entries), spent, last)

    def append(self, db: sqlite3.Connection, entry: Entry, reply: bytes | None) -> None:
        """Write one more entry and move the head to it."""
        text = entry.text()
        row = (entry.number, digest(text), text, reply)
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
        db.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", row[:2])

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
        for entry in self.read(db).answers:
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
        if version != SCHEMA_VERSION:
            raise FileError(
                f"{self.path} has ledger version {version}",
                allowed=f"version {SCHEMA_VERSION}",
                fix="Install the version of fedcover that wrote it",
            )
        size = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        if size.fetchone()[0] != self.path.stat().st_size:
            raise self.damaged("it was cut off, or something was added at its end")
        found = db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        if [row[0] for row in found] != list(SCHEMA):
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


def _make_lasting(db: sqlite3.Connection) -> None:
    """Settings of a connection whose commits last; the top of this file says why."""
    mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    if mode != "delete":
        raise sqlite3.OperationalError(f"its journal mode stays {mode}")
    db.execute("PRAGMA synchronous = EXTRA")
    db.execute("PRAGMA fullfsync = ON")  # where fsync alone does not reach the disk (macOS)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
