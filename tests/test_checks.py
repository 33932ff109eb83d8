"""The checks themselves: what passes, what is refused, and that streams stay apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedcover import checks, outputs
from fedcover.classnames import column_names
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
    monkeypatch.setattr(outputs, "CHUNK_ELEMENTS", elements)
    rows = np.concatenate([np.arange(23)[s] for s in outputs.row_chunks(23, 7)])
    assert rows.tolist() == list(range(23))


def test_errors_name_the_row_even_in_later_chunks(monkeypatch):
    monkeypatch.setattr(outputs, "CHUNK_ELEMENTS", 4)
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


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: checks.whole(-1, "x", 0), r"0 and above\. Give a whole number ≥ 0, for example 0"),
        (lambda: checks.whole(-1, "x", 0, np.inf), r"0 and above"),
        (lambda: checks.whole(9, "x", 1, 5), r"from 1 to 5\. .*for example 5"),
        (lambda: checks.real(-1, "x", 0, np.inf), r"0 and above\. Give a number ≥ 0"),
        (lambda: checks.real(0, "x", 0, np.inf, open_low=True), r"above 0\. .*> 0, for example 1"),
        (lambda: checks.real(2, "x", 0, 1, open_low=True), r"in \(0, 1\], for example 0\.5"),
    ],
)
def test_advice_is_specific_and_without_infinities(call, says):
    with pytest.raises(FedcoverError, match=says) as caught:
        call()
    assert "inf" not in str(caught.value)
    assert "Change" not in str(caught.value)


def test_numbers_too_long_to_write_are_refused():
    for call in (lambda n: checks.whole(n, "x", 0), lambda n: checks.labels([n, 0], 3)):
        with pytest.raises(FedcoverError, match="very many digits"):
            call(10**6000)


NAMES = ("ant", "bee", "cat")


@pytest.mark.parametrize(
    "given",
    [
        [2, 0, 1],
        [2.0, 0.0, 1.0],
        np.array([2, 0, 1], dtype=object),
        np.array([2, 0.0, True], dtype=object),
        np.array([2, 0, 1], dtype=np.uint8),
        ["cat", "ant", "bee"],
        ("cat ", " ant", "bee"),
        np.array(["cat", "ant", "bee"]),
        np.array(["cat", "ant", "bee"], dtype=object),
        np.array([b"cat", b"ant", b"bee"]),
        np.array(["cat", "ant", "bee"], dtype=np.dtypes.StringDType()),
        ["2", "0", "1"],
        ["2.0", "0.", "1.00"],
        ["2", "ant", "1"],
    ],
    ids=repr,
)
def test_labels_as_numbers_and_names(given):
    found = checks.labels(given, 3, names=NAMES)
    assert found.dtype == np.int64
    assert found.tolist() == [2, 0, 1]


def test_labels_from_pandas():
    pandas = pytest.importorskip("pandas")
    text = pandas.Series(["cat", "ant"], index=[7, 8])
    for given in (text, text.astype("category"), pandas.Categorical(["cat", "ant"])):
        assert checks.labels(given, 3, names=NAMES).tolist() == [2, 0]
    for given in (pandas.Series([2, 0], dtype="Int64"), pandas.Categorical([2, 0])):
        assert checks.labels(given, 3).tolist() == [2, 0]
    assert checks.labels(pandas.Series([True, False]), 2).tolist() == [1, 0]
    with pytest.raises(FedcoverError, match=r"labels\[1\] is missing"):
        checks.labels(pandas.Series(["cat", None], dtype="category"), 3, names=NAMES)


def test_numbered_class_names_go_by_name():
    names = ("1", "2", "3")
    assert checks.labels(["3", "1", "2.0"], 3, names=names).tolist() == [2, 0, 1]
    with pytest.raises(FedcoverError, match="'0' is not a class"):
        checks.labels(["0"], 3, names=names)


@pytest.mark.parametrize(
    ("given", "names", "says"),
    [
        (["ant", "fly"], NAMES, r"'fly' is not a class \(record 1\).*ant, bee, cat"),
        (["ant", "3"], NAMES, "'3' is not a class"),
        (["9" * 23], NAMES, "is not a class"),
        (["9" * 9999], NAMES, "is not a class"),
        (["ant"], None, r"text \('ant'\).*Add label_names"),
        (["0", "1"], None, "Add label_names"),
        ([99999999999999999999999, 0], None, r"labels\[0\] is 9999"),
        ([10**400, 0], None, r"labels\[0\] is 1000"),
        (np.array([2**64 - 1, 0]), None, r"labels\[0\] is 1\.?844"),
        (np.array(["ant", 1], dtype=object), NAMES, r"labels\[0\] is 'ant', a str"),
        (np.array([1, None], dtype=object), None, r"labels\[1\] is missing \(None\)"),
        (np.array([1, np.nan], dtype=object), None, r"labels\[1\] is missing"),
        (np.array([0.5, 1], dtype=object), None, r"labels\[0\] is 0.5"),
        (np.array([0, np.inf], dtype=object), None, r"labels\[1\] is inf"),
        ([0, np.nan], None, r"labels\[1\] is nan"),
        ([1j], None, "complex numbers"),
        (np.eye(3), None, "argmax"),
    ],
)
def test_labels_that_cannot_be_read(given, names, says):
    with pytest.raises(FedcoverError, match=says):
        checks.labels(given, 3, names=names)


def test_column_names_of_tables():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[0.4, 0.6]])
    assert column_names(table) is None
    assert column_names(table.rename(columns=str)) is None
    assert column_names(table.set_axis(["ant", "bee"], axis=1)) == ("ant", "bee")
    assert column_names(table.set_axis(["ant", 3], axis=1)) is None
    assert column_names(table.set_axis([7, 3], axis=1)) == (7, 3)
    for other in (np.ones((2, 2)), [[1, 2]], None, pandas.DataFrame, pandas.Series([1])):
        assert column_names(other) is None


def test_masked_arrays_are_refused():
    with pytest.raises(FedcoverError, match="masked"):
        checks.probabilities(np.ma.masked_less(np.full((2, 2), 0.5), 0.1))
    with pytest.raises(FedcoverError, match="masked"):
        checks.labels(np.ma.array([0, 1], mask=[0, 1]), 2)


@pytest.mark.parametrize("kind", [TypeError, RuntimeError])
def test_what_a_tensor_says_is_kept(kind):
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            raise kind("can't convert cuda:0 tensor to numpy.\nmore")

    with pytest.raises(FedcoverError, match=r"Tensor: can't convert cuda:0 .*\.cpu\(\)") as caught:
        checks.probabilities(Tensor())
    assert "more" not in str(caught.value)


def test_row_sums_close_to_one_are_told_from_logits():
    close = np.array([[0.5, 0.5], [0.5123, 0.4527]])
    with pytest.raises(FedcoverError, match=r"row 1 sums to 0\.965.*within 0\.01.*keepdims"):
        checks.probabilities(close)
    far = np.array([[0.5, 0.5], [3.0, -1.0]])
    with pytest.raises(FedcoverError, match=r"row 1 has the negative entry -1.*logits="):
        checks.probabilities(far)
