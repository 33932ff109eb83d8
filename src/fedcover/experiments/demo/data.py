"""The demo's federation: hand-written digits, shipped with scikit-learn, at five hospitals.

The ten digits stand for ten diagnoses. Each hospital sees them in a mix of its own; an image of a
digit is drawn in the same way wherever it is seen, so label shift holds by construction. The model
is modest on purpose: it learned from few images with added noise, and from very few of the digits
1, 8 and 9, which are therefore the hard ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover import checks

Float64 = NDArray[np.float64]
Ints = NDArray[np.int64]

TRAINING_COUNTS = (30, 4, 30, 16, 30, 16, 30, 30, 4, 4)
PIXEL_NOISE = 0.2
"""Standard deviation of the noise on every pixel; pixels run from 0 to 1."""

TEST_SIZE = 200


@dataclass(frozen=True)
class Hospital:
    """A site of the demo.

    Attributes
    ----------
    name
        As in the names of the files.
    size
        Number of calibration records.
    mix
        Percentages of the digits 0 to 9 among its patients.
    """

    name: str
    size: int
    mix: tuple[int, ...]

    @property
    def title(self) -> str:
        return self.name.title()

    @property
    def prior(self) -> Float64:
        return np.array(self.mix) / 100


HOSPITALS = (
    Hospital("lakeside", 230, (24, 2, 22, 3, 12, 2, 12, 21, 1, 1)),
    Hospital("northgate", 180, (5, 4, 10, 20, 14, 22, 14, 5, 3, 3)),
    Hospital("harbour", 140, (10, 14, 7, 4, 22, 4, 18, 9, 6, 6)),
    Hospital("riverside", 120, (6, 7, 5, 8, 8, 10, 6, 6, 20, 24)),
    Hospital("mercy", 45, (3, 24, 3, 7, 3, 4, 3, 3, 30, 20)),
)
SMALL = HOSPITALS[-1]
LABEL_NAMES = tuple(str(digit) for digit in range(10))


@dataclass(frozen=True)
class Federation:
    """Held-out records with the model's probabilities, from which hospitals are drawn.

    Attributes
    ----------
    probs, labels
        (n, 10) and (n,). None of these records trained the model.
    n_training
        How many records did.
    accuracy
        Share of the held-out records whose most likely label is right.
    hospitals
        The sites.
    """

    probs: Float64
    labels: Ints
    n_training: int
    accuracy: float
    hospitals: tuple[Hospital, ...] = HOSPITALS


@dataclass(frozen=True)
class Split:
    """Rows of the federation's records at each hospital, in the order of the hospitals.

    Attributes
    ----------
    calibration
        No record is at two hospitals.
    test
        Records in no calibration set; two hospitals may be tested on the same record.
    """

    calibration: tuple[Ints, ...]
    test: tuple[Ints, ...]


def federation(seed: int) -> Federation:
    """Train the model and compute its probabilities for all other records."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    rng = checks.generator(seed, "demo", "model")
    images, labels = load_digits(return_X_y=True)
    noisy = images / 16 + rng.normal(0, PIXEL_NOISE, images.shape)
    by_class = [rng.permutation(np.flatnonzero(labels == k)) for k in range(10)]
    training = np.concatenate([rows[:n] for rows, n in zip(by_class, TRAINING_COUNTS, strict=True)])
    rest = np.setdiff1d(np.arange(len(labels)), training)
    with threadpool_limits(1):  # sums in another order would give another model
        model = LogisticRegression(max_iter=500).fit(noisy[training], labels[training])
        probs = model.predict_proba(noisy[rest])
    accuracy = float((probs.argmax(axis=1) == labels[rest]).mean())
    return Federation(probs, labels[rest].astype(np.int64), len(training), accuracy)


def split(fed: Federation, rng: np.random.Generator) -> Split:
    """Draw calibration and test records of every hospital according to its mix.

    The labels are drawn first, independently, then as many records of each label. Should a digit
    run out, which is rare, all labels are drawn again.
    """
    stock = np.bincount(fed.labels, minlength=10)
    while True:
        drawn = np.array([rng.multinomial(h.size, h.prior) for h in fed.hospitals])
        tested = np.array([rng.multinomial(TEST_SIZE, h.prior) for h in fed.hospitals])
        used = drawn.sum(axis=0)
        if (used + tested.max(axis=0) <= stock).all():
            break
    order = [rng.permutation(np.flatnonzero(fed.labels == k)) for k in range(10)]
    ends = np.cumsum(drawn, axis=0)
    calibration = tuple(
        _shuffled(rng, [order[k][ends[i, k] - n : ends[i, k]] for k, n in enumerate(row)])
        for i, row in enumerate(drawn)
    )
    test = tuple(
        _shuffled(rng, [rng.permutation(order[k][used[k] :])[:n] for k, n in enumerate(row)])
        for row in tested
    )
    return Split(calibration, test)


def _shuffled(rng: np.random.Generator, parts: list[Ints]) -> Ints:
    return rng.permutation(np.concatenate(parts))
