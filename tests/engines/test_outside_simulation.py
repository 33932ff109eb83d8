"""A method from outside the package on Flower's simulation runtime, whose workers are new to it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from tests.remote.federation import SUMS, made

import fedcover as fc

missing = [name for name in ("flwr", "ray", "cryptography", "Crypto") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(missing), reason=f"{', '.join(missing)} not installed: pip install 'fedcover[flower]'"
    ),
    pytest.mark.filterwarnings("ignore"),  # Flower and Ray have several
]


def test_it_gives_what_it_gives_in_process(outside):
    method = outside.LargeQuantile(rank=2)
    found = fc.calibrate(made(), (0.1, 0.2), method, engine=fc.engines.FlowerSimulation())
    wanted = fc.calibrate(made(), (0.1, 0.2), method)
    for name, cal in wanted.items():
        assert found[name].thresholds.tobytes() == cal.thresholds.tobytes()
        assert found[name].guarantee == cal.guarantee


def test_its_sums_are_made_securely(outside):
    engine = fc.engines.FlowerSimulation()
    method = outside.CoarseHistogram(8)
    cals = fc.calibrate(made(sizes=[500] * 4), 0.2, method, privacy=SUMS, engine=engine)
    exact = fc.calibrate(made(sizes=[500] * 4), 0.2, method)
    for name, cal in cals.items():
        assert cal.privacy.epsilon == pytest.approx(2, abs=1e-6)
        assert cal.cost.bytes_up > 10 * exact[name].cost.bytes_up  # keys, shares, masked sums
        assert abs(cal.thresholds - exact[name].thresholds).max() <= 1 / 8
