"""The checks themselves: what passes, what is refused, and that streams stay apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedcover import checks
from fedcover.errors import FedcoverError


@pytest.mark.parametrize(
    "alpha",
    [1.7, -3, 0, 1, float("nan"), float("inf"), True, "x", "0.1", None, [], [0.1, 0.1], [0.1, 2],
     [True, 0.1], {}, 1j, b"x", 10**400, object(), [[0.1], [0.1, 0.2]]],
    ids=lambda a: repr(a)[:20],
)  # fmt: skip
def test_bad_levels_are_refused(alpha):
    with pytest.raises(FedcoverError, match="alpha"):
        checks.alphas(alpha)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.1, (0.1,)),
        (np.float32(0.5), (0.5,)),
        (Fraction(1, 4), (0.25,)),
        ([0.2, 0.1], (0.2, 0.1)),
        (np.array([0.2, 0.1]), (0.2, 0.1)),
        (np.array(0.3), (0.3,)),
    ],
)
def test_levels_come_out_as_a_tuple_in_their_order(alpha, expected):
    assert checks.alphas(alpha) == expected


@pytest.mark.parametrize(
    "value", [-0.1, 1.1, float("nan"), float("inf"), True, "1", None, 10**400, np.ones(2), 1j]
)
def test_real_refuses(value):
    with pytest.raises(FedcoverError, match="x is"):
        checks.real(value, "x", 0, 1)


def test_real_refuses_what_no_float_can_hold():
    with pytest.raises(FedcoverError, match="x is"):
        checks.real(10**400, "x", 0, np.inf)


def test_real_accepts_and_knows_its_ends():
    assert [checks.real(v, "x", 0, 1) for v in (0, 1, Fraction(1, 4), np.float32(0.5))] == [
        0, 1, 0.25, 0.5,
    ]  # fmt: skip
    with pytest.raises(FedcoverError):
        checks.real(0, "x", 0, 1, open_low=True)


@pytest.mark.parametrize("value", [0, 1.0, True, "3", None, float("nan"), np.array([2, 3])])
def test_whole_refuses(value):
    with pytest.raises(FedcoverError, match="x is"):
        checks.whole(value, "x", 1)


def test_whole_accepts_numpy_integers():
    assert type(checks.whole(np.int16(4), "x", 1)) is int


@pytest.mark.parametrize("value", ["c", None, 1, ["a"], np.array(["a", "b"]), {}], ids=repr)
def test_choice_refuses(value):
    with pytest.raises(FedcoverError, match="x is"):
        checks.choice(value, "x", ["a", "b"])


@pytest.mark.parametrize("elements", [1, 10, 64, 10**6])
def test_chunks_cover_every_row_once(elements, monkeypatch):
    monkeypatch.setattr(checks, "CHUNK_ELEMENTS", elements)
    rows = np.concatenate([np.arange(23)[s] for s in checks.row_chunks(23, 7)])
    assert rows.tolist() == list(range(23))


def test_errors_name_the_row_even_in_later_chunks(monkeypatch):
    monkeypatch.setattr(checks, "CHUNK_ELEMENTS", 4)
    probs = np.full((9, 2), 0.5)
    probs[7] = 0.4
    with pytest.raises(FedcoverError, match=r"row 7 sums to 0\.8"):
        checks.probabilities(probs)


def test_streams_of_different_purposes_differ():
    def draw(*purpose):
        return checks.generator(0, *purpose).random()

    assert draw("site", "a") == draw("site", "a")
    assert len({draw(), draw("site", "a"), draw("site", "b"), draw("predict", "a")}) == 4
    given = np.random.default_rng(0)
    assert checks.generator(given, "site") is given


@pytest.mark.parametrize("seed", [-1, 1.5, "x", True, [1]])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(FedcoverError, match="seed"):
        checks.generator(seed)


def test_half_precision_is_widened_and_floats_are_not_copied():
    half = np.full((2, 2), 0.5, dtype=np.float16)
    assert checks.probabilities(half).dtype == np.float32
    single = half.astype(np.float32)
    assert checks.probabilities(single) is single


def test_distribution_normalises_and_refuses():
    assert checks.distribution([2, 6], 2, "p").tolist() == [0.25, 0.75]
    for bad in ([1], [0, 0], [-1, 2], [np.nan, 1], [np.inf, 1], "x", None, [[1, 1]]):
        with pytest.raises(FedcoverError):
            checks.distribution(bad, 2, "p")
    assert checks.distribution([1e308, 1e308], 2, "p").tolist() == [0.5, 0.5]
