"""How often an honest run is refused for the coverage of own records: never more than stated.

A refusal has a chance of 10⁻⁶, which no test of this size can see. So the chance that a site works
out is tested where it can be: it must be below p in at most a share p of honest worlds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import fedcover as fc
from fedcover.diagnostics import coverage_tails
from fedcover.engines.remote import own_records
from fedcover.position import positions
from fedcover.privacy import SeededBytes

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

ALPHA = 0.1
PARTS = (0.01, 0.05)

FALSE_ALARMS = 1e-6
"""How often each test below fails though all is well."""


def world(rng, spread, sizes, classes=4, separate=False):
    """Sites whose records of one label are alike, with label mixes that differ."""
    sites = []
    for k, size in enumerate(sizes):
        mix = rng.dirichlet(np.full(classes, spread))
        labels = rng.choice(classes, size, p=mix)
        scores = rng.beta(1 + labels, 3)
        more = {"label_counts": rng.multinomial(400, mix)} if separate else {}
        sites.append(fc.Site(f"s{k}", scores, labels, n_classes=classes, **more))
    return sites


def chance(cal, site, error):
    """The chance of coverage as bad as that of own records, as `check_coverage` has it."""
    limits = positions(cal.thresholds, cal.distances)[0, site.labels]
    hits = int((site.positions <= limits).sum())
    stated = 0.0 if error is None else float(error[0])
    worth = own_records.worth_of(site, ALPHA, stated, False)
    return coverage_tails(hits, len(site), ALPHA, worth)[0]


def not_too_often(chances):
    """Whether small chances are as rare as they say, but for chance of this test itself."""
    for part in PARTS:
        low = int((np.array(chances) < part).sum())
        assert low <= binom.ppf(1 - FALSE_ALARMS / len(PARTS), len(chances), part)
    assert min(chances) > own_records.FALSE_ALARMS


def exact_chances(worlds, separate, method):
    out = []
    for k in range(worlds):
        rng = np.random.default_rng([k, separate])
        sites = world(rng, rng.choice([0.3, 1, 10]), rng.integers(20, 150, 4), separate=separate)
        cals = fc.calibrate(sites, ALPHA, method, seed=k)
        site = sites[int(rng.integers(4))]  # one of each world: those of one are not independent
        out.append(chance(cals[site.name], site, cals[site.name].coverage_error))
    return out


@pytest.mark.parametrize("separate", [False, True], ids=["counted here", "counted elsewhere"])
@pytest.mark.parametrize("method", [fc.methods.EstimatedWeights(), fc.methods.Sketch()])
def test_honest_runs_without_noise(method, separate):
    not_too_often(exact_chances(400, separate, method))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_honest_runs_with_noise(epsilon):
    out, privacy = [], fc.Privacy(epsilon, 1e-5, relation="add-remove", view="secure-sum")
    for k in range(60):
        rng = np.random.default_rng([k, round(epsilon)])
        sites = world(rng, rng.choice([0.3, 1, 10]), rng.integers(300, 1500, 5))
        engine = fc.engines.InProcess(source=SeededBytes(k, 0))
        sketch = fc.collect(sites, privacy=privacy, engine=engine)
        site = sites[int(rng.integers(5))]
        cal = sketch.personalise(site, ALPHA)
        out.append(chance(cal, site, cal.coverage_error))
        own_records.check_table(sketch, site)
    not_too_often(out)


@pytest.mark.parametrize("n", [20, 100, 2000])
def test_a_site_that_is_the_whole_federation_covers_what_it_says(n):
    rng = np.random.default_rng(n)
    (site,) = world(rng, 1, [n])
    cal = fc.calibrate([site], ALPHA)["s0"]
    own_records.check_coverage(cal, site, None)
    assert chance(cal, site, None) > 0.3


def test_what_makes_the_coverage_less_known():
    """More stated error, fewer own records, a mix counted elsewhere: each says less."""
    rng = np.random.default_rng(0)
    (site,) = world(rng, 10, [400])
    whole = own_records.worth_of(site, ALPHA, 0.0, False)
    assert whole == pytest.approx(398)
    assert own_records.worth_of(site, ALPHA, 0.05, False) < whole / 4
    assert own_records.worth_of(site, ALPHA, 0.0, True) == pytest.approx(98)
    assert own_records.worth_of(site, ALPHA, 10.0, False) == 1
    (apart,) = world(rng, 10, [400], separate=True)
    assert own_records.worth_of(apart, ALPHA, 0.0, False) < whole / 1.9
    none = fc.Site("s0", [0.1, 0.2], [0, 0], n_classes=2, label_counts=[1, 9])
    assert own_records.worth_of(none, ALPHA, 0.0, False) == 1


@pytest.mark.parametrize(("hits", "refused"), [(150, False), (120, True), (60, True), (0, True)])
def test_where_a_refusal_begins(hits, refused):
    """Of 200 records at α = .1: a beta-binomial of 198 is below 10⁻⁶ under about 142."""
    scores = np.arange(200) / 200
    site = fc.Site("s0", scores, np.zeros(200, int), n_classes=2)
    cal = fc.calibrate([site], ALPHA)["s0"]
    at = np.full((1, 2), (hits - 0.5) / 200 if hits else 0.0)
    scores = scores + 1e-9
    site = fc.Site("s0", scores, np.zeros(200, int), n_classes=2)
    told = replace(cal, thresholds=at, distances=1 - at)
    if refused:
        with pytest.raises(fc.FedcoverError, match="of this site's 200 records"):
            own_records.check_coverage(told, site, None)
    else:
        own_records.check_coverage(told, site, None)
    if hits == 120:  # an error that is stated excuses it
        own_records.check_coverage(told, site, np.array([0.1]))
