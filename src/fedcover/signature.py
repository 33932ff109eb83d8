"""Who signed a file, or what a coordinator published; and whether a reader believes it.

A signature is over a short text: its role, its name, what it is of, and the digest that seals the
content. The coordinator signs what it publishes, for one site of one run, so that nothing of it
serves for another. A site signs its whole calibration, what the coordinator signed included. The
packages for keys are imported where a key is used: files are read without them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcover import checks
from fedcover._io.facts import facts_of, made_of, to_json
from fedcover.errors import FileError
from fedcover.site import checked_name

if TYPE_CHECKING:
    from fedcover.identity import Identity, Roster

COORDINATOR = "coordinator"
"""The name under which a coordinator's key stands in a roster."""

ROLES = (COORDINATOR, "site")

CONTENTS = ("publication", "sketch", "calibration")

MOST_BYTES = 1 << 16
"""Longest list of signatures in a file."""

PREFIX = b"fedcover/signature/1\n"
"""Begins every signed text: the same keys sign other things in secure sums."""

Trusted = Mapping[str, Any] | str | Path
"""Public keys by name, as `identity.load_roster` gives them; or by name the path of a `.pub` file;
or the path of a roster."""


@dataclass(frozen=True)
class Signature:
    """A statement by the holder of a key.

    Attributes
    ----------
    role
        As what it was signed: "coordinator" or "site".
    name
        Who signed; a coordinator is called "coordinator".
    key
        Fingerprint of the key.
    of
        What was signed: a "publication", as it went to one site, or a whole "sketch" or
        "calibration".
    digest
        SHA-256 of that.
    run, site, method
        Of a publication: in which run, for which site, by which method.
    value
        The signature itself, in base 64.
    """

    role: str
    name: str
    key: str
    of: str
    digest: str
    run: str = ""
    site: str = ""
    method: str = ""
    value: str = ""

    def __post_init__(self) -> None:
        checks.choice(self.role, "role of a signature", ROLES)
        checks.choice(self.of, "what is signed", CONTENTS)
        checked_name(self.name, "name of who signed")

    @property
    def text(self) -> bytes:
        """What is signed."""
        return PREFIX + to_json(facts_of(replace(self, value="")), compact=True).encode()

    def describe(self) -> str:
        """Who signed what, in plain words."""
        run = f" of run {self.run!r}" if self.run else ""
        who = self.name if self.name == self.role else f"{self.role} {self.name}"
        return f"{who} (the {self.of}{run}; key {self.key})"


def signed(
    identity: Identity,
    role: str,
    name: str,
    of: str,
    digest: str,
    *,
    run: str = "",
    site: str = "",
    method: str = "",
) -> Signature:
    """A signature of a digest; the parameters are the fields of `Signature`."""
    from fedcover.identity import fingerprint, sign

    key = fingerprint(identity.public_key())
    bare = Signature(role, name, key, of, digest, run, site, method)
    return replace(bare, value=b64encode(sign(identity, bare.text)).decode())


def holds(signature: Signature, trusted: Roster) -> bool:
    """Whether a key that is trusted now, under the signature's name, made the signature."""
    from fedcover.identity import is_signed

    try:
        value = b64decode(signature.value, validate=True)
    except ValueError:
        return False
    if (signature.role == COORDINATOR) != (signature.name == COORDINATOR):
        return False  # or a site's key would speak for the coordinator
    return is_signed(trusted, signature.name, value, signature.text)


def verify(
    signatures: Sequence[Signature],
    of: str,
    digest: str,
    trusted: Trusted,
    *,
    path: str | Path,
    target: str | None = None,
) -> None:
    """Refuses a file whose signatures do not bear it out.

    Somebody trusted must have signed the whole of it; of a calibration, its own site or the
    coordinator. Where the coordinator's key is given, it must have signed what the file came from.
    Whatever else bears the name of somebody trusted must be right.

    Parameters
    ----------
    signatures
        Those of the file.
    of, digest, target
        What it is, its digest, and whose calibration.
    trusted
        Public keys.
    path
        The file, for errors.
    """
    roster = as_roster(trusted)
    if not signatures:
        raise _refused(path, "is unsigned")
    for one in signatures:
        if one.name in roster and not holds(one, roster):
            raise _refused(path, f"has a signature by {one.name!r} that no trusted key made")
    believed = [one for one in signatures if one.name in roster]
    # One site's word is no word for another's thresholds.
    own = [one for one in believed if target is None or one.name in (target, COORDINATOR)]
    if not any((one.of, one.digest) == (of, digest) for one in own):
        whose = "" if target is None else f" of {target!r}"
        raise _refused(path, f"is a {of}{whose} that nobody trusted has signed as a whole")
    published = [one for one in believed if one.name == COORDINATOR]
    if COORDINATOR in roster and not published:
        raise _refused(path, "is not signed by the coordinator")
    if any(one.of == "publication" and one.site != target for one in published):
        raise _refused(path, "rests on what the coordinator published for another site")


def as_roster(trusted: Trusted) -> Roster:
    """The keys that a reader trusts."""
    from fedcover.identity import keys_of, read_public_keys, read_roster

    if isinstance(trusted, (str, Path)):
        return read_roster(trusted)
    found: dict[str, Any] = {}
    for name, key in trusted.items():
        paths = isinstance(key, (str, Path))
        found[name] = keys_of(read_public_keys(key, name), name) if paths else key
    return found


def describe(signatures: Sequence[Signature]) -> str:
    """Who signed, in plain words; "unsigned" where nobody did."""
    who = ", ".join(one.describe() for one in signatures)
    return f"signed by {who}" if who else "unsigned"


def to_facts(signatures: Sequence[Signature], within: Sequence[Signature] = ()) -> dict[str, Any]:
    """Signatures as they stand in a file, with a description for whoever opens it.

    Parameters
    ----------
    signatures
        Those beside the sealed content.
    within
        Those that are a part of it: the description names them, too.
    """
    facts = [facts_of(one) for one in signatures]
    return {"signed": describe([*within, *signatures]), "signatures": facts}


def of_facts(facts: Any, within: Sequence[Signature] = ()) -> tuple[Signature, ...]:
    """What `to_facts` was given; a ValueError or TypeError if its parts do not fit together."""
    found: tuple[Signature, ...] = made_of(tuple[Signature, ...], facts["signatures"])
    if facts["signed"] != describe([*within, *found]):
        raise ValueError("a description of other signatures")
    return found


def _refused(path: str | Path, why: str) -> FileError:
    return FileError(
        f"{path} {why}",
        allowed="files signed with a key that is trusted and not revoked",
        fix="Get the file again from who made it, or look at the roster: `fedcover signatures` "
        "shows who signed",
    )
