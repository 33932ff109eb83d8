"""The demo's numbers in words: every sentence follows from the results."""

from __future__ import annotations

from fedcover.demo import data
from fedcover.demo.experiment import GLOBAL, LOCAL, OURS, Results
from fedcover.report.estimate import Estimate


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def promise(alpha: float) -> str:
    """1-α in percent, without decimals where it has none."""
    whole = abs(100 * alpha - round(100 * alpha)) < 1e-9
    return percent(1 - alpha, 0 if whole else 1)


def coverage(e: Estimate) -> str:
    """Mean and half-width of its confidence interval, in percent."""
    return f"{100 * e.mean:.1f} ± {100 * e.half_width:.1f}"


def size(e: Estimate) -> str:
    return f"{e.mean:.2f} ± {e.half_width:.2f}"


def data_size(n: float) -> str:
    """A number of bytes, short."""
    for unit in ("B", "kB", "MB"):
        if n < 999.5:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 99.5 else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} GB"


def epsilon(results: Results, method: str) -> str:
    """ε of a method's privacy statement, or "none" where it makes none."""
    cal = results.calibrations[method][data.SMALL.name]
    value = getattr(cal.privacy, "epsilon", None)
    return "none" if value is None else f"{value:g}"


def lowest(results: Results, method: str) -> tuple[data.Hospital, Estimate]:
    """The site with the lowest mean coverage."""
    pairs = zip(results.hospitals, results.coverages(method), strict=True)
    return min(pairs, key=lambda pair: pair[1].mean)


def at_small(results: Results, method: str) -> Estimate:
    """Coverage at the small site."""
    return results.coverages(method)[results.hospitals.index(data.SMALL)]


def reading(results: Results) -> tuple[str, str]:
    """The table in two plain sentences."""
    return _about_global(results), _about_ours(results)


def headline(results: Results) -> str:
    """The result in one line."""
    wanted = promise(results.alpha)
    hospital, worst = lowest(results, GLOBAL)
    wrong = worst.verdict(1 - results.alpha) == "below"
    kept = all(e.keeps(1 - results.alpha) for e in results.coverages(OURS))
    if wrong:
        first = f"gives {hospital.title} {percent(worst.mean)} instead of the promised {wanted}"
    elif worst.keeps(1 - results.alpha):
        first = f"keeps the promised {wanted} at every hospital here"
    else:
        first = f"gives the hospitals {_range(results.coverages(GLOBAL))}, promised {wanted}"
    ours = f"every hospital its {wanted}" if kept else f"them {_range(results.coverages(OURS))}"
    return f"One threshold for all ({GLOBAL}) {first}. {OURS} gives {ours}."


def _about_global(results: Results) -> str:
    target = 1 - results.alpha
    found = list(zip(results.hospitals, results.coverages(GLOBAL), strict=True))
    below = [(h, e) for h, e in found if e.verdict(target) == "below"]
    above = [(h, e) for h, e in found if e.verdict(target) == "above"]
    text = f"Global promises {promise(results.alpha)}"
    text += f" but gives {_list(below)}" if below else " and falls short at no hospital here"
    if above:
        text += f"; {_list(above)} {'get' if len(above) > 1 else 'gets'} more than needed"
    return text + "."


def _about_ours(results: Results) -> str:
    ours, alone = at_small(results, OURS), at_small(results, LOCAL)
    m = results.names.index(OURS)
    leaves = (
        "raw scores leave the sites"
        if results.methods[OURS].shares_scores
        else "no raw score leaves a site"
    )
    return (
        f"{OURS} gives the hospitals {_range(results.coverages(OURS))} in "
        f"{results.rounds[m]:.0f} rounds, and {leaves}; from split to split "
        f"{data.SMALL.title}, with {data.SMALL.size} records, gets {_spread(ours)}, "
        f"calibrated alone {_spread(alone)}."
    )


def too_few(results: Results) -> list[str]:
    """Where there were too few records for α."""
    return [
        f"{method} had too few records for α = {results.alpha:g} at {site.title()} in {count} of "
        f"{results.repetitions} repetitions: the labels concerned are then in every set."
        for (method, site), count in results.too_few.items()
    ]


def _range(estimates: list[Estimate]) -> str:
    low, high = min(e.mean for e in estimates), max(e.mean for e in estimates)
    return f"{100 * low:.1f} to {100 * high:.1f}%"


def _spread(e: Estimate) -> str:
    return f"{100 * e.least:.0f} to {100 * e.most:.0f}%"


def _list(pairs: list[tuple[data.Hospital, Estimate]]) -> str:
    parts = [f"{h.title} {percent(e.mean)}" for h, e in sorted(pairs, key=lambda p: p[1].mean)]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
