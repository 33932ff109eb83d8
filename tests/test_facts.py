"""The codec of facts: what is written is what is read, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcover._io.facts import digest, facts_of, from_json, made_of, to_json
from fedcover.calibration import Cost
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease
from fedcover.privacy.ledger_entries import Budget, Entry, entry_from
from fedcover.privacy.statement import PrivacyStatement

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("aé\n", max_size=3), inner),
    max_leaves=8,
)  # fmt: skip
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
positive = st.floats(1e-9, 1e9)
gaussian = st.builds(
    GaussianRelease,
    words,
    positive | st.integers(1, 9),
    positive,
    st.integers(1, 9),
    st.none() | st.tuples(st.integers(1, 9), st.integers(9, 99)),
)
events = st.lists(gaussian | st.builds(ExactRelease, words), max_size=3).map(tuple)


@given(st.dictionaries(words, plain, max_size=4), st.booleans(), st.booleans())
def test_facts_come_back_and_equal_facts_have_equal_text(facts, ascii_only, compact):
    text = to_json(facts, ascii_only=ascii_only, compact=compact)
    assert from_json(text) == from_json(text.encode()) == facts
    turned = dict(reversed(facts.items()))
    assert to_json(turned, ascii_only=ascii_only, compact=compact) == text
    assert text.isascii() or not ascii_only


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_not_written(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"a": [number]})


@pytest.mark.parametrize("text", [
    '{"a": 1, "a": 1}', '{"a": {"b": 1, "b": 2}}', '{"a": NaN}', '{"a": -Infinity}',
    '{"a": 1e999}', '{"a": ' + "9" * 5000 + "}", '{"a":' * 10**5, "[]", "3", "null", "", "{",
    b"\xff\xfe{", json.dumps({"a": 1}).encode("utf-16"), '{"a": 1} {}',
], ids=lambda text: repr(text[:16]))  # fmt: skip
def test_what_two_readers_could_read_as_two_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        from_json(text)


def test_nothing_longer_than_allowed_is_read():
    assert from_json(b'{"a": 1}', 8) == {"a": 1}
    with pytest.raises(ValueError, match="longer than 7"):
        from_json(b'{"a": 1}', 7)


@given(events, st.floats(1e-6, 1e6), st.lists(words, max_size=2))
def test_a_statement_comes_back_as_it_was(released, epsilon, public):
    one = PrivacyStatement(epsilon, 1e-5, events=released, public=tuple(public), home="x")
    assert made_of(PrivacyStatement, from_json(to_json(facts_of(one)))) == one
    assert made_of(PrivacyStatement | None, facts_of(None)) is None


@given(events)
def test_an_entry_of_a_ledger_comes_back_to_the_letter(released):
    one = Entry(3, "now", 0.5, "0" * 64, None, "q", "1" * 64, "2" * 64, released)
    again = entry_from(one.text())
    assert again == one
    assert again.text() == one.text()
    for spoilt in (one.text() + " ", one.text().replace('"number":3', '"number":3.0')):
        with pytest.raises(ValueError, match=r"."):
            entry_from(spoilt)


def test_numbers_of_numpy_become_plain_ones():
    event = GaussianRelease("x", np.float32(2), np.float64(1), np.int64(3), (np.int32(2), 5))
    facts = facts_of(event, Event)
    assert facts == {
        "type": "GaussianRelease", "what": "x", "sigma": 2.0, "sensitivity": 1.0, "count": 3,
        "sampled": [2, 5],
    }  # fmt: skip
    assert [type(facts[key]) for key in ("sigma", "sensitivity", "count")] == [float, float, int]
    assert type(facts["sampled"][0]) is int


@dataclass(frozen=True)
class Known:
    """A thing with fields of every kind."""

    name: str
    size: float
    exact: bool = False
    pair: tuple[int, str] | None = None
    more: dict[str, Any] | None = None
    budget: Budget | None = None


GOOD = {"name": "x", "size": 1}


@pytest.mark.parametrize("facts", [
    {}, {"name": "x"}, {**GOOD, "other": 1}, {**GOOD, "name": 1}, {**GOOD, "name": None},
    {**GOOD, "size": "1"}, {**GOOD, "size": True}, {**GOOD, "exact": 1}, {**GOOD, "exact": None},
    {**GOOD, "pair": [1]}, {**GOOD, "pair": [1, "b", 2]}, {**GOOD, "pair": ["b", 1]},
    {**GOOD, "pair": "1b"}, {**GOOD, "more": []}, {**GOOD, "budget": {}}, {**GOOD, "budget": 1},
    {**GOOD, "budget": {"epsilon": 1, "delta": 2}}, None, [], "name", 3,
], ids=repr)  # fmt: skip
def test_facts_of_something_else_are_refused(facts):
    with pytest.raises((ValueError, TypeError)):
        made_of(Known, facts)


def test_a_field_may_be_missing_where_it_has_a_default_and_a_whole_number_stays_one():
    assert made_of(Known, GOOD) == Known("x", 1)
    assert type(made_of(Known, GOOD).size) is int
    full = {**GOOD, "pair": [1, "b"], "more": {"a": []}, "budget": {"epsilon": 1, "delta": 0.1}}
    assert made_of(Known, full) == Known("x", 1, False, (1, "b"), {"a": []}, Budget(1, 0.1))


@pytest.mark.parametrize("facts", [
    {"what": "x"}, {"type": "Release", "what": "x"}, {"type": None, "what": "x"}, None, 3, "x",
    {"type": "ExactRelease", "what": "x", "sigma": 1}, {"type": ["ExactRelease"], "what": "x"},
], ids=repr)  # fmt: skip
def test_one_of_several_types_says_which(facts):
    assert made_of(Event, {"type": "ExactRelease", "what": "x"}) == ExactRelease("x")
    with pytest.raises((ValueError, TypeError)):
        made_of(Event, facts)


def test_costs_are_whole_numbers():
    assert made_of(Cost, facts_of(Cost(1, 2, 3))) == Cost(1, 2, 3)
    with pytest.raises(ValueError, match="not of type"):
        made_of(Cost, {"rounds": 1, "bytes_up": 2.5, "bytes_down": 3})


def test_a_digest_is_of_the_bytes():
    assert digest("ü") == digest("ü".encode()) != digest("u")
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
