"""Options of version 0.1: one error each, which says what to use now."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc

from .building import SKETCH, powers

CALLS = {
    "Sketch(mode)": (lambda: SKETCH(mode="guaranteed"), "certify=0.95"),
    "Sketch(mode) as by default": (lambda: SKETCH(mode="balanced"), "certify=0.95"),
    "Sketch(warp)": (lambda: SKETCH(warp="upper"), "standard bins"),
    "Sketch(design)": (lambda: SKETCH(design="tree"), "factorised"),
    "DPFedCP(mode)": (lambda: fc.methods.DPFedCP(mode="guaranteed"), "certify=0.95"),
    "DPFedCP(public_counts)": (lambda: fc.methods.DPFedCP(public_counts=True), "most_per_site"),
    "DPFedCP(public_counts=False)": (
        lambda: fc.methods.DPFedCP(public_counts=False),
        "most_per_site",
    ),
    "DPFedCP.paper(mode)": (lambda: fc.methods.DPFedCP.paper(mode="balanced"), "certify=0.95"),
}


@pytest.mark.parametrize(("call", "instead"), CALLS.values(), ids=CALLS.keys())
def test_an_option_that_is_gone_names_what_takes_its_place(call, instead):
    with pytest.raises(fc.FedcoverError, match=r"it went with version 0\.1") as found:
        call()
    assert instead in str(found.value)


def test_personalise_with_a_mode_names_certify():
    sketch = fc.collect(powers(np.random.default_rng(0), [50], np.ones(3)))
    with pytest.raises(fc.FedcoverError, match=r"mode='guaranteed'.*certify=0\.95"):
        sketch.personalise([1, 1, 1], mode="guaranteed")


@pytest.mark.parametrize("groups", ["auto", "learned"])
def test_groups_are_no_longer_learned(groups):
    with pytest.raises(fc.FedcoverError, match="groups"):
        SKETCH(groups=groups)


def test_options_that_are_gone_leave_no_trace():
    """Neither in the record of a calibration nor in equality."""
    assert set(vars(SKETCH())) == {"bins", "groups", "most_per_site", "confusion"}
    assert SKETCH() == SKETCH(mode=None, warp=None, design=None)
    assert not {"mode", "public_counts"} & set(vars(fc.methods.DPFedCP()))
