"""A label mix guessed from predictions, and its error.

The statistical checks draw random models from a fixed seed, so they give the same answer every
time; the rates in their docstrings say how often another seed would fail by chance.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.labelshift import confusion, from_unlabelled, guess_mix
from fedcover.labelshift.estimators import minimise

POWERS = {"calibrated": (1.0, 1.0), "overconfident": (2.0, 5.0), "flat": (0.25, 0.7)}


def world(rng, n_classes, power, n, labelled, mix, pool=None):
    """Target probabilities, a confusion table, the source, and P(covered | y) at 90 %."""
    d = int(rng.integers(2, max(3, min(n_classes, 8))))
    centres = rng.normal(size=(n_classes, d)) * rng.uniform(0.8, 2.2)
    source = rng.dirichlet(np.full(n_classes, 10.0))
    pool = np.full(n_classes, 1 / n_classes) if pool is None else pool

    def outputs(shares, size):
        y = rng.choice(n_classes, size, p=shares)
        x = centres[y] + rng.normal(size=(size, d))
        logits = -0.5 * ((x[:, None] - centres) ** 2).sum(axis=2) + np.log(source)
        p = np.exp(power * (logits - logits.max(axis=1, keepdims=True)))
        return p / p.sum(axis=1, keepdims=True), y

    table = confusion(*outputs(pool, labelled))
    p, y = outputs(pool, 4000)
    scores = 1 - p[np.arange(len(y)), y]
    weights = (mix / pool)[y]
    order = np.argsort(scores)
    at = np.searchsorted(np.cumsum(weights[order]) / weights.sum(), 0.9)
    totals = np.maximum(np.bincount(y, minlength=n_classes), 1)
    covered = np.bincount(y, scores <= scores[order][at], n_classes) / totals
    return outputs(mix, n)[0], table, source, covered


def share_within_two(repetitions, seed):
    """Share of errors within two stated deviations, over families of models."""
    rng, within = np.random.default_rng(seed), []
    for family in POWERS:
        for sd in (0, 4, 15):
            for _ in range(repetitions):
                n_classes = int(rng.integers(3, 21))
                mix = rng.dirichlet(np.full(n_classes, rng.uniform(0.3, 2)))
                n = int(np.exp(rng.uniform(np.log(100), np.log(3000))))
                labelled = int(rng.integers(1000, 10_000))
                power = rng.uniform(*POWERS[family])
                pool = rng.dirichlet(np.full(n_classes, 5.0))
                p, table, source, covered = world(rng, n_classes, power, n, labelled, mix, pool)
                noisy = table + np.rint(rng.normal(size=table.shape) * sd).astype(int)
                found = guess_mix(p, source=source, confusion=noisy, confusion_sd=sd)
                off = abs((mix - found.shares) @ covered)
                within.append(off <= 2 * max(float(found.deviation(covered)), 1e-4))
    return float(np.mean(within)), len(within)


@pytest.mark.slow
def test_the_stated_error_holds():
    """True share near .95; of 90 draws fewer than 78 are within with chance below 10⁻³."""
    share, n = share_within_two(10, seed=4)
    assert n == 90
    assert share >= 78 / 90


@pytest.mark.statistical
def test_the_stated_error_is_neither_false_nor_padded():
    """720 draws, standard error .008: a true share of .95 leaves the interval once in 100."""
    share, n = share_within_two(80, seed=5)
    print(f"\nwithin two stated deviations: {share:.3f} of {n}")
    assert 0.93 <= share <= 0.99


def test_overconfident_probabilities_are_corrected_by_the_confusion_matrix():
    """Plain EM is off by several times what is stated; the temperature found is right."""
    rng = np.random.default_rng(0)
    mix = np.array([0.6, 0.1, 0.1, 0.1, 0.05, 0.05])
    plain, guessed = [], []
    for _ in range(12):
        p, table, source, _ = world(rng, 6, 4.0, 2000, 8000, mix)
        found = guess_mix(p, source=source, confusion=table)
        guessed.append(np.abs(found.shares - mix).sum())
        plain.append(np.abs(from_unlabelled(p, source=source) - mix).sum())
    assert np.mean(guessed) < 0.6 * np.mean(plain)


def test_probabilities_of_other_labels_are_contradicted():
    """A model whose columns are exchanged after the confusion matrix was made: EM must not win."""
    rng = np.random.default_rng(1)
    p, table, source, _ = world(rng, 4, 1.0, 2000, 8000, np.array([0.7, 0.1, 0.1, 0.1]))
    shuffled = table[:, [1, 0, 3, 2]]
    found = guess_mix(p, source=source, confusion=shuffled)
    assert found.method == "bbse"
    assert "contradicts" in found.why


def test_without_a_confusion_matrix_the_doubt_is_said_and_stated():
    rng = np.random.default_rng(2)
    p, table, source, covered = world(rng, 5, 1.0, 2000, 8000, np.full(5, 0.2))
    alone, helped = guess_mix(p, source=source), guess_mix(p, source=source, confusion=table)
    assert alone.method == "em"
    assert "cannot be seen" in alone.why
    assert alone.deviation(covered) > helped.deviation(covered)


def test_labels_the_confusion_matrix_cannot_tell_apart_have_a_large_error():
    """Two labels with equal columns: their sum is known, their difference is the source's."""
    rng = np.random.default_rng(3)
    table = np.array([[900, 50, 50], [50, 475, 475], [50, 475, 475]])
    predicted = rng.choice(3, 2000, p=[0.5, 0.25, 0.25])
    p = np.full((2000, 3), 1e-6)
    p[np.arange(2000), predicted] = 1
    p /= p.sum(axis=1, keepdims=True)
    found = guess_mix(p, source=[0.4, 0.4, 0.2], confusion=table)
    assert found.method == "bbse"
    assert found.deviation([0, 1, -1]) > 5 * found.deviation([1, 0, 0])
    assert found.deviation([0, 1, -1]) > 0.2


def test_a_noisier_confusion_matrix_means_a_larger_error():
    rng = np.random.default_rng(4)
    errors = {0: [], 4: [], 60: []}
    for _ in range(8):
        p, table, source, _ = world(rng, 5, 3.0, 1500, 3000, rng.dirichlet(np.ones(5)))
        for sd, found in errors.items():
            noisy = table + np.rint(rng.normal(size=table.shape) * sd).astype(int)
            e = guess_mix(p, source=source, confusion=noisy, confusion_sd=sd)
            found.append(np.sqrt(((e.draws - e.shares) ** 2).sum(axis=1).mean()))
    assert np.mean(errors[0]) < np.mean(errors[60])
    assert np.mean(errors[4]) < np.mean(errors[60])


def test_a_label_never_counted_is_left_to_the_source_with_a_large_error():
    rng = np.random.default_rng(5)
    table = np.diag([500, 500, 0])
    p = np.eye(3)[rng.choice(3, 1000, p=[0.5, 0.3, 0.2])] * 0.97 + 0.01
    found = guess_mix(p, source=[0.4, 0.4, 0.2], confusion=table)
    assert abs(found.shares[2] - 0.2) < 2 * found.deviation([0, 0, 1])


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "table", [None, [[1, 0], [0, 0]], [[5, 0], [0, 5]], [[0, 0], [1, 9]]], ids=repr
)
def test_tiny_inputs_give_distributions(n, table):
    found = guess_mix([[1.0, 0.0]] * n, source=[0.5, 0.5], confusion=table, draws=20)
    assert found.draws.shape == (20, 2)
    for q in (found.shares, *found.draws):
        assert q.min() >= 0
        assert q.sum() == pytest.approx(1)


def test_the_same_seed_gives_the_same_draws():
    rng = np.random.default_rng(5)
    p, table, source, _ = world(rng, 4, 1.0, 300, 2000, np.full(4, 0.25))
    one, two, other = (guess_mix(p, source=source, confusion=table, seed=s) for s in (0, 0, 1))
    assert np.array_equal(one.draws, two.draws)
    assert not np.array_equal(one.draws, other.draws)
    assert np.array_equal(one.shares, other.shares)


def test_the_quadratic_program_reaches_the_minimum():
    """No feasible direction between two coordinates improves the solution."""
    rng = np.random.default_rng(6)
    root = rng.normal(size=(9, 6)) * np.geomspace(1, 30, 6)
    form, pull = root.T @ root, rng.normal(size=6) * 20
    q = minimise(form, pull[None])[0]
    slope = form @ q - pull
    assert q.sum() == pytest.approx(1)
    used = q > 1e-6
    assert np.ptp(slope[used]) < 1e-2
    assert (slope[~used] > slope[used].mean() - 1e-2).all()


@pytest.mark.parametrize(
    "options",
    [
        {"source": None},
        {"source": [1, 1]},
        {"source": [1, 1, 1], "confusion": np.ones((2, 3))},
        {"source": [1, 1, 1], "confusion": np.zeros((3, 3))},
        {"source": [1, 1, 1], "confusion": -np.ones((3, 3)), "confusion_sd": 2},
        {"source": [1, 1, 1], "confusion": np.eye(3) * 9 - 1},
        {"source": [1, 1, 1], "confusion": np.full((3, 3), np.nan)},
        {"source": [1, 1, 1], "confusion": np.ones((3, 3)), "confusion_sd": -1},
        {"source": [1, 1, 1], "confusion_sd": 2},
        {"source": [1, 1, 1], "draws": 1},
    ],
    ids=repr,
)
def test_bad_options_are_refused(options):
    with pytest.raises(FedcoverError):
        guess_mix([[0.2, 0.3, 0.5]], **options)
