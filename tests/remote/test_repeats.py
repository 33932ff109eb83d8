"""A run that is repeated: the same noisy numbers, never summed over different sites."""

from __future__ import annotations

import pytest

import fedcover as fc
from fedcover.engines.remote.envelope import Envelope
from fedcover.methods.base import SumRound
from fedcover.privacy.ledger import Ledger
from fedcover.securesum import SumSpec
from fedcover.securesum import server as sum_server
from tests.remote.federation import BUDGET, SERVER_VIEW, SKETCH, Net, Server, made, same, silent


class Stop(Exception):
    """The server is killed."""


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path, budget=BUDGET)


def stopping(stage):
    """The server is killed when the first site is to be asked for a stage."""
    from tests.remote.federation import kind

    def fault(name, envelope, answer):
        if kind(envelope) == stage:
            raise Stop
        return answer()

    return fault


def refused(net, **more):
    with pytest.raises(fc.FedcoverError, match=r"does not agree .*\(code 'agreement'\)") as found:
        Server(net, resends=0, **more).go()
    return found


def test_a_repeated_run_in_the_server_view_costs_nothing_and_says_the_same(net):
    first = Server(net, privacy=SERVER_VIEW).go()
    before = net.heads()
    assert same(first, Server(net, privacy=SERVER_VIEW).go())
    assert net.heads() == before
    assert net.answers() == dict.fromkeys(net.ledgers, 1)


def test_a_repeated_secure_sum_with_the_same_sites_is_the_same_sum(net):
    first = Server(net).go()
    before = net.heads()
    again = Server(net).go()
    assert same(first, again)
    assert net.heads() == before


def test_with_other_survivors_it_is_refused_and_nothing_is_opened(net):
    """Two sums of the same numbers over different sites would differ by a single reply."""
    Server(net).go()
    before, opened = net.heads(), len(net.asked("unmask"))
    net.fault = silent("s3", stage="masked")
    found = refused(net)
    assert "under a new name" in str(found)
    assert len(net.asked("unmask")) == opened
    assert net.heads() == before
    assert "over other sites than before" in net.log("s0")


@pytest.mark.parametrize("stage", ["agree", "unmask"])
def test_also_where_the_first_attempt_stopped_before_it_was_opened(net, stage):
    """Before "agree" no list is settled yet, and any will do; after it only the one."""
    net.fault = stopping(stage)
    with pytest.raises(Stop):
        Server(net).go()
    net.fault = silent("s3", stage="masked")
    if stage == "agree":
        assert Server(net, resends=0).go().sites == ("s0", "s1", "s2")
        net.fault = None
        refused(net)
    else:
        refused(net)
        net.fault = None
        assert Server(net).go().sites == ("s0", "s1", "s2", "s3")
    assert net.answers() == dict.fromkeys(net.ledgers, 1)


@pytest.mark.parametrize("stage", ["keys", "shares", "masked"])
def test_a_site_that_missed_the_first_attempt_cannot_be_added_later(net, stage):
    net.fault = silent("s3", stage=stage)
    first = Server(net, resends=0).go()
    net.fault = None
    refused(net)
    net.fault = silent("s3", stage=stage)
    assert same(first, Server(net, resends=0).go())


def test_a_server_with_its_checkpoint_repeats_with_the_same_survivors_by_itself(net, tmp_path):
    """The lost site is back, and is left out: its numbers may not join the others now."""
    faults = [silent("s3", stage="masked"), stopping("unmask")]
    net.fault = lambda name, envelope, answer: faults[0](
        name, envelope, lambda: faults[1](name, envelope, answer)
    )
    server = Server(net, checkpoint=tmp_path / "rounds", resends=0)
    with pytest.raises(Stop):
        server.go()
    net.fault = None
    assert server.go().sites == ("s0", "s1", "s2")
    assert net.answers() == dict.fromkeys(net.ledgers, 1)


class LyingServer:
    """A server says what it likes: which run an envelope is of, who is asked, what is summed."""

    def __init__(self, net):
        self.net = net
        server = Server(net, min_survivors=len(net.sites))
        server.go()  # of its own run; gives the question that all sites know
        asked = next(SKETCH.server(server.task))
        assert isinstance(asked, SumRound)
        self.question, self.shapes = next(iter(asked.queries.values())), asked.shapes
        net.heard.clear()

    def hello(self, *runs):
        hello = next(one for _, one, _ in self.net.passed if one.phase == "hello")
        for run in runs:
            for number in self.net.sites:
                reply = self.net.node(number).handle(
                    Envelope("hello", run, 0, hello.header).to_bytes()
                )
                assert Envelope.of_bytes(reply).phase == "hello"

    def sum(self, terms_run, sites, letters_of, skip=(), threshold=3):
        """The sum of some sites; `letters_of(stage)` is the (run, number) an envelope says.

        skip : (stage, site) that are not asked.
        """
        terms = SumSpec(terms_run, tuple(sites), self.shapes, self.question, threshold)
        stages, replies = sum_server(terms, self.net.roster), None
        codes = {}
        while True:
            try:
                queries = next(stages) if replies is None else stages.send(replies)
            except StopIteration as end:
                return end.value
            except fc.FedcoverError:
                return codes
            replies = {}
            for name, query in queries.items():
                stage = query.kind.removeprefix("secure-sum/")
                if (stage, name) in skip:
                    continue
                run, number = letters_of(stage)
                (node,) = [k for k, site in self.net.sites.items() if site.name == name]
                envelope = Envelope("sum", run, number, {}, query)
                reply = Envelope.of_bytes(self.net.node(node).handle(envelope.to_bytes()))
                if reply.phase == "refused":
                    codes[name] = reply.header["code"]
                else:
                    replies[name] = reply.payload


def test_letters_of_another_run_do_not_get_around_the_list_of_survivors(tmp_path):
    """The list that a site has agreed to belongs to the sum, whatever run an envelope names."""
    net = Net(tmp_path, budget=fc.privacy.Budget(50.0, 1e-5))
    lying = LyingServer(net)
    lying.hello("a", "x", "y")
    names = [site.name for site in net.sites.values()]
    before_agreeing = {("agree", name) for name in names}
    for run, lost in (("x", ()), ("y", {("masked", "s3")})):
        lying.sum(f"{run}/0/first", names, lambda stage, run=run: (run, 0), before_agreeing)
        found = lying.sum(
            f"a/0/{run}",
            names,
            lambda stage, run=run: (run if stage in ("agree", "unmask") else "a", 0),
            skip=lost,
        )
        assert set(found.values()) == {"agreement"}


def test_runs_whose_names_begin_alike_are_told_apart(tmp_path):
    """The sum 'a/1/2/…' is of round 2 of run 'a/1', and not of round 1 of run 'a'."""
    net = Net(tmp_path, budget=fc.privacy.Budget(50.0, 1e-5))
    lying = LyingServer(net)
    lying.hello("a", "a/1")
    names = [site.name for site in net.sites.values()]
    assert lying.sum("a/1/2/one", names, lambda stage: ("a/1", 2)).sites == tuple(names)
    lying.sum("a/1/first", names, lambda stage: ("a", 1), {("agree", name) for name in names})
    found = lying.sum(
        "a/1/2/two",
        names,
        lambda stage: ("a", 1) if stage in ("agree", "unmask") else ("a/1", 2),
        skip={("masked", "s3")},
    )
    assert set(found.values()) == {"agreement"}


def test_a_site_that_was_never_asked_to_agree_does_not_enter_a_second_sum(tmp_path):
    """s0's numbers were opened with the agreement of the others; it cannot know, and is careful."""
    sites = made(7)
    net = Net(tmp_path, sites, budget=fc.privacy.Budget(50.0, 1e-5))
    lying = LyingServer(net)
    lying.hello("a")
    first = ["s0", "s1", "s2", "s3"]
    one = lying.sum("a/0/one", first, lambda s: ("a", 0), skip={("agree", "s0")})
    assert one.sites == tuple(first)
    two = lying.sum("a/0/two", ["s0", "s4", "s5", "s6"], lambda s: ("a", 0), {("agree", "s0")})
    assert two.sites == ("s4", "s5", "s6")
    assert "with another threshold" in net.log("s0")


def test_a_site_that_has_lost_its_memory_and_kept_its_ledger_sends_nothing_again(net):
    Server(net).go()
    for path in (net.folder / "s0").glob("sum*"):
        path.unlink()
    net.fault = silent("s3", stage="masked")
    refused(net)
    assert "charged before" in net.log("s0")
    net.fault = None
    other = Net(net.folder, budget=fc.privacy.Budget(4.0, 1e-5))
    for path in other.ledgers.values():
        Ledger(path).set_budget(epsilon=4.0)
    assert len(Server(other, run="december").go().sites) == 4


def test_another_threshold_is_another_question_and_not_answered(net):
    Server(net).go()
    refused(net, min_survivors=4)


def test_the_server_says_who_has_changed_since_the_run_began(net, tmp_path):
    server = Server(net, checkpoint=tmp_path / "rounds", privacy=SERVER_VIEW)
    first = server.go()
    net.sites[2] = made(3, sizes=[40, 50, 61])[2]
    with pytest.raises(fc.FedcoverError, match=r"'s2' has other records .* 'november'"):
        server.go()
    assert same(first, Server(net, privacy=SERVER_VIEW).go())  # the ledger gives the old reply


def test_sites_that_were_not_there_at_first_are_left_out_of_a_repeat(tmp_path):
    first = Net(tmp_path, made(3), budget=BUDGET)
    server = Server(first, checkpoint=tmp_path / "rounds", privacy=SERVER_VIEW)
    found = server.go()
    server.net = Net(tmp_path, made(4), budget=BUDGET)
    assert same(found, server.go())
    assert server.coordinator.missing.keys() == {"s3"}
    assert set(server.coordinator.nodes) == {"s0", "s1", "s2"}
    assert server.net.answers() == {"s0": 1, "s1": 1, "s2": 1, "s3": 0}


def test_a_site_that_is_gone_when_a_sum_is_repeated_may_be_gone(tmp_path):
    net = Net(tmp_path, budget=BUDGET)
    server = Server(net, checkpoint=tmp_path / "rounds", quorum=3)
    net.fault = stopping("masked")
    with pytest.raises(Stop):
        server.go()
    net.fault = silent("s3")
    assert server.go().sites == ("s0", "s1", "s2")
