"""t-digests: the clusters, the error they leave, and the protocol."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.methods.base import Message
from fedcover.methods.tdigest import digest

TDigest = fc.methods.TDigest
LEVELS = [0.02, 0.05, 0.1, 0.2, 0.5]
LAWS = {
    "uniform": lambda rng, n: rng.random(n),
    "crowded below": lambda rng, n: rng.beta(0.3, 3, n),
    "crowded above": lambda rng, n: 1 - rng.beta(0.3, 3, n),
    "ties": lambda rng, n: np.round(rng.beta(2, 2, n) * 12) / 12,
    "half ties": lambda rng, n: np.maximum(0.4, rng.random(n)),
}

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def federation_of(law, m, n, seed=0):
    rng = np.random.default_rng(seed)
    return [fc.Site(f"s{i}", law(rng, n), rng.integers(0, 3, n), n_classes=3) for i in range(m)]


def stated(cal):
    """What the result says the digests take off the coverage, and add to it."""
    return [float(x) / 100 + 1e-4 for x in re.findall(r"([\d.]+)%", cal.guarantee)]


@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=300),
    compression=st.integers(10, 60),
)
def test_clusters_are_runs_of_the_sorted_scores(scores, compression):
    v = np.sort(scores)
    means, highs, sizes = digest(v, compression)
    assert sizes.sum() == len(v)
    assert np.array_equal(highs, v[np.cumsum(sizes) - 1])
    runs = np.split(v, np.cumsum(sizes)[:-1])
    assert means == pytest.approx([r.mean() for r in runs], abs=1e-12)
    assert all(r[0] <= mean <= r[-1] for r, mean in zip(runs, means, strict=True))
    assert len(sizes) <= compression or len(set(scores)) < len(scores)
    q = np.cumsum(np.append(0, sizes)) / len(v)
    k1 = compression / (2 * np.pi) * np.arcsin(np.clip(2 * q - 1, -1, 1))
    several = np.array([len(set(r)) > 1 for r in runs])
    assert (np.diff(k1)[several] <= 1 + 1e-6).all()


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_few_records_lose_nothing(law):
    """Every cluster is one score then, so the thresholds are those of the pooled scores."""
    sites = federation_of(law, 4, 30)
    pooled = fc.calibrate(sites, LEVELS, fc.methods.Pooled())["s0"].thresholds
    for mode in ("balanced", "guaranteed"):
        found = fc.calibrate(sites, LEVELS, TDigest(compression=10_000, mode=mode))["s0"]
        assert np.array_equal(found.thresholds, pooled)
        assert stated(found) == [1e-4, 1e-4]


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(("m", "n"), [(1, 5000), (10, 1000), (40, 200)])
def test_error_is_small_and_within_the_stated_bound(law, m, n):
    """Measured at δ = 100 over these and other laws: at most .0017 of the records."""
    sites = federation_of(law, m, n)
    scores = np.sort(np.concatenate([s.scores for s in sites]))

    def below(method):
        cal = fc.calibrate(sites, LEVELS, method)["s0"]
        return np.searchsorted(scores, cal.thresholds[:, 0], side="right") / len(scores), cal

    exact, _ = below(fc.methods.Pooled())
    near, balanced = below(TDigest())
    above, guaranteed = below(TDigest(mode="guaranteed"))
    assert np.abs(near - exact).max() <= 0.003
    few, many = stated(balanced)
    level = (1 - np.array(LEVELS)) * (len(scores) + 1) / len(scores)
    assert (level - near <= few).all()
    assert (near - exact <= many).all()
    assert (above >= exact).all()
    assert (above - exact <= stated(guaranteed)[1]).all()
    assert stated(guaranteed)[0] == 1e-4
    assert stated(guaranteed)[1] <= 0.04


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_per_label_digests_correct_for_label_shift(law):
    rng = np.random.default_rng(3)
    priors = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]]
    sites = []
    for i, p in enumerate(priors):
        labels = rng.choice(3, 600, p=p)
        sites.append(fc.Site(f"s{i}", law(rng, 600) ** (1 + labels), labels, n_classes=3))
    targets = {"s1": ["s1"], "group": ["s0", "s2"], "given": [0, 1, 3]}
    exact = fc.calibrate(sites, LEVELS, fc.methods.EstimatedWeights(), targets=targets)
    near = fc.calibrate(sites, LEVELS, TDigest(per_label=True), targets=targets)
    above = fc.calibrate(sites, LEVELS, TDigest(per_label=True, mode="guaranteed"), targets=targets)
    scores, labels = (np.concatenate([getattr(s, k) for s in sites]) for k in ("scores", "labels"))
    for name, cal in exact.items():
        assert (above[name].thresholds >= cal.thresholds).all()
        w = cal.ratios[labels] / cal.ratios[labels].sum()
        for a, y in np.ndindex(cal.thresholds.shape):
            between = [w @ (scores <= c.thresholds[a, y]) for c in (cal, near[name], above[name])]
            assert abs(between[1] - between[0]) <= 0.004
            assert between[2] - between[0] <= stated(above[name])[1]


def test_one_round_of_few_bytes(spy):
    method = spy(TDigest())
    cal = fc.calibrate(federation_of(LAWS["uniform"], 2, 20_000), 0.1, method)["s0"]
    assert (cal.cost.rounds, cal.n_records) == (1, 40_000)
    assert cal.cost.bytes_up <= 100 * 24 + 8
    assert all("labels" not in reply.arrays for _, _, reply in method.heard)


def changed(key, change):
    def lie(name, reply):
        if name != "s1":
            return reply
        arrays = dict(reply.arrays)
        new = change(arrays.pop(key))
        return Message(reply.kind, arrays if new is None else {**arrays, key: new})

    return lie


LIES = {
    "missing": lambda a: None,
    "short": lambda a: a[:-1],
    "rank": lambda a: a[None],
    "backwards": lambda a: a[::-1] if len(a) > 1 else a * 0,
    "NaN": lambda a: a * np.nan,
    "negative": lambda a: -a - 1,
    "large": lambda a: a + 2,
    "text": lambda a: np.full(a.shape, "x"),
    "objects": lambda a: a.astype(object),
    "empty": lambda a: a[:0],
    "overflow": lambda a: a * 0 + 2**62 if a.dtype.kind == "i" else a * 1e300,
}


# Sizes backwards are possible: their sum is right.
CASES = [(k, n) for k in ("means", "highs", "sizes", "ends") for n in LIES]
CASES.remove(("sizes", "backwards"))


@pytest.mark.parametrize(("key", "lie"), CASES)
@pytest.mark.parametrize("per_label", [False, True])
def test_impossible_digests_are_refused(spy, key, lie, per_label):
    sites = federation_of(LAWS["uniform"], 3, 601)
    method = spy(TDigest(per_label=per_label), changed(key, LIES[lie]))
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(sites, 0.1, method)


@pytest.mark.parametrize("options", [{"compression": 5}, {"per_label": 1}, {"mode": "x"}])
def test_bad_options_are_refused(options):
    with pytest.raises(fc.FedcoverError):
        TDigest(**options)
