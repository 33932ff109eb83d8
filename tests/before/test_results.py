"""Results are those of version 0.1.0, to the bit: every method, option and noise."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.before import cases

WANTED = json.loads((Path(__file__).parent / "results.json").read_text(encoding="utf-8"))

pytestmark = cases.one_kernel

computed = cache(cases.computed)


@pytest.mark.parametrize("name", WANTED["exact"])
def test_results_without_noise(name):
    assert computed("exact")[name] == WANTED["exact"][name]


@pytest.mark.parametrize("name", WANTED["noisy"])
def test_results_with_the_noise_of_a_seed(name):
    assert computed("noisy")[name] == WANTED["noisy"][name]


@pytest.mark.slow
@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("flwr", "ray")),
    reason="flwr or ray is not installed: pip install 'fedcover[flower]'",
)
@pytest.mark.parametrize("name", WANTED["simulated"])
def test_results_over_flower(name):
    found = computed("simulated")[name]
    assert found == WANTED["simulated"][name]


def test_every_case_was_written():
    """A case that is added here needs the version before to have computed it."""
    assert {part: list(found) for part, found in WANTED.items()} == {
        part: list(make()) for part, make in cases.PARTS.items()
    }
