"""The baselines that pool raw scores."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.labelshift import exact_weights

methods = fc.methods
pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def empirical(sites):
    return {s.name: s.label_counts / s.label_counts.sum() for s in sites}


def test_global_is_the_quantile_of_all_scores(federation):
    sites = federation(np.random.default_rng(0), least=20)
    scores = np.sort(np.concatenate([s.scores for s in sites]))
    rank = int(np.ceil(0.75 * (len(scores) + 1)))
    for cal in fc.calibrate(sites, alpha=0.25, method=methods.Pooled()).values():
        assert (cal.thresholds == scores[rank - 1]).all()


def test_estimated_weights_by_definition(federation):
    """Q_{1-α} of Σ_k p_k δ_{V_k} + p_y δ_1, label by label."""
    sites = federation(np.random.default_rng(1), least=20)
    cal = fc.calibrate(sites, alpha=0.3, method=methods.EstimatedWeights())["s1"]
    scores = np.concatenate([s.scores for s in sites])
    labels = np.concatenate([s.labels for s in sites])
    table, sizes = [s.label_counts for s in sites], [len(s) for s in sites]
    w = fc.labelshift.likelihood_ratio(table, 1, sizes)
    for y in range(4):
        expected = fc.weighted_quantile(np.append(scores, 1.0), np.append(w[labels], w[y]), 0.7)
        assert cal.thresholds[0, y] == expected


def test_oracle_with_the_empirical_distributions_is_estimated(federation):
    sites = federation(np.random.default_rng(2), least=20)
    oracle = fc.calibrate(sites, method=methods.OracleWeights(empirical(sites)))
    estimated = fc.calibrate(sites, method=methods.EstimatedWeights())
    for name in oracle:
        assert np.array_equal(oracle[name].thresholds, estimated[name].thresholds)


def test_oracle_groups_weigh_their_sites_by_size(federation):
    """A group's records come from its sites in proportion to their sizes."""
    sites = federation(np.random.default_rng(3), n_sites=4, least=5, most=200)
    targets = {"group": ["s0", "s1", "s2"]}
    oracle = fc.calibrate(sites, method=methods.OracleWeights(empirical(sites)), targets=targets)
    estimated = fc.calibrate(sites, method=methods.EstimatedWeights(), targets=targets)
    assert oracle["group"].ratios == pytest.approx(estimated["group"].ratios, rel=1e-12)


def test_priors_as_table_or_dictionary(federation):
    sites = federation(np.random.default_rng(4))
    given = empirical(sites)
    a = fc.calibrate(sites, method=methods.OracleWeights(given))
    b = fc.calibrate(sites, method=methods.OracleWeights(np.array(list(given.values()))))
    assert all(np.array_equal(a[n].thresholds, b[n].thresholds) for n in a)


def test_exact_weights_by_definition(federation):
    sites = federation(np.random.default_rng(5), n_classes=3, least=5, most=12)
    priors = np.random.default_rng(0).dirichlet(np.full(3, 3.0), 3)
    cal = fc.calibrate(sites, alpha=0.3, method=methods.OracleWeights(priors, weights="exact"))
    scores = np.concatenate([s.scores for s in sites])
    labels = np.concatenate([s.labels for s in sites])
    sizes = [len(s) for s in sites]
    for target in range(3):
        for y in range(3):
            counts = np.bincount(np.append(labels, y), minlength=3)
            p = exact_weights(priors, sizes, target, counts)
            expected = fc.weighted_quantile(np.append(scores, 1.0), np.append(p[labels], p[y]), 0.7)
            assert cal[f"s{target}"].thresholds[0, y] == expected


@pytest.mark.parametrize("n", [3, 30])
def test_exact_weights_when_sites_share_no_label(n):
    """A query label the target cannot have is impossible, and must not break the others."""
    a = fc.Site("a", np.arange(1, n + 1) / (n + 9), [0] * n, n_classes=2)
    b = fc.Site("b", np.arange(1, n + 1) / (n + 1), [1] * n, n_classes=2)
    method = methods.OracleWeights([[1, 0], [0, 1]], weights="exact")
    cals = fc.calibrate([a, b], method=method, alpha=0.4)
    own = fc.calibrate([a, b], method=methods.Local(), alpha=0.4)
    assert cals["a"].thresholds[0, 0] == own["a"].thresholds[0, 0]
    assert cals["b"].thresholds[0, 1] == own["b"].thresholds[0, 1]


def test_subsample_halves_the_records(federation):
    sites = federation(np.random.default_rng(6), least=40)
    total = sum(len(s) for s in sites)
    for method in (
        methods.EstimatedWeights(subsample=True),
        methods.OracleWeights(empirical(sites), subsample=True),
    ):
        a, b, c = (fc.calibrate(sites, method=method, seed=s)["s0"] for s in (0, 0, 1))
        assert total // 2 - 20 <= a.n_records <= total // 2
        assert np.array_equal(a.thresholds, b.thresholds)
        assert not np.array_equal(a.thresholds, c.thresholds)


@pytest.mark.parametrize(
    "priors", [5, None, "x", {}, [[1, 1, 1, 1]], [[1, 1]] * 3, [[0, 0, 0, 0]] * 3, {"s0": [1]}],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("weights", ["ratio", "exact"])
def test_bad_priors_are_refused(federation, priors, weights):
    sites = federation(np.random.default_rng(0))
    with pytest.raises(fc.FedcoverError):
        fc.calibrate(sites, method=methods.OracleWeights(priors, weights=weights))


def test_bad_weights_are_refused():
    for bad in ("x", None, np.ones(2)):
        with pytest.raises(fc.FedcoverError):
            methods.OracleWeights([[1, 1]], weights=bad)
    with pytest.raises(fc.FedcoverError):
        methods.OracleWeights([[1, 1]], weights="exact", subsample=True)
