"""How many sites may conspire with the server: what a run announces, and what a site insists on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.remote.client import privacy_of
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.policy import SitePolicy
from fedcover.privacy import epsilon
from fedcover.privacy.ledger import Ledger
from fedcover.securesum import SumSpec
from fedcover.wire import Message
from tests.remote.federation import (
    BUDGET,
    SERVER_VIEW,
    SUMS,
    Net,
    Server,
    coordinator,
    kind,
    made,
    silent,
)

TRUSTING = SitePolicy(conspirators=0)
WARY = SitePolicy(conspirators=2)
LARGE = (100, 100, 100)


def against(conspirators):
    return replace(SUMS, conspirators=conspirators)


def test_a_run_against_fewer_than_a_site_insists_on_ends_at_hello(tmp_path):
    for policy, announced in ((SitePolicy(), 0), (WARY, 1), (WARY, 0)):
        folder = tmp_path / f"{policy.conspirators} {announced}"
        net = Net(folder, budget=BUDGET, policy=policy)
        with pytest.raises(
            fc.FedcoverError, match=r"more sites that conspire \(code 'conspirators"
        ):
            Server(net, privacy=against(announced), min_survivors=4).go()
        assert f"holds if {announced} other sites conspire" in net.log("s0")
        assert net.answers()["s0"] == 0
        assert not net.asked("keys")


@pytest.mark.parametrize(
    ("policy", "says", "sums"),
    [
        (SitePolicy(), SUMS, 0),
        (SitePolicy(), SERVER_VIEW, 0),  # says nothing of sums, and asks for one
        (SitePolicy(), against(2), 1),
        (TRUSTING, SUMS, 0),
    ],
)
def test_a_server_that_says_more_at_hello_than_in_the_sum_is_refused(tmp_path, policy, says, sums):
    """The invitation counts: it is what all sites sign, whatever the hello has said."""
    net = Net(tmp_path, budget=BUDGET, policy=policy)
    server = Server(net, privacy=against(sums), min_survivors=4)
    header = {"method": "sketch", "privacy": says.to_facts()}

    def fault(name, envelope, answer):
        if envelope.phase != "hello":
            return answer()
        lie = Envelope("hello", envelope.run, 0, header)
        reply = Envelope.of_bytes(answer(lie.to_bytes()))
        return _replying_to(envelope, reply)

    net.fault = fault
    with pytest.raises(fc.FedcoverError, match=r"\(code 'conspirators'\)"):
        server.go()
    assert net.asked("keys")
    assert net.answers() == dict.fromkeys(net.ledgers, 0)


def test_a_sum_in_a_run_that_announced_the_server_view_is_refused(tmp_path):
    """Its noise would be shared out, and the site's own file say that any number may conspire."""
    net = Net(tmp_path, budget=BUDGET)
    header = {"method": "sketch", "privacy": SERVER_VIEW.to_facts()}

    def fault(name, envelope, answer):
        if envelope.phase != "hello":
            return answer()
        lie = Envelope("hello", envelope.run, 0, header)
        return _replying_to(envelope, Envelope.of_bytes(answer(lie.to_bytes())))

    net.fault = fault
    with pytest.raises(fc.FedcoverError, match=r"\(code 'agreement'\)"):
        Server(net).go()
    assert net.asked("keys")
    assert net.answers() == dict.fromkeys(net.ledgers, 0)


def _replying_to(envelope, reply):
    from fedcover.engines.remote.envelope import digest

    said = {**reply.header, "of": digest(envelope.to_bytes())}
    return replace(reply, header=said).to_bytes()


def test_sites_refuse_a_threshold_that_is_too_small_for_the_conspirators(tmp_path):
    """Five sites, threshold three, one conspires: what gave a site's vector away."""
    net = Net(tmp_path, made(5), budget=BUDGET)
    Server(net, min_survivors=4).go()  # gives a run in which all have said hello
    question = next(one.payload for _, one in net.asked("keys"))
    for numbers in ({"threshold": 3}, {"conspirators": 3}):
        lie = Message(question.kind, question.arrays, {**question.numbers, **numbers})
        reply = net.node(0).handle(Envelope("sum", "november", 0, {}, lie).to_bytes())
        assert Envelope.of_bytes(reply).header["code"] == "agreement"
    assert "of which 1 may conspire with the server" in net.log("s0")
    assert "of which 3 may conspire with the server" in net.log("s0")


@pytest.mark.parametrize("conspirators", [0, 1, 2])
def test_what_is_stated_is_what_every_ledger_is_charged(tmp_path, conspirators):
    """Five sites, four at least survive, and all shares but the conspirators' count."""
    net = Net(tmp_path, made(5), budget=BUDGET, policy=TRUSTING)
    server = Server(net, privacy=against(conspirators), min_survivors=4)
    table = server.go()
    stated = server.method.statement(server.task)
    assert stated.conspirators == conspirators
    for path in net.ledgers.values():
        events = Ledger(path).state().events
        assert epsilon(events, 1e-5) == pytest.approx(stated.epsilon, rel=1e-9)
    alone = stated.events[0].sigma / np.sqrt(4 - conspirators)
    assert table.label_noise[0] == pytest.approx((alone / table.scale) ** 2 * 5)


def test_more_conspirators_cost_more_noise_and_not_more_epsilon(tmp_path):
    noise = []
    for conspirators in range(4):
        net = Net(tmp_path / str(conspirators), made(5), budget=BUDGET, policy=TRUSTING)
        server = Server(net, privacy=against(conspirators), min_survivors=5)
        noise.append(server.go().label_noise[0])
    assert np.array(noise) / noise[0] == pytest.approx([1, 5 / 4, 5 / 3, 5 / 2])


def test_the_usual_threshold_follows_the_conspirators(tmp_path):
    for n, conspirators, fewest in ((3, 0, 2), (3, 1, 3), (4, 1, 3), (5, 2, 4), (5, 4, 5)):
        net = Net(tmp_path / f"{n} {conspirators}", made(n), policy=SitePolicy(least_sum=2,
                  conspirators=0))  # fmt: skip
        engine = coordinator(net)
        assert engine.meet(None, Server(net).method, against(conspirators)).min_survivors == fewest


def test_three_sites_need_all_three(tmp_path):
    net = Net(tmp_path, made(3, LARGE), budget=BUDGET)
    net.fault = silent("s2", stage="masked")
    with pytest.raises(fc.FedcoverError, match="2 of 3 sites are left"):
        fc.collect(None, Server(net).method, SUMS, coordinator(net))
    net.fault = None
    found = fc.collect(None, Server(net).method, SUMS, coordinator(net))
    assert found.table.sites == ("s0", "s1", "s2")
    assert found.privacy.conspirators == 1


@pytest.mark.parametrize("conspirators", [3, 9])
def test_more_conspirators_than_other_sites_are_refused_before_anything_is_asked(
    tmp_path, conspirators
):
    net = Net(tmp_path, made(3, LARGE), budget=BUDGET)
    with pytest.raises(fc.FedcoverError, match=f"conspirators is {conspirators}.*0 to 2"):
        fc.collect(None, Server(net).method, against(conspirators), coordinator(net))
    assert not net.asked("keys")


def test_where_all_others_are_trusted_the_statement_says_so(tmp_path):
    net = Net(tmp_path, made(3, LARGE), budget=BUDGET, policy=TRUSTING)
    engine = coordinator(net, min_survivors=3)
    found = fc.collect(None, Server(net).method, against(0), engine)
    words = found.privacy.describe()
    assert "with which no site conspires" in words
    assert "not against a site" in words
    assert "no more than" not in words


def test_the_same_numbers_are_not_summed_against_others_than_before(tmp_path):
    """Two sums of a round hold against as many: the lists that sites agree to are compared."""
    net = Net(tmp_path, made(5), budget=BUDGET, policy=TRUSTING)
    Server(net, privacy=against(1), min_survivors=4).go()

    def fault(name, envelope, answer):
        if kind(envelope) != "keys":
            return answer()
        spec = SumSpec.of_message(envelope.payload)
        other = SumSpec(f"{spec.run}x", spec.sites, spec.shapes, spec.query, spec.threshold, 2)
        return answer(replace(envelope, payload=other.to_message()).to_bytes())

    before = net.heads()
    net.fault = fault
    with pytest.raises(fc.FedcoverError):
        Server(net, privacy=against(1), min_survivors=4, resends=0).go()
    net.fault = None
    with pytest.raises(fc.FedcoverError, match=r"\(code '(agreement|query)'\)"):
        Server(net, privacy=against(2), min_survivors=4, resends=0).go()
    assert net.heads() == before


def test_in_the_server_view_no_number_is_asked_or_said(tmp_path):
    net = Net(tmp_path, budget=BUDGET, policy=WARY)
    Server(net, privacy=SERVER_VIEW).go()
    for _, envelope in net.asked("hello"):
        assert "conspirators" not in envelope.header["privacy"]


def test_a_hello_that_says_no_number_means_one():
    said = {"epsilon": 2.0, "delta": 1e-5, "unit": "record", "relation": "replace"}
    for view in ("server", "secure-sum"):
        assert privacy_of({**said, "view": view}).conspirators == 1
        assert privacy_of(fc.Privacy(2.0, 1e-5, view=view).to_facts()).conspirators == 1
    for number in (0, 2):
        told = fc.Privacy(2.0, 1e-5, view="secure-sum", conspirators=number).to_facts()
        assert privacy_of(told).conspirators == number
    for wrong in (
        {**said, "view": "secure-sum", "conspirator": 1},
        {**said, "view": "server", "conspirators": 2},
        {**said, "view": "secure-sum", "conspirators": -1},
        {**said, "view": "secure-sum", "conspirators": 1.0},
        {**said, "conspirators": 1},
    ):
        with pytest.raises(fc.FedcoverError):
            privacy_of(wrong)
