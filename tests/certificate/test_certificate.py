"""The certificate's promise in short, its conditions, and that the tests see when it breaks.

Simulations of valid certificates fail with probability below 10⁻⁶ each. Where a step is left out
on purpose, the violations lie so far above the limit that missing them is as improbable.
"""

import numpy as np
import pytest
from scipy.stats import beta as beta_law
from sklearn.isotonic import IsotonicRegression

from fedcover import FedcoverError
from fedcover.certificate import (
    bounds,
    certified_rank,
    certify_counted_mix,
    certify_known_mix,
    pool_is_expected_to_win,
)

from .worlds import ALPHA, BETA, FAMILIES, World, most_violations, world

ASK = {"alpha": ALPHA, "confidence": 1 - BETA}


def violations(a_world, n, rng, kind="known", change=None):
    found = 0
    for _ in range(n):
        release, counts = a_world.draw(rng)
        if change:
            change(release)
        if kind == "known":
            cert = certify_known_mix(**release, mix=a_world.pi, **ASK)
        else:
            cert = certify_counted_mix(**release, counts=counts, **ASK)
        found += a_world.violated(cert.edges[0])
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("private", [False, True])
def test_few_violations(family, private):
    rng = np.random.default_rng([11, FAMILIES.index(family), private])
    known = counted = 0
    for _ in range(60):
        drawn = world(family, rng, private)
        known += violations(drawn, 1, rng)
        counted += violations(drawn, 1, rng, "counted")
    assert known <= most_violations(60)
    assert counted <= most_violations(60)


def atom(n, c=2, rate=ALPHA * 1.001, edges=2, m=50, **noise):
    g = np.full((edges, c), rate)
    g[0] = 0
    return World(g, np.full(c, 1 / c), np.full(c, n), m, **noise)


def test_counts_taken_for_certain_break_the_promise(monkeypatch):
    """200 records a label and totals with a deviation of 120."""
    hard = atom(200, total_sd=120.0, m=0)
    rng = np.random.default_rng(1)
    assert violations(hard, 400, rng) <= most_violations(400)
    monkeypatch.setattr(bounds, "surely_present", lambda totals, *_: totals)
    assert violations(hard, 400, rng) > most_violations(400)


@pytest.mark.parametrize("kind", ["known", "counted"])
def test_noise_left_out_of_the_bet_breaks_the_promise(kind):
    hard = atom(200, tau=40.0)
    rng = np.random.default_rng(2)
    assert violations(hard, 400, rng, kind) <= most_violations(400)

    def forget(release):
        release["variance"] = 1e-9

    assert violations(hard, 400, rng, kind, forget) > most_violations(400)


@pytest.mark.parametrize("kind", ["known", "counted"])
def test_curves_made_monotone_break_the_promise(kind):
    hard = atom(1000, edges=80, tau=60.0)
    rng = np.random.default_rng(3)
    assert violations(hard, 300, rng, kind) <= most_violations(300)

    def monotone(release):
        table = release["misses"]
        table[:] = np.minimum.accumulate(table[::-1])[::-1]

    assert violations(hard, 300, rng, kind, monotone) > most_violations(300)


@pytest.mark.parametrize("kind", ["known", "counted"])
def test_one_bad_edge_stops_the_walk(kind):
    """An isotonic curve would walk on: it shares the bad edge out among those below."""
    column = np.r_[0.5, 80.5, np.full(30, 1.5)]
    smooth = IsotonicRegression().fit_transform(np.arange(32), column)
    asked = {"mix": [0.5, 0.5]} if kind == "known" else {"counts": [25, 25]}
    certify = certify_known_mix if kind == "known" else certify_counted_mix
    raw = certify(np.c_[column, column], 1.0, [500, 500], **asked, **ASK)
    made = certify(np.c_[smooth, smooth], 1.0, [500, 500], **asked, **ASK)
    assert (raw.edges, made.edges) == ((0,), (31,))


def test_mix_bounds_are_paid_for(monkeypatch):
    """A counted mix whose largest miss rate is guessed, not bounded, is certified wrongly."""
    c = 30
    g = np.zeros((2, c))
    g[1, 0] = 1.0
    pi = np.full(c, (1 - 1.05 * ALPHA) / (c - 1))
    pi[0] = 1.05 * ALPHA
    hard = World(g, pi, np.r_[1, np.full(c - 1, 300)], 20)
    rng = np.random.default_rng(4)
    assert violations(hard, 400, rng, "counted") <= most_violations(400)
    monkeypatch.setattr(
        bounds, "upper_rates", lambda misses, *_: np.full(misses.shape, ALPHA * 1.01)
    )
    assert violations(hard, 400, rng, "counted") > most_violations(400)


@pytest.mark.parametrize("kind", ["known", "counted"])
def test_several_levels_share_beta_equally(kind):
    rng = np.random.default_rng(5)
    graded = World(np.linspace(0, 0.4, 400)[:, None] + np.zeros(3), np.full(3, 1 / 3),
                   np.full(3, 400), 60)  # fmt: skip
    release, counts = graded.draw(rng)

    def found(alpha, confidence):
        if kind == "known":
            asked = {"mix": graded.pi, "alpha": alpha, "confidence": confidence}
            return certify_known_mix(**release, **asked)
        asked = {"counts": counts, "alpha": alpha, "confidence": confidence}
        return certify_counted_mix(**release, **asked)

    both = found([0.1, 0.2], 0.95)
    assert both.edges == (*found(0.1, 0.975).edges, *found(0.2, 0.975).edges)
    assert both.edges[0] < found(0.1, 0.95).edges[0]
    assert sum(both.parts.values()) == pytest.approx(0.05)
    assert "0.9, 0.8" in both.statement
    assert certified_rank(100, [0.1, 0.2], 0.95)[0] == certified_rank(100, 0.1, 0.975)[0]


def test_a_label_without_sure_records_counts_as_missed():
    g = np.zeros((3, 2))
    few = {"misses": g, "variance": 0, "totals": [4000, 0]}
    assert certify_known_mix(**few, mix=[0.95, 0.05], **ASK).edges == (2,)
    assert certify_known_mix(**few, mix=[0.89, 0.11], **ASK).edges == (0,)
    assert certify_known_mix(**few, mix=[1, 0], **ASK).edges == (2,)
    unseen = certify_counted_mix(**few, counts=[0, 50], **ASK)
    assert unseen.edges == (0,)


def test_bounds_of_totals_are_shared_by_the_labels_of_the_mix():
    """More labels in the mix, wider bounds; labels of share zero cost nothing."""
    one = bounds.surely_present(np.full(1, 100.0), 5.0, 0.01)[0]
    ten = bounds.surely_present(np.full(10, 100.0), 5.0, 0.01)[0]
    assert ten < one < 100
    z = np.random.default_rng(6).normal(size=100_000)
    assert np.mean(100 + 5 * z - (100 - ten) > 100) <= 0.001


def test_noise_dominated_labels_weigh_less():
    phi = bounds.weights(
        np.array([10.0, 10.0]), np.array([100.0, 100.0]), np.array([0, 900.0]), 0.1
    )
    assert phi[1] < phi[0]
    assert np.isclose(phi[0], 0.1, rtol=0.1)


def test_shortfall_is_the_maximum_it_says():
    rng = np.random.default_rng(7)
    for _ in range(200):
        mass, n, phi, most = (
            rng.uniform(0.01, 5),
            rng.integers(0, 9),
            rng.uniform(0, 3),
            rng.random(),
        )
        g = np.linspace(0, most, 5001)
        direct = (n * np.log1p(-g * -np.expm1(-phi)) + mass * g).max()
        said = bounds.shortfall(np.array(mass), np.array(float(n)), np.array(phi), most)
        assert direct - 1e-12 <= said <= direct + 1e-4


@pytest.mark.parametrize("tau", [0.0, 4.0])
def test_upper_rates_hold(tau):
    rng = np.random.default_rng(8)
    n, g = 80, np.array([0.0, 0.02, 0.1, 0.5, 1.0])
    seen = rng.binomial(n, g, (4000, 5)) + tau * rng.normal(size=(4000, 5))
    top = bounds.upper_rates(seen, np.full(seen.shape, tau**2), np.full(5, float(n)), BETA)
    assert ((top < g).sum(axis=0) <= most_violations(4000)).all()


def test_a_site_alone():
    for n in (0, 5, 28, 29, 50, 1000):
        rank = certified_rank(n, ALPHA, 1 - BETA)[0]
        if rank is None:
            assert 0.9**n > BETA
            continue
        assert beta_law.cdf(0.9, rank + 1, n - rank) <= BETA
        assert beta_law.cdf(0.9, rank, n - rank + 1) > BETA  # one lower would not do
    assert certified_rank(50, ALPHA, 1 - BETA) == (48,)
    rng = np.random.default_rng(9)
    ties = np.sort(rng.choice(10, (4000, 50), p=np.full(10, 0.1)), axis=1)[:, 48]
    assert (ties < 8).sum() <= most_violations(4000)


def test_the_pool_is_chosen_by_numbers():
    assert pool_is_expected_to_win(50, 50, 5000, 10, 0.0, **ASK)
    assert pool_is_expected_to_win(10, 10, 5000, 10, 0.0, **ASK)
    assert not pool_is_expected_to_win(5000, 5000, 500, 10, 0.0, **ASK)
    assert not pool_is_expected_to_win(10, 5000, 5000, 10, 0.0, **ASK)
    assert not pool_is_expected_to_win(50, 50, 5000, 10, 30.0**2, **ASK, total_sd=10)


@pytest.mark.parametrize("kind", ["known", "counted"])
def test_several_estimates_of_the_misses_share_the_stake(kind):
    """Beside one that sees nothing, an estimate has half the stake and no more is lost."""
    rng = np.random.default_rng(10)
    graded = World(np.linspace(0, 0.4, 400)[:, None] + np.zeros(3), np.full(3, 1 / 3),
                   np.full(3, 400), 60, tau=3.0)  # fmt: skip
    release, counts = graded.draw(rng)
    raw, more = release.pop("misses"), {"mix": graded.pi} if kind == "known" else {"counts": counts}
    certify = certify_known_mix if kind == "known" else certify_counted_mix

    def edge(confidence, *tables):
        asked = {"alpha": ALPHA, "confidence": confidence}
        return certify(np.stack(tables), **release, **more, **asked).edges[0]

    halved = edge(1 - BETA / 2, raw)
    assert edge(1 - BETA, raw, raw + 200.0) == pytest.approx(halved, abs=3)
    assert halved - 3 <= edge(1 - BETA, raw, raw) <= edge(1 - BETA, raw)
    assert edge(1 - BETA, raw + 200.0) == 0 < halved


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"counts": [0, 0]}, "counts is"),
        ({"counts": [0.5, 0.5]}, "counts"),
        ({"misses": [[0, 0], [np.nan, 1]]}, "NaN"),
        ({"misses": [[0, 0], [0.5, 1]]}, "whole"),
        ({"misses": [[0, 0], [60, 1]]}, "whole"),
        ({"misses": [[0, 0], [3, 1], [2, 1]]}, "whole"),
        ({"misses": [0, 1]}, "shape"),
        ({"variance": -1.0}, "variance"),
        ({"variance": [1.0, 1.0, 1.0]}, "variance"),
        ({"totals": [50]}, "totals"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"alpha": 0.0}, "alpha"),
        ({"total_sd": -1.0}, "total_sd"),
    ],
)
def test_refusals(change, word):
    good = {"misses": [[0, 0], [1, 1]], "variance": 0, "totals": [50, 50], "counts": [5, 5], **ASK}
    certify_counted_mix(**good)
    with pytest.raises(FedcoverError, match=word):
        certify_counted_mix(**(good | change))


@pytest.mark.parametrize("mix", [[5, 5], [0.2, 0.2], [np.nan, 1], [-0.1, 1.1], [1.0]])
def test_a_known_mix_is_shares(mix):
    with pytest.raises(FedcoverError):
        certify_known_mix([[0, 0], [1, 1]], 0, [50, 50], mix=mix, **ASK)


def test_the_statement_says_what_it_is_over():
    table = ([[0, 0], [1, 1]], 0, [500, 500])
    plain = certify_known_mix(*table, mix=[0.5, 0.5], **ASK).statement
    assert "word" in plain
    assert "shares" in plain
    assert "privacy noise" not in plain
    noisy = certify_counted_mix(table[0], 4.0, table[2], counts=[30, 20], total_sd=2, **ASK)
    assert "50 labels" in noisy.statement
    assert "privacy noise" in noisy.statement
    assert "survivors" in noisy.statement
    assert set(noisy.parts) == {"label totals", "miss rates", "tests"}
    assert all(part > 0 for part in noisy.parts.values())
