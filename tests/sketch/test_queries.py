"""A server that asks for what was not agreed is refused before any record is looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedcover as fc
from fedcover.methods.base import ask_all
from fedcover.methods.sketch import client
from fedcover.methods.sketch.client import MOST_CONFUSED
from fedcover.methods.sketch.table import MOST_BINS, MOST_CELLS
from fedcover.position import TOP, positions
from fedcover.wire import Message

from .building import ARRAYS, QUERY, SKETCH, a_query, budget, powers


class Untouchable:
    """A site of which only the public facts may be read."""

    name, n_classes = "s", 4

    @property
    def scores(self):
        raise AssertionError("a query that should be refused has reached the data")

    labels = label_counts = calibration_counts = positions = distances = predictions = scores

    def __len__(self):
        raise AssertionError("a query that should be refused has counted the records")


NAN, INF = math.nan, math.inf
NUMBERS = [
    *[(key, NAN) for key in QUERY],
    *[(key, INF) for key in QUERY],
    *[(key, -1) for key in QUERY],
    ("table_sigma", 1e300),
    ("label_sigma", 2.0**51),
    ("confusion_sigma", 2.0**51),
    ("label_sigma", -1e-9),
    ("scale", 0),
    ("scale", 2**41),
    ("scale", 1.5),
    ("factored", 2),
    ("factored", 0.5),
    ("confusion", 2),
    ("confusion", 0.5),
    ("most", 0.5),
    ("most", 2**41),
]
WIDE = np.linspace(0, TOP - 1024, MOST_BINS + 1).astype(np.int64)
BAD_ARRAYS = {
    "falling cuts": {"cuts": ARRAYS["cuts"][::-1]},
    "repeated cuts": {"cuts": positions([0.5, 0.5])},
    "cuts of scores": {"cuts": np.array([0.1, 0.5])},
    "negative cuts": {"cuts": np.array([-1, 5])},
    "a cut at the top": {"cuts": np.array([5, TOP])},
    "cuts beyond the top": {"cuts": np.array([5, 2**63 - 1])},
    "cuts of other whole numbers": {"cuts": ARRAYS["cuts"].astype(np.uint64)},
    "a table of cuts": {"cuts": ARRAYS["cuts"][None]},
    "one number for cuts": {"cuts": np.array(5)},
    "no cuts": {"cuts": np.empty(0, dtype=np.int64)},
    "too many cuts": {"cuts": WIDE[:MOST_BINS]},
    "cuts of text": {"cuts": np.array(["a", "b"])},
    "cuts of objects": {"cuts": np.array([1, 2], dtype=object)},
    "a row too high": {"rows": np.array([0, 1, 2, 4])},
    "a negative row": {"rows": np.array([0, 1, 2, -1])},
    "rows of floats": {"rows": np.arange(4.0)},
    "too few rows": {"rows": np.arange(3)},
    "no rows": {"rows": np.arange(0)},
    "one number for rows": {"rows": np.array(3)},
    "a table of rows": {"rows": np.zeros((4, 1), dtype=np.int64)},
}
HOSTILE = {f"{key}={value}": a_query(**{key: value}) for key, value in NUMBERS}
HOSTILE |= {name: a_query(arrays) for name, arrays in BAD_ARRAYS.items()}


def without(values, key):
    return {k: v for k, v in values.items() if k != key}


HOSTILE |= {f"without {k}": Message("sketch", ARRAYS, without(QUERY, k)) for k in QUERY}
HOSTILE |= {f"without {k}": Message("sketch", without(ARRAYS, k), QUERY) for k in ARRAYS}
HOSTILE["nothing"] = Message("sketch")


@pytest.mark.parametrize("asked", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_queries_are_refused_before_data_is_touched(asked):
    with pytest.raises(fc.FedcoverError):
        SKETCH().answer(asked, Untouchable())


@pytest.mark.parametrize("unit", ["record", "site"])
@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - {"too few rows"}))
def test_hostile_queries_are_refused_when_their_price_is_worked_out(name, unit):
    """That is before the answer, by a site that does not trust the query."""
    with pytest.raises(fc.FedcoverError):
        SKETCH().charges(HOSTILE[name], budget(unit=unit), 3)


@pytest.mark.parametrize("unit", ["record", "site"])
def test_too_few_rows_are_priced_far_beyond_any_budget(unit):
    """How many there should be, the answer knows."""
    events = SKETCH().charges(HOSTILE["too few rows"], budget(unit=unit), 3)
    assert fc.privacy.epsilon(events, 1e-5) > 1e5


def test_the_largest_query_that_is_good_is_one_cut_less():
    """Or too many cuts would be refused for something else."""
    assert client.charges(a_query({"cuts": WIDE[: MOST_BINS - 1]}), budget(), 3)


def test_a_query_cannot_make_a_site_build_a_huge_table():
    """Refused from the shapes, by a site of very many labels."""

    class Many(Untouchable):
        n_classes = MOST_CELLS // 1000

    cuts, rows = WIDE[: MOST_BINS - 1], np.arange(Many.n_classes)
    with pytest.raises(fc.FedcoverError, match="what was agreed"):
        SKETCH().answer(a_query({"cuts": cuts, "rows": rows}), Many())
    with pytest.raises(fc.FedcoverError, match="what was agreed"):
        client.charges(a_query({"cuts": cuts, "rows": rows}), budget(), 3)


def test_a_confusion_matrix_of_many_labels_is_refused():
    class Many(Untouchable):
        n_classes = MOST_CONFUSED + 1

    asked = a_query({"rows": np.arange(MOST_CONFUSED + 1)}, confusion=1, confusion_sigma=300.0)
    with pytest.raises(fc.FedcoverError, match="what was agreed"):
        SKETCH().answer(asked, Many())
    assert SKETCH().charges(a_query({"rows": np.arange(MOST_CONFUSED)}, confusion=1), budget(), 3)


class Asks(SKETCH):
    """A server half that asks for one thing."""

    def __init__(self, asked):
        super().__init__()
        object.__setattr__(self, "asked", asked)

    def server(self, task):
        return (yield ask_all(task, self.asked))


@pytest.mark.parametrize(
    "name", ["factored=2", "most=nan", "most=inf", "scale=0", "table_sigma=-1", "falling cuts",
             "without rows", "without scale", "nothing", "too few rows", "cuts of scores"],
)  # fmt: skip
def test_a_refused_query_is_not_charged(tmp_path, name):
    site = powers(np.random.default_rng(0), [5000], np.ones(4))[0]
    ledger = fc.privacy.Ledger(tmp_path / "a.db", create=fc.privacy.Budget(9.0, 1e-5))
    engine = fc.engines.InProcess(ledgers={site.name: ledger}, run_name="x")
    with pytest.raises(fc.FedcoverError):
        fc.collect([site], Asks(HOSTILE[name]), budget(9.0), engine)
    assert ledger.state().spent == 0
    assert len(ledger.state().entries) == 1  # the budget


def test_the_query_of_the_tests_is_a_good_one():
    """Or all of the above would prove nothing."""
    site = powers(np.random.default_rng(0), [50], np.ones(4))[0]
    got = SKETCH().answer(a_query(), site).arrays
    assert {k: v.shape for k, v in got.items()} == {"table": (4, 4), "labels": (4,)}
    assert all(v.dtype == np.int64 for v in got.values())
