"""Every method on the list: over a network it gives what it gives in process, or says why not."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.remote.policy import SitePolicy
from fedcover.methods import registry
from fedcover.privacy import SeededBytes
from tests.remote.federation import Net, coordinator, made

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

ALPHAS = (0.1, 0.2)
ENTRIES = registry.entries(studies=True)
OVER_A_NETWORK = [e for e in ENTRIES if not e.only_in_studies]
MORE = {"t-digest": [{}, {"per_label": True}], "local": [{}, {"certify": 0.8}]}
CASES = [(e, case) for e in OVER_A_NETWORK for case in MORE.get(e.name, [{}])]


def seeded(engine):
    """The exponential mechanism draws at the server; here from a seed."""
    object.__setattr__(engine, "source", SeededBytes(3))
    return engine


def facts(cal):
    """All that a calibration says but what it cost; arrays as bytes."""
    values = {f.name: getattr(cal, f.name) for f in fields(cal) if f.name != "cost"}
    return {k: v.tobytes() if isinstance(v, np.ndarray) else v for k, v in values.items()}


def run(entry, net, **more):
    """A run as somebody starts it in Python: the result of `calibrate` or `collect`."""
    engine = seeded(coordinator(net, alpha=ALPHAS))
    if entry.name == "sketch":
        return engine, fc.collect(method=fc.methods.Sketch(), engine=engine)
    made_so = {key: value for key, value in more.items() if key != "certify"}
    method = entry.method(**made_so)
    said = {"certify": more["certify"]} if "certify" in more else {}
    return engine, fc.calibrate(None, ALPHAS, method, seed=1, engine=engine, **said)


@pytest.mark.parametrize(("entry", "more"), CASES, ids=[f"{e.name}-{m}" for e, m in CASES])
def test_sites_elsewhere_have_what_they_have_in_process(tmp_path, entry, more):
    net = Net(tmp_path, policy=SitePolicy((entry.name,), exact=True))
    engine, found = run(entry, net, **more)
    certify, options = more.get("certify"), {k: v for k, v in more.items() if k != "certify"}
    wanted = fc.calibrate(
        made(),
        ALPHAS,
        entry.method(**options),
        seed=1,
        certify=certify,
        engine=seeded(fc.engines.InProcess()),
    )
    assert engine.informed == ["s0", "s1", "s2", "s3"]
    assert engine.missing == {}
    here = fc.collect(made()) if entry.name == "sketch" else None
    for site in made():
        own = fc.Calibration.load(net.folder / f"{site.name}.json")
        cal = wanted[site.name]
        assert own.thresholds.tobytes() == cal.thresholds.tobytes()
        assert own.cost.rounds == cal.cost.rounds
        assert facts(own) == facts(cal if here is None else here.personalise(site, ALPHAS))
    if here is not None:
        assert np.array_equal(found.table.table, here.table.table)
    elif entry.name == "local":
        assert found == {}  # nobody but the site itself can make it
    else:
        assert {name: facts(cal) for name, cal in found.items()} == {
            name: facts(cal) for name, cal in wanted.items()
        }


def test_a_site_that_is_alone_sends_nothing_of_its_data(tmp_path):
    net = Net(tmp_path, policy=SitePolicy(("local",), exact=True))
    run(registry.named("local"), net)
    assert {envelope.phase for _, envelope, _ in net.heard} == {"hello", "finish"}
    for _, envelope, reply in net.heard:
        assert fc.engines.remote.envelope.Envelope.of_bytes(reply).payload is None
        assert envelope.payload is None or not envelope.payload.arrays


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.only_in_studies], ids=lambda e: e.name)
def test_what_only_a_study_can_run_is_refused_before_any_message(tmp_path, entry):
    net = Net(tmp_path, policy=SitePolicy((entry.name,), exact=True))
    method = entry.method({s.name: np.ones(3) / 3 for s in made()})
    with pytest.raises(fc.FedcoverError) as found:
        fc.calibrate(None, 0.1, method, engine=coordinator(net))
    assert entry.only_in_studies in str(found.value)
    assert net.heard == []


def test_some_are_for_studies_alone():
    assert [e.name for e in ENTRIES if e.only_in_studies] == ["oracle-weights"]


@pytest.mark.parametrize(
    "entry", [e for e in OVER_A_NETWORK if not e.usual], ids=lambda entry: entry.name
)
def test_what_is_not_usual_runs_only_where_a_policy_names_it(tmp_path, entry):
    """All that send raw scores are among them."""
    net = Net(tmp_path, policy=SitePolicy(exact=True))
    with pytest.raises(fc.FedcoverError, match=r"\(code 'method'\)"):
        run(entry, net)
    assert {envelope.phase for _, envelope, _ in net.heard} == {"hello"}


def test_no_method_that_sends_raw_scores_is_usual():
    assert not [e.name for e in ENTRIES if e.shares_scores and e.usual]
    assert [e.name for e in ENTRIES if e.shares_scores] == [
        "pooled", "estimated-weights", "oracle-weights", "t-digest", "exponential-mechanism",
    ]  # fmt: skip


KEEPS_A_BUDGET = {
    "sketch": lambda engine: fc.collect(privacy=BUDGETED, engine=engine),
    "local": lambda engine: calibrated(fc.methods.Local(), engine),
}
BUDGETED = fc.Privacy(8.0, 1e-5)


def calibrated(method, engine):
    return fc.calibrate(None, 0.1, method, privacy=BUDGETED, engine=engine)


def test_dp_fedcp_under_a_budget_is_the_sketch_and_says_so(tmp_path):
    net = Net(tmp_path, policy=SitePolicy(("dp-fedcp",)))
    with pytest.raises(fc.FedcoverError, match="as which DP-FedCP runs under a budget"):
        calibrated(fc.methods.DPFedCP(), coordinator(net))
    assert net.heard == []
    assert {e.name for e in ENTRIES if e.private} == {"dp-fedcp", *KEEPS_A_BUDGET}


@pytest.mark.parametrize(
    "entry", [e for e in OVER_A_NETWORK if not e.private], ids=lambda entry: entry.name
)
def test_what_keeps_no_budget_refuses_one(tmp_path, entry):
    net = Net(tmp_path, made(sizes=[400] * 4), policy=SitePolicy((entry.name,)))
    with pytest.raises(fc.FedcoverError, match="privacy with method"):
        calibrated(entry.method(), coordinator(net))
    assert not net.asked("ask")


@pytest.mark.parametrize("name", KEEPS_A_BUDGET)
def test_what_keeps_a_budget_stays_within(tmp_path, name):
    net = Net(tmp_path, made(sizes=[400] * 4), policy=SitePolicy((name,)))
    KEEPS_A_BUDGET[name](coordinator(net))
    for site in net.sites.values():
        own = fc.Calibration.load(net.folder / f"{site.name}.json")
        assert own.privacy.epsilon <= BUDGETED.epsilon
