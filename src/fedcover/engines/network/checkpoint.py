"""Rounds that are done, on the server's disk, so that an interrupted run goes on where it was.

The server half of a protocol is deterministic: fed with the same replies it asks the same queries.
So the replies are all that has to be kept; after a restart they are played back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcover.errors import FileError
from fedcover.protocols import wire
from fedcover.protocols.message import Message
from fedcover.writing import replacing_bytes


@dataclass(frozen=True)
class Checkpoint:
    """A folder with one file per finished round, and one that says which run it is of."""

    folder: Path

    def begin(self, facts: dict[str, Any]) -> int:
        """Starts the run, or finds it; the number of rounds that are done.

        Parameters
        ----------
        facts
            What the run is: the checkpoint of another one is refused.
        """
        text = json.dumps(facts, sort_keys=True)
        path = self.folder / "run.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            known = path.read_text(encoding="utf-8") if path.exists() else None
        except OSError as error:
            raise _unusable(self.folder, f"cannot be used ({error.strerror})") from None
        if known is None:
            with replacing_bytes(path) as file:
                file.write(text.encode())
        elif known != text:
            raise _unusable(self.folder, "is of a run with other sites, method, budget or levels")
        done = 0
        while (self.folder / f"{done}.round").exists():
            done += 1
        return done

    def replies(self, number: int, queries: Mapping[str, Message]) -> dict[str, Message]:
        """The replies of a finished round, if the same was asked."""
        path = self.folder / f"{number}.round"
        try:
            stored = wire.decode(path.read_bytes())
            asked = stored.arrays.pop("asked").tobytes()  # type: ignore[attr-defined]
            replies = {name: wire.decode(a.tobytes()) for name, a in stored.arrays.items()}
        except (OSError, ValueError, KeyError):
            raise _unusable(path, "is damaged") from None
        if asked != _digest(queries):
            raise _unusable(path, "answers other queries than this run asks")
        return replies

    def keep(
        self, number: int, queries: Mapping[str, Message], replies: Mapping[str, Message]
    ) -> None:
        """Stores a finished round."""
        arrays = {n: np.frombuffer(wire.encode(m), np.uint8) for n, m in replies.items()}
        arrays["asked"] = np.frombuffer(_digest(queries), np.uint8)
        with replacing_bytes(self.folder / f"{number}.round") as file:
            file.write(wire.encode(Message("round", arrays)))


def _digest(queries: Mapping[str, Message]) -> bytes:
    out = hashlib.sha256()
    for name in sorted(queries):
        out.update(name.encode() + b"\0" + hashlib.sha256(wire.encode(queries[name])).digest())
    return out.digest()


def _unusable(path: Path, why: str) -> FileError:
    return FileError(
        f"the checkpoint {path} {why}",
        allowed="the checkpoint of this run, or a new folder",
        fix="Start under another name, or remove the folder",
    )
