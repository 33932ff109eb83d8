"""Which records a ledger is about: a tag beside the file of records says whose they are.

A second ledger over the same records would start at ε = 0, and both together would promise what
neither holds. So the file of records has one ledger, which the tag beside it names; and the ledger
keeps a keyed fingerprint of the file's content, by which it sees that the records were changed. A
copy of the file without its tag is not noticed: who may make one is trusted not to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedcover._io.facts import from_json, to_json
from fedcover._io.writing import part_of
from fedcover.errors import FileError

SUFFIX = ".ledger-id"
"""What the tag's name adds to that of the file of records."""

CHUNK = 1 << 20


def tag_of(data: Path) -> Path:
    """Where the tag of a file of records is: beside the file itself, not beside a link to it."""
    data = data.resolve()
    return data.with_name(data.name + SUFFIX)


def owner_of(data: Path) -> str | None:
    """The name of the ledger that the records belong to; None if they belong to none."""
    tag = tag_of(data)
    try:
        owner = from_json(tag.read_bytes()).get("ledger")
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        owner = None
    if not isinstance(owner, str):
        raise FileError(
            f"{tag} cannot be read",
            allowed="the tag that says which ledger the records belong to, as fedcover wrote it",
            fix="Bring it back from a copy; or remove it, if they certainly have one ledger only",
        )
    return owner


def refuse_others(data: Path, ledger: str | None) -> bool:
    """Whether the records belong to this ledger; an error if they belong to another one.

    Parameters
    ----------
    data
        The file of records.
    ledger
        The ledger's name; None for one that is still to be made.
    """
    owner = owner_of(data)
    if owner is None or owner == ledger:
        return owner is not None
    raise FileError(
        f"the records {data} belong to the ledger {owner}"
        + ("" if ledger is None else f", and this one is {ledger}"),
        allowed="one ledger for the same records: two would each count a part of what was spent",
        fix="Use that ledger. If it is lost, the data-protection officer decides how much to count "
        f"as spent; then remove {tag_of(data)}",
    )


def claim(data: Path, ledger: str) -> None:
    """Writes the tag that says the records belong to this ledger, if it is not there."""
    if refuse_others(data, ledger):
        return
    tag = tag_of(data)
    try:
        with part_of(tag, 0o600, new=True) as part:
            part.write_text(to_json({"ledger": ledger}), encoding="utf-8")
    except FileExistsError:  # somebody else was quicker
        refuse_others(data, ledger)
    except OSError as error:
        raise FileError(
            f"{tag} cannot be written ({error.strerror})",
            allowed="a folder for the records where a small file can be put beside them",
            fix="Once, as somebody who may write there: fedcover ledger data LEDGER --data FILE",
        ) from None


def content(data: Path) -> Iterator[bytes]:
    """The bytes of a file of records, in parts."""
    try:
        with data.open("rb") as file:
            while part := file.read(CHUNK):
                yield part
    except OSError as error:
        raise FileError(
            f"the records {data} cannot be opened ({error.strerror})",
            allowed="the site's file of records",
            fix="Correct the path, or the file's permissions",
        ) from None
