"""Certificates through the public API: what is kept, what is refused, and the same everywhere.

Scores have two values, so that coverage is known exactly, and miss rates lie just above α: every
certified threshold below the upper value is a violation. With β = .5 more than half would have to
be wrong for a broken step to hide. Each of these tests fails by chance with probability < 10⁻⁶.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import fedcover as fc
from fedcover.calibration import Cost
from fedcover.engines.base import Engine, sum_replies
from fedcover.engines.remote.belief import Known
from fedcover.engines.remote.result_message import calibration_from, sketch_message
from fedcover.members import federation_of
from fedcover.methods.base import Task
from fedcover.methods.sketch import certify as wiring
from fedcover.methods.sketch import factor
from fedcover.methods.sketch.result import SketchResult
from fedcover.privacy.randomness import SYSTEM, SeededBytes

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

ALPHA = 0.1
LOW, HIGH = 0.2, 0.8
ONE_EDGE = fc.methods.Sketch(bins=(0.0, 0.5, 1.0))
TWO = np.full(2, 0.5)
ALIKE = np.full(2, ALPHA * 1.0001)
ONE_BAD = np.array([0.0, 1.0])
BAD_MIX = np.array([1 - ALPHA * 1.0001, ALPHA * 1.0001])


def site(name, mix, n, missed, rng, **more):
    y = rng.choice(len(mix), n, p=mix)
    scores = np.where(rng.random(n) < missed[y], HIGH, LOW)
    return fc.Site(name, scores, y, n_classes=len(mix), **more)


def sites(rng, missed, n=5, mix=TWO, each=300):
    return [site(f"s{i}", mix, each, missed, rng) for i in range(n)]


def budget(epsilon, **more):
    return None if epsilon is None else fc.Privacy(epsilon, 1e-5, view="secure-sum", **more)


def dropping(some, privacy, present, fewest=10, method=ONE_EDGE, source=SYSTEM):
    """A sketch whose secure sum only a part of the sites has reached."""
    task = replace(Task.of(federation_of(some), privacy), min_survivors=fewest)
    server = method.server(task)
    asked = next(server)
    left = {s.name: s for k, s in enumerate(some) if k in present}
    asked = replace(asked, queries={n: asked.queries[n] for n in left})
    replies = {n: method.answer(q, left[n], source) for n, q in asked.queries.items()}
    with pytest.raises(StopIteration) as done:
        server.send({"sum": sum_replies(asked, replies, task.sites)})
    return SketchResult(done.value.value, method.statement(task), Cost(1, 1, 1))


def kept(one, draws, beta):
    """Few enough violations, where `one` makes a calibration."""
    found = sum(one().thresholds[0].min() < HIGH for _ in range(draws))
    assert found <= binom.ppf(1 - 1e-6, draws, beta)
    return found


@pytest.mark.parametrize("beta", [0.05, 0.5])
@pytest.mark.parametrize("epsilon", [None, 0.5, 8])
@pytest.mark.parametrize("m", [1, 3, 50])
@pytest.mark.parametrize(("mix", "missed"), [(TWO, ALIKE), (BAD_MIX, ONE_BAD)])
def test_counted_labels(m, epsilon, beta, mix, missed):
    rng = np.random.default_rng([m, round(10 * (epsilon or 0)), round(100 * beta)])

    def one():
        sketch = fc.collect(sites(rng, missed), ONE_EDGE, budget(epsilon))
        return sketch.personalise(rng.multinomial(m, mix), ALPHA, certify=1 - beta)

    kept(one, 40, beta)


@pytest.mark.parametrize("own", ["most of the pool", "counts apart", "not in the pool"])
@pytest.mark.parametrize("epsilon", [None, 8])
def test_a_site_with_its_own_records(own, epsilon):
    rng = np.random.default_rng(1)

    def one():
        counts = {"label_counts": rng.multinomial(30, TWO)} if own == "counts apart" else {}
        here = site("own", TWO, 400, ALIKE, rng, **counts)
        others = sites(rng, ALIKE, 2, each=30 if own == "most of the pool" else 300)
        pool = others if own == "not in the pool" else [*others, here]
        return fc.collect(pool, ONE_EDGE, budget(epsilon)).personalise(here, ALPHA, certify=0.5)

    kept(one, 60, 0.5)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_choice_of_own_records_alone(relation):
    """50 own records beside a noisy pool: β = .5 is not far from what the site alone uses up."""
    rng, alone = np.random.default_rng(2), 0

    def one():
        here = site("own", TWO, 50, ALIKE, rng)
        sketch = fc.collect([*sites(rng, ALIKE, 2), here], ONE_EDGE, budget(1, relation=relation))
        cal = sketch.personalise(here, ALPHA, certify=0.5)
        nonlocal alone
        alone += "alone" in cal.certificate.statement
        return cal

    kept(one, 200, 0.5)
    assert alone


@pytest.mark.slow
def test_ten_sites_that_dropped_out():
    """The noise of all survivors counts: with a part of it the promise breaks."""
    # From a seed: with fresh noise one run in twelve finds too few violations to be sure.
    rng, source, privacy = np.random.default_rng(3), SeededBytes(3), budget(0.5)

    def one(forget=False):
        some = sites(rng, ALIKE, 20, each=40)
        sketch = dropping(some, privacy, range(10, 20), source=source)
        assert sketch.sites == tuple(f"s{i}" for i in range(10, 20))
        if forget:
            table = sketch.table
            less = {k: (getattr(table, k)[0] / 400,) for k in ("table_noise", "label_noise")}
            sketch = replace(sketch, table=replace(table, **less))
        return sketch.personalise(TWO, ALPHA, certify=0.95)

    kept(one, 150, 0.05)
    broken = sum(one(forget=True).thresholds[0].min() < HIGH for _ in range(150))
    assert broken > binom.ppf(1 - 1e-6, 150, 0.05)


def test_survivors_bring_noise():
    some = sites(np.random.default_rng(4), ALIKE, 6)
    few, many = (dropping(some, budget(1), range(n), fewest=4) for n in (4, 6))
    assert few.privacy.epsilon == many.privacy.epsilon == pytest.approx(1, rel=1e-6)
    assert many.table.table_sd == pytest.approx(few.table.table_sd * 1.5**0.5)
    assert many.table.label_sd == pytest.approx(few.table.label_sd * 1.5**0.5)


@pytest.mark.parametrize("epsilon", [None, 1])
def test_merged_sketches(epsilon):
    rng = np.random.default_rng(5)

    def one():
        pool = sites(rng, ALIKE, 6, each=150)
        first = fc.collect(pool[:3], ONE_EDGE, budget(epsilon))
        second = fc.collect(pool[3:], ONE_EDGE, budget(epsilon))
        return (first + second).personalise(TWO, ALPHA, certify=0.5)

    kept(one, 80, 0.5)
    first = fc.collect(sites(rng, ALIKE, 2), ONE_EDGE)
    with pytest.raises(fc.FedcoverError, match="both"):
        first + first


def test_records_that_a_limit_left_out_are_no_floor():
    """A site puts in 2 of its 28 records: nothing may be claimed of the other 26."""
    rng = np.random.default_rng(6)
    limited = fc.methods.Sketch(bins=ONE_EDGE.bins, most_per_site=2)
    here = site("own", TWO, 28, np.zeros(2), rng)
    some = [*(site(f"s{i}", TWO, 28, np.zeros(2), rng) for i in range(9)), here]
    table = fc.collect(some, limited).table
    assert table.separate_totals.sum() == 20
    cal = fc.collect(some, limited).personalise(here, ALPHA, certify=0.95)
    assert cal.thresholds[0].min() == 1  # 20 records say too little, and 28 alone as well


def test_counts_of_a_target_are_counted_and_not_known():
    """Ten labels do not tell that a label that is always missed has a share of 15 %."""
    rng, mix = np.random.default_rng(7), np.array([0.85, 0.15])

    def one():
        counts = rng.multinomial(10, mix)
        cal = fc.calibrate(
            sites(rng, ONE_BAD, 3), ALPHA, ONE_EDGE, targets={"new": counts}, certify=0.95
        )["new"]
        assert "10 labels" in cal.certificate.statement
        return cal

    kept(one, 60, 0.05)


def test_averages_look_only_further_down():
    """Expected misses of every estimate are at least those of its edge; the noise is as stated."""
    assert wiring.windows(2) == (0,)
    assert wiring.windows(64) == (0, 4)
    rng = np.random.default_rng(8)
    sketch = fc.collect(sites(rng, ALIKE, 3), privacy=budget(2))
    misses, variance = wiring.views(sketch.table.misses, sketch.table.table_sd)
    bins = sketch.table.layout.bins
    assert misses.shape == (3, bins, 2)
    assert not misses[:, 0].any()
    raw = sketch.table.misses
    for view, window in enumerate(wiring.windows(bins)):
        for row in (1, 2, 700, bins - 2, bins - 1):
            first, last = row - 1, min(row + window, bins)
            assert misses[view, row] == pytest.approx(raw[:, first:last].mean(axis=1), abs=1e-6)
    z = rng.normal(size=(4000, 64)) * sketch.table.table_sd
    sums = factor.sums(z)
    at, window = 20, 8
    found = sums[:, at : at + window + 1].mean(axis=1).std()
    stated = sketch.table.table_sd * factor.ahead_deviation(64, window)[at]
    assert found == pytest.approx(stated, rel=0.06)
    for view, window in enumerate(wiring.windows(bins)):
        deviation = factor.ahead_deviation(bins, window)[:-1] * sketch.table.table_sd
        assert variance[view, 1:, 0] == pytest.approx(deviation**2)


def test_records_exactly_at_an_edge_are_not_missed():
    """A bin holds its upper edge: all scores at .5 are covered by the threshold .5."""
    y = np.arange(2000) % 2
    some = [fc.Site("a", np.full(2000, 0.5), y, n_classes=2)]
    cal = fc.collect(some, ONE_EDGE).personalise(TWO, ALPHA, certify=0.95)
    assert cal.thresholds.tolist() == [[0.5, 0.5]]
    above = [fc.Site("a", np.full(2000, np.nextafter(0.5, 1)), y, n_classes=2)]
    cal = fc.collect(above, ONE_EDGE).personalise(TWO, ALPHA, certify=0.95)
    assert cal.thresholds.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("epsilon", [None, 8])
def test_several_levels(epsilon):
    sketch = fc.collect(sites(np.random.default_rng(9), np.zeros(2)), privacy=budget(epsilon))
    cal = sketch.personalise([30, 30], [0.1, 0.2], certify=0.95)
    assert "0.9, 0.8" in cal.certificate.statement
    assert (cal.thresholds[0] >= cal.thresholds[1]).all()
    assert (np.ptp(cal.thresholds, axis=1) == 0).all()  # one threshold for all labels
    assert cal.coverage_error is None


def test_refusals():
    rng = np.random.default_rng(10)
    some = sites(rng, ALIKE)
    sketch = fc.collect(some, ONE_EDGE)
    grouped = fc.methods.Sketch(groups=[0, 0])
    for word, refused in {
        "guessed": lambda: sketch.personalise(probabilities=np.full((9, 2), 0.5), certify=0.95),
        "share rows": lambda: fc.collect(some, grouped).personalise(TWO, certify=0.95),
        "positive sum": lambda: sketch.personalise([0, 0], certify=0.95),
        "empty": lambda: sketch.personalise(labels=[], certify=0.95),
        "sums to 10.5": lambda: sketch.personalise([4.5, 6.0], certify=0.95),
        "sums to 0.9": lambda: fc.calibrate(some, targets={"t": [0.4, 0.5]}, certify=0.95),
        "certify is 1": lambda: sketch.personalise(TWO, certify=1.0),
        "certify is 0": lambda: sketch.personalise(TWO, certify=0.0),
        "DP-FedCP": lambda: fc.calibrate(some, method=fc.methods.DPFedCP(), certify=0.95),
        "group of sites": lambda: fc.calibrate(some, targets={"t": ["s0", "s1"]}, certify=0.95),
    }.items():
        with pytest.raises(fc.FedcoverError, match=word):
            refused()
    sketch.personalise([4.5, 6.0])  # without a certificate they are shares


def test_grouped_rows_are_refused_before_anything_is_sent():
    class Never(Engine):
        def run(self, *_):
            raise AssertionError("a query was sent")

    some, grouped = sites(np.random.default_rng(11), ALIKE), fc.methods.Sketch(groups=[0, 0])
    with pytest.raises(fc.FedcoverError, match="share rows"):
        fc.calibrate(some, method=grouped, privacy=budget(8), engine=Never(), certify=0.95)


def test_auto_takes_what_can_be_certified():
    some = sites(np.random.default_rng(12), np.zeros(2))
    cal = fc.calibrate(some, method="auto", targets="s0", certify=0.95)["s0"]
    assert cal.method == "Sketch"
    assert cal.certificate.confidence == pytest.approx(0.95)


def test_own_scores_beside_counts():
    """They are certified alone where that is expected to be better, and never blended in."""
    rng = np.random.default_rng(13)
    sketch = fc.collect(sites(rng, ALIKE, 2, each=20))
    own = rng.random(2000)
    alone = sketch.personalise([5, 5], ALPHA, local_scores=own, certify=0.95)
    assert "alone" in alone.certificate.statement
    assert (own <= alone.thresholds[0, 0]).mean() == pytest.approx(0.911, abs=0.003)
    pooled = sketch.personalise(TWO, ALPHA, local_scores=own, certify=0.95)
    assert "alone" not in pooled.certificate.statement
    assert np.array_equal(
        pooled.thresholds, sketch.personalise(TWO, ALPHA, certify=0.95).thresholds
    )


@pytest.mark.parametrize("epsilon", [None, 8])
def test_the_same_from_a_file_over_the_network_and_in_process(tmp_path, epsilon):
    rng = np.random.default_rng(14)
    some = sites(rng, np.zeros(2), 3)
    sketch = fc.collect(some, privacy=budget(epsilon))
    here = sketch.personalise(some[0], [0.1, 0.2], certify=0.95)
    assert here.thresholds.max() < 1
    facts = {"alphas": [0.1, 0.2], "certify": 0.95}
    known = Known("november", "s0", "sketch", budget(epsilon))
    there = calibration_from(sketch_message(sketch), facts, some[0], known)()
    sketch.save(tmp_path / "sketch.npz")
    later = SketchResult.load(tmp_path / "sketch.npz").personalise(
        some[0], [0.1, 0.2], certify=0.95
    )
    here.save(tmp_path / "cal.json")
    read = fc.Calibration.load(tmp_path / "cal.json")
    for other in (there, later, read):
        assert np.array_equal(other.thresholds, here.thresholds)
        assert np.array_equal(other.distances, here.distances)
        assert vars(other.certificate) == vars(here.certificate)
    if epsilon is None:
        direct = fc.calibrate(some, [0.1, 0.2], targets="s0", certify=0.95)["s0"]
        assert np.array_equal(direct.thresholds, here.thresholds)
        assert vars(direct.certificate) == vars(here.certificate)


@pytest.mark.statistical
@pytest.mark.parametrize("beta", [0.05, 0.5])
@pytest.mark.parametrize("epsilon", [None, 0.5, 2, 8])
@pytest.mark.parametrize("c", [2, 10, 100])
def test_many_draws(c, epsilon, beta):
    """Pools as skewed as targets, labels nearly absent: 400 draws of a known and a counted mix."""
    rng = np.random.default_rng([c, round(10 * (epsilon or 0)), round(100 * beta)])
    skew = np.r_[np.full(c - 1, 0.1 / (c - 1)), 0.9]
    bad = np.r_[np.zeros(c - 1), 1.0]
    share = np.r_[np.full(c - 1, (1 - ALPHA * 1.0001) / (c - 1)), ALPHA * 1.0001]
    cases = [
        (np.full(c, ALPHA * 1.0001), skew, skew[::-1]),
        (bad, share, np.r_[np.full(c - 1, 1 / (c - 1)), 0]),
        (bad, share, np.full(c, 1 / c)),
    ]
    found = {}
    for case, (missed, mix, pool) in enumerate(cases):
        for m in (None, 2, 200):

            def one(missed=missed, mix=mix, pool=pool, m=m):
                some = sites(rng, missed, 3, pool, 4000 if epsilon == 0.5 else 1000)
                sketch = fc.collect(some, ONE_EDGE, budget(epsilon))
                known = mix if m is None else rng.multinomial(m, mix)
                return sketch.personalise(known, ALPHA, certify=1 - beta)

            found[case, m] = kept(one, 400, beta)
    print(f"\nc={c} ε={epsilon} β={beta}: violations of 400 by case and m: {found}")
