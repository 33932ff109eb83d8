"""Site: the calibration records one site holds. It never travels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.checks import Ints, Seed
from fedcover.classnames import Names, column_names, in_words, order_of
from fedcover.classnames import names as names
from fedcover.errors import FedcoverError
from fedcover.inputs import listed
from fedcover.logits import softmax as softmax
from fedcover.position import distances_at, positions, scores_at
from fedcover.scores import ALL, APS, Score

if TYPE_CHECKING:
    from pathlib import Path

Float64 = NDArray[np.float64]

ROUNDING = 1e-9
"""How far a score and its distance to 1 may be from adding up to 1."""


class Site:
    """Calibration scores and labels of one site.

    Parameters
    ----------
    name
        How the site is called; unique in a federation.
    scores
        (n,) nonconformity scores V_k of the records' own labels, in [0, 1].
    labels
        (n,) class numbers in 0..n_classes-1, or names of classes where `label_names` are given.
        Where these are whole numbers, such as 1 to 10, labels are taken as names.
    n_classes
        Number of classes |Y|, the same at every site; at most a million.
    distances
        (n,) distances 1 - V_k, where they are known better than the scores tell: a score within
        10⁻¹⁷ of 1 is 1. Default: 1 - scores.
    predictions
        (n,) the class the model finds most likely for each record, where that is known: a private
        confusion matrix can be made of it.
    label_counts
        (n_classes,) label counts M_y that stand for the site's label distribution (eq. 10), for
        example those of its training data. Default: the calibration counts.
    score
        The score function that made `scores`; lets a calibration predict from probabilities.
    label_names
        (n_classes,) names of the classes: texts, or whole numbers.
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
        distances: ArrayLike | None = None,
        predictions: ArrayLike | None = None,
        label_counts: ArrayLike | None = None,
        score: Score | None = None,
        label_names: Sequence[str | int] | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.name = _name(name)
        what = f"site {self.name!r}: "
        self.n_classes = checks.whole(n_classes, what + "n_classes", 2, checks.MOST_CLASSES)
        self.positions = _frozen(_positions(scores, distances, what))
        if not len(self):
            raise FedcoverError(
                what + "no records",
                allowed="at least one calibration record",
                fix="Leave the site out of `sites`; it can still be a target by its label counts",
            )
        self.label_names = names(label_names, self.n_classes, what + "label_names")
        given = (labels, self.n_classes, what + "labels", len(self), self.label_names)
        self.labels = _frozen(checks.labels(*given))
        self.predictions: Ints | None = None
        if predictions is not None:
            given = (predictions, *given[1:2], what + "predictions", *given[3:])
            self.predictions = _frozen(checks.labels(*given))
        self.separate_counts = label_counts is not None
        self.label_counts = (
            self.calibration_counts
            if label_counts is None
            else _frozen(checks.counts(label_counts, self.n_classes, what + "label_counts"))
        )
        self.score = None if score is None else checked_score(score, what + "score")
        self.temperature = checks.real(temperature, what + "temperature", 0, np.inf, open_low=True)
        self._ordered: dict[tuple[int | None, int], tuple[Ints, Ints]] = {}

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
        label_names: Sequence[str | int] | None = None,
        temperature: float = 1.0,
    ) -> Site:
        """A site from (n, C) class probabilities and labels; the score defaults to APS.

        A table with named columns (a pandas DataFrame) names the classes; `label_names` does so
        otherwise. Labels are class numbers, or text where the classes have names.

        The random numbers of a randomised score depend on `seed` and on the site's name, so that
        two sites with one seed do not share them.
        """
        what = f"site {_name(name)!r}: "
        score = APS() if score is None else checked_score(score, what + "score")
        p = checks.probabilities(probs, what + "probs")
        label_names = _class_names(probs, label_names, p.shape[1], what)
        y = checks.labels(labels, p.shape[1], what + "labels", len(p), label_names)
        at = score.positions(p, y, seed=checks.generator(seed, "site", name))
        return cls(
            name,
            scores_at(at),
            in_words(y, label_names),
            n_classes=p.shape[1],
            distances=distances_at(at),
            predictions=in_words(p.argmax(axis=1), label_names),
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
        label_names: Sequence[str | int] | None = None,
    ) -> Site:
        """A site from (n, C) logits, divided by `temperature` before the softmax."""
        what = f"site {_name(name)!r}: "
        p = softmax(logits, temperature, what + "logits")
        label_names = _class_names(logits, label_names, p.shape[1], what)
        return cls.from_probabilities(
            name,
            p,
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
        """A site from an .npz, .parquet or .csv file (see `fedcover._io.files`).

        Without `name` the file names it: site-mercy.npz is the site "mercy".
        """
        from fedcover._io.files import read_outputs

        table = read_outputs(path, logits=logits, temperature=temperature)
        return cls.from_probabilities(
            name or table.stem.removeprefix("site-"),
            table.probs,
            in_words(table.require_labels(), table.label_names),
            score,
            seed,
            label_counts=table.label_counts,
            label_names=table.label_names,
            temperature=table.temperature,
        )

    def in_order(self, known: Names) -> Site:
        """The same site with its classes in another order, in which a federation has them."""
        if self.label_names is None or self.label_names == known:
            return self
        order = order_of(self.label_names, known, f"site {self.name!r}", "the other sites'")
        place = np.argsort(order)  # where each of its classes goes
        predictions = None if self.predictions is None else place[self.predictions]
        return Site(
            self.name,
            self.scores,
            in_words(place[self.labels], known),
            n_classes=self.n_classes,
            distances=self.distances,
            predictions=None if predictions is None else in_words(predictions, known),
            label_counts=self.label_counts[order] if self.separate_counts else None,
            score=self.score,
            label_names=known,
            temperature=self.temperature,
        )

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        return f"Site({self.name!r}, {len(self)} records, {self.n_classes} classes)"

    @cached_property
    def scores(self) -> Float64:
        """(n,) the scores V_k; those beyond one half are 1 minus their distances, rounded up."""
        return _frozen(scores_at(self.positions))

    @cached_property
    def distances(self) -> Float64:
        """(n,) the distances 1 - V_k."""
        return _frozen(distances_at(self.positions))

    @cached_property
    def calibration_counts(self) -> Ints:
        """N_y: how many calibration records carry each label."""
        return _frozen(np.bincount(self.labels, minlength=self.n_classes).astype(np.int64))

    def sorted_records(self, size: int | None = None, seed: int = 0) -> tuple[Ints, Ints]:
        """Positions in increasing order with their labels; of a random subset if `size` is smaller.

        This is what methods read. The sort is kept, so that a query answered twice costs
        it once; a smaller subset is the multinomial subsample N̄^i ∧ N^i of Theorem 2.2.
        """
        key = (None, 0) if size is None or size >= len(self) else (size, seed)
        if key not in self._ordered:
            pick = np.arange(len(self))
            if key[0] is not None:
                pick = checks.generator(seed, "subsample", self.name).permutation(pick)[:size]
            pick = pick[np.argsort(self.positions[pick], kind="stable")]
            self._ordered = {key: (_frozen(self.positions[pick]), _frozen(self.labels[pick]))}
        return self._ordered[key]


def checked_score(score: Score, what: str) -> Score:
    """A score object; a class or a name is an easy slip."""
    if not isinstance(score, Score):
        known = {name.lower(): name for name in ALL}
        word = score if isinstance(score, str) else getattr(score, "__name__", "")
        raise FedcoverError(
            f"{what} is {score!r}",
            allowed="an object from fedcover.scores",
            fix=f"Write score=fedcover.scores.{known.get(word.lower(), 'APS')}(), with brackets",
        )
    return score


def checked_name(name: str, what: str) -> str:
    """A text that can be shown and written to a file."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise FedcoverError(
            f"{what} is {name!r}", allowed="a non-empty, printable text", fix="Change the name"
        )
    return name


def _class_names(
    table: ArrayLike, given: Sequence[str | int] | None, n_classes: int, what: str
) -> Names | None:
    """The names given, or else those of the table's columns; never in two different orders."""
    columns = column_names(table)
    if given is None:
        return names(columns, n_classes, what + "column names")
    known = names(given, n_classes, what + "label_names")
    if known and columns and known != columns and set(known) == set(columns):
        raise FedcoverError(
            f"{what}label_names {listed(known, 8)} and the columns {listed(columns, 8)} "
            "are in different orders",
            allowed="label_names in the order of the columns",
            fix="Leave label_names out: the columns name the classes",
        )
    return known


def _name(name: str) -> str:
    return checked_name(name, "site name")


def _positions(scores: ArrayLike, distances: ArrayLike | None, what: str) -> Ints:
    v = checks.unit_scores(scores, what + "scores")
    if distances is None:
        return positions(v)
    d = checks.unit_scores(distances, what + "distances")
    if d.shape != v.shape:
        raise FedcoverError(
            f"{what}distances has {len(d)} entries, scores {len(v)}",
            allowed="one distance 1 - V per score V",
            fix="Give both for the same records in the same order",
        )
    apart = np.abs(1 - v - d)
    if (apart > ROUNDING).any():
        k = int(np.argmax(apart))
        raise FedcoverError(
            f"{what}distances[{k}] is {d[k]:.6g} and scores[{k}] is {v[k]:.6g}",
            allowed=f"distances that are 1 - scores within {ROUNDING:g}",
            fix="Measure distances from the score 1, or leave them out if scores are all you have",
        )
    return positions(v, d)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A private copy that cannot be changed by accident."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy
