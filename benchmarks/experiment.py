"""1000 repetitions of the simulated experiment (Figure 1) against a plain transcription of it.

A repetition has two federations (U = 1 and random U). The transcription is given their draws and
computes the seven methods that the paper describes. fedcover is timed twice: doing just that, and
doing all that `fedcover reproduce simulated` does: draws, ten methods, coverage and set sizes.
Nothing is timed unless both find the same thresholds. All run on one core, in turns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from statistics import median

import numpy as np
from rich.table import Table

from benchmarks import measure, transcription
from fedcover.errors import FedcoverWarning
from fedcover.experiments import runner
from fedcover.experiments.algorithm1 import Published
from fedcover.experiments.compare import ALPHA, COMPETITORS
from fedcover.experiments.federations import Draw, Simulated
from fedcover.experiments.simulated import SCORES, SimulatedStudy

CLOSE = 1e-6
"""γ. Roundings can decide on which side of a score an iterate falls, which moves it by ~η/N."""

STARTS = (0.0, 0.5, 1.0)
BATCH, ALL = 50, 1000
SAME, WHOLE = "fedcover, the same methods", "fedcover reproduce simulated"
METHODS = {
    **{name: COMPETITORS[name] for name in ("Local", "Global", "Oracle", "Estimated")},
    **{f"published, q₀ = {q:g}": Published(q, subsample=False) for q in STARTS},
}
FORMS = {
    "NumPy, gradient as printed": transcription.gradient_as_printed,
    "NumPy, gradient by np.clip": transcription.gradient_clipped,
}


def tables(quick: bool) -> Iterator[Table]:
    draws = _draws(1)
    worst = max(_difference(draw, gradient) for draw in draws for gradient in FORMS.values())
    if worst > CLOSE:
        raise SystemExit(f"transcription and fedcover differ by {worst:.2g}: nothing to compare")
    jobs: dict[str, measure.Prepare] = {
        form: partial(partial, _transcribed, draws, gradient) for form, gradient in FORMS.items()
    }
    jobs[SAME] = lambda: partial(_same_methods, _draws(BATCH))
    jobs[WHOLE] = partial(partial, runner.repeated, SimulatedStudy(), 0, range(BATCH))
    measure.in_turns(jobs, 1)  # compiles
    taken = measure.in_turns(jobs, 1 if quick else 5)
    each = {name: median(s) / (1 if name in FORMS else BATCH) for name, s in taken.items()}
    made = measure.table(
        f"The simulated experiment, {ALL} repetitions, all methods",
        "",
        "CPU time",
        "against the same methods",
        "required",
        "against everything",
        caption=f"Thresholds of seven methods agree to {worst:.1g}. One repetition of the "
        f"transcription and {BATCH} of fedcover are timed in turns and scaled up.",
    )
    for name, seconds in each.items():
        ratios = [f"{seconds / each[ours]:,.3g}×" for ours in (SAME, WHOLE)]
        need = "≥ 100×" if name.endswith("printed") else ""
        made.add_row(name, measure.seconds(ALL * seconds), ratios[0], need, ratios[1])
    yield made


def _draws(repetitions: int) -> list[Draw]:
    """Fresh draws, of which nothing is sorted yet."""
    return [
        Simulated(score).draw(np.random.default_rng([9, r, k]))
        for r in range(repetitions)
        for k, score in enumerate(SCORES.values())
    ]


def _same_methods(draws: list[Draw]) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoverWarning)
        return [m.thresholds(draw, ALPHA, 0) for draw in draws for m in METHODS.values()]


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
    return max(
        float(np.abs(competitor.thresholds(draw, ALPHA, 0) - found[name]).max())
        for name, competitor in METHODS.items()
    )
