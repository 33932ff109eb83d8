"""Calibration: the thresholds of one target, what they promise, and what they cost.

Saved as one JSON file with a schema version and a checksum; never a pickle, because the file
crosses trust boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks, scores, signature
from fedcover._io.facts import (
    FIELDS_THAT_CANNOT_BE,
    MAX_JSON,
    digest,
    facts_of,
    from_json,
    made_of,
    plain_texts,
    to_json,
)
from fedcover._io.reading import read_whole
from fedcover._io.writing import write
from fedcover.certificate import Certificate
from fedcover.checks import Floats, Seed
from fedcover.classnames import Names, in_order, names
from fedcover.errors import FedcoverError, FileError
from fedcover.prediction import PredictionSets
from fedcover.privacy.statement import PrivacyStatement
from fedcover.results import Result, numbers, span
from fedcover.scores import Score
from fedcover.signature import Signature, Trusted
from fedcover.site import ROUNDING, checked_score, softmax

if TYPE_CHECKING:
    from fedcover.identity import Identity

Float64 = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

SCHEMA, SCHEMA_VERSION = "fedcover/calibration", 3
"""Version 1 had no distances; they are then 1 - thresholds. Version 2 had no signatures."""


@dataclass(frozen=True)
class Cost:
    """Rounds of the run, and payload bytes this target's site sent (up) and received (down)."""

    rounds: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """Thresholds that turn probabilities into prediction sets for one target.

    Attributes
    ----------
    target
        Whose label distribution the sets are for.
    alpha
        (A,) miscoverage levels.
    thresholds
        (A, C) scores, rounded up; label y is in the set where its score is at most
        thresholds[a, y].
    distances
        (A, C) distances of the thresholds to 1, which tell more than a threshold near 1 can; 1 -
        thresholds unless given.
    method, options
        How they were found.
    guarantee
        What they promise, and when.
    reveals
        What left the sites.
    shares_scores
        Whether raw scores did.
    ratios
        (C,) weight ŵ_y of a calibration record of each label.
    n_records, n_sites
        Calibration records used, and sites.
    effective_size
        How many equally weighted records these are worth.
    cost
        Rounds and bytes.
    privacy
        What is promised about privacy: ε, δ, unit, relation, view, events; None if nothing.
    score, temperature, label_names
        What `predict_set` needs to know about the model's output.
    notes
        Warnings that came up.
    coverage_error
        (A,) one standard deviation of the coverage, every part that is known included; None where
        the method states none.
    certificate
        With which probability the coverage is 1-α or more, and over what; None unless asked for.
    signatures
        What the coordinator signed of what this came from, and what its site signed of the whole;
        none in a process of one's own.
    """

    target: str
    alpha: tuple[float, ...]
    thresholds: Float64
    method: str
    guarantee: str
    reveals: str
    shares_scores: bool
    ratios: Float64
    n_records: int
    n_sites: int
    effective_size: float
    cost: Cost
    privacy: PrivacyStatement | None = None
    score: Score | None = None
    temperature: float = 1.0
    label_names: Names | None = None
    options: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    distances: Float64 = None  # type: ignore[assignment]
    coverage_error: Float64 | None = None
    certificate: Certificate | None = None
    signatures: tuple[Signature, ...] = ()

    def __post_init__(self) -> None:
        if self.distances is None:
            object.__setattr__(self, "distances", 1 - self.thresholds)

    @property
    def n_classes(self) -> int:
        return self.thresholds.shape[1]

    def __repr__(self) -> str:
        levels = self.alpha[0] if len(self.alpha) == 1 else self.alpha
        limits = ", ".join(map(span, self.thresholds))
        return (
            f"Calibration({self.target!r}, alpha={levels}, threshold {limits}, {self.method}: "
            f"{self.n_records} records of {self.n_sites} sites, {self.n_classes} labels, "
            f"{signature.describe(self.signed_by)})"
        )

    def facts(self) -> dict[str, object]:
        error, spent = self.coverage_error, self.privacy
        return {
            "target": self.target,
            "method": self.method,
            "α": numbers(self.alpha),
            "threshold": "; ".join(map(span, self.thresholds)),
            "coverage aimed at": numbers(1 - np.array(self.alpha)),
            "± one standard deviation": "" if error is None else numbers(error),
            "certificate": self.certificate.statement if self.certificate else "",
            "guarantee": self.guarantee,
            "calibrated on": f"{self.n_records} records of {self.n_sites} sites, "
            f"worth {self.effective_size:.0f}",
            "privacy": f"ε = {spent.epsilon:.4g}, δ = {spent.delta:g}" if spent else "none",
            "signed by": signature.describe(self.signed_by),
            "notes": "; ".join(self.notes),
        }

    def predict_set(
        self,
        probs: ArrayLike | None = None,
        seed: Seed = None,
        *,
        logits: ArrayLike | None = None,
        score: Score | None = None,
        u: ArrayLike | None = None,
        **foreign: Never,
    ) -> PredictionSets:
        """Prediction sets {y : V(x, y) ≤ threshold_y} of new records.

        Parameters
        ----------
        probs
            (n, C) class probabilities, or (C,) of a single record; or `logits`, to which the
            calibration's temperature is applied. Named columns are put in order by their names.
        seed, u
            Randomness of a randomised score, or its u of each record.
        score
            The score function, where the calibration was made from ready scores.
        """
        checks.refuse_level(foreign)
        if (probs is None) == (logits is None):
            raise FedcoverError(
                "probs and logits are both given or both missing",
                allowed="one of them",
                fix="Give predict_set(probs) or predict_set(logits=...)",
            )
        used = self._score(score)
        what = "probs" if logits is None else "logits"
        p = self._batch(probs if logits is None else logits, what)
        if p.ndim == 2 and not len(p):
            mask = np.empty((len(self.alpha), *p.shape), dtype=bool)
            return PredictionSets(mask, self.alpha, self.label_names)
        p = checks.probabilities(p if logits is None else softmax(p, self.temperature))
        mask = np.empty((len(self.alpha), *p.shape), dtype=bool)
        upper, tops, gaps = self._limits()
        sides = used.chunks(
            p,
            checks.generator(seed, "predict", self.target),
            u,
            scores=not upper.all(),
            distances=bool(upper.any()),
        )
        for rows, v, d in sides:
            for a, far in enumerate(upper):
                if far.all():
                    np.greater_equal(d, gaps[a], out=mask[a, rows])
                elif not far.any():
                    np.less_equal(v, tops[a], out=mask[a, rows])
                else:
                    mask[a, rows] = np.where(far, d >= gaps[a], v <= tops[a])
        return PredictionSets(mask, self.alpha, self.label_names)

    def sets_from_scores(
        self, values: ArrayLike, distances: ArrayLike | None = None
    ) -> PredictionSets:
        """Prediction sets from ready scores of every label, (n, C) in [0, 1].

        Parameters
        ----------
        values
            Scores V.
        distances
            1 - V, where they are known better than by subtraction.
        """
        v = self._ready(values, "scores")
        upper, tops, gaps = self._limits()
        if distances is None:
            slack = 4 * self.n_classes * EPS  # what scores say of distances is not relative
            mask = np.stack(
                [v <= limit for limit in np.where(upper, self.thresholds + slack, tops)]
            )
        else:
            d = self._ready(distances, "distances")
            if d.shape != v.shape or (np.abs(1 - v - d) > ROUNDING).any():
                raise FedcoverError(
                    f"distances of shape {d.shape} do not fit scores of shape {v.shape}",
                    allowed=f"distances that are 1 - scores within {ROUNDING:g}",
                    fix="Leave distances out if scores are all you have",
                )
            levels = zip(upper, tops, gaps, strict=True)
            mask = np.stack([np.where(far, d >= gap, v <= top) for far, top, gap in levels])
        return PredictionSets(mask, self.alpha, self.label_names)

    def _ready(self, values: ArrayLike, what: str) -> Floats:
        v = self._batch(values, what)
        if v.ndim != 2 or len(v):
            v = checks.matrix(v, what)
        return checks.unit_scores(v.ravel(), what).reshape(v.shape)

    def _batch(self, table: Any, what: str) -> NDArray[Any]:
        """Records of any number as a matrix, its columns in the order of the calibration."""
        ordered = in_order(table, self.label_names, what, "the calibration's")
        p = checks.rows_of(ordered, self.n_classes, what)
        if p.ndim == 2 and p.shape[1] != self.n_classes:
            raise FedcoverError(
                f"the records have {p.shape[1]} classes",
                allowed=f"{self.n_classes}, as at calibration",
                fix="Use outputs of the model that was calibrated",
            )
        return p

    def _limits(self) -> tuple[NDArray[np.bool_], Float64, Float64]:
        """Which thresholds are beyond one half, and scores and distances that are just inside.

        Scores at calibration were summed in another order; a record as unusual as the one that made
        the threshold must not fall out for that. The rounding of a sum is relative to it. Where a
        distance says no more than the threshold does, it was made from scores by subtraction, and
        has their rounding.
        """
        slack = 4 * self.n_classes * EPS
        plain = self.distances == 1 - self.thresholds
        gaps = self.distances - slack * np.where(plain, 1.0, self.distances)
        return self.thresholds > 0.5, self.thresholds * (1 + slack), gaps

    def _score(self, given: Score | None) -> Score:
        if given is not None:
            checked_score(given, "score")
        if self.score is None and given is None:
            raise FedcoverError(
                "this calibration was made from ready scores, their function is not known",
                allowed="predict_set(probs, score=...), or sets_from_scores(scores)",
                fix="Use the score function that made the calibration scores",
            )
        if self.score is not None and given is not None and given != self.score:
            raise FedcoverError(
                f"score is {given}",
                allowed=f"the score of the calibration, {self.score}",
                fix="Leave score out",
            )
        return given if self.score is None else self.score  # type: ignore[return-value]

    @property
    def signed_by(self) -> tuple[Signature, ...]:
        """Who signed this, with which key. Whether to believe them takes keys: `load(trusted=...)`.

        A signature of the whole counts for what it was made of only: after a change there is none.
        """
        whole = self._digest() if any(map(_whole, self.signatures)) else ""
        return tuple(one for one in self.signatures if not _whole(one) or one.digest == whole)

    def signed(
        self, identity: Identity, name: str | None = None, role: str = "site"
    ) -> Calibration:
        """The same calibration, signed as a whole.

        Parameters
        ----------
        identity
            The private key, from `fedcover.identity.load_identity`.
        name
            Who signs, as in the rosters of those who read it; default the target.
        role
            "site", or "coordinator" of one who is called so.
        """
        name = self.target if name is None else name
        one = signature.signed(identity, role, name, "calibration", self._digest())
        return replace(self, signatures=(*self.signed_by, one))

    def _text(self) -> str:
        """What the checksum seals; signatures of the whole stand beside it."""
        body = {
            **{k: v for k, v in self.__dict__.items() if k not in ("score", "cost")},
            "thresholds": self.thresholds.tolist(),
            "distances": self.distances.tolist(),
            "ratios": self.ratios.tolist(),
            "cost": facts_of(self.cost),
            "score": self.score.spec() if self.score else None,
            "privacy": facts_of(self.privacy),
            "coverage_error": None if self.coverage_error is None else self.coverage_error.tolist(),
            "certificate": facts_of(self.certificate),
            "signatures": [facts_of(one) for one in self.signatures if not _whole(one)],
        }
        return to_json(body, ascii_only=False)

    def _digest(self) -> str:
        return digest(self._text())

    def save(self, path: str | Path) -> None:
        """Write the calibration as one JSON file; replaces the file only when fully written."""
        text, good = self._text(), self.signed_by
        within = [one for one in good if not _whole(one)]
        beside = signature.to_facts([one for one in good if _whole(one)], within)
        sealed = {"schema": SCHEMA, "version": SCHEMA_VERSION, "sha256": digest(text), **beside}
        head = to_json(sealed, ascii_only=False)
        write(path, f'{head[:-1]}, "calibration": {text}}}')

    @classmethod
    def load(cls, path: str | Path, trusted: Trusted | None = None) -> Calibration:
        """Read what `save` wrote; refuses what is corrupt, foreign or newer.

        Parameters
        ----------
        path
            The file.
        trusted
            Public keys of those who are believed: by name, or the path of a roster. A calibration
            that its own site, or the coordinator, has not signed with one of them is refused.
        """
        try:
            path = Path(path)
            data = read_whole(path, MAX_JSON)
        except OSError as error:
            raise _unreadable(path, f"cannot be opened ({error.strerror})") from None
        except (TypeError, ValueError):
            raise _unreadable(repr(path), "is not a path") from None
        try:
            file = from_json(data)
        except ValueError:
            raise _unreadable(path, "is not JSON, or only a part of it") from None
        if file.get("schema") != SCHEMA:
            raise _unreadable(path, "is not a calibration of fedcover")
        version = file.get("version")
        if version not in (1, 2, SCHEMA_VERSION) or isinstance(version, bool):
            raise FileError(
                f"{path} has schema version {version!r}",
                allowed=f"version {SCHEMA_VERSION}, or an earlier one",
                fix="Install the version of fedcover that wrote it",
            )
        body: Any = file.get("calibration")
        try:
            sealed = digest(to_json(body, ascii_only=False))
            good = isinstance(body, dict) and file.get("sha256") == sealed
        except (ValueError, RecursionError):  # text that is no Unicode
            good = False
        if not good:
            raise _unreadable(path, "was changed or damaged: its checksum does not match")
        try:
            cal = cls._from_body(body, version)
            if version == SCHEMA_VERSION:
                beside = _beside(signature.of_facts(file, cal.signatures), sealed)
                cal = replace(cal, signatures=(*cal.signatures, *beside))
        except FIELDS_THAT_CANNOT_BE as error:
            raise _unreadable(path, f"has fields that cannot be ({str(error)[:200]})") from None
        if trusted is not None:
            given = (cal.signatures, "calibration", sealed, trusted)
            signature.verify(*given, path=path, target=cal.target)
        return cal

    @classmethod
    def _from_body(cls, body: dict[str, Any], version: int) -> Calibration:
        if not plain_texts(body):
            raise ValueError("a text with characters that cannot be seen")
        values = dict(body)
        limits = np.array(values.pop("thresholds"), dtype=np.float64)
        alpha = checks.alphas(values.pop("alpha"))
        if limits.ndim != 2 or len(limits) != len(alpha):
            raise ValueError(f"thresholds of shape {limits.shape} for {len(alpha)} levels")
        checks.whole(limits.shape[1], "number of classes", 2)
        given = 1 - limits if version == 1 else values.pop("distances")
        distances = np.array(given, dtype=np.float64)
        for found in (limits, distances):
            if not ((found >= 0) & (found <= 1)).all():
                raise ValueError("thresholds or distances outside [0, 1]")
        if distances.shape != limits.shape or (np.abs(1 - limits - distances) > ROUNDING).any():
            raise ValueError("distances that do not fit the thresholds")
        ratios = np.array(values.pop("ratios"), dtype=np.float64)
        if ratios.shape != (limits.shape[1],) or not (np.isfinite(ratios) & (ratios >= 0)).all():
            raise ValueError(f"ratios {ratios}")
        for name in ("target", "method", "guarantee", "reveals"):
            if not isinstance(values[name], str):
                raise ValueError(f"{name} {values[name]!r}")
        for name in ("n_records", "n_sites"):
            checks.whole(values[name], name, 1)
        checks.real(values["temperature"], "temperature", 0, np.inf, open_low=True)
        checks.real(values["effective_size"], "effective_size", 0, np.inf)
        if not isinstance(values["shares_scores"], bool):
            raise ValueError("shares_scores")
        if not isinstance(values["options"], dict) or not isinstance(values["notes"], list):
            raise ValueError("options or notes")
        error = values.pop("coverage_error", None)
        if error is not None:
            error = np.array([checks.real(e, "coverage_error", 0, np.inf) for e in error])
            if error.shape != (len(alpha),):
                raise ValueError("coverage_error")
        certificate = made_of(Certificate | None, values.pop("certificate", None))
        if certificate is not None:
            checks.real(certificate.confidence, "confidence", 0, 1)
        within = made_of(tuple[Signature, ...], values.pop("signatures", []))
        if any(map(_whole, within)) or (within and version < SCHEMA_VERSION):
            raise ValueError("signatures of the whole inside of it")
        spec = values.pop("score")
        label_names = values.pop("label_names")
        return cls(
            **values
            | {
                "alpha": alpha,
                "thresholds": limits,
                "distances": distances,
                "coverage_error": error,
                "certificate": certificate,
                "ratios": ratios,
                "cost": made_of(Cost, values.pop("cost")),
                "score": None if spec is None else scores.from_spec(spec),
                "privacy": made_of(PrivacyStatement | None, values.pop("privacy")),
                "label_names": names(label_names, limits.shape[1], "label_names"),
                "notes": tuple(values.pop("notes")),
                "signatures": within,
            }
        )


def _whole(one: Signature) -> bool:
    """Whether it is of a whole calibration, and not of what that came from."""
    return one.of == "calibration"


def _beside(found: Sequence[Signature], sealed: str) -> Sequence[Signature]:
    """The signatures beside a sealed text, if they are of it."""
    if not all(_whole(one) and one.digest == sealed for one in found):
        raise ValueError("signatures of something else")
    return found


def _unreadable(path: Path | str, why: str) -> FileError:
    return FileError(
        f"{path} {why}",
        allowed="a file written by Calibration.save",
        fix="Copy it again, or calibrate again",
    )
