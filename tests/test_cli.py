"""The command line: the way from site files to sets, and its messages."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import fedcover as fc
from fedcover import cli
from fedcover.cli.calibrate import METHODS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n in (("mercy", 200), ("stjohn", 60)):
        y = rng.integers(0, 4, n)
        z = rng.normal(size=(n, 4)) + 2 * np.eye(4)[y]
        np.savez(f"site-{name}.npz", logits=z, labels=y, label_names=list("abcd"))
    np.savez("new.npz", logits=z, labels=y)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def test_calibrate_predict_evaluate(folder):
    done = run("calibrate", *sorted(folder.glob("site-*.npz")), "--alpha", 0.1, "--alpha", 0.2,
               "--temperature", 2, "--out", "out", "--seed", 0)  # fmt: skip
    assert done.exit_code == 0, done.output
    cal = fc.Calibration.load("out/mercy.json")
    assert (cal.alpha, cal.temperature, cal.label_names) == ((0.1, 0.2), 2.0, tuple("abcd"))
    assert run("predict", "out/mercy.json", "new.npz", "--out", "sets.csv").exit_code == 0
    with open("sets.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 60
    assert all(len(r["labels"].split("|")) == int(r["size"]) for r in rows if r["labels"])
    done = run("evaluate", "out/mercy.json", "new.npz", "--out", "figures.json", "--seed", 0)
    assert done.exit_code == 0, done.output
    figures = json.loads((folder / "figures.json").read_text())
    with np.load("new.npz") as file:
        sets = cal.predict_set(logits=file["logits"], seed=0)
        assert [level["all"]["value"] for level in figures["all"]] == sets.coverage(
            file["labels"]
        ).tolist()
    assert figures["mean_size"] == sets.sizes.mean(axis=1).tolist()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_runs(folder, method):
    done = run("calibrate", "site-mercy.npz", "site-stjohn.npz", "--method", method, "--out", "o",
               "--target", "stjohn")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert [p.name for p in (folder / "o").iterdir()] == ["stjohn.json"]
    assert ("every raw score" in done.output) == METHODS[method].shares_scores


def test_options_reach_method_and_score(folder):
    done = run("calibrate", "site-mercy.npz", "--out", "o", "--option", "rounds=30", "--option",
               "step=0.01", "--score", "raps", "--score-option", "u=1")  # fmt: skip
    assert done.exit_code == 0, done.output
    cal = fc.Calibration.load("o/mercy.json")
    assert (cal.options["rounds"], cal.options["step"]) == (30, 0.01)
    assert cal.score == fc.scores.RAPS(u=1.0)


BAD = {
    "alpha": (["--alpha", 1.1], "alpha is 1.1"),
    "method": (["--method", "magic"], "method is 'magic'"),
    "score": (["--score", "magic"], "score is 'magic'"),
    "option": (["--option", "speed=9"], "option 'speed=9'"),
    "bad value": (["--option", "rounds=-1"], "rounds is -1"),
    "target": (["--target", "nowhere"], "'nowhere' is not a site"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_options_are_refused_before_anything_is_written(folder, case, capsys, monkeypatch):
    options, message = case
    arguments = ["fedcover", "calibrate", "site-mercy.npz", "--out", "o", *map(str, options)]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (folder / "o").exists()


def test_alpha_is_checked_before_files_are_read(folder):
    (folder / "broken.npz").write_text("nothing")
    done = run("calibrate", "broken.npz", "--alpha", 7, "--out", "o")
    assert isinstance(done.exception, fc.FedcoverError)
    assert "alpha is 7" in str(done.exception)


def test_foreign_class_names_are_refused(folder):
    assert run("calibrate", "site-mercy.npz", "--out", "o").exit_code == 0
    np.savez("other.npz", probs=np.full((2, 4), 0.25), label_names=list("abdc"))
    done = run("predict", "o/mercy.json", "other.npz")
    assert isinstance(done.exception, fc.FedcoverError)
    assert "names its classes" in str(done.exception)


def test_evaluate_says_when_coverage_is_off(folder):
    assert run("calibrate", "site-mercy.npz", "--out", "o").exit_code == 0
    with np.load("site-mercy.npz") as file:
        wrong = (file["labels"] + 1) % 4
        np.savez("wrong.npz", logits=file["logits"], labels=wrong)
    done = run("evaluate", "o/mercy.json", "wrong.npz")
    assert "by more than" in " ".join(done.output.split())


def test_bounds_prints_every_result(folder):
    done = run("bounds", "site-mercy.npz", "site-stjohn.npz", "--target", "stjohn")
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    for result in ("Theorem 2.1", "Theorem 2.2", "Equation 11", "Theorem 2.4", "Theorem 3.1"):
        assert result in shown
    with_density = run("bounds", "site-mercy.npz", "--target", "mercy", "--density", 0.1, 9)
    assert with_density.exit_code == 0, with_density.output
