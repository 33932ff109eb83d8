"""Files that say who signed them: what is believed, and every way in which it is not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from typer.testing import CliRunner

import fedcover as fc
from fedcover import signature
from fedcover.cli import app
from fedcover.identity import (
    fingerprint,
    is_signed,
    keys_of,
    read_public_keys,
    read_roster,
    sign,
)

MERCY, STJOHN, COORDINATOR, EVE = (Ed25519PrivateKey.generate() for _ in range(4))


def line(key):
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def sites():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 1, 1], 80)
    return [
        fc.Site.from_probabilities(name, p, rng.integers(0, 3, 80), seed=0)
        for name in ("mercy", "stjohn")
    ]


@pytest.fixture(scope="module")
def cal():
    return fc.calibrate(sites(), [0.1, 0.2])["mercy"]


@pytest.fixture(scope="module")
def sketch():
    return fc.collect(sites())


def published(site="mercy", run="november"):
    facts = {"run": run, "site": site, "method": "sketch"}
    given = (COORDINATOR, "coordinator", "coordinator", "publication", "0" * 64)
    return signature.signed(*given, **facts)


def roster(tmp_path, *lines):
    path = tmp_path / "roster"
    path.write_text("\n".join(lines))
    return path


def both(tmp_path):
    return roster(tmp_path, f"mercy {line(MERCY)}", f"stjohn {line(STJOHN)}")


def saved(tmp_path, made, name="cal.json"):
    made.save(tmp_path / name)
    return tmp_path / name


def test_in_process_nothing_needs_keys_and_files_say_unsigned(tmp_path, cal, sketch):
    assert json.loads(saved(tmp_path, cal).read_text())["signed"] == "unsigned"
    for made, name in ((cal, "a.json"), (sketch, "b.npz")):
        again = type(made).load(saved(tmp_path, made, name))
        assert again.signed_by == ()
        assert "unsigned" in repr(made)
        assert "unsigned" in repr(again)


def test_what_a_site_signed_is_believed_after_reading(tmp_path, cal):
    signed = replace(cal, signatures=(published(),)).signed(MERCY)
    path = saved(tmp_path, signed)
    for trusted in (
        both(tmp_path),
        str(both(tmp_path)),
        {"mercy": MERCY.public_key(), "coordinator": COORDINATOR.public_key()},
    ):
        again = fc.Calibration.load(path, trusted)
        assert [(s.role, s.name, s.key) for s in again.signed_by] == [
            ("coordinator", "coordinator", fingerprint(COORDINATOR.public_key())),
            ("site", "mercy", fingerprint(MERCY.public_key())),
        ]
    assert "run 'november'" in json.loads(path.read_text())["signed"]
    assert saved(tmp_path, again, "again.json").read_bytes() == path.read_bytes()


def test_a_pub_file_is_a_key(tmp_path, cal):
    pub = tmp_path / "mercy.pub"
    pub.write_text(line(MERCY) + " mercy@host\n")
    fc.Calibration.load(saved(tmp_path, cal.signed(MERCY)), {"mercy": pub})


def test_a_sketch_that_its_coordinator_signed(tmp_path, sketch):
    path = saved(tmp_path, sketch.signed(COORDINATOR, "coordinator", "coordinator"), "s.npz")
    keys = {"coordinator": COORDINATOR.public_key()}
    again = fc.SketchResult.load(path, keys)
    own = again.personalise(sites()[0])
    assert [one.of for one in own.signed_by] == ["sketch"]
    cal = saved(tmp_path, own.signed(MERCY))
    fc.Calibration.load(cal, {**keys, "mercy": MERCY.public_key()})
    other = replace(sketch, table=replace(sketch.table, sites=("a", "b")))
    assert (again + other).signed_by == ()
    with pytest.raises(fc.FileError, match="unsigned"):
        fc.SketchResult.load(saved(tmp_path, sketch, "u.npz"), keys)
    with pytest.raises(fc.FileError, match="no trusted key made"):
        fc.SketchResult.load(path, {"coordinator": EVE.public_key()})


def refused(path, trusted, match):
    with pytest.raises(fc.FileError, match=match):
        fc.Calibration.load(path, trusted)


def test_unsigned_stripped_wrong_and_strange(tmp_path, cal):
    trusted = both(tmp_path)
    refused(saved(tmp_path, cal), trusted, "is unsigned")
    refused(saved(tmp_path, cal.signed(EVE)), trusted, "no trusted key made")
    refused(saved(tmp_path, cal.signed(EVE, "eve")), trusted, "nobody trusted")
    path = saved(tmp_path, cal.signed(MERCY))
    file = json.loads(path.read_text())
    path.write_text(json.dumps(file | {"signatures": [], "signed": "unsigned"}))
    refused(path, trusted, "is unsigned")
    path.write_text(json.dumps(file | {"signed": "unsigned"}))
    refused(path, None, "description of other signatures")


def test_another_sites_word_is_none_for_this_one(tmp_path, cal):
    refused(saved(tmp_path, cal.signed(STJOHN, "stjohn")), both(tmp_path), "of 'mercy' that nobody")


def test_a_sites_key_does_not_speak_for_the_coordinator(tmp_path, cal):
    keys = {"mercy": MERCY.public_key()}
    refused(saved(tmp_path, cal.signed(MERCY, "mercy", "coordinator")), keys, "no trusted key made")


def test_where_the_coordinators_key_is_given_it_must_have_signed(tmp_path, cal):
    keys = {"mercy": MERCY.public_key(), "coordinator": COORDINATOR.public_key()}
    refused(saved(tmp_path, cal.signed(MERCY)), keys, "not signed by the coordinator")
    foreign = replace(cal, signatures=(published("stjohn"),)).signed(MERCY)
    refused(saved(tmp_path, foreign), keys, "published for another site")
    forged = replace(published(), run="december")
    refused(saved(tmp_path, replace(cal, signatures=(forged,)).signed(MERCY)), keys, "no trusted")
    alone = replace(cal, signatures=(published(),))
    refused(saved(tmp_path, alone), keys, "nobody trusted has signed as a whole")


def test_a_signature_is_of_what_was_signed(tmp_path, cal):
    signed = cal.signed(MERCY)
    changed = replace(signed, thresholds=signed.thresholds / 2, distances=None)
    assert changed.signed_by == ()
    assert "unsigned" in repr(changed)
    path = saved(tmp_path, signed)
    file = json.loads(path.read_text())
    other = json.loads(saved(tmp_path, changed, "o.json").read_text())
    path.write_text(
        json.dumps({**other, "signatures": file["signatures"], "signed": file["signed"]})
    )
    refused(path, None, "signatures of something else")


def test_old_and_new_key_and_a_revoked_one(tmp_path, cal):
    new = Ed25519PrivateKey.generate()
    paths = [saved(tmp_path, cal.signed(k), f"{n}.json") for n, k in (("old", MERCY), ("new", new))]
    change = roster(tmp_path, f"mercy {line(MERCY)}", "# a note", f"mercy {line(new)}")
    for path in paths:
        fc.Calibration.load(path, change)
    later = roster(
        tmp_path, f"mercy {line(MERCY)}", f"mercy {line(new)}", f"revoked mercy {line(MERCY)}"
    )
    refused(paths[0], later, "no trusted key made")
    fc.Calibration.load(paths[1], later)
    refused(paths[1], roster(tmp_path, f"revoked mercy {line(new)}"), "no trusted key made")


def test_a_revoked_key_is_believed_under_no_name(tmp_path):
    lines = (f"mercy {line(EVE)}", f"revoked stjohn {line(EVE)}")
    found = read_roster(roster(tmp_path, *lines))
    assert keys_of(found, "mercy") == keys_of(found, "stjohn") == keys_of(found, "none") == ()
    assert not is_signed(found, "mercy", sign(EVE, b"x"), b"x")
    pub = roster(tmp_path, line(MERCY), f"revoked {line(EVE)}")
    assert [fingerprint(k) for k in keys_of(read_public_keys(pub, "c"), "c")] == [
        fingerprint(MERCY.public_key())
    ]
    with pytest.raises(fc.FileError, match="not a roster"):
        read_roster(roster(tmp_path, "mercy"))
    with pytest.raises(fc.FileError, match="names no key"):
        read_roster(roster(tmp_path, "# nothing"))


@pytest.mark.parametrize("change", [
    {"value": "?"}, {"value": ""}, {"digest": "1" * 64}, {"run": "x"}, {"site": "x"},
    {"method": "x"}, {"key": "x"}, {"of": "sketch"},
])  # fmt: skip
def test_every_field_is_signed(change):
    keys = {"coordinator": COORDINATOR.public_key()}
    assert signature.holds(published(), keys)
    assert not signature.holds(replace(published(), **change), keys)


def run(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


def test_the_commands_refuse_what_nobody_trusted_has_signed(tmp_path, cal, sketch, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trusted, p = both(tmp_path), np.full((4, 3), 1 / 3)
    np.savez("data.npz", probs=p, labels=[0, 1, 2, 0])
    good, bad = saved(tmp_path, cal.signed(MERCY)), saved(tmp_path, cal, "bad.json")
    table, loose = (
        saved(tmp_path, sketch.signed(MERCY, "mercy"), "good.npz"),
        saved(tmp_path, sketch, "loose.npz"),
    )
    other = replace(sketch, table=replace(sketch.table, sites=("a", "b"))).signed(MERCY, "mercy")
    second = saved(tmp_path, other, "second.npz")
    for words, wrong in (
        (("predict", good, "data.npz"), bad),
        (("evaluate", good, "data.npz"), bad),
        (("personalise", table, "--counts", "1,2,3", "--out", "own.json"), loose),
        (("merge", table, second, "--out", "sum.npz"), loose),
        (("signatures", good), bad),
        (("signatures", table), loose),
    ):
        assert run(*words, "--trusted", trusted).exit_code == 0, words
        found = run(words[0], wrong, *words[2:], "--trusted", trusted)
        assert isinstance(found.exception, fc.FileError), words
        assert "unsigned" in str(found.exception)


def test_signing_a_file_in_its_place(tmp_path, cal, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key = MERCY.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    (tmp_path / "key").write_bytes(key)
    path = saved(tmp_path, cal)
    assert "unsigned" in run("signatures", path).output
    assert run("signatures", path, "--sign-with", "key").exit_code != 0
    said = run("signatures", path, "--sign-with", "key", "--name", "mercy").output
    assert fingerprint(MERCY.public_key()) in said.replace("\n", "")
    fc.Calibration.load(path, both(tmp_path))
