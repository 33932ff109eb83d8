"""A method from outside the package, in process and with sites that are elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.remote.policy import SitePolicy
from fedcover.methods import registry
from fedcover.privacy import SeededBytes
from fedcover.privacy.ledger import Ledger
from tests.remote.federation import BUDGET, SERVER_VIEW, SUMS, Net, coordinator, made

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

ALPHAS = (0.1, 0.2)


def known(name, **more):
    return SitePolicy((name,), exact=True, **more)


def of_sites(net):
    return {s.name: fc.Calibration.load(net.folder / f"{s.name}.json") for s in net.sites.values()}


def test_in_process_it_does_what_it_says(outside):
    sites = made()
    alone = fc.calibrate(sites, ALPHAS, fc.methods.Local())
    wanted = np.sort([cal.thresholds for cal in alone.values()], axis=0)
    for rank in (1, 3):
        cals = fc.calibrate(sites, ALPHAS, outside.LargeQuantile(rank))
        for cal in cals.values():
            assert np.array_equal(cal.thresholds, wanted[-rank])
            assert cal.options == {"rank": rank}


def test_a_histogram_without_noise_is_a_bin_above_the_quantile_at_most(outside):
    sites = made(sizes=[200] * 4)
    cal = fc.calibrate(sites, ALPHAS, outside.CoarseHistogram(64))["s0"]
    exact = fc.calibrate(sites, ALPHAS, fc.methods.Pooled())["s0"]
    assert (cal.thresholds >= exact.thresholds).all()
    assert (cal.thresholds < exact.thresholds + 1 / 64).all()


@pytest.mark.parametrize("method", ["LargeQuantile", "CoarseHistogram"])
def test_sites_elsewhere_make_what_the_in_process_engine_makes(outside, tmp_path, method):
    method = getattr(outside, method)()
    net = Net(tmp_path, policy=known(registry.entry_of(method).name))
    found = fc.calibrate(None, ALPHAS, method, engine=coordinator(net))
    wanted = fc.calibrate(made(), ALPHAS, method)
    for cals in (found, of_sites(net)):
        assert set(cals) == set(wanted)
        for name, cal in cals.items():
            assert cal.thresholds.tobytes() == wanted[name].thresholds.tobytes()
            assert cal.distances.tobytes() == wanted[name].distances.tobytes()
            assert (cal.guarantee, cal.notes) == (wanted[name].guarantee, wanted[name].notes)
            assert (cal.method, cal.options) == (wanted[name].method, wanted[name].options)


@pytest.mark.parametrize("privacy", [SERVER_VIEW, SUMS])
def test_its_epsilon_is_stated(outside, tmp_path, privacy):
    net = Net(tmp_path, budget=BUDGET)  # its policy is the usual one
    method, engine = outside.CoarseHistogram(8), coordinator(net)
    found = fc.calibrate(None, ALPHAS, method, privacy=privacy, engine=engine)
    assert engine.informed == ["s0", "s1", "s2", "s3"]
    assert bool(net.asked("unmask")) == privacy.secure_sum
    for cal in (*found.values(), *of_sites(net).values()):
        assert cal.privacy.epsilon == pytest.approx(privacy.epsilon, abs=1e-6)
        assert cal.privacy.view == privacy.view
        assert np.array_equal(cal.thresholds, found["s0"].thresholds)


@pytest.mark.parametrize("privacy", [SERVER_VIEW, SUMS])
def test_its_epsilon_is_charged_once(outside, tmp_path, privacy):
    net, method = Net(tmp_path, budget=BUDGET), outside.CoarseHistogram(8)
    found = fc.calibrate(None, ALPHAS, method, privacy=privacy, engine=coordinator(net))
    before = net.heads()
    for path in net.ledgers.values():
        assert Ledger(path).state().spent == pytest.approx(privacy.epsilon, abs=1e-6)
    again = fc.calibrate(None, ALPHAS, method, privacy=privacy, engine=coordinator(net))
    assert net.heads() == before
    assert np.array_equal(again["s0"].thresholds, found["s0"].thresholds)


def test_less_noise_than_announced_is_refused_by_what_the_method_charges(outside, tmp_path):
    class Loud(outside.CoarseHistogram):
        """Asks for a tenth of the noise."""

        def server(self, task):
            asked = next(inner := super().server(task))
            for name, query in asked.queries.items():
                less = {**query.numbers, "sigma": query.numbers["sigma"] / 10}
                asked.queries[name] = fc.methods.base.Message(query.kind, {}, less)
            return inner.send((yield asked))

    for budget, code in ((None, "privacy"), (BUDGET, "budget")):
        net = Net(tmp_path / code, budget=budget)
        with pytest.raises(fc.FedcoverError, match=rf"code '{code}'"):
            fc.calibrate(None, 0.1, Loud(8), privacy=SERVER_VIEW, engine=coordinator(net))
        assert set(net.answers().values()) <= {0}


def test_a_site_takes_part_where_its_policy_says_so(outside, tmp_path):
    assert "coarse-histogram" in SitePolicy().methods
    assert "large-quantile" not in SitePolicy().methods
    net = Net(tmp_path, policy=SitePolicy(exact=True))
    with pytest.raises(fc.FedcoverError, match=r"\(code 'method'\)"):
        fc.calibrate(None, 0.1, outside.LargeQuantile(), engine=coordinator(net))
    assert not net.asked("ask")
    fc.calibrate(None, 0.1, outside.CoarseHistogram(), engine=coordinator(net))


def test_a_site_that_does_not_know_the_method_refuses_it(outside, tmp_path):
    """The server has registered it, the site has not."""
    net = Net(tmp_path, policy=SitePolicy(exact=True))
    entry = outside.COARSE

    def elsewhere(name, envelope, answer):
        fc.methods.unregister(entry.name)
        net.policy = SitePolicy(exact=True)
        try:
            return answer()
        finally:
            fc.methods.register(entry)

    net.fault = elsewhere
    with pytest.raises(fc.FedcoverError, match=r"\(code 'method'\)"):
        fc.calibrate(None, 0.1, outside.CoarseHistogram(), engine=coordinator(net))


def test_a_method_that_nobody_registered_is_refused_before_any_message(tmp_path):
    from tests.methods.outside import LargeQuantile

    net = Net(tmp_path)
    with pytest.raises(fc.FedcoverError, match="method Large quantile is not registered"):
        fc.calibrate(None, 0.1, LargeQuantile(), engine=coordinator(net))
    assert net.heard == []


def test_in_a_study_its_noise_may_come_from_a_seed(outside):
    def run():
        engine = fc.engines.InProcess(source=SeededBytes(5))
        method = outside.CoarseHistogram(8)
        return fc.calibrate(made(), 0.1, method, privacy=SERVER_VIEW, engine=engine)["s0"]

    assert np.array_equal(run().thresholds, run().thresholds)
    assert "came from a seed" in run().privacy.effect
