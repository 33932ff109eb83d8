"""The audit: a bound that is right, the published algorithm caught, our own never."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedcover.audit as audits
from fedcover.audit import audit_paper, audit_sketch, lower_bound
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message
from fedcover.methods.sketch.method import Sketch
from fedcover.privacy import noise_multiplier
from fedcover.privacy.randomness import SYSTEM
from fedcover.privacy.statement import RELATIONS, VIEWS, Privacy


def test_bound_of_known_laws():
    """Randomised response with e^ε = 3, and identical laws; the bound may fail once in 20."""
    rng = np.random.default_rng(0)
    answers = [(rng.random((40, 4000)) < p).astype(float) for p in (0.75, 0.25)]
    found = np.array([lower_bound(*pair, 0.0, seed=1) for pair in zip(*answers, strict=True)])
    assert (found > math.log(3)).sum() <= 5  # P(more) < 1 % at 1/20 each
    assert found.mean() > 0.85 * math.log(3)
    same = [lower_bound(rng.normal(size=4000), rng.normal(size=4000), 1e-5) for _ in range(40)]
    assert (np.array(same) > 0).sum() <= 5


def test_bound_counts_delta_and_direction():
    first, second = np.zeros(1000), np.ones(1000)
    assert lower_bound(first, second, 1e-5) > 4
    assert lower_bound(second, first, 1e-5) > 4
    assert lower_bound(first, second, 1.0) == 0
    assert lower_bound(first, first, 1e-5) == 0
    for wrong in ({"delta": -1}, {"delta": 0.1, "confidence": 1.0}):
        with pytest.raises(FedcoverError):
            lower_bound(first, second, **wrong)
    with pytest.raises(FedcoverError):
        lower_bound(first[:5], second, 1e-5)


def test_seed_decides_the_split_only():
    rng = np.random.default_rng(1)
    first, second = rng.normal(1, 1, 3000), rng.normal(0, 1, 3000)
    assert lower_bound(first, second, 1e-5, seed=3) == lower_bound(first, second, 1e-5, seed=3)
    one, two = (audit_sketch(Privacy(4, 1e-5), 3000, seed=3) for _ in range(2))
    assert one.lower != two.lower


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_sketch_at_low_power(relation, view):
    """A bound beyond the claim has a probability of .05, but here the bound has half its power."""
    done = []
    wanted = Privacy(4, 1e-5, relation=relation, view=view)
    found = audit_sketch(wanted, 60_000, progress=done.append)
    assert sum(done) == 120_000
    assert found.accounted == found.claim == pytest.approx(4, rel=1e-6)
    # With a sum of two shares the server sees more noise than the account counts on.
    assert (1.6 if view == "server" else 1.0) < found.lower <= 4
    assert not found.contradicted
    assert "not contradicted" in found.describe()


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_runs_side_by_side(relation, view, monkeypatch):
    """They spend the budget, are independent, and have the law of runs made one at a time.

    Means, deviations and the correlation lie within 5 standard errors: false alarms below 1e-5.
    """
    kept = {}

    def keep(first, second, *rest):
        kept.update(first=first, second=second)
        return 0.0

    monkeypatch.setattr(audits, "lower_bound", keep)
    wanted = Privacy(2, 1e-5, relation=relation, view=view)
    audit_sketch(wanted, 100_000)
    first, second = kept["first"], kept["second"]
    sd = math.sqrt((first.var() + second.var()) / 2)
    # The server sees both shares of a sum's noise; the account leaves out one, which a site knows.
    seen = 0.5 if view == "secure-sum" else 1.0
    z = noise_multiplier(2, 1e-5) / math.sqrt(seen)
    assert (first.mean() - second.mean()) / sd == pytest.approx(1 / z, abs=0.025)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.016

    monkeypatch.setattr(audits, "BATCH", 1)
    audit_sketch(wanted, 400)
    for alone, many in ((kept["first"], first), (kept["second"], second)):
        assert alone.mean() == pytest.approx(many.mean(), abs=5 * sd / 20)
        assert alone.std() == pytest.approx(sd, rel=0.18)


def test_a_number_without_noise_is_found(monkeypatch):
    class Leaky(Sketch):
        def answer(self, query, site, source=SYSTEM):
            reply = super().answer(query, site, source)
            return Message(reply.kind, reply.arrays, {"size": int(site.labels.sum())})

    monkeypatch.setattr(audits, "Sketch", Leaky)
    found = audit_sketch(Privacy(1, 1e-5), 100)
    assert found.lower == math.inf
    assert found.contradicted


def quieter(factor):
    """A sketch whose sites add too little noise."""

    class Quieter(Sketch):
        def answer(self, query, site, source=SYSTEM):
            less = {k: v * factor for k, v in query.numbers.items() if k.endswith("_sigma")}
            asked = Message(query.kind, query.arrays, {**query.numbers, **less})
            return super().answer(asked, site, source)

    return Quieter


def test_noise_half_as_large_is_found(monkeypatch):
    """ε = 2 becomes 4.6, of which 60,000 runs prove 2.41 ± .09: missed once in 10⁵ times."""
    monkeypatch.setattr(audits, "Sketch", quieter(0.5))
    found = audit_sketch(Privacy(2, 1e-5), 60_000)
    assert found.accounted == pytest.approx(2, rel=1e-6)
    assert found.lower > 2
    assert found.contradicted
    assert "CONTRADICTED" in found.describe()


@pytest.mark.slow
def test_the_published_algorithm_is_caught():
    found = audit_paper(runs=1_200_000)
    assert found.claim == 0.9
    assert 0.9 < found.lower <= 1.66
    assert found.contradicted
    assert "CONTRADICTED" in found.describe()


def test_the_account_of_the_published_algorithm_holds():
    found = audit_paper(runs=50_000, claim=1.65)
    assert found.accounted == pytest.approx(1.65, abs=0.005)
    assert not found.contradicted


@pytest.mark.statistical
def test_the_published_algorithm_is_caught_by_far():
    """Exact 1.65, claimed .9; about 1.25 is expected of this many runs, ± .05."""
    lower = audit_paper(runs=4_000_000).lower
    print(f"claim .9: lower bound {lower:.2f}")
    assert 1.1 <= lower <= 1.66


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1, 2, 4, 8])
def test_twenty_audits_never_exceed_the_claim(epsilon):
    """False alarms: a bound exceeds the true ε with probability ≤ .05, in practice never."""
    lower = [audit_sketch(Privacy(epsilon, 1e-5), 1_000_000).lower for _ in range(20)]
    print(f"claim {epsilon}: lower bounds {min(lower):.2f} to {max(lower):.2f}")
    assert max(lower) <= epsilon
    assert min(lower) >= epsilon / 2
