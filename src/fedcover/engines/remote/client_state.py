"""What a site remembers between two envelopes: small files in a folder of its own.

In a deployment every envelope starts a new process, so nothing is kept in memory. Files are
replaced whole and reach the disk before a reply leaves. Nobody but the site's own user may read
them: they hold secrets of secure sums, and the log may quote data.

A server chooses the names of runs and rounds, so it must not fill the disk with them: of each kind
of file the oldest are forgotten. What that costs is a resumed run, never a promise. A run that is
forgotten has to say hello again. Numbers that were charged and have no guard any more are not sent
(`secure_rounds`). A reply is kept here only where there is no ledger, and exact counts may leave.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcover import wire
from fedcover._io.facts import digest, from_json, to_json
from fedcover._io.reading import read_whole
from fedcover._io.writing import part_of
from fedcover.errors import FedcoverError, FileError, needs_posix
from fedcover.wire import MOST_BYTES, Message

MOST_LOG = 1 << 20
"""Bytes of a log, after which a new one is begun; the one before it is kept."""

SEED_DIGITS = 19
"""Of 62 bits."""

MOST_LINE = 20_000
"""Characters of one entry."""

MOST_FILES = {"run": 1000, "sum": 1000, "reply": 100}
"""How many files of a kind are kept; beyond that the older half is forgotten."""


@dataclass(frozen=True)
class ClientState:
    """A folder with one site's state. The part for secure sums holds secrets."""

    folder: Path

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.folder.stat().st_mode & 0o077:
                self.folder.chmod(0o700)
        except OSError as error:
            why = f"cannot be made and closed to others ({error.strerror})"
            raise _unusable(self.folder, why) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One envelope at a time: a resent one may arrive while the first is being answered."""
        try:
            import fcntl
        except ImportError:
            raise needs_posix("a site that answers over a network", self.folder) from None
        with open(self._handle("lock", os.O_TRUNC), "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for name in os.listdir(self.folder):
                if name.endswith(".part"):  # secrets of a process that was killed
                    (self.folder / name).unlink()
            yield

    def score_seed(self) -> int:
        """A seed of this site's own: each envelope starts a process, and scores must not change."""
        with self.locked():
            seed = self._read("score-seed")
            if seed is None:
                self._write("score-seed", seed := str(secrets.randbits(62)).encode())
        if not seed.isdigit() or len(seed) > SEED_DIGITS:
            raise _unusable(self.folder / "score-seed", "is damaged")
        return int(seed)

    def claim(self, site: str) -> None:
        """Makes the folder this site's; an error if it is another's."""
        owner = self._facts("site.json")
        if owner is None:
            self._keep("site.json", {"site": site})
        elif owner.get("site") != site:
            raise _unusable(self.folder, f"is that of site {owner.get('site')!r}, not of {site!r}")

    def agreed(self, run: str) -> dict[str, Any] | None:
        """What was said at the start of a run."""
        return self._facts(f"run-{_short(run)}.json")

    def agree(self, run: str, facts: dict[str, Any]) -> None:
        self._forget("run")
        self._keep(f"run-{_short(run)}.json", facts)

    def sum_state(self) -> bytes | None:
        """The secret state of the secure sums."""
        return self._read("sums.bin")

    def keep_sum_state(self, state: bytes) -> None:
        self._write("sums.bin", state)

    def summed(self, round_: str) -> dict[str, Any] | None:
        """With whom the numbers of a round may be summed, once they have been sent."""
        return self._facts(f"sum-{_short(round_)}.json")

    def keep_summed(self, round_: str, facts: dict[str, Any]) -> None:
        self._forget("sum")
        self._keep(f"sum-{_short(round_)}.json", facts)

    def repeated(self, name: str, query: Message, compute: Callable[[], Message]) -> Message:
        """The reply to a query, which is made once: the same name gets the same bytes again."""
        path, asked = f"reply-{_short(name)}.bin", digest(wire.encode(query)).encode()
        stored = self._read(path)
        if stored is None:
            self._forget("reply")
            stored = asked + wire.encode(compute())
            self._write(path, stored)
        if stored[: len(asked)] != asked:
            raise FedcoverError(
                f"query {name!r} was answered before with other content",
                allowed="the same query again, or a new name for a new query",
                fix="Two runs share a name, or someone tries to get two answers for one",
            )
        return wire.decode(stored[len(asked) :])

    def published(self) -> int:
        """When the latest signed result that was taken here was signed; 0 before there is one."""
        when = (self._facts("published.json") or {"when": 0}).get("when")
        if type(when) is not int:
            raise _unusable(self.folder / "published.json", "is damaged")
        return when

    def keep_published(self, when: int) -> None:
        """Remembers it, so that an older one is not taken afterwards."""
        self._keep("published.json", {"when": when})

    def log(self, text: str) -> None:
        """An entry for the people at this site; a log that cannot be written stops nothing.

        Words of a server may stand in it: they steer no screen, and begin no line.
        """
        # Cut before it is made plain: a long text would cost a site more than it cost who sent it.
        text = "\n    ".join(map(_plain, text[:MOST_LINE].splitlines()))
        with suppress(OSError):
            path = self.folder / "log.txt"
            if path.exists() and path.stat().st_size > MOST_LOG:
                path.replace(self.folder / "log.1.txt")
            with open(self._handle("log.txt", os.O_APPEND), "ab") as file:
                file.write(text[:MOST_LINE].encode("utf-8", "backslashreplace") + b"\n")

    def _facts(self, name: str) -> dict[str, Any] | None:
        data = self._read(name)
        try:
            return None if data is None else from_json(data)
        except ValueError:
            raise _unusable(self.folder / name, "is damaged") from None

    def _keep(self, name: str, facts: dict[str, Any]) -> None:
        self._write(name, to_json(facts).encode())

    def _read(self, name: str) -> bytes | None:
        try:
            return read_whole(self.folder / name, MOST_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(self.folder / name, f"cannot be read ({error.strerror})") from None

    def _write(self, name: str, data: bytes) -> None:
        with part_of(self.folder / name, 0o600) as part:
            part.write_bytes(data)

    def _forget(self, kind: str) -> None:
        """Makes room for one more file of a kind."""
        names = [name for name in os.listdir(self.folder) if name.startswith(kind + "-")]
        if len(names) >= MOST_FILES[kind]:
            paths = sorted(
                (self.folder / n for n in names), key=lambda path: path.stat().st_mtime_ns
            )
            for path in paths[: -(-len(paths) // 2)]:
                path.unlink()

    def _handle(self, name: str, how: int) -> int:
        return os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | how, 0o600)


def _plain(line: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def _short(name: str) -> str:
    return digest(name)[:24]


def _unusable(path: Path, why: str) -> FileError:
    return FileError(
        f"{path} {why}",
        allowed="a folder for this site's state that nobody else uses",
        fix="Change `state` in this site's configuration, or bring the folder back as it was. A "
        "site that has lost it takes part in new runs only",
    )
