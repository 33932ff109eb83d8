"""Methods take their noise from the source they are given, and as much of it as they are asked for.

Everything here runs on fixed seeds, so it always gives the same answer.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fedcover as fc
from fedcover.engines import InProcess
from fedcover.methods.base import Message, Task
from fedcover.position import positions
from fedcover.privacy.randomness import SYSTEM, SeededBytes
from fedcover.privacy.statement import SEEDED

DPFedCP, Sketch = fc.methods.DPFedCP, fc.methods.Sketch
BINS = (0.0, 0.25, 0.5, 0.75, 1.0)
FALSE_ALARM = 1e-8
"""Of each test of the size of noise, had it fresh bytes."""

NOISY = {
    "label counts": (DPFedCP(count_noise=50.0), None, {"label_counts"}),
    "Algorithm 1": (
        DPFedCP(rounds=3, local_steps=2, step=1e-2, gradient_noise=1.0),
        None,
        {"move", "mean"},
    ),
    "sketch": (Sketch(bins=BINS), fc.Privacy(4.0, 1e-5), {"table", "labels"}),
    "sketch, secure sum": (
        Sketch(bins=BINS, confusion=True),
        fc.Privacy(4.0, 1e-5, view="secure-sum"),
        {"table", "labels", "confusion"},
    ),
    "records of a site": (Sketch(bins=BINS, most_per_site=60), None, {"table"}),
    "exponential mechanism": (fc.methods.ExponentialMechanism(0.5), None, set()),
}
"""Method, budget, and the arrays of a reply that are drawn."""

QUIET = [
    fc.methods.Local(),
    fc.methods.Pooled(),
    fc.methods.EstimatedWeights(),
    fc.methods.OracleWeights(priors={"s0": [1, 1, 1], "s1": [1, 2, 3]}),
    fc.methods.QuantileAverage(),
    fc.methods.QuantileOfQuantiles(),
    fc.methods.TDigest(),
    DPFedCP(),
    Sketch(),
]

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def sites():
    rng = np.random.default_rng(0)
    return [
        fc.Site(f"s{i}", rng.random(n), y := rng.integers(0, 3, n), n_classes=3, predictions=y)
        for i, n in enumerate((300, 200))
    ]


def replies(spy, name, source):
    """Every array that a site sent, by its name, in order; and the thresholds."""
    method, privacy, _ = NOISY[name]
    watched = spy(method)
    task = Task(
        ("s0", "s1"),
        3,
        tuple(a / 20 for a in range(2, 18, 2)),
        (fc.methods.base.Target("s1", ("s1",)),),
        seed=4,
        privacy=privacy,
        sizes=(300, 200),
        source=source,
    )
    given = sites()
    published = InProcess(source=source).run(watched, task, given).published
    sent = {}
    for _, _, reply in watched.heard:
        for key, array in reply.arrays.items():
            sent.setdefault(key, []).append(array.tolist())
    return sent, method.finalise(task, published, task.targets[0], given[1]).positions.tolist()


@pytest.mark.parametrize("name", NOISY)
def test_noise_repeats_under_a_seed_and_only_then(spy, name):
    """A half that took bytes from anywhere else would not repeat itself.

    Fresh noise is the same twice with probability 1e-10 at most.
    """
    first, again, other, fresh, newest = (
        replies(spy, name, source)
        for source in (SeededBytes(1), SeededBytes(1), SeededBytes(2), SYSTEM, SYSTEM)
    )
    assert first == again
    for one, two in ((first, other), (fresh, newest)):
        for key in NOISY[name][2]:
            assert one[0][key] != two[0][key]
        assert one != two


@pytest.mark.parametrize("method", QUIET, ids=lambda m: m.label)
def test_a_source_changes_nothing_where_there_is_no_noise(method):
    plain, seeded = (
        fc.calibrate(sites(), 0.2, method, engine=engine, seed=3)["s1"]
        for engine in (None, InProcess(source=SeededBytes(1)))
    )
    assert plain.thresholds.tobytes() == seeded.thresholds.tobytes()
    assert (plain.guarantee, plain.notes) == (seeded.guarantee, seeded.notes)


def test_the_exponential_mechanism_says_that_a_seed_voids_its_privacy():
    method = fc.methods.ExponentialMechanism()
    plain, seeded = (
        fc.calibrate(sites(), 0.2, method, engine=engine)["s1"].notes
        for engine in (InProcess(), InProcess(source=SeededBytes(1)))
    )
    assert not any(SEEDED in note for note in plain)
    assert any(SEEDED in note for note in seeded)


@pytest.mark.parametrize("view", ["server", "secure-sum"])
def test_what_a_seed_made_claims_no_privacy(view, tmp_path):
    """Nor after it was saved, loaded and renewed with real noise."""
    privacy, seeded = fc.Privacy(8.0, 1e-5, view=view), InProcess(source=SeededBytes(1))
    for method in (DPFedCP(), Sketch()):
        cal = fc.calibrate(sites(), 0.2, method, privacy=privacy, engine=seeded)["s1"]
        assert SEEDED in cal.guarantee
        assert SEEDED in cal.privacy.effect
        assert SEEDED[1:] in cal.reveals
        real = fc.calibrate(sites(), 0.2, method, privacy=privacy)["s1"]
        assert SEEDED[1:] not in real.guarantee + real.reveals
        assert (real.privacy.epsilon, real.privacy.events) == (
            cal.privacy.epsilon,
            cal.privacy.events,
        )
    sketch = fc.collect(sites(), privacy=privacy, engine=seeded)
    sketch.save(tmp_path / "sketch.fedcover")
    renewed = fc.collect(
        sites(), privacy=privacy, previous=fc.SketchResult.load(tmp_path / "sketch.fedcover")
    )
    assert SEEDED in renewed.privacy.effect
    assert SEEDED[1:] in renewed.personalise(sites()[0], 0.2).reveals


def assert_deviation(drawn, sigma):
    """χ² of the squares. With 4000 numbers, nine tenths of σ would be 8.5 deviations away."""
    drawn = np.ravel(drawn)
    assert len(drawn) >= 4000
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(drawn))
    assert low <= float(drawn @ drawn) / sigma**2 <= high


def test_label_counts_have_the_noise_that_the_option_names():
    """Counts of 1000 and more, so that the least count of 1 cuts nothing off."""
    counts = 1000 + np.arange(4000)
    site = fc.Site("a", [0.5], [0], n_classes=4000, label_counts=counts)
    method = DPFedCP(count_noise=50.0)
    query = next(method.server(Task(("a",), 4000, (0.1,))))["a"]
    reply = method.answer(query, site, SeededBytes(0))
    assert_deviation(reply.arrays["label_counts"] - counts, 50.0)


def test_gradients_have_the_noise_that_the_option_names():
    """One step of 1/2 from the same start, with the noise and without."""
    site = fc.Site("a", [0.5], [0], n_classes=4000)
    arrays = {
        "ratios": np.ones((1, 4000)),
        "q": np.full((1, 1, 4000), 0.3),
        "alphas": np.array([0.1]),
    }
    numbers = {"local_steps": 1, "step": 0.5, "gamma": 1e-6, "share": 1.0, "size": 1, "seed": 0}
    noisy, plain = (
        DPFedCP()
        .answer(Message("steps", arrays, {**numbers, "noise": sigma}), site, SeededBytes(0))
        .arrays["move"]
        for sigma in (7.0, 0.0)
    )
    assert_deviation(noisy - plain, 7.0 * 0.5)


@pytest.mark.parametrize("array", ["table", "labels", "confusion"])
def test_a_sketch_has_the_noise_that_the_query_names(array):
    """Each array has a deviation of its own, so that none can stand in for another."""
    classes = {"table": 1000, "labels": 4000, "confusion": 70}[array]
    sigmas = {"table": 300.0, "labels": 500.0, "confusion": 700.0}
    site = fc.Site("a", [0.5], [0], n_classes=classes, predictions=[1])
    arrays = {"cuts": positions([0.25, 0.5, 0.75]), "rows": np.arange(classes)}
    numbers = {"factored": 1, "scale": 64, "confusion": int(array == "confusion"), "most": 0}

    def sent(factor):
        noise = {f"{key.rstrip('s')}_sigma": factor * s for key, s in sigmas.items()}
        query = Message("sketch", arrays, {**numbers, **noise})
        return Sketch().answer(query, site, SeededBytes(0)).arrays[array]

    assert_deviation(sent(1.0) - sent(0.0), sigmas[array])
