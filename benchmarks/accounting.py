"""ε of 4000 composed releases, and the noise for a target ε: ours against composing one by one.

The naive way gives every release to dp-accounting's PLD accountant in turn; a few are timed and
scaled up. Ours hands it one equivalent Gaussian release, which is exact. Both must agree.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from rich.table import Table

from benchmarks import measure
from fedcover.privacy import accounting
from fedcover.privacy.events import GaussianRelease

RELEASES, SIGMA, DELTA = 4000, 10.0, 1e-5


def tables(quick: bool) -> Iterator[Table]:
    few = 3 if quick else 10
    began = time.process_time()
    accountant = PLDAccountant()
    for _ in range(few):
        accountant.compose(dp_event.GaussianDpEvent(SIGMA))
    naive = (time.process_time() - began) / few * RELEASES
    few_epsilon = accountant.get_epsilon(DELTA)

    events = [GaussianRelease("gradient", SIGMA, 1.0)] * RELEASES
    accounting.epsilon(events[:1], DELTA)  # imports
    accounting._gaussian_epsilon.cache_clear()
    began = time.process_time()
    epsilon = accounting.epsilon(events, DELTA)
    ours = time.process_time() - began
    began = time.process_time()
    accounting.noise_multiplier(1.2345, DELTA, RELEASES)
    noise = time.process_time() - began
    apart = abs(accounting.epsilon(events[:few], DELTA) - few_epsilon)

    made = measure.table(
        f"ε of {RELEASES} Gaussian releases, σ = {SIGMA:g}, δ = {DELTA:g}",
        "",
        "CPU time",
        "naive / ours",
        caption=f"{few} of {RELEASES} timed and scaled up; ε of these agrees to {apart:.0e}. "
        f"ε of all: {epsilon:.3f}.",
    )
    made.add_row("PLD, one by one", measure.seconds(naive), "")
    made.add_row("fedcover, ε", measure.seconds(ours), f"{naive / ours:,.0f}×")
    made.add_row("fedcover, noise for a target ε", measure.seconds(noise), f"{naive / noise:,.0f}×")
    yield made
