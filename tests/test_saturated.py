"""Models that are sure of themselves: up to a seventh of a label's scores within 10⁻⁶ of 1.

The sets of the search have the size of those of pooled scores, and both that of the quantile in
exact arithmetic.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import fedcover as fc
from fedcover.labelshift import likelihood_ratio

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

ALPHAS = (0.02, 0.05, 0.1)
SCORES = [
    fc.scores.APS(),
    fc.scores.APS(u=1.0),
    fc.scores.RAPS(penalty=0.01, k_reg=2),
    fc.scores.SAPS(),
    fc.scores.SAPS(penalty=0.0),
    fc.scores.LAC(),
    fc.scores.Margin(),
    fc.scores.TopK(),
]
each_score = pytest.mark.parametrize("score", SCORES, ids=str)


def model(factor, n, rng, n_classes=6):
    """Probabilities of a model whose logits are `factor` times too large, and labels."""
    y = rng.choice(n_classes, n, p=np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2))
    means = 1.7 * np.eye(n_classes)
    logits = factor * 2.5 * (means[y] + rng.normal(size=(n, n_classes)))
    return fc.softmax(logits), y


def federation(score, factor, seed):
    """Sites of different label mixes, and records to predict."""
    rng = np.random.default_rng(seed)
    sites = []
    for i, n in enumerate((900, 600, 300)):
        p, y = model(factor, 6 * n, rng)
        pick = rng.choice(len(y), n, replace=False, p=(w := rng.dirichlet(np.ones(6))[y]) / w.sum())
        sites.append(fc.Site.from_probabilities(f"s{i}", p[pick], y[pick], score, seed=seed))
    return sites, model(factor, 1500, rng)


def exact_row(row, u, score):
    """Scores of one record as fractions, from their published formulas."""
    row = [Fraction(float(x)) for x in row]
    row, u = [x / sum(row) for x in row], Fraction(float(u))
    n, top, out = len(row), max(row), []
    for y, own in enumerate(row):
        higher = [x for x in row if x > own]
        rank = 1 + len(higher)
        match score:
            case fc.scores.APS():
                value = sum(higher) + u * own
            case fc.scores.RAPS():
                penalty, k = Fraction(score.penalty), score.k_reg
                value = sum(higher) + u * own + penalty * max(0, rank - k)
                value /= 1 + penalty * max(0, n - k)
            case fc.scores.SAPS():
                penalty = Fraction(score.penalty)
                value = u * top if rank == 1 else top + penalty * (rank - 2 + u)
                value /= 1 + penalty * (n - 1)
            case fc.scores.LAC():
                value = 1 - own
            case fc.scores.Margin():
                value = (1 + max(row[:y] + row[y + 1 :]) - own) / 2
            case fc.scores.TopK():
                value = Fraction(rank, n)
        out.append(value)
    return out


@each_score
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1, 3, 10])
def test_scores_and_distances_have_the_digits_of_exact_arithmetic(score, dtype, factor):
    """This fails where a distance is 1 minus a rounded score, or a small score 1 minus a sum."""
    rng = np.random.default_rng(factor)
    p = model(factor, 40, rng)[0].astype(dtype)
    u = np.full(40, score.u) if getattr(score, "u", "uniform") != "uniform" else rng.random(40)
    v, d = score.of_all(p, u=u), score.distances_of_all(p, u=u)
    for k in range(40):
        exact = exact_row(p[k], u[k], score)
        for y, wanted in enumerate(exact):
            own = (
                score.of_labels(p[[k]], [y], u=u[k]),
                score.distances_of_labels(p[[k]], [y], u=u[k]),
            )
            for found, one, value in ((v, own[0], wanted), (d, own[1], 1 - wanted)):
                assert found[k, y] == pytest.approx(float(value), rel=1e-14, abs=1e-300)
                assert one[0] == pytest.approx(float(value), rel=1e-14, abs=2e-16)
            small = own[1] if wanted > Fraction(1, 2) else own[0]
            near = 1 - wanted if wanted > Fraction(1, 2) else wanted
            assert small[0] == pytest.approx(float(near), rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("factor", [3, 10])
def test_the_model_saturates(factor):
    """Else the other tests here would test nothing."""
    sites, _ = federation(fc.scores.APS(), factor, 0)
    far = np.concatenate([s.distances for s in sites])
    assert (far < 1e-6).mean() > (0.01 if factor == 3 else 0.1)
    assert factor == 3 or (1 - far == 1).mean() > 0.03
    assert len(np.unique(far)) > 0.9 * len(far)


def exact_thresholds(sites, target, alpha, u_of):
    """Thresholds (C,) of the weighted quantile as fractions; None where that is the mass at 1."""
    table, sizes = [s.label_counts for s in sites], [len(s) for s in sites]
    w = [Fraction(float(x)) for x in likelihood_ratio(table, target, sizes)]
    held = sorted(
        (value, int(y)) for s in sites for value, y in zip(u_of[s.name], s.labels, strict=True)
    )
    total = sum(w[y] for _, y in held)
    out = []
    for y in range(sites[0].n_classes):
        level, running = (1 - Fraction(str(alpha))) * (total + w[y]) - Fraction(1, 10**9), 0
        found = None
        for value, label in held:
            running += w[label]
            if running >= level:
                found = value
                break
        out.append(found)
    return out


@each_score
@pytest.mark.parametrize("factor", [3, 6, 10])
def test_search_and_pooling_give_sets_of_one_size(score, factor):
    sites, (p, _) = federation(score, factor, seed=factor)
    exact = fc.calibrate(sites, alpha=ALPHAS, method=fc.methods.EstimatedWeights())
    found = fc.calibrate(sites, alpha=ALPHAS, method=fc.methods.DPFedCP())
    for name in exact:
        wanted = exact[name].predict_set(p, seed=1).sizes.mean(axis=1)
        sizes = found[name].predict_set(p, seed=1).sizes.mean(axis=1)
        assert (sizes >= wanted).all()
        assert (sizes <= 1.01 * wanted).all()
        assert (found[name].distances <= exact[name].distances).all()


@each_score
def test_sets_are_those_of_exact_arithmetic(score):
    rng = np.random.default_rng(7)
    fixed = getattr(score, "u", "uniform")
    # RAPS puts what saturates on steps in the middle, where doubles cannot tell it apart.
    factor = 3 if isinstance(score, fc.scores.RAPS) else 10
    sites, own = [], {}
    for i, n in enumerate((150, 100)):
        p, y = model(factor, n, rng)
        u = np.full(n, fixed) if fixed != "uniform" else rng.random(n)
        v, d = score.of_labels(p, y, u=u), score.distances_of_labels(p, y, u=u)
        sites.append(fc.Site(f"s{i}", v, y, n_classes=6, distances=d, score=score))
        own[f"s{i}"] = [exact_row(p[k], u[k], score)[y[k]] for k in range(n)]
    p, _ = model(factor, 200, rng)
    u = np.full(200, fixed) if fixed != "uniform" else rng.random(200)
    values = [exact_row(p[k], u[k], score) for k in range(200)]
    methods = fc.methods.EstimatedWeights(), fc.methods.DPFedCP()
    pooled, search = (fc.calibrate(sites, alpha=ALPHAS, method=m) for m in methods)
    for target in range(2):
        for a, alpha in enumerate(ALPHAS):
            limits = exact_thresholds(sites, target, alpha, own)
            mask = np.array(
                [[m is None or v <= m for v, m in zip(row, limits, strict=True)] for row in values]
            )
            for cals in (pooled, search):
                sets = cals[f"s{target}"].predict_set(p, u=u)
                assert (sets.mask[a] >= mask).all()
                assert sets.sizes[a].mean() <= 1.01 * mask.sum(axis=1).mean()


def test_ready_scores_with_distances_predict_as_probabilities_do():
    score = fc.scores.APS()
    sites, (p, _) = federation(score, 10, seed=3)
    cal = fc.calibrate(sites, alpha=0.05, method=fc.methods.DPFedCP())["s0"]
    u = np.random.default_rng(0).random(len(p))
    v, d = score.of_all(p, u=u), score.distances_of_all(p, u=u)
    sets = cal.predict_set(p, u=u)
    assert np.array_equal(cal.sets_from_scores(v, d).mask, sets.mask)
    rounded = cal.sets_from_scores(v)  # knows no better than the thresholds, rounded up
    assert (rounded.mask >= sets.mask).all()
    for bad in (1 - d, d[:, :3], 2 * d):
        with pytest.raises(fc.FedcoverError):
            cal.sets_from_scores(v, bad)


def test_thresholds_on_both_sides_of_one_half():
    """Levels below and above, and labels of one level on either side, are compared rightly."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 300)
    sites = [fc.Site.from_probabilities("a", p, rng.integers(0, 4, 300), seed=0)]
    cal = fc.calibrate(sites, alpha=[0.05, 0.5, 0.95], method=fc.methods.Local())["a"]
    mixed = np.array([[0.2, 0.9, 0.5, 0.7], [0.1, 0.1, 0.1, 0.1], [0.8, 0.9, 0.6, 0.55]])
    cal = fc.Calibration(**{**vars(cal), "thresholds": mixed, "distances": 1 - mixed})
    u = rng.random(300)
    values = fc.scores.APS().of_all(p, u=u)
    assert np.array_equal(cal.predict_set(p, u=u).mask, values <= mixed[:, None])
