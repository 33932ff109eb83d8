"""What a site refuses whatever a server says, and that a refusal costs nobody anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.policy import SitePolicy
from fedcover.methods.base import SumRound, Target
from fedcover.privacy import Budget
from fedcover.privacy.ledger import Ledger
from fedcover.wire import Message
from tests.remote.federation import (
    BUDGET,
    OPEN,
    SERVER_VIEW,
    SKETCH,
    SUMS,
    Net,
    Server,
    made,
    same,
)

PRIVATE = {"epsilon": 2.0, "delta": 1e-5, "unit": "record", "relation": "replace"}
EXACT_COUNTS = Message("counts", numbers={"count_noise": 0.0})


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path, budget=BUDGET)


def tell(net, phase, run="r", number=0, header=None, payload=None):
    """The reply of s0 to an envelope of somebody."""
    return Envelope.of_bytes(
        net.node(0).handle(Envelope(phase, run, number, header or {}, payload).to_bytes())
    )


def hello(net, method="sketch", privacy=PRIVATE, run="r", view="server"):
    said = None if privacy is None else {**privacy, "view": view}
    return tell(net, "hello", run, 0, {"method": method, "privacy": said})


def code(reply):
    assert reply.phase == "refused"
    assert set(reply.header) == {"code", "of"}
    assert reply.payload is None
    return reply.header["code"]


def question(privacy, method=SKETCH, min_survivors=4):
    """The first query of a run of four sites."""
    sites = tuple(f"s{k}" for k in range(4))
    targets = tuple(Target(name, (name,)) for name in sites)
    task = fc.methods.base.Task(
        sites, 3, (0.1,), targets, 0, privacy, None, (40, 50, 60, 70), min_survivors
    )
    asked = next(method.server(task))
    queries = asked.queries if isinstance(asked, SumRound) else asked
    return queries["s0"]


@pytest.mark.parametrize("method", ["pooled", "estimated-weights", "tdigest", "", None, ["sketch"]])
def test_methods_that_are_not_allowed_are_refused_at_hello(net, method):
    assert code(hello(net, method)) == "method"
    assert code(tell(net, "ask", payload=question(SERVER_VIEW))) == "hello"
    assert net.answers()["s0"] == 0


def test_a_method_that_is_not_allowed_ends_the_run(net):
    with pytest.raises(fc.FedcoverError, match=r"'node 0' .*\(code 'method'\)"):
        Server(net, fc.methods.Pooled(), None).go()


@pytest.mark.parametrize("budget", [None, BUDGET])
@pytest.mark.parametrize("exact", [True, False])
def test_a_run_without_a_budget_needs_exact_and_no_ledger(tmp_path, budget, exact):
    net = Net(tmp_path, budget=budget, policy=replace(OPEN, exact=exact))
    reply = hello(net, "dp-fedcp", privacy=None)
    if exact and budget is None:
        assert reply.header["records"] == 40
        assert tell(net, "ask", payload=EXACT_COUNTS).payload.arrays["label_counts"].sum() == 40
    else:
        assert code(reply) == "privacy"
        assert code(tell(net, "ask", payload=EXACT_COUNTS)) == "hello"


def test_exact_queries_in_a_run_that_said_it_was_private_are_charged_as_what_they_are(net):
    """ε = ∞, which fits into no budget."""
    hello(net, "dp-fedcp")
    found = {code(tell(net, "ask", number=k, payload=q)) for k, q in enumerate(exact_queries())}
    assert found == {"budget"}
    assert net.answers()["s0"] == 0


def exact_queries():
    yield EXACT_COUNTS
    yield Message("counts", numbers={"count_noise": 1e4})  # noise alone is no account
    cuts, weights = np.array([1, 2]), np.ones((1, 3))
    yield Message("mass", {"queries": cuts, "weights": weights}, {"seed": 0})


def test_private_dp_fedcp_of_old_is_asked_for_in_vain(net):
    """Its two queries are gone; what runs under a budget is the sketch, by its own name."""
    hello(net, "dp-fedcp")
    for number, name in enumerate(("private-counts", "private-histogram")):
        asked = Message(name, numbers={"sigma": 1e5, "size": 1})
        assert code(tell(net, "ask", number=number, payload=asked)) == "query"
    assert code(tell(net, "ask", number=2, payload=question(SERVER_VIEW))) == "query"
    assert net.answers()["s0"] == 0


@pytest.mark.parametrize("change", [{}, {"delta": 0.5}, {"epsilon": 0.01}, {"epsilon": 1e300}])
def test_a_site_without_a_ledger_answers_no_run_whatever_it_announces(tmp_path, change):
    """It would add up nothing: 400 runs of ε = 1 would each be within what was announced."""
    net = Net(tmp_path, budget=None)
    for k in range(3):
        assert code(hello(net, privacy={**PRIVATE, **change}, run=f"r{k}")) == "privacy"
        assert code(tell(net, "ask", f"r{k}", payload=question(SERVER_VIEW))) == "hello"
    assert "Make a ledger: fedcover ledger set-budget FILE --create" in net.log("s0")
    Server(Net(tmp_path / "exact", policy=OPEN), privacy=SERVER_VIEW).go()  # they may do as before


def test_a_hello_of_the_days_when_there_was_a_ledger_is_worth_nothing(net):
    hello(net)
    net.ledgers.clear()
    assert code(tell(net, "ask", payload=question(SERVER_VIEW))) == "privacy"


def test_a_letter_that_is_repeated_gets_the_same_noise_without_a_ledger_too(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    for view in ("server", "secure-sum"):
        hello(net, run=view, view=view)
        asked = question(SERVER_VIEW)
        tables = [tell(net, "ask", view, payload=asked).payload.arrays["table"] for _ in range(5)]
        assert all(np.array_equal(tables[0], table) for table in tables)
        less = Message(asked.kind, asked.arrays, {**asked.numbers, "table_sigma": 1.0})
        assert code(tell(net, "ask", view, payload=less)) == "query"
        other = tell(net, "ask", view, number=1, payload=asked).payload.arrays["table"]
        assert not np.array_equal(tables[0], other)
    assert not net.ledgers


def test_a_ledger_whose_delta_is_too_large_for_the_records_is_refused_at_the_start(tmp_path):
    net = Net(tmp_path, budget=Budget(2.0, 0.0025))  # 1/(10 n) of the 40 records of s0
    assert hello(net).phase == "hello"
    with pytest.raises(fc.FedcoverError, match=r"delta is 0.0025, for 50 .*10 n\) = 0.002"):
        net.node(1)
    Ledger(net.ledgers["s1"]).set_budget(delta=0.002)
    net.node(1)


@pytest.mark.parametrize("first", [PRIVATE, None])
def test_saying_hello_again_without_a_budget_opens_nothing(tmp_path, first):
    net = Net(tmp_path, budget=BUDGET, policy=OPEN)
    hello(net, "dp-fedcp", first)
    hello(net, "dp-fedcp", privacy=None)
    assert code(tell(net, "ask", payload=EXACT_COUNTS)) in ("budget", "hello")
    closed = Net(tmp_path / "closed", budget=None)
    hello(closed, "dp-fedcp", first)
    hello(closed, "dp-fedcp", privacy=None)
    assert code(tell(closed, "ask", payload=EXACT_COUNTS)) in ("privacy", "hello")


def test_a_hello_of_the_days_when_more_was_allowed_is_worth_nothing(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    assert hello(net, "dp-fedcp", privacy=None).phase == "hello"
    for rules, why in (
        (replace(OPEN, exact=False), "privacy"),
        (SitePolicy(("sketch",)), "method"),
    ):
        net.policy = rules
        assert code(tell(net, "ask", payload=EXACT_COUNTS)) == why


def test_a_server_that_announces_one_method_and_asks_for_another(net):
    hello(net)
    for kind in ("counts", "mass", "totals", "steps", "scores", "private-counts", "tea"):
        assert code(tell(net, "ask", payload=Message(kind))) == "query"
    assert net.answers()["s0"] == 0
    assert "query 'scores' in a run of sketch" in net.log("s0")


def test_a_share_of_the_noise_asked_for_in_the_open_is_charged_as_all_of_it(tmp_path):
    """In a sum of four the noise of one site is √3 too small: alone it costs more than ε = 2."""
    net = Net(tmp_path, budget=BUDGET)
    hello(net, view="secure-sum")
    share = question(SUMS)
    assert code(tell(net, "ask", payload=share)) == "budget"
    assert net.answers()["s0"] == 0
    rich = Net(tmp_path / "rich", budget=Budget(20.0, 1e-5))
    hello(rich, view="secure-sum")
    assert tell(rich, "ask", payload=share).phase == "ask"
    assert Ledger(rich.ledgers["s0"]).state().spent > 3


def test_the_same_round_with_another_sigma_gets_no_second_answer(tmp_path):
    net = Net(tmp_path, budget=Budget(20.0, 1e-5))
    hello(net)
    real = question(SERVER_VIEW)
    first = tell(net, "ask", payload=real)
    more = Message(
        real.kind, real.arrays, {**real.numbers, "table_sigma": real.numbers["table_sigma"] * 2}
    )
    before = net.heads()
    assert code(tell(net, "ask", payload=more)) == "query"
    assert net.heads() == before
    again = tell(net, "ask", payload=real)
    assert (again.payload.arrays["table"] == first.payload.arrays["table"]).all()


def test_a_query_beyond_the_budget_is_not_charged(net):
    hello(net)
    real = question(fc.Privacy(2.5, 1e-5))
    before = net.heads()
    assert code(tell(net, "ask", payload=real)) == "budget"
    assert net.heads() == before
    assert "ε = 2.5" in net.log("s0")


def test_a_run_that_one_site_cannot_pay_for_is_refused_at_hello_and_charges_nobody(net):
    with_less = net.folder / "s2.ledger"
    Ledger(with_less).set_budget(epsilon=1.9)
    before = net.heads()
    with pytest.raises(fc.FedcoverError) as found:
        Server(net, privacy=SERVER_VIEW).go()
    assert "'node 2'" in str(found.value)
    assert "(code 'budget')" in str(found.value)
    assert "fedcover ledger show" in str(found.value)
    assert net.heads() == before


def test_a_budget_that_is_used_up_still_repeats_what_it_has_paid_for(net):
    first = Server(net, privacy=SERVER_VIEW).go()
    with pytest.raises(fc.FedcoverError, match="not enough privacy budget"):
        Server(net, privacy=SERVER_VIEW, run="december").go()
    assert same(first, Server(net, privacy=SERVER_VIEW).go())


def test_a_run_of_any_epsilon_gets_an_answer(net):
    for epsilon in (1e-12, 1e300, 2, 10**400):
        for delta in (1e-300, 0.5):
            found = hello(net, privacy={**PRIVATE, "epsilon": epsilon, "delta": delta})
            assert found.phase == "hello" or code(found) in ("budget", "query")


@pytest.mark.parametrize(("relation", "unit"), [("add-remove", "record"), ("replace", "site")])
def test_the_number_of_records_is_told_only_where_the_ledger_takes_it_as_public(
    tmp_path, relation, unit
):
    net = Net(tmp_path, budget=Budget(2.0, 1e-5, unit, relation))
    assert "records" not in hello(net).header
    plain = Net(tmp_path / "plain")
    asked = {**PRIVATE, "relation": relation, "unit": unit}
    assert "records" not in hello(plain, privacy=asked).header
    assert hello(plain).header["records"] == 40


def test_a_letter_without_a_hello_is_refused_in_every_stage(net):
    for stage in ("ask", "sum", "finish"):
        assert code(tell(net, stage, payload=question(SERVER_VIEW))) == "hello"
    assert code(tell(net, "refused")) == "hello"
    hello(net)
    assert code(tell(net, "refused")) == "query"
    for stage in ("ask", "sum", "finish"):
        assert code(tell(net, stage)) in ("query", "agreement")  # without a message


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "ü ☃ '\"", "x" * 100, "a b", "*", "~"])
def test_runs_may_have_odd_names(tmp_path, name):
    net = Net(tmp_path / "in", made(3), budget=BUDGET)
    first = Server(net, privacy=SERVER_VIEW, run=name).go()
    assert same(first, Server(net, privacy=SERVER_VIEW, run=name).go())
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert net.answers() == {"s0": 1, "s1": 1, "s2": 1}


@pytest.mark.parametrize("name", ["", "a\nb", "\ud800", "x" * 101, " ", "\x1b[2J"])
def test_names_that_cannot_stand_in_a_ledger_are_refused_on_both_sides(net, name):
    with pytest.raises(fc.FedcoverError, match=r"the run is called .*printable characters"):
        Server(net, run=name).go()
    assert code(hello(net, run=name)) == "query"
