"""Theory against practice: the paper's theorems beside what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as students_t

from fedcover.experiments import theory_measures as measured
from fedcover.experiments.compare import ALPHA, method_seed, plain
from fedcover.experiments.federations import Simulated
from fedcover.experiments.records import Results
from fedcover.experiments.sections import claim
from fedcover.experiments.study import Agreement, Row
from fedcover.report.figures.charts import Line, lines, violins
from fedcover.report.page import Plot, Section, responsive
from fedcover.scores import APS

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class TheoryStudy:
    """Every theorem that can be measured, on the simulated data with random U."""

    name: ClassVar[str] = "theory"
    title: ClassVar[str] = "Theory against practice: which bounds hold, and by how much?"
    repetitions: ClassVar[int] = 200
    quick: ClassVar[int] = 10

    def settings(self) -> dict[str, Any]:
        return plain(
            {
                "alpha": ALPHA,
                "score": "APS, random U",
                "sizes": list(Simulated.sizes),
                "priors": str(Simulated.priors.tolist()),
                "gamma": measured.GAMMA,
                "step": measured.STEP,
                "local_steps": measured.LOCAL_STEPS,
                "rounds": measured.ROUNDS,
                "start": measured.START,
                "gradient_noise": list(measured.NOISES),
                "gammas": list(measured.GAMMAS),
                "checkpoints": list(measured.LONG),
                "local_steps_tried": list(measured.LOCAL),
                "steps_tried": list(measured.STEPS),
                "records_exact_weights": list(measured.TOTALS),
                "records_subsample": list(measured.LARGE),
            }
        )

    def repetition(self, seed: int, r: int) -> list[Row]:
        rng = np.random.default_rng([seed, r])
        draw = Simulated(APS()).draw(rng)
        problem = measured.Problem.of(draw, ALPHA)
        return [
            *measured.smoothing_rows(draw, problem),
            *measured.convergence_rows(problem, rng),
            *measured.coverage_rows(draw, problem, rng),
            *measured.published_rows(problem, rng),
            *measured.lost_noise_rows(rng),
            *measured.weight_rows(rng, method_seed(seed, r)),
            *measured.subsample_rows(rng, method_seed(seed, r)),
        ]

    def sections(self, results: Results) -> Sequence[Section]:
        return sections(results)

    def agreement(self, results: Results) -> Sequence[Agreement]:
        quiet, noisy = (f"σ_g = {s:g}" for s in measured.NOISES)
        parts = ("rounds", "local steps", "step")
        share = worst_draw(results, "smoothing", "measured", "Theorem 3.1")
        out = [_bound("Theorem 3.1", "|Q^γ - Q| ≤ γ, every γ", share, "in no draw above it")]
        for noise, compare, band in (
            (quiet, worst_draw, "in no draw above it"),
            (noisy, worst, "on average not above it"),
        ):
            curve = f"measured, {noise}"
            share = max(compare(results, p, curve, f"Theorem 4.1, {noise}") for p in parts)
            out.append(_bound("Theorem 4.1", f"excess loss by T, K and η, {noise}", share, band))
        for noise in (quiet, noisy):
            share = worst(results, "best step", f"measured, {noise}", f"Corollary 4.2, {noise}")
            out.append(_bound("Corollary 4.2", f"excess loss at η*, {noise}", share))
        for name in ("Theorem 4.1", "Theorem 4.1 repaired"):
            share = worst(results, "lost noise", "measured", name)
            out.append(_bound(name, "excess loss of one site, γ = 1, σ_g = 20", share))
        for what, part, name in (
            ("coverage lost to smoothing, by γ", "smoothed coverage", "Theorem 4.3"),
            ("coverage lost after T rounds", "coverage", "Theorem 4.3, measured ε"),
        ):
            share = worst_draw(results, part, "measured", name)
            out.append(_bound("Theorem 4.3", what, share, "in no draw above it"))
        return [*out, _converged(results), _exact(results), _halved(results)]


def worst(results: Results, part: str, curve: str, bound: str) -> float:
    """The largest mean of what is measured over the mean of its bound, where there is one."""
    at, values = means(results, part, curve)
    limits = dict(zip(*means(results, part, bound), strict=True))
    pairs = zip(at.tolist(), values.tolist(), strict=True)
    return max(y / limits[x] for x, y in pairs if limits.get(x, 0.0) > 0)


def worst_draw(results: Results, part: str, curve: str, bound: str) -> float:
    """The largest share of its bound in any single draw, for bounds that hold without noise."""
    values, limits = (
        dict(zip(zip(m["repetition"], m["x"], strict=True), m["y"], strict=True))
        for m in (results.where(part=part, curve=c).columns for c in (curve, bound))
    )
    return max(float(y / limits[k]) for k, y in values.items() if limits.get(k, 0.0) > 0)


def means(results: Results, part: str, curve: str) -> tuple[Float64, Float64]:
    """x of a curve and the mean of y over the repetitions; x is 0 where it is no grid.

    A bound that is infinite for a draw says nothing, and the draw is left out.
    """
    rows = results.where(part=part, curve=curve)
    finite = np.isfinite(rows.columns["y"])
    x, y = rows.columns["x"][finite], rows.columns["y"][finite]
    if part == "best step":
        return np.zeros(1), np.array([y.mean()])
    at = np.unique(x)
    return at, np.array([y[x == one].mean() for one in at])


def _each(results: Results, part: str, curve: str) -> Float64:
    return np.asarray(results.values("y", part=part, curve=curve), dtype=np.float64)


def _bound(where: str, what: str, share: float, band: str = "on average not above it") -> Agreement:
    holds = share <= 1
    text = f"holds: at most {share:.2g} of it" if holds else f"fails: {share:.2g} times the bound"
    return claim(where, what, "a bound", text, band, agrees=holds)


def _converged(results: Results) -> Agreement:
    ends = {q: _each(results.where(x=200.0), "published", f"q₀ = {q}").mean() for q in ("0", "1")}
    text = "; ".join(f"q₀ = {q}: {v:.3f} off" for q, v in ends.items())
    return claim(
        "Section 5",
        "q̄_T at T = 200, K = 20, η = 10⁻³, γ = 10⁻⁶",
        "has converged",
        text,
        "within .01 of the exact quantile",
        agrees=max(ends.values()) <= 0.01,
    )


def _exact(results: Results) -> Agreement:
    inside, off = True, []
    for total in measured.TOTALS:
        rows = results.where(x=float(total))
        v = _each(rows, "weights: coverage", "exact")
        top = _each(rows, "weights: distance", "largest weight").mean()
        slack = students_t.ppf(0.999, len(v) - 1) * v.std(ddof=1) / np.sqrt(len(v))
        inside &= bool(1 - ALPHA - slack <= v.mean() <= 1 - ALPHA + top + slack)
        off.append(f"{v.mean():.3f}")
    totals = f"N = {measured.TOTALS[0]} to {measured.TOTALS[-1]}"
    return claim(
        "Theorem 2.1",
        f"coverage with exact weights, {totals}",
        "in [1-α, 1-α + E max p]",
        ", ".join(off),
        "confidence interval of 99.8 %",
        agrees=inside,
    )


def _halved(results: Results) -> Agreement:
    rows, shares = results.where(part="subsample"), []
    for total in measured.LARGE:
        at = rows.where(x=float(total))
        half, limit = (at.values("y", curve=c).mean() for c in ("subsample", "Theorem 2.2"))
        shares.append(abs(half - (1 - ALPHA)) / limit)
    return _bound("Theorem 2.2", "error of the coverage on a subsample, by N", max(shares))


QUIET, NOISY = (f"σ_g = {s:g}" for s in measured.NOISES)
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
        *_plot_smoothing(results),
        *_plot_convergence(results),
        _plot_lost_noise(results),
        _plot_coverage(results),
        _plot_published(results),
        *_plot_weights(results),
        *_plot_subsample(results),
    ]


def _note(results: Results, n: int | str = 1050, alpha: float = ALPHA) -> str:
    """What a caption says about the measured."""
    used = f"α = {alpha:g}, n = {n} records, all of them used, random U"
    return f"Means over {results.repetitions} repetitions, {used}."


def _curves(results: Results, part: str, names: Sequence[str]) -> dict[str, Line]:
    curves = {name: means(results, part, name) for name in names}
    return {name: Line(x[y > 0], y[y > 0]) for name, (x, y) in curves.items()}  # for log axes


def _plot(
    name: str, title: str, answer: str, caption: str, alt: str, *xy: Any, **axes: Any
) -> Plot:
    """Curves and the names of their axes, which are logarithmic unless said."""
    axes = {"log": "xy", **axes}
    return responsive(f"theory-{name}", title, answer, caption, alt, lines, *xy, **axes)


def _plot_smoothing(results: Results) -> list[Section]:
    share = worst(results, "smoothing", "measured", "Theorem 3.1")
    vacuous = [
        x for x, y in zip(*means(results, "smoothed coverage", "Theorem 4.3"), strict=True) if y > 1
    ]
    return [
        _plot(
            "smoothing",
            "How far does smoothing move the quantile? (Theorem 3.1)",
            f"On average by at most {share:.2f} γ.",
            f"Distance of the smoothed quantile Q^γ from the exact one. {_note(results)}",
            "Distance of the smoothed quantile against gamma, with the bound",
            _curves(results, "smoothing", ["measured", "Theorem 3.1"]),
            "γ (units of score)",
            "|Q^γ - Q| (units of score)",
        ),
        _plot(
            "smoothed-coverage",
            "What does smoothing do to the coverage? (Theorem 4.3)",
            f"Far less than the bound, which says nothing from γ = {min(vacuous):.1g} on."
            if vacuous
            else "Far less than the bound.",
            "Difference in coverage between the smoothed and the exact quantile; Theorem 4.3 with "
            f"ε_optim = 0. Dashed: 1, above which a bound is empty. {_note(results)} {UNSEEN} "
            "Differences below 1/5000 cannot be seen with 5000 test records.",
            "Difference in coverage against gamma, with the bound",
            _curves(results, "smoothed coverage", ["measured", "Theorem 4.3"]),
            "γ (units of score)",
            "coverage difference (share)",
            target=1.0,
        ),
    ]


def _plot_convergence(results: Results) -> list[Section]:
    base = f"γ = {measured.GAMMA:g}, q₀ = {measured.START:g}"
    parts = (
        ("rounds", "T (rounds)", f"K = {measured.LOCAL_STEPS}, η = {measured.STEP:g}, {base}."),
        (
            "local steps",
            "K (local steps)",
            f"T = {measured.ROUNDS}, η = {measured.STEP:g}, {base}.",
        ),
        (
            "step",
            "η (step size)",
            f"T = {measured.ROUNDS}, K = {measured.LOCAL_STEPS}, {base}. The theorem needs "
            "η ≤ γ/10.",
        ),
    )
    out: list[Section] = []
    for part, axis, settings in parts:
        shares = [
            worst(results, part, f"measured, {noise}", f"Theorem 4.1, {noise}")
            for noise in (QUIET, NOISY)
        ]
        out.append(
            _plot(
                part.replace(" ", "-"),
                f"How does Algorithm 1 converge with {axis.split()[0]}? (Theorem 4.1)",
                f"Its excess loss is at most {shares[0]:.2g} of the bound without noise, "
                f"{shares[1]:.2g} with σ_g = 10.",
                f"Excess smoothed loss of q̄_T. {settings} {_note(results)} Repaired: with the "
                "noise term that the proof loses.",
                f"Excess loss against {part}, with bounds",
                _curves(results, part, BOUNDS),
                axis,
                EXCESS,
            )
        )
    return out


def _plot_lost_noise(results: Results) -> Section:
    share, repaired = (
        worst(results, "lost noise", "measured", name)
        for name in ("Theorem 4.1", "Theorem 4.1 repaired")
    )
    return _plot(
        "lost-noise",
        "Where does the printed Theorem 4.1 fail?",
        f"With one site, γ = 1, η = .005 and σ_g = 20 the excess loss reaches {share:.1f} times "
        f"the printed bound, and {repaired:.2f} of the bound with the term η σ_g² Σ λ² that the "
        "proof loses.",
        f"K = 1, q₀ = q*, scores uniform on [0, 1]. {_note(results, 100, 0.3)}",
        "Excess loss of one site against rounds, with printed and repaired bound",
        _curves(results, "lost noise", ["measured", "Theorem 4.1", "Theorem 4.1 repaired"]),
        "T (rounds)",
        EXCESS,
    )


def _plot_coverage(results: Results) -> Section:
    names = ["measured", "Theorem 4.3, measured ε", "Theorem 4.3, Corollary 4.2"]
    share = worst(results, "coverage", names[0], names[1])
    least = float(means(results, "coverage", names[1])[1].min())
    return _plot(
        "coverage",
        "How much coverage do T rounds cost? (Theorem 4.3)",
        f"At most {share:.2g} of the bound, which is {least:.2g} at the least: any two coverages "
        "differ by less than 1.",
        "Difference in coverage between q̄_T and the exact quantile, and Theorem 4.3 with the "
        f"measured ε_optim and with that of Corollary 4.2. K = {measured.LOCAL_STEPS}, η = "
        f"{measured.STEP:g}, γ = {measured.GAMMA:g}. Dashed: 1. {_note(results)} {UNSEEN}",
        "Difference in coverage against rounds, with bounds",
        _curves(results, "coverage", names),
        "T (rounds)",
        "coverage difference (share)",
        target=1.0,
    )


def _plot_published(results: Results) -> Section:
    names = [f"q₀ = {q}" for q in ("0", "0.5", "1")]
    curves = _curves(results, "published", names)
    ends = ", ".join(f"{curves[n].y[measured.CHECKPOINTS.index(200)]:.3f} ({n})" for n in names)
    return _plot(
        "published",
        "Do the published settings converge?",
        f"Not by T = 200, where q̄_T is off by {ends}; no theorem applies, as η is 10⁴ times γ/10.",
        f"Distance of q̄_T from the exact quantile; K = 20, η = 10⁻³, γ = 10⁻⁶. {_note(results)}",
        "Distance from the exact quantile against rounds, by start",
        curves,
        "T (rounds)",
        "|q̄_T - Q| (units of score)",
    )


def _plot_weights(results: Results) -> list[Section]:
    first, last = measured.TOTALS[0], measured.TOTALS[-1]
    names = ["estimated ratios", "known ratios", "saddlepoint"]
    curves = _curves(results, "weights: distance", names)
    kinds = ["exact", "known ratios", "estimated ratios"]
    covers = _curves(results, "weights: coverage", kinds)
    x, top = means(results, "weights: distance", "largest weight")
    covers["Theorem 2.1, upper end"] = Line(x, np.minimum(1 - ALPHA + top, 1.0))
    known, guessed = curves["known ratios"].y, curves["estimated ratios"].y
    return [
        _plot(
            "weights",
            "How near are the ratios to the exact weights? (Theorem 2.1)",
            f"Known ratios differ by {known[0]:.2g} at N = {first} and {known[-1]:.2g} at N = "
            f"{last}; estimating them costs far more ({guessed[0]:.2g} and {guessed[-1]:.2g}).",
            "Total variation distance to the exact weights of a query of the likeliest label. "
            f"{_note(results, 'N')} One record in 21 is the target's.",
            "Distance to the exact weights against the number of records",
            curves,
            "N (calibration records)",
            "total variation distance",
        ),
        _plot(
            "weights-coverage",
            "Does it matter for the coverage?",
            f"At N = {last}: " + ", ".join(f"{k} {covers[k].y[-1]:.3f}" for k in kinds) + ".",
            f"Coverage at agent 2. Dashed: 1-α, the lower end of Theorem 2.1. "
            f"{_note(results, 'N')}",
            "Coverage with exact and approximate weights against the number of records",
            covers,
            "N (calibration records)",
            "coverage (share of test records)",
            log="x",
            target=1 - ALPHA,
        ),
    ]


def _plot_subsample(results: Results) -> list[Section]:
    rows = results.where(part="subsample")
    groups, error = {}, {}
    for total in measured.LARGE:
        at = rows.where(x=float(total))
        groups[f"N = {total:,}"] = {
            k: at.values("y", curve=k) for k in ("all records", "subsample")
        }
    x = np.array(measured.LARGE, dtype=np.float64)
    for k in ("all records", "subsample"):
        off = [abs(float(g[k].mean()) - (1 - ALPHA)) for g in groups.values()]
        error[k] = Line(x, np.array(off))
    error["Theorem 2.2"] = Line(*means(results, "subsample", "Theorem 2.2"))
    ratio = [float(g["subsample"].std() / g["all records"].std()) for g in groups.values()]
    return [
        responsive(
            "theory-subsample",
            "What does the subsample of Theorem 2.2 cost?",
            f"A spread {min(ratio):.2f} to {max(ratio):.2f} times that on all records: half of "
            "the data is thrown away for the proof.",
            f"Coverage at agent 2 with known ratios, {results.repetitions} repetitions, "
            f"α = {ALPHA}, N = {measured.LARGE[0]} to {measured.LARGE[-1]:,} "
            "calibration records, N̄ = ⌊N/2⌋ of them in the subsample. Dashed: 1-α.",
            "Violins of coverage with and without subsample",
            violins,
            groups,
            1 - ALPHA,
            "calibration records",
            "coverage (share of test records)",
        ),
        _plot(
            "subsample-bound",
            "How near is Theorem 2.2?",
            "The error of the coverage on average is a small part of the bound, which says nothing "
            "while it is above 1 (dashed).",
            f"Distance of the mean coverage from 1-α, with known ratios. {_note(results, 'N')}",
            "Coverage error with and without subsample against the bound",
            error,
            "N (calibration records)",
            "|coverage - (1-α)| (share of records)",
            target=1.0,
        ),
    ]
