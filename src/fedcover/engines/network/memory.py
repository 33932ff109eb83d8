"""What a site remembers between two letters: small files in a folder of its own.

In a deployment every letter starts a new process, so nothing is kept in memory. Files are replaced
whole and reach the disk before a reply leaves.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcover.errors import FileError


@dataclass(frozen=True)
class Memory:
    """A folder with one site's state. The part for secure sums holds secrets."""

    folder: Path

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise FileError(
                f"{self.folder} cannot be made ({error.strerror})",
                allowed="a folder for this site's state",
                fix="Change `state` in this site's configuration",
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One letter at a time: a resent letter may arrive while the first is being answered."""
        import fcntl

        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def agreed(self, run: str) -> dict[str, Any] | None:
        """What was said at the start of a run."""
        data = self._read(f"run-{_short(run)}.json")
        return None if data is None else json.loads(data)

    def agree(self, run: str, facts: dict[str, Any]) -> None:
        self._write(f"run-{_short(run)}.json", json.dumps(facts, sort_keys=True).encode())

    def sum_state(self) -> bytes | None:
        """The secret state of the secure sums."""
        return self._read("sums.bin")

    def keep_sum_state(self, state: bytes) -> None:
        self._write("sums.bin", state)

    def survivors(self, run: str) -> list[str] | None:
        """The sites with which this one has agreed to open the sum of a round."""
        data = self._read(f"opened-{_short(run)}.json")
        return None if data is None else json.loads(data)

    def keep_survivors(self, run: str, names: list[str]) -> None:
        self._write(f"opened-{_short(run)}.json", json.dumps(names).encode())

    def log(self, text: str) -> None:
        """A line for the people at this site."""
        with (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.exists() else None

    def _write(self, name: str, data: bytes) -> None:
        part = self.folder / (name + ".part")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / name)


def _short(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:24]
