"""The server is killed and started again: it goes on where it was, and keeps only what it saw."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest

import fedcover as fc
from fedcover import wire
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.policy import SitePolicy
from tests.remote.federation import (
    OPEN,
    Net,
    Server,
    made,
    same,
    silent,
)

METHOD = fc.methods.DPFedCP(rounds=20, solver="averaging", start=0.5)
ROUNDS = 22  # counts, totals, and the steps


class Killed(BaseException):
    """Nothing in the server can catch it."""


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path, policy=OPEN)


def t_rounds(net, **more):
    folder = net.folder / "rounds"
    facts = {"method": METHOD, "privacy": None, "checkpoint": folder}
    return Server(net, **{**facts, **more})


def killed_at(number, half=False):
    """The server is killed in a round, before anybody was asked or when half of them were."""

    def fault(name, envelope, answer):
        if envelope.phase == "ask" and envelope.number == number and (name == "s2" or not half):
            raise Killed
        return answer()

    return fault


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("kills", [(0,), (1,), (7,), (21,), (2, 9, 15)])
def test_a_t_round_run_goes_on_with_the_same_thresholds(net, kills, half):
    sites = list(net.sites.values())
    wanted = fc.calibrate(sites, (0.1, 0.2), METHOD, seed=0)
    server = t_rounds(net)
    for number in kills:
        net.fault = killed_at(number, half)
        with pytest.raises(Killed):
            server.go()
    net.fault = None
    fits = server.go()
    for name, fit in fits.items():
        assert fit.thresholds.tobytes() == wanted[name].thresholds.tobytes()
    asked = [(name, one.number) for name, one in net.asked("ask")]
    twice = {one for one in asked if asked.count(one) > 1}
    assert len(set(asked)) == ROUNDS * len(sites)
    assert all(number in kills and half for _, number in twice)  # finished rounds never again
    assert server.coordinator.traffic.rounds == ROUNDS


def test_killed_between_the_replies_and_the_disk_a_round_is_asked_again(net, monkeypatch):
    real, kept = Checkpoint.keep, []

    def keep(self, number, *rest):
        if number == 5 and not kept:
            kept.append(number)
            raise Killed
        return real(self, number, *rest)

    monkeypatch.setattr(Checkpoint, "keep", keep)
    server = t_rounds(net)
    with pytest.raises(Killed):
        server.go()
    fits = server.go()
    monkeypatch.undo()
    (net.folder / "other").mkdir()
    plain = t_rounds(net, checkpoint=None).go()
    assert np.array_equal(fits["s1"].thresholds, plain["s1"].thresholds)


def test_the_bytes_of_an_interrupted_run_are_all_counted(net):
    whole = t_rounds(net, checkpoint=None)
    whole.go()
    net.fault = killed_at(9)
    server = t_rounds(net)
    with pytest.raises(Killed):
        server.go()
    net.fault = None
    server.go()
    assert server.coordinator.traffic == whole.coordinator.traffic


def test_a_run_that_is_done_is_played_back_without_a_query(net):
    server = t_rounds(net)
    fits = server.go()
    net.heard.clear()
    again = server.go()
    assert not net.asked("ask")
    assert np.array_equal(fits["s0"].thresholds, again["s0"].thresholds)


def test_another_run_in_the_same_folder_is_refused(net):
    t_rounds(net).go()
    other = fc.methods.DPFedCP(rounds=21, solver="averaging", start=0.5)
    for more, what in [
        ({"run": "december"}, "run"),
        ({"seed": 1}, "seed"),
        ({"method": other}, "method"),
    ]:
        with pytest.raises(fc.FedcoverError) as found:
            t_rounds(net, **more).go()
        assert str(found.value) == (
            f"the checkpoint {net.folder / 'rounds'} is of a run with other {what}. Allowed: the "
            "checkpoint of this run, or a new folder. Start under another name, or remove the "
            "folder."
        )


def test_a_run_that_cannot_begin_leaves_no_checkpoint(net):
    method = fc.methods.DPFedCP(rounds=2, sites_per_round=9, step=0.1)
    with pytest.raises(fc.FedcoverError, match="sites_per_round is 9 for 4 sites"):
        t_rounds(net, method=method).go()
    assert not (net.folder / "rounds").exists()


@pytest.mark.parametrize("name", ["run.json", "3.round"])
@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"FCM\x01 and more"])
def test_a_damaged_checkpoint_is_one_clear_error(net, name, damage):
    net.fault = killed_at(6)
    with pytest.raises(Killed):
        t_rounds(net).go()
    net.fault = None
    (net.folder / "rounds" / name).write_bytes(damage)
    with pytest.raises(fc.FedcoverError, match=f"{name} is damaged"):
        t_rounds(net).go()


@pytest.mark.parametrize("sites", [None, [], {}, {"s0": 1}, {"s0": {"name": "s0"}}])
def test_a_checkpoint_without_its_sites_is_one_clear_error(net, sites):
    server = t_rounds(net)
    server.go()
    path = net.folder / "rounds" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sites": sites}))
    with pytest.raises(fc.FedcoverError, match="'november' does not say with which sites it began"):
        server.go()


def test_rounds_of_other_queries_are_refused(net):
    net.fault = killed_at(6)
    with pytest.raises(Killed):
        t_rounds(net).go()
    net.fault = None
    rounds = net.folder / "rounds"
    (rounds / "4.round").write_bytes((rounds / "3.round").read_bytes())
    with pytest.raises(
        fc.FedcoverError, match=r"4\.round answers other queries than this run asks"
    ):
        t_rounds(net).go()


def test_a_site_may_be_called_like_a_part_of_the_file(tmp_path):
    sites = made(3)
    sites[1] = fc.Site("asked", sites[1].scores, sites[1].labels, n_classes=3)
    net = Net(tmp_path, sites, policy=OPEN)
    server = Server(net, privacy=None, checkpoint=tmp_path / "rounds")
    assert same(server.go(), server.go())
    assert len(net.asked("ask")) == 3


def test_the_checkpoint_of_a_secure_sum_holds_the_sum_and_nothing_else(tmp_path):
    net = Net(tmp_path)
    net.fault = silent("s3", stage="masked")
    server = Server(net, checkpoint=tmp_path / "rounds", resends=0)
    table = server.go()
    folder = tmp_path / "rounds"
    assert {path.name for path in folder.iterdir()} == {"run.json", "0.round", "0.survivors"}
    stored = wire.decode((folder / "0.round").read_bytes())
    assert set(stored.arrays) == {"asked", "reply:sum"}
    total = wire.decode(stored.arrays["reply:sum"].tobytes())
    assert set(total.arrays) == {"table", "labels", "present"}
    assert np.array_equal(total.arrays["table"], table.table)
    assert json.loads((folder / "0.survivors").read_text()) == {"survivors": ["s0", "s1", "s2"]}
    facts = json.loads((folder / "run.json").read_text())
    assert set(facts) == {
        "run", "method", "sites", "levels", "targets", "seed", "threshold", "budget",
    }  # fmt: skip
    said = {"name", "n_classes", "score", "temperature", "label_names", "records"}
    assert all(set(one) == said for one in facts["sites"].values())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    net.heard.clear()
    net.fault = None
    assert same(table, server.go())
    assert not net.asked("sum")


def test_noise_of_the_server_is_not_drawn_twice_under_one_name(tmp_path):
    """A second draw for the same thresholds would cost ε again, which nobody counts."""
    net = Net(tmp_path, made(3), policy=SitePolicy(("exponential-mechanism",), exact=True))
    method = fc.methods.ExponentialMechanism(epsilon=4)
    server = Server(net, method, None, checkpoint=tmp_path / "rounds")
    server.go()
    with pytest.raises(fc.FedcoverError, match="Start under another name, and count the ε of both"):
        server.go()
    server.checkpoint, server.run = tmp_path / "other", "december"
    server.go()


def test_without_a_seed_choices_follow_from_the_name_of_the_run(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    method = fc.methods.EstimatedWeights(subsample=True)

    def cuts(run):
        server = Server(net, method, None, run=run, seed=None)
        return [fit.positions.tobytes() for fit in server.go().values()]

    assert cuts("november") == cuts("november") != cuts("december")
