"""The one-round sketch: exact without privacy, on target with it, at all sites from one collection.

Privacy is that of a record, replace-one, secure sum, δ = 1e-5, with all that the sketch sends.
Coverage is computed, not sampled, where score laws are known; on the simulated data it is that of
300,000 records, on real outputs that of the other half of the test images.

False alarms: means of 500 repetitions have standard errors below .0023, deviations below .0016.
Bounds are those asked of the method, not drawn around what it does; where it passes by a hair the
test says so by failing at times. Seen when they were set: the deviation at ε = 8 lies within one
standard error of its bound of .021 (it fails every other run unless bins get fewer, see
`plan.INSIDE`), that of 1000 labels (.0086 ± .0006 for .01) two below, all others four or more.
Means over 100 draws of real outputs have standard errors up to .003 beside a tolerance of .02.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fedcover as fc

from .federations import Cifar10, Simulated

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning"),
]

DATA = Path(os.environ.get("FEDCOVER_DATA", Path(__file__).parents[3] / "shared" / "data"))
LEVELS = tuple(np.linspace(0.1, 0.9, 9).round(1).tolist())
SKETCH = fc.methods.Sketch


def budget(epsilon: float) -> fc.Privacy:
    return fc.Privacy(epsilon, 1e-5, view="secure-sum")


def shown(what: str, coverage) -> np.ndarray:
    coverage = np.asarray(coverage)
    print(f"\n{what}: {coverage.mean():.4f} ± {coverage.std():.4f}")
    return coverage


# ---------------------------------------------------------------- federations


class Real:
    """Sites that draw their labels from given mixes, and records of a label from real outputs.

    Half of the records are for calibration, drawn with replacement; the others are for testing.
    """

    def __init__(self, name, temperature=1.0, score=None):
        path = DATA / name
        if not path.exists():
            pytest.skip(f"{name} is not in the folder FEDCOVER_DATA")
        with np.load(path, allow_pickle=False) as file:
            logits, self.labels = file["logits"].astype(np.float32), file["labels"].astype(np.int64)
        self.probs = fc.softmax(logits, temperature=temperature)
        self.n_classes = self.probs.shape[1]
        self.score = score or fc.scores.APS()

    def draw(self, seed, mixes, sizes):
        """Sites, and a function that gives a site's coverage for its thresholds, (A, C)."""
        rng = np.random.default_rng(seed)
        order = np.argsort(self.labels[shuffled := rng.permutation(len(self.labels))])
        by_label = np.array_split(
            shuffled[order], np.cumsum(np.bincount(self.labels, minlength=self.n_classes))[:-1]
        )
        halves = [np.array_split(rows, 2) for rows in by_label]
        sites = []
        for i, (mix, n) in enumerate(zip(mixes, sizes, strict=True)):
            y = np.sort(rng.choice(self.n_classes, size=n, p=mix))
            counts = np.bincount(y, minlength=self.n_classes)
            drawn = [rng.choice(halves[k][0], size=counts[k]) for k in np.flatnonzero(counts)]
            pick = np.concatenate(drawn)
            name = f"site {i}"
            sites.append(fc.Site.from_probabilities(name, self.probs[pick], y, self.score, rng))
        test = np.concatenate([h[1] for h in halves])
        labels = self.labels[test]
        scores = self.score.of_labels(self.probs[test], labels, rng)
        each = np.bincount(labels, minlength=self.n_classes)

        def coverage(thresholds, mix):
            return (scores <= thresholds[:, labels]) @ (np.asarray(mix) / each)[labels]

        return sites, coverage


def cifar10():
    """The paper's ten agents."""
    return Real("cifar10_resnet56_test_logits.npz", 1.6), Cifar10.priors, Cifar10.sizes


def cifar100():
    """Twenty sites of 250 records, each with a label mix of its own."""
    mixes = np.random.default_rng(7).dirichlet(np.full(100, 0.3), 20)
    return Real("cifar100_repvgg_a2_test_logits.npz"), mixes, [250] * 20


def imagenet():
    """Eight sites of 500 records that lean to one half of the classes or the other."""
    half = np.repeat([0.9, 0.1], 500) / 500
    mixes = np.array([half, half[::-1]] * 4)
    return Real("imagenet_val5k_resnet50_logits.npz"), mixes, [500] * 8


def simulated():
    return [draw.sites for draw in Simulated(fc.scores.APS()).draws(10, n_test=1)]


# ---------------------------------------------------------------- without privacy


def check_exact(what, federations):
    worst, lowest, pairs = 0.0, 0.0, 0
    for sites in federations:
        exact = fc.calibrate(sites, LEVELS, fc.methods.EstimatedWeights())
        sketch = fc.collect(sites)
        assert sketch.cost.rounds == 1
        for site in sites:
            found = sketch.personalise(site.label_counts, LEVELS).thresholds
            gap = found - exact[site.name].thresholds
            worst, lowest = max(worst, float(gap.max())), min(lowest, float(gap.min()))
            pairs += gap.size
    print(
        f"\n{what}: {pairs:,} thresholds, between {lowest:.1e} and {worst:.2e} above the exact ones"
    )
    assert lowest >= 0
    assert worst < 1e-3


def test_simulated_thresholds_are_exact_to_a_thousandth():
    check_exact("simulated", simulated())


@pytest.mark.parametrize("make", [cifar10, cifar100, imagenet], ids=lambda m: m.__name__)
def test_real_thresholds_are_exact_to_a_thousandth(make):
    """All sites, nine levels and all labels from one collection."""
    real, mixes, sizes = make()
    check_exact(make.__name__, [real.draw([1, r], mixes, sizes)[0] for r in range(5)])


# ---------------------------------------------------------------- the paper's simulated data


class Truth:
    """Distribution functions of the simulated scores by label, from 100,000 records each."""

    def __init__(self, score):
        rng = np.random.default_rng(99)
        law = Simulated(score)
        self.scores = []
        for y in range(3):
            probs, labels = law._records(rng, 100_000, np.eye(3)[y])
            self.scores.append(np.sort(score.of_labels(probs, labels, rng)))

    def coverage(self, cal, mix=Simulated.priors[1]):
        below = [
            np.searchsorted(s, q + 1e-12, side="right") / len(s)
            for s, q in zip(self.scores, cal.thresholds[0], strict=True)
        ]
        return float(np.dot(mix, below))


@pytest.fixture(scope="module", params=[fc.scores.APS()], ids=str)
def draws(request):
    sites = [d.sites for d in Simulated(request.param).draws(500, n_test=1)]
    return sites, Truth(request.param)


def covered(draws, privacy, mode="balanced"):
    sites, truth = draws
    found = []
    for drawn in sites:
        sketch = fc.collect(drawn, SKETCH(mode=mode), privacy)
        if privacy is not None:
            assert sketch.privacy.epsilon <= privacy.epsilon * (1 + 1e-9)
        found.append(truth.coverage(sketch.personalise(drawn[1].label_counts, 0.1)))
    what = "no privacy" if privacy is None else f"ε={privacy.epsilon:g}"
    return shown(f"simulated, {what}, {mode}", found)


LARGEST_SD = {1: 0.032, 2: 0.024, 8: 0.021}


@pytest.mark.parametrize("epsilon", LARGEST_SD)
def test_balanced_is_right_on_average(draws, epsilon):
    coverage = covered(draws, budget(epsilon))
    assert 0.89 <= coverage.mean() <= 0.915
    assert coverage.std() <= LARGEST_SD[epsilon]


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4, 8])
def test_guaranteed_does_not_fall_below(draws, epsilon):
    assert covered(draws, budget(epsilon), "guaranteed").mean() >= 0.9


def test_no_privacy_for_comparison(draws):
    assert abs(covered(draws, None).mean() - 0.903) <= 0.005


@pytest.mark.parametrize("epsilon", [1, 2, 8])
@pytest.mark.parametrize("score", [fc.scores.APS(u=1.0), fc.scores.LAC()], ids=str)
def test_crowded_scores_are_covered_too(score, epsilon):
    truth, found = Truth(score), []
    for draw in Simulated(score).draws(500, n_test=1):
        sketch = fc.collect(draw.sites, privacy=budget(epsilon))
        found.append(truth.coverage(sketch.personalise(draw.sites[1].label_counts, 0.1)))
    coverage = shown(f"{score}, ε={epsilon}", found)
    assert 0.87 <= coverage.mean() <= 0.93


# ---------------------------------------------------------------- many labels


def many_labels(n_classes, records, seed):
    """Ten sites and three targets, exponents of the score laws F_y(q) = q^k, and exact mixes.

    Labels differ a lot: k is log-normal with deviation .6. One site and four more lean to the
    harder and the easier half of the labels, by 9 to 1; the others have all labels evenly.
    """
    k = np.exp(np.random.default_rng(5).normal(0, 0.6, n_classes))
    harder = k >= np.median(k)
    hard, easy = (np.where(h, 0.9, 0.1) / (n_classes / 2) for h in (harder, ~harder))
    targets = {"even": np.full(n_classes, 1 / n_classes), "hard-heavy": hard, "easy-heavy": easy}
    mixes = [hard, *[easy] * 4, *[targets["even"]] * 5]
    rng = np.random.default_rng([3, seed])
    sites = []
    for i, mix in enumerate(mixes):
        y = rng.choice(n_classes, size=records // 10, p=mix / mix.sum())
        scores = rng.random(len(y)) ** (1 / k[y])
        sites.append(fc.Site(f"site {i}", scores, y, n_classes=n_classes))
    return sites, k, {name: mix / mix.sum() for name, mix in targets.items()}


@pytest.mark.parametrize(
    ("n_classes", "records", "repetitions", "largest_sd", "off"),
    [(10, 5000, 300, 0.02, 0.02), (1000, 40_000, 100, 0.01, 0.01)],
    ids=["10 labels", "1000 labels"],
)
def test_many_labels_at_epsilon_1(n_classes, records, repetitions, largest_sd, off):
    found = {}
    for r in range(repetitions):
        sites, k, targets = many_labels(n_classes, records, r)
        sketch = fc.collect(sites, privacy=budget(1))
        for name, mix in targets.items():
            q = sketch.personalise(mix, 0.1).thresholds[0]
            found.setdefault(name, []).append(float(mix @ q**k))
    for name, coverage in found.items():
        coverage = shown(f"{n_classes} labels, N={records:,}, ε=1, {name} target", coverage)
        assert abs(coverage.mean() - 0.9) <= off
        assert coverage.std() <= largest_sd


# ---------------------------------------------------------------- real outputs


@pytest.mark.parametrize(("make", "epsilon"), [(cifar10, 2), (cifar100, 4)], ids=["10", "100"])
def test_every_site_of_a_real_federation_is_covered(make, epsilon):
    """Each site's own label mix is known from its own calibration labels alone."""
    real, mixes, sizes = make()
    found = []
    for r in range(100):
        sites, coverage = real.draw([2, r], mixes, sizes)
        sketch = fc.collect(sites, privacy=budget(epsilon))
        found.append([
            float(coverage(sketch.personalise(s.label_counts, 0.1).thresholds, m)[0])
            for s, m in zip(sites, mixes, strict=True)
        ])  # fmt: skip
    means, sds = np.mean(found, axis=0), np.std(found, axis=0)
    print(
        f"\n{make.__name__}, ε={epsilon}, {len(sizes)} sites: means {means.min():.4f} to "
        f"{means.max():.4f}, sd {sds.min():.4f} to {sds.max():.4f}"
    )
    assert np.abs(means - 0.9).max() <= 0.02


# ---------------------------------------------------------------- beside private DP-FedCP


@pytest.mark.parametrize("epsilon", [1, 4])
def test_one_round_beside_private_dp_fedcp_at_equal_epsilon(epsilon):
    """Ten sites × three levels from one budget, on CIFAR-10: error, rounds and bytes."""
    real, mixes, sizes = cifar10()
    levels, rows = [0.05, 0.1, 0.2], {}
    for r in range(40):
        sites, coverage = real.draw([4, r], mixes, sizes)
        sketch = fc.collect(sites, privacy=budget(epsilon))
        runs = {
            "Sketch": {s.name: sketch.personalise(s.label_counts, levels) for s in sites},
            "DP-FedCP": fc.calibrate(sites, levels, fc.methods.DPFedCP(), privacy=budget(epsilon)),
        }
        for name, cals in runs.items():
            off = [
                np.abs(coverage(cals[s.name].thresholds, m) - 1 + np.array(levels)).mean()
                for s, m in zip(sites, mixes, strict=True)
            ]
            spent = {cal.privacy.epsilon for cal in cals.values()}
            assert max(spent) <= epsilon * (1 + 1e-9)
            assert min(spent) >= epsilon * (1 - 1e-6)
            rows.setdefault(name, []).append((np.mean(off), cals[sites[0].name].cost))
    print(f"\nCIFAR-10, ε={epsilon}, 10 sites × 3 levels, 40 repetitions, per site")
    print("  method      rounds   bytes up   bytes down   mean |coverage - (1-α)|")
    error = {}
    for name, row in rows.items():
        error[name] = float(np.mean([e for e, _ in row]))
        cost = row[-1][1]
        print(
            f"  {name:10s} {cost.rounds:7d} {cost.bytes_up:10,d} {cost.bytes_down:12,d}   "
            f"{error[name]:.4f}"
        )
    print(f"  DP-FedCP / Sketch: {error['DP-FedCP'] / error['Sketch']:.2f}")
    sketch, other = (rows[name][-1][1] for name in ("Sketch", "DP-FedCP"))
    assert sketch.rounds == 1 < other.rounds
    assert error["Sketch"] <= error["DP-FedCP"]


# ---------------------------------------------------------------- own scores


@pytest.mark.parametrize("levels", [(0.1,), LEVELS], ids=["one level", "nine levels"])
@pytest.mark.parametrize("size", [20, 60, 400])
def test_scores_that_look_alike_rarely_raise_the_alarm(levels, size):
    """At most once in 1000: 13 or more of 4000 then have a probability of 3e-4."""
    k, mix = np.array([0.7, 1.0, 1.6]), np.array([0.1, 0.3, 0.6])

    def records(rng, n, shares):
        y = rng.choice(3, size=n, p=shares)
        return y, rng.random(n) ** (1 / k[y])

    seen = 0
    for r in range(4000):
        rng = np.random.default_rng([9, r])
        if r % 200 == 0:
            sites = []
            for i in range(2):
                y, v = records(rng, 2000, np.full(3, 1 / 3))
                sites.append(fc.Site(f"s{i}", v, y, n_classes=3))
            sketch = fc.collect(sites, privacy=budget(4))
        y, v = records(rng, size, mix)
        cal = sketch.personalise(labels=y, local_scores=v, alpha=levels)
        seen += any("standard deviations apart" in note for note in cal.notes)
    print(f"\n{size} own scores, {len(levels)} level(s): {seen} false alarms in 4000")
    assert seen <= 12
