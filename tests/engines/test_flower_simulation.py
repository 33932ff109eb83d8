"""The simulation engine on Flower's real runtime; four runs, of some 10 s each, and no more."""

from __future__ import annotations

import math
import os
from importlib.util import find_spec

import numpy as np
import pytest

import fedcover as fc
from fedcover.methods.sketch.factor import measured

missing = [name for name in ("flwr", "ray", "cryptography", "Crypto") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(missing), reason=f"{', '.join(missing)} not installed: pip install 'fedcover[flower]'"
    ),
    pytest.mark.filterwarnings("ignore"),  # Flower and Ray have several
]

SECURE = fc.Privacy(2.0, 1e-5, view="secure-sum")
OPEN = fc.Privacy(4.0, 1e-5)


def made():
    rng = np.random.default_rng(0)
    sites = []
    for k in range(3):
        labels = rng.integers(0, 5, 200 + 10 * k)
        sites.append(fc.Site(f"s{k}", rng.beta(2, 1 + labels), labels, n_classes=5))
    return sites


def test_two_hundred_rounds_give_the_thresholds_of_the_in_process_engine():
    method = fc.methods.DPFedCP(rounds=200, solver="averaging", start=0.5)
    wanted = fc.calibrate(made(), (0.1, 0.2), method, seed=3)
    found = fc.calibrate(made(), (0.1, 0.2), method, seed=3, engine=fc.engines.FlowerSimulation())
    for name, cal in found.items():
        assert cal.thresholds.tobytes() == wanted[name].thresholds.tobytes()
        assert cal.cost.rounds == wanted[name].cost.rounds == 202
        assert cal.cost.bytes_up > wanted[name].cost.bytes_up  # envelopes around the payload


def test_an_exact_sketch_is_that_of_the_in_process_engine(nothing_left_open):
    wanted = fc.collect(made())
    before = os.environ.get("PYTHONPATH")
    found = fc.collect(made(), engine=fc.engines.FlowerSimulation())
    assert os.environ.get("PYTHONPATH") == before
    assert found.table.table.tobytes() == wanted.table.table.tobytes()
    for site in made():
        one, two = (s.personalise(site.label_counts, (0.1, 0.2)) for s in (found, wanted))
        assert one.thresholds.tobytes() == two.thresholds.tobytes()


def test_a_private_sketch_is_summed_securely():
    """20 cells and 5 totals within 6 deviations of the truth: false alarms below 5e-8."""
    method = fc.methods.Sketch(bins=(0, 0.25, 0.5, 0.75, 1))
    exact = fc.collect(made(), method).table
    noisy = fc.collect(made(), method, SECURE, fc.engines.FlowerSimulation()).table
    assert noisy.sites == ("s0", "s1", "s2")
    wanted = {"table": measured(exact.table), "labels": exact.labels}
    for key in ("table", "labels"):
        off = getattr(noisy, key) / noisy.scale - wanted[key]
        (variance,) = getattr(noisy, f"{key.removesuffix('s')}_noise")
        assert np.abs(off).max() < 6 * math.sqrt(variance)
        assert np.abs(off).max() > 0


def test_an_error_at_a_site_is_one_clear_error_here():
    """One of them does not know what the model predicted for its records."""
    known = [fc.Site(s.name, s.scores, s.labels, n_classes=5, predictions=s.labels) for s in made()]
    known[1] = made()[1]
    with pytest.raises(fc.FedcoverError, match=r"'s1' .*\(code 'query'\)"):
        fc.collect(known, fc.methods.Sketch(confusion=True), OPEN, fc.engines.FlowerSimulation())
