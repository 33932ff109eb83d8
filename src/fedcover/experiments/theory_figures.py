"""Figures of theory against practice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcover.experiments import theory_run as run
from fedcover.experiments import theory_weights
from fedcover.experiments.compare import ALPHA
from fedcover.experiments.drawing import Line, lines, violins
from fedcover.experiments.records import Results
from fedcover.experiments.theory import means, worst
from fedcover.report.both import plot

if TYPE_CHECKING:
    from fedcover.report.page import Section

QUIET, NOISY = (f"σ_g = {s:g}" for s in run.NOISES)
EXCESS = "excess loss S(q̄) - S(q*) (units of score)"
BOUNDS = [
    f"measured, {QUIET}",
    f"Theorem 4.1, {QUIET}",
    f"measured, {NOISY}",
    f"Theorem 4.1, {NOISY}",
    f"Theorem 4.1 repaired, {NOISY}",
]

UNSEEN = (
    "The bound is infinite for draws in which the target has no record of some label; left out."
)


def sections(results: Results) -> list[Section]:
    """All of them, in reading order."""
    return [
        *_smoothing(results),
        *_convergence(results),
        _lost_noise(results),
        _coverage(results),
        _published(results),
        *_weights(results),
        *_subsample(results),
    ]


def _note(results: Results, n: int | str = 1050, alpha: float = ALPHA) -> str:
    """What a caption says about the run."""
    used = f"α = {alpha:g}, n = {n} records, all of them used, random U"
    return f"Means over {results.repetitions} repetitions, {used}."


def _curves(results: Results, part: str, names: Sequence[str]) -> dict[str, Any]:
    found = {name: means(results, part, name) for name in names}
    return {name: Line(x[y > 0], y[y > 0]) for name, (x, y) in found.items()}  # for log axes


def _smoothing(results: Results) -> list[Section]:
    share = worst(results, "smoothing", "measured", "Theorem 3.1")
    vacuous = [
        x for x, y in zip(*means(results, "smoothed coverage", "Theorem 4.3"), strict=True) if y > 1
    ]
    return [
        plot(
            "theory-smoothing",
            "How far does smoothing move the quantile? (Theorem 3.1)",
            f"On average by at most {share:.2f} γ.",
            f"Distance of the smoothed quantile Q^γ from the exact one. {_note(results)}",
            "Distance of the smoothed quantile against gamma, with the bound",
            lines,
            _curves(results, "smoothing", ["measured", "Theorem 3.1"]),
            "γ (units of score)",
            "|Q^γ - Q| (units of score)",
            log="xy",
        ),
        plot(
            "theory-smoothed-coverage",
            "What does smoothing do to the coverage? (Theorem 4.3)",
            f"Far less than the bound, which says nothing from γ = {min(vacuous):.1g} on."
            if vacuous
            else "Far less than the bound.",
            "Difference in coverage between the smoothed and the exact quantile; Theorem 4.3 with "
            f"ε_optim = 0. Dashed: 1, above which a bound is empty. {_note(results)} {UNSEEN} "
            "Differences below 1/5000 cannot be seen with 5000 test records.",
            "Difference in coverage against gamma, with the bound",
            lines,
            _curves(results, "smoothed coverage", ["measured", "Theorem 4.3"]),
            "γ (units of score)",
            "coverage difference (share)",
            log="xy",
            target=1.0,
        ),
    ]


def _convergence(results: Results) -> list[Section]:
    base = f"γ = {run.GAMMA:g}, q₀ = {run.START:g}"
    parts = (
        ("rounds", "T (rounds)", f"K = {run.LOCAL_STEPS}, η = {run.STEP:g}, {base}."),
        ("local steps", "K (local steps)", f"T = {run.ROUNDS}, η = {run.STEP:g}, {base}."),
        (
            "step",
            "η (step size)",
            f"T = {run.ROUNDS}, K = {run.LOCAL_STEPS}, {base}. The theorem needs η ≤ γ/10.",
        ),
    )
    out: list[Section] = []
    for part, axis, settings in parts:
        shares = [
            worst(results, part, f"measured, {noise}", f"Theorem 4.1, {noise}")
            for noise in (QUIET, NOISY)
        ]
        out.append(
            plot(
                f"theory-{part.replace(' ', '-')}",
                f"How does Algorithm 1 converge with {axis.split()[0]}? (Theorem 4.1)",
                f"Its excess loss is at most {shares[0]:.2g} of the bound without noise, "
                f"{shares[1]:.2g} with σ_g = 10.",
                f"Excess smoothed loss of q̄_T. {settings} {_note(results)} Repaired: with the "
                "noise term that the proof loses.",
                f"Excess loss against {part}, with bounds",
                lines,
                _curves(results, part, BOUNDS),
                axis,
                EXCESS,
                log="xy",
            )
        )
    return out


def _lost_noise(results: Results) -> Section:
    share, repaired = (
        worst(results, "lost noise", "measured", name)
        for name in ("Theorem 4.1", "Theorem 4.1 repaired")
    )
    return plot(
        "theory-lost-noise",
        "Where does the printed Theorem 4.1 fail?",
        f"With one site, γ = 1, η = .005 and σ_g = 20 the excess loss reaches {share:.1f} times "
        f"the printed bound, and {repaired:.2f} of the bound with the term η σ_g² Σ λ² that the "
        "proof loses.",
        f"K = 1, q₀ = q*, scores uniform on [0, 1]. {_note(results, 100, 0.3)}",
        "Excess loss of one site against rounds, with printed and repaired bound",
        lines,
        _curves(results, "lost noise", ["measured", "Theorem 4.1", "Theorem 4.1 repaired"]),
        "T (rounds)",
        EXCESS,
        log="xy",
    )


def _coverage(results: Results) -> Section:
    names = ["measured", "Theorem 4.3, measured ε", "Theorem 4.3, Corollary 4.2"]
    share = worst(results, "coverage", names[0], names[1])
    least = float(means(results, "coverage", names[1])[1].min())
    return plot(
        "theory-coverage",
        "How much coverage do T rounds cost? (Theorem 4.3)",
        f"At most {share:.2g} of the bound, which is {least:.2g} at the least: any two coverages "
        "differ by less than 1.",
        "Difference in coverage between q̄_T and the exact quantile, and Theorem 4.3 with the "
        f"measured ε_optim and with that of Corollary 4.2. K = {run.LOCAL_STEPS}, η = "
        f"{run.STEP:g}, γ = {run.GAMMA:g}. Dashed: 1. {_note(results)} {UNSEEN}",
        "Difference in coverage against rounds, with bounds",
        lines,
        _curves(results, "coverage", names),
        "T (rounds)",
        "coverage difference (share)",
        log="xy",
        target=1.0,
    )


def _published(results: Results) -> Section:
    names = [f"q₀ = {q}" for q in ("0", "0.5", "1")]
    curves = _curves(results, "published", names)
    ends = ", ".join(f"{curves[n].y[run.CHECKPOINTS.index(200)]:.3f} ({n})" for n in names)
    return plot(
        "theory-published",
        "Do the published settings converge?",
        f"Not by T = 200, where q̄_T is off by {ends}; no theorem applies, as η is 10⁴ times γ/10.",
        f"Distance of q̄_T from the exact quantile; K = 20, η = 10⁻³, γ = 10⁻⁶. {_note(results)}",
        "Distance from the exact quantile against rounds, by start",
        lines,
        curves,
        "T (rounds)",
        "|q̄_T - Q| (units of score)",
        log="xy",
    )


def _weights(results: Results) -> list[Section]:
    first, last = theory_weights.TOTALS[0], theory_weights.TOTALS[-1]
    names = ["estimated ratios", "known ratios", "saddlepoint"]
    curves = _curves(results, "weights: distance", names)
    kinds = ["exact", "known ratios", "estimated ratios"]
    covers = _curves(results, "weights: coverage", kinds)
    x, top = means(results, "weights: distance", "largest weight")
    covers["Theorem 2.1, upper end"] = Line(x, np.minimum(1 - ALPHA + top, 1.0))
    known, guessed = curves["known ratios"].y, curves["estimated ratios"].y
    return [
        plot(
            "theory-weights",
            "How near are the ratios to the exact weights? (Theorem 2.1)",
            f"Known ratios differ by {known[0]:.2g} at N = {first} and {known[-1]:.2g} at N = "
            f"{last}; estimating them costs far more ({guessed[0]:.2g} and {guessed[-1]:.2g}).",
            "Total variation distance to the exact weights of a query of the likeliest label. "
            f"{_note(results, 'N')} One record in 21 is the target's.",
            "Distance to the exact weights against the number of records",
            lines,
            curves,
            "N (calibration records)",
            "total variation distance",
            log="xy",
        ),
        plot(
            "theory-weights-coverage",
            "Does it matter for the coverage?",
            f"At N = {last}: " + ", ".join(f"{k} {covers[k].y[-1]:.3f}" for k in kinds) + ".",
            f"Coverage at agent 2. Dashed: 1-α, the lower end of Theorem 2.1. "
            f"{_note(results, 'N')}",
            "Coverage with exact and approximate weights against the number of records",
            lines,
            covers,
            "N (calibration records)",
            "coverage (share of test records)",
            log="x",
            target=1 - ALPHA,
        ),
    ]


def _subsample(results: Results) -> list[Section]:
    mine = results.where(part="subsample")
    groups, error = {}, {}
    for total in theory_weights.LARGE:
        at = mine.where(x=float(total))
        groups[f"N = {total:,}"] = {
            k: at.values("y", curve=k) for k in ("all records", "subsample")
        }
    x = np.array(theory_weights.LARGE, dtype=np.float64)
    for k in ("all records", "subsample"):
        off = [abs(float(g[k].mean()) - (1 - ALPHA)) for g in groups.values()]
        error[k] = Line(x, np.array(off))
    error["Theorem 2.2"] = Line(*means(results, "subsample", "Theorem 2.2"))
    ratio = [float(g["subsample"].std() / g["all records"].std()) for g in groups.values()]
    return [
        plot(
            "theory-subsample",
            "What does the subsample of Theorem 2.2 cost?",
            f"A spread {min(ratio):.2f} to {max(ratio):.2f} times that on all records: half of "
            "the data is thrown away for the proof.",
            f"Coverage at agent 2 with known ratios, {results.repetitions} repetitions, "
            f"α = {ALPHA}, N = {theory_weights.LARGE[0]} to {theory_weights.LARGE[-1]:,} "
            "calibration records, N̄ = ⌊N/2⌋ of them in the subsample. Dashed: 1-α.",
            "Violins of coverage with and without subsample",
            violins,
            groups,
            1 - ALPHA,
            "calibration records",
            "coverage (share of test records)",
        ),
        plot(
            "theory-subsample-bound",
            "How near is Theorem 2.2?",
            "The error of the coverage on average is a small part of the bound, which says nothing "
            "while it is above 1 (dashed).",
            f"Distance of the mean coverage from 1-α, with known ratios. {_note(results, 'N')}",
            "Coverage error with and without subsample against the bound",
            lines,
            error,
            "N (calibration records)",
            "|coverage - (1-α)| (share of records)",
            log="xy",
            target=1.0,
        ),
    ]
