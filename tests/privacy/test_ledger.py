"""The ledger: what it answers, what it refuses, and what it does to a file that is not right."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sqlite3
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcover._io.facts import digest
from fedcover.errors import FedcoverError, FileError
from fedcover.methods.base import Message
from fedcover.privacy import accounting
from fedcover.privacy.events import ExactRelease, GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget, checked_event, entry_from, merged
from fedcover.privacy.ledger_store import LedgerFile
from fedcover.wire import encode

QUERY = Message("counts", {"bins": np.arange(3)}, {"noise": 20.0})
EVENT = GaussianRelease("label counts", sigma=20.0, sensitivity=1.0)
FOUR = Budget(accounting.gaussian_epsilon(20.0, 4, 1e-5), 1e-5)  # enough for four of them
noise = itertools.count()


def fresh():
    return Message("counts", {"noisy": np.array([next(noise), 7])}, {"size": 3})


def never():
    raise AssertionError("the reply was computed")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mercy.ledger"


@pytest.fixture
def ledger(path):
    return Ledger(path, create=FOUR)


def ask(ledger, name, compute=fresh, query=QUERY, events=(EVENT,)):
    return encode(ledger.answer(name, query, events, compute))


def edit(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(*([statement] if isinstance(statement, str) else statement))


def refuses(path, ledger=None, match="not a whole ledger"):
    """Neither a running nor a new ledger object answers, old query or new; the file stays."""
    content = path.read_bytes()
    if ledger is not None:
        for name in ("one", "new"):
            with pytest.raises(FileError, match=match):
                ask(ledger, name, never)
        with pytest.raises(FileError, match=match):
            ledger.set_budget(9)
    with pytest.raises(FileError, match=match):
        Ledger(path)
    assert path.read_bytes() == content


# Answers


def test_an_answer_is_charged_and_a_retry_gets_the_same_bytes(ledger, path):
    first = ask(ledger, "one")
    assert [ask(ledger, "one", never) for _ in range(3)] == [first] * 3
    assert ask(Ledger(path), "one", never) == first
    state = ledger.state()
    assert len(state.answers) == 1
    assert state.spent == accounting.gaussian_epsilon(20.0, 1, 1e-5)
    assert state.answers[0].reply == digest(first)
    assert state.answers[0].query == digest(encode(QUERY))


def test_the_first_reply_is_the_stored_one_in_every_detail(ledger):
    def loose():
        return Message("m", {"a": np.asfortranarray(np.ones((2, 3), ">f4"))}, {"n": np.int64(3)})

    for reply in (ledger.answer("one", QUERY, [], loose), ledger.answer("one", QUERY, [], never)):
        assert type(reply.numbers["n"]) is int
        assert reply.arrays["a"].dtype == np.dtype("f4")


def test_another_query_under_the_same_name_is_refused(ledger):
    ask(ledger, "one")
    for other in (
        Message("counts", {"bins": np.arange(3)}, {"noise": 1.0}),
        Message("counts", {"bins": np.arange(4)}, {"noise": 20.0}),
        Message("mass", {"bins": np.arange(3)}, {"noise": 20.0}),
    ):
        with pytest.raises(FedcoverError, match="other content"):
            ask(ledger, "one", never, other)
    assert len(ledger.state().entries) == 2


def test_the_same_query_under_another_name_costs_again(ledger):
    assert ask(ledger, "one") != ask(ledger, "two")
    assert ledger.state().spent == pytest.approx(accounting.gaussian_epsilon(20.0, 2, 1e-5))


def test_beyond_the_budget_nothing_is_computed_or_changed(ledger, path):
    stored = [ask(ledger, f"{k}") for k in range(4)]  # all four fit: ε composes, it does not add
    before = path.read_bytes()
    with pytest.raises(FedcoverError) as refused:
        ask(ledger, "five", never)
    for part in ("asks for ε = 0.16", "already spent", "at most ε = ", "set-budget", "Nothing was"):
        assert part in str(refused.value)
    assert path.read_bytes() == before
    assert [ask(ledger, f"{k}", never) for k in range(4)] == stored
    assert ledger.state().spent <= FOUR.epsilon + 1e-8


def test_releases_without_noise_never_fit(ledger):
    for event in (ExactRelease("the size"), GaussianRelease("sums", 0.0, 1.0)):
        with pytest.raises(FedcoverError, match="asks for ε = inf"):
            ask(ledger, "one", never, events=[EVENT, event])


def test_a_reply_about_nothing_is_stored_and_free(ledger):
    assert ask(ledger, "one", events=[]) == ask(ledger, "one", never, events=[])
    assert ledger.state().spent == 0


def test_a_budget_split_in_advance_fits_to_the_last_answer(path):
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(path, create=budget)
    for k, sigma in enumerate(accounting.split_noise(1.0, 1e-6, [0.1, 0.2, 0.3, 0.4])):
        ask(ledger, f"{k}", events=[GaussianRelease("part", sigma, 1.0)])
    assert ledger.state().spent == pytest.approx(1.0, abs=1e-8)
    with pytest.raises(FedcoverError, match="asks for"):
        ask(ledger, "more", never, events=[GaussianRelease("part", 200.0, 1.0)])


def test_hidden_sampling_needs_a_budget_of_the_site(tmp_path):
    event = GaussianRelease("gradient", 4.0, 1.0, sampled=(2, 20))
    for unit, relation in (("record", "replace"), ("site", "add-remove")):
        ledger = Ledger(tmp_path / f"{unit}", create=Budget(8, 1e-5, unit, relation))
        with pytest.raises(FedcoverError, match="hidden sampling"):
            ask(ledger, "one", never, events=[event])
    ledger = Ledger(tmp_path / "both", create=Budget(8, 1e-5, "site", "replace"))
    ask(ledger, "one", events=[event])
    assert ledger.state().spent == accounting.epsilon([event], 1e-5)


def test_a_failed_computation_leaves_no_trace(ledger, path):
    before = path.read_bytes()

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(ledger, "one", fails)
    with pytest.raises(FedcoverError, match="array 'a'"):
        ask(ledger, "one", lambda: Message("m", {"a": np.array(["raw"])}))
    with pytest.raises(FedcoverError, match="type NoneType"):
        ask(ledger, "one", lambda: None)
    assert path.read_bytes() == before
    ask(ledger, "one")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "\x1b[31m", None, 7, b"one"])
def test_names_of_queries_are_checked(ledger, name):
    with pytest.raises(FedcoverError, match="query_id"):
        ask(ledger, name, never)


def test_events_are_checked(ledger):
    for event in (object(), {"what": "counts"}, "counts"):
        with pytest.raises(FedcoverError, match="an event is of type"):
            ask(ledger, "one", never, events=[event])


@given(
    st.floats(1e-6, 1e6),
    st.floats(0, 1e6),
    st.integers(1, 10**6),
    st.none() | st.tuples(st.integers(1, 9), st.integers(9, 99)),
)
def test_events_come_back_as_they_were(sigma, sensitivity, count, sampled):
    event = GaussianRelease("ŵ", np.float64(sigma), sensitivity, np.int64(count), sampled)
    assert checked_event(event) == event
    assert type(checked_event(event).count) is int


@given(st.lists(st.tuples(st.sampled_from([5.0, 9.0]), st.integers(1, 9)), max_size=20))
def test_merging_changes_no_epsilon(pairs):
    events = [GaussianRelease("x", sigma, 1.0, count) for sigma, count in pairs]
    assert len(merged(events)) <= 18
    assert accounting.epsilon(merged(events), 1e-5) == pytest.approx(
        accounting.epsilon(events, 1e-5), abs=2e-9
    )


def test_no_raw_data_in_the_file(ledger, path):
    secret = Message("counts", {"bins": np.frombuffer(b"SECRET-QUERY-16b", dtype=np.int64)})
    ask(ledger, "one", query=secret)
    assert b"SECRET" not in path.read_bytes()
    assert b"label counts" in path.read_bytes()


# The budget


def test_the_budget_can_be_raised_and_lowered(ledger):
    replies = [ask(ledger, f"{k}") for k in range(4)]
    ledger.set_budget(2 * FOUR.epsilon)
    ask(ledger, "five")
    state = ledger.set_budget(0.1)
    assert state.budget == Budget(0.1, 1e-5)
    assert state.remaining == 0
    assert "no new query is answered" in state.describe()
    for events in ([EVENT], []):
        with pytest.raises(FedcoverError, match="asks for"):
            ask(ledger, "six", never, events=events)
    assert [ask(ledger, f"{k}", never) for k in range(4)] == replies  # cost nothing more
    assert [e.budget is not None for e in ledger.state().entries] == [
        True,
        *[False] * 4,
        True,
        False,
        True,
    ]


def test_a_new_delta_counts_everything_anew(ledger):
    ask(ledger, "one")
    state = ledger.set_budget(delta=1e-9)
    assert state.budget == Budget(FOUR.epsilon, 1e-9)
    assert state.spent == accounting.epsilon([EVENT], 1e-9)
    assert state.entries[-1].spent == state.spent > state.entries[-2].spent


@pytest.mark.parametrize(
    "wrong",
    [(-1, 1e-5), (np.inf, 1e-5), (np.nan, 1e-5), (1, 0), (1, 1), ("1", 1e-5), (1, 1e-5, "person"),
     (1, 1e-5, "record", "swap")],
)  # fmt: skip
def test_budgets_are_checked(wrong):
    with pytest.raises(FedcoverError):
        Budget(*wrong)


def test_a_wrong_change_of_budget_changes_nothing(ledger, path):
    before = path.read_bytes()
    for change in ({"epsilon": -1}, {"delta": 1}, {"epsilon": np.inf}):
        with pytest.raises(FedcoverError):
            ledger.set_budget(**change)
    assert path.read_bytes() == before


# Files that are not right


def test_a_missing_ledger_is_never_made_anew(path, ledger):
    path.unlink()
    for use in (lambda: Ledger(path), ledger.state, lambda: ask(ledger, "one", never)):
        with pytest.raises(FileError, match="only if nothing was ever answered"):
            use()
    assert not list(path.parent.iterdir())


def test_a_ledger_is_never_made_over_another_file(path, ledger):
    ask(ledger, "one")
    before = path.read_bytes()
    with pytest.raises(FileError, match="exists already"):
        Ledger(path, create=Budget(5, 1e-5))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_ledger_cannot_be_made_where_there_is_no_folder(tmp_path):
    with pytest.raises(FileError, match="cannot be made"):
        Ledger(tmp_path / "none" / "a.ledger", create=FOUR)
    with pytest.raises(FileError, match="could not be read"):
        Ledger(tmp_path)


def test_every_truncation_is_refused(ledger, path):
    for k in range(3):
        ask(ledger, "one" if k == 0 else f"{k}", lambda: Message("m", {"a": np.arange(900)}))
    whole = path.read_bytes()
    for length in [0, 1, 99, 100, 512, 1000, *range(4096, len(whole), 4096), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refuses(path, ledger)
    path.write_bytes(whole + b"0")
    refuses(path, ledger)
    path.write_bytes(whole)
    ask(ledger, "one", never)


def test_damage_anywhere_is_refused_or_harmless(ledger, path):
    """A flipped bit is found, or it is where nothing is stored: then all is still there."""
    for k in range(3):
        ask(ledger, f"{k}", lambda: Message("m", {"a": np.arange(900)}))
    whole, state = path.read_bytes(), ledger.state()
    rng, refused = np.random.default_rng(0), 0
    for position in rng.choice(len(whole), 300, replace=False):
        data = bytearray(whole)
        data[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            again = Ledger(path)
            assert again.state() == state
        except FileError:
            refused += 1
    assert refused > 150


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET entry = replace(entry, '20.0', '90.0') WHERE number = 1",
        "UPDATE entries SET entry = replace(entry, '\"budget\":{', '\"budget\":{ ')",
        "UPDATE entries SET hash = upper(hash) WHERE number = 2",
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 3",
        "DELETE FROM entries",
        "UPDATE entries SET number = 9 WHERE number = 3",
        "INSERT INTO entries SELECT 4, hash, entry, reply FROM entries WHERE number = 3",
        "UPDATE head SET number = 2",
        "DELETE FROM head",
        "INSERT INTO head SELECT 2, number, hash, seal FROM head",
        "UPDATE entries SET entry = NULL WHERE number = 2",
        "UPDATE entries SET entry = x'00' WHERE number = 2",
        "CREATE TABLE more (x)",
        "CREATE TRIGGER forget AFTER INSERT ON entries BEGIN DELETE FROM head; END",
        "PRAGMA application_id = 7",
    ],
)
def test_edited_entries_are_refused(ledger, path, change):
    for name in ("one", "two", "three"):
        ask(ledger, name)
    edit(path, change)
    refuses(path, ledger)


def test_an_entry_with_a_hash_of_its_own_breaks_the_chain(ledger, path):
    """Less noise claimed than was used, and the row's hash made to fit: the next row tells."""
    for name in ("one", "two"):
        ask(ledger, name)
    text = ledger.state().entries[1].text().replace("20.0", "90.0")
    edit(path, ("UPDATE entries SET entry = ?, hash = ? WHERE number = 1", (text, digest(text))))
    refuses(path, ledger)


def test_a_changed_reply_is_never_given_out(ledger, path):
    ask(ledger, "one")
    forged = encode(fresh())
    for reply in (forged, None, "text"):
        edit(path, ("UPDATE entries SET reply = ? WHERE number = 1", (reply,)))
        with pytest.raises(FileError, match="not the one that was given"):
            ask(ledger, "one", never)
        with pytest.raises(FileError, match="not the one that was given"):
            Ledger(path)


def test_foreign_files_are_refused(tmp_path):
    text, other, empty = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    text.write_text("ε = 0, nothing was spent " * 100)
    edit(other, "CREATE TABLE entries (number, hash, entry, reply)")
    empty.touch()
    for path in (text, other, empty):
        refuses(path)


@pytest.mark.parametrize("version", [0, 3])
def test_other_versions_are_refused(ledger, path, version):
    ask(ledger, "one")
    edit(path, f"PRAGMA user_version = {version}")
    refuses(path, ledger, match=f"ledger version {version}")


def test_a_changed_journal_mode_is_set_back(ledger, path):
    first = ask(ledger, "one")
    edit(path, "PRAGMA journal_mode = WAL", "PRAGMA user_version = 2")
    assert ask(ledger, "one", never) == first
    ask(ledger, "two")
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # the one file is all of it


def test_a_lost_journal_is_refused_or_harmless(ledger, path, tmp_path):
    """Every state of the file that a crash can leave, without the journal that would mend it."""
    reply = ask(ledger, "one", lambda: Message("m", {"a": np.arange(900)}))
    before = path.read_bytes()
    ask(ledger, "two", lambda: Message("m", {"a": np.arange(900)}))
    after = path.read_bytes()
    before += bytes(len(after) - len(before))
    pages = [k for k in range(0, len(after), 4096) if before[k : k + 4096] != after[k : k + 4096]]
    refused = 0
    for chosen in itertools.product([False, True], repeat=len(pages)):
        data = bytearray(before)
        for k, new in zip(pages, chosen, strict=True):
            if new:
                data[k : k + 4096] = after[k : k + 4096]
        path.write_bytes(data)
        try:
            again = Ledger(path)
            assert ask(again, "one", never) == reply
            assert len(again.state().answers) == (2 if all(chosen) else 1)
        except FileError:
            refused += 1
    assert refused > len(pages)


@pytest.mark.parametrize("moment", ["computing", "writing"])
def test_a_ledger_that_is_replaced_while_it_answers(ledger, path, tmp_path, monkeypatch, moment):
    """The charge goes into a file that is the ledger no more: the reply must not leave."""
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    append = LedgerFile.append

    def replaced(*arguments):
        if moment == "writing":
            append(*arguments)
        copy.replace(path)
        return fresh()

    if moment == "writing":
        monkeypatch.setattr(LedgerFile, "append", replaced)
    with pytest.raises(FileError, match=r"replaced while|could not be"):
        ask(ledger, "one", replaced if moment == "computing" else fresh)
    assert ledger.state().answers == ()


def test_a_file_that_may_not_grow(ledger, path):
    """The system refuses to write: an error, nothing charged, and the same query later."""
    resource = pytest.importorskip("resource")
    big = Message("m", {"a": np.arange(20_000)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = ledger.state()
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, limits[1]))
    try:
        with pytest.raises(FileError, match="could not be read or written"):
            ask(ledger, "one", lambda: big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ledger.state() == before
    assert ask(ledger, "one", lambda: big) == encode(big)


# Several at once


def test_a_busy_ledger_is_refused_after_the_timeout(ledger, path):
    patient, hasty = ledger, Ledger(path, timeout=0.05)

    def meanwhile():
        assert hasty.state().answers == ()  # reading goes on
        with pytest.raises(FileError, match="another process has kept"):
            ask(hasty, "two", never)
        return fresh()

    ask(patient, "one", meanwhile)
    ask(hasty, "two")


def test_threads_share_a_ledger(ledger):
    replies, refused = {f"{k}": set() for k in range(6)}, []

    def work():
        for name in replies:
            try:
                replies[name].add(ask(ledger, name))
            except FedcoverError:
                refused.append(name)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(r) for r in replies.values()) == 4
    assert all(len(r) <= 1 for r in replies.values())
    assert len(refused) == 12


# What it says


def test_the_words_name_unit_relation_delta_and_epsilon(tmp_path):
    for unit, relation in itertools.product(["record", "site"], ["replace", "add-remove"]):
        made = Ledger(tmp_path / f"{unit}-{relation}", create=Budget(2, 1e-5, unit, relation))
        ask(made, "one")
        words = made.state().describe()
        for part in ("δ = 1e-05", "Spent: ε = 0.16", relation, "1 answer,", "Not covered"):
            assert part in words
        assert ("one record" in words) == (unit == "record")


def test_entries_are_readable_with_any_sqlite_tool(ledger, path):
    ask(ledger, "run-7/round-1")
    with contextlib.closing(sqlite3.connect(path)) as db:
        text = db.execute("SELECT entry FROM entries WHERE number = 1").fetchone()[0]
    facts = json.loads(text)
    assert facts["query_id"] == "run-7/round-1"
    assert facts["events"][0]["sigma"] == 20.0
    assert entry_from(text).text() == text
