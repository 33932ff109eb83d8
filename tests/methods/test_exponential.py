"""The exponential mechanism: privacy and coverage by exact arithmetic, and the protocol."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import fedcover as fc
from fedcover.methods.base import Message
from fedcover.methods.exponential import BITS, counts_upto, distances, draw, powers, rank_for
from fedcover.methods.sketch.table import standard_cuts
from fedcover.position import TOP, scores_at
from fedcover.privacy.noise import exp_bounds

ExponentialMechanism = fc.methods.ExponentialMechanism
EDGES = np.arange(1, 21) / 20


def base_of(epsilon):
    return exp_bounds(Fraction(epsilon) / 2, BITS)[1]


def law(scores, t, base):
    """Exact probabilities of the edges."""
    weights = powers(distances(counts_upto(np.array(scores), EDGES), t, base), base)
    return [Fraction(w, sum(weights)) for w in weights]


scores_ = st.lists(st.integers(0, 20).map(lambda k: k / 20), min_size=1, max_size=30)


@given(scores_, st.integers(0, 20), st.integers(0, 29), st.sampled_from([0.05, 0.5, 2, 8, 60]))
def test_replacing_a_record_moves_no_probability_by_more_than_epsilon(scores, new, at, epsilon):
    base = base_of(epsilon)
    other = [*scores]
    other[at % len(scores)] = new / 20
    most = Fraction(2**BITS, base) ** 2
    for t in {1, len(scores) // 2 + 1, len(scores)}:
        for p, q in zip(law(scores, t, base), law(other, t, base), strict=True):
            assert p <= most * q
            assert q <= most * p
    assert 2 * math.log(2**BITS / base) <= epsilon


@given(scores_, st.sampled_from([0.2, 1, 4]))
def test_few_scores_below_are_as_rare_as_the_coverage_bound_says(scores, epsilon):
    """P(fewer than k scores at or below the threshold) ≤ x/(1+x), whatever the data."""
    base = base_of(epsilon)
    upto = counts_upto(np.array(scores), EDGES)
    t = len(scores)
    chances = law(scores, t, base)
    for k in range(1, t + 1):
        below = sum(p for p, g in zip(chances, upto, strict=True) if g < k)
        x = (len(EDGES) - 1) * Fraction(base, 2**BITS) ** (t - k + 1)
        assert below <= x / (1 + x) + Fraction(1, 10**9)  # distances are cut off at 2⁻⁴⁰


def test_the_edge_with_the_wanted_rank_is_nearest():
    upto = counts_upto(np.array([0.1, 0.5, 0.5, 0.5, 0.9]), EDGES)
    for t in (2, 3, 4):
        far = distances(upto, t, base_of(1))
        assert np.flatnonzero(far == far.min()).tolist() == [9]
        assert far.min() == 0


def chi_square(observed, expected):
    """Whether counts fit, with false alarms of 10⁻⁶; rare cells together."""
    rare = expected < 10
    o, e = (np.append(c[~rare], c[rare].sum()) for c in (observed, expected))
    o, e = o[e > 0], e[e > 0]
    return ((o - e) ** 2 / e).sum() <= chi2.ppf(1 - 1e-6, len(e) - 1)


def drawn(far, base, count):
    return np.bincount([draw(far, base) for _ in range(count)], minlength=len(far))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_draws_have_the_exact_law(epsilon):
    base = base_of(epsilon)
    far = np.random.default_rng(0).integers(0, 12, 25)
    weights = powers(far, base)
    expected = np.array([float(Fraction(w, sum(weights))) for w in weights])
    assert chi_square(drawn(far, base, 20_000), 20_000 * expected)
    assert not chi_square(drawn(far, base, 20_000), 20_000 * np.roll(expected, 1))


@pytest.mark.slow
def test_draws_agree_with_opendp():
    """Gumbel noise on the scores is the exponential mechanism, too."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    base = base_of(1)
    far = np.arange(12) % 8
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    scale = 1 / math.log(2**BITS / base)
    theirs = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale, negate=True)
    n = 10_000
    counts = np.bincount([theirs(far.tolist()) for _ in range(n)], minlength=len(far))
    weights = powers(far, base)
    expected = n * np.array([float(Fraction(w, sum(weights))) for w in weights])
    assert chi_square(counts, expected)
    assert chi_square(drawn(far, base, n), expected)


@pytest.mark.parametrize("n", [200, 1000, 50_000])
@pytest.mark.parametrize("epsilon", [0.5, 1, 8])
def test_rank_is_raised_by_what_the_noise_costs(n, epsilon):
    """About 2/ε·ln B ranks, as in the paper; the sum is compared with exact arithmetic."""
    base = base_of(epsilon)
    t = rank_for(n, 0.2, 100, base)
    b = Fraction(base, 2**BITS)
    raised = t - 0.8 * (n + 1)
    assert 0 < raised <= 2 / epsilon * math.log(100) + 3

    def bound(t):
        near = [float(1 / (1 + 99 * b**i)) for i in range(1, min(t, 400) + 1)]
        return (sum(near) + max(0, t - 400)) / (n + 1)

    assert bound(t) >= 0.8 - 1e-9
    assert bound(t - 1) < 0.8 + 1e-9


def sites_of(n, seed=0, labels=None):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n) if labels is None else labels
    return [fc.Site("a", rng.random(n), labels, n_classes=3)]


def test_thresholds_are_edges_near_the_raised_rank():
    sites = sites_of(20_000)
    method = ExponentialMechanism(epsilon=2, bins=200)
    cal = fc.calibrate(sites, [0.1, 0.3], method)["a"]
    edges = scores_at(np.array(standard_cuts(200)))
    assert np.isin(cal.thresholds, edges).all()
    assert cal.thresholds[:, 0] == pytest.approx([0.9, 0.7], abs=0.02)
    assert cal.privacy is None
    assert cal.shares_scores
    assert "2-differentially private" in cal.reveals
    assert "must be trusted" in cal.reveals


def test_too_few_records_give_full_sets_and_say_how_many_it_takes():
    method = ExponentialMechanism(epsilon=0.5)
    with pytest.warns(fc.FedcoverWarning, match="100 records are too few") as caught:
        cal = fc.calibrate(sites_of(100), 0.1, method)["a"]
    assert (cal.thresholds == 1).all()
    needed = int(str(caught[0].message).split("about ")[1].split()[0])
    base = base_of(0.5)
    assert rank_for(needed + 5, 0.1, 1000, base) is not None
    assert rank_for(needed - 5, 0.1, 1000, base) is None


def test_the_calibration_says_nothing_about_labels():
    """Only thresholds are private; notes, weights and counts must not depend on the labels."""
    method = ExponentialMechanism(epsilon=1000, bins=64)
    a, b = (
        fc.calibrate(sites_of(500, labels=y), 0.1, method)["a"]
        for y in (np.zeros(500, int), np.arange(500) % 3)
    )
    for name in ("notes", "n_records", "effective_size", "guarantee", "reveals"):
        assert getattr(a, name) == getattr(b, name)
    assert np.array_equal(a.ratios, b.ratios)


def test_levels_share_epsilon():
    with pytest.raises(fc.FedcoverError, match="3 levels"):
        fc.calibrate(sites_of(100), [0.1, 0.2, 0.3], ExponentialMechanism(epsilon=0.02))


@pytest.mark.parametrize(
    "options", [{"epsilon": 0}, {"epsilon": 1e-3}, {"bins": 63}, {"bins": 100.5}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(fc.FedcoverError):
        ExponentialMechanism(**options)


def test_a_lying_site_is_named(spy, federation):
    def lie(name, reply):
        bad = {**reply.arrays, "positions": reply.arrays["positions"] + TOP}
        return Message(reply.kind, bad) if name == "s1" else reply

    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(federation(np.random.default_rng(0)), 0.1, spy(ExponentialMechanism(), lie))
