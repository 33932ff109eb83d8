"""The doctor: a good set-up passes, and each fault is found, named and answered."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from fedcover.cli import app
from fedcover.engines.flower.approval import approve
from fedcover.engines.flower.doctor import doors
from fedcover.engines.flower.doctor.findings import Findings
from fedcover.engines.flower.scaffold import write_folder
from fedcover.engines.flower.site_config import BY_EXECUTOR, client_from_config
from fedcover.privacy import ledger_data
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget
from fedcover.wire import Message
from tests.flower.conftest import SITES, write_data


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "f"
    write_folder(folder, SITES)
    subprocess.run(["sh", "make-test-keys.sh"], cwd=folder, check=True, capture_output=True)
    return folder / "keys"


@pytest.fixture
def folder(tmp_path, monkeypatch, keys):
    """A good set-up, and the current folder: paths in it are relative."""
    write_folder(tmp_path / "f", SITES)
    subprocess.run(["cp", "-rp", str(keys), str(tmp_path / "f/keys")], check=True)
    write_data(tmp_path / "f/data")
    key = tmp_path / "f/keys/harbour"
    Ledger(tmp_path / "f/ledgers/harbour.db", create=Budget(8, 1e-5), key=key)
    monkeypatch.chdir(tmp_path / "f")
    approve(Path("app"), Path("approved/harbour"))
    monkeypatch.setenv(BY_EXECUTOR, "1")
    # The network is looked at in test_doors.py; here it is as it must be.
    monkeypatch.setattr(doors, "_status", lambda *asked: 401 if doors.FLEET in asked else 404)
    return tmp_path / "f"


TLS = ("--certificate", "keys/server.pem", "--certificate-key", "keys/server.key",
       "--ca", "keys/ca.crt", "--address", "127.0.0.1:8000")  # fmt: skip
SITE = ("--node-config", "sites/harbour.toml")


def examined(*words, code):
    """What the doctor prints, without borders and line breaks."""
    done = CliRunner().invoke(app, ["flower", "doctor", *words])
    assert done.exit_code == code, done.output
    return re.sub(r"[│\s]+", " ", done.output)


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_good_set_up_passes(folder):
    at_server = examined("--app", "app", *TLS, code=0)
    assert "Nothing stands in the way" in at_server
    assert "roster of harbour, lakeside, northgate" in at_server
    at_site = examined("--app", "app", *SITE, "--ca", "keys/ca.crt", code=0)
    assert "140 records, 4 classes, score APS" in at_site
    assert "ε would go from 0 to 4 of 8" in at_site
    assert "app may run here" in at_site
    assert not (folder / "state").exists()  # it only looks


def test_an_app_that_the_site_has_not_approved(folder):
    (folder / "app/more.py").write_text("import os")
    text = examined("--app", "app", *SITE, code=3)
    assert "app is not among the apps in approved/harbour" in text
    assert "fedcover flower approve" in text
    change(folder / "sites/harbour.toml", 'approved = "approved/harbour"', "")
    assert "any that the server sends is started here" in examined("--app", "app", *SITE, code=0)


@pytest.mark.parametrize(("words", "says", "fix"), [
    (("--address", "fed.example.org:8000"), "not for fed.example.org", "issued for this name"),
    (("--address", "10.0.0.7:8000"), "not for 10.0.0.7", "issued for this name"),
    (("--ca", "keys/server.pem"), "not the certificate of an authority", "who signed"),
    (("--ca", "keys/none.crt"), "does not exist", "Correct the path"),
    (("--certificate", "keys/server.key"), "holds no certificate", "BEGIN CERTIFICATE"),
    (("--certificate-key", "keys/ca.key"), "belongs to another certificate", "asked for"),
    (("--certificate-key", "keys/harbour"), "cannot be read", "asked for"),
])  # fmt: skip
def test_faults_of_certificates(folder, words, says, fix):
    text = examined(*TLS, *words, code=3)
    assert says in text
    assert fix in text


def write_authority(path, first, last):
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(first)
        .not_valid_after(last)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA384())
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))


def test_a_certificate_that_has_ended_or_comes_from_elsewhere(folder):
    write_authority(folder / "keys/x.crt", datetime(2020, 1, 1), datetime(2021, 1, 1))
    assert "ended on 2021-01-01" in examined("--ca", "keys/x.crt", code=3)
    now = datetime.now(UTC)
    write_authority(folder / "keys/x.crt", now, now + timedelta(days=3))
    assert "renew it soon" in examined("--ca", "keys/x.crt", code=0)
    assert "has not signed" in examined(*TLS, "--ca", "keys/x.crt", code=3)


@pytest.mark.parametrize(("old", "new", "says", "fix"), [
    ("state =", "stat =", "has 'stat'", "Correct it in --node-config"),
    ("data/site-harbour.npz", "data/none.npz", "does not exist", "Correct the path"),
    ("state = \"state/harbour\"", "", "no 'state'", "--node-config"),
    ("calibrations/harbour.json", "nowhere/harbour.json", "nowhere does not exist", "Make the"),
    ("calibrations/harbour.json", "calibrations/harbour.txt", "is no .json", "Change its name"),
    ("ledgers/harbour.db", "ledgers/none.db", "does not exist", "--create"),
    ("ledger = \"ledgers/harbour.db\"", "", "the site answers no run", "--create"),
    ("key = \"keys/harbour\"", "", "a roster and no key", "everybody's public keys"),
    ("key = \"keys/harbour\"", "", "and no key was given", "Give its key"),
    ("key = \"keys/harbour\"", "key = \"keys/lakeside\"", "is keyed with SHA256", "Give its key"),
    ("key = \"keys/harbour\"", "key = \"keys/lakeside\"", "not that of its identity", "Compare"),
    ("key = \"keys/harbour\"", "key = \"keys/roster\"", "key cannot be used", "ssh-keygen"),
    ("name = \"harbour\"", "name = \"haven\"", "not that of its identity", "Compare"),
    ("# exact = false", "exact = \"no\"", "exact is 'no'", "true or false"),
    ("# methods = \"sketch,dp-fedcp\"", "methods = \"dp-fedcp\"", "method 'sketch'", "`methods`"),
    ("# least-sum = 3", "least-sum = 4", "a secure sum of 3 sites", "least-sum"),
    ("# score = \"aps\"", "score = \"best\"", "is not as it must be", "fedcover calibrate"),
])  # fmt: skip
def test_faults_of_a_site(folder, old, new, says, fix):
    change(folder / "sites/harbour.toml", old, new)
    text = examined("--app", "app", *SITE, code=3)
    assert says in text
    assert fix in text


@pytest.mark.parametrize(("old", "new", "says", "fix"), [
    ("method =", "metod =", "has 'metod'", "--run-config"),
    ("method = \"sketch\"", "method = \"magic\"", "method is 'magic'", "spelling"),
    ("options = \"\"", "options = \"bin=12\"", "option 'bin=12'", "key=value"),
    ("alpha = \"0.1\"", "alpha = \"10\"", "alpha", "What to do"),
    ("epsilon = 4.0", "epsilon = -1.0", "epsilon is -1", "What to do"),
    ("threshold = 3", "threshold = 1", "threshold is 1", "raise the threshold"),
    ("threshold = 3", "threshold = 4", "threshold is 4", "from 1 to 3"),
    ("sites = 3", "sites = 2", "secure sum", "view='server'"),
    ("sites = 3", "sites = 4", "the roster has 3 sites", "Add their lines"),
    ("roster = \"keys/roster\"", "roster = \"\"", "no roster", "more noise"),
    ("roster = \"keys/roster\"", "roster = \"keys/ca.crt\"", "not a roster", "name before"),
    ("out = \"runs\"", "out = \"README.md/runs\"", "cannot be written", "another folder"),
    ("[tool.flwr.app.components]", "[tool.flwr.app.parts]", "not that of a Flower app", "Compare"),
    ("fedcover_app:server", "other_app:server", "other_app.py does not exist", "Correct"),
])  # fmt: skip
def test_faults_of_an_app(folder, old, new, says, fix):
    change(folder / "app/pyproject.toml", old, new)
    text = examined("--app", "app", code=3)
    assert says in text
    assert fix in text


def test_a_key_that_others_can_read(folder):
    (folder / "keys/harbour").chmod(0o644)
    assert "chmod 600 keys/harbour" in examined(*SITE, code=3)
    (folder / "keys/harbour").chmod(0o600)
    (folder / "state/harbour").mkdir(parents=True, mode=0o755)
    (folder / "state/harbour").chmod(0o755)
    assert "chmod 700 state/harbour" in examined(*SITE, code=3)


def test_a_budget_that_is_too_small_or_spent(folder):
    words = ("--app", "app", "--run-config", "epsilon=9.0", *SITE)
    assert "would bring ε to 9, and the budget is 8" in examined(*words, code=3)
    ledger = Ledger(folder / "ledgers/harbour.db", key=folder / "keys/harbour")
    answer = Message("sketch", {"table": np.zeros(3)})
    ledger.answer("first/harbour/0/sketch", Message("q"), (GaussianRelease("x", 1.0, 0.7),),
                  lambda: answer)  # fmt: skip
    assert "repeating it costs nothing" in examined("--app", "app", *SITE, code=0)
    ledger.set_budget(epsilon=1.0)
    assert "of 1 is spent" in examined(*SITE, code=3)


@pytest.mark.parametrize("run", ["method=\"dp-fedcp\" epsilon=2.0", "epsilon=2.0 view=\"server\"",
                                 "epsilon=2.0 options=\"bins=512,confusion=true\"",
                                 "epsilon=2.0 relation=\"add-remove\""])  # fmt: skip
def test_the_price_of_a_run_is_worked_out_in_the_ledgers_own_terms(folder, run):
    text = examined("--app", "app", "--run-config", run, *SITE, code=0)
    price = float(text.split("ε would go from 0 to ")[1].split()[0])
    assert price <= (4.5 if "add-remove" in run else 2.0001)  # a replacement is two of those
    assert price >= 1.9


def test_a_ledger_that_is_not_that_of_the_records(folder):
    key, data = folder / "keys/harbour", folder / "data/site-harbour.npz"
    path = folder / "ledgers/harbour.db"
    client_from_config(tomllib.loads((folder / "sites/harbour.toml").read_text()))  # binds it
    assert "sealed with this site's key" in examined(*SITE, code=0)
    shutil.copy(folder / "data/site-lakeside.npz", data)
    assert "fedcover ledger data" in examined(*SITE, code=3)
    Ledger(path, key=key).bind(data, changed=True)
    examined(*SITE, code=0)
    path.unlink()
    Ledger(path, create=Budget(8, 1e-5), key=key)
    assert "belong to the ledger" in examined(*SITE, code=3)
    ledger_data.tag_of(data).unlink()
    path.unlink()
    Ledger(path, create=Budget(8, 0.01), key=key)
    assert "10 n) = 0.000435" in examined(*SITE, code=3)
    path.unlink()
    Ledger(path, create=Budget(8, 1e-5))
    assert "rekey LEDGER --new-key KEY" in examined(*SITE, code=3)
    change(folder / "sites/harbour.toml", 'key = "keys/harbour"\nroster = "keys/roster"', "")
    assert "not keyed: whoever" in examined(*SITE, code=0)


def test_records_and_keys_are_never_shown(folder):
    """A broken file is described by what is allowed; where it is broken stays out of the text."""
    file = np.load(folder / "data/site-harbour.npz")
    probs = file["probs"].copy()
    probs[3, 1] = 7.654321
    np.savez(folder / "data/site-harbour.npz", probs=probs, labels=file["labels"])
    text = examined("--app", "app", *SITE, *TLS, code=3)
    assert "is not as it must be" in text
    assert "7.65" not in text
    secrets = [
        (folder / "keys" / name).read_text().split("\n")[1] for name in ("harbour", "ca.key")
    ]
    assert not any(secret in text for secret in secrets)


def test_a_configuration_in_words_as_flower_takes_it(folder):
    words = 'data="data/site-harbour.npz" state="state/harbour" exact=true'
    assert "none, and exact answers are allowed" in examined("--node-config", words, code=0)
    assert "cannot be read" in examined("--node-config", "data=here state=there", code=3)


def test_a_missing_flower_is_said(folder, monkeypatch):
    from fedcover.engines.flower.doctor import examination

    monkeypatch.setattr(examination, "installed", lambda name: None if name == "flwr" else "1")
    assert "pip install 'fedcover[flower]'" in examined("--app", "app", code=3)
    monkeypatch.setattr(examination, "installed", lambda name: "1.0")
    found = Findings()
    examination.examine_packages(found)
    assert not all(line.good for line in found.lines)


def test_a_key_without_its_certificate_is_refused(folder):
    done = CliRunner().invoke(app, ["flower", "doctor", "--certificate-key", "keys/server.key"])
    assert "--certificate-key without --certificate" in str(done.exception)


def joined(text):
    """A text whose long words were broken over lines."""
    return text.replace(" ", "")


def test_the_coordinators_key_at_both_ends(folder):
    public = ["ssh-keygen", "-lf", "keys/coordinator.pub"]
    shown = subprocess.run(public, check=True, capture_output=True, text=True).stdout.split()[1]
    assert shown.startswith("SHA256:")
    assert shown in joined(examined("--app", "app", code=0))
    assert shown in joined(examined("--app", "app", *SITE, code=0))
    change(folder / "sites/harbour.toml", 'coordinator = "keys/coordinator.pub"', "")
    assert "results that nobody has signed" in examined("--app", "app", *SITE, code=0)
    change(folder / "app/pyproject.toml", 'key = "keys/coordinator"', "")
    assert "will be unsigned" in examined("--app", "app", code=0)


def test_a_coordinators_key_that_others_can_read_or_that_is_taken_back(folder):
    (folder / "keys/coordinator").chmod(0o644)
    assert "can be read by other users" in examined("--app", "app", code=3)
    pub = folder / "keys/coordinator.pub"
    pub.write_text("revoked " + pub.read_text())
    assert "revoked keys only" in examined("--app", "app", *SITE, code=3)
    pub.write_text("none\n")
    assert "cannot be used" in examined("--app", "app", *SITE, code=3)


def test_a_key_alone_signs_calibrations(folder):
    change(folder / "sites/harbour.toml", 'roster = "keys/roster"', "")
    assert "signs the calibration" in examined(*SITE, code=0)
