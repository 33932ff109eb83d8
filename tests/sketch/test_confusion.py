"""The confusion matrix: one more release, asked for, limited in size, and charged."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fedcover as fc
from fedcover.methods.sketch import client
from fedcover.methods.sketch.client import MOST_CONFUSED
from fedcover.privacy import epsilon
from fedcover.privacy.randomness import SYSTEM
from fedcover.wire import Message

from .building import FOUR, SKETCH, VIEWS, a_query, budget, zeros

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def sites(classes=4, sizes=(900, 600), n_sites=None):
    """Sites that know what the model predicted: the label or, one time in three, the next."""
    out = []
    for k, n in enumerate(sizes if n_sites is None else (sizes[0],) * n_sites):
        rng = np.random.default_rng([k, classes])
        y = rng.integers(0, classes, n)
        predicted = (y + (rng.random(n) < 1 / 3)) % classes
        out.append(fc.Site(f"s{k}", rng.random(n), y, n_classes=classes, predictions=predicted))
    return out


def counted(of):
    """Predicted × true, from the records themselves."""
    c = of[0].n_classes
    out = np.zeros((c, c), dtype=int)
    for s in of:
        np.add.at(out, (s.predictions, s.labels), 1)
    return out


def test_without_noise_it_counts_predicted_and_true_labels():
    given = sites()
    table = fc.collect(given, SKETCH(confusion=True)).table
    assert np.array_equal(table.confusion, counted(given))
    assert np.array_equal(table.confusion.sum(axis=0), table.labels)
    assert table.confusion_noise == ()
    assert table.confusion_sd == 0


def test_nobody_sends_it_unless_asked():
    for privacy in (None, budget()):
        sketch = fc.collect(sites(), privacy=privacy)
        assert sketch.table.confusion is None
        assert sketch.method.confusion is False
        if privacy is not None:
            assert len(sketch.privacy.events) == 2


@pytest.mark.parametrize("view", VIEWS)
def test_it_is_charged_and_its_noise_is_the_one_stated(view):
    """χ² of 900 cells at 1e-8."""
    given = sites(30, (40_000, 40_000))
    sketch = fc.collect(given, SKETCH(bins=FOUR, confusion=True), budget(view=view))
    said = sketch.privacy
    assert sorted(e.what for e in said.events) == [
        "confusion matrix", "label totals", "label × score table",
    ]  # fmt: skip
    assert said.epsilon == epsilon(said.events, 1e-5) == pytest.approx(2, rel=1e-6)
    off = (sketch.table.confusion / sketch.table.scale - counted(given)).ravel()
    ratio = float(off @ off) / sketch.table.confusion_sd**2
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], len(off))
    assert low <= ratio <= high


def test_the_table_pays_for_it():
    plain, asked = (
        fc.collect(sites(), SKETCH(bins=FOUR, confusion=c), budget()).table for c in (False, True)
    )
    assert asked.table_sd == pytest.approx(plain.table_sd * np.sqrt(0.85 / 0.65), rel=1e-9)
    assert asked.label_sd == pytest.approx(plain.label_sd, rel=1e-9)


def test_a_limit_to_records_holds_for_all_arrays_of_a_reply(monkeypatch):
    """The same records are in the table, the totals and the matrix."""
    monkeypatch.setattr(client.noise, "discrete_gaussian", zeros)
    asked = a_query(confusion=1, factored=0, most=50)
    (given, _) = sites()
    arrays = client.answer(asked, given).arrays
    assert arrays["confusion"].sum() == arrays["labels"].sum() == 50 * 64
    assert np.array_equal(arrays["confusion"].sum(axis=0), arrays["labels"])


def test_sites_that_do_not_know_predictions_are_named():
    known, unknown = sites()
    unknown = fc.Site("blind", unknown.scores, unknown.labels, n_classes=4)
    for privacy in (None, budget()):
        with pytest.raises(
            fc.FedcoverError, match="'blind' does not know what the model predicted"
        ):
            fc.collect([known, unknown], SKETCH(confusion=True), privacy)


def test_sites_made_from_probabilities_know_them():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 50)
    site = fc.Site.from_probabilities("s", probs, rng.integers(0, 3, 50), seed=0)
    table = fc.collect([site], SKETCH(confusion=True)).table
    assert table.confusion.sum(axis=1).tolist() == np.bincount(probs.argmax(axis=1)).tolist()


@pytest.mark.parametrize("privacy", [None, budget()], ids=["exact", "private"])
def test_many_labels_are_refused_before_anything_is_sent(monkeypatch, privacy):
    monkeypatch.setattr(SKETCH, "answer", lambda *a: pytest.fail("a site was asked"))
    with pytest.raises(fc.FedcoverError, match="confusion=True with 101 labels"):
        fc.collect(sites(MOST_CONFUSED + 1), SKETCH(confusion=True), privacy)


@pytest.mark.parametrize("given", ["yes", 1, None, np.array([True, False])], ids=repr)
def test_what_is_no_truth_is_refused(given):
    with pytest.raises(fc.FedcoverError, match="confusion"):
        SKETCH(confusion=given)


LIES = {
    "missing": lambda a: None,
    "flat": lambda a: a.ravel(),
    "a row less": lambda a: a[:-1],
    "floats": lambda a: a.astype(float),
    "negative": lambda a: -a - 1,
    "more records": lambda a: a + 1,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_site_that_lies_about_it_is_named(lie):
    class Liar(SKETCH):
        def answer(self, query, site, source=SYSTEM):
            sent = super().answer(query, site, source)
            if site.name != "s1":
                return sent
            new = lie(sent.arrays["confusion"])
            arrays = {k: v for k, v in sent.arrays.items() if k != "confusion"}
            return Message("sketch", arrays if new is None else {**arrays, "confusion": new})

    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites(), Liar(confusion=True))


def test_two_of_them_add_up_and_one_alone_is_dropped():
    one, two = sites()
    with_pairs = [fc.collect([s], SKETCH(bins=FOUR, confusion=True), budget(50.0))
                  for s in (one, two)]  # fmt: skip
    both = with_pairs[0] + with_pairs[1]
    assert both.table.confusion_sd == pytest.approx(
        np.hypot(*(s.table.confusion_sd for s in with_pairs))
    )
    assert np.abs(both.table.confusion / both.table.scale - counted([one, two])).max() < 30
    without = fc.collect([two], SKETCH(bins=FOUR), budget(50.0))
    mixed = with_pairs[0] + without
    assert mixed.table.confusion is None
    assert mixed.table.confusion_noise == ()
