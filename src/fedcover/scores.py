"""Nonconformity scores V(x, y) in [0, 1]: how unusual a label looks for a record.

Every score offers

    of_labels(probs, labels)  (n,)    the score of each record's own label, without a sort
    of_all(probs)             (n, C)  the score of every label

A larger score means a more surprising label. Scores whose published form leaves [0, 1] (RAPS, SAPS,
margin, rank) are mapped into it by a fixed increasing function, which changes no prediction set.

A randomised score has one u per record, used for all labels of that record. It is a keyed hash of
the record's probabilities, with a key from `seed`: the same record gets the same u however the
records are ordered and split into batches, even one at a time. It can also be handed in as `u`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks, ranking
from fedcover.checks import Floats, Seed
from fedcover.errors import FedcoverError
from fedcover.uniforms import row_uniforms

Float64 = NDArray[np.float64]
U = Literal["uniform"] | float

LARGE = 1 << 24
"""Entries of a probability matrix from which loading the compiled sort pays."""


@dataclass(frozen=True)
class Score:
    """What all scores share: checks, chunks of rows, and the random u."""

    def of_labels(
        self, probs: ArrayLike, labels: ArrayLike, seed: Seed = None, u: ArrayLike | None = None
    ) -> Float64:
        """The score of each record's own label.

        Parameters
        ----------
        probs
            (n, C) probabilities.
        labels
            (n,) integers.
        seed
            Source of the random u, where the score is randomised.
        u
            (n,) numbers in [0, 1] to use instead.
        """
        p = checks.probabilities(probs)
        return self.of_checked(p, checks.labels(labels, p.shape[1], n=len(p)), seed, u)

    def of_checked(
        self, p: Floats, y: NDArray[np.int64], seed: Seed = None, u: ArrayLike | None = None
    ) -> Float64:
        """`of_labels` for probabilities and labels that are known to be in order."""
        u_rows = self._u(p, seed, u, y)
        out = np.empty(len(p))
        for rows in checks.row_chunks(*p.shape):
            part, mine = p[rows], y[rows]
            p_label = part[np.arange(len(part)), mine]
            out[rows] = self._labels(part, mine, p_label.astype(np.float64), u_rows[rows])
        return np.clip(out, 0, 1, out=out)

    def of_all(self, probs: ArrayLike, seed: Seed = None, u: ArrayLike | None = None) -> Float64:
        """The score of every label of every record, (n, C); same u for a record's labels."""
        p = checks.probabilities(probs)
        out = np.empty(p.shape)
        for rows, part in self.chunks(p, seed, u):
            out[rows] = part
        return out

    def chunks(
        self, probs: Floats, seed: Seed = None, u: ArrayLike | None = None
    ) -> Iterator[tuple[slice, Float64]]:
        """`of_all` for checked probabilities, a few rows at a time, for little memory."""
        u_rows = self._u(probs, seed, u)
        large = probs.size >= LARGE
        for rows in checks.row_chunks(*probs.shape):
            part = self._all(probs[rows], u_rows[rows, None], large)
            yield rows, np.clip(part, 0, 1, out=part)

    def spec(self) -> dict[str, Any]:
        """A plain description that `from_spec` turns back into the score."""
        return {"name": type(self).__name__, **asdict(self)}

    def _u(
        self,
        p: Floats,
        seed: Seed,
        u: ArrayLike | None,
        labels: NDArray[np.int64] | None = None,
    ) -> Float64:
        """The u of every record: given, fixed, or random."""
        if u is not None:
            given = checks.array(u, "u")
            if given.shape not in ((), (len(p),)):
                raise FedcoverError(
                    f"u has shape {given.shape}",
                    allowed=f"one number, or one per record: ({len(p)},)",
                    fix="Give as many u as records",
                )
            return checks.unit_scores(np.broadcast_to(given, (len(p),)), "u")
        setting = getattr(self, "u", 1.0)
        if setting == "uniform":
            return row_uniforms(p, checks.generator(seed), labels)
        return np.full(len(p), setting)

    def _labels(self, p: Floats, y: NDArray[np.int64], p_label: Float64, u: Float64) -> Float64:
        raise AssertionError("each score defines its own")

    def _all(self, p: Floats, u: Float64, large: bool) -> Float64:
        raise AssertionError("each score defines its own")


@dataclass(frozen=True)
class _Randomised(Score):
    """A score with a random part.

    u : "uniform" draws U from [0, 1] for every record; a number fixes it (1 is the
        deterministic, more conservative form).
    """

    u: U = "uniform"

    def __post_init__(self) -> None:
        if isinstance(self.u, str):
            checks.choice(self.u, "u", ["uniform"])
        else:
            object.__setattr__(self, "u", checks.real(self.u, "u", 0, 1))


@dataclass(frozen=True)
class APS(_Randomised):
    """Adaptive prediction sets: the mass of all more likely labels plus a share of one's own.

    V(x, y) = ρ(x, y) + U·f̂(x)[y] with ρ the sum of the probabilities strictly above f̂(x)[y]
    (Plassier et al. 2023, section 5; Romano, Sesia, Candès 2020).
    """

    def _labels(self, p: Floats, y: NDArray[np.int64], p_label: Float64, u: Float64) -> Float64:
        return ranking.mass_above_label(p, y) + u * p_label

    def _all(self, p: Floats, u: Float64, large: bool) -> Float64:
        mass, _ = ranking.above_all(p, large)
        mass += u * p
        return mass


@dataclass(frozen=True)
class RAPS(_Randomised):
    """Regularised APS (Angelopoulos et al. 2021): APS plus a penalty on unlikely ranks.

    V = [ρ + U·f̂[y] + penalty·(rank - k_reg)₊] / [1 + penalty·(C - k_reg)₊]; the divisor maps the
    published score into [0, 1].
    """

    penalty: float = 0.01
    k_reg: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "penalty", checks.real(self.penalty, "penalty", 0, 1e9))
        object.__setattr__(self, "k_reg", checks.whole(self.k_reg, "k_reg", 0))

    def _labels(self, p: Floats, y: NDArray[np.int64], p_label: Float64, u: Float64) -> Float64:
        aps = ranking.mass_above_label(p, y) + u * p_label
        return self._regularise(aps, ranking.rank_of_label(p, y), p.shape[1])

    def _all(self, p: Floats, u: Float64, large: bool) -> Float64:
        mass, rank = ranking.above_all(p, large)
        mass += u * p
        return self._regularise(mass, rank, p.shape[1])

    def _regularise(self, aps: Float64, rank: NDArray[np.int64], n_classes: int) -> Float64:
        return (aps + self.penalty * np.maximum(0, rank - self.k_reg)) / self.divisor(n_classes)

    def divisor(self, n_classes: int) -> float:
        """The largest value before it is divided into [0, 1]."""
        return 1 + self.penalty * max(0, n_classes - self.k_reg)


@dataclass(frozen=True)
class SAPS(_Randomised):
    """Sorted APS (Huang et al. 2024): only the largest probability and the rank count.

    V = U·f̂_max for the top label, else f̂_max + penalty·(rank - 2 + U), divided by
    1 + penalty·(C - 1).
    """

    penalty: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "penalty", checks.real(self.penalty, "penalty", 0, 1e9))

    def _labels(self, p: Floats, y: NDArray[np.int64], p_label: Float64, u: Float64) -> Float64:
        return self._value(p.max(axis=1), ranking.rank_of_label(p, y), u, p.shape[1])

    def _all(self, p: Floats, u: Float64, large: bool) -> Float64:
        _, rank = ranking.above_all(p, large)
        return self._value(p.max(axis=1, keepdims=True), rank, u, p.shape[1])

    def _value(self, top: Floats, rank: NDArray[np.int64], u: Float64, n_classes: int) -> Float64:
        raw = np.where(rank == 1, u * top, top + self.penalty * (rank - 2 + u))
        return raw / self.divisor(n_classes)

    def divisor(self, n_classes: int) -> float:
        """The largest value before it is divided into [0, 1]."""
        return 1 + self.penalty * (n_classes - 1)


@dataclass(frozen=True)
class LAC(Score):
    """Least ambiguous classifier (Sadinle, Lei, Wasserman 2019): V = 1 - f̂(x)[y]."""

    def _labels(self, p: Floats, y: NDArray[np.int64], p_label: Float64, u: Float64) -> Float64:
        return 1 - p_label

    def _all(self, p: Floats, u: Float64, large: bool) -> Float64:
        return 1 - p.astype(np.float64)


@dataclass(frozen=True)
class Margin(Score):
    """How far the best other label is ahead: V = (1 + max_{y'≠y} f̂[y'] - f̂[y]) / 2."""

    def _labels(self, p: Floats, y: NDArray[np.int64], p_label: Float64, u: Float64) -> Float64:
        return self._value(ranking.top_two(p), p_label[:, None])[:, 0]

    def _all(self, p: Floats, u: Float64, large: bool) -> Float64:
        return self._value(ranking.top_two(p), p.astype(np.float64))

    @staticmethod
    def _value(top_two: Floats, p: Float64) -> Float64:
        second, first = top_two[:, :1], top_two[:, 1:]
        rival = np.where(p == first, second, first)
        return (1 + rival - p) / 2


@dataclass(frozen=True)
class TopK(Score):
    """The rank of the label: V = rank / C, where rank 1 is the most likely label."""

    def _labels(self, p: Floats, y: NDArray[np.int64], p_label: Float64, u: Float64) -> Float64:
        return ranking.rank_of_label(p, y) / p.shape[1]

    def _all(self, p: Floats, u: Float64, large: bool) -> Float64:
        _, rank = ranking.above_all(p, large)
        return rank / p.shape[1]

    def divisor(self, n_classes: int) -> float:
        """The largest value before it is divided into [0, 1]."""
        return float(n_classes)


ALL: dict[str, type[Score]] = {s.__name__: s for s in (APS, RAPS, SAPS, LAC, Margin, TopK)}


def from_spec(spec: dict[str, Any]) -> Score:
    """The score that `Score.spec` described."""
    options = dict(spec) if isinstance(spec, dict) else {}
    name = options.pop("name", "")
    kind = ALL.get(name) if isinstance(name, str) else None
    if kind is None or set(options) - {f.name for f in fields(kind)}:
        raise FedcoverError(
            f"score description {spec!r} is unknown",
            allowed=f"one of {', '.join(ALL)} with its options",
            fix="It was written by another version of fedcover, or by hand",
        )
    return kind(**options)
