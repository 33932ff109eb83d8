"""The last head of every site's ledger that the server has seen: whoever goes back is noticed.

A ledger that was put back to an older copy of itself is whole, and the site's key has sealed it. So
somebody else must remember. A site says how many entries its ledger has and the hash of the last;
the server keeps both in a file beside its runs, leaves out a site whose ledger is shorter than
before, and says in its next messages what it knows, so that the site itself refuses if its own
ledger was never there. A server that lies, or forgets, can only refuse service.
"""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcover._io.facts import from_json, to_json
from fedcover._io.writing import part_of
from fedcover.errors import FileError

Head = tuple[int, str]
"""Number of entries of a ledger, and the hash of the last."""

KEY = "ledger"
"""Where a head stands in the header of an envelope; of a server, None says that it asks for it."""


@dataclass(frozen=True)
class LedgerHeads:
    """A file with the heads of all sites; runs at the same time may share it.

    Attributes
    ----------
    path
        The file. A missing one is made: of a site that is not in it, nothing is known.
    """

    path: Path

    def known(self) -> dict[str, Head]:
        """The heads by the names of the sites."""
        try:
            facts = from_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            facts = {"": None}
        found = {name: head_of({KEY: head}) for name, head in facts.items()}
        good = {name: head for name, head in found.items() if head is not None}
        if len(good) < len(found):
            raise self._unusable("cannot be read")
        return good

    def keep(self, told: Mapping[str, Head]) -> None:
        """Remembers heads that were told; of two for one site, the later."""
        path = self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path.with_name(path.name + ".lock"), "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                before = self.known()
                later = {
                    n: one for n, one in told.items() if n not in before or one[0] > before[n][0]
                }
                after = before | later
                if after != before:
                    with part_of(path, 0o600) as part:
                        part.write_text(to_json(after), encoding="utf-8")
        except OSError as error:
            raise self._unusable(f"cannot be written ({error.strerror})") from None

    def _unusable(self, why: str) -> FileError:
        return FileError(
            f"{self.path} {why}",
            allowed="the heads of the sites' ledgers, as fedcover wrote them",
            fix="Bring it back from a copy. Without it this server begins anew: a ledger that was "
            "put back before then is not noticed",
        )


def head_of(header: Mapping[str, Any]) -> Head | None:
    """The head in a header; None if there is none, or something else."""
    told = header.get(KEY)
    if not isinstance(told, list | tuple) or [type(x) for x in told] != [int, str]:
        return None
    count, head = told
    return (count, head) if count > 0 and len(head) == 64 else None


def is_older(told: Head | None, known: Head | None) -> bool:
    """Whether a ledger that was known to have one head cannot have the other now."""
    if known is None:
        return False
    return told is None or told[0] < known[0] or (told[0] == known[0] and told != known)
