"""What sites say of themselves when they say hello, checked: one of them may be broken or lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcover import checks, scores
from fedcover.errors import FedcoverError
from fedcover.inputs import names
from fedcover.methods.base import Task
from fedcover.privacy.statement import Privacy
from fedcover.site import checked_name

SAID = ("name", "n_classes", "score", "temperature", "label_names")
"""What every site says; "records" besides, where that is public."""

LONGEST_NAME = 100

Introductions = dict[str, dict[str, Any]]


def introduction(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a site says of itself; None if that cannot be."""
    said = {key: value for key, value in facts.items() if key != "of"}
    try:
        if not set(SAID) <= set(said) <= {*SAID, "records"}:
            return None
        n_classes = checks.whole(said["n_classes"], "n_classes", 2, checks.MOST_CLASSES)
        checks.real(said["temperature"], "temperature", 0, float("inf"), open_low=True)
        if len(checked_name(said["name"], "name of a site")) > LONGEST_NAME:
            return None
        if said["score"] is not None:
            scores.from_spec(said["score"])
        listed = said["label_names"]
        if listed is not None and names(listed, n_classes, "label_names") != tuple(listed):
            return None
        if "records" in said:
            checks.whole(said["records"], "records", 1, checks.MOST_RECORDS)
    except (FedcoverError, TypeError, ValueError):
        return None
    return said


def together(found: Introductions, privacy: Privacy | None) -> Task:
    """The task of sites that fit together, without targets; an error that names two that do not."""
    order = tuple(sorted(found))
    first = found[order[0]]
    for name in order[1:]:
        for what in SAID[1:]:
            mine, theirs = first[what], found[name][what]
            if mine != theirs and not (what == "label_names" and None in (mine, theirs)):
                raise FedcoverError(
                    f"sites {order[0]!r} and {name!r} differ in {what}",
                    allowed=f"the same {what} at every site",
                    fix="Make the sites' configurations alike",
                )
    sizes = [found[name].get("records") for name in order]
    spec = first["score"]
    return Task(
        sites=order,
        n_classes=first["n_classes"],
        privacy=privacy,
        score=None if spec is None else scores.from_spec(spec),
        sizes=None if None in sizes else tuple(sizes),  # type: ignore[arg-type]
    )


def as_before(run: str, found: Introductions, before: Any) -> Introductions:
    """The sites of a run that is repeated: those it began with, saying what they said then.

    Those that are not there now may come back, or drop out of a secure sum.
    """
    good = isinstance(before, dict) and all(isinstance(said, dict) for said in before.values())
    if not good or not before or any(introduction(said) is None for said in before.values()):
        raise FedcoverError(
            f"the checkpoint of run {run!r} does not say with which sites it began",
            allowed="a checkpoint as this version of fedcover writes it",
            fix="Start under another name, or remove the folder",
        )
    for name in sorted(set(found) & set(before)):
        then, now = before[name], found[name]
        changed = [key for key in {**then, **now} if then.get(key) != now.get(key)]
        if changed:
            raise FedcoverError(
                f"site {name!r} has other {', '.join(sorted(changed))} than when run {run!r} began",
                allowed="sites as they were: their first replies are part of this run",
                fix="Bring the site's data and configuration back, or start under another name",
            )
    return dict(before)
