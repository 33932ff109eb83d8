"""method="auto": the sketch or DP-FedCP, by predicted error and cost, with the reason noted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover.api import choose_method
from fedcover.methods.base import Target, Task

from .building import SKETCH, budget, powers

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

LOCAL = fc.engines.InProcess()


class Far(fc.engines.InProcess):
    """An engine whose rounds take their time."""

    seconds_per_round = 30.0


def task(n_sites=3, targets=3, alphas=(0.1,), n_classes=10, records=1000, privacy=None):
    names = tuple(f"s{i}" for i in range(n_sites))
    return Task(
        names,
        n_classes,
        alphas,
        tuple(Target(n, (n,)) for n in names[:targets]),
        privacy=privacy,
        sizes=(records,) * n_sites,
    )


def chosen(engine=LOCAL, **facts):
    method, why = choose_method(task(**facts), engine)
    assert method.label in why
    return type(method).__name__, why


def test_without_privacy_many_pairs_take_the_sketch_and_one_takes_rounds():
    assert chosen(targets=1)[0] == "DPFedCP"
    assert chosen(targets=3)[0] == "Sketch"
    assert chosen(targets=1, alphas=(0.1, 0.2))[0] == "Sketch"
    assert "3 pairs of target and level" in chosen(targets=3)[1]
    assert chosen(targets=1, engine=Far())[0] == "Sketch"  # one round, because rounds are dear


def test_without_privacy_a_huge_table_takes_rounds_where_they_are_cheap():
    assert chosen(n_classes=20_000)[0] == "DPFedCP"
    assert chosen(n_classes=20_000, engine=Far())[0] == "Sketch"


def test_with_privacy_it_is_the_sketch_unless_sites_alone_are_predicted_to_be_nearer():
    """By public numbers: many records of few labels each, or noise that hides them."""
    name, why = chosen(n_sites=20, n_classes=10, records=500, privacy=budget())
    assert name == "Sketch"
    assert "predicted deviation of the coverage at α=0.1 and ε=2" in why
    name, why = chosen(n_sites=3, n_classes=1000, records=1000, privacy=budget(0.5))
    assert name == "Local"
    sketch, alone = (float(why.split(w)[1].split()[0].rstrip(",;")) for w in
                     ("sketch ± ", "target alone ± "))  # fmt: skip
    assert alone < sketch
    assert alone == pytest.approx(np.sqrt(0.09 / 1000), abs=5e-4)


def test_the_predicted_error_of_the_sketch_does_not_grow_with_targets():
    whys = [chosen(n_sites=50, targets=t, privacy=budget())[1] for t in (1, 50)]
    assert len({why.split("sketch ± ")[1].split()[0] for why in whys}) == 1


def test_where_numbers_of_records_are_not_public_nothing_is_predicted():
    given = task(privacy=budget(relation="add-remove"))
    method, why = choose_method(replace(given, sizes=None), LOCAL)
    assert isinstance(method, SKETCH)
    assert "nothing to predict" in why


def test_a_group_of_sites_goes_to_the_method_that_can_serve_it():
    base = task(targets=1)
    group = Task(base.sites, 10, (0.1,), (Target("g", ("s0", "s1")),), sizes=base.sizes)
    method, why = choose_method(group, LOCAL)
    assert isinstance(method, fc.methods.DPFedCP)
    assert "group of sites" in why


@pytest.mark.parametrize("privacy", [None, budget()], ids=["exact", "private"])
def test_auto_runs_what_it_chose_and_notes_why(privacy):
    sites = powers(np.random.default_rng(0), [600] * 6, [0.7, 1.0, 1.4])
    cals = fc.calibrate(sites, [0.1, 0.2], "auto", privacy=privacy)
    for cal in cals.values():
        assert cal.method in ("Sketch", "DP-FedCP")
        assert cal.notes[-1].startswith(cal.method)
        assert (cal.cost.rounds == 1) == (cal.method == "Sketch")
        assert (cal.privacy is None) == (privacy is None)
    one = fc.calibrate(sites, 0.1, SKETCH())["s0"]
    assert not any(note.startswith("Sketch") for note in one.notes)


def test_auto_serves_groups_and_given_distributions():
    sites = powers(np.random.default_rng(0), [200] * 4, [0.7, 1.0, 1.4])
    group = fc.calibrate(sites, 0.1, "auto", targets={"g": ["s0", "s1"]})["g"]
    assert group.method == "DP-FedCP"
    given = fc.calibrate(sites, [0.1, 0.2], "auto", targets={"x": [1, 2, 3]})["x"]
    assert given.method == "Sketch"


def test_auto_for_whole_sites_says_what_is_missing():
    """Neither method can do it without a fact that only the user knows."""
    sites = powers(np.random.default_rng(0), [200] * 4, [0.7, 1.0, 1.4])
    with pytest.raises(fc.FedcoverError, match="most_per_site"):
        fc.calibrate(sites, 0.1, "auto", privacy=budget(unit="site"))


@pytest.mark.parametrize("word", ["best", "", "sketches", "automatic"])
def test_other_words_are_refused(word):
    sites = powers(np.random.default_rng(0), [20] * 2, np.ones(3))
    with pytest.raises(fc.FedcoverError, match="method"):
        fc.calibrate(sites, 0.1, word)
