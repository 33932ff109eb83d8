"""Quantile of quantiles: the coverage formula, the choice of ranks, and the protocol."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

import fedcover as fc
from fedcover.methods.base import Message
from fedcover.methods.site_quantiles import coverage, moments, ranks_for
from fedcover.position import TOP

METHOD = fc.methods.QuantileOfQuantiles()


def times(p, q):
    out = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            out[i + j] += a * b
    return out


def plus(p, q):
    n = max(len(p), len(q))
    pad = [[*r, *[Fraction(0)] * (n - len(r))] for r in (p, q)]
    return [a + b for a, b in zip(*pad, strict=True)]


def exact_coverage(ranks, sizes, k):
    """The integral of the polynomial, in rational numbers."""
    count = [[Fraction(1)]] + [[Fraction(0)]] * (k - 1)
    for rank, n in zip(ranks, sizes, strict=True):
        above = [Fraction(0)]  # P(fewer than `rank` of n scores below u)
        for i in range(rank):
            rest = [Fraction((-1) ** j * comb(n - i, j)) for j in range(n - i + 1)]
            above = plus(above, times([Fraction(0)] * i + [Fraction(comb(n, i))], rest))
        below = plus([Fraction(1)], [-c for c in above])
        count = [
            plus(times(count[c], above), times(count[c - 1], below) if c else [Fraction(0)])
            for c in range(k)
        ]
    total = [Fraction(0)]
    for c in count:
        total = plus(total, c)
    return sum(c / (i + 1) for i, c in enumerate(total))


@pytest.mark.parametrize(
    ("ranks", "sizes", "k"),
    [
        ((9,), (10,), 1),
        ((3, 3), (4, 4), 1),
        ((3, 3), (4, 4), 2),
        ((6, 6, 6, 6), (7, 7, 7, 7), 3),
        ((5, 2, 9), (6, 2, 11), 2),
        ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), 5),
        ((12, 3, 1), (15, 3, 2), 1),
    ],
)
def test_formula_is_the_exact_integral(ranks, sizes, k):
    assert coverage(ranks, sizes, k) == pytest.approx(float(exact_coverage(ranks, sizes, k)), 1e-13)


@pytest.mark.parametrize(
    ("ranks", "sizes", "k"),
    [((46,) * 10, (50,) * 10, 5), ((912, 47), (1000, 50), 1), ((19, 9, 28, 5), (20, 10, 30, 5), 2)],
)
def test_formula_agrees_with_simulation(ranks, sizes, k):
    """10,000 repetitions, 5 standard errors: false alarms below 10⁻⁶."""
    rng = np.random.default_rng(0)
    pairs = zip(ranks, sizes, strict=True)
    sent = [np.sort(rng.random((10_000, n)), axis=1)[:, r - 1] for r, n in pairs]
    found = np.sort(sent, axis=0)[k - 1]
    mean, square = moments(ranks, sizes, k)
    assert abs(found.mean() - mean) <= 5 * found.std() / 100
    assert abs((found**2).mean() - square) <= 5 * (found**2).std() / 100


def test_one_site_is_local():
    for n in (9, 10, 57):
        for alpha in (0.1, 0.25):
            assert ranks_for((n,), alpha) == ((int(np.ceil((1 - alpha) * (n + 1) - 1e-9)),), 1)


@pytest.mark.parametrize(("n", "m"), [(7, 5), (12, 9), (40, 3)])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
def test_no_pair_that_covers_enough_comes_nearer(n, m, alpha):
    """All (ℓ, k) of equal sizes, by numbers drawn: nearest in mean square, up to their error."""
    rng = np.random.default_rng(2)
    sent = np.sort(np.sort(rng.random((20_000, m, n)), axis=2), axis=1)
    apart = {}
    for k in range(1, m + 1):
        ranks = [r for r in range(1, n + 1) if coverage((r,) * m, (n,) * m, k) >= 1 - alpha]
        if ranks:
            apart[ranks[0], k] = ((sent[:, k - 1, ranks[0] - 1] - (1 - alpha)) ** 2).mean()
    ranks, k = ranks_for((n,) * m, alpha)
    assert apart[ranks[0], k] <= 1.05 * min(apart.values())


@pytest.mark.parametrize(
    "sizes", [(1000, 50), (5,) * 60, (1,) * 40, (3, 500, 20, 20, 8), tuple(range(1, 80))]
)
def test_any_sizes_cover_enough_and_little_more(sizes):
    ranks, k = ranks_for(sizes, 0.1)
    assert all(1 <= r <= n for r, n in zip(ranks, sizes, strict=True))
    assert 0.9 - 1e-11 <= coverage(ranks, sizes, k) <= 0.9 + 2 / (len(sizes) + max(sizes))


@pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")
def test_threshold_is_that_order_statistic():
    rng = np.random.default_rng(1)
    sites = [fc.Site(f"s{i}", rng.random(n), [0] * n, n_classes=3) for i, n in enumerate((30, 8))]
    ranks, k = ranks_for((30, 8), 0.2)
    sent = sorted(np.sort(s.scores)[r - 1] for s, r in zip(sites, ranks, strict=True))
    cal = fc.calibrate(sites, [0.01, 0.2], METHOD, targets="s0")["s0"]
    assert cal.thresholds.tolist() == [[1.0] * 3, [sent[k - 1]] * 3]
    assert cal.cost.rounds == 1
    assert any("61 more records" in note for note in cal.notes)


@pytest.mark.parametrize("sent", [[0.5], [TOP + 1], [-1], [1, 1], None, ["x"]])
def test_impossible_replies_are_refused(spy, federation, sent):
    def lie(name, reply):
        if name != "s1":
            return reply
        return Message(reply.kind, {} if sent is None else {"scores": np.array(sent)})

    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(federation(np.random.default_rng(0), least=20), 0.2, spy(METHOD, lie))


@pytest.mark.parametrize("ranks", [[0], [21], [-1], [0.5], [[1]]])
def test_a_site_answers_ranks_it_has(ranks):
    site = fc.Site("a", np.linspace(0, 1, 20), [0] * 20, n_classes=2)
    with pytest.raises(fc.FedcoverError, match="ranks"):
        METHOD.answer(Message("ranked-scores", {"ranks": np.array(ranks)}), site)
