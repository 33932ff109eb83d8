"""Rounds that are done, on the server's disk, so that an interrupted run goes on where it was.

The server half of a method is deterministic: fed with the same replies it asks the same queries.
So the replies are all that has to be kept; after a restart they are played back. Of a secure sum
the sum is kept, which is all that the server has seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcover import wire
from fedcover._io.facts import MAX_JSON, from_json, to_json
from fedcover._io.reading import read_whole
from fedcover._io.writing import part_of
from fedcover.engines.base import Traffic
from fedcover.errors import FileError
from fedcover.wire import Message


@dataclass(frozen=True)
class Checkpoint:
    """A folder with one file per finished round, and one that says which run it is of.

    What sites have sent stands in it: only the server's own user may read it.
    """

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))  # a text will do

    def known(self) -> dict[str, Any] | None:
        """What the run is of which this is the checkpoint; None before there is one."""
        return self._facts("run.json")

    def begin(self, facts: dict[str, Any]) -> int:
        """Starts the run, or finds it; the number of rounds that are done.

        Parameters
        ----------
        facts
            What the run is: the checkpoint of another one is refused.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.folder.stat().st_mode & 0o077:  # what sites have sent stands in it
                self.folder.chmod(0o700)
        except OSError as error:
            raise _unusable(self.folder, f"cannot be used ({error.strerror})") from None
        for part in self.folder.glob("*.part"):  # of a process that was killed
            part.unlink(missing_ok=True)
        known, now = self.known(), from_json(to_json(facts))
        if known is None:
            self._write("run.json", to_json(now).encode())
        elif other := sorted(k for k in {**known, **now} if known.get(k) != now.get(k)):
            raise _unusable(self.folder, f"is of a run with other {', '.join(other)}")
        done = 0
        while (self.folder / f"{done}.round").exists():
            done += 1
        return done

    def replies(
        self, number: int, queries: Mapping[str, Message], traffic: Traffic
    ) -> dict[str, Message]:
        """The replies of a finished round, if the same was asked; what it took is counted."""
        path = self.folder / f"{number}.round"
        try:
            stored = wire.decode(read_whole(path, wire.MOST_BYTES))
            asked = stored.arrays["asked"].tobytes()
            replies = {
                key.removeprefix("reply:"): wire.decode(array.tobytes())
                for key, array in stored.arrays.items()
                if key.startswith("reply:")
            }
        except (OSError, ValueError, KeyError):
            raise _unusable(path, "is damaged") from None
        if asked != _digest(queries):
            raise _unusable(path, "answers other queries than this run asks")
        for way, counts in (("up", traffic.bytes_up), ("down", traffic.bytes_down)):
            for name in counts:
                took = stored.numbers.get(f"{way}:{name}", 0)
                if not isinstance(took, int) or took < 0:
                    raise _unusable(path, "is damaged")
                counts[name] += took
        return replies

    def keep(
        self,
        number: int,
        queries: Mapping[str, Message],
        replies: Mapping[str, Message],
        took: Traffic,
    ) -> None:
        """Stores a finished round, and the bytes it took."""
        arrays = {f"reply:{n}": np.frombuffer(wire.encode(m), np.uint8) for n, m in replies.items()}
        arrays["asked"] = np.frombuffer(_digest(queries), np.uint8)
        numbers = {f"up:{name}": count for name, count in took.bytes_up.items()}
        numbers |= {f"down:{name}": count for name, count in took.bytes_down.items()}
        self._write(f"{number}.round", wire.encode(Message("round", arrays, numbers)))

    def survivors(self, number: int) -> list[str] | None:
        """The sites that were asked to agree to the sum of a round, if it came so far."""
        facts = self._facts(f"{number}.survivors")
        names = None if facts is None else facts.get("survivors")
        if facts is not None and not (
            isinstance(names, list) and all(isinstance(name, str) for name in names)
        ):
            raise _unusable(self.folder / f"{number}.survivors", "is damaged")
        return names

    def keep_survivors(self, number: int, names: Sequence[str]) -> None:
        """Stores them, before they are asked."""
        self._write(f"{number}.survivors", to_json({"survivors": list(names)}).encode())

    def _facts(self, name: str) -> dict[str, Any] | None:
        try:
            return from_json(read_whole(self.folder / name, MAX_JSON))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unusable(self.folder, f"cannot be used ({error.strerror})") from None
        except ValueError:
            raise _unusable(self.folder / name, "is damaged") from None

    def _write(self, name: str, data: bytes) -> None:
        with part_of(self.folder / name, 0o600) as part:
            part.write_bytes(data)


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
