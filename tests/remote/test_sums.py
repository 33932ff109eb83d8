"""Secure sums over the network: exact whoever dies and when, or an abort that reveals nothing."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedcover as fc
from fedcover.engines.remote.envelope import Envelope, digest
from fedcover.engines.remote.policy import SitePolicy
from fedcover.methods.sketch.factor import measured
from fedcover.methods.sketch.table import bins_of
from fedcover.securesum import spec
from fedcover.wire import Message
from tests.remote.federation import (
    BUDGET,
    SUMS,
    Net,
    Server,
    exact_table,
    kind,
    made,
    no_noise,
    silent,
    with_body,
    with_facts,
)
from tests.securesum.driving import signed_advertisement

STAGES = ("keys", "shares", "masked", "agree", "unmask")


@pytest.fixture
def net(tmp_path, monkeypatch):
    no_noise(monkeypatch)
    return Net(tmp_path)


def test_256_000_integers_of_ten_sites_of_which_three_are_lost(tmp_path, monkeypatch):
    no_noise(monkeypatch)
    net = Net(tmp_path, made(10, sizes=[400] * 10, n_classes=256))
    faults = [
        silent("s1", stage="shares"),
        silent("s4", stage="masked"),
        silent("s8", stage="agree"),
    ]

    def fault(name, envelope, answer):
        found = [answer]
        for one in faults:
            found.append(lambda one=one, inner=found[-1]: one(name, envelope, inner))
        return found[-1]()

    net.fault = fault
    method = fc.methods.Sketch(bins=1000)
    server = Server(net, method, min_survivors=7, resends=0)
    found = server.go()
    left = [site for site in net.sites.values() if site.name not in ("s1", "s4")]
    assert found.sites == tuple(site.name for site in left)
    assert found.table.size == 256_000
    wanted = np.zeros((256, 1000), dtype=np.int64)
    for site in left:
        np.add.at(wanted, (site.labels, bins_of(site.positions, found.layout.cut_array)), 1)
    assert np.array_equal(found.table, measured(wanted * found.scale))
    assert server.coordinator.missing == {
        "s1": "did not answer the stage 'shares'",
        "s4": "did not answer the stage 'masked'",
        "s8": "did not answer the stage 'agree'",
    }


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("handled", [False, True], ids=["before", "after"])
def test_a_site_that_is_killed_in_a_stage_costs_its_own_numbers_at_most(net, stage, handled):
    """Killed before it handles the envelope, or when all is on its disk and no reply has left."""
    net.fault = silent("s2", stage=stage, handled=handled)
    server = Server(net, resends=0)
    found = server.go()
    in_it = {"s0", "s1", "s3"} | ({"s2"} if stage in ("agree", "unmask") else set())
    assert set(found.sites) == in_it
    assert np.array_equal(found.table, exact_table(net, in_it))
    assert server.coordinator.missing == {"s2": f"did not answer the stage {stage!r}"}


def test_sites_that_come_back_for_the_resend_are_in_the_sum(net):
    """Every site dies once in every stage, half of them with the answer on their disk."""
    seen = set()

    def fault(name, envelope, answer):
        if (name, kind(envelope)) in seen:
            return answer()
        seen.add((name, kind(envelope)))
        if name in ("s0", "s2"):
            answer()
        return None

    net.fault = fault
    found = Server(net).go()
    assert found.sites == ("s0", "s1", "s2", "s3")
    assert np.array_equal(found.table, exact_table(net, found.sites))


@pytest.mark.parametrize("stage", STAGES)
def test_below_the_threshold_nothing_is_opened(net, stage):
    net.fault = silent("s1", "s2", stage=stage)
    with pytest.raises(fc.FedcoverError, match=r"2 of 4 sites .*at least 3"):
        Server(net, resends=0).go()
    later = STAGES[STAGES.index(stage) + 1 :]
    assert not any(net.asked(one) for one in later)
    opened = [reply for _, one, reply in net.passed if kind(one) == "unmask"]
    assert len(opened) == (2 if stage == "unmask" else 0)  # of two shares nothing follows


def test_too_few_in_the_words_of_the_user(net):
    net.fault = silent("s1", "s2", stage="masked")
    with pytest.raises(fc.FedcoverError) as found:
        Server(net, resends=0).go()
    text = str(found.value)
    start = "2 of 4 sites are left after the stage 'masked' of the secure sum 'november/0/"
    assert text.startswith(start)
    assert text.endswith(
        "': 's1' did not answer the stage 'masked'; 's2' did not answer the stage 'masked'. "
        "Allowed: at least 3, the threshold. No vector became known. Bring these sites back and "
        "start the run again under the same name: no budget is spent twice; or leave them out, "
        "under another name."
    )


def swapped(query, terms, key):
    """The query with another card of s1, signed with a key that is not in the rosters."""
    return Message(
        query.kind,
        {**query.arrays, "card:s1": signed_advertisement(terms, "s1", key)},
        query.numbers,
    )


def test_a_card_that_is_swapped_on_the_way_to_the_server_is_noticed(net):
    from fedcover.securesum import SumSpec

    stranger = Ed25519PrivateKey.generate()

    def fault(name, envelope, answer):
        reply = answer()
        if (name, kind(envelope)) != ("s1", "keys"):
            return reply
        card = signed_advertisement(SumSpec.of_message(envelope.payload), "s1", stranger)
        return with_body(reply, lambda m: spec.stage_message("keys", {"card": card}))

    net.fault = fault
    server = Server(net)
    assert server.go().sites == ("s0", "s2", "s3")
    assert server.coordinator.missing.keys() == {"s1"}
    assert "'keys'" in server.coordinator.missing["s1"]


def test_a_server_that_puts_in_a_key_of_its_own_gets_no_numbers(net):
    """It can lie to the sites and believe what it likes itself: they refuse before the numbers."""
    from fedcover.securesum import SumSpec

    stranger, terms = Ed25519PrivateKey.generate(), []

    def fault(name, envelope, answer):
        if kind(envelope) == "keys":
            terms.append(SumSpec.of_message(envelope.payload))
        if kind(envelope) != "shares" or name == "s1":
            return answer()
        lie = Envelope(
            "sum", envelope.run, envelope.number, {}, swapped(envelope.payload, terms[0], stranger)
        )
        return with_facts(answer(lie.to_bytes()), of=digest(envelope.to_bytes()))

    net.fault = fault
    with pytest.raises(fc.FedcoverError, match=r"'s0' does not agree .*\(code 'agreement'\)"):
        Server(net).go()
    assert not net.asked("masked")
    assert "a key advertisement of 's1'" in net.log("s0")


def test_a_site_counts_the_sites_itself_and_refuses_sums_of_too_few(net):
    net.policy = SitePolicy(least_sum=4)
    with pytest.raises(fc.FedcoverError, match=r"'s0' .*\(code 'size'\).* least-sum"):
        Server(net).go()
    assert not net.asked("shares")
    assert Server(net, min_survivors=4).go().sites == ("s0", "s1", "s2", "s3")


def test_a_site_without_a_key_takes_part_in_no_sum(net, monkeypatch):
    monkeypatch.setattr("tests.remote.federation.Participant", lambda *facts: None)
    with pytest.raises(fc.FedcoverError, match=r"'s0' .*\(code 'agreement'\)"):
        Server(net).go()
    assert "without identity and roster" in net.log("s0")


def test_a_secure_sum_of_another_version_is_told_from_disagreement(net):
    def fault(name, envelope, answer):
        if envelope.phase == "hello":
            return answer()
        query = envelope.payload
        newer = Message(query.kind, query.arrays, {**query.numbers, "version": 3})
        lie = Envelope("sum", envelope.run, envelope.number, {}, newer)
        return with_facts(answer(lie.to_bytes()), of=digest(envelope.to_bytes()))

    net.fault = fault
    with pytest.raises(fc.FedcoverError, match=r"\(code 'version'\)"):
        Server(net).go()


def test_two_runs_at_once_at_one_site_never_mix(tmp_path, monkeypatch):
    """A site has one sum at a time: the first run is given up, and can be repeated."""
    no_noise(monkeypatch)
    net = Net(tmp_path, budget=fc.privacy.Budget(4.0, 1e-5))
    second = Server(net, run="december")
    done = []

    def fault(name, envelope, answer):
        if not done and kind(envelope) == "masked" and envelope.run == "november":
            done.append(None)
            done[0] = second.go()
        return answer()

    net.fault = fault
    first = Server(net)
    with pytest.raises(fc.FedcoverError, match=r"\(code 'agreement'\)"):
        first.go()
    assert np.array_equal(done[0].table, exact_table(net, done[0].sites))
    assert np.array_equal(first.go().table, done[0].table)
    assert net.answers() == dict.fromkeys(net.ledgers, 2)


def test_what_a_site_is_charged_is_what_the_threshold_leaves_of_the_noise(tmp_path):
    net = Net(tmp_path, budget=BUDGET)
    Server(net).go()
    for path in net.ledgers.values():
        assert fc.privacy.Ledger(path).state().spent == pytest.approx(SUMS.epsilon, abs=1e-6)
