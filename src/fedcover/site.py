"""Site: the calibration records one site holds. It never travels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.checks import Floats, Ints, Seed
from fedcover.errors import FedcoverError
from fedcover.scores import APS, Score

if TYPE_CHECKING:
    from pathlib import Path

Float64 = NDArray[np.float64]


class Site:
    """Calibration scores and labels of one site.

    Parameters
    ----------
    name
        How the site is called; unique in a federation.
    scores
        (n,) nonconformity scores V_k of the records' own labels, in [0, 1].
    labels
        (n,) integer labels in 0..n_classes-1.
    n_classes
        Number of classes |Y|, the same at every site.
    label_counts
        (n_classes,) label counts M_y that stand for the site's label distribution (eq. 10), for
        example those of its training data. Default: the calibration counts.
    score
        The score function that made `scores`; lets a calibration predict from probabilities.
    label_names
        (n_classes,) names of the classes.
    temperature
        What logits were divided by before the softmax.
    """

    def __init__(
        self,
        name: str,
        scores: ArrayLike,
        labels: ArrayLike,
        *,
        n_classes: int,
        label_counts: ArrayLike | None = None,
        score: Score | None = None,
        label_names: tuple[str, ...] | list[str] | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.name = _name(name)
        what = f"site {self.name!r}: "
        self.n_classes = checks.whole(n_classes, what + "n_classes", 2)
        self.scores = _frozen(checks.unit_scores(scores, what + "scores"))
        if not len(self.scores):
            raise FedcoverError(
                what + "no records",
                allowed="at least one calibration record",
                fix="Leave the site out of `sites`; it can still be a target by its label counts",
            )
        self.labels = _frozen(
            checks.labels(labels, self.n_classes, what + "labels", n=len(self.scores))
        )
        self.label_counts = (
            self.calibration_counts
            if label_counts is None
            else _frozen(checks.counts(label_counts, self.n_classes, what + "label_counts"))
        )
        self.score = None if score is None else checked_score(score, what + "score")
        self.label_names = names(label_names, self.n_classes, what + "label_names")
        self.temperature = checks.real(temperature, what + "temperature", 0, np.inf, open_low=True)
        self._ordered: dict[tuple[int | None, int], tuple[Float64, Ints]] = {}

    @classmethod
    def from_probabilities(
        cls,
        name: str,
        probs: ArrayLike,
        labels: ArrayLike,
        score: Score | None = None,
        seed: Seed = None,
        *,
        label_counts: ArrayLike | None = None,
        label_names: tuple[str, ...] | list[str] | None = None,
        temperature: float = 1.0,
    ) -> Site:
        """A site from (n, C) class probabilities and labels; the score defaults to APS.

        The random numbers of a randomised score depend on `seed` and on the site's name, so that
        two sites with one seed do not share them.
        """
        what = f"site {_name(name)!r}: "
        score = APS() if score is None else checked_score(score, what + "score")
        p = checks.probabilities(probs, what + "probs")
        y = checks.labels(labels, p.shape[1], what + "labels", n=len(p))
        values = score.of_checked(p, y, seed=checks.generator(seed, "site", name))
        return cls(
            name,
            values,
            y,
            n_classes=p.shape[1],
            label_counts=label_counts,
            score=score,
            label_names=label_names,
            temperature=temperature,
        )

    @classmethod
    def from_logits(
        cls,
        name: str,
        logits: ArrayLike,
        labels: ArrayLike,
        temperature: float = 1.0,
        score: Score | None = None,
        seed: Seed = None,
        *,
        label_counts: ArrayLike | None = None,
        label_names: tuple[str, ...] | list[str] | None = None,
    ) -> Site:
        """A site from (n, C) logits, divided by `temperature` before the softmax."""
        return cls.from_probabilities(
            name,
            softmax(logits, temperature, f"site {_name(name)!r}: logits"),
            labels,
            score,
            seed,
            label_counts=label_counts,
            label_names=label_names,
            temperature=temperature,
        )

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        name: str | None = None,
        score: Score | None = None,
        seed: Seed = None,
        *,
        logits: bool = False,
        temperature: float = 1.0,
    ) -> Site:
        """A site from an .npz, .parquet or .csv file (see `fedcover.files`).

        Without `name` the file names it: site-mercy.npz is the site "mercy".
        """
        from fedcover.files import read_outputs

        table = read_outputs(path, logits=logits, temperature=temperature)
        return cls.from_probabilities(
            name or table.stem.removeprefix("site-"),
            table.probs,
            table.require_labels(),
            score,
            seed,
            label_counts=table.label_counts,
            label_names=table.label_names,
            temperature=table.temperature,
        )

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        return f"Site({self.name!r}, {len(self)} records, {self.n_classes} classes)"

    @cached_property
    def calibration_counts(self) -> Ints:
        """N_y: how many calibration records carry each label."""
        return _frozen(np.bincount(self.labels, minlength=self.n_classes).astype(np.int64))

    def sorted_records(self, size: int | None = None, seed: int = 0) -> tuple[Float64, Ints]:
        """Scores in increasing order with their labels; of a random subset if `size` is smaller.

        This is what protocols read. The sort is kept, so that a query answered twice costs
        it once; a smaller subset is the multinomial subsample N̄^i ∧ N^i of Theorem 2.2.
        """
        key = (None, 0) if size is None or size >= len(self) else (size, seed)
        if key not in self._ordered:
            pick = np.arange(len(self))
            if key[0] is not None:
                pick = checks.generator(seed, "subsample", self.name).permutation(pick)[:size]
            pick = pick[np.argsort(self.scores[pick], kind="stable")]
            self._ordered = {key: (_frozen(self.scores[pick]), _frozen(self.labels[pick]))}
        return self._ordered[key]


def checked_federation(sites: Sequence[Site]) -> list[Site]:
    """Sites that can be calibrated together: different names, one score, the same classes."""
    if isinstance(sites, Site) or not isinstance(sites, Sequence) or not len(sites):
        raise FedcoverError(
            f"sites is {sites!r}", allowed="a list of at least one Site", fix="Make a list of sites"
        )
    for s in sites:
        if not isinstance(s, Site):
            raise FedcoverError(
                f"sites contains a {type(s).__name__}",
                allowed="Site objects",
                fix="Make them with Site(...) or Site.from_probabilities(...)",
            )
    seen: set[str] = set()
    for s in sites:
        if s.name in seen:
            raise FedcoverError(
                f"two sites are called {s.name!r}", allowed="different names", fix="Rename one"
            )
        seen.add(s.name)
    first = sites[0]
    for s in sites[1:]:
        for what in ("n_classes", "score", "temperature", "label_names"):
            mine, theirs = getattr(first, what), getattr(s, what)
            if mine != theirs and not (what == "label_names" and None in (mine, theirs)):
                raise FedcoverError(
                    f"sites {first.name!r} and {s.name!r} differ in {what}: {mine}, {theirs}",
                    allowed=f"the same {what} at every site",
                    fix="Thresholds of different scores cannot be compared; make the sites alike",
                )
    return list(sites)


def softmax(logits: ArrayLike, temperature: float = 1.0, what: str = "logits") -> Floats:
    """Class probabilities from logits, softmax(logits / temperature) row by row."""
    temperature = checks.real(temperature, "temperature", 0, np.inf, open_low=True)
    z = checks.logits(logits, what)
    out = np.empty_like(z)
    for rows in checks.row_chunks(*z.shape):
        part = z[rows].astype(np.float64)
        with np.errstate(over="ignore"):  # a gap beyond the largest number is probability 0
            part -= part.max(axis=1, keepdims=True)
            part /= temperature
        np.exp(part, out=part)
        out[rows] = part / part.sum(axis=1, keepdims=True)
    return out


def names(
    given: tuple[str, ...] | list[str] | None, n_classes: int, what: str
) -> tuple[str, ...] | None:
    """Names of the classes: as many as classes, all different."""
    if given is None:
        return None
    if not isinstance(given, (tuple, list)):
        raise FedcoverError(
            f"{what} is {given!r}", allowed=f"a list of {n_classes} names", fix="Make it a list"
        )
    texts = tuple(str(g) for g in given)
    if len(texts) != n_classes or len(set(texts)) != n_classes:
        raise FedcoverError(
            f"{what} has {len(texts)} names, {len(set(texts))} of them different",
            allowed=f"{n_classes} different names",
            fix="Give one name per probability column, in their order",
        )
    return texts


def checked_score(score: Score, what: str) -> Score:
    """A score object; a class or a name is an easy slip."""
    if not isinstance(score, Score):
        raise FedcoverError(
            f"{what} is {score!r}",
            allowed="an object from fedcover.scores",
            fix="Write score=fedcover.scores.APS(), with brackets",
        )
    return score


def checked_name(name: str, what: str) -> str:
    """A text that can be shown and written to a file."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise FedcoverError(
            f"{what} is {name!r}", allowed="a non-empty, printable text", fix="Change the name"
        )
    return name


def _name(name: str) -> str:
    return checked_name(name, "site name")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A private copy that cannot be changed by accident."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy
