"""Where noise takes its bytes: repeated by a seed, never by the operating system, and by no patch.

Statistical tests run on fixed seeds, so they always give the same answer; on fresh bytes each would
fail a right sampler with probability 1e-6.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from fedcover.errors import FedcoverError
from fedcover.methods.base import Task
from fedcover.methods.exponential import draw
from fedcover.methods.sketch.method import Sketch
from fedcover.privacy import NoiseShares, Privacy, noise
from fedcover.privacy.randomness import (
    SYSTEM,
    SeededBytes,
    SystemBytes,
    randbelow,
    randbits,
    sample,
)
from fedcover.privacy.statement import SEEDED, compose_parallel, compose_sequential

FALSE_ALARM = 1e-6
FAR = np.abs(np.arange(1000) - 400) // 40

SAMPLERS = {
    "discrete gaussian": lambda source: noise.discrete_gaussian(1000, 50, source),
    "wide discrete gaussian": lambda source: noise.discrete_gaussian(2.0**40, 50, source),
    "narrow discrete gaussian": lambda source: noise.discrete_gaussian(0.7, 400, source),
    "integer gaussian": lambda source: noise.integer_gaussian(10**6, 50, source),
    "skellam": lambda source: noise.skellam(10**6, 50, source),
    "gaussian": lambda source: noise.gaussian(1.0, 50, source),
    "add gaussian": lambda source: noise.add_gaussian(np.zeros(50), 1.0, source),
    "gaussian share": lambda source: NoiseShares(50.0, 2).encode(np.zeros(50, int), source),
    "skellam share": lambda source: NoiseShares(50.0, 2, kind="skellam").draw_share(50, source),
    "further digits": lambda source: [randbits(source, 64) for _ in range(5)],
    "choice": lambda source: sample(source, 1000, 50),
    "exponential": lambda source: [draw(FAR, 900_000, source) for _ in range(50)],
}


def taken(source):
    return np.frombuffer(source.take(64), np.uint8).tolist()


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_takes_its_bytes_from_the_source_alone(name):
    sampler = SAMPLERS[name]
    first, again, next_seed, next_repetition = (
        np.asarray(sampler(SeededBytes(*of))).tolist() for of in ((1, 2), (1, 2), (2, 2), (1, 3))
    )
    assert first == again
    assert first != next_seed
    assert first != next_repetition
    assert np.asarray(sampler(SYSTEM)).tolist() != np.asarray(sampler(SYSTEM)).tolist()


class Watched:
    """Hands out the bytes given; all that is asked for afterwards is 0, and counted."""

    def __init__(self, first=b""):
        self.first, self.further = first, 0

    def take(self, count):
        if self.first:
            out, self.first = self.first, b""
            return out
        self.further += count
        return bytes(count)


@pytest.mark.parametrize("unclear", ["size", "kept"])
def test_a_candidate_on_a_boundary_takes_further_digits_from_the_source(unclear):
    """One in 10,000 or fewer does, so it is put there."""
    source, law = Watched(), noise.law_of(Fraction(1, 2))
    size = (
        noise.exp_bounds(Fraction(1), 32)[0] if unclear == "size" else 2**32 - 1
    )  # 2³² - 1: Z = 0
    kept = noise.exp_bounds(Fraction(1, 4), 31)[0] if unclear == "kept" else 0  # e^{-σ²/2}
    noise.settle(law, size, 0, kept, source)
    assert source.further == 8


def test_a_poisson_number_on_a_boundary_takes_further_digits_from_the_source():
    mean = Fraction(7, 2)
    source = Watched(np.array([noise.poisson_table(mean, 63)[1][3]], np.int64).tobytes())
    noise.poisson(mean, 1, source)
    assert source.further == 8


def test_tables_that_are_kept_hold_nothing_of_the_source():
    """A first draw fills them; a later one with another source must not depend on that."""
    warm = [np.asarray(f(SeededBytes(5))).tolist() for f in SAMPLERS.values()]
    for table in (noise.law_of, noise.tables, noise.poisson_table):
        table.cache_clear()
    assert [np.asarray(f(SeededBytes(5))).tolist() for f in SAMPLERS.values()] == warm


def test_seeded_bytes_are_one_stream_that_an_equal_object_repeats():
    source, other = SeededBytes(7, 1), SeededBytes(7, 1)
    one, two = taken(source), taken(source)
    assert one != two
    assert [taken(other), taken(other)] == [one, two]
    assert source == SeededBytes(7, 1) != SeededBytes(7, 2)
    assert hash(source) == hash(SeededBytes(7, 1))
    assert repr(source) == "SeededBytes(seed=7, repetition=1)"
    with pytest.raises(FrozenInstanceError):
        source.seed = 0


def test_the_bytes_of_a_seed_do_not_change_between_versions():
    """Tables of experiments that were published would not come out again."""
    assert SeededBytes(3, 4).take(8).hex() == "c0f6277896b947fc"
    assert noise.discrete_gaussian(1000, 4, SeededBytes(3, 4)).tolist() == [196, 303, 1147, 567]


def test_bytes_of_the_operating_system_repeat_nothing():
    assert taken(SYSTEM) != taken(SYSTEM)
    assert SystemBytes() == SYSTEM
    np.random.seed(0)  # noqa: NPY002
    one = taken(SYSTEM)
    np.random.seed(0)  # noqa: NPY002
    assert taken(SYSTEM) != one


@pytest.mark.parametrize("bad", [-1, 1.5, True, None, "1", 2**63])
@pytest.mark.parametrize("place", [0, 1])
def test_a_seed_is_a_whole_number(bad, place):
    with pytest.raises(FedcoverError, match=("seed is", "repetition is")[place]):
        SeededBytes(*((bad, 0), (0, bad))[place])


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 64, 1000])
def test_randbelow_is_uniform(limit):
    source = SeededBytes(1)
    drawn = np.array([randbelow(source, limit) for _ in range(20_000)])
    assert 0 <= drawn.min() <= drawn.max() < limit
    if limit > 1:
        assert stats.chisquare(np.bincount(drawn, minlength=limit)).pvalue > FALSE_ALARM


def test_every_subset_is_as_likely_as_any_other():
    source, seen = SeededBytes(2), dict.fromkeys(combinations(range(6), 3), 0)
    for _ in range(20_000):
        seen[tuple(sorted(sample(source, 6, 3).tolist()))] += 1
    assert stats.chisquare(list(seen.values())).pvalue > FALSE_ALARM
    assert sorted(sample(source, 50, 50).tolist()) == list(range(50))


def statements():
    """What the sketch promises with bytes of the operating system, and with seeded ones."""
    privacy = Privacy(2.0, 1e-5)
    return [
        Sketch().statement(Task(("a", "b"), 3, (0.1,), privacy=privacy, source=source))
        for source in (SYSTEM, SeededBytes(0))
    ]


def test_a_statement_about_seeded_noise_says_that_no_privacy_holds():
    real, seeded = statements()
    assert SEEDED not in real.effect + real.describe()
    assert SEEDED in seeded.effect
    assert seeded.describe().lower().startswith(SEEDED)
    assert {**vars(seeded), "effect": ""} == {**vars(real), "effect": ""}  # no number differs
    assert seeded.with_seeded_noise() == seeded


@pytest.mark.parametrize("compose", [compose_sequential, compose_parallel])
def test_statements_stay_marked_when_they_are_put_together(compose):
    real, seeded = statements()
    assert compose(real, real).effect == real.effect
    for pair in ((real, seeded), (seeded, real), (seeded, seeded)):
        assert compose(*pair).effect == seeded.effect
