"""The hello: what sites said of themselves, and the sites that a repeated run began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcover.engines.remote import heads
from fedcover.errors import FedcoverError
from fedcover.members import Member

Members = dict[str, Member]
"""What each site says of itself, by its name."""


def introduction(header: Mapping[str, Any]) -> Member | None:
    """The site that answered a hello; None if what it says cannot be."""
    return Member.from_facts({k: v for k, v in header.items() if k not in ("of", heads.KEY)})


def as_before(run: str, found: Members, before: Any) -> Members:
    """The sites of a run that is repeated: those it began with, saying what they said then.

    Those that are not there now may come back, or drop out of a secure sum.
    """
    known = before if isinstance(before, dict) else {}
    facts = {n: said for n, said in known.items() if isinstance(said, dict)}
    then = {n: member for n, said in facts.items() if (member := Member.from_facts(said))}
    if not then or len(then) < len(known):
        raise FedcoverError(
            f"the checkpoint of run {run!r} does not say with which sites it began",
            allowed="a checkpoint as this version of fedcover writes it",
            fix="Start under another name, or remove the folder",
        )
    for name in sorted(set(found) & set(then)):
        one, two = then[name].to_facts(), found[name].to_facts()
        changed = [key for key in {**one, **two} if one.get(key) != two.get(key)]
        if changed:
            raise FedcoverError(
                f"site {name!r} has other {', '.join(sorted(changed))} than when run {run!r} began",
                allowed="sites as they were: their first replies are part of this run",
                fix="Bring the site's data and configuration back, or start under another name",
            )
    return then
