"""The closed form of the exact weights, against the sum over permutations that defines them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.labelshift import exact_weights, oracle_ratio


def by_permutations(priors, sizes, target, labels):
    """Weights of all N+1 records by eq. (def:Wki-tibshirani-FL) and (def:prob-federated).

    `labels` holds the calibration labels site after site, then the query's. A permutation puts
    record σ(ℓ) in slot ℓ, which belongs to site φ(ℓ), and σ(N+1) in the query's.
    """
    priors, sizes = np.asarray(priors, dtype=float), np.asarray(sizes)
    cal = sizes / sizes.sum() @ priors
    ratio = np.divide(priors, cal, out=np.zeros_like(priors), where=cal > 0)
    wanted = np.divide(np.asarray(target), cal, out=np.zeros(len(cal)), where=cal > 0)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    sigma = np.array(list(permutations(range(len(labels)))))
    placed = np.asarray(labels)[sigma]
    terms = wanted[placed[:, -1]] * ratio[owner, placed[:, :-1]].prod(axis=1)
    weight = np.bincount(sigma[:, -1], weights=terms, minlength=len(labels))
    return weight / weight.sum()


CASES = {
    "one site": ([[0.2, 0.5, 0.3]], [5], 0, [0, 1, 1, 2, 2, 0]),
    "two sites": ([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [3, 3], 0, [0, 0, 1, 2, 2, 1, 0]),
    "three sites": ([[0.6, 0.4], [0.1, 0.9], [0.5, 0.5]], [1, 2, 3], 1, [0, 1, 1, 0, 1, 1, 1]),
    "zeros": ([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.2, 0.6]], [2, 2, 2], 1, [0, 0, 1, 0, 2, 0, 1]),
    "forced": ([[1, 0], [0.5, 0.5]], [3, 3], 1, [0, 0, 0, 1, 1, 1, 1]),
    "zero target": ([[0.5, 0.5, 0], [0, 0.4, 0.6]], [3, 3], 0, [0, 1, 1, 2, 1, 2, 0]),
    "query unlike": ([[0.9, 0.1], [0.2, 0.8]], [4, 2], [0.01, 0.99], [0, 0, 0, 0, 1, 0, 1]),
    "rare": ([[0.999, 0.001], [1e-6, 1 - 1e-6]], [3, 3], 1, [0, 0, 0, 1, 1, 1, 0]),
    "empty site": ([[0.5, 0.5], [0.9, 0.1]], [5, 0], 1, [0, 1, 0, 1, 1, 0]),
}


@pytest.mark.parametrize(("priors", "sizes", "target", "labels"), CASES.values(), ids=CASES)
def test_equals_the_sum_over_permutations(priors, sizes, target, labels):
    counts = np.bincount(labels, minlength=len(priors[0]))
    found = exact_weights(priors, sizes, target, counts, method="fourier")
    wanted = priors[target] if isinstance(target, int) else target
    records = by_permutations(priors, sizes, wanted, labels)
    assert found[labels] == pytest.approx(records, abs=1e-12)
    assert found @ counts == pytest.approx(1, abs=1e-12)


def test_random_small_federations_equal_the_sum_over_permutations():
    rng = np.random.default_rng(0)
    for _ in range(25):
        priors = rng.dirichlet(np.full(3, 0.6), 3)
        sizes = rng.integers([1, 0, 0], [4, 3, 3])
        sites = [rng.choice(3, n, p=p) for n, p in zip(sizes, priors, strict=True)]
        labels = np.concatenate([*sites, [rng.choice(3, p=priors[1])]])
        counts = np.bincount(labels, minlength=3)
        found = exact_weights(priors, sizes, 1, counts)
        assert found[labels] == pytest.approx(
            by_permutations(priors, sizes, priors[1], labels), abs=1e-12
        )


def test_saddlepoint_error_falls_like_one_over_n():
    """Documented: relative error of order 1/N. Measured: at most .8/N; 2/N is asserted."""
    rng = np.random.default_rng(0)
    for n in (30, 120, 480):
        for _ in range(5):
            priors, sizes = rng.dirichlet(np.full(3, 2.0), 3), np.full(3, n // 3)
            counts = sum(rng.multinomial(m, p) for m, p in zip(sizes, priors, strict=True)) + 0
            counts = np.maximum(counts, 1)
            counts[np.argmax(counts)] += n + 1 - counts.sum()
            exact, quick = (
                exact_weights(priors, sizes, 0, counts, method=m)
                for m in ("fourier", "saddlepoint")
            )
            assert np.abs(quick / exact - 1).max() <= 2 / n
            assert quick @ counts == pytest.approx(1, abs=1e-12)


def test_saddlepoint_is_exact_when_all_sites_are_alike():
    priors, counts = np.tile([0.2, 0.3, 0.5], (4, 1)), [9, 12, 20]
    a, b = (exact_weights(priors, [10] * 4, [0.6, 0.2, 0.2], counts, m) for m in
            ("fourier", "saddlepoint"))  # fmt: skip
    assert a == pytest.approx(b, rel=1e-10)
    ratio = oracle_ratio(priors, [10] * 4, [0.6, 0.2, 0.2])
    assert a == pytest.approx(ratio / (ratio @ counts), rel=1e-10)


def test_auto_serves_many_labels():
    rng = np.random.default_rng(1)
    priors, sizes = rng.dirichlet(np.ones(50), 5), np.full(5, 200)
    counts = sum(rng.multinomial(n, p) for n, p in zip(sizes, priors, strict=True))
    counts[3] += 1
    found = exact_weights(priors, sizes, 2, counts)
    assert found @ counts == pytest.approx(1, abs=1e-12)
    assert (found[counts == 0] == 0).all()
    ratio = oracle_ratio(priors, sizes, 2)
    seen = counts > 0
    assert found[seen] == pytest.approx(ratio[seen] / (ratio @ counts), rel=0.3)


def test_a_label_no_site_can_have_must_be_the_query():
    found = exact_weights([[1, 0], [1, 0]], [3, 2], [0.5, 0.5], [5, 1])
    assert found.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("priors", "sizes", "target", "counts"),
    [
        ([[1, 0], [0, 1]], [3, 3], 0, [1, 6]),  # site 0 must have three of label 0
        ([[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], [3, 3, 1], 0, [2, 3, 3]),
        ([[1, 0], [0, 1]], [3, 3], 0, [3, 4]),  # the target cannot ask about label 1
        ([[1, 0], [1, 0]], [3, 2], 0, [4, 2]),
        ([[0.5, 0.5]], [3], [0, 1], [4, 0]),
        ([[0.5, 0.5]], [3], 0, [3, 0]),
        ([[0.5, 0.5]], [3], 0, [2.5, 1.5]),
        ([[0.5, 0.5]], [[3]], 0, [2, 2]),
        ([[0.5, 0.5]], [3], 5, [2, 2]),
        (np.zeros((0, 2)), [], [1, 1], [1, 0]),
    ],
)
def test_impossible_input_is_refused(priors, sizes, target, counts):
    with pytest.raises(FedcoverError):
        exact_weights(priors, sizes, target, counts)


def test_an_inversion_too_large_to_finish_is_refused():
    priors = np.full((2, 100), 0.01)
    with pytest.raises(FedcoverError, match="saddlepoint"):
        exact_weights(priors, [500, 499], 0, np.full(100, 10), method="fourier")
