"""`collect`, `merge` and `personalise`: the way from site files to a site's own calibration."""

import json
from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover.certificate import Certificate
from fedcover.cli.words import at_the_command_line
from fedcover.position import positions
from tests.test_cli import names, refused, run, said, spoil, stopped

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
def no_work(folder, monkeypatch):
    """Fails where data is read, because it is bad, or collected."""
    spoil(*SITES, "site-late.npz", "new.npz")
    monkeypatch.setattr(fc, "collect", lambda *a, **k: pytest.fail("budget was spent"))


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
                 sketch.privacy.describe(),
                 "fedcover personalise s.npz --site site-mercy.npz"):  # fmt: skip
        assert part in text
    assert sketch.privacy.epsilon == pytest.approx(4, rel=1e-3)
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
    error = refused(command, *given, *place, "--mode", "guaranteed")
    assert names(error, "mode='guaranteed'")
    assert "certify=0.95" in error.fix
    assert "--mode" not in run(command, "--help").output


@pytest.mark.parametrize("option", ["mode=guaranteed", "warp=upper", "design=none"])
def test_options_of_the_sketch_that_are_gone(folder, no_work, option):
    key, _, value = option.partition("=")
    error = refused("collect", *SITES, "--out", "s.npz", "--option", option)
    assert names(error, f"{key}={value!r}")


BAD_GROUPS = {
    "absent.json": (None, "No such file"),
    "broken.json": ("{", "not JSON"),
    "number.json": ("3", "3"),
    "nested.json": ('["x", ["y"], "x", "x"]', "['y'] for class '1'"),
    "nothing.json": ("[]", "empty"),
    "empty.txt": ("", "empty"),
    "twice.json": ('{"a": 1, "a": 2}', "'a' twice"),
    "wide.csv": ("a,x,y\n", "'a,x,y' as row 0"),
    "semicolon.csv": ("a;x\n", "'a;x' as row 0"),
    "hole.txt": ("x\n\ny\nx\n", "class 1"),
}


@pytest.mark.parametrize("name", BAD_GROUPS)
def test_bad_group_files_are_refused_before_data_is_read(folder, name, no_work):
    text, fact = BAD_GROUPS[name]
    if text is not None:
        (folder / name).write_text(text)
    error = refused("collect", *SITES, "--out", "s.npz", "--groups", name)
    assert names(error, name, fact)
    assert isinstance(error, fc.FileError)
    assert not (folder / "s.npz").exists()


UNFIT_GROUPS = {
    "short.json": ("[1, 2, 1]", "3 values"),
    "missing.csv": ("a,x\nb,x\nc,y\n", "1 of 4 classes: d"),
    "unknown.csv": ("a,x\nb,x\nc,y\ne,x\n", "'e'"),
    "two-ways.json": ('{"a": 1, "0": 2, "b": 1, "c": 1, "d": 1}', "class a twice"),
}


@pytest.mark.parametrize("name", UNFIT_GROUPS)
def test_groups_of_other_classes_are_refused_before_budget_is_spent(folder, name, monkeypatch):
    monkeypatch.setattr(fc, "collect", lambda *a, **k: pytest.fail("budget was spent"))
    text, fact = UNFIT_GROUPS[name]
    (folder / name).write_text(text)
    assert names(refused("collect", *SITES, "--out", "s.npz", "--groups", name), name, fact)


BAD_COLLECT = {
    "folder": (["--out", "."], (". is a folder",), ""),
    "no folder": (["--out", "nodir/s.npz"], ("nodir",), ""),
    "ending": (["--out", "sketch"], ("sketch",), "sketch.npz"),
    "overwrite": (["--out", "site-mercy.npz"], ("site-mercy.npz",), "another name"),
    "report ending": (["--report", "r.pdf"], ("r.pdf",), "r.html"),
    "report folder": (["--report", "nodir/r.html"], ("nodir",), ""),
    "epsilon": (["--epsilon", 0], ("epsilon", 0), ""),
    "delta": (["--epsilon", 1, "--delta", 2], ("delta", 2), ""),
    "view": (["--epsilon", 1, "--view", "everyone"], ("view", "'everyone'"), ""),
    "unit": (["--epsilon", 1, "--unit", "person"], ("unit", "'person'"), ""),
    "relation": (["--epsilon", 1, "--relation", "friend"], ("relation", "'friend'"), ""),
    "view alone": (["--view", "secure-sum"], ("--view", "--epsilon"), "--epsilon 2"),
    "delta alone": (["--delta", 1e-6], ("--delta", "--epsilon"), "--epsilon 2"),
    "site unit": (["--epsilon", 1, "--unit", "site"], ("--unit site",), "how many records"),
    "option": (["--option", "speed=9"], ("option", "'speed=9'"), ""),
    "bins": (["--option", "bins=1"], ("bins", 1), ""),
    "edges": (["--option", "bins=0,.9,.5,1"], ("bins",), ""),
    "groups": (["--groups", "learned"], ("learned",), ""),
    "confusion twice": (["--confusion", "--option", "confusion=false"], ("'confusion'",), "one"),
    "score": (["--score", "magic"], ("score", "'magic'"), ""),
    "previous": (["--previous", "new.npz"], ("new.npz", "model outputs"), "--site"),
    "merge": (["--merge", "absent.npz"], ("absent.npz",), ""),
}
"""Options, what the error names, and a part of the way out where it is a special one."""


@pytest.mark.parametrize("case", BAD_COLLECT.values(), ids=BAD_COLLECT.keys())
def test_bad_collections_are_refused_before_data_is_read(folder, case, no_work):
    options, facts, way_out = case
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    place = [] if "--out" in options else ["--out", "s.npz"]
    error = refused("collect", *SITES, *place, *options)
    assert names(error, *facts)
    assert way_out in error.fix
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
    assert names(refused("collect", "site-late.npz", "--out", "x.npz", *other), "previous")
    without = refused("collect", *SITES, "--out", "x.npz", "--previous", "old.npz")
    assert "privacy" in without.allowed


# merge


def collected(*arguments):
    done = run("collect", *arguments, "--seed", 0)
    assert done.exit_code == 0, done.output


def joined(*privacy):
    """The sketch of two sites, which a third one has joined."""
    collected(*SITES, "--out", "two.npz", *privacy)
    collected("site-late.npz", "--merge", "two.npz", "--out", "three.npz", *privacy)
    three = fc.SketchResult.load("three.npz")
    assert three.sites == ("late", "mercy", "stjohn")
    assert three.table.layout == fc.SketchResult.load("two.npz").table.layout
    return three


def test_joining_a_private_sketch_keeps_its_budget(folder):
    assert joined("--epsilon", 20).privacy.epsilon == pytest.approx(20, rel=1e-3)


def test_joining_and_merging_give_one_sketch(folder):
    three = joined()
    collected("site-late.npz", "--out", "one.npz")
    done = run("merge", "two.npz", "one.npz", "--out", "all.npz")
    assert "Sketch of 3 sites" in said(done)
    merged = fc.SketchResult.load("all.npz")
    assert np.array_equal(merged.table.table, three.table.table)
    collected(*SITES, "site-late.npz", "--out", "at-once.npz")
    assert np.array_equal(merged.table.table, fc.SketchResult.load("at-once.npz").table.table)


BAD_JOIN = {
    "same site": (["site-mercy.npz"], ("'mercy'",)),
    "option": (["site-late.npz", "--option", "bins=64"], ("--option", "--merge")),
    "confusion": (["site-late.npz", "--confusion"], ("--confusion", "--merge")),
    "score": (["site-late.npz", "--score", "lac"], ("--score", "--merge")),
    "temperature": (["site-late.npz", "--temperature", 2], ("--temperature", "--merge")),
    "privacy": (["site-late.npz", "--epsilon", 1], ("--epsilon", "no privacy")),
    "two sketches": (["sketch.npz"], ("sketch.npz", "site file")),
}


@pytest.mark.parametrize("case", BAD_JOIN.values(), ids=BAD_JOIN.keys())
def test_bad_joins_are_refused_before_data_is_read(sketch, case, no_work):
    arguments, facts = case
    assert names(refused("collect", *arguments, "--merge", "sketch.npz", "--out", "x.npz"), *facts)


def test_joining_a_private_sketch_needs_its_kind_of_privacy(folder):
    kind = ("--epsilon", "20", "--view", "secure-sum")
    assert run("collect", *SITES, "--out", "p.npz", *kind).exit_code == 0
    join = ("collect", "site-late.npz", "--merge", "p.npz", "--out", "x.npz")
    for options in ((), ("--epsilon", 20)):
        error = refused(*join, *options)
        assert names(error, "--view secure-sum")
        _, *advice = error.fix.split()
        assert run(*join, *advice).exit_code == 0  # the way out is one
    assert run(*join, *kind).exit_code == 0


def test_joining_needs_the_same_classes(sketch, monkeypatch):
    monkeypatch.setattr(fc, "collect", lambda *a, **k: pytest.fail("budget was spent"))
    np.savez("other.npz", probs=np.full((3, 4), 0.25), labels=[0, 1, 2])
    error = refused("collect", "other.npz", "--merge", "sketch.npz", "--out", "x.npz")
    assert names(error, "4 without names")
    assert "a, b, c, d" in error.allowed


def test_joining_needs_a_known_score(folder):
    fc.collect([fc.Site("ready", [0.1, 0.5], [0, 1], n_classes=2)]).save("ready.npz")
    error = refused("collect", "site-late.npz", "--merge", "ready.npz", "--out", "x.npz")
    assert names(error, "ready scores")
    assert "fedcover.collect" in error.fix


def test_merging_refuses_what_does_not_belong_together(sketch):
    run("collect", "site-late.npz", "--out", "late.npz", "--option", "bins=64")
    for files, facts in (
        (["sketch.npz"], ("1 sketch",)),
        (["sketch.npz", "late.npz"], ("different bins",)),
        (["sketch.npz", "sketch.npz"], ("'mercy'", "both")),
        (["sketch.npz", "new.npz"], ("new.npz", "model outputs")),
    ):
        assert names(refused("merge", *files, "--out", "x.npz"), *facts)
    assert names(refused("merge", "sketch.npz", "a", "--out", "nodir/x.npz"), "nodir")


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
    for part in ("300 counted labels", same.guarantee, f"{same.coverage_error[1]:.3f}",
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
    assert "clinic" in said(done)
    assert fc.Calibration.load("c.json").target == "clinic"


def test_unlabelled_records_give_the_mix(folder, sketch):
    with np.load("new.npz") as file:
        np.savez("bare.npz", logits=file["logits"])
    (folder / "training.json").write_text("[1, 1, 1, 1]")
    for name, source in (("u.json", ()), ("t.json", ("--source", "training.json"))):
        done = run("personalise", "sketch.npz", "--unlabelled", "bare.npz", "--out", name, *source)
        assert "200 unlabelled records" in said(done)
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
    site = fc.Site.from_file("site-late.npz", score=fc.scores.RAPS(u=1.0), temperature=2)
    sketch = fc.SketchResult.load("s.npz")
    same = sketch.personalise(site.label_counts, local_scores=site.scores, name="late")
    cal = fc.Calibration.load("l.json")
    assert np.array_equal(cal.thresholds, same.thresholds)
    np.savez("probs.npz", probs=np.full((2, 4), 0.25), labels=[0, 1])
    assert "own scores" in cal.guarantee
    assert cal.guarantee in said(done)
    error = refused("personalise", "s.npz", "--site", "probs.npz", "--out", "x.json")
    assert names(error, "probs.npz", "sketch", 2)


def test_label_counts_in_the_file_stand_for_its_mix(sketch):
    with np.load("site-late.npz") as file:
        np.savez("counted.npz", **file, label_counts=[100, 20, 3, 1])
    assert (
        run("personalise", "sketch.npz", "--site", "counted.npz", "--out", "c.json").exit_code == 0
    )
    same = sketch.personalise([100, 20, 3, 1], name="counted")
    assert np.array_equal(fc.Calibration.load("c.json").thresholds, same.thresholds)


def test_notes_are_shown_once(sketch, monkeypatch, capsys):
    arguments = ("personalise", "sketch.npz", "--counts", "1,1,1,1", "--out", "n.json")
    code, out, err = stopped(monkeypatch, capsys, *arguments)
    assert code == 0
    notes = fc.Calibration.load("n.json").notes
    assert notes
    for note in map(at_the_command_line, notes):
        assert out.count(note) == 1
        assert note not in err


EVEN = ["--counts", "1,1,1,1"]
BAD_PERSONAL = {
    "no mix": ([], ("label mix",), "--site"),
    "two mixes": ([*EVEN, "--unlabelled", "new.npz"], ("--counts", "--unlabelled"), ""),
    "words": (["--counts", "many,few"], ("--counts", "value 0", "'many'"), "10,3,5"),
    "decimal comma": (["--counts", "1,-2,3,4"], ("--counts", "value 1", "'-2'"), "10,3,5"),
    "all zero": (["--counts", "0,0,0,0"], ("--counts",), ""),
    "alpha": ([*EVEN, "--alpha", 1.5], ("alpha", 1.5), ""),
    "certify": ([*EVEN, "--certify", 95], ("certify", 95), ""),
    "name": ([*EVEN, "--name", "\n"], ("name",), ""),
    "source": ([*EVEN, "--source", "x.json"], ("--source", "--unlabelled"), ""),
    "own scores": ([*EVEN, "--use-own-scores"], ("--use-own-scores", "--site"), "--site"),
    "file": (["--counts-file", "absent.json"], ("absent.json",), ""),
    "ending": ([*EVEN, "--out", "m.npz"], ("m.npz",), "m.json"),
    "overwrite": (["--counts-file", "c.json", "--out", "c.json"], ("c.json",), "another name"),
    "folder": ([*EVEN, "--out", "nodir/m.json"], ("nodir",), ""),
    "report": ([*EVEN, "--report", "r.txt"], ("r.txt",), "r.html"),
    "sketch as site": (["--site", "sketch.npz"], ("sketch.npz", "site file"), "fedcover merge"),
}
"""Options, what the error names, and a part of the way out where it is a special one."""


@pytest.mark.parametrize("case", BAD_PERSONAL.values(), ids=BAD_PERSONAL.keys())
def test_bad_personal_input_is_refused_before_data_is_read(folder, sketch, case, no_work):
    options, facts, way_out = case
    (folder / "c.json").write_text("[1, 1, 1, 1]")
    place = [] if "--out" in options else ["--out", "m.json"]
    error = refused("personalise", "sketch.npz", *options, *place)
    assert names(error, *facts)
    assert way_out in error.fix
    assert not (folder / "m.json").exists()


def test_files_that_do_not_fit_the_sketch(folder, sketch):
    np.savez("bare.npz", logits=np.zeros((5, 4)))
    np.savez("three.npz", logits=np.zeros((5, 3)), labels=[0, 1, 2, 0, 1])
    np.savez("foreign.npz", logits=np.zeros((5, 4)), labels=[0] * 5, label_names=list("abde"))
    (folder / "short.json").write_text("[1, 2]")
    for options, facts in (
        (("--site", "bare.npz"), ("bare.npz", "no labels")),
        (("--site", "three.npz"), ("three.npz", "3 classes")),
        (("--unlabelled", "three.npz"), ("three.npz", "3 classes")),
        (("--site", "foreign.npz"), ("foreign.npz", "no class c")),
        (("--counts-file", "short.json"), ("short.json", "2 values")),
        (("--counts", "1,2"), ("label_counts", "[1. 2.]")),
    ):
        assert names(refused("personalise", "sketch.npz", *options, "--out", "x.json"), *facts)
    bare = refused("personalise", "sketch.npz", "--site", "bare.npz", "--out", "x.json")
    assert "--unlabelled" in bare.fix


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("new.npz", "--site"), ("cal.json", "fedcover predict"), ("absent.npz", "")],
)
def test_what_is_no_sketch(folder, sketch, name, way_out):
    (folder / "cal.json").write_text("{}")
    error = refused("personalise", name, *EVEN, "--out", "x.json")
    assert names(error, name)
    assert isinstance(error, fc.FileError)
    assert way_out in error.fix


def test_sketches_of_ready_scores_need_counts(folder):
    site = fc.Site("ready", np.linspace(0, 1, 50), np.arange(50) % 4, n_classes=4)
    fc.collect([site]).save("ready.npz")
    own = ("--site", "new.npz", "--use-own-scores")
    error = refused("personalise", "ready.npz", *own, "--out", "x.json")
    assert names(error, "--use-own-scores", "ready.npz")
    assert "SketchResult.personalise" in error.fix
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
    shown = said(run("calibrate", *SITES, "--method", "sketch", "--out", "o"))
    promises = {fc.Calibration.load(f"o/{site}.json").guarantee for site in ("mercy", "stjohn")}
    assert len(promises) == 2  # so what is shown for all is what they share
    assert not any(promise in shown for promise in promises)
    chosen = json.loads((folder / "auto/mercy.json").read_text())["calibration"]
    assert f"{chosen['method']}:" in " ".join(chosen["notes"])


def test_calibrate_refuses_options_of_a_method_yet_to_be_chosen(folder, no_work):
    calibrate = ("calibrate", *SITES, "--out", "o")
    error = refused(*calibrate, "--method", "auto", "--option", "bins=64")
    assert names(error, "'bins=64'", "auto")
    assert "--method sketch" in error.fix
    assert "auto" in refused(*calibrate, "--method", "magic").allowed
    assert names(refused(*calibrate, "--unit", "site"), "--unit", "--epsilon")


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
        error = refused("calibrate", *SITES, "--method", method, "--certify", 0.9, "--out", "o")
        assert names(error, "certify")
        assert "sketch" in f"{error.allowed} {error.fix}".lower()
    assert names(refused("calibrate", *SITES, "--certify", 1, "--out", "o"), "certify", 1)


def test_calibrate_shows_the_error_of_every_level(folder):
    levels = ("--alpha", 0.05, "--alpha", 0.2)
    done = run("calibrate", *SITES, "--method", "sketch", "--out", "o", *levels)
    for name in ("mercy", "stjohn"):
        for error in fc.Calibration.load(f"o/{name}.json").coverage_error:
            assert f"{error:.3f}" in done.output
