"""A ledger that is sealed with the site's key: who writes to the disk cannot write a ledger."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedcover._io.facts import digest, to_json
from fedcover.errors import BudgetError, FedcoverError, FileError
from fedcover.methods.base import Message
from fedcover.privacy import accounting
from fedcover.privacy import ledger as ledger_module
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import START, Budget, entry_from
from tests.before.test_files import FILES

EVENT = GaussianRelease("label counts", sigma=20.0, sensitivity=1.0)
BUDGET = Budget(2.0, 1e-5)


def write_key(path, kind="ed25519"):
    key = (
        Ed25519PrivateKey.generate()
        if kind == "ed25519"
        else ec.generate_private_key(ec.SECP384R1())
    )
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return path


@pytest.fixture
def key(tmp_path):
    return write_key(tmp_path / "mercy")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mercy.ledger"


@pytest.fixture
def ledger(path, key):
    return Ledger(path, create=BUDGET, key=key)


def ask(ledger, name, size=3):
    reply = Message("m", {"a": np.random.default_rng().integers(0, 99, size)})
    return ledger.answer(name, Message("q"), (EVENT,), lambda: reply)


def edit(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(*([statement] if isinstance(statement, str) else statement))


def rewrite(path, change, keep=None, seal="keep"):
    """A chain whose every hash is right, as anybody can make it who writes the file.

    change : of the text of an entry, by number. keep : how many entries are left.
    """
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        rows = db.execute("SELECT number, entry, reply FROM entries ORDER BY number").fetchall()
        db.execute("DELETE FROM entries")
        last = START
        for number, text, reply in rows[:keep]:
            facts = {**entry_from(text).facts(), "previous": last}
            changed = entry_from(to_json(change(number, facts), compact=True))
            last = digest(changed.text())
            row = (number, last, changed.text(), reply)
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
        db.execute("UPDATE head SET number = ?, hash = ?", (number, last))
        if seal is None:
            db.execute("UPDATE head SET seal = NULL")


def nothing(number, facts):
    return facts


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_keyed_ledger_answers_charges_and_says_its_key(path, tmp_path, kind):
    key = write_key(tmp_path / "k", kind)
    ledger = Ledger(path, create=BUDGET, key=key)
    first = ask(ledger, "one")
    again = ask(Ledger(path, key=key), "one")
    assert np.array_equal(first.arrays["a"], again.arrays["a"])
    state = ledger.state()
    assert state.spent == accounting.epsilon([EVENT], 1e-5)
    assert f"Sealed with the key {state.key}" in state.describe()
    if shutil.which("ssh-keygen"):
        key.chmod(0o600)
        shown = subprocess.run(["ssh-keygen", "-lf", str(key)], capture_output=True, text=True)
        assert shown.stdout.split()[1] == state.key
    assert Ledger(path, key=shutil.copy(key, tmp_path / "copy")).state() == state


def test_a_ledger_without_a_key_works_and_says_what_it_is_worth(path):
    ledger = Ledger(path, create=BUDGET)
    ask(ledger, "one")
    assert "Not keyed: whoever can write the file can change it." in ledger.state().describe()
    rewrite(path, nothing, keep=1)  # so it is
    assert Ledger(path).state().spent == 0


@pytest.mark.parametrize(
    "attack",
    [
        lambda path: rewrite(path, lambda k, f: {**f, "spent": 0.0} if k else f),
        lambda path: rewrite(
            path, lambda k, f: {**f, "events": []} if f["query_id"] == "two" else f
        ),
        lambda path: rewrite(
            path, lambda k, f: f if k else {**f, "budget": {**f["budget"], "epsilon": 99.0}}
        ),
        lambda path: rewrite(path, nothing, keep=2),
        lambda path: rewrite(path, nothing, keep=1),
        lambda path: rewrite(path, lambda k, f: {**f, "nonce": "0" * 32} if k == 0 else f),
        lambda path: edit(path, "UPDATE head SET seal = NULL"),
        lambda path: edit(path, "UPDATE head SET seal = hash"),
        lambda path: edit(path, "UPDATE head SET seal = x'00'"),
    ],
)
def test_a_chain_that_is_whole_but_not_sealed_by_the_key_is_refused(ledger, path, key, attack):
    for name in ("one", "two", "three"):
        ask(ledger, name)
    attack(path)
    for use in (
        lambda: Ledger(path, key=key),
        ledger.state,
        lambda: ask(ledger, "one"),
        lambda: ask(ledger, "new"),
        lambda: ledger.set_budget(9),
        lambda: ledger.rekey(key),
    ):
        with pytest.raises(FileError, match="by somebody without its key"):
            use()


def test_an_entry_is_not_added_without_the_key(ledger, path, key):
    ask(ledger, "one")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        text = db.execute("SELECT entry FROM entries WHERE number = 0").fetchone()[0]
        facts = {**entry_from(text).facts(), "number": 2, "previous": ledger.state().head}
        facts["budget"] = {**facts["budget"], "epsilon": 99.0}
        plain = {k: v for k, v in facts.items() if k not in ("key", "nonce")}
        more = to_json(plain, compact=True)
        db.execute("INSERT INTO entries VALUES (2, ?, ?, NULL)", (digest(more), more))
        db.execute("UPDATE head SET number = 2, hash = ?", (digest(more),))
    with pytest.raises(FileError, match="by somebody without its key"):
        Ledger(path, key=key)


def test_a_ledger_from_which_the_key_was_taken_is_not_taken_over(ledger, path, key):
    """Rewritten as one that never had a key: with the key it is an error, not a new start."""
    ask(ledger, "one")
    rewrite(path, lambda k, f: {n: v for n, v in f.items() if n != "key"}, keep=1, seal=None)
    assert Ledger(path).state().spent == 0
    with pytest.raises(FileError, match="is not keyed, and a key was given"):
        Ledger(path, key=key)


def test_without_its_key_or_with_another_a_keyed_ledger_is_one_clear_error(
    ledger, path, key, tmp_path
):
    ask(ledger, "one")
    before = path.read_bytes()
    name = ledger.state().key
    with pytest.raises(FileError, match=f"is keyed with {name.replace('+', '.')}, and no key"):
        Ledger(path)
    other = write_key(tmp_path / "other")
    with pytest.raises(FileError, match=r"is keyed with SHA256:.*, and SHA256:.* was given"):
        Ledger(path, key=other)
    with pytest.raises(FileError, match="cannot be opened"):
        Ledger(path, key=tmp_path / "none")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(FedcoverError, match="ssh-keygen"):
        Ledger(path, key=tmp_path / "text")
    assert path.read_bytes() == before


def test_a_new_key_is_an_entry_and_the_head_of_before_stays_in_the_chain(
    ledger, path, key, tmp_path
):
    first = ask(ledger, "one")
    before = ledger.state()
    other = write_key(tmp_path / "other", "ecdsa")
    after = ledger.rekey(other)
    assert after.contains(len(before.entries), before.head)
    assert (after.spent, after.name) == (before.spent, before.name)
    assert after.key != before.key
    again = Ledger(path, key=other)
    assert np.array_equal(ask(again, "one").arrays["a"], first.arrays["a"])
    ask(again, "two")
    with pytest.raises(FileError, match="is keyed with"):
        Ledger(path, key=key)
    rewrite(path, lambda k, f: {**f, "events": []} if f["query_id"] == "one" else f)
    with pytest.raises(FileError, match="by somebody without its key"):
        Ledger(path, key=other)  # the new seal is over what the old one was over, too


@pytest.mark.parametrize("name", ["november.ledger", "sum/s0.ledger"])
def test_a_ledger_of_the_first_version_is_taken_over_with_its_spending(tmp_path, key, name):
    path = tmp_path / "old.ledger"
    shutil.copy(FILES / name, path)
    path.chmod(0o644)  # as it was written then
    with pytest.raises(FileError, match=r"rekey LEDGER --new-key KEY"):
        Ledger(path, key=key)
    old = Ledger(path).state()
    assert old.answers
    assert old.spent == pytest.approx(accounting.epsilon(old.events, old.budget.delta), abs=1e-9)
    state = Ledger(path).rekey(key)
    assert state.spent == pytest.approx(old.spent, abs=1e-9)
    assert state.spent > 0
    assert state.entries[:-1] == old.entries
    assert state.entries[-1].key == state.key
    assert state.contains(len(old.entries), old.head)
    assert Ledger(path, key=key).state() == state
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_taking_over_counts_anew_what_an_unkeyed_ledger_claims(path, key):
    ledger = Ledger(path, create=BUDGET)
    ask(ledger, "one")
    rewrite(path, lambda k, f: {**f, "spent": 0.0})
    assert Ledger(path).state().spent == 0
    assert Ledger(path).rekey(key).spent == accounting.epsilon([EVENT], 1e-5)


def test_the_head_is_in_the_chain_and_an_older_copy_does_not_have_it(ledger, path, key, tmp_path):
    ask(ledger, "one")
    shutil.copy(path, tmp_path / "older")
    ask(ledger, "two")
    state = ledger.state()
    older = Ledger(tmp_path / "older", key=key).state()  # whole and sealed
    assert state.contains(len(older.entries), older.head)
    assert not older.contains(len(state.entries), state.head)
    shutil.copy(tmp_path / "older", path)
    ask(Ledger(path, key=key), "other")
    grown = Ledger(path, key=key).state()
    assert len(grown.entries) == len(state.entries)
    assert not grown.contains(len(state.entries), state.head)
    for count in (-1, 0, 99):
        assert not state.contains(count, state.head)


# δ


def test_delta_is_not_raised_once_something_was_answered(ledger):
    assert ledger.set_budget(delta=1e-4).budget.delta == 1e-4
    ask(ledger, "one")
    before = ledger.state()
    for delta in (2e-4, 0.5):
        with pytest.raises(FedcoverError, match="after 1 answers"):
            ledger.set_budget(delta=delta)
        with pytest.raises(FedcoverError, match="after 1 answers"):
            ledger.set_budget(epsilon=9, delta=delta)
    assert ledger.state() == before
    after = ledger.set_budget(delta=1e-7)
    assert after.spent == accounting.epsilon([EVENT], 1e-7) > before.spent


def test_delta_is_at_most_a_tenth_of_a_record():
    for records in (1, 40, 10_000):
        Budget(1.0, 0.1 / records).check_records(records)
        with pytest.raises(FedcoverError, match=r"10 n\)"):
            Budget(1.0, 0.11 / records).check_records(records)


# Files


def test_only_its_owner_may_read_a_ledger_and_its_journal(path, key):
    before, found = os.umask(0), []
    try:
        ledger = Ledger(path, create=BUDGET, key=key)
        ledger.answer("one", Message("q"), (EVENT,), lambda: Message("m", {"a": np.arange(9999)}))

        def spied():
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)):
                found.extend(stat.S_IMODE(p.stat().st_mode) for p in path.parent.glob("*ledger*"))
            return Message("m", {"a": np.arange(10**6)})

        path.chmod(0o644)
        ledger.answer("two", Message("q"), (EVENT,), spied)
        append = ledger_module.LedgerFile.append

        def between(self, db, entry, reply):
            append(self, db, entry, reply)
            db.execute("PRAGMA cache_spill = 1")
            found.extend(stat.S_IMODE(p.stat().st_mode) for p in path.parent.glob("*ledger*"))
            assert path.with_name(path.name + "-journal").exists()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ledger_module.LedgerFile, "append", between)
            ledger.answer("three", Message("q"), (EVENT,), spied)
    finally:
        os.umask(before)
    assert set(found) == {0o600}


def test_a_new_ledger_is_private_from_its_first_byte(path, key, monkeypatch):
    before, found = os.umask(0), []
    append = ledger_module.LedgerFile.append

    def spied(self, *given):
        append(self, *given)
        found.extend(stat.S_IMODE(p.stat().st_mode) for p in path.parent.glob("*.part*"))

    monkeypatch.setattr(ledger_module.LedgerFile, "append", spied)
    try:
        Ledger(path, create=BUDGET, key=key)
    finally:
        os.umask(before)
    assert found
    assert set(found) == {0o600}


def test_a_ledger_of_somebody_else_that_all_may_read_is_refused(ledger, path, key, monkeypatch):
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(FileError, match="chmod 600"):
        Ledger(path, key=key)


# Room


def test_a_ledger_that_is_full_answers_nothing_new_until_it_is_trimmed(
    ledger, path, key, monkeypatch
):
    monkeypatch.setattr(ledger_module, "MOST_ANSWERS", 3)
    for k in range(3):
        ledger.answer(f"{k}", Message("q"), (), lambda: Message("m", {"a": np.arange(9999)}))
    before, size = ledger.state(), path.stat().st_size
    with pytest.raises(BudgetError, match="fedcover ledger trim"):
        ledger.answer("3", Message("q"), (), lambda: Message("m"))
    ledger.answer("2", Message("q"), (), lambda: Message("m"))  # is repeated all the same
    state = ledger.trim()
    assert path.stat().st_size < size / 5
    assert (state.spent, state.answers) == (before.spent, before.answers)
    Ledger(path, key=key)
    with pytest.raises(FedcoverError, match="its reply was removed since"):
        ledger.answer("2", Message("q"), (), lambda: pytest.fail("drawn again"))
    ask(ledger, "3")
    ask(ledger, "3")
    assert ledger.state().spent == accounting.epsilon([EVENT], 1e-5)


def test_a_ledger_does_not_grow_beyond_its_bytes(ledger, monkeypatch):
    monkeypatch.setattr(ledger_module, "MOST_BYTES", 50_000)
    ask(ledger, "one", 10_000)
    with pytest.raises(BudgetError, match="replies in"):
        ask(ledger, "two")


def test_opening_and_repeating_do_not_load_the_accounting(ledger, path, key):
    """Every message opens the ledger in a new process."""
    ask(ledger, "one")
    code = f"""if True:
        import sys
        from fedcover.privacy.ledger import Ledger
        from fedcover.privacy.events import GaussianRelease
        from fedcover.wire import Message
        ledger = Ledger({str(path)!r}, key={str(key)!r})
        event = GaussianRelease("label counts", sigma=20.0, sensitivity=1.0)
        ledger.answer("one", Message("q"), (event,), lambda: None)
        assert ledger.state().spent > 0
        assert "dp_accounting" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
