"""What is said of privacy, against what is done: own scores, and the tables of the pages."""

import re
from pathlib import Path

import numpy as np
import pytest

import fedcover as fc
from fedcover.methods import registry
from fedcover.privacy.statement import OWN_SCORES

DOCS = Path(__file__).parents[1] / "docs"
BUDGET = fc.Privacy(epsilon=4, delta=1e-5)


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(3)
    return [
        fc.Site(name, rng.random(n), rng.integers(0, 3, n), n_classes=3)
        for name, n in (("a", 4000), ("b", 3000), ("c", 300))
    ]


@pytest.fixture(scope="module")
def sketch(sites):
    return fc.collect(sites, privacy=BUDGET)


def own_records_set_it(cal, site):
    return bool(np.isin(cal.thresholds, site.scores).any())


@pytest.mark.filterwarnings("ignore::fedcover.errors.FedcoverWarning")
@pytest.mark.parametrize("n", [3, 300, 3000, 30_000])
@pytest.mark.parametrize("certify", [None, 0.9])
def test_the_statement_says_whether_own_scores_set_the_thresholds(sketch, n, certify):
    """Blended or certified alone, the threshold can be one record's score; else it is a bin's."""
    rng = np.random.default_rng(n)
    site = fc.Site("d", rng.random(n), rng.integers(0, 3, n), n_classes=3)
    own = {} if certify else {"local_scores": site.scores}
    cal = sketch.personalise(site, certify=certify, **own)
    assert cal.privacy is not None
    said = OWN_SCORES in cal.privacy.describe()
    assert said or not own_records_set_it(cal, site)
    if n == 30_000:
        assert said
        assert own_records_set_it(cal, site)
    alone = sketch.personalise(site.label_counts)
    assert said or certify or np.array_equal(cal.thresholds, alone.thresholds)


def test_without_own_scores_only_the_label_mix_is_named(sketch, sites):
    said = sketch.personalise(sites[0].label_counts).privacy.describe()
    assert "label distribution" in said
    assert OWN_SCORES not in said


def test_a_saved_calibration_says_it_too(sketch, sites, tmp_path):
    cal = sketch.personalise(
        sites[0].label_counts, local_scores=np.random.default_rng(0).random(10**5)
    )
    cal.save(tmp_path / "c.json")
    assert OWN_SCORES in fc.Calibration.load(tmp_path / "c.json").privacy.describe()


def rows(page, heading):
    """Class name → cells of the table under a heading of a page."""
    text = (DOCS / page).read_text(encoding="utf-8").split(heading, 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    lines = [line.strip("| ").split(" | ") for line in table.group().splitlines()[2:]]
    return [(re.findall(r"`([A-Z]\w+)", line[0]), line) for line in lines]


def test_the_page_of_guarantees_has_every_method_and_what_leaves_a_site():
    table = rows("guarantees.md", "## Method by method")
    classes = {e.method.__name__: e for e in registry.entries(studies=True)}
    assert {name for names, _ in table for name in names} == set(classes)
    for names, line in table:
        for name in names:
            entry = classes[name]
            assert ("every score and label" in line[2]) == (registry.SCORES in entry.leaves), name
            if entry.leaves == "nothing":
                assert "nothing" in line[2] or "as without" in line[2]


def test_the_pages_name_the_methods_that_state_an_epsilon(sites):
    """As they do when they are asked: the others refuse a budget."""
    sentence = re.search(
        r"\*\*No differential privacy without a budget\.\*\*(.*?)make an ε",
        (DOCS / "guarantees.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    named = set(re.findall(r"`(\w+)\(\)`", sentence.group(1)))
    stating = set()
    for entry in registry.entries():
        try:
            cals = fc.calibrate(sites, method=entry.method(), privacy=BUDGET)
        except fc.FedcoverError:
            assert not entry.private
            continue
        assert cals["a"].privacy is not None
        stating.add(entry.method.__name__)
    assert named == stating == {e.method.__name__ for e in registry.entries() if e.private}


def test_the_page_of_privacy_lists_what_is_released_as_the_events_do(sites):
    """Names and shares of the budget: 1/z² of a release is its part of the whole."""
    page = (DOCS / "privacy.md").read_text(encoding="utf-8")
    text = page.split("## What is released", 1)[1].split("\n## ", 1)[0]
    listed = re.findall(r"^\d\. (.*?)(?=^\d\. |^$)", text, re.MULTILINE | re.DOTALL)
    rng = np.random.default_rng(0)
    guessing = [
        fc.Site(s.name, s.scores, s.labels, n_classes=3, predictions=rng.integers(0, 3, len(s)))
        for s in sites
    ]
    plain = fc.collect(sites, privacy=BUDGET).privacy
    full = fc.collect(guessing, fc.methods.Sketch(confusion=True), privacy=BUDGET).privacy
    assert len(listed) == len(full.events) == len(plain.events) + 1
    for item, words in zip(listed, ("table", "label totals", "confusion matrix"), strict=True):
        assert sum(words in event.what for event in full.events) == 1
        assert words.split()[0] in item
    for statement, words, item in ((plain, "totals", listed[1]), (full, "confusion", listed[2])):
        parts = {e.what: e.count / e.noise_multiplier**2 for e in statement.events}
        part = next(part for what, part in parts.items() if words in what)
        said = int(re.search(r"with (\d+) %", item).group(1))
        assert round(100 * part / sum(parts.values())) == said


def test_errors_name_the_methods_that_the_registry_does(sites, outside):
    """The list in an error is made of the registry, with what came from elsewhere."""
    for can, more in (("private", {"privacy": BUDGET}), ("certifies", {"certify": 0.9})):
        wanted = {f"{e.method.__name__}()" for e in registry.entries() if getattr(e, can)}
        with pytest.raises(fc.FedcoverError) as refused:
            fc.calibrate(sites, method=fc.methods.Pooled(), **more)
        assert set(re.findall(r"\w+\(\)", refused.value.allowed)) == wanted


def test_the_exponential_mechanism_says_its_epsilon_in_words_and_makes_no_statement(sites):
    method = fc.methods.ExponentialMechanism(epsilon=1.5)
    cal = fc.calibrate(sites, method=method)["a"]
    assert cal.privacy is None
    assert "must be trusted" in cal.reveals
    assert "1.5-differentially private" in cal.reveals


def test_own_scores_are_spoken_of_wherever_they_set_thresholds(sites):
    """Local states ε = 0 and says in the same breath what its thresholds are."""
    cal = fc.calibrate(sites, method=fc.methods.Local(), privacy=BUDGET)["a"]
    assert own_records_set_it(cal, sites[0])
    assert "score of one record" in cal.privacy.describe()
    assert "do not publish them" in cal.privacy.describe()
