"""A server that lies in its last message: each lie ends without a calibration, and says so nowhere.

Every test here passed a forged result to a site that wrote it down, before sites believed their own
ledgers, records and the coordinator's key.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.base import Publication, is_of_run
from fedcover.engines.remote.codes import CODES
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.result_message import fit_message, result_header, sketch_message
from fedcover.identity import fingerprint
from fedcover.methods.sketch.factor import measured
from fedcover.methods.sketch.table import upper_edges
from fedcover.position import TOP, scores_at
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.statement import PrivacyStatement
from tests.remote.federation import (
    BUDGET,
    OPEN,
    SERVER_VIEW,
    SKETCH,
    SUMS,
    Net,
    coordinator,
    identity,
    made,
)

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

SIZES = (200, 210, 220, 230)
KEY = identity("the coordinator")
COORDINATOR = {"coordinator": KEY.public_key()}
ZERO = PrivacyStatement(0.0, 1e-5)


class Signing(Net):
    """A network whose sites sign what they write, and may know the coordinator's key."""

    known = None

    def node(self, number):
        node = super().node(number)
        return replace(node, identity=identity(node.site.name), coordinator=self.known)


@pytest.fixture
def exact(tmp_path):
    """After an exact run of DP-FedCP: its engine, and the site's own file as it should be."""
    return finished(Signing(tmp_path, made(sizes=SIZES), policy=OPEN))


@pytest.fixture
def private(tmp_path):
    """After a private collection at sites with ledgers."""
    return finished(Signing(tmp_path, made(sizes=SIZES), budget=BUDGET), SERVER_VIEW)


@pytest.fixture
def unledgered(tmp_path):
    """After a private collection at sites without."""
    return finished(Signing(tmp_path, made(sizes=SIZES), policy=OPEN), SERVER_VIEW)


def finished(net, privacy=None):
    engine = coordinator(net, alpha=(0.1, 0.2))
    if privacy is None:
        fc.calibrate(None, (0.1, 0.2), fc.methods.DPFedCP(), engine=engine)
    else:
        fc.collect(None, SKETCH, privacy, engine)
    assert engine.informed == ["s0", "s1", "s2", "s3"]
    return engine


def tell(engine, change=lambda published: published, site="s0", of=None, **header):
    """The last message once more to one site, changed; whether it says it has it."""
    done: Publication = engine.publication
    facts = {**result_header(done, (0.1, 0.2), None), **header}
    if isinstance(done.published, fc.SketchResult):
        message = sketch_message(change(done.published))
    else:
        message = fit_message(change(done.published[of or site]))
    return engine.inform({site: message}, facts) == [site]


def held(engine, site="s0"):
    """The bytes of a site's file."""
    return (engine.transport.folder / f"{site}.json").read_bytes()


def refused(engine, code, change=lambda published: published, **more):
    """Whether the site refuses in public and keeps the file that it has."""
    before = held(engine)
    told = tell(engine, change, **more)
    assert held(engine) == before
    # A file that contradicts itself is refused as one that cannot be read, before anything else.
    return not told and engine.missing["s0"] in (CODES[code][0], CODES["data"][0])


def kept_quietly(engine, change, reason, **more):
    """Whether the site keeps its old file, the server hears nothing, and the log has the reason."""
    before = held(engine)
    told = tell(engine, change, **more)
    assert held(engine) == before
    log = engine.transport.log("s0")
    return told and reason in log and "Refusal" in log


@pytest.mark.parametrize("kind", ["exact", "private", "unledgered"])
def test_what_is_told_again_unchanged_is_taken(request, kind):
    engine = request.getfixturevalue(kind)
    path = engine.transport.folder / "s0.json"
    path.unlink()
    assert tell(engine)
    assert path.exists()


# ε


@pytest.mark.parametrize(
    "forged",
    [
        ZERO,
        None,
        replace(ZERO, epsilon=0.1),
        PrivacyStatement(1.0, 0.4),
        PrivacyStatement(2.0, 1e-5, view="secure-sum"),
        PrivacyStatement(2.0, 1e-5, unit="site"),
        PrivacyStatement(2.0, 1e-5, relation="add-remove"),
        PrivacyStatement(2.0, 1e-9),
        PrivacyStatement(2.0, 1e-5, events=(GaussianRelease("table", 0.1, 1.0),)),
        PrivacyStatement(2.0, 1e-5, effect="\x1b[2J"),
        PrivacyStatement(2.0, 1e-5, word="ledger"),
    ],
    ids=lambda f: "none" if f is None else f"{f.epsilon}-{f.delta}-{f.view}-{f.unit}-{f.word}",
)
@pytest.mark.parametrize("kind", ["private", "unledgered"])
def test_a_statement_that_promises_more_than_was_agreed_is_refused(request, kind, forged):
    engine = request.getfixturevalue(kind)
    assert refused(engine, "result", lambda sketch: replace(sketch, privacy=forged))


def test_epsilon_in_a_run_without_a_budget_is_refused(exact):
    facts = {"epsilon": 0.0, "delta": 1e-5, "unit": "record", "relation": "replace"}
    assert refused(exact, "result", privacy={**facts, "view": "server"})


def test_own_records_have_the_word_of_the_own_ledger(private):
    cal = fc.Calibration.load(private.transport.folder / "s0.json")
    state = Ledger(private.transport.ledgers["s0"]).state()
    assert cal.privacy.word == "ledger"
    assert cal.privacy.events == tuple(state.events)
    assert cal.privacy.epsilon == pytest.approx(state.spent, abs=1e-6)
    assert cal.privacy.reported == private.publication.statement
    assert "by its own ledger" in cal.reveals
    assert "the coordinator reports" in cal.reveals


def test_without_a_ledger_all_of_it_is_reported(unledgered):
    cal = fc.Calibration.load(unledgered.transport.folder / "s0.json")
    assert cal.privacy.word == "reported"
    assert cal.privacy.reported is None
    assert cal.reveals.startswith("Reported by the coordinator")


def test_with_a_delta_of_the_servers_choice_own_records_keep_that_of_the_ledger(private):
    # At δ = .5 nearly any noise has ε = 0: this site's own file said so.
    low = replace(SERVER_VIEW, epsilon=1e-4, delta=0.5)
    facts = {"method": "sketch", "privacy": low.to_facts()}
    again = Envelope("hello", "november", 0, facts).to_bytes()
    assert Envelope.of_bytes(private.transport.node(0).handle(again)).phase == "hello"
    assert tell(
        private,
        lambda sketch: replace(sketch, privacy=replace(sketch.privacy, epsilon=1e-4, delta=0.5)),
    )
    said = fc.Calibration.load(private.transport.folder / "s0.json").privacy
    assert said.reported.delta == 0.5
    assert (said.epsilon, said.delta) == (pytest.approx(2.0), 1e-5)


@pytest.mark.parametrize("later", [SERVER_VIEW, replace(SUMS, conspirators=2)])
def test_another_view_than_that_of_the_sums_is_not_stated(tmp_path, later):
    """A second hello announced it, after the ledger was charged for shares of the noise."""
    net = Signing(tmp_path, made(sizes=SIZES), budget=BUDGET)
    engine = coordinator(net, alpha=(0.1, 0.2))
    fc.collect(None, SKETCH, SUMS, engine)
    assert tell(engine)
    facts = {"method": "sketch", "privacy": later.to_facts()}
    again = Envelope("hello", "november", 0, facts).to_bytes()
    assert Envelope.of_bytes(net.node(0).handle(again)).phase == "hello"

    def state(sketch):
        kind = {"view": later.view, "conspirators": later.conspirators}
        return replace(sketch, privacy=replace(sketch.privacy, **kind))

    assert refused(engine, "result", state)


def test_words_that_steer_a_screen_are_not_taken_into_a_statement(private):
    def steer(sketch):
        first, *more = sketch.privacy.events
        events = (replace(first, what="\x1b[2Jno noise at all"), *more)
        return replace(sketch, privacy=replace(sketch.privacy, events=events))

    assert refused(private, "result", steer)


def test_what_the_server_says_of_itself_beside_does_not_move_own_numbers(private):
    """A weaker promise is taken, as reported: a renewed sketch states both runs."""
    weaker = replace(private.publication.statement, epsilon=7.0)
    assert tell(private, lambda sketch: replace(sketch, privacy=weaker))
    cal = fc.Calibration.load(private.transport.folder / "s0.json")
    assert (round(cal.privacy.epsilon, 3), cal.privacy.reported.epsilon) == (2.0, 7.0)


def test_only_queries_of_this_run_and_site_count():
    assert is_of_run("a/s0/0/sketch", "a", "s0")
    assert is_of_run("a/s0/s0/0/sketch", "a/s0", "s0")
    for name in ("a/s0/s0/0/sketch", "b/s0/0/sketch", "a/s1/0/sketch", "a/s0/x/sketch", "a/s0", ""):
        assert not is_of_run(name, "a", "s0")


# Numbers


def test_thresholds_of_zero_are_not_written_and_nobody_hears(exact):
    zero = lambda fit: replace(fit, positions=np.zeros_like(fit.positions))  # noqa: E731
    assert kept_quietly(exact, zero, "cover 0 of this site's 200 records")


@pytest.fixture
def fine(tmp_path):
    """After a private collection with as many bins, and as little noise, as to say much."""
    net = Signing(tmp_path, made(sizes=[1500] * 4), budget=fc.privacy.Budget(8.0, 1e-5))
    engine = coordinator(net, alpha=(0.1, 0.2))
    fc.collect(None, fc.methods.Sketch(), fc.Privacy(8.0, 1e-5), engine)
    return engine


def all_low(sketch, own=True):
    """As if all scores were below one quarter, with as many records as there are."""
    table, layout = sketch.table, sketch.table.layout
    edges = upper_edges(layout.cut_array)
    low = scores_at(edges) < 0.25
    share = np.outer(table.labels / table.scale, low / low.sum())
    counts = np.maximum(np.rint(share), 0).astype(np.int64)
    names = table.sites if own else table.sites[1:]
    return replace(sketch, table=replace(table, table=measured(counts) * table.scale, sites=names))


def test_a_sketch_that_says_all_scores_are_low_is_not_written(fine):
    assert tell(fine)
    assert kept_quietly(fine, all_low, "of this site's 1500 records")


def test_a_sketch_of_which_this_site_is_not_a_part_may_not_lie_about_scores(fine):
    lost = lambda sketch: all_low(sketch, own=False)  # noqa: E731
    assert kept_quietly(fine, lost, "of this site's 1500 records")


def test_a_private_sketch_with_fewer_records_of_a_label_than_this_site_has(fine):
    def few(sketch):
        return replace(sketch, table=replace(sketch.table, labels=sketch.table.labels // 50))

    assert kept_quietly(fine, few, "fewer records of a label")


def test_a_stated_error_that_excuses_everything_is_none(private):
    def wild(sketch):
        table = np.zeros_like(sketch.table.table)
        table[:, -1] = 1 << 30
        return replace(sketch, table=replace(sketch.table, table=table))

    assert kept_quietly(private, wild, "it is a share")


def test_four_million_records_of_four_sites_with_thresholds_for_all_need_a_signature(exact):
    """Nothing that a site knows says how many records others have: only a key does."""
    many = lambda f: replace(f, available=4_000_000, records=f.records * 4000)  # noqa: E731
    assert tell(exact, many)
    assert fc.Calibration.load(exact.transport.folder / "s0.json").n_records > 1_000_000
    exact.transport.known = COORDINATOR
    assert refused(exact, "signature", many)


def test_more_records_used_than_there_are(exact):
    assert refused(exact, "result", lambda fit: replace(fit, records=fit.records * 5000))
    assert refused(exact, "result", n_sites=1 + exact.publication.published["s0"].available)


def test_fewer_records_than_this_site_alone(exact):
    few = lambda f: replace(f, available=100, records=np.full(3, 20.0))  # noqa: E731
    assert kept_quietly(exact, few, "100 records in all, and this site alone has 200")


def test_thresholds_that_grow_with_alpha(exact):
    turned = lambda fit: replace(fit, positions=fit.positions[::-1].copy())  # noqa: E731
    fit = exact.publication.published["s0"]
    assert (fit.positions[0] > fit.positions[1]).all()
    assert refused(exact, "result", turned)


@pytest.mark.parametrize("levels", [1001, 40_000])
def test_more_levels_than_anybody_asks_for(private, levels):
    # 40,000 took a site most of a minute with three labels, and disk for each of them.
    assert refused(private, "query", alphas=list(np.linspace(1e-6, 0.999, levels)))


def test_more_levels_than_sites_take_are_refused_before_a_run(tmp_path):
    net = Net(tmp_path, made(sizes=SIZES))
    many = coordinator(net, alpha=np.linspace(0.001, 0.999, 1001))
    with pytest.raises(fc.FedcoverError, match="levels"):
        fc.collect(None, SKETCH, SERVER_VIEW, many)
    assert set(net.answers().values()) == {0}


def test_a_coverage_that_is_off_by_more_than_all(exact):
    wide = lambda fit: replace(fit, coverage_error=np.array([0.1, 1.1]))  # noqa: E731
    assert refused(exact, "result", wide)


def test_another_method_than_was_agreed(exact):
    assert refused(exact, "result", method="local", options={})
    assert refused(exact, "result", method="pooled", options={})


@pytest.mark.parametrize("change", [
    lambda t: replace(t, table=-t.table),
    lambda t: replace(t, labels=t.labels + 1),
    lambda t: replace(t, records=t.records + 1),
    lambda t: replace(t, table_noise=(1e9,), label_noise=(1e9,)),
])  # fmt: skip
def test_counts_that_do_not_add_up(tmp_path, change):
    net = Signing(tmp_path, made(sizes=SIZES), policy=OPEN)
    engine = coordinator(net, alpha=(0.1, 0.2))
    fc.collect(engine=engine)
    assert refused(engine, "result", lambda s: replace(s, table=change(s.table)))


def test_counts_without_this_sites_own(tmp_path):
    net = Signing(tmp_path, made(sizes=SIZES), policy=OPEN)
    engine = coordinator(net, alpha=(0.1, 0.2))
    fc.collect(engine=engine)
    others = fc.collect(made(sizes=SIZES)[1:])

    def without(sketch):
        names = replace(others.table, sites=sketch.sites)
        return replace(sketch, table=names)

    assert kept_quietly(engine, without, "this site put in")
    assert tell(engine, lambda sketch: replace(sketch, table=others.table))  # lost on the way


def test_a_secure_sum_of_strangers(tmp_path):
    net = Signing(tmp_path, made(sizes=SIZES), budget=BUDGET)
    engine = finished(net, fc.Privacy(2.0, 1e-5, view="secure-sum"))
    for sites in (("s0", "s1"), ("s0", "s1", "s2", "eve")):
        assert refused(engine, "result", lambda s, n=sites: replace(
            s, table=replace(s.table, sites=n, records=s.table.records)))  # fmt: skip


# Signatures


@pytest.fixture
def signed(exact):
    """The same run, whose coordinator signs for sites that ask for it."""
    exact.key, exact.transport.known = KEY, COORDINATOR
    assert tell(exact)
    return exact


def test_a_signed_result_says_who_signed(signed):
    cal = fc.Calibration.load(signed.transport.folder / "s0.json")
    assert [(one.role, one.name, one.key) for one in cal.signed_by] == [
        ("coordinator", "coordinator", fingerprint(KEY.public_key())),
        ("site", "s0", fingerprint(identity("s0").public_key())),
    ]
    assert (cal.signed_by[0].run, cal.signed_by[0].method) == ("november", "dp-fedcp")
    keys = {**COORDINATOR, "s0": identity("s0").public_key()}
    fc.Calibration.load(signed.transport.folder / "s0.json", keys)
    assert "unsigned" not in repr(cal)


def test_a_result_that_nobody_signed(signed):
    signed.key = None
    assert refused(signed, "signature")


def test_a_result_signed_with_another_key(signed):
    signed.key = identity("eve")
    assert refused(signed, "signature")


def test_a_result_signed_with_a_revoked_key(signed):
    signed.transport.known = {"coordinator": ()}
    assert refused(signed, "signature")
    assert "revoked" in signed.transport.log("s0")


def test_old_and_new_key_while_it_is_changed(signed):
    new = identity("the new coordinator")
    signed.transport.known = {"coordinator": (KEY.public_key(), new.public_key())}
    for key in (KEY, new):
        signed.key = key
        assert tell(signed)


def replay(engine, change):
    """A signed last message of s0 as it went out, changed, at s0."""
    sent = next(
        e for n, e, _ in reversed(engine.transport.heard) if (n, e.phase) == ("s0", "finish")
    )
    before = held(engine)
    node = engine.transport.node(0)
    reply = Envelope.of_bytes(node.handle(change(sent).to_bytes()))
    assert held(engine) == before
    return reply.header.get("code")


def test_the_result_of_another_run(signed, tmp_path):
    other = coordinator(signed.transport, run="december", alpha=(0.1, 0.2), key=KEY)
    fc.calibrate(None, (0.1, 0.2), fc.methods.DPFedCP(), engine=other)
    assert other.informed == ["s0", "s1", "s2", "s3"]
    assert replay(signed, lambda e: replace(e, run="november")) == "signature"


def test_an_older_result_that_was_signed_as_well(signed):
    path = signed.transport.folder / "s0.json"
    new = coordinator(signed.transport, run="december", alpha=(0.05, 0.2), key=KEY)
    fc.calibrate(None, (0.05, 0.2), fc.methods.DPFedCP(), engine=new)
    assert new.informed == ["s0", "s1", "s2", "s3"]
    assert replay_of(signed, "november") == "signature"  # nor after another hello of that run
    hello = Envelope("hello", "november", 0, {"method": "dp-fedcp", "privacy": None})
    assert Envelope.of_bytes(signed.transport.node(0).handle(hello.to_bytes())).phase == "hello"
    assert replay_of(signed, "november") == "signature"
    assert fc.Calibration.load(path).alpha == (0.05, 0.2)
    assert (
        replay_of(signed, "december") is None
    )  # the latest may be lost on the way, and comes again
    assert fc.Calibration.load(path).alpha == (0.05, 0.2)


def replay_of(engine, run):
    """The last message of a run as it went to s0, once more; the code of a refusal."""
    sent = next(
        e
        for n, e, _ in engine.transport.heard[::-1]
        if (n, e.phase, e.run) == ("s0", "finish", run)
    )
    return Envelope.of_bytes(engine.transport.node(0).handle(sent.to_bytes())).header.get("code")


def test_a_signed_result_without_a_time(signed, monkeypatch):
    monkeypatch.setattr("fedcover.engines.remote.publication.time.time_ns", lambda: "noon")
    assert refused(signed, "signature")


def test_the_result_of_another_site(signed):
    assert tell(signed, site="s1")
    sent = next(
        e for n, e, _ in reversed(signed.transport.heard) if (n, e.phase) == ("s1", "finish")
    )
    assert replay(signed, lambda e: sent) == "signature"


def test_every_part_of_a_signed_result_is_under_the_signature(signed):
    def header(**more):
        return lambda e: replace(e, header={**e.header, **more})

    for change in (
        header(n_sites=3),
        header(alphas=[0.1, 0.3]),
        header(signature=None),
        header(signature={}),
        header(signature="x"),
        header(extra=1),
        lambda e: replace(e, header={k: v for k, v in e.header.items() if k != "signature"}),
        lambda e: replace(
            e, payload=replace(e.payload, numbers={**e.payload.numbers, "total": 9.0})
        ),
    ):
        assert replay(signed, change) == "signature"


def test_a_site_that_knows_no_key_does_not_vouch_for_one(exact):
    exact.key = KEY
    assert tell(exact)
    cal = fc.Calibration.load(exact.transport.folder / "s0.json")
    assert [one.role for one in cal.signed_by] == ["site"]


def test_full_sets_are_bad_and_not_impossible(exact):
    full = lambda fit: replace(fit, positions=np.full_like(fit.positions, TOP))  # noqa: E731
    assert tell(exact, full)
