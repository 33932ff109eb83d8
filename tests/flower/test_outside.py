"""Methods in a real deployment: two that the app brings along, and one of the competitors."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import fedcover as fc
from tests.flower.conftest import SITES
from tests.methods import outside as from_outside

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning"),
]

LINES = """
data = "data/site-NAME.npz"
state = "state/NAME"
out = "calibrations/NAME.json"
methods = "large-quantile,coarse-histogram,t-digest"
exact = true
key = "keys/NAME"
roster = "keys/roster"
least-sum = 2
seed = 0
"""

PLUG_IN = """
import fedcover
import outside

for entry in outside.ENTRIES:
    fedcover.methods.register(entry)
"""


@pytest.fixture(scope="module")
def deployment(deploy):
    with deploy(lines=LINES, ledgers=False) as made:
        shutil.copy(from_outside.__file__, made.folder / "app/outside.py")
        with Path(made.folder / "app/fedcover_app.py").open("a") as app:
            app.write(PLUG_IN)
        yield made


@pytest.fixture(scope="module")
def sites(deployment):
    paths = [deployment.folder / f"data/site-{name}.npz" for name in SITES]
    return [fc.Site.from_file(path, seed=0) for path in paths]


def loaded(deployment):
    paths = {name: deployment.folder / f"calibrations/{name}.json" for name in SITES}
    return {name: fc.Calibration.load(path) for name, path in paths.items()}


@pytest.mark.parametrize(
    ("name", "options", "method"),
    [
        ("large-quantile", "rank=2", from_outside.LargeQuantile(2)),
        ("t-digest", "per_label=true", fc.methods.TDigest(per_label=True)),
    ],
)
def test_it_gives_what_it_gives_in_process(outside, deployment, sites, name, options, method):
    settings = {"run": name, "method": name, "options": options, "alpha": "0.05,0.1"}
    text = deployment.run(**settings, epsilon=0.0)

    assert "calibrations at harbour, lakeside, northgate" in text
    wanted = fc.calibrate(sites, (0.05, 0.1), method)
    for site, cal in loaded(deployment).items():
        assert np.array_equal(cal.thresholds, wanted[site].thresholds)
        assert np.array_equal(cal.distances, wanted[site].distances)
        assert cal.options == wanted[site].options
        assert cal.guarantee == wanted[site].guarantee


def test_its_private_sums_are_made_securely(deployment):
    settings = {"run": "private", "method": "coarse-histogram", "options": "bins=8"}
    text = deployment.run(**settings, epsilon=2.0, alpha="0.2", threshold=3)

    assert "calibrations at harbour, lakeside, northgate" in text
    assert "(ε = 2, δ = 1e-05)-differentially private against a server or a site" in text
    cals = loaded(deployment)
    for cal in cals.values():
        assert cal.privacy.epsilon == pytest.approx(2, abs=1e-6)
        assert cal.privacy.view == "secure-sum"
        assert np.array_equal(cal.thresholds, cals["harbour"].thresholds)
    kept = deployment.folder / "runs/private/rounds"
    assert (kept / "0.survivors").exists()  # the server has a sum, and no site's part
