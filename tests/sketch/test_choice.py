"""method="auto": the sketch or DP-FedCP, by predicted error and cost, with the reason noted."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.choice import choose_method
from fedcover.protocols.base import Target, Task

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


def test_with_privacy_the_smaller_predicted_error_wins():
    """DP-FedCP shares its budget among its targets; the sketch serves any number."""
    alone = chosen(n_sites=60, targets=1, n_classes=1000, records=700, privacy=budget())
    many = chosen(n_sites=60, targets=60, n_classes=10, records=700, privacy=budget())
    assert many[0] == "Sketch"
    for name, why in (alone, many):
        numbers = [float(w) for w in why.replace(",", " ").split() if w.startswith("0.")]
        sketch, iterative = numbers[-2:]
        assert (name == "Sketch") == (sketch <= iterative)
    assert "60 target(s)" in many[1]


def test_the_predicted_error_of_the_sketch_does_not_grow_with_targets():
    def errors(targets):
        why = chosen(n_sites=50, targets=targets, privacy=budget())[1]
        return [float(w) for w in why.replace(",", " ").split() if w.startswith("0.")][-2:]

    (one, iterative_one), (fifty, iterative_fifty) = errors(1), errors(50)
    assert one == fifty
    assert iterative_fifty > 2 * iterative_one


def test_a_group_of_sites_goes_to_the_method_that_can_serve_it():
    base = task(targets=1)
    group = Task(base.sites, 10, (0.1,), (Target("g", ("s0", "s1")),), sizes=base.sizes)
    method, why = choose_method(group, LOCAL)
    assert isinstance(method, fc.methods.DPFedCP)
    assert "group of sites" in why


@pytest.mark.parametrize("privacy", [None, budget()], ids=["exact", "private"])
def test_auto_runs_what_it_chose_and_notes_why(privacy):
    sites = powers(np.random.default_rng(0), [300] * 6, [0.7, 1.0, 1.4])
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


@pytest.mark.parametrize("word", ["best", "", "Sketch", "AUTO"])
def test_other_words_are_refused(word):
    sites = powers(np.random.default_rng(0), [20] * 2, np.ones(3))
    with pytest.raises(fc.FedcoverError, match="method"):
        fc.calibrate(sites, 0.1, word)
