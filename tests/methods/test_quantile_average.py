"""Mean of quantiles."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.methods.base import Message
from fedcover.position import TOP

METHOD = fc.methods.QuantileAverage()
quiet = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def test_is_the_size_weighted_mean_of_the_local_thresholds(federation):
    sites = federation(np.random.default_rng(0), n_sites=4, least=20, most=60)
    levels = [0.1, 0.3]
    own = fc.calibrate(sites, levels, fc.methods.Local())
    sizes = [len(s) for s in sites]
    mean = np.average([own[s.name].thresholds for s in sites], axis=0, weights=sizes)
    for cal in fc.calibrate(sites, levels, METHOD).values():
        assert cal.thresholds == pytest.approx(mean, abs=1e-15)
        assert (cal.n_records, cal.cost.rounds) == (sum(sizes), 1)


def test_the_level_is_exact_and_not_a_whole_percentile():
    """⌈.9·30⌉ = 27 of 29: an integer percentile (peers' fault) would give the 26th or 28th."""
    site = fc.Site("a", np.arange(1, 30) / 30, np.zeros(29, int), n_classes=2)
    assert fc.calibrate([site], 0.1, METHOD)["a"].thresholds[0, 0] == 27 / 30


def test_small_sites_count_as_one_with_a_warning():
    small = fc.Site("small", np.full(5, 0.2), np.zeros(5, int), n_classes=2)
    large = fc.Site("large", np.full(15, 0.2), np.zeros(15, int), n_classes=2)
    with pytest.warns(fc.FedcoverWarning, match="1 of 2 sites have fewer than the 9 records"):
        cals = fc.calibrate([small, large], 0.1, METHOD, targets="large")
    assert cals["large"].thresholds[0, 0] == pytest.approx((5 * 1 + 15 * 0.2) / 20)


@quiet
def test_sends_one_number_per_level_and_the_size(spy, federation):
    method = spy(METHOD)
    fc.calibrate(federation(np.random.default_rng(0)), [0.1, 0.2], method)
    for _, _, reply in method.heard:
        assert {k: a.shape for k, a in reply.arrays.items()} == {"quantiles": (2,)}
        assert set(reply.numbers) == {"size"}


@quiet
@pytest.mark.parametrize(
    ("quantiles", "size"),
    [
        ([0.5], 0),
        ([TOP + 1], 0),
        ([-1], 0),
        ([1, 1], 0),
        ([1], 1),
        ([1], 0.5),
        ([1], float("nan")),
        (None, 0),
    ],
)
def test_impossible_replies_are_refused(spy, federation, quantiles, size):
    def lie(name, reply):
        if name != "s1":
            return reply
        arrays = {} if quantiles is None else {"quantiles": np.array(quantiles)}
        return Message(reply.kind, arrays, {"size": reply.numbers["size"] + size})

    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(federation(np.random.default_rng(0)), 0.1, spy(METHOD, lie))


@pytest.mark.parametrize(
    "method",
    [
        METHOD,
        fc.methods.TDigest(),
        fc.methods.QuantileOfQuantiles(),
        fc.methods.ExponentialMechanism(),
    ],
    ids=lambda m: m.label,
)
@quiet
class TestWithoutCorrection:
    def test_label_distributions_are_refused_before_anything_is_sent(self, spy, federation, method):
        heard = spy(method)
        sites = federation(np.random.default_rng(0))
        with pytest.raises(fc.FedcoverError, match="label distribution"):
            fc.calibrate(sites, 0.1, heard, targets={"x": [1, 1, 1, 1]})
        assert heard.heard == []

    def test_sites_and_groups_get_the_same(self, federation, method):
        targets = {"s0": ["s0"], "both": ["s0", "s1"]}
        sites = federation(np.random.default_rng(0), least=30)
        cals = fc.calibrate(sites, [0.3, 0.5], method, targets=targets)
        assert np.array_equal(cals["s0"].thresholds, cals["both"].thresholds)
        assert "nothing under label shift" in cals["both"].guarantee

    def test_no_privacy_is_promised(self, spy, federation, method):
        heard = spy(method)
        sites = federation(np.random.default_rng(0))
        with pytest.raises(fc.FedcoverError, match="privacy"):
            fc.calibrate(sites, 0.1, heard, privacy=fc.Privacy(1, 1e-5))
        assert heard.heard == []

    def test_a_ledger_refuses_the_exact_answer(self, tmp_path, federation, method):
        sites = federation(np.random.default_rng(0), least=30)
        ledger = fc.privacy.Ledger(tmp_path / "s0", create=fc.privacy.Budget(1, 1e-5))
        engine = fc.engines.InProcess(ledgers={"s0": ledger}, run_name="r")
        with pytest.raises(fc.FedcoverError, match="ε = inf"):
            fc.calibrate(sites, 0.3, method, engine=engine)
        assert not ledger.state().answers

    def test_saved_and_loaded(self, tmp_path, federation, method):
        sites = federation(np.random.default_rng(0), least=30)
        cal = fc.calibrate(sites, [0.2, 0.4], method)["s0"]
        cal.save(tmp_path / "c.json")
        again = fc.Calibration.load(tmp_path / "c.json")
        assert np.array_equal(again.thresholds, cal.thresholds)
        assert again.reveals == cal.reveals
