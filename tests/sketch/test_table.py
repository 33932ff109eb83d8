"""Tables add up exactly and in any order; what does not belong together is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.methods.sketch import factor
from fedcover.methods.sketch.table import Layout, SketchTable, checked_cuts
from fedcover.privacy import GaussianRelease, epsilon
from fedcover.privacy.statement import PrivacyStatement

from .building import FOUR, LEVELS, SKETCH, budget, even, powers, table_of

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

LAYOUT = Layout(3, checked_cuts((0, 0.5, 1)))
variances = st.floats(1e-6, 1e6)


@st.composite
def tables(draw, name):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    noisy, pairs = draw(st.booleans()), draw(st.integers(0, 3)) > 0
    return SketchTable(
        layout=LAYOUT,
        table=rng.integers(-(10**6), 10**9, (3, 2)),
        labels=rng.integers(-(10**6), 10**9, 3),
        scale=draw(st.sampled_from([1, 64, 128, 4096, 3])),
        table_noise=(draw(variances),) if noisy else (),
        label_noise=(draw(variances),) if noisy else (),
        confusion=rng.integers(-(10**6), 10**9, (3, 3)) if pairs else None,
        confusion_noise=(draw(variances),) if pairs and noisy else (),
        records=draw(st.one_of(st.none(), st.integers(1, 10**6))),
        sites=tuple(f"{name}{i}" for i in range(draw(st.integers(1, 3)))),
    )


def facts(table):
    """All that a table says, in values that compare exactly."""
    return (
        table.layout,
        table.table.tolist(),
        table.labels.tolist(),
        table.scale,
        table.table_noise,
        table.label_noise,
        table.table_sd,
        table.label_sd,
        table.records,
        table.sites,
        None if table.confusion is None else table.confusion.tolist(),
        table.confusion_noise,
    )


@given(tables("a"), tables("b"), tables("c"))
def test_adding_is_exact_and_the_same_in_any_order(a, b, c):
    sums = [(a + b) + c, a + (b + c), (c + a) + b, c + (b + a)]
    assert len({repr(facts(s)) for s in sums}) == 1
    (total,) = sums[:1]
    for key in ("table", "labels"):
        for at in np.ndindex(getattr(a, key).shape):
            wanted = sum(Fraction(int(getattr(t, key)[at]), t.scale) for t in (a, b, c))
            assert Fraction(int(getattr(total, key)[at]), total.scale) == wanted
    for key in ("table_noise", "label_noise"):
        assert sorted(getattr(total, key)) == sorted(x for t in (a, b, c) for x in getattr(t, key))
    pairs = [t.confusion for t in (a, b, c)]
    if any(p is None for p in pairs):
        assert total.confusion is None  # a matrix of a part would be taken for one of all
        assert total.confusion_noise == ()
    else:
        for at in np.ndindex(3, 3):
            wanted = sum(Fraction(int(t.confusion[at]), t.scale) for t in (a, b, c))
            assert Fraction(int(total.confusion[at]), total.scale) == wanted
    assert total.sites == tuple(sorted(a.sites + b.sites + c.sites))
    known = [t.records for t in (a, b, c)]
    assert total.records == (None if None in known else sum(known))


def test_a_sum_of_sketches_is_the_sketch_of_all_sites(federation):
    sites = federation(np.random.default_rng(1), n_sites=5, least=5)
    whole = fc.collect(sites)
    parts = fc.collect(sites[:2]) + fc.collect(sites[4:]) + fc.collect(sites[2:4])
    assert facts(whole.table) == facts(parts.table)
    for site in sites:
        one, two = (s.personalise(site.label_counts, LEVELS) for s in (whole, parts))
        assert one.thresholds.tobytes() == two.thresholds.tobytes()
        assert (one.n_sites, one.n_records) == (two.n_sites, two.n_records)


def statement(sigma, scale=1.0, delta=1e-5, **more):
    events = (GaussianRelease("label × score table", sigma * scale, scale),)
    return PrivacyStatement(epsilon(events, delta), delta, events=events, **more)


@given(st.data())
def test_statements_add_in_any_order_and_none_is_made_stronger(data):
    """A record is in one of the collections: the weakest promise holds for all of them."""
    sketch = fc.collect(powers(np.random.default_rng(0), [5], np.ones(3)), SKETCH(bins=FOUR))
    made = []
    for name in "abc":
        said = statement(
            data.draw(st.sampled_from([1.0, 2.0, 4.0])),
            data.draw(st.sampled_from([64.0, 128.0])),
            data.draw(st.sampled_from([1e-5, 1e-6])),
            public=data.draw(st.sampled_from([(), ("x",), ("y",)])),
        )
        table = replace(sketch.table, sites=(name,))
        made.append(replace(sketch, table=table, privacy=said))
    a, b, c = made
    sums = [s.privacy for s in ((a + b) + c, a + (b + c), (c + b) + a)]
    assert sums[0] == sums[1] == sums[2]
    delta = max(s.privacy.delta for s in made)
    worst = max(epsilon(s.privacy.events, delta) for s in made)
    assert (sums[0].epsilon, sums[0].delta) == (worst, delta)
    assert sums[0].epsilon == epsilon(sums[0].events, delta)
    assert set(sums[0].public) == {fact for s in made for fact in s.privacy.public}


@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize("first", [2, 60], ids=["equal scales", "different scales"])
def test_a_site_that_joins_later_is_added(first, late):
    """With the same budget; many shares need a larger scale than a few."""
    sites = powers(np.random.default_rng(0), [40] * first, [0.8, 1, 1.2, 1.5])
    early = fc.collect(sites, SKETCH(bins=FOUR), budget(100.0))
    more = powers(np.random.default_rng(1), [300] * late, [0.8, 1, 1.2, 1.5], name="late")
    other = fc.collect(more, method=early.method, privacy=budget(100.0))
    assert (early.table.scale != other.table.scale) == (first == 60)
    both = early + other
    assert both.sites == tuple(sorted(s.name for s in (*sites, *more)))
    assert both.n_records == 40 * first + 300 * late
    assert both.privacy.epsilon == pytest.approx(100.0)
    assert both.table.table_sd == pytest.approx(
        np.hypot(early.table.table_sd, other.table.table_sd)
    )
    assert both.personalise([1, 1, 1, 1]).n_sites == first + late


def test_a_method_repeats_the_layout_of_its_sketch(federation):
    sites = federation(np.random.default_rng(0), n_classes=6, least=300, most=400)
    for method in (
        SKETCH(),
        SKETCH(bins=70),
        SKETCH(bins=[0, 0.3, 1]),
        SKETCH(groups=list("babbcc"), bins=FOUR),
        SKETCH(most_per_site=20),
        SKETCH(confusion=True),
    ):
        for privacy in (None, budget(400.0)):
            given = sites if not method.confusion else with_predictions(sites)
            sketch = fc.collect(given, method, privacy)
            again = fc.collect(given, sketch.method, privacy)
            assert again.table.layout == sketch.table.layout
            assert again.method == sketch.method
            assert (again.table.confusion is None) == (not method.confusion)


def with_predictions(sites):
    return [
        fc.Site(s.name, s.scores, s.labels, n_classes=s.n_classes, predictions=s.labels)
        for s in sites
    ]


@pytest.fixture(scope="module")
def strangers():
    """A sketch, and ones that do not belong to it, with what the error must name."""
    one, two = (powers(np.random.default_rng(k), [300], np.ones(3), name=f"{k}-") for k in range(2))
    base = fc.collect(one, SKETCH(bins=FOUR))
    private = fc.collect(one, SKETCH(bins=FOUR), budget(100.0))
    limited = replace(private.method, most_per_site=9)

    def like(**more):
        return [fc.Site(s.name, s.scores, s.labels, n_classes=3, **more) for s in two]

    def other(options, sites=two):
        return base, fc.collect(sites, SKETCH(**{"bins": FOUR, **options}))

    def promise(method=private.method, **more):
        return private, fc.collect(two, method, budget(100.0, **more))

    unit = [
        fc.collect(s, limited, budget(100.0, unit=u)) for s, u in ((one, "record"), (two, "site"))
    ]
    return {
        "bins": (*other({"bins": even(5)}), "bins"),
        "edges": (*other({"bins": [0, 0.2, 0.4, 0.8, 1]}), "bins"),
        "groups": (*other({"groups": [0, 0, 1]}), "groups"),
        "classes": (*other({}, powers(np.random.default_rng(2), [9], np.ones(4))), "classes"),
        "same site": (*other({}, one), "in both"),
        "score": (*other({}, like(score=fc.scores.LAC())), "score"),
        "temperature": (*other({}, like(temperature=2.0)), "temperature"),
        "names": (
            replace(base, label_names=("x", "y", "z")),
            other({}, like(label_names=list("abc")))[1],
            "label_names",
        ),
        "no privacy": (private, fc.collect(two, private.method), "no privacy"),
        "relation": (*promise(relation="add-remove"), "relation"),
        "view": (*promise(view="server"), "view"),
        "unit": (*unit, "unit"),
        "limit": (*promise(limited), "most_per_site"),
    }  # fmt: skip


STRANGERS = [
    "bins", "edges", "groups", "classes", "same site", "score", "temperature", "names",
    "no privacy", "relation", "view", "unit", "limit",
]  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize("name", STRANGERS)
def test_what_does_not_belong_together_is_refused(strangers, name, swapped):
    one, two, word = strangers[name]
    with pytest.raises(fc.FedcoverError, match=word):
        _ = two + one if swapped else one + two


def test_names_of_classes_that_one_sketch_knows_are_kept():
    one, two = (powers(np.random.default_rng(k), [30], np.ones(3), name=f"{k}-") for k in range(2))
    named = [fc.Site("n", s.scores, s.labels, n_classes=3, label_names=list("abc")) for s in two]
    a, b = fc.collect(one, SKETCH(bins=FOUR)), fc.collect(named, SKETCH(bins=FOUR))
    assert (a + b).label_names == (b + a).label_names == ("a", "b", "c")


def test_only_sketches_add():
    sketch = fc.collect(powers(np.random.default_rng(0), [30], np.ones(3)))
    for other in (1, "a", None, sketch.table):
        with pytest.raises(TypeError):
            _ = sketch + other


# ---------------------------------------------------------------- misses


def test_without_noise_misses_and_cells_are_counts():
    counts = np.array([[0, 3, 1, 2], [5, 0, 0, 1]])
    for table in (table_of(counts), table_of(counts, (0.0, 0.0))):
        assert table.exact
        assert table.misses == pytest.approx(np.cumsum(counts, axis=1), abs=1e-9)
        assert table.cells == pytest.approx(counts, abs=1e-9)
        assert (table.miss_deviation() == 0).all()
        assert table.cell_deviation == 0
    assert table_of(counts).misses.tolist() == np.cumsum(counts, axis=1).tolist()


def test_misses_are_unbiased_raw_sums():
    """Empty rows, rows of few records and full ones, under noise as large as they are.

    800 draws; means of all 96 sums and counts within 6 standard errors: false alarms below 2e-7.
    And sums do fall: nothing was made monotone, or clipped at 0, which would bias them.
    """
    rng, bins, draws = np.random.default_rng(0), 16, 800
    counts = np.stack([np.zeros(bins, int), rng.integers(0, 2, bins), rng.integers(0, 9, bins)])
    clean = table_of(counts, (5.0 * factor.UNIT, 1.0))
    noise = np.rint(rng.normal(0, 5 * factor.UNIT, (draws, 3, bins))).astype(int)
    tables = [replace(clean, table=clean.table + z) for z in noise]
    for key, sd in (("misses", clean.miss_deviation()), ("cells", clean.cell_deviation)):
        values = np.stack([getattr(t, key) for t in tables])
        off = (values.mean(axis=0) - getattr(clean, key)) / (sd / np.sqrt(draws))
        assert np.abs(off).max() < 6
        assert values[:, 0].min() < 0
    falls = [(np.diff(t.misses[0]) < 0).any() for t in tables]
    assert np.mean(falls) > 0.9


def test_stated_deviations_of_misses_grow_with_all_noise_that_went_in():
    one, two = (fc.collect(powers(np.random.default_rng(k), [3000], np.ones(3), name=f"{k}-"),
                           SKETCH(bins=FOUR), budget(4.0)) for k in range(2))  # fmt: skip
    both = (one + two).table
    for at in (0, 3):
        parts = [s.table.miss_deviation()[at] for s in (one, two)]
        assert both.miss_deviation()[at] == pytest.approx(np.hypot(*parts))
    assert both.cell_deviation > one.table.cell_deviation > 0
