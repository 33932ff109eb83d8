"""The command line: the way from site files to sets, and its messages."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fedcover as fc
from fedcover import cli
from fedcover.certificate import Certificate
from fedcover.cli.words import at_the_command_line
from fedcover.methods import registry


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


def refused(*arguments):
    """The error of ours with which a command must fail, for what was given, allowed and to do."""
    done = run(*arguments)
    assert isinstance(done.exception, fc.FedcoverError), done.output
    assert done.exit_code != 0
    return done.exception


def names(error, *facts):
    """Whether an error names these things in what it says was given, and says what to do."""
    return all(str(fact) in error.given for fact in facts) and error.allowed and error.fix


def spoil(*files):
    """Make model outputs bad: who reads them too early meets another error than the one meant."""
    for file in files:
        np.savez(file, logits=np.full((2, 4), np.nan), labels=[0, 1])


def said(done):
    """What a command printed, whatever the width of its lines."""
    return " ".join(done.output.replace("│", " ").split())


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


@pytest.mark.parametrize("method", registry.names())
def test_every_method_runs(folder, method):
    done = run("calibrate", "site-mercy.npz", "site-stjohn.npz", "--method", method, "--out", "o",
               "--target", "stjohn")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert [p.name for p in (folder / "o").iterdir()] == ["stjohn.json"]
    cal = fc.Calibration.load("o/stjohn.json")
    assert cal.shares_scores == registry.named(method).shares_scores
    assert cal.reveals in said(done)


def test_options_reach_method_and_score(folder):
    done = run("calibrate", "site-mercy.npz", "--out", "o", "--option", "rounds=30", "--option",
               "step=0.01", "--score", "raps", "--score-option", "u=1")  # fmt: skip
    assert done.exit_code == 0, done.output
    cal = fc.Calibration.load("o/mercy.json")
    assert (cal.options["rounds"], cal.options["step"]) == (30, 0.01)
    assert cal.score == fc.scores.RAPS(u=1.0)


BAD = {
    "alpha": (["--alpha", 1.1], ("alpha", "1.1")),
    "method": (["--method", "magic"], ("method", "'magic'")),
    "study": (["--method", "oracle-weights"], ("oracle-weights", "study")),
    "score": (["--score", "magic"], ("score", "'magic'")),
    "option": (["--option", "speed=9"], ("option", "'speed=9'")),
    "bad value": (["--option", "rounds=-1"], ("rounds", "-1")),
    "target": (["--target", "nowhere"], ("target", "'nowhere'")),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_options_are_refused_before_anything_is_written(folder, case):
    options, facts = case
    assert names(refused("calibrate", "site-mercy.npz", "--out", "o", *options), *facts)
    assert not (folder / "o").exists()


def stopped(monkeypatch, capsys, *arguments):
    """Exit status, standard output and standard error of the command line itself."""
    monkeypatch.setattr("sys.argv", ["fedcover", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    shown = capsys.readouterr()
    return end.value.code, " ".join(shown.out.split()), " ".join(shown.err.split())


def test_an_error_is_shown_whole_with_exit_code_1(folder, capsys, monkeypatch):
    arguments = ("calibrate", "site-mercy.npz", "--out", "o", "--alpha", "1.1")
    error = refused(*arguments)
    code, out, err = stopped(monkeypatch, capsys, *arguments)
    assert (code, out) == (1, "")
    said = err.replace("│ ", "").replace(" │", "")
    for head, part in (("", error.given), ("Allowed: ", error.allowed), ("do: ", error.fix)):
        assert head + at_the_command_line(part) in said


def test_alpha_is_checked_before_files_are_read(folder):
    (folder / "broken.npz").write_text("nothing")
    assert names(refused("calibrate", "broken.npz", "--alpha", 7, "--out", "o"), "alpha", 7)


def test_foreign_class_names_are_refused(folder):
    assert run("calibrate", "site-mercy.npz", "--out", "o").exit_code == 0
    np.savez("other.npz", probs=np.full((2, 4), 0.25), label_names=list("abde"))
    error = refused("predict", "o/mercy.json", "other.npz")
    assert names(error, "other.npz", "no class c", "class e")
    assert "a, b, c, d" in error.allowed


def test_evaluate_says_when_coverage_is_off(calibrated):
    with np.load("site-mercy.npz") as file:
        wrong = (file["labels"] + 1) % 4
        np.savez("wrong.npz", logits=file["logits"], labels=wrong)
    assert "below 0.9" in said(run("evaluate", "o/mercy.json", "wrong.npz"))


def test_evaluate_takes_several_files_and_names_them(calibrated):
    shutil.copy("new.npz", "other.npz")
    done = run("evaluate", "o/mercy.json", "new.npz", "other.npz", "--out", "f.json")
    (by_file,) = json.loads((calibrated / "f.json").read_text())["file"]
    assert {name: c["n"] for name, c in by_file.items()} == {"new": 60, "other": 60}
    assert "new" in said(done)
    again = refused("evaluate", "o/mercy.json", "new.npz", "./new.npz")
    assert names(again, "two files are called new")


def test_evaluate_counts_the_stated_error(calibrated):
    """What is off by two stated deviations, as noise may leave it, is no fault of the site."""
    cal = fc.Calibration.load("o/mercy.json")
    with np.load("new.npz") as file:
        wrong = np.where(np.arange(60) < 15, (file["labels"] + 2) % 4, file["labels"])
        np.savez("wrong.npz", logits=file["logits"], labels=wrong)
    assert "below 0.9" in said(run("evaluate", "o/mercy.json", "wrong.npz"))
    sure = Certificate(0.95, "[of the certificate]")
    replace(cal, coverage_error=np.array([0.2]), certificate=sure).save("o/mercy.json")
    shown = said(run("evaluate", "o/mercy.json", "wrong.npz"))
    assert "agrees with 0.9" in shown
    assert "below 0.9" not in shown
    assert sure.statement in shown


@pytest.fixture
def calibrated(folder):
    assert run("calibrate", "site-mercy.npz", "--out", "o", "--seed", 0).exit_code == 0
    return folder


@pytest.mark.parametrize("pair", [("a b", "a_b"), ("mercy", "Mercy"), ("a?", "a!")])
def test_targets_with_one_file_name_are_refused_before_any_work(folder, pair, monkeypatch):
    files = [f"site-{name}.npz" for name in pair]
    for file in files:
        (folder / file).write_bytes((folder / "site-stjohn.npz").read_bytes())
    monkeypatch.setattr(fc, "calibrate", lambda *a, **k: pytest.fail("the work has begun"))
    assert names(refused("calibrate", *files, "--out", "o"), *map(repr, pair))
    assert not (folder / "o").exists()


def test_one_of_two_such_targets_is_fine(folder):
    for name in ("a b", "a_b"):
        (folder / f"{name}.npz").write_bytes((folder / "site-stjohn.npz").read_bytes())
    done = run("calibrate", "a b.npz", "a_b.npz", "--target", "a b", "--out", "o")
    assert done.exit_code == 0, done.output
    assert fc.Calibration.load("o/a_b.json").target == "a b"


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["predict", "o/mercy.json", "new.npz", "--out", "nodir/x.csv"], "nodir"),
        (["predict", "o/mercy.json", "new.npz", "--out", "o"], "o is a folder"),
        (["evaluate", "o/mercy.json", "new.npz", "--out", "nodir/x.json"], "nodir"),
        (["evaluate", "o/mercy.json", "new.npz", "--report", "nodir/x.html"], "nodir"),
        (["report", "o/mercy.json", "new.npz", "--out", "page.txt"], "page.txt"),
        (["report", "o/mercy.json", "new.npz", "--out", "o"], "o is a folder"),
        (["calibrate", "site-mercy.npz", "--out", "new.npz"], "new.npz is a file"),
        (["calibrate", "site-mercy.npz", "--out", "new.npz/deep"], "new.npz is a file"),
    ],
)
def test_output_places_are_checked_before_the_work(calibrated, arguments, place):
    spoil("site-mercy.npz", "new.npz")
    before = sorted(calibrated.rglob("*"))
    assert names(refused(*arguments), place)
    assert sorted(calibrated.rglob("*")) == before


def test_other_errors_of_the_system_get_the_same_form(calibrated, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "o/mercy.json")

    monkeypatch.setattr(fc.Calibration, "save", full)
    code, _, err = stopped(monkeypatch, capsys, "calibrate", "site-mercy.npz", "--out", "o")
    assert code == 1
    for part in ("o/mercy.json", "No space left on device", "What to do"):
        assert part in err


def test_predict_does_not_need_good_labels(calibrated):
    with np.load("new.npz") as file:
        np.savez("bad.npz", logits=file["logits"], labels=np.array([None], dtype=object))
    assert run("predict", "o/mercy.json", "bad.npz", "--out", "x.csv").exit_code == 0
    assert "labels.astype(int)" in refused("evaluate", "o/mercy.json", "bad.npz").fix


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
        assert "same seed" in said(run(command, "--help"))


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
    assert names(refused("calibrate", "nothing-*.npz", "--out", "o"), "nothing-*.npz")
    error = refused("calibrate", "--alpha", 0.1, 0.2, "site-mercy.npz", "--out", "o")
    assert names(error, "0.2")
    assert "--alpha 0.1,0.2" in error.fix
    done = run("calibrate", "site-*.npz", "--out", "o")  # a pattern no shell has matched
    assert done.exit_code == 0, done.output
    assert sorted(p.stem for p in (folder / "o").iterdir()) == ["mercy", "stjohn"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_swapped_arguments(calibrated, command):
    for second, way_out in (("o/mercy.json", "Swap"), ("new.npz", "fedcover calibrate")):
        error = refused(command, "new.npz", second)
        assert names(error, "new.npz")
        assert way_out in error.fix


@pytest.mark.filterwarnings("default")
def test_an_alpha_that_looks_like_coverage_is_asked_about(folder, monkeypatch, capsys):
    for level, asks in ((0.9, True), (0.5, False)):
        arguments = ("calibrate", "site-mercy.npz", "--alpha", str(level), "--out", "o")
        code, _, err = stopped(monkeypatch, capsys, *arguments)
        assert code == 0, err
        assert ("did you mean --alpha 0.1?" in " ".join(err.split())) is asks


@pytest.mark.parametrize("key", ["label", "shares_scores", "guarantee"])
def test_constants_of_a_class_are_no_options(folder, key):
    error = refused("calibrate", "site-mercy.npz", "--out", "o", "--option", f"{key}=x")
    assert f"{key}=…" not in error.allowed
    assert "subsample=…" in error.allowed
    error = refused("calibrate", "site-mercy.npz", "--out", "o", "--score-option", f"{key}=x")
    assert error.allowed == "u=…"


def test_calibrate_shows_notes_and_own_records(folder, monkeypatch, capsys):
    with np.load("site-stjohn.npz") as file:
        np.savez("site-tiny.npz", logits=file["logits"][:3], labels=file["labels"][:3])
    arguments = ("calibrate", "site-tiny.npz", "--method", "local", "--out", "o")
    code, out, err = stopped(monkeypatch, capsys, *arguments)
    assert code == 0
    (note, *_) = fc.Calibration.load("o/tiny.json").notes
    note = at_the_command_line(note)
    assert out.count(f"Note: {note}") == 1
    assert note not in err
    done = run("calibrate", "site-mercy.npz", "site-stjohn.npz", "--out", "o")
    assert "200/260" in done.output
    assert "60/260" in done.output


def test_temperature_of_the_calibration_needs_logits(folder):
    done = run("calibrate", "site-mercy.npz", "--temperature", 1.6, "--out", "o")
    assert done.exit_code == 0, done.output
    np.savez("probs.npz", probs=np.full((2, 4), 0.25), labels=[0, 1])
    assert names(refused("predict", "o/mercy.json", "probs.npz"), "probs.npz", "calibration", 1.6)


def test_names_are_not_read_as_markup(folder):
    (folder / "site-x[b].npz").write_bytes((folder / "site-stjohn.npz").read_bytes())
    done = run("calibrate", "site-x[b].npz", "--out", "o")
    assert "x[b]" in done.output
    assert "x[b]" in run("predict", "o/x_b_.json", "new.npz").output


def test_a_privacy_budget_is_stated_in_full(folder):
    done = run("calibrate", "site-mercy.npz", "site-stjohn.npz", "--out", "o", "--epsilon", 8,
               "--view", "secure-sum")  # fmt: skip
    assert done.exit_code == 0, done.output
    stated = fc.Calibration.load("o/mercy.json").privacy
    assert (stated.view, stated.delta) == ("secure-sum", 1e-5)
    assert stated.describe() in said(done)
    assert names(refused("calibrate", "site-mercy.npz", "--out", "p", "--epsilon", 0), "epsilon")
    assert not (folder / "p").exists()
