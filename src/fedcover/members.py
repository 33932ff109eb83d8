"""Who takes part: what a site says of itself, and the check that sites fit together.

Sites in one process and sites that say hello over a network pass the same check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedcover import checks, scores
from fedcover.classnames import Names, names
from fedcover.errors import FedcoverError
from fedcover.inputs import listed as in_a_row
from fedcover.scores import Score
from fedcover.site import Site, checked_name

LONGEST_NAME = 100
"""Characters of a site's name on a network: it stands in ledgers, logs and file names."""

ALIKE = ("n_classes", "score", "temperature", "label_names")
"""What must be the same at all sites; names of the labels may be missing at some."""


@dataclass(frozen=True)
class Member:
    """What a site says of itself; anybody may know it.

    Attributes
    ----------
    name
        The site's name.
    n_classes, score, temperature, label_names
        What its thresholds are about.
    records
        Number of calibration records; None where that is not public.
    """

    name: str
    n_classes: int
    score: Score | None = None
    temperature: float = 1.0
    label_names: Names | None = None
    records: int | None = None

    @classmethod
    def of(cls, site: Site, with_records: bool) -> Member:
        """What a site says; the number of its records only where that may be known."""
        return cls(
            name=site.name,
            n_classes=site.n_classes,
            score=site.score,
            temperature=site.temperature,
            label_names=site.label_names,
            records=len(site) if with_records else None,
        )

    def to_facts(self) -> dict[str, Any]:
        """As plain facts, which travel."""
        facts: dict[str, Any] = {
            "name": self.name,
            "n_classes": self.n_classes,
            "score": None if self.score is None else self.score.spec(),
            "temperature": self.temperature,
            "label_names": None if self.label_names is None else list(self.label_names),
        }
        return facts if self.records is None else {**facts, "records": self.records}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Member | None:
        """What came from a site that may be broken or lie; None if it cannot be."""
        usual = {"name", *ALIKE}
        try:
            if not usual <= set(facts) <= {*usual, "records"}:
                return None
            n_classes = checks.whole(facts["n_classes"], "n_classes", 2, checks.MOST_CLASSES)
            temperature = facts["temperature"]
            checks.real(temperature, "temperature", 0, float("inf"), open_low=True)
            if len(checked_name(facts["name"], "name of a site")) > LONGEST_NAME:
                return None
            listed = facts["label_names"]
            if listed is not None and (
                names(listed, n_classes, "label_names") != tuple(listed)
                or any(type(name) not in (str, int) for name in listed)
            ):
                return None
            if "records" in facts:
                checks.whole(facts["records"], "records", 1, checks.MOST_RECORDS)
            spec = facts["score"]
            return cls(
                name=facts["name"],
                n_classes=n_classes,
                score=None if spec is None else scores.from_spec(spec),
                temperature=temperature,
                label_names=None if listed is None else tuple(listed),
                records=facts.get("records"),
            )
        except (FedcoverError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class Federation:
    """Sites that fit together, and what everybody may know of them.

    Attributes
    ----------
    sites
        Their names, in the order of the arrays that speak of them.
    n_classes, score, temperature, label_names
        What is alike at all of them.
    unnamed
        Those of the sites that give no names for their classes, where others do.
    sizes
        Numbers of calibration records, where they are public.
    min_survivors
        The fewest sites that may be left in a secure sum; None for all of them.
    """

    sites: tuple[str, ...]
    n_classes: int
    score: Score | None = None
    temperature: float = 1.0
    label_names: Names | None = None
    unnamed: tuple[str, ...] = ()
    sizes: tuple[int, ...] | None = None
    min_survivors: int | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a careful reader should know of the sites."""
        if not self.unnamed:
            return ()
        return (
            f"site {in_a_row(self.unnamed, 4)}: its classes have no names, those of other sites "
            "do; they are taken to be in the same order",
        )

    @classmethod
    def of(cls, members: Sequence[Member], min_survivors: int | None = None) -> Federation:
        """The federation of some members; an error that names two that do not fit together."""
        seen: set[str] = set()
        for member in members:
            if member.name in seen:
                raise two_of_a_name(member.name)
            seen.add(member.name)
        first = members[0]
        for member in members[1:]:
            for what in ALIKE:
                mine, theirs = getattr(first, what), getattr(member, what)
                if mine != theirs and not (what == "label_names" and None in (mine, theirs)):
                    raise FedcoverError(
                        f"sites {first.name!r} and {member.name!r} differ in {what}: "
                        f"{mine!s:.200}, {theirs!s:.200}",
                        allowed=f"the same {what} at every site",
                        fix="Make the sites alike: thresholds of different models, scores or "
                        "classes cannot be compared",
                    )
        named = any(m.label_names for m in members)
        sizes = [m.records for m in members if m.records is not None]
        return cls(
            sites=tuple(m.name for m in members),
            n_classes=first.n_classes,
            score=first.score,
            temperature=first.temperature,
            label_names=next((m.label_names for m in members if m.label_names), None),
            unnamed=tuple(m.name for m in members if named and not m.label_names),
            sizes=tuple(sizes) if len(sizes) == len(members) else None,
            min_survivors=min_survivors,
        )


def federation_of(sites: Sequence[Site], with_records: bool = True) -> Federation:
    """The federation of sites that are in this process, checked."""
    return Federation.of([Member.of(site, with_records) for site in checked_sites(sites)])


def checked_federation(sites: Sequence[Site]) -> list[Site]:
    """Sites that fit together, as a list."""
    found = checked_sites(sites)
    federation_of(found)
    return found


def in_one_order(sites: Sequence[Site]) -> list[Site]:
    """Sites with the same named classes in different orders, all in the order of the first."""
    found = checked_sites(sites)
    known = next((site.label_names for site in found if site.label_names), None)
    return [
        site.in_order(known) if known and set(site.label_names or ()) == set(known) else site
        for site in found
    ]


def checked_sites(sites: Sequence[Site]) -> list[Site]:
    """Sites, at least one, as a list."""
    if isinstance(sites, Mapping) and all(isinstance(site, Site) for site in sites.values()):
        raise FedcoverError(
            f"sites is a dictionary of {len(sites)} sites",
            allowed="a list of sites: each knows its own name",
            fix="Give list(sites.values())",
        )
    if isinstance(sites, Site) or not isinstance(sites, Sequence) or not len(sites):
        raise FedcoverError(
            f"sites is {sites!r}", allowed="a list of at least one Site", fix="Make a list of sites"
        )
    for site in sites:
        if not isinstance(site, Site):
            raise FedcoverError(
                f"sites contains a {type(site).__name__}",
                allowed="Site objects",
                fix="Make them with Site(...) or Site.from_probabilities(...)",
            )
    return list(sites)


def two_of_a_name(name: str) -> FedcoverError:
    """The error for sites that cannot be told apart."""
    return FedcoverError(
        f"two sites are called {name!r}", allowed="different names", fix="Rename one"
    )
