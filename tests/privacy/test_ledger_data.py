"""A ledger and the records it is about: one ledger for a file, and changes that are recorded."""

from __future__ import annotations

import os
import shutil
import stat

import numpy as np
import pytest

from fedcover.errors import FedcoverError, FileError
from fedcover.privacy import ledger_data
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget
from tests.privacy.test_ledger_key import ask, write_key
from tests.test_cli import run as command
from tests.test_cli import said

BUDGET = Budget(2.0, 1e-5)


def write_data(path, records=50, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), records)
    np.savez(path, probs=probs, labels=rng.integers(0, 3, records))
    return path


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "site-mercy.npz")


@pytest.fixture
def key(tmp_path):
    return write_key(tmp_path / "mercy")


@pytest.fixture
def ledger(tmp_path, key, data):
    made = Ledger(tmp_path / "mercy.ledger", create=BUDGET, key=key)
    made.bind(data)
    return made


def test_binding_is_recorded_once_and_shows_nothing_of_the_data(ledger, data, key, tmp_path):
    state = ledger.state()
    for _ in range(3):
        assert Ledger(ledger.path, key=key).bind(data) == state
        assert ledger.check_data(data) == state
    write_data(data)  # written again, with the same content
    assert ledger.bind(data) == state
    other = Ledger(tmp_path / "2.ledger", create=BUDGET, key=write_key(tmp_path / "other"))
    ledger_data.tag_of(data).unlink()
    assert other.bind(data).data != state.data  # without the key it cannot be compared
    assert data.read_bytes()[:200] not in ledger.path.read_bytes()


@pytest.mark.parametrize("keyed", [True, False])
def test_a_second_ledger_over_the_same_records_is_refused(ledger, data, tmp_path, key, keyed):
    ask(ledger, "one")
    second = Ledger(tmp_path / "2.ledger", create=BUDGET, key=key if keyed else None)
    for use in (second.bind, second.check_data):
        with pytest.raises(FileError, match=f"belong to the ledger {ledger.state().name}"):
            use(data)
    link = tmp_path / "link.npz"
    link.symlink_to(data)
    with pytest.raises(FileError, match="belong to the ledger"):
        second.bind(link)
    assert ledger.bind(data).spent > 0


def test_a_second_ledger_without_keys_is_noticed_too(data, tmp_path):
    Ledger(tmp_path / "1.ledger", create=BUDGET).bind(data)
    with pytest.raises(FileError, match="belong to the ledger"):
        Ledger(tmp_path / "2.ledger", create=BUDGET).bind(data)
    Ledger(tmp_path / "1.ledger").bind(write_data(data, 60))  # content is not looked at


def test_changed_records_are_refused_until_the_ledger_knows(ledger, data):
    ask(ledger, "one")
    before = ledger.state()
    write_data(data, 51)
    for use in (ledger.bind, ledger.check_data):
        with pytest.raises(FileError, match="fedcover ledger data"):
            use(data)
    assert ledger.state() == before
    after = ledger.bind(data, changed=True)
    assert after.data != before.data
    assert len(after.entries) == len(before.entries) + 1
    assert after.spent == before.spent > 0
    assert ledger.bind(data) == ledger.bind(data, changed=True) == after


def test_records_that_were_moved_keep_their_ledger(ledger, data, tmp_path):
    (tmp_path / "new").mkdir()
    moved = shutil.move(data, tmp_path / "new" / "x.npz")
    state = ledger.bind(moved)
    assert ledger_data.owner_of(tmp_path / "new" / "x.npz") == state.name
    assert len(state.entries) == 2


def test_a_tag_is_private_and_a_damaged_one_is_refused(ledger, data):
    tag = ledger_data.tag_of(data)
    assert stat.S_IMODE(tag.stat().st_mode) == 0o600
    for text in ("", "{", "[]", '{"ledger": 3}', "{}"):
        tag.write_text(text)
        with pytest.raises(FileError, match="cannot be read"):
            ledger.bind(data)


def test_of_two_ledgers_at_once_one_gets_the_records(data, tmp_path, key, monkeypatch):
    one, two = (Ledger(tmp_path / f"{k}", create=BUDGET, key=key) for k in range(2))
    real = ledger_data.part_of

    def slower(*given, **more):
        monkeypatch.setattr(ledger_data, "part_of", real)
        two.bind(data)
        return real(*given, **more)

    monkeypatch.setattr(ledger_data, "part_of", slower)
    with pytest.raises(FileError, match="belong to the ledger"):
        one.bind(data)
    assert one.state().data is None


def test_a_folder_in_which_nothing_can_be_put_is_a_clear_error(ledger, data, monkeypatch):
    ledger_data.tag_of(data).unlink()

    def denied(*given, **more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(FileError, match="cannot be written"):
        ledger.bind(data)


# The commands


def run(*arguments):
    return command("ledger", *arguments)


def test_create_with_key_and_data(tmp_path, data, key):
    path = tmp_path / "new.ledger"
    new = ("set-budget", path, "--create", "--epsilon", 2, "--key", key, "--data", data)
    refused = run(*new, "--delta", 0.0021)
    assert "10 n) = 0.002" in str(refused.exception)
    assert not path.exists()
    done = run(*new, "--delta", 0.002)
    assert done.exit_code == 0, done.output
    state = Ledger(path, key=key).state()
    assert ledger_data.owner_of(data) == state.name
    assert "Sealed with the key" in said(done)
    second = ("set-budget", tmp_path / "2", "--create", "--epsilon", 2, "--delta", 1e-5)
    refused = run(*second, "--data", data)
    assert f"belong to the ledger {state.name}" in str(refused.exception)
    assert not (tmp_path / "2").exists()
    assert "no labels" in str(
        run(*second, "--data", write_unlabelled(tmp_path / "x.npz")).exception
    )


def write_unlabelled(path):
    np.savez(path, logits=np.zeros((5, 3)))
    return path


def test_the_commands_take_a_key_and_name_changes(ledger, data, tmp_path, key, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    path, other = ledger.path, write_key(tmp_path / "other")
    ask(ledger, "one", 5000)
    for words in (
        ("show", path),
        ("set-budget", path, "--epsilon", 3),
        ("export", path, "--out", tmp_path / "x.json"),
        ("data", path, "--data", data),
        ("trim", path),
        ("rekey", path, "--new-key", other),
    ):
        assert "is keyed with" in str(run(*words).exception)
        assert run(*words, "--key", key).exit_code == 0
    write_data(data, 70)
    assert run("data", path, "--data", data, "--key", other).exit_code == 0
    shown = said(run("show", path, "--key", other))
    for part in ("(budget, key)", "(data)", "(key)", "(trimmed)", "keyed from here on with SHA256"):
        assert part in shown
    write_data(data, 20_000)
    assert "10 n)" in str(run("data", path, "--data", data, "--key", other).exception)
    assert isinstance(run("set-budget", path, "--data", data, "--key", other).exception,
                      FedcoverError)  # fmt: skip


def test_an_old_ledger_is_taken_over_by_one_command(tmp_path, key):
    path = tmp_path / "old"
    old = Ledger(path, create=BUDGET)
    ask(old, "one")
    old_spent = old.state().spent
    assert "Not keyed" in said(run("show", path))
    assert run("rekey", path, "--new-key", key).exit_code == 0
    assert Ledger(path, key=key).state().spent == old_spent > 0.1
