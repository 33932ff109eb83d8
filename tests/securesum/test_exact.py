"""The sum is exact, whoever drops out and whenever, as long as enough sites stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.securesum.state import State
from tests.securesum.driving import STAGES, Federation


def test_256_000_integers_of_ten_sites_of_which_three_drop_out():
    sites = Federation(10, shapes={"bins": (1000, 250), "counts": (6000,)})
    sites.run(absent={"shares": ["s1"], "masked": ["s4"], "unmask": ["s8"]})
    sites.check(["s0", "s2", "s3", "s5", "s6", "s7", "s8", "s9"])
    assert set(sites.result.missing) == {"s1", "s4", "s8"}


@pytest.mark.parametrize("stage", STAGES)
def test_one_site_drops_out_in_any_stage(stage):
    sites = Federation(4)
    sites.run(absent={stage: ["s2"]})
    late = STAGES.index(stage) > STAGES.index("masked")  # its integers are in already
    sites.check(sites.names if late else ["s0", "s1", "s3"])
    assert list(sites.result.missing) == ["s2"]
    assert repr(stage) in sites.result.missing["s2"]


@pytest.mark.parametrize("stage", STAGES)
def test_fewer_than_the_threshold_end_the_run_in_any_stage(stage):
    sites = Federation(4)
    with pytest.raises(FedcoverError, match=f"2 of 4 sites .*'{stage}'.*'s0' .*'s3' ") as e:
        sites.run(absent={stage: ["s0", "s3"]})
    assert "at least 3" in e.value.allowed


def test_the_threshold_counts_over_all_stages():
    sites = Federation(6, threshold=4)
    absent = {"keys": ["s0"], "masked": ["s1"], "unmask": ["s2"]}
    with pytest.raises(FedcoverError, match=r"3 of 6 sites .*'unmask'"):
        sites.run(absent)


def test_a_run_that_ends_early_opens_nothing():
    """Below the threshold in the last stage the server has shares, and too few of each secret."""
    sites = Federation(5, threshold=4)
    sites.to("masked")
    secrets = {n: sites.states[n] for n in sites.names}
    with pytest.raises(FedcoverError, match="3 of 5"):
        sites.run(absent={"unmask": ["s0", "s1"]})
    for dealer in sites.names:
        opened = {
            k: sites.heard["unmask", name].arrays[f"seed:{dealer}"].tobytes()
            for k, name in enumerate(sites.names)
            if ("unmask", name) in sites.heard
        }
        assert len(opened) == 3
        assert crypto.combine(opened) != State.of_bytes(secrets[dealer]).seed


@given(st.data())
@settings(max_examples=30)
def test_exact_for_random_dropouts(data):
    count = data.draw(st.integers(3, 7), "sites")
    conspirators = data.draw(st.integers(0, count - 1), "conspirators")
    least = (count + conspirators) // 2 + 1
    threshold = data.draw(st.integers(least, count), "threshold")
    leave = data.draw(
        st.dictionaries(st.sampled_from(range(count)), st.sampled_from(STAGES), max_size=count)
    )
    absent = {stage: [f"s{k}" for k, when in leave.items() if when == stage] for stage in STAGES}
    length = data.draw(st.integers(1, 40), "length")
    sites = Federation(count, threshold, {"x": (length,)}, f"run {leave}", None, conspirators)
    whole = np.iinfo(np.int64)
    rng = np.random.default_rng(length)
    for name in sites.names:  # sums wrap around: they are exact modulo 2^64
        sites.values[name]["x"] = rng.integers(whole.min, whole.max, length, endpoint=True)
    if count - len(leave) < threshold:
        with pytest.raises(FedcoverError, match=f"at least {threshold}"):
            sites.run(absent)
    else:
        sites.run(absent)
        in_it = ("agree", "unmask", None)
        sites.check([n for k, n in enumerate(sites.names) if leave.get(k) in in_it])


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4"])
def test_every_integer_type(dtype):
    sites = Federation(3, shapes={"a": (), "b": (2, 3), "c": (4, 1, 2)})
    most = np.iinfo(dtype).max
    for values in sites.values.values():
        for key, shape in sites.spec.shapes.items():
            values[key] = np.full(shape, most, dtype=dtype)
    arrays = sites.run().arrays
    for key, shape in sites.spec.shapes.items():
        assert arrays[key].shape == shape
        assert {x % 2**64 for x in arrays[key].ravel().tolist()} == {3 * most % 2**64}


def test_negative_integers_of_a_narrow_type():
    sites = Federation(3, shapes={"x": (4,)})
    for values in sites.values.values():
        values["x"] = np.array([-128, -1, 0, 127], dtype=np.int8)
    assert sites.run().arrays["x"].tolist() == [-384, -3, 0, 381]


def test_arrays_in_any_memory_order():
    sites = Federation(3, shapes={"x": (3, 4)})
    for values in sites.values.values():
        values["x"] = np.asfortranarray(values["x"])
    sites.run()
    sites.check(sites.names)


def test_an_array_without_entries_may_be_among_others():
    sites = Federation(3, shapes={"none": (0, 3), "x": (2,)})
    sites.run()
    sites.check(sites.names)
