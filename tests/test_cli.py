"""The command line: the way from site files to sets, and its messages."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fedcover as fc
from fedcover import cli
from fedcover.certificate import Certificate
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


def test_evaluate_counts_the_stated_error(calibrated):
    """What is off by two stated deviations, as noise may leave it, is no fault of the site."""
    cal = fc.Calibration.load("o/mercy.json")
    with np.load("new.npz") as file:
        wrong = np.where(np.arange(60) < 15, (file["labels"] + 2) % 4, file["labels"])
        np.savez("wrong.npz", logits=file["logits"], labels=wrong)
    assert "by more than" in " ".join(run("evaluate", "o/mercy.json", "wrong.npz").output.split())
    sure = Certificate(0.95, "[of the certificate]")
    replace(cal, coverage_error=np.array([0.2]), certificate=sure).save("o/mercy.json")
    said = " ".join(run("evaluate", "o/mercy.json", "wrong.npz").output.split())
    assert "coverage agrees" in said
    assert "[of the certificate]" in said


def refused(*arguments):
    """The message of a command that must fail with an error of ours."""
    done = run(*arguments)
    assert isinstance(done.exception, fc.FedcoverError), done.output
    return str(done.exception)


@pytest.fixture
def calibrated(folder):
    assert run("calibrate", "site-mercy.npz", "--out", "o", "--seed", 0).exit_code == 0
    return folder


@pytest.mark.parametrize("names", [("a b", "a_b"), ("mercy", "Mercy"), ("a?", "a!")])
def test_targets_with_one_file_name_are_refused_before_any_work(folder, names, monkeypatch):
    files = [f"site-{name}.npz" for name in names]
    for file in files:
        (folder / file).write_bytes((folder / "site-stjohn.npz").read_bytes())
    monkeypatch.setattr(fc, "calibrate", lambda *a, **k: pytest.fail("the work has begun"))
    message = refused("calibrate", *files, "--out", "o")
    assert all(repr(name) in message for name in names)
    assert not (folder / "o").exists()


def test_one_of_two_such_targets_is_fine(folder):
    for name in ("a b", "a_b"):
        (folder / f"{name}.npz").write_bytes((folder / "site-stjohn.npz").read_bytes())
    done = run("calibrate", "a b.npz", "a_b.npz", "--target", "a b", "--out", "o")
    assert done.exit_code == 0, done.output
    assert fc.Calibration.load("o/a_b.json").target == "a b"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "o/mercy.json", "new.npz", "--out", "nodir/x.csv"], "nodir does not exist"),
        (["predict", "o/mercy.json", "new.npz", "--out", "o"], "o is a folder"),
        (["evaluate", "o/mercy.json", "new.npz", "--out", "nodir/x.json"], "nodir does not exist"),
        (["calibrate", "site-mercy.npz", "--out", "new.npz"], "new.npz is a file"),
        (["calibrate", "site-mercy.npz", "--out", "new.npz/deep"], "new.npz is a file"),
    ],
)
def test_output_places_are_checked_before_the_work(calibrated, arguments, message, monkeypatch):
    for name in ("fedcover.cli.files.open_outputs", "fedcover._io.files.open_outputs"):
        monkeypatch.setattr(name, lambda *a, **k: pytest.fail("the work has begun"))
    before = sorted(calibrated.rglob("*"))
    assert message in refused(*arguments)
    assert sorted(calibrated.rglob("*")) == before


def test_other_errors_of_the_system_get_the_same_form(calibrated, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "o/mercy.json")

    monkeypatch.setattr(fc.Calibration, "save", full)
    monkeypatch.setattr("sys.argv", ["fedcover", "calibrate", "site-mercy.npz", "--out", "o"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "o/mercy.json cannot be used (No space left on device)" in shown
    assert "What to do" in shown


def test_predict_does_not_need_good_labels(calibrated):
    with np.load("new.npz") as file:
        np.savez("bad.npz", logits=file["logits"], labels=np.array([None], dtype=object))
    assert run("predict", "o/mercy.json", "bad.npz", "--out", "x.csv").exit_code == 0
    assert "labels.astype(int)" in refused("evaluate", "o/mercy.json", "bad.npz")


def test_sets_are_the_same_in_every_run(calibrated):
    for name in ("x.csv", "y.csv"):
        assert run("predict", "o/mercy.json", "new.npz", "--out", name).exit_code == 0
    assert (calibrated / "x.csv").read_text() == (calibrated / "y.csv").read_text()
    assert run("predict", "o/mercy.json", "new.npz", "--out", "z.csv", "--seed", 5).exit_code == 0
    assert (calibrated / "x.csv").read_text() != (calibrated / "z.csv").read_text()
    figures = []
    for _ in range(2):
        assert run("evaluate", "o/mercy.json", "new.npz", "--out", "f.json").exit_code == 0
        figures.append((calibrated / "f.json").read_text())
    assert figures[0] == figures[1]
    for command in ("predict", "evaluate"):
        help_text = " ".join(run(command, "--help").output.replace("│", " ").split())
        assert "the same seed gives it the same set in every run" in help_text


def test_evaluate_reads_labels_by_the_names_of_the_calibration(calibrated):
    with np.load("new.npz") as file:
        named = np.array(list("abcd"))[file["labels"]]
        np.savez("named.npz", logits=file["logits"], labels=named)
    for name in ("new", "named"):
        data = f"{name}.npz"
        assert run("evaluate", "o/mercy.json", data, "--out", f"{name}.json").exit_code == 0
    assert (calibrated / "new.json").read_text() == (calibrated / "named.json").read_text()


def test_version():
    assert run("--version").output.strip() == f"fedcover {fc.__version__}"


def test_patterns_and_numbers_among_the_files(folder):
    assert "no file matches nothing-*.npz" in refused("calibrate", "nothing-*.npz", "--out", "o")
    message = refused("calibrate", "--alpha", 0.1, 0.2, "site-mercy.npz", "--out", "o")
    assert "--alpha 0.1 --alpha 0.2" in message
    done = run("calibrate", "site-*.npz", "--out", "o")  # a pattern no shell has matched
    assert done.exit_code == 0, done.output
    assert sorted(p.stem for p in (folder / "o").iterdir()) == ["mercy", "stjohn"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_swapped_arguments(calibrated, command):
    assert "Swap the two" in refused(command, "new.npz", "o/mercy.json")
    assert "calibrate" in refused(command, "new.npz", "new.npz")


def test_an_alpha_that_looks_like_coverage_gets_a_hint(folder):
    done = run("calibrate", "site-mercy.npz", "--alpha", 0.9, "--out", "o")
    assert done.exit_code == 0, done.output
    assert "for coverage 0.9 give --alpha 0.1" in " ".join(done.output.split())
    assert "Hint" not in run("calibrate", "site-mercy.npz", "--alpha", 0.5, "--out", "o").output


@pytest.mark.parametrize("key", ["label", "shares_scores", "guarantee"])
def test_constants_of_a_class_are_no_options(folder, key):
    message = refused("calibrate", "site-mercy.npz", "--out", "o", "--option", f"{key}=x")
    assert f"{key}=…" not in message
    assert "subsample=…" in message
    message = refused("calibrate", "site-mercy.npz", "--out", "o", "--score-option", f"{key}=x")
    assert message.count("=…") == 1  # u


def test_calibrate_shows_notes_and_own_records(folder, monkeypatch, capsys):
    with np.load("site-stjohn.npz") as file:
        np.savez("site-tiny.npz", logits=file["logits"][:3], labels=file["labels"][:3])
    arguments = ["calibrate", "site-tiny.npz", "--method", "local", "--out", "o"]
    monkeypatch.setattr("sys.argv", ["fedcover", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    shown = capsys.readouterr()
    (note, *_) = fc.Calibration.load("o/tiny.json").notes
    assert " ".join(shown.out.split()).count(f"Note: {note}") == 1
    assert note not in " ".join(shown.err.split())
    done = run("calibrate", "site-mercy.npz", "site-stjohn.npz", "--out", "o")
    assert "200/260" in done.output
    assert "60/260" in done.output


def test_temperature_of_the_calibration_needs_logits(folder):
    done = run("calibrate", "site-mercy.npz", "--temperature", 1.6, "--out", "o")
    assert done.exit_code == 0, done.output
    np.savez("probs.npz", probs=np.full((2, 4), 0.25), labels=[0, 1])
    message = refused("predict", "o/mercy.json", "probs.npz")
    assert "holds probabilities, and the calibration divided logits" in message
    assert "1.6" in message


def test_names_are_not_read_as_markup(folder):
    (folder / "site-x[b].npz").write_bytes((folder / "site-stjohn.npz").read_bytes())
    done = run("calibrate", "site-x[b].npz", "--out", "o")
    assert "x[b]" in done.output
    assert "x[b]" in run("predict", "o/x_b_.json", "new.npz").output


def test_a_privacy_budget_is_stated_in_full(folder):
    done = run("calibrate", "site-mercy.npz", "site-stjohn.npz", "--out", "o", "--epsilon", 8,
               "--view", "secure-sum")  # fmt: skip
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "(ε = 8, δ = 1e-05)-differentially private" in said
    assert fc.Calibration.load("o/mercy.json").privacy.view == "secure-sum"
    refused = run("calibrate", "site-mercy.npz", "--out", "p", "--epsilon", 0)
    assert isinstance(refused.exception, fc.FedcoverError)
    assert not (folder / "p").exists()
