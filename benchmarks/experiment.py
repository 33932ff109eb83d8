"""1000 repetitions of the simulated experiment (Figure 1) against a plain transcription of it.

A repetition is everything that `fedcover reproduce simulated` does: two federations (U = 1 and
random U), in each the draw, ten methods, coverage and set sizes. The transcription does less: it is
given the draws, computes the seven methods that the paper describes, and measures nothing. Nothing
is timed unless both find the same thresholds. Both run on one core, in turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

import numpy as np
from rich.table import Table

from benchmarks import measure, transcription
from fedcover.experiments import room
from fedcover.experiments.compare import ALPHA, COMPETITORS
from fedcover.experiments.federations import Draw, Simulated
from fedcover.experiments.published import Published
from fedcover.experiments.simulated import SCORES, SimulatedStudy

CLOSE = 1e-6
"""γ. Roundings can decide on which side of a score an iterate falls, which moves it by ~η/N."""

STARTS = (0.0, 0.5, 1.0)
BATCH, ALL = 20, 1000
FORMS = {
    "NumPy, gradient as printed": transcription.gradient_as_printed,
    "NumPy, gradient by np.clip": transcription.gradient_clipped,
}


def tables(quick: bool) -> Iterator[Table]:
    draws = [
        Simulated(s).draw(np.random.default_rng([9, k])) for k, s in enumerate(SCORES.values())
    ]
    worst = max(_difference(draw, gradient) for draw in draws for gradient in FORMS.values())
    if worst > CLOSE:
        raise SystemExit(f"transcription and fedcover differ by {worst:.2g}: nothing to compare")
    jobs: dict[str, measure.Prepare] = {
        form: partial(partial, _transcribed, draws, gradient) for form, gradient in FORMS.items()
    }
    jobs["fedcover"] = partial(partial, room._rows, SimulatedStudy(), 0, range(BATCH))
    measure.in_turns(jobs, 1)  # compiles
    taken = measure.in_turns(jobs, 1 if quick else 5)
    ours = median(taken.pop("fedcover")) / BATCH
    made = measure.table(
        f"The simulated experiment, {ALL} repetitions, all methods",
        "",
        "CPU time",
        "against fedcover",
        "required",
        caption=f"Thresholds of seven methods agree to {worst:.1g}. One repetition of the "
        f"transcription and {BATCH} of fedcover are timed in turns and scaled up. fedcover runs "
        "three methods more, draws the data and measures coverage and set sizes.",
    )
    for form, seconds in taken.items():
        need = "≥ 100×" if form.endswith("printed") else ""
        ratio = f"{median(seconds) / ours:,.0f}×"
        made.add_row(form, measure.seconds(ALL * median(seconds)), ratio, need)
    made.add_row("fedcover reproduce simulated", measure.seconds(ALL * ours), "1×", "")
    yield made


def _transcribed(
    draws: list[Draw], gradient: transcription.Gradient
) -> list[dict[str, np.ndarray]]:
    return [
        transcription.simulated_repetition(
            [s.scores for s in draw.sites],
            [s.labels for s in draw.sites],
            draw.priors,
            STARTS,
            gradient,
            ALPHA,
        )
        for draw in draws
    ]


def _difference(draw: Draw, gradient: transcription.Gradient) -> float:
    """The largest difference of a threshold between the transcription and fedcover."""
    (found,) = _transcribed([draw], gradient)
    ours = {name: COMPETITORS[name] for name in ("Local", "Global", "Oracle", "Estimated")}
    ours |= {f"published, q₀ = {q:g}": Published(q, subsample=False) for q in STARTS}
    return max(
        float(np.abs(competitor.thresholds(draw, ALPHA, 0) - found[name]).max())
        for name, competitor in ours.items()
    )
