"""Confusing calls, each with the behaviour that is wanted: the facts of a message, not its words.

Every one of these was seen, or is a slip that a newcomer makes in the first hour. A test names the
call, and what must come of it: a value that is accepted, or an error of ours with the words that
the user needs.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover._io.facts import from_json, to_json
from fedcover.members import Member
from fedcover.outputs import probabilities
from fedcover.results import html_table

NAMES = ["flu", "cold", "covid", "none"]


def outputs(n, seed=0, n_classes=4):
    """Probabilities of a model that is mostly right, and the labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    weights = np.exp(rng.normal(size=(n, n_classes)) + 2 * np.eye(n_classes)[labels])
    return weights / weights.sum(axis=1, keepdims=True), labels


P, Y = outputs(200)
Q, Z = outputs(80, seed=1)


def site(probs=P, labels=Y, **more):
    return fc.Site.from_probabilities("mercy", probs, labels, seed=0, **more)


SITES = [site(), fc.Site.from_probabilities("stjohn", Q, Z, seed=0)]
CAL = fc.calibrate(SITES)["mercy"]
CALS = fc.calibrate(SITES, [0.05, 0.2], "local")
SKETCH = fc.collect(SITES)


def frame(probs=P, names=NAMES):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(probs, columns=names)


REFUSED = {
    "confidence_level": (lambda: fc.calibrate(SITES, confidence_level=0.9), "alpha=0.1"),
    "coverage": (lambda: fc.calibrate(SITES, coverage=0.95), "alpha=0.05"),
    "coverage in percent": (lambda: fc.calibrate(SITES, coverage=90), "alpha=0.1"),
    "significance": (lambda: fc.calibrate(SITES, significance=0.2), "alpha=0.2"),
    "confidence_level, personalise": (
        lambda: SKETCH.personalise(SITES[0], confidence_level=0.9),
        "alpha=0.1",
    ),
    "alpha at prediction": (lambda: CAL.predict_set(Q, alpha=0.1), "calibration.alpha"),
    "alpha of a sketch": (lambda: fc.collect(SITES, alpha=0.1), "personalise"),
    "alpha in percent": (lambda: fc.calibrate(SITES, 90), "alpha=0.1"),
    "alpha as text": (lambda: fc.calibrate(SITES, "0.1"), "quotation marks"),
    "a method misspelt": (lambda: fc.calibrate(SITES, method="sketsch"), "'sketch'"),
    "a method's class": (lambda: fc.calibrate(SITES, method=fc.methods.Local), "Local()"),
    "a method with options": (
        lambda: fc.calibrate(SITES, method="oracle-weights"),
        "OracleWeights(...)",
    ),
    "a score by name": (lambda: site(score="lac"), "fedcover.scores.LAC()"),
    "sites in a dictionary": (lambda: fc.calibrate({"a": SITES[0]}), "list(sites.values())"),
    "scores above 1": (lambda: fc.Site("a", [0.1, 7.0], [0, 1], n_classes=2), "such as 10"),
    "scores just above 1": (lambda: fc.Site("a", [0.1, 1.00001], [0, 1], n_classes=2), "1.00001"),
    "scores as text": (lambda: fc.Site("a", ["0.1"], [0], n_classes=2), "astype(float)"),
    "logits": (lambda: site(4 * np.log(P)), "from_logits"),
    "percentages": (lambda: site(100 * P), "percent"),
    "a class is missing": (lambda: site(P[:, :3], np.minimum(Y, 2)), "every class has a column"),
    "one-hot labels": (lambda: site(labels=np.eye(4)[Y]), "argmax"),
    "labels from 1": (lambda: site(labels=Y + 1), "labels - 1"),
    "a column of text": (lambda: site(frame().assign(patient="x")), "'patient'"),
    "a class renamed": (
        lambda: fc.calibrate([site(frame())])["mercy"].predict_set(frame(Q, ["flue", *NAMES[1:]])),
        "flue",
    ),
    "labels for label counts": (lambda: SKETCH.personalise(Y), "bincount"),
    "coverage of nothing": (lambda: CAL.predict_set(Q[:0]).coverage([]), "at least one"),
    "a picture of nothing": (lambda: CAL.predict_set(Q[:0]).plot(), "at least one"),
    "privacy as a number": (lambda: fc.calibrate(SITES, privacy=2), "fedcover.Privacy"),
    "a table without the labels": (lambda: CAL.predict_set(Z), "one column per class"),
    "other classes": (lambda: CAL.predict_set(Q[:, :2] / Q[:, :2].sum(1)[:, None]), "2 classes"),
}


@pytest.mark.parametrize(("call", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_slip_is_refused_and_the_message_says_what_to_do(call, says):
    with pytest.raises(fc.FedcoverError) as caught:
        call()
    assert says in str(caught.value)


def test_an_argument_that_nobody_has_is_pythons_own_error():
    with pytest.raises(TypeError, match="alhpa"):
        fc.calibrate(SITES, alhpa=0.1)


@pytest.mark.parametrize("level", [0.9, 0.51])
def test_a_large_alpha_is_asked_about_and_used(level):
    with pytest.warns(fc.FedcoverWarning, match=f"did you mean alpha={1 - level:.3g}"):
        cal = fc.calibrate(SITES, level)["mercy"]
    assert cal.alpha == (level,)


def test_half_is_no_large_alpha():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fc.calibrate(SITES, 0.5)


@pytest.mark.parametrize("name", fc.methods.registry.names())
def test_every_registered_method_can_be_named(name):
    kind = fc.methods.registry.named(name).method
    named, made = (fc.calibrate(SITES, method=m)["mercy"] for m in (name, kind()))
    assert (named.method, named.options) == (made.method, made.options)


@pytest.mark.parametrize("name", ["Local", "LOCAL", "DPFedCP", "dp_fedcp", "t_digest", "Sketch"])
def test_names_of_methods_are_read_in_any_case(name):
    label = fc.calibrate(SITES, method=name)["mercy"].method
    assert label.lower().replace("-", "") == name.lower().replace("_", "")


def test_collect_takes_the_name_of_the_sketch_and_of_nothing_else():
    assert fc.collect(SITES, "sketch") == SKETCH
    with pytest.raises(fc.FedcoverError, match="calibrate"):
        fc.collect(SITES, "local")


def test_labels_come_back_as_they_were():
    assert {type(label) for labels in CAL.predict_set(Q, seed=0) for label in labels} == {int}
    named = fc.calibrate([site(label_names=NAMES)])["mercy"].predict_set(Q, seed=0)
    assert set().union(*named) <= set(NAMES)
    numbered = fc.calibrate([site(labels=10 * Y, label_names=[0, 10, 20, 30])])["mercy"]
    sets = numbered.predict_set(Q, seed=0)
    assert set().union(*sets) == {0, 10, 20, 30}
    assert sets.coverage(10 * Z) == CAL_LOCAL.predict_set(Q, seed=0).coverage(Z)
    with pytest.raises(fc.FedcoverError, match="no class"):
        sets.coverage(Z + 1)


CAL_LOCAL = fc.calibrate([site()])["mercy"]


def test_numbers_that_count_from_1_are_labels(tmp_path):
    cal = fc.calibrate([site(labels=Y + 1, label_names=range(1, 5))])["mercy"]
    cal.save(tmp_path / "c.json")
    again = fc.Calibration.load(tmp_path / "c.json")
    assert again.label_names == (1, 2, 3, 4)
    assert again.predict_set(P, seed=0).coverage(Y + 1) == CAL_LOCAL.predict_set(
        P, seed=0
    ).coverage(Y)
    sketch = fc.collect([site(labels=Y + 1, label_names=range(1, 5))])
    sketch.save(tmp_path / "s.npz")
    sketch = fc.SketchResult.load(tmp_path / "s.npz")
    assert sketch.label_names == (1, 2, 3, 4)
    assert sketch.personalise(labels=Y + 1, alpha=0.1, name="mercy").n_records == len(Y)


@pytest.mark.parametrize("first", [0, 1])
def test_a_csv_file_with_numbered_columns_has_numbered_classes(tmp_path, first):
    path = tmp_path / "site-mercy.csv"
    rows = [",".join(map(str, [*row, label + first])) for row, label in zip(P, Y, strict=True)]
    path.write_text("\n".join([",".join(str(first + k) for k in range(4)) + ",label", *rows]))
    cal = fc.calibrate([fc.Site.from_file(path, seed=0)])["mercy"]
    assert cal.label_names == (None if first == 0 else (1, 2, 3, 4))
    assert cal.predict_set(P, seed=0).coverage(Y + first) == CAL_LOCAL.predict_set(
        P, seed=0
    ).coverage(Y)


@pytest.mark.parametrize("classes", [[3, 5, 9], ["b", "a", "c"], [0, 1, 2]])
def test_the_wrapper_gives_the_classes_of_its_estimator(classes):
    from sklearn.linear_model import LogisticRegression

    from fedcover.sklearn import ConformalClassifier

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    x, y = rng.normal(size=(300, 2)) + 2 * np.eye(3)[truth][:, :2], np.array(classes)[truth]
    model = ConformalClassifier(LogisticRegression().fit(x, y))
    model.set_params(calibration=fc.calibrate([model.site("a", x, y, seed=0)])["a"])
    sets = model.predict_set(x, seed=0)
    inside = [label in labels for label, labels in zip(y.tolist(), sets, strict=True)]
    assert sets.coverage(y) == np.mean(inside) > 0.8
    assert {type(label) for labels in sets for label in labels} == {type(classes[0])}


def test_old_calibrations_of_the_wrapper_give_numbers_too():
    """Version 0.1 wrote the classes 3, 5 and 9 as text."""
    from sklearn.linear_model import LogisticRegression

    from fedcover.sklearn import ConformalClassifier

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 2)), np.repeat([3, 5, 9], 30)
    model = ConformalClassifier(LogisticRegression().fit(x, y))
    old = replace(fc.calibrate([model.site("a", x, y)])["a"], label_names=("3", "5", "9"))
    sets = model.set_params(calibration=old).predict_set(x)
    assert set().union(*sets) <= {3, 5, 9}
    assert len(set().union(*sets)) > 1


def test_a_site_with_numbered_classes_says_so_over_a_network():
    made = Member.of(site(labels=Y + 1, label_names=range(1, 5)), with_records=True)
    assert Member.from_facts(from_json(to_json(made.to_facts()).encode())) == made


@pytest.mark.parametrize("one", [P[0], P[0].tolist(), P[:1]], ids=["vector", "list", "matrix"])
def test_a_single_record_is_a_batch_of_one(one):
    u = CAL.predict_set(P[:1], seed=0)
    assert CAL.predict_set(one, seed=0) == u
    assert len(u) == 1


@pytest.mark.parametrize("none", [np.zeros((0, 4)), [], P[:0]], ids=["shape", "list", "slice"])
def test_a_batch_may_be_empty(none, tmp_path):
    sets = CAL.predict_set(none)
    assert (len(sets), list(sets), sets.mask.shape) == (0, [], (0, 4))
    assert "0 records" in repr(sets)
    sets._repr_html_()
    sets.to_csv(tmp_path / "sets.csv")
    assert len(CAL.predict_set(logits=none)) == len(CAL.sets_from_scores(none)) == 0


def test_a_row_of_a_table_is_a_record():
    cal = fc.calibrate([site(frame())])["mercy"]
    row = frame()[NAMES[::-1]].iloc[5]
    assert cal.predict_set(row, seed=0) == cal.predict_set(P[5], seed=0)


def test_named_columns_are_put_in_order():
    cal = fc.calibrate([site(frame())])["mercy"]
    assert cal.predict_set(frame(Q)[NAMES[::-1]], seed=0) == cal.predict_set(Q, seed=0)
    assert cal.sets_from_scores(frame(Q)[NAMES[::-1]]) == cal.sets_from_scores(Q)


def test_sites_with_their_columns_in_another_order_fit_together():
    words = np.array(NAMES)
    first = site(frame(), words[Y], score=fc.scores.LAC())
    other = {"score": fc.scores.LAC(), "seed": 0}
    plain = fc.Site.from_probabilities("b", frame(Q), words[Z], **other)
    turned = fc.Site.from_probabilities("b", frame(Q)[NAMES[::-1]], words[Z], **other)
    assert fc.calibrate([first, turned]) == fc.calibrate([first, plain])
    assert fc.collect([first, turned]) == fc.collect([first, plain])
    assert fc.collect([first]).personalise(turned) == fc.collect([first]).personalise(plain)


@pytest.mark.parametrize("excess", [1e-12, 2e-7])
def test_scores_out_of_range_by_rounding_are_at_the_end_of_it(excess):
    made = fc.Site("a", [0.5, 1 + excess, -excess], [0, 1, 1], n_classes=2)
    assert made.scores.tolist() == [0.5, 1.0, 0.0]


def test_negative_entries_within_rounding_are_zero():
    nearly = np.where(np.sort(P, axis=1)[:, 1:2] > P, -2e-16, P)
    nearly /= nearly.sum(axis=1, keepdims=True)
    assert (nearly < 0).any()
    assert np.array_equal(site(nearly).positions, site(np.maximum(nearly, 0)).positions)
    assert (nearly < 0).any(), "the caller's array is not touched"


@pytest.mark.parametrize("decimals", [2, 3])
def test_rounded_probabilities_are_mended_with_a_note(decimals):
    rounded = np.round(P, decimals)
    assert np.abs(rounded.sum(axis=1) - 1).max() > 0.9 * 10.0**-decimals
    with pytest.warns(fc.FedcoverWarning, match="rows sum to 1 only within"):
        made = site(rounded, score=fc.scores.LAC())
    with pytest.warns(fc.FedcoverWarning, match="divided by its sum"):
        assert np.abs(probabilities(rounded).sum(axis=1) - 1).max() <= 1e-3
    exact = rounded / rounded.sum(axis=1, keepdims=True)
    off = np.abs(rounded.sum(axis=1) - 1) > 1e-3
    assert off.any()
    assert np.allclose(made.scores[off], 1 - exact[np.arange(200), Y][off], rtol=0, atol=1e-12)
    assert np.abs(made.scores - site(score=fc.scores.LAC()).scores).max() < 2 * 10.0**-decimals


def test_many_classes_may_lose_more_by_rounding():
    probs, labels = outputs(50, n_classes=100)
    with pytest.warns(fc.FedcoverWarning, match="within"):
        site(np.round(probs, 3), labels)


def test_rows_that_are_far_off_are_not_mended():
    with pytest.raises(fc.FedcoverError, match=r"sums to 0\.9"):
        site(np.round(P, 1))


def test_labels_in_a_column_are_labels():
    assert np.array_equal(site(labels=Y[:, None]).labels, Y)
    assert CAL.predict_set(Q, seed=0).coverage(Z[:, None]) == CAL.predict_set(Q, seed=0).coverage(Z)


def test_numbers_in_python_objects_are_numbers():
    assert np.array_equal(site(P.astype(object)).positions, site().positions)


def test_a_folder_is_said_to_be_one(tmp_path):
    np.savez(tmp_path / "site-mercy.npz", probs=P, labels=Y)
    with pytest.raises(fc.FileError, match=r"is a folder.*\*\.npz"):
        fc.Site.from_file(tmp_path)
    (tmp_path / "data").write_text("")
    with pytest.raises(fc.FileError, match="no ending"):
        fc.Site.from_file(tmp_path / "data")


def test_notes_for_labels_the_target_does_not_have():
    few = fc.Site.from_probabilities("few", P[Y < 3], Y[Y < 3], seed=0)
    one = fc.Site.from_probabilities("one", P[Y == 2], Y[Y == 2], seed=0)
    cals = fc.calibrate([SITES[0], few, one])
    assert any("has no label 3" in note for note in cals["few"].notes)
    assert any("label 2 alone" in note for note in cals["one"].notes)
    assert cals["mercy"].notes == ()


def test_notes_for_sites_without_class_names():
    with_names = site(label_names=NAMES)
    cal = fc.calibrate([with_names, SITES[1]])["mercy"]
    assert any("stjohn" in note and "no names" in note for note in cal.notes)
    with pytest.warns(fc.FedcoverWarning, match="stjohn: its classes have no names"):
        fc.collect([with_names, SITES[1]])


def test_the_guarantee_says_which_level_it_speaks_of():
    assert "at alpha=0.2" in SKETCH.personalise(SITES[0], [0.05, 0.2]).guarantee
    assert "alpha=" not in SKETCH.personalise(SITES[0], 0.2).guarantee
    for cal in (SKETCH.personalise(SITES[0], [0.05, 0.2], certify=0.9), CALS["stjohn"]):
        assert "each α of 0.05, 0.2" in cal.guarantee
    own = SKETCH.personalise(SITES[0], [0.05, 0.2], local_scores=SITES[0].scores)
    assert "at alpha=0.2" in own.guarantee


def test_results_are_equal_after_save_and_load(tmp_path):
    private = fc.collect(SITES, privacy=fc.Privacy(20, 1e-5))
    for k, cal in enumerate((CAL, private.personalise(SITES[0], [0.1, 0.2], certify=0.9))):
        cal.save(tmp_path / f"{k}.json")
        again = fc.Calibration.load(tmp_path / f"{k}.json")
        assert again == cal
        assert hash(again) == hash(cal)
    for sketch in (SKETCH, private):
        sketch.save(tmp_path / "s.npz")
        assert fc.SketchResult.load(tmp_path / "s.npz") == sketch
    assert CAL.predict_set(Q, seed=0) == CAL.predict_set(Q, seed=0)
    assert CAL.predict_set(Q, seed=0) != CAL.predict_set(P[:80], seed=0)
    assert fc.calibrate(SITES, 0.2)["mercy"] != CAL != "mercy"
    assert private != SKETCH


PRIVATE = fc.collect(SITES, privacy=fc.Privacy(20, 1e-5))
SHOWN = {
    "site": (SITES[0], "mercy"),
    "calibration": (CAL, "mercy"),
    "levels": (SKETCH.personalise(SITES[0], [0.05, 0.1, 0.2]), "0.05"),
    "sketch": (SKETCH, "2 sites"),
    "private sketch": (PRIVATE, "epsilon=20"),
    "sets": (CAL.predict_set(Q, seed=0), "80 records"),
    "budget": (fc.Privacy(2, 1e-5), "epsilon=2"),
    "statement": (PRIVATE.privacy, "epsilon=20"),
}


@pytest.mark.parametrize(("thing", "fact"), SHOWN.values(), ids=SHOWN.keys())
def test_objects_are_shown_in_a_line_or_two(thing, fact):
    assert fact in repr(thing)
    assert len(repr(thing)) < 160


@pytest.mark.parametrize("thing", [CAL, SKETCH, PRIVATE, PRIVATE.privacy, CAL.predict_set(Q)])
def test_notebooks_show_a_table_that_loads_nothing(thing):
    html = thing._repr_html_()
    assert html.startswith("<table>")
    assert not any(word in html for word in ("http", "<script", "<img", "<link", "url("))


def test_what_users_call_things_is_escaped_in_notebooks():
    evil = "<script>alert('x')</script>"
    assert "<script" not in html_table(evil, {evil: evil})
    cal = fc.calibrate([fc.Site(evil, [0.1] * 20, [0, 1] * 10, n_classes=2)])[evil]
    assert "<script" not in cal._repr_html_()


def test_importing_fedcover_draws_nothing():
    import subprocess

    code = "import fedcover, sys; sys.exit('matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.figures
@pytest.mark.parametrize("thing", [CAL, SHOWN["levels"][0], SKETCH, PRIVATE, CAL.predict_set(Q)])
def test_results_draw_themselves(thing, tmp_path):
    from matplotlib.figure import Figure

    figure = thing.plot()
    assert isinstance(figure, Figure)
    assert figure.axes[0].has_data()
    assert thing.plot(width=4.0).get_figwidth() == 4.0
    assert "<svg" in figure._repr_svg_()
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.figures
def test_many_labels_are_drawn_too():
    probs, labels = outputs(300, n_classes=120)
    cal = fc.calibrate([site(probs, labels)], [0.1, 0.2])["mercy"]
    assert cal.plot().axes[0].has_data()
    assert cal.predict_set(probs).plot().axes[0].has_data()


def test_a_part_that_needs_posix_says_so(tmp_path, monkeypatch):
    from fedcover.engines.remote.client_state import ClientState

    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(fc.FedcoverError, match="Linux"), ClientState(tmp_path / "s").locked():
        pass
