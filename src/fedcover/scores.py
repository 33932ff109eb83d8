"""Nonconformity scores V(x, y) in [0, 1]: how unusual a label looks for a record.

Every score offers

    of_labels(probs, labels)  (n,)    the score of each record's own label, without a sort
    of_all(probs)             (n, C)  the score of every label

and the distances 1 - V as distances_of_labels and distances_of_all. A sure model has scores within
10⁻²⁰ of 1, so both V and 1 - V are sums from their own, small side. Rows of probabilities need sum
to 1 only within 10⁻³; each counts as divided by its sum, or V and 1 - V would not add up to 1.

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

from fedcover import checks
from fedcover.checks import Floats, Seed
from fedcover.errors import FedcoverError
from fedcover.position import Positions, distances_at, positions, scores_at
from fedcover.ranking import Rows

Float64 = NDArray[np.float64]
U = Literal["uniform"] | float

LARGE = 1 << 24
"""Entries of a probability matrix from which loading the compiled sort pays."""


@dataclass(frozen=True)
class Score:
    """What all scores share: checks, chunks of rows, and the random u."""

    @property
    def steps(self) -> bool:
        """Whether labels of sure records crowd inside (0, 1), where calibration records may not."""
        return False

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
        return scores_at(self._checked(probs, labels, seed, u))

    def distances_of_labels(
        self, probs: ArrayLike, labels: ArrayLike, seed: Seed = None, u: ArrayLike | None = None
    ) -> Float64:
        """1 - V of `of_labels` (with the same seed or u), exact where V is near 1."""
        return distances_at(self._checked(probs, labels, seed, u))

    def positions(
        self, p: Floats, y: NDArray[np.int64], seed: Seed = None, u: ArrayLike | None = None
    ) -> Positions:
        """The position of each own score, for probabilities and labels known to be in order."""
        # One u per record before any chunk is cut: how rows are grouped changes no score.
        u_rows = self._u(p, seed, u, y)
        out = np.empty(len(p), dtype=np.int64)
        for rows in checks.row_chunks(*p.shape):
            batch, mine = Rows(p[rows], y[rows]), u_rows[rows, None]
            # V and 1 - V are each a sum of their own; rounding alone takes one beyond [0, 1].
            sides = (_clipped(f(batch, mine))[:, 0] for f in (self._score, self._distance))
            out[rows] = positions(*sides)
        return out

    def of_all(self, probs: ArrayLike, seed: Seed = None, u: ArrayLike | None = None) -> Float64:
        """The score of every label of every record, (n, C); same u for a record's labels."""
        return self._matrix(probs, seed, u, upper=True)

    def distances_of_all(
        self, probs: ArrayLike, seed: Seed = None, u: ArrayLike | None = None
    ) -> Float64:
        """1 - V of `of_all` (with the same seed or u), exact where V is near 1."""
        return self._matrix(probs, seed, u, upper=False)

    def chunks(
        self,
        probs: Floats,
        seed: Seed = None,
        u: ArrayLike | None = None,
        *,
        scores: bool = True,
        distances: bool = False,
    ) -> Iterator[tuple[slice, Float64, Float64]]:
        """Scores and distances of all labels, as far as wanted, a few rows at a time.

        For checked probabilities; what is not wanted comes without rows.
        """
        u_rows = self._u(probs, seed, u)
        large = probs.size >= LARGE
        for rows in checks.row_chunks(*probs.shape):
            batch = Rows(probs[rows], compiled=large, upper=scores, lower=distances)
            mine, empty = u_rows[rows, None], np.empty((0, probs.shape[1]))
            yield (
                rows,
                _clipped(self._score(batch, mine)) if scores else empty,
                _clipped(self._distance(batch, mine)) if distances else empty,
            )

    def _checked(
        self, probs: ArrayLike, labels: ArrayLike, seed: Seed, u: ArrayLike | None
    ) -> Positions:
        p = checks.probabilities(probs)
        return self.positions(p, checks.labels(labels, p.shape[1], n=len(p)), seed, u)

    def _matrix(self, probs: ArrayLike, seed: Seed, u: ArrayLike | None, upper: bool) -> Float64:
        p = checks.probabilities(probs)
        out = np.empty(p.shape)
        for rows, v, d in self.chunks(p, seed, u, scores=upper, distances=not upper):
            out[rows] = v if upper else d
        return out

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
            uniforms = checks.array(u, "u")
            if uniforms.shape not in ((), (len(p),)):
                raise FedcoverError(
                    f"u has shape {uniforms.shape}",
                    allowed=f"one number, or one per record: ({len(p)},)",
                    fix="Give as many u as records",
                )
            return checks.unit_scores(np.broadcast_to(uniforms, (len(p),)), "u")
        setting = getattr(self, "u", 1.0)
        if setting == "uniform":
            return row_uniforms(p, checks.generator(seed), labels)
        return np.full(len(p), setting)

    def _score(self, rows: Rows, u: Float64) -> Float64:
        """V of the labels asked about; u is (n, 1)."""
        raise AssertionError("each score defines its own")

    def _distance(self, rows: Rows, u: Float64) -> Float64:
        """1 - V, as a sum of parts that are not negative."""
        raise AssertionError("each score defines its own")


def _upto(rows: Rows, u: Float64) -> Float64:
    """The mass of all more likely labels and a share u of one's own."""
    return (rows.above + u * rows.own) / rows.total


def _beyond(rows: Rows, u: Float64) -> Float64:
    """The mass that `_upto` leaves."""
    return (rows.below + (1 - u) * rows.own) / rows.total


def _clipped(values: Float64) -> Float64:
    return np.clip(values, 0, 1, out=values)


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

    def _score(self, rows: Rows, u: Float64) -> Float64:
        return _upto(rows, u)

    def _distance(self, rows: Rows, u: Float64) -> Float64:
        return _beyond(rows, u)


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

    @property
    def steps(self) -> bool:
        return self.penalty > 0

    def _score(self, rows: Rows, u: Float64) -> Float64:
        beyond = np.maximum(0, rows.rank - self.k_reg)
        return (_upto(rows, u) + self.penalty * beyond) / self.divisor(rows.n_classes)

    def _distance(self, rows: Rows, u: Float64) -> Float64:
        # The penalty that the last rank would have, less one's own: 1 - V without a subtraction
        # from 1.
        beyond = np.maximum(0, rows.rank - self.k_reg)
        spared = self.penalty * (max(0, rows.n_classes - self.k_reg) - beyond)
        return (_beyond(rows, u) + spared) / self.divisor(rows.n_classes)

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

    @property
    def steps(self) -> bool:
        return self.penalty > 0 and self.u != "uniform"

    def _score(self, rows: Rows, u: Float64) -> Float64:
        top, rank = rows.top / rows.total, rows.rank
        raw = np.where(rank == 1, u * top, top + self.penalty * (rank - 2 + u))
        return raw / self.divisor(rows.n_classes)

    def _distance(self, rows: Rows, u: Float64) -> Float64:
        rank, rest = rows.rank, rows.rest / rows.total
        # 1 = (top + rest)/total, so what V leaves is the rest, and the steps of all further ranks.
        first = rest + (1 - u) * (rows.top / rows.total) + self.penalty * (rows.n_classes - 1)
        other = rest + self.penalty * (rows.n_classes - rank + (1 - u))
        return np.where(rank == 1, first, other) / self.divisor(rows.n_classes)

    def divisor(self, n_classes: int) -> float:
        """The largest value before it is divided into [0, 1]."""
        return 1 + self.penalty * (n_classes - 1)


@dataclass(frozen=True)
class LAC(Score):
    """Least ambiguous classifier (Sadinle, Lei, Wasserman 2019): V = 1 - f̂(x)[y]."""

    def _score(self, rows: Rows, u: Float64) -> Float64:
        # 1 - f̂[y] as the mass of the other labels: for a sure model 1 - f̂[y] itself would be 0.
        return (rows.rest + (rows.top - rows.own)) / rows.total

    def _distance(self, rows: Rows, u: Float64) -> Float64:
        return rows.own / rows.total


@dataclass(frozen=True)
class Margin(Score):
    """How far the best other label is ahead: V = (1 + max_{y'≠y} f̂[y'] - f̂[y]) / 2."""

    def _score(self, rows: Rows, u: Float64) -> Float64:
        # 1 + rival - own with 1 = (rest + top)/total: no term is negative, so small scores keep all
        # digits.
        return (rows.rest + (rows.top - rows.own) + rows.rival) / (2 * rows.total)

    def _distance(self, rows: Rows, u: Float64) -> Float64:
        return (rows.rest + (rows.top - rows.rival) + rows.own) / (2 * rows.total)


@dataclass(frozen=True)
class TopK(Score):
    """The rank of the label: V = rank / C, where rank 1 is the most likely label."""

    def _score(self, rows: Rows, u: Float64) -> Float64:
        return rows.rank / rows.n_classes

    def _distance(self, rows: Rows, u: Float64) -> Float64:
        return (rows.n_classes - rows.rank) / rows.n_classes

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


UInt64 = NDArray[np.uint64]


def row_uniforms(
    p: Floats, rng: np.random.Generator, labels: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Numbers in [0, 1), one per row, from a hash of the row's bits with a key drawn from `rng`.

    A row's bits are summed with random odd multipliers modulo 2^64 (multilinear hashing: two
    different rows agree with probability 2^-31) and then mixed. Equal rows of one batch are
    counted and get different numbers, as a model with few distinct outputs needs. With `labels`
    they are counted within a label, so that one record more or less changes one number only: the
    sensitivity of private releases rests on that.
    """
    words = p.shape[1] * (p.dtype.itemsize // 4)
    # Odd multipliers can be inverted modulo 2^64: no bit of a word is lost.
    odd = rng.integers(0, 2**63, size=words, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    start = rng.integers(0, 2**63, dtype=np.uint64)
    hashed = np.empty(len(p), dtype=np.uint64)
    for rows in checks.row_chunks(*p.shape):
        bits = np.ascontiguousarray(p[rows]).view(np.uint32)
        hashed[rows] = bits.astype(np.uint64) @ odd
    # Equal rows of other labels must not be counted: one record more would shift their numbers.
    same = hashed if labels is None else _mix(hashed) + labels.astype(np.uint64)
    mixed = _mix(_mix(hashed) + start + _occurrence(same))
    # The upper 53 bits: as many as a double has, so that 1 is never reached.
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _occurrence(hashed: UInt64) -> UInt64:
    """How many equal rows came before, for every row."""
    order = np.argsort(hashed, kind="stable")
    new = np.append(True, hashed[order][1:] != hashed[order][:-1])
    position = np.arange(len(hashed))
    out = np.empty(len(hashed), dtype=np.uint64)
    out[order] = position - np.maximum.accumulate(np.where(new, position, 0))
    return out


def _mix(x: UInt64) -> UInt64:
    """SplitMix64's finaliser: every input bit changes about half of the output bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
