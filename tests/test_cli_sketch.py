"""`collect`, `merge` and `personalise`: the way from site files to a site's own calibration."""

import json
from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover import cli
from fedcover.certificate import Certificate
from fedcover.position import positions
from tests.test_cli import refused, run

SITES = ("site-mercy.npz", "site-stjohn.npz")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two sites with other label mixes, a third that joins later, and records of the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    mixes = {"site-mercy": (300, [4, 3, 2, 1]), "site-stjohn": (120, [1, 2, 3, 4]),
             "site-late": (90, [1, 1, 1, 1]), "new": (200, [4, 3, 2, 1])}  # fmt: skip
    for seed, (name, (n, mix)) in enumerate(mixes.items()):
        rng = np.random.default_rng(seed)
        y = rng.choice(4, n, p=np.array(mix) / 10 if sum(mix) == 10 else np.full(4, 0.25))
        z = rng.normal(size=(n, 4)) + np.array([3, 2, 2, 1])[y][:, None] * np.eye(4)[y]
        np.savez(f"{name}.npz", logits=z, labels=y, label_names=list("abcd"))
    return tmp_path


@pytest.fixture
def sketch(folder):
    """An exact sketch of the two sites."""
    done = run("collect", *SITES, "--out", "sketch.npz", "--seed", 0)
    assert done.exit_code == 0, done.output
    return fc.SketchResult.load("sketch.npz")


@pytest.fixture
def no_work(monkeypatch):
    """Fails where data is read or collected."""
    for name in ("fedcover._io.files.open_outputs", "fedcover.cli.files.open_outputs"):
        monkeypatch.setattr(name, lambda *a, **k: pytest.fail("data was read"))
    monkeypatch.setattr(fc, "collect", lambda *a, **k: pytest.fail("budget was spent"))


def said(done):
    return " ".join(done.output.replace("│", " ").split())


# collect


def test_collect_is_the_library_on_the_same_files(sketch):
    sites = [fc.Site.from_file(f, seed=0) for f in SITES]
    same = fc.collect(sites)
    assert np.array_equal(same.table.table, sketch.table.table)
    assert sketch.sites == ("mercy", "stjohn")
    assert sketch.label_names == tuple("abcd")


def test_collect_shows_what_it_holds_costs_and_promises(folder):
    done = run("collect", *SITES, "--out", "s.npz", "--epsilon", 4, "--option", "bins=112")
    text = said(done)
    sketch = fc.SketchResult.load("s.npz")
    for part in ("sites mercy, stjohn", "records 420", "labels 4", "rows 4 (one per label)",
                 "bins 112", "rounds 1", f"sent per site {sketch.cost.bytes_up:,} B",
                 f"received per site {sketch.cost.bytes_down:,} B", "noise ± ",
                 "(ε = 4, δ = 1e-05)-differentially private", "The sketch is in s.npz",
                 "fedcover personalise s.npz --site site-mercy.npz"):  # fmt: skip
        assert part in text
    assert sketch.table.layout.bins == 112


def test_the_same_seed_gives_the_same_sketch_but_for_noise(folder):
    def collected(name, *options):
        assert run("collect", *SITES, "--out", name, "--seed", 3, *options).exit_code == 0
        return fc.SketchResult.load(name).table.table

    assert np.array_equal(collected("a.npz"), collected("b.npz"))
    assert (folder / "a.npz").read_bytes() == (folder / "b.npz").read_bytes()
    noisy = [collected(name, "--epsilon", 5) for name in ("c.npz", "d.npz")]
    assert not np.array_equal(*noisy)


def test_every_part_of_the_budget_arrives(folder):
    done = run("collect", *SITES, "--out", "s.npz", "--epsilon", 300, "--delta", 1e-6, "--unit",
               "site", "--relation", "add-remove", "--view", "secure-sum", "--option",
               "most_per_site=50", "--confusion", "--score", "lac")  # fmt: skip
    assert done.exit_code == 0, done.output
    sketch = fc.SketchResult.load("s.npz")
    p = sketch.privacy
    assert (p.delta, p.unit, p.relation, p.view) == (1e-6, "site", "add-remove", "secure-sum")
    assert p.epsilon == pytest.approx(300, rel=1e-3)
    assert sketch.most_per_site == 50
    assert sketch.table.confusion.shape == (4, 4)
    assert sketch.score == fc.scores.LAC()
    assert "records about" in said(done)


GROUPS = {
    "list.json": '["x", "x", "y", "x"]',
    "names.json": '{"a": "x", "c": 7, "b": "x", "d": "x"}',
    "numbers.json": '{"0": 1, "1": 1, "2": 2, "3": 1}',
    "plain.csv": "a,x\nb,x\nc,y\nd,x\n",
    "header.csv": "\ufefflabel,group\r\na,x\r\nb,x\r\n\r\nc,y\r\n3,x\r\n",
    "lines.txt": "x\nx\ny\nx\n",
    "one-line": "x, x, y, x",
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_from_a_file(folder, name):
    (folder / name).write_text(GROUPS[name], encoding="utf-8")
    done = run("collect", *SITES, "--out", "s.npz", "--groups", name)
    assert done.exit_code == 0, done.output
    assert fc.SketchResult.load("s.npz").table.layout.groups == (0, 0, 1, 0)
    assert "rows 2 (labels in groups)" in said(done)


@pytest.mark.parametrize("command", ["collect", "personalise"])
def test_options_that_are_gone_say_what_to_use(folder, no_work, command):
    given = [*SITES] if command == "collect" else ["s.npz", "--counts", "1,1,1,1"]
    place = ["--out", "s.npz" if command == "collect" else "s.json"]
    assert "certify=0.95" in refused(command, *given, *place, "--mode", "guaranteed")
    assert "--mode" not in run(command, "--help").output


@pytest.mark.parametrize("option", ["mode=guaranteed", "warp=upper", "design=none"])
def test_options_of_the_sketch_that_are_gone(folder, no_work, option):
    key, _, value = option.partition("=")
    message = refused("collect", *SITES, "--out", "s.npz", "--option", option)
    assert f"{key}={value!r}" in message


BAD_GROUPS = {
    "absent.json": (None, "cannot be opened"),
    "broken.json": ("{", "is not JSON"),
    "number.json": ("3", "holds 3"),
    "nested.json": ('["x", ["y"], "x", "x"]', "holds ['y'] for class '1'"),
    "nothing.json": ("[]", "is empty"),
    "empty.txt": ("", "is empty"),
    "twice.json": ('{"a": 1, "a": 2}', "names 'a' twice"),
    "wide.csv": ("a,x,y\n", "'a,x,y' as row 0"),
    "semicolon.csv": ("a;x\n", "'a;x' as row 0"),
    "hole.txt": ("x\n\ny\nx\n", "has nothing for class 1"),
}


@pytest.mark.parametrize("name", BAD_GROUPS)
def test_bad_group_files_are_refused_before_data_is_read(folder, name, no_work):
    text, message = BAD_GROUPS[name]
    if text is not None:
        (folder / name).write_text(text)
    assert message in refused("collect", *SITES, "--out", "s.npz", "--groups", name)
    assert not (folder / "s.npz").exists()


UNFIT_GROUPS = {
    "short.json": ("[1, 2, 1]", "has 3 values"),
    "missing.csv": ("a,x\nb,x\nc,y\n", "leaves out 1 of 4 classes: d"),
    "unknown.csv": ("a,x\nb,x\nc,y\ne,x\n", "'e' is not a class"),
    "two-ways.json": ('{"a": 1, "0": 2, "b": 1, "c": 1, "d": 1}', "names class a twice"),
}


@pytest.mark.parametrize("name", UNFIT_GROUPS)
def test_groups_of_other_classes_are_refused_before_budget_is_spent(folder, name, monkeypatch):
    monkeypatch.setattr(fc, "collect", lambda *a, **k: pytest.fail("budget was spent"))
    text, message = UNFIT_GROUPS[name]
    (folder / name).write_text(text)
    assert message in refused("collect", *SITES, "--out", "s.npz", "--groups", name)


BAD_COLLECT = {
    "folder": (["--out", "."], ". is a folder"),
    "no folder": (["--out", "nodir/s.npz"], "nodir does not exist"),
    "ending": (["--out", "sketch"], "Call it sketch.npz"),
    "overwrite": (["--out", "site-mercy.npz"], "is to be read and to be written"),
    "report ending": (["--report", "r.pdf"], "Call it r.html"),
    "report folder": (["--report", "nodir/r.html"], "nodir does not exist"),
    "epsilon": (["--epsilon", 0], "epsilon is 0"),
    "delta": (["--epsilon", 1, "--delta", 2], "delta is 2"),
    "view": (["--epsilon", 1, "--view", "everyone"], "view is 'everyone'"),
    "unit": (["--epsilon", 1, "--unit", "person"], "unit is 'person'"),
    "relation": (["--epsilon", 1, "--relation", "friend"], "relation is 'friend'"),
    "view alone": (["--view", "secure-sum"], "--view without --epsilon"),
    "delta alone": (["--delta", 1e-6], "--delta without --epsilon"),
    "site unit": (["--epsilon", 1, "--unit", "site"], "--option most_per_site=…"),
    "option": (["--option", "speed=9"], "option 'speed=9'"),
    "bins": (["--option", "bins=1"], "bins is 1"),
    "edges": (["--option", "bins=0,.9,.5,1"], "not an increasing list"),
    "groups": (["--groups", "learned"], "learned cannot be opened"),
    "confusion twice": (["--confusion", "--option", "confusion=false"], "given twice"),
    "score": (["--score", "magic"], "score is 'magic'"),
    "previous": (["--previous", "new.npz"], "new.npz holds model outputs"),
    "merge": (["--merge", "absent.npz"], "cannot be opened"),
}


@pytest.mark.parametrize("case", BAD_COLLECT.values(), ids=BAD_COLLECT.keys())
def test_bad_collections_are_refused_before_data_is_read(folder, case, no_work):
    options, message = case
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    place = [] if "--out" in options else ["--out", "s.npz"]
    assert message in refused("collect", *SITES, *place, *options)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_bin_edges_can_be_listed(folder):
    assert run("collect", *SITES, "--out", "s.npz", "--option", "bins=0,.5,.9,1").exit_code == 0
    assert fc.SketchResult.load("s.npz").table.layout.cuts == tuple(positions([0.5, 0.9]))


def test_a_renewed_sketch_adds_what_was_spent(folder):
    assert run("collect", *SITES, "--out", "old.npz", "--epsilon", 5).exit_code == 0
    options = ("--previous", "old.npz", "--epsilon", 5)
    assert run("collect", *SITES, "--out", "new-sketch.npz", *options).exit_code == 0
    assert 5 < fc.SketchResult.load("new-sketch.npz").privacy.epsilon < 10
    other = (*options[:-1], 20)
    message = refused("collect", "site-late.npz", "--out", "x.npz", *other)
    assert "previous has none of these sites" in message
    assert "privacy in both" in refused(
        "collect", *SITES, "--out", "x.npz", "--previous", "old.npz"
    )


# merge


@pytest.mark.parametrize("privacy", [(), ("--epsilon", 20)])
def test_joining_and_merging_give_one_sketch(folder, privacy):
    def collected(*arguments):
        done = run("collect", *arguments, *privacy, "--seed", 0)
        assert done.exit_code == 0, done.output

    collected(*SITES, "--out", "two.npz")
    collected("site-late.npz", "--merge", "two.npz", "--out", "three.npz")
    three = fc.SketchResult.load("three.npz")
    assert three.sites == ("late", "mercy", "stjohn")
    assert three.table.layout == fc.SketchResult.load("two.npz").table.layout
    if privacy:
        assert three.privacy.epsilon == pytest.approx(20, rel=1e-3)
        return
    collected("site-late.npz", "--out", "one.npz")
    done = run("merge", "two.npz", "one.npz", "--out", "all.npz")
    assert "Sketch of 3 sites" in said(done)
    merged = fc.SketchResult.load("all.npz")
    assert np.array_equal(merged.table.table, three.table.table)
    collected(*SITES, "site-late.npz", "--out", "at-once.npz")
    assert np.array_equal(merged.table.table, fc.SketchResult.load("at-once.npz").table.table)


BAD_JOIN = {
    "same site": (["site-mercy.npz"], "site 'mercy' is in the sketch already"),
    "option": (["site-late.npz", "--option", "bins=64"], "--option together with --merge"),
    "confusion": (["site-late.npz", "--confusion"], "--confusion together with --merge"),
    "score": (["site-late.npz", "--score", "lac"], "--score together with --merge"),
    "temperature": (["site-late.npz", "--temperature", 2], "--temperature together with"),
    "privacy": (["site-late.npz", "--epsilon", 1], "the sketch to be joined has no privacy"),
    "two sketches": (["sketch.npz"], "is a sketch and stands in place of a site file"),
}


@pytest.mark.parametrize("case", BAD_JOIN.values(), ids=BAD_JOIN.keys())
def test_bad_joins_are_refused_before_data_is_read(sketch, case, no_work):
    arguments, message = case
    assert message in refused("collect", *arguments, "--merge", "sketch.npz", "--out", "x.npz")


def test_joining_a_private_sketch_needs_its_kind_of_privacy(folder):
    kind = ("--epsilon", 20, "--view", "secure-sum")
    assert run("collect", *SITES, "--out", "p.npz", *kind).exit_code == 0
    join = ("collect", "site-late.npz", "--merge", "p.npz", "--out", "x.npz")
    advice = "Give --epsilon 20 --delta 1e-05 --unit record --relation replace --view secure-sum"
    assert advice in refused(*join)
    assert advice in refused(*join, "--epsilon", 20)
    assert run(*join, *kind).exit_code == 0


def test_joining_needs_the_same_classes(sketch, monkeypatch):
    monkeypatch.setattr(fc, "collect", lambda *a, **k: pytest.fail("budget was spent"))
    np.savez("other.npz", probs=np.full((3, 4), 0.25), labels=[0, 1, 2])
    message = refused("collect", "other.npz", "--merge", "sketch.npz", "--out", "x.npz")
    assert "the classes 4 without names" in message


def test_joining_needs_a_known_score(folder):
    fc.collect([fc.Site("ready", [0.1, 0.5], [0, 1], n_classes=2)]).save("ready.npz")
    message = refused("collect", "site-late.npz", "--merge", "ready.npz", "--out", "x.npz")
    assert "made from ready scores" in message


def test_merging_refuses_what_does_not_belong_together(sketch):
    run("collect", "site-late.npz", "--out", "late.npz", "--option", "bins=64")
    assert "1 sketch is given" in refused("merge", "sketch.npz", "--out", "x.npz")
    assert "different bins" in refused("merge", "sketch.npz", "late.npz", "--out", "x.npz")
    assert "is in both" in refused("merge", "sketch.npz", "sketch.npz", "--out", "x.npz")
    assert "holds model outputs" in refused("merge", "sketch.npz", "new.npz", "--out", "x.npz")
    assert "nodir does not" in refused("merge", "sketch.npz", "a", "--out", "nodir/x.npz")


# personalise


def test_personalise_is_the_library_on_the_same_files(sketch):
    levels = ("--alpha", 0.1, "--alpha", 0.2)
    done = run("personalise", "sketch.npz", "--site", "site-mercy.npz", *levels, "--out", "m.json")
    assert done.exit_code == 0, done.output
    cal = fc.Calibration.load("m.json")
    counts = fc.Site.from_file("site-mercy.npz", seed=0).label_counts
    same = sketch.personalise(counts, [0.1, 0.2], name="mercy")
    assert np.array_equal(cal.thresholds, same.thresholds)
    assert (cal.target, cal.alpha, cal.guarantee) == ("mercy", (0.1, 0.2), same.guarantee)
    text = said(done)
    for part in ("Label mix: 300 counted labels", "Promise: 1-α up to the errors stated",
                 "one deviation: calibration sample", "Nothing was sent",
                 f"{same.coverage_error[1]:.3f}",
                 "fedcover predict m.json new.npz", "fedcover evaluate m.json"):  # fmt: skip
        assert part in text
    assert run("evaluate", "m.json", "new.npz").exit_code == 0
    assert run("predict", "m.json", "new.npz", "--out", "sets.csv").exit_code == 0


COUNTS = {
    "list.json": "[10, 3, 5, 0]",
    "names.json": '{"a": 10, "c": 5, "b": 3}',
    "counts.csv": "label,count\nc,5\na,10\nb,3\n",
    "numbers.csv": "2,5\n0,10\n1,3\n",
    "lines.txt": "10\n3\n5\n0\n",
    "line.txt": "10, 3, 5, 0\n",
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_from_a_file_or_by_hand(folder, sketch, name):
    (folder / name).write_text(COUNTS[name])
    assert run("personalise", "sketch.npz", "--counts-file", name, "--out", "f.json").exit_code == 0
    by_hand = run("personalise", "sketch.npz", "--counts", "10,3,5,0", "--out", "h.json")
    assert by_hand.exit_code == 0
    one, two = fc.Calibration.load("f.json"), fc.Calibration.load("h.json")
    assert np.array_equal(one.thresholds, two.thresholds)
    assert one.target == "site"


def test_shares_and_a_name(sketch):
    done = run("personalise", "sketch.npz", "--counts", ".5,.2,.2,.1", "--name", "clinic", "--out",
               "c.json")  # fmt: skip
    assert "Thresholds for clinic" in said(done)
    assert fc.Calibration.load("c.json").target == "clinic"


def test_unlabelled_records_give_the_mix(folder, sketch):
    with np.load("new.npz") as file:
        np.savez("bare.npz", logits=file["logits"])
    (folder / "training.json").write_text("[1, 1, 1, 1]")
    for name, source in (("u.json", ()), ("t.json", ("--source", "training.json"))):
        done = run("personalise", "sketch.npz", "--unlabelled", "bare.npz", "--out", name, *source)
        assert "only as right as these are" in said(done)
        assert fc.Calibration.load(name).target == "bare"
    probs = fc.softmax(np.load("bare.npz")["logits"])
    same = sketch.personalise(probabilities=probs, source=[1, 1, 1, 1], name="bare")
    assert np.array_equal(fc.Calibration.load("t.json").thresholds, same.thresholds)


@pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")  # how much noise there is differs
def test_own_scores_are_made_as_those_of_the_sketch(folder):
    options = ("--score", "raps", "--score-option", "u=1", "--temperature", 2)
    assert run("collect", *SITES, "--out", "s.npz", *options, "--epsilon", 5).exit_code == 0
    own = ("--site", "site-late.npz", "--use-own-scores")
    done = run("personalise", "s.npz", *own, "--out", "l.json")
    assert done.exit_code == 0, done.output
    assert "own scores count" in said(done)
    site = fc.Site.from_file("site-late.npz", score=fc.scores.RAPS(u=1.0), temperature=2)
    sketch = fc.SketchResult.load("s.npz")
    same = sketch.personalise(site.label_counts, local_scores=site.scores, name="late")
    cal = fc.Calibration.load("l.json")
    assert np.array_equal(cal.thresholds, same.thresholds)
    np.savez("probs.npz", probs=np.full((2, 4), 0.25), labels=[0, 1])
    message = refused("personalise", "s.npz", "--site", "probs.npz", "--out", "x.json")
    assert "the sketch divided logits" in message


def test_label_counts_in_the_file_stand_for_its_mix(sketch):
    with np.load("site-late.npz") as file:
        np.savez("counted.npz", **file, label_counts=[100, 20, 3, 1])
    assert (
        run("personalise", "sketch.npz", "--site", "counted.npz", "--out", "c.json").exit_code == 0
    )
    same = sketch.personalise([100, 20, 3, 1], name="counted")
    assert np.array_equal(fc.Calibration.load("c.json").thresholds, same.thresholds)


def test_notes_are_shown_once(sketch, monkeypatch, capsys):
    arguments = ["personalise", "sketch.npz", "--counts", "1,1,1,1", "--out", "n.json"]
    monkeypatch.setattr("sys.argv", ["fedcover", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    shown = capsys.readouterr()
    notes = fc.Calibration.load("n.json").notes
    assert notes
    for note in notes:
        assert " ".join(shown.out.split()).count(note) == 1
        assert note not in " ".join(shown.err.split())


BAD_PERSONAL = {
    "no mix": ([], "no label mix is given"),
    "two mixes": (["--counts", "1,1,1,1", "--unlabelled", "new.npz"], "--counts and --unlabelled"),
    "words": (["--counts", "many,few"], "value 0 is 'many'"),
    "decimal comma": (["--counts", "1,-2,3,4"], "value 1 is '-2'"),
    "all zero": (["--counts", "0,0,0,0"], "has nothing above 0"),
    "alpha": (["--counts", "1,1,1,1", "--alpha", 1.5], "alpha is 1.5"),
    "certify": (["--counts", "1,1,1,1", "--certify", 95], "certify is 95"),
    "name": (["--counts", "1,1,1,1", "--name", "\n"], "name is"),
    "source": (["--counts", "1,1,1,1", "--source", "x.json"], "--source without --unlabelled"),
    "own scores": (["--counts", "1,1,1,1", "--use-own-scores"], "--use-own-scores without --site"),
    "file": (["--counts-file", "absent.json"], "cannot be opened"),
    "ending": (["--counts", "1,1,1,1", "--out", "m.npz"], "Call it m.json"),
    "overwrite": (["--counts-file", "c.json", "--out", "c.json"], "is to be read and"),
    "folder": (["--counts", "1,1,1,1", "--out", "nodir/m.json"], "nodir does not exist"),
    "report": (["--counts", "1,1,1,1", "--report", "r.txt"], "Call it r.html"),
    "sketch as site": (["--site", "sketch.npz"], "sketch.npz is a sketch"),
}


@pytest.mark.parametrize("case", BAD_PERSONAL.values(), ids=BAD_PERSONAL.keys())
def test_bad_personal_input_is_refused_before_data_is_read(folder, sketch, case, no_work):
    options, message = case
    (folder / "c.json").write_text("[1, 1, 1, 1]")
    place = [] if "--out" in options else ["--out", "m.json"]
    assert message in refused("personalise", "sketch.npz", *options, *place)
    assert not (folder / "m.json").exists()


def test_files_that_do_not_fit_the_sketch(folder, sketch):
    np.savez("bare.npz", logits=np.zeros((5, 4)))
    np.savez("three.npz", logits=np.zeros((5, 3)), labels=[0, 1, 2, 0, 1])
    np.savez("swapped.npz", logits=np.zeros((5, 4)), labels=[0] * 5, label_names=list("abdc"))
    (folder / "short.json").write_text("[1, 2]")
    for options, message in (
        (("--site", "bare.npz"), "Give it with --unlabelled"),
        (("--site", "three.npz"), "has 3 classes"),
        (("--unlabelled", "three.npz"), "has 3 classes"),
        (("--site", "swapped.npz"), "names its classes a, b, d, c"),
        (("--counts-file", "short.json"), "has 2 values"),
        (("--counts", "1,2"), "label_counts is [1. 2.]"),
    ):
        assert message in refused("personalise", "sketch.npz", *options, "--out", "x.json")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("new.npz", "holds model outputs"),
        ("cal.json", "A calibration (.json) is ready"),
        ("absent.npz", "cannot be opened"),
    ],
)
def test_what_is_no_sketch(folder, sketch, name, message):
    (folder / "cal.json").write_text("{}")
    command = ("personalise", name, "--counts", "1,1,1,1", "--out", "x.json")
    assert message in refused(*command)


def test_sketches_of_ready_scores_need_counts(folder):
    site = fc.Site("ready", np.linspace(0, 1, 50), np.arange(50) % 4, n_classes=4)
    fc.collect([site]).save("ready.npz")
    own = ("--site", "new.npz", "--use-own-scores")
    assert "made from ready scores" in refused("personalise", "ready.npz", *own, "--out", "x.json")
    done = run("personalise", "ready.npz", "--site", "new.npz", "--out", "x.json", "--report",
               "x.html")  # fmt: skip
    assert done.exit_code == 0, done.output


# calibrate


@pytest.mark.parametrize(
    "privacy", [(), ("--epsilon", 4), ("--epsilon", 4, "--view", "secure-sum")]
)
def test_calibrate_by_sketch_and_by_choice(folder, privacy):
    for method in ("sketch", "auto"):
        done = run("calibrate", *SITES, "--method", method, "--out", method, *privacy)
        assert done.exit_code == 0, done.output
        cal = fc.Calibration.load(f"{method}/mercy.json")
        assert (cal.privacy is not None) == bool(privacy)
    assert fc.Calibration.load("sketch/mercy.json").method == "Sketch"
    assert "the file of each target states its own errors" in said(
        run("calibrate", *SITES, "--method", "sketch", "--out", "o")
    )
    chosen = json.loads((folder / "auto/mercy.json").read_text())["calibration"]
    assert f"{chosen['method']}:" in " ".join(chosen["notes"])


def test_calibrate_refuses_options_of_a_method_yet_to_be_chosen(folder, no_work):
    message = refused("calibrate", *SITES, "--method", "auto", "--option", "bins=64", "--out", "o")
    assert "yet to be chosen" in message
    assert ", auto" in refused("calibrate", *SITES, "--method", "magic", "--out", "o")
    assert "--unit without --epsilon" in refused(
        "calibrate", *SITES, "--unit", "site", "--out", "o"
    )


@pytest.mark.parametrize("method", [(), ("--method", "sketch"), ("--method", "auto")])
def test_certify_reaches_the_library(folder, monkeypatch, method):
    """A certificate is the library's; the commands hand the wish on, and show what comes back."""
    sure = Certificate(0.95, "At least 1-α with probability .95 [over the records].")
    heard = []

    def certified(real):
        def inner(*arguments, **named):
            heard.append(0.95 in (*arguments, *named.values()))
            made = real(*arguments)
            return {name: replace(cal, certificate=sure) for name, cal in made.items()}

        return inner

    monkeypatch.setattr(fc, "calibrate", certified(fc.calibrate))
    done = run("calibrate", *SITES, *method, "--certify", 0.95, "--out", "o")
    assert done.exit_code == 0, done.output
    assert heard == [True]
    assert sure.statement in said(done)


def test_personalise_certifies_as_the_library(folder, sketch):
    options = ("--counts", "30,20,20,10", "--alpha", 0.2, "--certify", 0.8)
    done = run("personalise", "sketch.npz", *options, "--out", "c.json", "--report", "c.html")
    assert done.exit_code == 0, done.output
    cal = fc.Calibration.load("c.json")
    same = sketch.personalise([30, 20, 20, 10], 0.2, certify=0.8)
    assert np.array_equal(cal.thresholds, same.thresholds)
    assert cal.certificate.statement == same.certificate.statement
    assert cal.certificate.statement in said(done)
    assert "≥ 0.8 (0.8)" in said(done)


def test_certify_needs_a_method_that_can(folder, no_work):
    for method in ("dp-fedcp", "pooled"):
        message = refused("calibrate", *SITES, "--method", method, "--certify", 0.9, "--out", "o")
        assert "certify with method" in message
    assert "certify is 1" in refused("calibrate", *SITES, "--certify", 1, "--out", "o")


def test_calibrate_shows_the_error_of_every_level(folder):
    levels = ("--alpha", 0.05, "--alpha", 0.2)
    done = run("calibrate", *SITES, "--method", "sketch", "--out", "o", *levels)
    for name in ("mercy", "stjohn"):
        for error in fc.Calibration.load(f"o/{name}.json").coverage_error:
            assert f"{error:.3f}" in done.output
